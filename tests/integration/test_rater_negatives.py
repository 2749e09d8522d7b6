"""Hard negatives from the command line: read before training, trained on, and measured by every rater that can be."""

from __future__ import annotations

import random
import shutil
from itertools import product
from pathlib import Path

import orjson
import pytest
from integration.conftest import Home
from integration.test_rater_command import in_cache
from trainings import ASKS, THINGS, WHEN, talk

from refaug.core.progress import Silent
from refaug.core.text.normalisation import normalise
from refaug.logs.ingest import ingest as ingesting
from refaug.logs.ingest.order import IngestOrder
from refaug.logs.store import StoredLog

COUNT = 30
SMALL = ("--preset", "small", "--threads", "1")
READ = ("train", "negatives", "chat", *SMALL, "-n", str(COUNT))
TRAIN = (
    *("train", "rater", "chat", *SMALL, "--epochs", "1", "--max-tokens", "12", "--positives", "100"),
    *("--validation-share", "0.45"),
)


def talk_of_many_things(path: Path, seed: int = 1) -> Path:
    """As `talk`, but of many things, two in an answer, so that it shares a rare word with a few others."""
    rng = random.Random(seed)
    things = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(3, 7))) for _ in range(150)]
    asked = [f"{ask.format(thing)} {when}" for ask, thing, when in product(ASKS, THINGS, WHEN)]
    openings = ("take the", "near the", "not the", "ask for a", "my aunt likes the", "the best is the")
    rows = [
        (text, f"{rng.choice(openings)} {one} or the {other}")
        for text in asked
        for one, other in (rng.sample(things, 2) for _ in range(3))
    ]
    path.write_bytes(b"\n".join(orjson.dumps({"id": str(at), "turns": row}) for at, row in enumerate(rows)))
    return path


@pytest.fixture(scope="module")
def with_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a log that has rare words, and one that has none."""
    folder = tmp_path_factory.mktemp("with-log")
    for name, path in (
        ("chat", talk_of_many_things(folder / "chat.jsonl")),
        ("plain", talk(folder / "plain.jsonl", 240)),
    ):
        ingesting.ingest(IngestOrder(sources=(str(path),), log=name), folder / "home/logs", Silent())
    return folder / "home"


@pytest.fixture
def logged(home: Home, with_log: Path) -> Home:
    shutil.copytree(with_log, home.path)
    return home


def test_hard_negatives_are_shown_without_training_and_leave_nothing(logged: Home) -> None:
    result = logged(*READ, "--json")
    assert result.code == 0, result.err
    said = {
        (normalise(pair.utterance), normalise(pair.response)) for pair in StoredLog.open(logged.logs, "chat").pairs()
    }
    found = result.json["negatives"]
    assert len(found) == COUNT
    assert len({(one["utterance"], one["response"]) for one in found}) == COUNT
    for one in found:
        pair, other = (one["utterance"], one["response"]), (one["answered"], one["hard"])
        assert {tuple(map(normalise, pair)), tuple(map(normalise, other))} <= said
        assert normalise(one["utterance"]) != normalise(one["answered"])
        assert (normalise(one["utterance"]), normalise(one["hard"])) not in said
    assert 0 <= result.json["without_partner"] < 1
    assert in_cache(logged) == []
    assert not (logged.path / "raters").exists()

    people = logged(*READ).out.splitlines()
    first = found[0]
    assert people[:4] == [
        first["utterance"],
        f"  → {first['response']}",
        f"  ≠ {first['hard']}",
        f"    said to: {first['answered']}",
    ]
    assert len(people) == 4 * COUNT + 1
    assert people[-1] == f"{100 * result.json['without_partner']:.1f} % of the responses have no hard negative"
    other = logged(*READ, "--seed", "2", "--json").json["negatives"]
    assert other != found


@pytest.mark.slow
def test_training_on_hard_negatives_is_reproducible_and_reported(logged: Home) -> None:
    usual = logged(*TRAIN, "--name", "usual", "--json")
    mixed = logged(*TRAIN, "--negatives", "mixed", "--json")
    assert (usual.code, mixed.code) == (0, 0), usual.err + mixed.err
    assert usual.json["id"] != mixed.json["id"]
    kinds = [one.json["report"]["negatives"] for one in (usual, mixed)]
    assert kinds[0] == {"kind": "random", "without_partner": None}
    assert kinds[1]["kind"] == "mixed"
    assert 0 < kinds[1]["without_partner"] < 0.5
    measured = [one.json["report"]["hard"] for one in (usual, mixed)]
    for name in ("examples", "without_partner"):
        assert measured[0][name] == measured[1][name]
    for one in measured:
        assert 0 <= one["auc_good_vs_hard"] <= 1
        assert 0 <= one["taken_for_good"] <= 1
    validation = mixed.json["report"]["examples"]["validation"]
    assert 200 <= measured[0]["examples"] <= 2 * validation["positive"]
    shown = [" ".join(line.split()) for line in logged("artefacts", "show", "rater", "chat").out.splitlines()]
    assert f"auc_good_vs_hard {measured[1]['auc_good_vs_hard']:.4f}" in shown
    assert f"hard_taken_for_good {100 * measured[1]['taken_for_good']:.0f} %" in shown
    details = logged("artefacts", "show", "rater", "chat", "--json").json["details"]
    assert details["examples"]["negatives"] == "mixed"

    again = logged(*TRAIN, "--negatives", "mixed", "--again", "--json").json
    assert (again["new"], again["id"]) == (True, mixed.json["id"])
    assert again["report"]["hard"] == measured[1]
    assert logged(*TRAIN, "--negatives", "mixed", "--json").json["new"] is False


@pytest.mark.slow
def test_log_without_rare_words_is_warned_of_and_gets_random_negatives(logged: Home) -> None:
    wanted = (*TRAIN, "plain", "--name", "x")
    words = tuple(one for one in wanted if one != "chat")
    assert logged(*READ[:2], "plain", *SMALL).out == "100.0 % of the responses have no hard negative\n"
    result = logged(*words, "--negatives", "hard", "--json")
    assert result.code == 0, result.err
    assert "warning: 100 % of the responses have no hard negative, and get random ones" in result.err
    assert result.json["report"]["negatives"] == {"kind": "hard", "without_partner": 1.0}
    assert result.json["report"]["hard"] is None
    assert result.json["id"] == logged(*words, "--name", "y", "--json").json["id"]


def test_without_vectors_hard_negatives_are_neither_measured_nor_allowed(logged: Home) -> None:
    drawn = logged(*TRAIN, "--embeddings", "random", "--json")
    assert drawn.code == 0, drawn.err
    assert drawn.json["report"]["hard"] is None
    assert "auc_good_vs_hard" not in logged("artefacts", "show", "rater", "chat").out


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        ((*TRAIN, "--negatives", "easy"), 2, "--negatives"),
        ((*TRAIN, "--negatives", "hard", "--embeddings", "random"), 2, "--embeddings"),
        ((*TRAIN, "--negatives", "mixed", "--preset", "paper"), 2, "mixed negatives are found by vectors"),
        (("train", "negatives", "nowhere"), 3, "nowhere"),
        (("train", "negatives", "chat", "--preset", "huge"), 2, "huge"),
        (("train", "negatives", "chat", "-n", "0"), 2, "-n"),
        (("train", "negatives", "chat", "--min-words", "7"), 3, "200"),
    ],
)
def test_what_cannot_be_done_is_refused(logged: Home, arguments: tuple[str, ...], code: int, told: str) -> None:
    result = logged(*arguments)
    assert (result.code, told in result.err) == (code, True), result.err
    assert in_cache(logged) == []
