"""Indexes and raters stay open in the process, follow publications, and are usable by threads and forked workers."""

from __future__ import annotations

import faulthandler
import gc
import json
import multiprocessing
import os
import random
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from engines import TEXTS, home_with_versions
from refusals import refusing

import refaug
from refaug.cli.main import main
from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.home import Settings
from refaug.library import engine as engine_module
from refaug.library.engine import engine_of

DRAWN = random.Random(3)
ITEMS = [
    {
        "id": f"d{place}",
        "utterance": DRAWN.choice(TEXTS),
        "references": [DRAWN.choice(TEXTS)],
        "replies": {"a": DRAWN.choice(TEXTS), "b": DRAWN.choice(TEXTS)},
    }
    for place in range(300)
]
NAMED: dict[str, Any] = {"index": "chat", "rater": "base"}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return home_with_versions(tmp_path_factory.mktemp("library"))


@pytest.fixture(autouse=True)
def closed_engines() -> Iterator[None]:
    """Close what a test has opened, before another test looks for files left open."""
    yield
    engine_module._process.engines.clear()
    gc.collect()


def by_command(home: Settings, capsys: pytest.CaptureFixture[str], path: Path, *words: str) -> Any:
    path.write_text("\n".join(map(json.dumps, ITEMS)))
    named = ["--index", "chat", "--rater", "base"]
    command, options = (words[:2], words[2:]) if words[0] == "sets" else (words[:1], words[1:])
    assert main(["--quiet", "--home", str(home.home), *command, str(path), *named, *options]) == 0
    return capsys.readouterr().out


def test_weighted_scores_are_those_of_the_command(
    home: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    metrics = ["upsilon-bleu", "rater"]
    options = ["--json", "--draws", "0", *(part for metric in metrics for part in ("-m", metric))]
    printed = json.loads(by_command(home, capsys, tmp_path / "items.jsonl", "score", *options))
    scores = refaug.score(ITEMS, metrics=metrics, home=home.home, **NAMED)
    for metric, of_command in zip(scores, printed["scores"], strict=True):
        assert metric.signature_full == of_command["signature_full"]
        for name, system in metric.systems.items():
            of_replies = [reply["score"] for reply in of_command["systems"][name]["replies"]]
            assert system.replies == pytest.approx(of_replies, abs=1e-6)  # ratings differ so with the threads of torch
    assert scores.evidence == printed["evidence"]
    assert scores.versions.index is not None
    assert scores.versions.index.startswith("chat@")
    assert f"index:{scores.versions.index}" in scores["upsilon-bleu"].signature


def test_references_are_those_of_the_command_and_items_again(
    home: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = by_command(home, capsys, tmp_path / "items.jsonl", "sets", "references", "-k", "3").splitlines()
    references = refaug.references(ITEMS, home=home.home, settings={"k": 3}, **NAMED)
    assert references.to_dicts() == [json.loads(line) for line in printed]
    first = references["d0"]
    assert [reference.source for reference in first.references] == [
        "gold",
        *["retrieved"] * (len(first.references) - 1),
    ]
    assert list(references.to_frame().columns[:4]) == ["item", "text", "source", "weight"]
    again = refaug.score(references, metric="upsilon-bleu")
    direct = refaug.score(ITEMS, metric="upsilon-bleu", home=home.home, settings={"k": 3}, **NAMED)
    assert [one.replies for one in again.metric.systems.values()] == [
        one.replies for one in direct.metric.systems.values()
    ]
    assert again.metric.signature_full == direct.metric.signature_full


def test_ratings_are_those_of_the_rater(home: Settings) -> None:
    pairs = [
        {"utterance": "we like boats", "golds": ["yes"], "candidates": ["no", {"text": "yes", "utterance": "how"}]},
        {"utterance": "how", "golds": ["yes", "no"], "candidates": []},
    ]
    ratings = refaug.rate(pairs, rater="base", home=home.home, combine="mean")
    references = refaug.rate(pairs[:1], rater="base", home=home.home, combine="mean")
    assert ratings[0] == references[0]
    assert ([len(of_pair) for of_pair in ratings], all(-1 <= rating <= 1 for rating in ratings[0])) == ([2, 0], True)
    assert str(ratings.versions.rater).startswith("base@")
    for pair, field in {
        "a": "pairs[0]",
        json.dumps({"utterance": "a", "candidates": ["b"]}): "golds",
        json.dumps({"utterance": "a", "golds": "b", "candidates": ["b"]}): "pairs[0].golds",
        json.dumps({"utterance": " ", "golds": ["b"], "candidates": ["b"]}): "utterance",
        json.dumps({"utterance": "a", "golds": [], "candidates": ["b"]}): "golds",
        json.dumps({"utterance": "a", "golds": ["b"], "candidates": [3]}): "candidates[0]",
    }.items():
        given = json.loads(pair) if pair.startswith("{") else pair
        with refusing(refaug.RefaugError, field):
            refaug.rate([given], rater="base", home=home.home)


def test_versions_stay_open_until_another_is_published(home: Settings) -> None:
    indexes = artefact_stores(home)["index"]
    first, second = indexes.versions("chat")
    before = engine_of(home.home).index("chat")
    assert engine_of(home.home).index("chat") is before is engine_of(str(home.home)).index(f"chat@{first}")
    try:
        indexes.publish("chat", second)
        after = refaug.references(ITEMS[:1], home=home.home, **NAMED)
        assert after.versions.index is not None
        assert after.versions.index.startswith(f"chat@{second}#")
    finally:
        indexes.publish("chat", first)
    assert engine_of(home.home).index("chat") is before


def test_known_references_are_neither_searched_nor_rated_again(home: Settings) -> None:
    indexes, engine = artefact_stores(home)["index"], engine_of(home.home)
    first, second = indexes.versions("chat")

    def scored(items: list[dict[str, Any]]) -> list[float | None]:
        return refaug.score(items, metric="upsilon-bleu", home=home.home, **NAMED).metric["a"].replies

    fresh = scored(ITEMS[:20])
    known = engine.known_references.items()
    assert scored(ITEMS[:20]) == fresh
    assert [kept is before for (_, kept), (_, before) in zip(engine.known_references.items(), known, strict=True)] == [
        True
    ] * 20
    both = scored(ITEMS[10:30])
    assert both[:10] == fresh[10:]
    assert len(engine.known_references) == 30
    try:
        indexes.publish("chat", second)
        of_second = scored(ITEMS[:20])
        assert len(engine.known_references) == 50
    finally:
        indexes.publish("chat", first)
    assert scored(ITEMS[:20]) == fresh != of_second
    engine_module._process.engines.clear()
    assert scored(ITEMS[10:30]) == pytest.approx(both, abs=1e-6)


def test_the_home_is_that_of_the_environment(home: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("REFAUG_HOME", str(home.home))
    assert refaug.references(ITEMS[:1], **NAMED).versions.index
    monkeypatch.chdir(tmp_path)
    with refusing(refaug.NotFound, "base"):
        refaug.references(ITEMS[:1], home="elsewhere", **NAMED)
    with refusing(refaug.NotFound, "chat@2020-01-01.1"):
        refaug.references(ITEMS[:1], index="chat@2020-01-01.1", rater="base")


def test_threads_share_what_is_open(home: Settings) -> None:
    alone = refaug.score(ITEMS[:40], metric="upsilon-bleu", home=home.home, **NAMED)
    engine_module._process.engines.clear()
    with ThreadPoolExecutor(4) as pool:
        futures = [
            pool.submit(refaug.score, ITEMS[:40], metric="upsilon-bleu", home=home.home, **NAMED) for _ in range(8)
        ]
        for future in futures:
            for name, system in future.result().metric.systems.items():
                assert system.replies == pytest.approx(alone.metric[name].replies, abs=1e-5)


def score_in_worker(home: Path) -> list[float | None]:
    return refaug.score(ITEMS, metric="upsilon-bleu", home=home, **NAMED).metric["a"].replies


def check_forked_workers(home: Path) -> None:
    in_parent = score_in_worker(home)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking a process with threads
        context = multiprocessing.get_context("fork")
        with context.Pool(2) as pool:
            answers = [pool.apply_async(score_in_worker, (home,)) for _ in range(3)]
            for answer in answers:
                assert answer.get(timeout=120) == pytest.approx(in_parent, abs=1e-5)
    assert score_in_worker(home) == pytest.approx(in_parent, abs=1e-5)


@pytest.mark.slow
def test_forked_workers_score_what_their_parent_scores(home: Settings) -> None:
    """The parent has searched and rated with several threads before: a child that used these would hang.

    The parent is a fresh process: locks that threads of other tests hold while it forks are not ours.
    """
    in_fresh_process("check_forked_workers", home)


def in_fresh_process(check: str, home: Settings) -> str:
    """Return what a check prints that has a process for itself."""
    program = (
        "import json, sys; from pathlib import Path; sys.path[:0] = json.loads(sys.argv[1])\n"
        f"from unit.library.test_engine import {check}\n"
        f"{check}(Path(sys.argv[2]))\n"
    )
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program, json.dumps(sys.path), str(home.home)]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=140)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def score_few(home: Path) -> list[float | None]:
    scores = refaug.score(ITEMS[:10], metrics=["upsilon-bleu", "rater"], home=home, **NAMED)
    return [*scores["upsilon-bleu"]["a"].replies, *scores["rater"]["a"].replies]


def check_forks_while_others_score(home: Path) -> None:
    ends = threading.Event()

    def score_again() -> None:
        while not ends.is_set():
            score_few(home)

    scoring = [threading.Thread(target=score_again) for _ in range(2)]
    for thread in scoring:
        thread.start()
    try:
        for _ in range(12):
            child = os.fork()
            if child == 0:
                faulthandler.dump_traceback_later(100, exit=True)
                try:
                    os.write(1, f"{json.dumps(score_few(home))}\n".encode())
                finally:
                    os._exit(0)
            os.waitpid(child, 0)
            score_few(home)
    finally:
        ends.set()
        for thread in scoring:
            thread.join()


@pytest.mark.slow
def test_workers_forked_while_other_threads_score_do_not_hang(home: Settings) -> None:
    """The first child begins while the others import and open what they need."""
    rows = [json.loads(line) for line in in_fresh_process("check_forks_while_others_score", home).splitlines()]
    assert rows == [pytest.approx(score_few(home.home), abs=1e-5)] * 12


def test_workers_of_a_data_loader_score(home: Settings) -> None:
    from torch.utils.data import DataLoader, Dataset  # noqa: PLC0415

    class ScoredItems(Dataset[float]):
        def __len__(self) -> int:
            return 6

        def __getitem__(self, place: int) -> float:
            own = [ITEMS[place]]
            return float(refaug.score(own, metric="upsilon-bleu", home=home.home, **NAMED).metric["a"].replies[0] or 0)

    in_parent = [ScoredItems()[place] for place in range(6)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        loader = DataLoader(ScoredItems(), batch_size=2, num_workers=2, timeout=120, multiprocessing_context="fork")
        in_workers = [score for batch in loader for score in batch.tolist()]
    assert in_workers == pytest.approx(in_parent, abs=1e-5)
