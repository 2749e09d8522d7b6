"""A disk that is full as of each stage of each command: what is published stays, and with room the command goes on."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from disks import fill, small_disk
from goldens.golden_home import Ended, run_command, unpacked
from integration.test_rater_command import SMALL

from refaug.cli.shared import progress
from refaug.core.vectors import word_vectors

pytestmark = [pytest.mark.machine, pytest.mark.slow, pytest.mark.faults]

COMMANDS: dict[str, tuple[str, ...]] = {
    "ingest": ("log", "ingest", "chat.jsonl", "--log", "chat", "--language", "en", "--workers", "0"),
    "ingest again": ("log", "ingest", "chat.jsonl", "--log", "talk", "--workers", "0", "--rejects", "rejects.jsonl"),
    "delete from a log": ("log", "delete", "talk", "--dialogue", "3"),
    "train a tokenizer": ("train", "tokenizer", "demo", "--output", "pieces.model", "--size", "300"),
    "train vectors": (
        *("train", "vectors", "talk", "--dimensions", "4", "--epochs", "2"),
        *("--min-count", "5", "--threads", "1"),
    ),
    "build": ("index", "build", "talk", "--vectors", "demo", "--check-queries", "20", "--threads", "1"),
    "build shards": (
        *("index", "build", "talk", "--name", "parts", "--vectors", "demo", "--shards", "2"),
        *("--check-queries", "20", "--threads", "1"),
    ),
    "delete from an index": ("index", "delete", "demo", "--dialogue", "demo/000001", "--threads", "1"),
    "compact": ("index", "compact", "demo", "--threads", "1"),
    "train a rater": ("train", "rater", "talk", *SMALL, "--epochs", "1", "--validation-share", "0.3"),
    "freeze": ("sets", "freeze", "few.jsonl", "--index", "demo", "--rater", "demo", "--purpose", "test"),
    "score": ("score", "few.jsonl", "--metric", "bleu", "--draws", "0", "--report", "report"),
    "publish": ("artefacts", "rollback", "rater", "second"),
    "gc": ("artefacts", "gc", "index", "demo", "--keep", "1"),
    "export": ("artefacts", "export", "index", "demo", "demo.tar.zst"),
    "back up": ("admin", "backup", "copy"),
    "make a key": ("admin", "keys", "create", "nobody-yet", "--scope", "read"),
    "queue a job": ("admin", "jobs", "start", "gc", "--json-order", "gc.json"),
}
UNCOMPARED = {"cache", ".lock", "serving", "workers", "report", "copy", ".copy.partial", "CURRENT", ".rights"}


class Filling(progress.QuietProgress):
    """Progress that counts stages, and fills a disk when one of them begins."""

    def __init__(self, disk: Path, at: int) -> None:
        super().__init__()
        self.disk, self.at, self.count = disk, at, 0

    def stage(self, name: str, total: int | None = None, unit: str = "") -> None:
        self.count += 1
        if self.count == self.at:
            fill(self.disk)


@pytest.fixture(scope="module")
def golden() -> Iterator[Path]:
    with unpacked() as folder:
        yield folder


@pytest.fixture(scope="module")
def disk() -> Iterator[Path]:
    with small_disk("size=64m") as disk:
        yield disk


def run(disk: Path, name: str, at: int, monkeypatch: pytest.MonkeyPatch) -> tuple[Ended, int]:
    """A command in the folder of a home, on a disk that is full as of this stage; how many there were."""
    filling = Filling(disk, at)
    if at == 0:
        fill(disk)
    with monkeypatch.context() as patch:
        patch.setattr(progress, "_display", lambda **_how: filling)
        patch.chdir(disk / "work")
        ended = run_command(["--home", "home", *COMMANDS[name]])
    word_vectors._load_folder.cache_clear()
    return ended, filling.count


def begin(golden: Path, disk: Path) -> None:
    """Put the home and its files on the disk, as they were."""
    (disk / "filler").unlink(missing_ok=True)
    shutil.rmtree(disk / "work", ignore_errors=True)
    shutil.copytree(golden, disk / "work")


def content(disk: Path) -> dict[str, str]:
    """The hashes of what a command makes; manifests, which have times, by name alone."""
    work = disk / "work"
    return {
        name: "" if path.suffix in (".json", ".zst") else hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(work.rglob("*"))
        if path.is_file() and not {*(name := path.relative_to(work).as_posix()).split("/")} & UNCOMPARED
        if not name.startswith("home/refaug.db")
    }


def published(disk: Path) -> dict[str, Any]:
    """What readers would take."""
    return {str(path.relative_to(disk)): path.read_text() for path in (disk / "work" / "home").rglob("CURRENT")}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_disk_that_is_full_as_of_any_stage_loses_nothing_and_the_command_goes_on(
    golden: Path, disk: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(golden, disk)
    before, was = published(disk), content(disk)
    whole, stages = run(disk, name, -1, monkeypatch)
    assert whole.code == 0, whole.err
    wanted, is_published = content(disk), published(disk)
    for at in range(stages + 1):
        begin(golden, disk)
        full, _ = run(disk, name, at, monkeypatch)
        assert "Traceback" not in full.err, (at, full.err)
        if full.code != 0:
            assert "error [storage_full]" in full.err, (at, full.err)
            assert published(disk) == before, at
            assert {path: digest for path, digest in content(disk).items() if path in was} == was, at
        (disk / "filler").unlink(missing_ok=True)
        again, _ = run(disk, name, -1, monkeypatch) if full.code != 0 else (full, 0)
        assert again.code == 0, (at, again.err)
        assert content(disk) == wanted, at
        assert published(disk) == is_published, at
