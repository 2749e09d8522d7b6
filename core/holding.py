"""Holding a version that is read, so that no process removes it: a lock on its manifest, gone with the process."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from core.artefacts import MANIFEST


@dataclass(frozen=True, kw_only=True)
class Held:
    """An open version; while it is held, no process removes it."""

    name: str
    version: str
    folder: Path
    manifest_file: BinaryIO = field(repr=False)  # carries the lock

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Let go; what is mapped already stays readable even if the files are removed."""
        self.manifest_file.close()


def hold(folder: Path, name: str, version: str) -> Held | None:
    """The version in this folder, held; None if it was removed before it could be locked. Needs no right to write."""
    with ExitStack() as failing:
        try:
            file = failing.enter_context((folder / MANIFEST).open("rb"))
        except FileNotFoundError:
            return None
        fcntl.flock(file, fcntl.LOCK_SH)  # whoever removes it has it locked for the moment of a rename
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), (folder / MANIFEST).stat()):
                failing.pop_all()
                return Held(name=name, version=version, folder=folder, manifest_file=file)
    return None


@contextmanager
def unread(folder: Path) -> Iterator[bool]:
    """Whether nobody holds the version in this folder; if so, nobody can before the block has ended."""
    with (folder / MANIFEST).open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            free = True
        except BlockingIOError:
            free = False
        yield free
