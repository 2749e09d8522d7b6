"""File systems of a test's own, small enough to be filled."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import httpx2
from safeguards import require

from refaug.core.progress import Silent


@contextmanager
def small_disk(options: str) -> Iterator[Path]:
    """A tmpfs on a folder which pytest never removes, unmounted lazily where a file on it is still open.

    Another run that clears old folders of pytest away would rename this one under its mount, and fail on it for ever.
    """
    with tempfile.TemporaryDirectory(prefix="refaug-disk-", ignore_cleanup_errors=True) as around:
        folder = Path(around) / "disk"
        _mount(folder, options)
        try:
            yield folder
        finally:
            subprocess.run(["umount", "--lazy", str(folder)], check=False)


def require_tmpfs() -> None:
    """Skip or fail, as REFAUG_REQUIRE has it, where no tmpfs can be mounted."""
    with small_disk("size=1m"):
        pass


def _mount(folder: Path, options: str) -> None:
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    try:
        done = subprocess.run(mount, capture_output=True, check=False)
        why = done.stderr.decode().strip()
    except FileNotFoundError as error:
        done, why = None, str(error)
    require("tmpfs", found=done is not None and done.returncode == 0, why=why)


def close_strictly(folder: Path) -> bool:
    """Unmount, unless some file on it is still open."""
    return subprocess.run(["umount", str(folder)], capture_output=True, check=False).returncode == 0


def fill(disk: Path) -> Path:
    """Take all room; what this gives is the file to remove."""
    filler = disk / "filler"
    with filler.open("ab", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            with suppress(OSError):
                while file.write(b"x" * size) == size:
                    pass
    return filler


_PAGE = 4_096
_MOST_PAGES = 256  # that an act may need; more means that it never goes through


def refused_until_it_fits(disk: Path, act: Callable[[], httpx2.Response]) -> tuple[httpx2.Response, list[str]]:
    """The answer to an act when a full disk has just enough room for it, and the codes of its refusals before.

    The room grows page by page, so that each write of the act is once the one that fails. The log of the database's
    writes is emptied before: it would take some writes without more room. It stays as it is while someone reads it.
    """
    (disk / "filler").unlink(missing_ok=True)
    with closing(sqlite3.connect(disk / "refaug.db")) as connection:
        while connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:  # busy
            pass
    codes = list[str]()
    for pages in range(_MOST_PAGES):
        filler = fill(disk)
        os.truncate(filler, filler.stat().st_size - pages * _PAGE)
        answer = act()
        if answer.status_code < 400:
            return answer, codes
        assert answer.status_code in (503, 507), answer.text
        problem = answer.json()
        assert (problem["status"], bool(problem["detail"]), bool(problem["remedy"])) == (answer.status_code, True, True)
        codes.append(problem["code"])
    raise AssertionError(codes)


class Fills(Silent):
    """Someone who fills the disk when a stage begins."""

    def __init__(self, disk: Path, stage: str) -> None:
        self.disk, self.wanted = disk, stage

    def stage(self, name: str, total: int | None = None, unit: str = "") -> None:
        if name == self.wanted:
            fill(self.disk)
