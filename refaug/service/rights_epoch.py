"""The epoch of rights: a file of the home that changes with every key made or revoked, for all processes to see.

Keys are held in memory for a second; a process that finds another epoch reads them at once. Where the servers of one
database have several homes, the second alone bounds what they know.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from refaug.core.errors import RefaugError
from refaug.core.files import make_folder, unique_suffix, write_aside
from refaug.core.home import Settings

_FILE: Final = ".rights"


class RightsEpoch:
    """The epoch of one home."""

    def __init__(self, home: Settings) -> None:
        self._path = home.home / _FILE

    def advance(self) -> None:
        """Let all processes read keys anew; a home that takes no file leaves them to do so by themselves."""
        with suppress(OSError, RefaugError):
            make_folder(self._path.parent)
            with write_aside(self._path) as file:
                file.write(f"{unique_suffix()}\n".encode())

    def stamp(self) -> tuple[int, ...]:
        """Return what differs between two epochs."""
        try:
            status = self._path.stat()
        except OSError:
            return ()
        return status.st_ino, status.st_mtime_ns
