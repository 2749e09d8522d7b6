"""Names under which live processes hold rows: a job that runs, a request that is being answered.

<home>/workers/<name>.lock    a live file of the process with that name
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from refaug.core.files import make_folder, unique_suffix
from refaug.core.home import Settings
from refaug.core.processes.live_file import LiveFile

_SUFFIX: Final = ".lock"


class RowHolders:
    """The names of a home, each held by one process for the time of one block."""

    def __init__(self, home: Settings) -> None:
        self._folder = home.home / "workers"

    @contextmanager
    def hold(self) -> Iterator[str]:
        """Hold a new name; other processes see whether this one is still in the block."""
        name = unique_suffix()
        make_folder(self._folder)
        with LiveFile(self._path(name)):
            yield name

    def is_held(self, name: str) -> bool:
        """Return whether the process with this name is still in its block."""
        return LiveFile.is_live(self._path(name))

    def remove_dead(self) -> None:
        """Remove the files of killed processes."""
        for _ in LiveFile.read_all(self._folder, _SUFFIX):
            pass

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}{_SUFFIX}"
