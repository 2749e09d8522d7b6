"""The web processes that are alive, with the versions that each serves; publishing waits until all serve a new one.

    <home>/serving/<process>-<drawn>.json    the versions that one process serves, locked while the process lives

A process writes a new report aside, locks it, and renames it over the old one. So a living process always holds the
lock on the file of its name, and a file whose lock is free belongs to a dead process.
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

from refaug.core.files import make_folder, storage_errors, unique_suffix
from refaug.core.home import Settings
from refaug.service.serving.versions.served_versions import ServedVersions

FOLDER: Final = "serving"
_ASIDE: Final = ".aside"


@dataclass(frozen=True, kw_only=True)
class ProcessReport:
    """A web process: its versions by kind and name, the number of this set of versions, and the time of its start.

    A process that is not ready may accept connections nevertheless: some process has to answer that the service is
    starting.
    """

    pid: int
    versions: Mapping[str, Mapping[str, str]]
    generation: int
    begun: str
    is_ready: bool
    accepts: bool


class LiveProcesses:
    """The report of this process, and the reports of all other web processes.

    This process is ready when its versions are loaded and nothing is being warmed up; it reports that it `accepts`
    connections as soon as that attribute is set.
    """

    def __init__(self, home: Settings, *, warming: Sequence[str] = ()) -> None:
        self.accepts = False
        self._warming = warming
        self._folder = home.home / FOLDER
        self._path = self._folder / f"{unique_suffix()}.json"
        self._begun = datetime.now(UTC).isoformat(timespec="seconds")
        self._lock = threading.Lock()
        self._file: BinaryIO | None = None  # the file under our name, locked
        self._reported: ProcessReport | None = None

    def report(self, served: ServedVersions) -> None:
        """Write what this process serves, unless the file says so already."""
        versions = {kind: dict(names) for kind, names in served.versions().items()}
        new = ProcessReport(
            pid=os.getpid(),
            versions=versions,
            generation=served.generation,
            begun=self._begun,
            is_ready=served.is_loaded and not self._warming,
            accepts=self.accepts,
        )
        with self._lock:
            if new != self._reported or not self._is_written():
                self._write(new)
                self._reported = new

    def _is_written(self) -> bool:
        with suppress(FileNotFoundError):
            return self._file is not None and os.path.samestat(os.fstat(self._file.fileno()), self._path.stat())
        return False

    def _write(self, new: ProcessReport) -> None:
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

    def reports(self) -> list[ProcessReport]:
        """Return the reports of living processes by process id, and remove the files of dead ones."""
        reports = [one for path in sorted(self._folder.glob("[!.]*.json")) if (one := _read(path)) is not None]
        return sorted(reports, key=lambda one: one.pid)

    def unready_pids(self) -> list[int]:
        """Return the living processes that accept connections and have nothing open yet."""
        return [one.pid for one in self.reports() if one.accepts and not one.is_ready]

    def pids_without(self, kind: str, name: str, version: str) -> list[int]:
        """Return the living processes that do not serve this version, including those that have just started."""
        return [one.pid for one in self.reports() if one.versions.get(kind, {}).get(name) != version]

    def close(self) -> None:
        """Remove the report of this process."""
        with self._lock:
            if self._file is not None:
                self._path.unlink(missing_ok=True)
                self._file.close()
                self._file = self._reported = None


def _read(path: Path) -> ProcessReport | None:
    """Return the report in a file, or None if its process is dead; then the file is removed."""
    while True:
        try:
            file = path.open("rb")
        except FileNotFoundError:
            return None
        with file:
            if _is_locked(file):
                values = orjson.loads(file.read())
                return ProcessReport(**values)
            with suppress(FileNotFoundError):
                if not os.path.samestat(os.fstat(file.fileno()), path.stat()):
                    continue  # a living process has replaced it since it was opened
                path.unlink()
            return None


def _is_locked(file: BinaryIO) -> bool:
    """Return whether the process that wrote the file lives; shared locks let several processes check at once."""
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False
