"""Files of a version that a process has mapped, and whether they are still those whose hashes it has compared.

Reading a part of a mapping that its file no longer has ends the process with SIGBUS, and a file that is written to in
place changes what is read. Each file is held open, so that its size and times can be asked for by its inode, whatever
its name means by now. The time of the last change of the inode is among them: no program can set it back.

`os.fstat` lets the interpreter go for each call. In a server with a thread that waits for it, waking that thread costs
many times the microsecond that the call takes; so this asks the system's `statx`, whose answer lies in memory in the
same way on every processor, and keeps the interpreter.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from refaug.core.artefacts.manifests import MANIFEST, named_files
from refaug.core.artefacts.verified_files import verified_files
from refaug.core.errors import Corrupt
from refaug.core.files import read_json

FileStamp = bytes | tuple[int, int, int]

_EMPTY_PATH: Final = 0x1000  # AT_EMPTY_PATH: the file behind the descriptor itself
_FIELDS: Final = 0x200 | 0x40 | 0x80  # STATX_SIZE, STATX_MTIME, STATX_CTIME
_BYTES: Final = 256  # of struct statx
_SIZE: Final = slice(0x28, 0x30)
_CHANGE_AND_WRITE_TIME: Final = slice(0x60, 0x7C)


def _plain_stamp_of(handle: int) -> FileStamp:
    """Return size and times of an open file."""
    status = os.fstat(handle)
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _quick_stamp() -> Callable[[int], FileStamp] | None:
    """Return the function that asks `statx`; None where this system has none."""
    try:
        statx = ctypes.PyDLL(None).statx
    except (AttributeError, OSError):
        return None
    answer_type = ctypes.c_char * _BYTES

    def stamp(handle: int) -> FileStamp:
        answer = answer_type()  # of its own, since other threads ask, too
        if statx(handle, b"", _EMPTY_PATH, _FIELDS, answer):
            return _plain_stamp_of(handle)  # which raises what is wrong
        raw = answer.raw
        return raw[_SIZE] + raw[_CHANGE_AND_WRITE_TIME]

    return stamp


stamp_of: Final[Callable[[int], FileStamp]] = _quick_stamp() or _plain_stamp_of


@dataclass
class _MappedFile:
    """An open file, and the size and times that it had when its hash was compared."""

    name: str
    path: Path
    sha256: str
    handle: int
    verified: FileStamp | None = None

    def require_verified(self) -> None:
        """Compare the hash again if the file was written to; this reads it, and touches no mapping."""
        if not self.is_verified():
            size = os.fstat(self.handle).st_size
            raise Corrupt(
                f"{self.name} was changed while it is served: it has {size:,} bytes, and another SHA-256 than its "
                "manifest says",
                remedy="put back what was in it, or publish another version",
            )

    def is_verified(self) -> bool:
        """Return whether the file has the hash of its manifest; read it only if it was written to."""
        stamp = stamp_of(self.handle)
        if stamp != self.verified:
            if verified_files.sha256(Path(f"/proc/self/fd/{self.handle}")) != self.sha256:
                return False
            self.verified = stamp
        return True

    def is_replaced(self) -> bool:
        """Return whether another file has this one's name by now, with the hash of the manifest."""
        try:
            if os.path.samestat(self.path.stat(), os.fstat(self.handle)):
                return False
            return verified_files.sha256(self.path) == self.sha256
        except OSError:  # the name means nothing, or not yet
            return False


class MappedFiles:
    """The files of open versions; thread-safe."""

    def __init__(self, files: Sequence[_MappedFile]) -> None:
        self._files = list(files)
        self._lock = threading.Lock()

    @classmethod
    def of_folders(
        cls, folders: Sequence[Path], is_mapped: Callable[[Path, str], bool] = lambda _folder, _name: True
    ) -> Self:
        """Hold the files that the manifests of these versions name, which are mapped or about to be.

        `is_mapped` says of which files that is so, by the folder and the name.
        """
        files = list[_MappedFile]()
        try:
            for folder in folders:
                for named in named_files(read_json(folder / MANIFEST), folder / MANIFEST):
                    if not is_mapped(folder, named.name):
                        continue
                    handle = os.open(folder / named.name, os.O_RDONLY | os.O_CLOEXEC)
                    shown = f"{folder.parent.name}@{folder.name} {named.name}"
                    files.append(_MappedFile(shown, folder / named.name, named.sha256, handle))
            for file in files:
                file.require_verified()
        except BaseException:
            cls(files).close()
            raise
        return cls(files)

    def require_unchanged(self) -> None:
        """Raise Corrupt with the name of a file that was cut or written to; this takes about a microsecond a file."""
        with self._lock:  # a closed handle may soon be that of another file
            for file in self._files:
                if stamp_of(file.handle) != file.verified:
                    file.require_verified()

    def are_replaced(self) -> bool:
        """Return whether some files were changed, and each of them has a right one under its name to open instead."""
        with self._lock:
            changed = [file for file in self._files if not file.is_verified()]
            return bool(changed) and all(file.is_replaced() for file in changed)

    def close(self) -> None:
        """Close the files; after that none is looked at."""
        with self._lock:
            for file in self._files:
                os.close(file.handle)
            self._files.clear()
