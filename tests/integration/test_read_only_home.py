"""A home that cannot be written: what only reads goes on, and everything else names what it cannot write to."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from alterations import SET
from disks import small_disk
from goldens.golden_home import Ended, run_command, unpacked
from integration.conftest import ROOT

pytestmark = [pytest.mark.machine, pytest.mark.slow, pytest.mark.faults]


@pytest.fixture(scope="module")
def disk(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A file system with the golden home and its items, which was then made read-only."""
    with small_disk("size=64m") as disk, unpacked() as folder:
        shutil.copytree(folder / "home", disk / "home")
        shutil.copy(folder / "items.jsonl", disk)
        shutil.copy(folder / "chat.jsonl", disk)
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        yield disk


def refaug(folder: Path, *arguments: str) -> Ended:
    """A command over the home in this folder; file names stand for those beside the home."""
    given = [str(folder / word) if (folder / word).is_file() else word for word in arguments]
    return run_command(["--quiet", "--home", str(folder / "home"), *given])


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (("artefacts", "list", "index"), "2026-01-02.1"),
        (("sets", "score", SET, "items.jsonl", "--metric", "upsilon-bleu", "--draws", "0"), "corpus"),
        (("sets", "list"), SET[:12]),
        (("score", "items.jsonl", "--metric", "bleu", "--draws", "0"), "corpus"),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, tuple) else "",
)
def test_what_only_reads_a_read_only_home_works(disk: Path, arguments: tuple[str, ...], found: str) -> None:
    with unpacked() as writable:
        told = [refaug(home, *arguments) for home in (disk, writable)]
    assert [each.code for each in told] == [0, 0], told[0].err
    assert found in told[0].out
    assert told[0].out.replace(str(disk), "") == told[1].out.replace(str(writable), "")


@pytest.mark.parametrize(
    ("arguments", "file"),
    [
        (("serve", "--check"), "home"),
        (("log", "stats", "demo"), "home/cache"),  # where the engine works, since it may need more than memory
        (("log", "ingest", "chat.jsonl", "--log", "demo"), "home/logs/demo/.lock"),
        (("artefacts", "publish", "index", "demo@2026-01-02.1"), "home/indexes/demo"),
        (("admin", "jobs", "list"), "refaug.db"),
        (("admin", "keys", "create", "bob", "--scope", "read"), "refaug.db"),
        (("admin", "backup", "/nonexistent"), "refaug.db"),
    ],
    ids=lambda value: " ".join(value[:3]) if isinstance(value, tuple) else "",
)
def test_what_would_write_to_a_read_only_home_names_the_file_and_what_to_do(
    disk: Path, arguments: tuple[str, ...], file: str
) -> None:
    ended = refaug(disk, *arguments)
    assert ended.code in (1, 4)
    check_error(ended.err, file)


def test_a_server_on_a_read_only_home_ends_at_once_and_says_why(disk: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("REFAUG_")}
    command = [sys.executable, "-m", "refaug", "--home", str(disk / "home"), "serve", "--port", "0"]
    environment["PYTHONPATH"] = str(ROOT)
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert (ended.returncode, ended.stdout) == (1, "")
    check_error(ended.stderr, "home/serving")


def check_error(text: str, file: str) -> None:
    """One error with the file and a remedy."""
    assert "Traceback" not in text
    said, remedy = text[text.index("error [") :].splitlines()[:2]
    assert file in said
    assert "read-only" in said or "cannot be written to" in said
    assert "give this user the right to" in remedy
    assert "--home" in remedy
