"""Stopped trainings with texts of a log go with what is deleted from it; others, and those that run, stay."""

from __future__ import annotations

import threading
from pathlib import Path

import orjson
import pytest

from refaug.core.artefacts.versions import Versions
from refaug.rater.training.order import ORDER, remove_interrupted


def stopped(cache: Path, name: str, number: int, *logs: str, more: tuple[str, ...] = ()) -> Path:
    folder = cache / f"rater-{name}-{number:012d}"
    folder.mkdir(parents=True)
    (folder / "shared.arrow").write_bytes(b"what was said")
    (folder / ORDER).write_bytes(orjson.dumps({"name": name, "logs": logs, "more_texts": more}))
    return folder


@pytest.fixture
def raters(tmp_path: Path) -> Versions:
    return Versions(tmp_path / "raters", "rater")


def test_trainings_on_the_log_or_its_texts_are_removed_and_others_stay(tmp_path: Path, raters: Versions) -> None:
    cache = tmp_path / "cache"
    gone = [stopped(cache, "one", 1, "chat", "other"), stopped(cache, "two", 2, "other", more=("chat",))]
    kept = [stopped(cache, "three", 3, "other"), stopped(cache, "four", 4, "chatty")]
    (cache / "rater-five-5").mkdir()
    (cache / "rater-five-5" / ORDER).write_bytes(b"{")
    assert remove_interrupted(raters, cache, "chat") == (["one", "two"], [])
    assert [path.exists() for path in (*gone, *kept)] == [False, False, True, True]
    assert remove_interrupted(raters, cache, "chat") == ([], [])
    assert remove_interrupted(raters, tmp_path / "none", "chat") == ([], [])


def test_one_that_runs_keeps_its_texts_and_is_named(tmp_path: Path, raters: Versions) -> None:
    folder = stopped(tmp_path / "cache", "one", 1, "chat")
    found = list[tuple[list[str], list[str]]]()
    with raters.writing("one", "training rater one"):
        other = threading.Thread(target=lambda: found.append(remove_interrupted(raters, tmp_path / "cache", "chat")))
        other.start()
        other.join()
    assert found == [([], ["one"])]
    assert (folder / "shared.arrow").exists()


def test_trainings_of_another_kind_are_its_own_affair(tmp_path: Path, raters: Versions) -> None:
    cache = tmp_path / "cache"
    ours, other = stopped(cache, "one", 1, "chat"), cache / "ruber-one-000000000001"
    ours.rename(other)
    stopped(cache, "one", 1, "chat")
    assert remove_interrupted(Versions(tmp_path / "rubers", "ruber"), cache, "chat") == (["one"], [])
    assert (ours.exists(), other.exists()) == (True, False)
    assert remove_interrupted(raters, cache, "chat") == (["one"], [])
    assert not ours.exists()
