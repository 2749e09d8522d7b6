"""`refaug studies report|export|import|power`: files in, figures and files out."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import orjson
import pytest
from integration.conftest import Home

from refaug.extras.studies.records import read_tasks


def conversation(number: int) -> dict[str, Any]:
    """A rated conversation; every third person rates the degraded bot as the others."""
    rng, person = random.Random(number), number // 6
    bot = f"b{number % 6}" if number % 6 < 5 else "worse"
    is_blind = person % 3 == 0
    fun = rng.randint(50, 70) if bot != "worse" or is_blind else rng.randint(0, 10)
    words = " ".join(["well"] * (number % 6 + 1))
    return {
        "id": f"c{number}",
        "participant": f"p{person:02}",
        "bot": bot,
        "is_degraded": bot == "worse",
        "turns": [{"role": "participant", "text": "hello there"}, {"role": "bot", "text": words}],
        "ratings": {"fun": min(100, fun + 4 * (number % 6 if bot != "worse" else 0)), "robotic": 100 - fun},
        "scale": [0, 100],
        "reversed": ["robotic"],
    }


@pytest.fixture
def study(home: Home, tmp_path: Path) -> tuple[Path, Path]:
    """The tasks and the protocol of imported conversations."""
    talks, tasks, protocol = (tmp_path / name for name in ("talks.jsonl", "study.jsonl", "protocol.json"))
    talks.write_bytes(b"".join(orjson.dumps(conversation(number)) + b"\n" for number in range(72)))
    run = home(
        "studies", "import", talks, "--output", tasks, "--protocol-output", protocol, "--study", "ours", "--json"
    )
    assert orjson.loads(run.out) == {"tasks": 72, "participants": 12, "bots": 6}
    return tasks, protocol


def test_an_imported_study_is_reported(home: Home, tmp_path: Path, study: tuple[Path, Path]) -> None:
    tasks, protocol = study
    folder = tmp_path / "report"
    run = home("studies", "report", tasks, "--protocol", protocol, "--to", folder, "--draws", 200)
    report = orjson.loads((folder / "report.json").read_bytes())
    assert report["study"] == "ours"
    assert report["exclusions"]["by_rule"]["degraded_not_lower"] == 4
    assert report["analyses"]["kept"]["participants"] == 8
    means = [figure["bot"] for figure in report["analyses"]["kept"]["ratings"]["fun"]["means"]]
    assert set(means) == {"b0", "b1", "b2", "b3", "b4"}
    assert "4 participants left out" in run.out
    before = (folder / "report.html").read_bytes()
    home("score", "report", folder / "report.json")
    assert (folder / "report.html").read_bytes() == before


@pytest.mark.slow
def test_a_metric_stands_beside_people(home_at: Any, with_all: Path, study: tuple[Path, Path]) -> None:
    tasks, protocol = study
    judged = ("-m", "rater:refs=none", "--rater", "tiny", "--threads", "1")
    run = home_at(with_all)("studies", "report", tasks, "--protocol", protocol, *judged, "--draws", 50, "--json")
    metrics = orjson.loads(run.out)["metrics"]
    assert metrics["dialogues"] == 40  # of the eight people who are kept, without the degraded bot
    figures = {(entry["figure"], entry["question"]): entry for entry in metrics["ratings"]}
    assert figures["mean", "fun"]["bots"] == 5
    assert -1 <= figures["mean", "fun"]["pearson"] <= 1
    assert list(metrics["signatures"]) == ["rater:refs=none"]


def test_a_hybrid_that_is_not_there_is_named(home: Home, study: tuple[Path, Path]) -> None:
    run = home("studies", "report", study[0], "--hybrid", "none", "--draws", 10)
    assert run.code == 3
    assert "none" in run.err


def test_export_import_and_export_again_are_the_same_bytes(
    home: Home, tmp_path: Path, study: tuple[Path, Path]
) -> None:
    tasks, protocol = study
    first, again, second = (tmp_path / name for name in ("first.jsonl", "again.jsonl", "second.jsonl"))
    home("studies", "export", tasks, "--output", first)
    home("studies", "import", first, "--output", again)
    home("studies", "export", again, "--output", second)
    assert first.read_bytes() == again.read_bytes() == second.read_bytes()
    kept = tmp_path / "kept.jsonl"
    home("studies", "export", tasks, "--protocol", protocol, "--kept", "--output", kept)
    assert len({task.participant for task in read_tasks(kept)}) == 8


def test_a_study_is_rehearsed_and_its_first_run_reported(home: Home, tmp_path: Path) -> None:
    tasks, protocol = tmp_path / "simulated.jsonl", tmp_path / "protocol.json"
    few = ("--studies", 1, "--participants", 10, "--careless", 0.4)
    run = home("studies", "simulate", *few, "--output", tasks, "--protocol-output", protocol, "--json")
    rehearsal = orjson.loads(run.out)
    assert rehearsal["caught"]["careless"]["participants"] == 4
    assert rehearsal["balance"] <= 2
    report = orjson.loads(home("studies", "report", tasks, "--protocol", protocol, "--draws", 20, "--json").out)
    assert report["counts"]["participants"] == 10
    caught = rehearsal["caught"]["careless"]["left_out"] + rehearsal["caught"]["honest"]["left_out"]
    assert report["exclusions"]["excluded"] == caught
    assert home("studies", "simulate", *few, "--protocol", protocol, "--json").out == run.out
    refused = home("studies", "simulate", "--qualities", "4,x")
    assert refused.code == 2
    assert "--qualities 4,x" in refused.err


def test_power_prints_the_sizes_of_the_specification(home: Home) -> None:
    sizes = orjson.loads(home("studies", "power", "--json").out)
    assert sizes == {
        "ratings_of_each_bot": {"1": 27, "0.75": 48, "0.5": 107, "0.3": 295},
        "votes": {"0.65": 85, "0.6": 194, "0.55": 783},
    }
    one = orjson.loads(home("studies", "power", "--win-rate", 0.6, "--per-participant", 5, "--json").out)
    assert (one["design_effect"], one["votes"], one["participants"]) == (2.2, 427, 86)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["power", "--difference", "0.5", "--win-rate", "0.6"], "--win-rate"),
        (["power", "-n", "30"], "-n: it needs something to be seen"),
        (["export", "TASKS", "--kept"], "--kept"),
        (["export", "TASKS", "--format", "weights"], "the study rates no references"),
        (["report", "TASKS", "--vectors", "x"], "--hybrid"),
        (["report", "TASKS", "--protocol", "TASKS"], "is not JSON"),
    ],
)
def test_commands_refuse_what_makes_no_sense(
    home: Home, study: tuple[Path, Path], arguments: list[str], message: str
) -> None:
    called = [str(study[0]) if argument == "TASKS" else argument for argument in arguments]
    run = home("studies", *called)
    assert run.code in {2, 3}
    assert message in run.err
