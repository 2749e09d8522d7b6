"""Holding a version against removal while it is read: a shared lock on its manifest, which ends with the process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from refaug.core.artefacts.manifests import MANIFEST
from refaug.core.files import flock


@dataclass(frozen=True, kw_only=True)
class HeldVersion:
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
        """Release the version; mapped files stay readable even if they are removed."""
        self.manifest_file.close()


def hold(folder: Path, name: str, version: str) -> HeldVersion | None:
    """Lock the version in this folder; None if it was removed before. Needs no write permission."""
    with ExitStack() as failing:
        try:
            file = failing.enter_context((folder / MANIFEST).open("rb"))
        except FileNotFoundError:
            return None
        flock(file, is_shared=True)  # a process that removes it locks it only for the moment of a rename
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), (folder / MANIFEST).stat()):
                failing.pop_all()
                return HeldVersion(name=name, version=version, folder=folder, manifest_file=file)
    return None


@contextmanager
def lock_if_unread(folder: Path) -> Iterator[bool]:
    """Try to lock a version exclusively; yield whether no process holds it, which stays true until the block ends."""
    with (folder / MANIFEST).open("rb") as file:
        try:
            flock(file, waits=False)
            is_free = True
        except BlockingIOError:
            is_free = False
        yield is_free
