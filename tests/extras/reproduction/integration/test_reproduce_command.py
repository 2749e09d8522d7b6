"""`refaug agreement reproduce`: from logs and ratings to a page, a table and JSON; killed and run again; bad input."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from integration.conftest import ROOT, Home
from scipy import stats

from refaug.cli.main import main
from refaug.core.home import Settings
from refaug.core.progress import Silent
from refaug.extras.reproduction.command import PARTS, parts_at_hand, parts_named
from refaug.extras.reproduction.material.chain import Chain
from refaug.extras.reproduction.material.proof_logs import ProofSettings
from refaug.logs.demo.demo_items import DemoItemSettings, demo_items
from refaug.logs.demo.generator import DemoSettings, demo_dialogues
from refaug.metrics.base import Level, References
from refaug.metrics.specification import build

QUICK = (
    "--no-ruber",
    "--minutes",
    "0.0",
    "--draws",
    "40",
    "--seeds",
    "2",
    "--preset",
    "small",
    "--epochs",
    "1",
    "--threads",
    "1",
    "--memory",
    "256MiB",
)
LOGS = {"dailydialog_en": 1_200, "small_en": 400}
ITEMS = 10

Row = Mapping[str, Any]


def write_lines(path: Path, rows: Iterable[Row]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wb") as file:
        file.writelines(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows)
    return path


def rated(seed: int) -> list[dict[str, Any]]:
    """A rated reply a line, as the ratings were released."""
    return [
        {
            "context_id": item.id,
            "context": [item.utterance],
            "references": list(item.references),
            "system": system,
            "response": reply,
            "scores": list(item.ratings[system]),
        }
        for item in demo_items(DemoItemSettings(items=ITEMS, seed=seed))
        for system, reply in item.replies.items()
    ]


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small logs and two small sets, under the names of the real ones."""
    folder = tmp_path_factory.mktemp("data")
    for seed, (name, size) in enumerate(LOGS.items(), start=1):
        dialogues = demo_dialogues(DemoSettings(dialogues=size, seed=seed))
        write_lines(
            folder / "logs" / f"{name}.jsonl.gz",
            ({"id": one.id, "turns": [turn.text for turn in one.turns]} for one in dialogues),
        )
    for seed, name in ((1, "dailydialog_gupta"), (2, "dailydialog_zhao")):
        write_lines(folder / "human" / f"{name}.jsonl.gz", rated(seed))
    return folder


@pytest.fixture(scope="session")
def done(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a home in which the metrics were compared once, and with what they found."""
    folder = tmp_path_factory.mktemp("done")
    given = (
        "--home",
        folder / "home",
        "--quiet",
        "agreement",
        "reproduce",
        "metrics",
        "--data",
        data,
        "--output",
        folder / "out",
        *QUICK,
    )
    assert main(list(map(str, given))) == 0
    return folder


@pytest.fixture
def again(home: Home, done: Path) -> Home:
    """The test's own copy of that home."""
    shutil.copytree(done / "home", home.path)
    return home


def found_in(folder: Path, name: str = "metrics") -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads((folder / f"{name}.json").read_bytes())
    return found


def figures(found: Mapping[str, Any]) -> Any:
    """All but when it was made and how long it took."""
    return {key: value for key, value in found.items() if key not in ("date", "seconds", "command")}


def versions(home: Path) -> list[str]:
    """Every version of every artefact."""
    return sorted(
        str(path.relative_to(home))
        for kind in ("vectors", "indexes", "raters")
        for path in (home / kind).glob("*/*")
        if path.is_dir()
    )


def reproduce(home: Home, data: Path, output: Path, *more: Any) -> Any:
    return home("--quiet", "agreement", "reproduce", "metrics", "--data", data, "--output", output, *QUICK, *more)


# ── what is found ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_what_this_home_lacks_is_named_beside_the_figures(done: Path) -> None:
    found = found_in(done / "out")
    for name in ("dailydialog_gupta", "dailydialog_zhao"):  # as published, an item may have no reference above 0
        assert found["main"]["rows"][name] + found["main"]["left_out"][name] == 4 * ITEMS
    assert "refaug-1 is missing: metric `refaug-1` needs the encoder" in "\n".join(found["notes"])
    gaps = [note.partition(" ")[0] for note in found["notes"] if "--minutes" in note or "is not trained" in note]
    assert gaps == ["masked", "retrieval", "next-utterance", "followup"]
    assert found["rows_beside"] == {}
    assert found["claims"].keys() == {"υBLEU, closest", "υBLEU, no penalty", "υ-greedy, best", "υ-greedy, weighted"}


@pytest.mark.slow
def test_a_figure_is_the_correlation_of_plain_scores_with_the_mean_ratings(done: Path) -> None:
    metric = build("bleu:bp=none")
    expected = []
    for seed in (1, 2):
        scores = [
            metric.values(
                metric.statistics(
                    [row["response"]],
                    metric.prepare([References.unweighted(row["references"][:1])]),
                    np.array([0]),
                    np.array([0]),
                ),
                Level.REPLY,
            )[0]
            for row in rated(seed)
        ]
        scores = np.round(scores, 9)  # equal ones that were added up in another order are equal
        expected.append(stats.spearmanr(scores, [np.mean(row["scores"]) for row in rated(seed)]).statistic)
    found = found_in(done / "out")["controls"]["υBLEU, no penalty"]["figures"]["gold"]["spearman"]
    assert found["dailydialog_gupta"]["value"] == pytest.approx(expected[0], abs=1e-4)
    assert found["dailydialog_zhao"]["value"] == pytest.approx(expected[1], abs=1e-4)
    assert found["mean"]["value"] == pytest.approx(np.mean(expected), abs=1e-4)


@pytest.mark.slow
def test_the_page_and_the_tables_say_how_they_were_made_and_name_no_folder(done: Path, data: Path) -> None:
    command = f"refaug agreement reproduce metrics --data {data.name} --output out {' '.join(QUICK)}"
    found = found_in(done / "out")
    assert sorted(found["command"].split()) == sorted(command.split())
    assert (found["preset"], found["epochs"], found["draws"], found["seeds"]) == ("small", 1, 40, 2)
    assert found["made_of"]["rater proof"].startswith("proof-small@")
    for name in ("metrics.html", "metrics.md", "metrics.json"):
        text = (done / "out" / name).read_text("utf-8")
        assert str(data.parent) not in text
        assert str(done) not in text
    page = (done / "out" / "metrics.md").read_text("utf-8")
    assert f"    {found['command']}\n" in page
    assert "| υBLEU, default |" in page


@pytest.mark.slow
def test_asked_again_it_finds_the_same_and_makes_nothing_anew(
    again: Home, data: Path, done: Path, tmp_path: Path
) -> None:
    before = versions(again.path)
    result = reproduce(again, data, tmp_path / "out", "--json")
    assert result.code == 0, result.err
    assert figures(found_in(tmp_path / "out")) == figures(found_in(done / "out"))
    assert versions(again.path) == before
    [report] = result.json["reports"]
    assert report["files"] == [str(tmp_path / "out" / f"metrics.{ending}") for ending in ("html", "md", "json")]
    assert report["main"] == found_in(done / "out")["main"]


@pytest.mark.slow
def test_tables_are_printed_for_people(again: Home, data: Path, tmp_path: Path) -> None:
    result = reproduce(again, data, tmp_path / "out", "--set", "dailydialog_zhao")
    assert result.code == 0, result.err
    lines = result.out.splitlines()
    assert lines[0] == "Agreement of metrics with people, and what it rests on"
    assert "Fair rows, Pearson" in lines
    assert lines[-1].startswith("written: ")
    assert found_in(tmp_path / "out")["sets"].keys() == {"dailydialog_zhao"}


@pytest.mark.slow
def test_a_share_of_the_logs_leaves_alone_what_the_whole_ones_made(again: Home, data: Path) -> None:
    before = versions(again.path)
    settings = ProofSettings(data=data, fraction=0.6, memory=256 << 20)
    chain = Chain(Settings(home=again.path), settings, Silent())
    assert chain.main_index().startswith("proof-0.6@")
    assert chain.artefacts["vectors proof"].startswith("proof-0.6@")
    assert set(before) < set(versions(again.path))


# ── interrupted ───────────────────────────────────────────────────────────────────────────────────────────────────────


def killed_after(stage: str, home: Path, data: Path, output: Path) -> None:
    """Run it in a process of its own, and kill that as soon as it says that a stage is done."""
    given = (sys.executable, "-m", "refaug", "--home", home, "agreement", "reproduce", "metrics", "--data", data)
    process = subprocess.Popen(
        [*map(str, given), "--output", str(output), *QUICK],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        text=True,
    )
    assert process.stderr is not None
    said = list[str]()
    for line in process.stderr:
        said.append(line)
        if line.startswith(f"{stage}: done"):
            process.kill()
            break
    process.wait()
    process.stderr.close()
    assert process.returncode < 0, "".join(said)


@pytest.mark.slow
def test_killed_in_the_middle_it_goes_on_and_finds_the_same(home: Home, data: Path, done: Path, tmp_path: Path) -> None:
    killed_after("references", home.path, data, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    made, pools = versions(home.path), pools_of(home)
    assert len(made) == 3  # word vectors, an index and a rater

    assert reproduce(home, data, tmp_path / "out").code == 0
    found = found_in(tmp_path / "out")
    assert found["main"] == found_in(done / "out")["main"]
    assert versions(home.path) == versions(done / "home")  # nothing was made twice
    assert pools.items() <= pools_of(home).items()


def pools_of(home: Home) -> dict[str, int]:
    """What was found for sets, and when it was written."""
    folder = home.path / "cache" / "reproduce" / "pools"
    return {path.name: path.stat().st_mtime_ns for path in folder.glob("*.jsonl")}


# ── bad input ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def with_sets(data: Path, folder: Path, **sets: Iterable[Row]) -> Path:
    """The same logs, and these sets."""
    shutil.copytree(data / "logs", folder / "logs", copy_function=os.link)
    for name, rows in sets.items():
        write_lines(folder / "human" / f"{name}.jsonl.gz", rows)
    return folder


def test_without_data_nothing_is_begun(home: Home, tmp_path: Path) -> None:
    result = home("agreement", "reproduce", "metrics", "--data", tmp_path / "nowhere", "--json")
    assert (result.code, result.error["code"]) == (3, "not_found")
    assert not home.path.exists()


def test_a_part_that_is_none_is_refused_with_those_that_are(home: Home, data: Path) -> None:
    result = home("agreement", "reproduce", "sorrow", "--data", data, "--json")
    assert (result.code, result.error["code"]) == (2, "usage")
    assert result.error["remedy"].endswith("adem, hybrid, networks, all")


def test_all_of_data_without_conversations_says_so_first(home: Home, data: Path) -> None:
    names, gaps = parts_at_hand(parts_named("all"), data)
    assert gaps == {
        "recommended": "the data has no human/grade_dailydialog.jsonl.gz",
        "raters": "the data has no human/grade_dailydialog.jsonl.gz",
        "hybrid": "the data has no dialogues/ji2022_run1.jsonl.gz",
    }
    assert names == [name for name in PARTS if name not in gaps]
    alone = home("agreement", "reproduce", "hybrid", "--data", data, "--json")
    assert (alone.code, alone.error["code"]) == (3, "not_found")
    assert alone.error["message"] == gaps["hybrid"]
    assert not home.path.exists()


@pytest.mark.slow
def test_all_goes_on_without_a_part_that_lacks_its_files(
    again: Home, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in set(PARTS) - {"hybrid", "metrics"}:
        monkeypatch.delitem(PARTS, name)  # type: ignore[arg-type]
    lacking = with_sets(data, tmp_path / "lacking", dailydialog_zhao=rated(2))
    result = again("agreement", "reproduce", "all", "--data", lacking, "--output", tmp_path / "out", *QUICK)
    assert result.code == 3
    assert "dialogues/ji2022_run1.jsonl.gz" in result.err
    assert result.out.endswith("left out: hybrid: the data has no dialogues/ji2022_run1.jsonl.gz\n")
    assert (tmp_path / "out" / "metrics.json").is_file()


def test_a_set_or_a_log_that_is_not_there_is_named(home: Home, data: Path, tmp_path: Path) -> None:
    result = home("agreement", "reproduce", "metrics", "--data", data, "--set", "other", "--json")
    assert (result.code, result.error["code"]) == (3, "not_found")
    assert "human/other.jsonl.gz" in result.error["message"]
    lacking = with_sets(data, tmp_path / "lacking", dailydialog_zhao=rated(2))
    (lacking / "logs" / "small_en.jsonl.gz").unlink()
    result = reproduce(home, lacking, tmp_path / "out", "--set", "dailydialog_zhao", "--json")
    assert (result.code, result.error["code"]) == (3, "not_found")
    assert "logs/small_en.jsonl.gz" in result.error["message"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: [{**row, "references": []} for row in rows], "bad: no item has a reference"),
        (lambda rows: [{**row, "references": [row["response"]]} for row in rows[::4]], "one of its own references"),
        (
            lambda rows: [{**row, "context": ["猫は好きですか"]} for row in rows],
            "fewer than 3 references are found for 10 of 10 items",
        ),
    ],
    ids=["no references", "replies are references", "nothing in common"],
)
def test_a_set_that_nothing_can_be_said_of_is_refused(
    again: Home, data: Path, tmp_path: Path, change: Any, message: str
) -> None:
    folder = with_sets(data, tmp_path / "data", bad=change(rated(1)))
    result = reproduce(again, folder, tmp_path / "out", "--set", "bad", "--json")
    assert (result.code, result.error["code"]) == (3, "bad_input")
    assert message in result.error["message"]
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_what_a_set_lacks_is_a_named_gap_beside_the_figures_of_the_others(
    again: Home, data: Path, tmp_path: Path
) -> None:
    one_system = [row for row in rated(3) if row["system"] == "generic"]
    strange = [
        {**row, "context": ["where is the ключ от моего дома"], "references": ["под ковриком у двери"]}
        for row in rated(4)
    ]
    folder = with_sets(
        data,
        tmp_path / "data",
        alone=[{**row, "scores": None, "score": float(np.mean(row["scores"]))} for row in one_system],
        strange=[{**row, "response": f"я не знаю {'и не хочу знать ' * (at % 5)}"} for at, row in enumerate(strange)],
        elsewhere=[{**row, "context": ["猫は好きですか"]} for row in rated(5)],
        parrots=[{**row, "references": [row["response"]]} for row in rated(6)[::4]],
    )
    names = ("alone", "strange", "elsewhere", "parrots")
    result = reproduce(again, folder, tmp_path / "out", *(word for name in names for word in ("--set", name)))
    assert result.code == 0, result.err
    found = found_in(tmp_path / "out")
    notes = "\n".join(found["notes"])
    assert "elsewhere: fewer than 3 references are found for 10 of 10 items" in notes
    assert "parrots: every rated reply is one of its own references" in notes
    assert "alone: one number a reply: no human row" in notes
    assert "alone: one system only" in notes
    assert "strange: the rater does not know" in notes
    assert list(found["sets"]) == list(found["main"]["rows"]) == ["alone", "strange"]
    assert {"elsewhere", "parrots"}.isdisjoint(found["main"]["figures"]["greedy, gold"]["spearman"])
    assert "warning: elsewhere: fewer than 3 references" in result.err


@pytest.mark.slow
def test_a_damaged_stage_of_the_cache_is_an_error_and_no_figure(again: Home, data: Path, tmp_path: Path) -> None:
    for path in (again.path / "cache" / "reproduce" / "pools").glob("*.jsonl"):
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join(lines[:2] + lines[3:]))
    result = reproduce(again, data, tmp_path / "out", "--json")
    assert (result.code, result.error["code"]) == (3, "corrupt")
    assert "dailydialog_gupta" in result.error["message"]
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_log_file_that_has_changed_is_not_added_to_the_old_one(again: Home, data: Path, tmp_path: Path) -> None:
    changed = shutil.copytree(data, tmp_path / "data")
    write_lines(changed / "logs" / "small_en.jsonl.gz", [{"id": "a", "turns": ["hello there", "hi"]}])
    before = again.files("proof-small")
    result = reproduce(again, changed, tmp_path / "out", "--json")
    assert (result.code, result.error["code"]) == (4, "conflict")
    assert "small_en.jsonl.gz" in result.error["message"]
    assert "--home" in result.error["remedy"]
    assert again.files("proof-small") == before
