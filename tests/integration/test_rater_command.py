"""`refaug train rater …`: trained to the same bits however often it is stopped, kept in versions, asked by hand."""

from __future__ import annotations

import os
import random
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import torch
from integration.conftest import Home, in_group
from trainings import WarmDriver, interrupting, talk

from refaug.cli.main import main
from refaug.core.artefacts.manifests import MANIFEST, verify_files
from refaug.core.artefacts.versions import Versions
from refaug.core.files import read_json, write_json
from refaug.core.progress import Silent
from refaug.core.text.normalisation import normalise
from refaug.logs.ingest import ingest as ingesting
from refaug.logs.ingest.order import IngestOrder
from refaug.logs.pairs import text_key
from refaug.rater.training.corpus import LEAST_UTTERANCES
from refaug.rater.training.examples import hash_share

SMALL = (
    "--preset",
    "small",
    "--epochs",
    "2",
    "--threads",
    "1",
    "--max-tokens",
    "12",
    "--positives",
    "250",
    "--decay",
    "none",
)
TRAIN = ("train", "rater", "chat", *SMALL)
RATE = ("where do you buy your tea", "at the market", "in the old shop", "the bus was late", "")
SHORT = 210  # utterances of three words in the log "chat", enough to be asked for
LEFT = ("cache", "raters")


@pytest.fixture(scope="module")
def with_logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a log that is long enough, and one that is not."""
    folder = tmp_path_factory.mktemp("with-logs")
    for name, utterances, short in (("chat", 240, SHORT), ("short", 20, 0)):
        order = IngestOrder(sources=(str(talk(folder / f"{name}.jsonl", utterances, short=short)),), log=name)
        ingesting.ingest(order, folder / "home/logs", Silent())
    return folder / "home"


@pytest.fixture(scope="module")
def with_rater(with_logs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with a rater, trained without an interruption."""
    home = tmp_path_factory.mktemp("with-rater") / "home"
    shutil.copytree(with_logs, home)
    assert main(["--home", str(home), "--quiet", *TRAIN]) == 0
    return home


@pytest.fixture
def logged(home: Home, with_logs: Path) -> Home:
    shutil.copytree(with_logs, home.path)
    return home


@pytest.fixture
def trained(home: Home, with_rater: Path) -> Home:
    shutil.copytree(with_rater, home.path)
    return home


def version_folder(home: Path, name: str = "chat", number: int = 1) -> Path:
    (found,) = (home / "raters" / name).glob(f"*.{number}")
    return found


def weights(home: Path, name: str = "chat", number: int = 1) -> bytes:
    return (version_folder(home, name, number) / "weights.safetensors").read_bytes()


def listed(home: Home) -> list[tuple[str, str, bool]]:
    rows = home("artefacts", "list", "rater", "--json").json["versions"]
    return [(row["name"], row["version"].partition(".")[2], row["published"]) for row in rows]


def ratings(home: Home, *more: str, rater: str = "chat") -> list[float]:
    result = home("judge", "score", "rater", rater, *RATE, *more, "--json")
    assert result.code == 0, result.err
    found: list[float] = result.json["ratings"]
    return found


def in_cache(home: Home) -> list[str]:
    return [path.name for path in sorted((home.path / "cache").glob("*"))]


# ── training ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_was_trained_is_told_and_shown(trained: Home) -> None:
    shown = trained("artefacts", "show", "rater", "chat", "--json").json
    report, details = shown["report"], shown["details"]
    assert (shown["name"], shown["version"].partition(".")[2], shown["kind"]) == ("chat", "1", "rater")
    assert shown["config"] == {
        "vocabulary": report["tokenizer"]["pieces"],
        "embedding": 64,
        "hidden": 64,
        "width": 128,
        "layers": 5,
        "max_tokens": 12,
        "features": "products",
    }
    assert report["mined"] == {"utterances": 240, "positive_pairs": 240 * 3, "seconds": report["mined"]["seconds"]}
    of = report["examples"]
    assert of["train"]["utterances"] + of["validation"]["utterances"] == 240
    assert [one["positive"] for one in of.values()] == [3 * one["utterances"] for one in of.values()]
    short = report["short"]
    assert (short["utterances"], short["positive_pairs"]) == (SHORT, SHORT)
    assert details["logs"] == {"chat": [part.sha256 for part in trained.open().manifest.parts]}
    people = [" ".join(line.split()) for line in trained("artefacts", "show", "rater", "chat").out.splitlines()]
    assert f"auc_good_vs_wrong {report['auc_good_vs_wrong']:.4f}" in people
    assert "shared_utterances 240" in people
    (row,) = trained("artefacts", "list", "rater", "--json").json["versions"]
    told = {
        "name": "chat",
        "version": shown["version"],
        "published": True,
        "network": "nn",
        "hidden": 64,
        "auc_good_vs_wrong": round(report["auc_good_vs_wrong"], 4),
        "id": shown["id"][:12],
    }
    assert row.items() >= told.items()
    assert in_cache(trained) == []


def test_embeddings_start_from_vectors_unless_random_ones_are_asked_for(trained: Home) -> None:
    before = trained("artefacts", "show", "rater", "chat", "--json").json
    told = before["report"]["embeddings"]
    assert (told["start"], told["glove"]["dimensions"], told["glove"]["seed"]) == ("vectors", 64, 1)
    assert len(told["losses"]) == told["glove"]["epochs"]
    assert told["losses"][-1] < told["losses"][0]
    assert 20 < told["pieces_with_a_vector"] <= before["config"]["vocabulary"] - 2  # neither pad nor unk
    named = trained(*TRAIN, "--embeddings", "vectors", "--json").json  # the preset's
    assert (named["new"], named["id"]) == (False, before["id"])
    drawn = trained(*TRAIN, "--embeddings", "random", "--json").json
    assert (drawn["new"], drawn["version"].partition(".")[2]) == (True, "2")
    assert drawn["id"] != before["id"]
    assert drawn["report"]["embeddings"]["start"] == "random"
    assert "losses" not in drawn["report"]["embeddings"]
    assert drawn["report"]["parameters"] == before["report"]["parameters"]
    shown = trained("artefacts", "show", "rater", f"chat@{drawn['version']}", "--json").json
    assert (shown["id"], shown["report"], shown["config"]) == (drawn["id"], drawn["report"], before["config"])
    assert in_cache(trained) == []


@pytest.mark.slow
def test_same_command_changes_nothing_and_another_seed_adds_a_version(trained: Home, with_rater: Path) -> None:
    before = trained("artefacts", "show", "rater", "chat", "--json").json
    again = trained(*TRAIN, "--json").json
    assert (again["new"], again["published"], again["id"]) == (False, True, before["id"])
    assert (again["version"], again["report"]) == (before["version"], before["report"])
    assert listed(trained) == [("chat", "1", True)]
    assert "--again trains it anew" in trained(*TRAIN).out
    other = trained(*TRAIN, "--seed", "2", "--json").json
    assert (other["new"], other["published"], other["version"].partition(".")[2]) == (True, True, "2")
    assert other["id"] != before["id"]
    assert weights(trained.path, number=2) != weights(trained.path)
    unpublished = trained(*TRAIN, "--again", "--no-publish", "--json").json
    assert (unpublished["new"], unpublished["published"], unpublished["id"]) == (True, False, before["id"])
    assert weights(trained.path, number=3) == weights(with_rater)
    assert listed(trained) == [("chat", "1", False), ("chat", "2", True), ("chat", "3", False)]


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("train", "nowhere"), 3, "nowhere"),
        (("train", "chat", "chat", "--name", "x"), 2, "each named once"),
        (("train", "chat", "--validation-share", "1.5"), 2, "1.5"),
        (("resume", "chat"), 3, "chat"),
        (("rate", "chat", "a", "b", "c"), 3, "chat"),
        (("rate", "chat@yesterday", "a", "b", "c"), 3, "chat"),
        (("rate", "chat", "a", "b", "c", "--combine", "median"), 2, "--combine"),
    ],
)
def test_what_cannot_be_done_is_refused_and_leaves_nothing_behind(
    logged: Home, arguments: tuple[str, ...], code: int, told: str
) -> None:
    before = sorted(logged.path.rglob("*"))
    result = logged(*in_group("rater", arguments))
    assert (result.code, told in result.err) == (code, True), result.err
    assert [path for path in sorted(logged.path.rglob("*")) if path.name not in LEFT] == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("crossed", "cross"),
        ("cross --min-words 3", "--min-words"),
        ("cross --preset paper", "--preset"),
        ("cross --negatives hard", "mixed"),
        ("dual --preset large", "--preset"),
        ("dual --negatives mixed", "--negatives"),
        ("dual --workers 2", "--workers"),
        ("linear", "--encoder"),
        ("linear --encoder tiny --epochs 3", "--epochs"),
        ("linear --encoder none", "none"),
        ("nn --encoder tiny", "--encoder"),
    ],
)
def test_options_of_another_network_are_refused(logged: Home, options: str, message: str) -> None:
    result = logged("train", "rater", "chat", "--network", *options.split())
    assert result.code in (2, 3)
    assert message in result.err


def test_too_few_shared_utterances_are_told_with_those_that_are_needed(logged: Home) -> None:
    result = logged("train", "rater", "short", *SMALL, "--json")
    assert (result.code, result.error["code"]) == (3, "bad_input")
    message = result.error["message"]
    assert message.startswith("20 utterances of 4 words or more have several different responses in short")
    assert f"at least {LEAST_UTTERANCES} are needed" in message
    assert "--min-words" in result.error["remedy"]
    assert listed(logged) == []
    long = logged(*TRAIN, "--min-words", "7", "--json")
    assert (long.code, "of 7 words or more" in long.error["message"]) == (3, True)


def test_a_side_of_one_utterance_is_refused_before_anything_is_trained(logged: Home, stopping: Any) -> None:
    rows = [pair.utterance for pair in logged.open().pairs() if len(pair.utterance.split()) >= 4]
    least, next_one = sorted(hash_share(text_key(normalise(text)), 1) for text in set(rows))[:2]
    stopping(1)  # a step would be an interrupt
    result = logged(*TRAIN, "--validation-share", str((least + next_one) / 2), "--json")
    assert (result.code, result.error["code"]) == (3, "bad_input")
    assert result.error["message"].startswith("3 positive examples of 1 utterances are left for validation")
    assert "--validation-share" in result.error["remedy"]


def test_two_trainings_of_one_name_do_not_mix(logged: Home) -> None:
    with Versions(logged.path / "raters", "rater").writing("chat", "training rater chat"):
        busy = logged(*TRAIN, "--json")
    assert (busy.code, busy.error["code"]) == (4, "locked")
    assert str(os.getpid()) in busy.error["message"]


# ── stopping ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def stopping(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Press Ctrl-C, so to speak, at the n-th step of Adam."""
    with interrupting(monkeypatch) as at:
        yield at


def test_ctrl_c_keeps_what_is_done_and_the_bits_are_the_same(logged: Home, with_rater: Path, stopping: Any) -> None:
    stopping(6)  # an epoch has four batches
    stopped = logged(*TRAIN, "--json")
    assert (stopped.code, stopped.error["code"]) == (5, "interrupted")
    assert listed(logged) == []
    (left,) = in_cache(logged)
    assert left.startswith("rater-chat-")
    result = logged("train", "resume", "rater", "chat")
    assert result.code == 0, result.err
    epochs = [line.partition(":")[0] for line in result.err.splitlines() if line.startswith("epoch ") and "AUC" in line]
    assert epochs == ["epoch 2"]
    assert weights(logged.path) == weights(with_rater)
    assert (version_folder(logged.path) / "tokenizer.model").read_bytes() == (
        version_folder(with_rater) / "tokenizer.model"
    ).read_bytes()
    assert (
        read_json(version_folder(logged.path) / MANIFEST)["id"]
        == read_json(version_folder(with_rater) / MANIFEST)["id"]
    )
    assert listed(logged) == [("chat", "1", True)]
    assert in_cache(logged) == []
    assert logged("train", "resume", "rater", "chat").code == 3


def test_a_training_does_not_go_on_with_logs_that_have_grown(logged: Home, tmp_path: Path, stopping: Any) -> None:
    stopping(6)
    assert logged(*TRAIN).code == 5
    left = in_cache(logged)
    (tmp_path / "more.jsonl").write_bytes(orjson.dumps({"id": "new", "turns": ["a new day", "and a good one"]}))
    assert logged("log", "ingest", tmp_path / "more.jsonl", "--log", "chat").code == 0
    result = logged("train", "resume", "rater", "chat", "--json")
    assert (result.code, result.error["code"]) == (4, "conflict")
    assert result.error["message"].startswith("chat: changed since the training of rater 'chat' was stopped")
    assert in_cache(logged) == left


def test_a_stopped_training_goes_with_what_is_deleted_from_its_log(logged: Home, stopping: Any) -> None:
    stopping(6)
    assert logged(*TRAIN).code == 5
    assert in_cache(logged)
    assert "were removed: chat" in logged("log", "delete", "chat", "--dialogue", "0").err
    assert in_cache(logged) == []
    result = logged("train", "resume", "rater", "chat", "--json")
    assert (result.code, result.error["code"]) == (3, "not_found")


# ── killing ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def killer() -> Iterator[WarmDriver]:
    running = WarmDriver()
    yield running
    running.close()


def require_whole(home: Path) -> list[str]:
    """Every version there is has every byte that its manifest says; their numbers."""
    manifests = sorted((home / "raters/chat").glob(f"*/{MANIFEST}"))
    for manifest in manifests:
        verify_files(manifest.parent, read_json(manifest))
    return [manifest.parent.name.partition(".")[2] for manifest in manifests]


@pytest.mark.slow
def test_kill_leaves_the_published_rater_and_the_same_command_finishes(
    trained: Home, home_at: Any, killer: WarmDriver, tmp_path: Path
) -> None:
    command = ("--quiet", *TRAIN, "--seed", "7")
    clean = home_at(tmp_path / "clean")
    shutil.copytree(trained.path, clean.path)
    code, seen = killer("--home", clean.path, *command)
    assert code == 0
    answers = [ratings(trained), ratings(clean)]
    assert answers[0] != answers[1]
    moments = [(kind, number) for kind in sorted(seen) for number in range(1, seen[kind] + 1)]
    for at, (kind, number) in enumerate(random.Random(1).sample(moments, 3)):
        home = home_at(tmp_path / f"killed-{at}")
        shutil.copytree(trained.path, home.path)
        assert killer("--home", home.path, *command, kind=kind, number=number)[0] == -signal.SIGKILL
        require_whole(home.path)
        (published,) = (version for _, version, is_published in listed(home) if is_published)
        assert ratings(home) == answers[published != "1"], (kind, number)
        assert home(*command).code == 0
        newest = require_whole(home.path)[-1]
        assert weights(home.path, number=int(newest)) == weights(clean.path, number=2), (kind, number)
        assert listed(home)[-1] == ("chat", newest, True)
        assert not any(name.startswith("rater-") for name in in_cache(home))


# ── rating ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_texts_are_rated_by_hand(trained: Home) -> None:
    result = trained("judge", "score", "rater", "chat", *RATE, "--json").json
    assert result["rater"] == f"chat@{version_folder(trained.path).name}#" + str(
        trained("artefacts", "show", "rater", "chat", "--json").json["id"][:12]
    )
    assert (result["combine"], len(result["ratings"])) == ("first", 3)
    assert all(-1 <= one <= 1 for one in result["ratings"])
    people = trained("judge", "score", "rater", "chat", *RATE).out
    for one in result["ratings"]:
        assert f"{one:+.4f}" in people
    assert ratings(trained, "--to", "something else that was asked") == result["ratings"]  # U2 is not asked
    mean, other = ratings(trained, "--combine", "mean"), ratings(trained, "--combine", "mean", "--to", "a shop")
    assert mean != other
    temperature = trained("artefacts", "show", "rater", "chat", "--json").json["temperature"]
    odds = [torch.tensor((1 + one) / 2, dtype=torch.float64).logit() / temperature for one in result["ratings"]]
    assert ratings(trained, "--calibrated") == pytest.approx([2 * float(one.sigmoid()) - 1 for one in odds], abs=1e-6)
    alone = trained("judge", "score", "rater", "chat", *RATE[:3], "--json").json["ratings"]
    assert alone == pytest.approx(result["ratings"][:1], abs=1e-5)


# ── damage ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("change", [{"config": None}, {"files": 3}])
def test_a_manifest_that_is_none_is_named_by_what_only_reads_it(trained: Home, change: dict[str, Any]) -> None:
    path = version_folder(trained.path) / MANIFEST
    write_json(path, {**read_json(path), **change})
    (row,) = trained("artefacts", "list", "rater", "--json").json["versions"]
    assert str(path) in row["problem"]
    result = trained("artefacts", "show", "rater", "chat", "--json")
    assert (result.code, result.error["code"]) == (3, "corrupt")
    assert str(path) in result.error["message"]


def test_texts_in_another_language_are_warned_of_and_long_ones_shortened(trained: Home) -> None:
    said = ("judge", "score", "rater", "chat", "where is the bus", "at the stop")
    strange = trained(*said, "切符はどこで買えますか。")
    assert strange.code == 0
    assert "warning: the rater does not know 12 of" in strange.err
    long = trained(*said, "stop " * 10_000)
    assert (long.code, long.out.count("stop"), long.out.count("…")) == (0, 40, 1)
