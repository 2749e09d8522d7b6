"""`refaug train ruber …`: trained to the same bits however often it is stopped, kept in versions, asked for scores."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from integration.conftest import Home, in_group
from trainings import interrupting, talk

from refaug.cli.main import main
from refaug.core.artefacts.manifests import MANIFEST
from refaug.core.files import read_json
from refaug.core.home import Settings
from refaug.core.progress import Silent
from refaug.logs.ingest import ingest as ingesting
from refaug.logs.ingest.order import IngestOrder
from refaug.scoring.home.torch_networks import open_ruber

SMALL = ("--preset", "small", "--epochs", "2", "--threads", "1", "--max-tokens", "12", "--pairs", "500")
TRAIN = ("train", "ruber", "chat", *SMALL)
SCORE = ("where do you buy your tea", "at the market", "in the old shop", "the bus was late", "")
LEFT = ("cache", "rubers")


@pytest.fixture(scope="module")
def with_logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a log that is long enough, one that is not, and one of a single dialogue."""
    folder = tmp_path_factory.mktemp("with-logs")
    talk(folder / "chat.jsonl", 240)
    talk(folder / "short.jsonl", 20)
    turns = [f"this is number {number} of many" for number in range(400)]
    (folder / "alone.jsonl").write_bytes(orjson.dumps({"id": "1", "turns": turns}))
    for name in ("chat", "short", "alone"):
        ingesting.ingest(
            IngestOrder(sources=(str(folder / f"{name}.jsonl"),), log=name), folder / "home/logs", Silent()
        )
    return folder / "home"


@pytest.fixture(scope="module")
def with_ruber(with_logs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with a ruber, trained without an interruption."""
    home = tmp_path_factory.mktemp("with-ruber") / "home"
    shutil.copytree(with_logs, home)
    assert main(["--home", str(home), "--quiet", *TRAIN]) == 0
    return home


@pytest.fixture
def logged(home: Home, with_logs: Path) -> Home:
    shutil.copytree(with_logs, home.path)
    return home


@pytest.fixture
def trained(home: Home, with_ruber: Path) -> Home:
    shutil.copytree(with_ruber, home.path)
    return home


@pytest.fixture
def stopping(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], None]]:
    with interrupting(monkeypatch) as at:
        yield at


def version_folder(home: Path, number: int = 1) -> Path:
    (found,) = (home / "rubers/chat").glob(f"*.{number}")
    return found


def listed(home: Home) -> list[tuple[str, str, bool]]:
    rows = home("artefacts", "list", "ruber", "--json").json["versions"]
    return [(row["name"], row["version"].partition(".")[2], row["published"]) for row in rows]


def scores(home: Home, ruber: str = "chat") -> list[float]:
    result = home("judge", "score", "ruber", ruber, *SCORE, "--json")
    assert result.code == 0, result.err
    found: list[float] = result.json["scores"]
    return found


def in_cache(home: Home) -> list[str]:
    return [path.name for path in sorted((home.path / "cache").glob("*"))]


# ── training ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_was_trained_is_told_and_shown(trained: Home) -> None:
    shown = trained("artefacts", "show", "ruber", "chat", "--json").json
    report, details, pairs = shown["report"], shown["details"], list(trained.open().pairs())
    assert (shown["name"], shown["version"].partition(".")[2], shown["kind"]) == ("chat", "1", "ruber")
    assert shown["config"] == {
        "vocabulary": report["tokenizer"]["pieces"],
        "embedding": 64,
        "hidden": 64,
        "width": 128,
        "layers": 1,
        "max_tokens": 12,
        "readers": 1,
    }
    assert report["texts"]["pairs"] == report["texts"]["dialogues"] == len(pairs) == 720
    assert report["embeddings"]["start"] == "vectors"
    assert (report["margin"], details["margin"]) == (0.5, 0.5)
    assert details["logs"] == {"chat": [part.sha256 for part in trained.open().manifest.parts]}
    people = [" ".join(line.split()) for line in trained("artefacts", "show", "ruber", "chat").out.splitlines()]
    assert f"ranking_accuracy {report['ranking_accuracy']:.4f}" in people
    assert f"mean_score_good {report['mean_score']['good']:.4f}" in people
    (row,) = trained("artefacts", "list", "ruber", "--json").json["versions"]
    told = {
        "name": "chat",
        "version": shown["version"],
        "published": True,
        "hidden": 64,
        "auc_good_vs_wrong": round(report["auc_good_vs_wrong"], 4),
        "id": shown["id"][:12],
    }
    assert row.items() >= told.items()
    assert in_cache(trained) == []


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("train", "nowhere"), 3, "nowhere"),
        (("train", "chat", "chat", "--name", "x"), 2, "a ruber is trained on one log or more, each named once"),
        (("train", "chat", "--more-texts", "chat"), 2, "log chat is named twice"),
        (("train", "chat", "--pairs", "5"), 2, "5 pairs an epoch"),
        (("train", "chat", "--validation-share", "1.5"), 2, "1.5"),
        (("train", "short"), 3, "200"),
        (("resume", "chat"), 3, "chat"),
        (("score", "chat", "a", "b"), 3, "chat"),
        (("score", "chat"), 2, "nothing is to be scored"),
        (("score", "chat", "a"), 2, "nothing is to be scored"),
        (("score", "chat", "a", "b", "--items", "c.jsonl"), 2, "--items"),
    ],
)
def test_what_cannot_be_done_is_refused_and_leaves_nothing_behind(
    logged: Home, arguments: tuple[str, ...], code: int, told: str
) -> None:
    before = sorted(logged.path.rglob("*"))
    result = logged(*in_group("ruber", arguments))
    assert (result.code, told in result.err) == (code, True), result.err
    assert [path for path in sorted(logged.path.rglob("*")) if path.name not in LEFT] == before


def test_a_log_of_one_dialogue_has_no_reply_from_elsewhere(logged: Home, stopping: Callable[[int], None]) -> None:
    stopping(1)  # a step would be an interrupt
    result = logged("train", "ruber", "alone", *SMALL, "--json")
    assert (result.code, result.error["code"]) == (3, "bad_input")
    assert result.error["message"].startswith("no pair is left for train: of 3")
    assert listed(logged) == []


# ── asking ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_replies_are_scored_by_hand(trained: Home) -> None:
    result = trained("judge", "score", "ruber", "chat", *SCORE, "--json").json
    opened = open_ruber(Settings(home=trained.path), "chat", threads=1)
    assert (
        result["ruber"]
        == opened.spec
        == f"chat@{version_folder(trained.path).name}#"
        + str(trained("artefacts", "show", "ruber", "chat", "--json").json["id"][:12])
    )
    expected = opened.score([(SCORE[0], reply) for reply in SCORE[1:]]).tolist()
    assert result["scores"] == pytest.approx(expected, abs=1e-5)
    assert result["scores"][3] == 0
    assert all(0 < one < 1 for one in result["scores"][:3])
    people = trained("judge", "score", "ruber", "chat", *SCORE).out
    for one, reply in zip(result["scores"], SCORE[1:], strict=True):
        assert f"{one:.4f}  {reply}".rstrip() in people
    strange = trained("judge", "score", "ruber", "chat", "where is the bus", "切符はどこで買えますか。")
    assert "warning: the ruber does not know 12 of" in strange.err


def test_the_replies_of_a_test_file_are_scored_item_by_item(trained: Home, tmp_path: Path) -> None:
    items = [
        {"id": "a", "utterance": SCORE[0], "replies": {"one": SCORE[1], "two": SCORE[3]}},
        {"id": "b", "references": ["yes"], "replies": {"one": "no utterance here"}},
        {"id": "c", "turns": ["hello", "who sells you milk now"], "replies": {"two": ""}},
        {"id": "d", "utterance": SCORE[0], "replies": ["bad"]},
        {"id": "e", "utterance": " ", "replies": {"one": "neither here"}},
    ]
    path = tmp_path / "items.jsonl"
    path.write_bytes(b"\n".join(map(orjson.dumps, items)))
    result = trained("judge", "score", "ruber", "chat", "--items", path, "--json")
    assert result.code == 0, result.err
    by_hand = scores(trained)
    expected = [("a", "one", by_hand[0]), ("a", "two", by_hand[2]), ("b", "one", None), ("c", "two", 0)]
    expected.append(("e", "one", None))
    found = result.json["replies"]
    assert [(row["item"], row["system"]) for row in found] == [row[:2] for row in expected]
    assert [row["score"] for row in found] == [pytest.approx(row[2], abs=1e-5) for row in expected]
    assert "line 4, item d, replies" in result.err
    people = [line.split() for line in trained("judge", "score", "ruber", "chat", "--items", path).out.splitlines()]
    assert ["a", "one", f"{by_hand[0]:.4f}"] in people
    assert ["b", "one", "-"] in people
    assert trained("judge", "score", "ruber", "chat", "--items", path, "--strict").code == 3
    idle = trained("judge", "score", "ruber", "chat", *SCORE, "--strict", "--json")
    assert (idle.code, idle.error["message"]) == (2, "--strict without --items")


@pytest.mark.parametrize(("part", "missing"), [("files", "report.json"), ("details", "logs")])
def test_a_manifest_that_lacks_what_is_shown_is_named(trained: Home, part: str, missing: str) -> None:
    path = version_folder(trained.path) / MANIFEST
    manifest: Any = read_json(path)
    del manifest[part][missing]
    path.write_bytes(orjson.dumps(manifest))
    shown = trained("artefacts", "show", "ruber", "chat", "--json")
    assert (shown.code, shown.json["name"]) == (0, "chat")
    asked = trained("artefacts", "show", "ruber", "chat")
    assert asked.code == 3
    assert "ruber chat@" in asked.err
    assert "lacks what is to be shown" in asked.err
