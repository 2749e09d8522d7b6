"""Files that show which processes are alive: each is locked by its process, and the system ends the lock with it.

A file appears under its name by a rename, when it is locked already and has its content. So a file whose lock is free
belongs to a process that was killed, and any process may remove it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Self

from refaug.core.files import flock, storage_errors

_ASIDE: Final = ".aside"
IN_USE: Final = "in-use"  # the live file of a scratch folder, which tells one in use from a leftover


class LiveFile:
    """A file that this process holds locked, until it is closed; no other process writes under its path."""

    def __init__(self, path: Path, content: bytes = b"") -> None:
        self.path = path
        self._file: BinaryIO | None = self._write(content)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def is_in_place(self) -> bool:
        """Say whether the file lies under its path, where other processes look for it."""
        with suppress(FileNotFoundError):
            return self._file is not None and _is_same(self._file, self.path)
        return False

    def replace(self, content: bytes) -> None:
        """Write another content; a reader gets the old one or the new one, and the file is locked at every moment."""
        before, self._file = self._file, self._write(content)
        if before is not None:
            before.close()

    def close(self) -> None:
        """Remove the file and end its lock; closing it again does nothing."""
        if self._file is not None:
            self.path.unlink(missing_ok=True)
            self._file.close()
            self._file = None

    def _write(self, content: bytes) -> BinaryIO:
        """Return a new locked file with this content under the path."""
        aside = _aside(self.path)
        with storage_errors(self.path):
            file = _locked(aside)
            try:
                file.write(content)
                aside.replace(self.path)  # not synced: after a power cut no process is alive
            except BaseException:
                aside.unlink(missing_ok=True)
                file.close()
                raise
        return file

    @staticmethod
    def is_live(path: Path) -> bool:
        """Say whether a file is there and a process holds it locked."""
        return _read_live(path, size=0) is not None

    @staticmethod
    def remove_unfinished(path: Path) -> None:
        """Remove what a process left that was killed before its file lay under this path."""
        _read_live(_aside(path), size=0, removes_dead=True)

    @staticmethod
    def read_all(folder: Path, suffix: str) -> Iterator[bytes]:
        """Yield the contents of the live files of a folder in the order of their names, and remove those of the dead.

        Files that a process was killed over while it wrote them are removed as well.
        """
        for aside in folder.glob(f".*{suffix}{_ASIDE}"):
            _read_live(aside, size=0, removes_dead=True)
        for path in sorted(folder.glob(f"[!.]*{suffix}")):
            if (content := _read_live(path, removes_dead=True)) is not None:
                yield content


def _aside(path: Path) -> Path:
    return path.with_name(f".{path.name}{_ASIDE}")


def _locked(aside: Path) -> BinaryIO:
    """Return a new file that is locked; another one where it was removed as a dead process's before it was locked."""
    while True:
        file = aside.open("wb", buffering=0)
        try:
            flock(file)
            with suppress(FileNotFoundError):
                if _is_same(file, aside):
                    return file
        except BaseException:
            file.close()
            raise
        file.close()


def _read_live(path: Path, *, size: int = -1, removes_dead: bool = False) -> bytes | None:
    """Return up to `size` bytes of a file whose process is alive, else None; `removes_dead` removes a dead one's file.

    The lock tried is a shared one. Two processes may try it at the same time, and neither takes the other for the
    process that owns the file.
    """
    while True:
        try:
            file = path.open("rb")
        except FileNotFoundError:
            return None
        with file:
            try:
                flock(file, is_shared=True, waits=False)
            except BlockingIOError:
                return file.read(size)
            with suppress(FileNotFoundError):
                if not _is_same(file, path):
                    continue  # its process has replaced it since it was opened
                if removes_dead:
                    path.unlink()
            return None


def _is_same(file: BinaryIO, path: Path) -> bool:
    return os.path.samestat(os.fstat(file.fileno()), path.stat())
