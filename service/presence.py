"""Which web processes are alive, and what each of them serves: who publishes a version waits until all have it.

    <home>/serving/<process>-<drawn>.json    what one process serves; locked by it for as long as it lives

A process writes what is new aside, locks that, and renames it over the old: so the file under the name is always
locked by a living process, and one that can be locked by somebody else is left over from one that died.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Final

import orjson

from core.files import make_folder, storage_errors, unique
from service.engine import Engine
from service.settings import Settings

FOLDER: Final = "serving"
_ASIDE: Final = ".aside"


@dataclass(frozen=True, kw_only=True)
class Reported:
    """A process that serves requests: which versions, by kind and name, the how manyeth set of them, and since when.

    One that is not ready may take connections nevertheless: somebody has to say so.
    """

    pid: int
    versions: Mapping[str, Mapping[str, str]]
    generation: int
    begun: str
    is_ready: bool
    accepts: bool


class Presence:
    """What this process tells of itself, and what all others tell.

    It is ready when it has looked at what is published, and nothing of it is being warmed; it tells that it `accepts`
    connections from when that is set.
    """

    def __init__(self, home: Settings, *, warming: Sequence[str] = ()) -> None:
        self.accepts = False
        self._warming = warming
        self._folder = home.home / FOLDER
        self._path = self._folder / f"{unique()}.json"
        self._begun = datetime.now(UTC).isoformat(timespec="seconds")
        self._lock = threading.Lock()
        self._file: BinaryIO | None = None  # what is under our name, locked
        self._told: Reported | None = None

    def report(self, engine: Engine) -> None:
        """Say what is served now; nothing is written where that is known already."""
        versions = {kind: dict(names) for kind, names in engine.versions().items()}
        new = Reported(
            pid=os.getpid(),
            versions=versions,
            generation=engine.generation,
            begun=self._begun,
            is_ready=engine.has_looked and not self._warming,
            accepts=self.accepts,
        )
        with self._lock:
            if new != self._told or not self._is_there():
                self._write(new)
                self._told = new

    def _is_there(self) -> bool:
        with suppress(FileNotFoundError):
            return self._file is not None and os.path.samestat(os.fstat(self._file.fileno()), self._path.stat())
        return False

    def _write(self, new: Reported) -> None:
        make_folder(self._folder)
        aside = self._path.with_name(f".{self._path.name}{_ASIDE}")
        with storage_errors(self._path):
            file = aside.open("wb", buffering=0)
            try:
                fcntl.flock(file, fcntl.LOCK_EX)
                file.write(orjson.dumps(asdict(new)))
                aside.replace(self._path)  # not synced: after a power cut no process is alive
            except BaseException:
                file.close()
                aside.unlink(missing_ok=True)
                raise
        if self._file is not None:
            self._file.close()
        self._file = file

    def live(self) -> list[Reported]:
        """What the living processes tell, by their numbers; what the dead have left is removed."""
        found = [one for path in sorted(self._folder.glob("[!.]*.json")) if (one := _read(path)) is not None]
        return sorted(found, key=lambda one: one.pid)

    def opening(self) -> list[int]:
        """The living processes whose requests are told to come again, since they have nothing open yet."""
        return [one.pid for one in self.live() if one.accepts and not one.is_ready]

    def lacking(self, kind: str, name: str, version: str) -> list[int]:
        """The living processes whose requests do not get this version yet: one that has just begun, too."""
        return [one.pid for one in self.live() if one.versions.get(kind, {}).get(name) != version]

    def close(self) -> None:
        """This process serves nothing any more."""
        with self._lock:
            if self._file is not None:
                self._path.unlink(missing_ok=True)
                self._file.close()
                self._file = self._told = None


def _read(path: Path) -> Reported | None:
    """What a living process tells; None where it is dead or gone, and then the file is gone, too."""
    while True:
        try:
            file = path.open("rb")
        except FileNotFoundError:
            return None
        with file:
            if _is_held(file):
                values = orjson.loads(file.read())
                return Reported(**values)
            with suppress(FileNotFoundError):
                if not os.path.samestat(os.fstat(file.fileno()), path.stat()):
                    continue  # replaced between opening and looking: by one that lives
                path.unlink()
            return None


def _is_held(file: BinaryIO) -> bool:
    """Whether the process that wrote it lives; several may ask at once, and none is taken for the writer."""
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False
