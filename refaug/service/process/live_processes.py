"""The web processes that are alive, with the versions that each serves; publishing waits until all serve a new one.

<home>/serving/<process>-<drawn>.json    the versions that one process serves, a live file of that process
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Final

import orjson

from refaug.core.files import make_folder, unique_suffix
from refaug.core.home import Settings
from refaug.core.processes.live_file import LiveFile
from refaug.service.serving.versions.leases import ServedVersions

FOLDER: Final = "serving"
_SUFFIX: Final = ".json"


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
        self._path = self._folder / f"{unique_suffix()}{_SUFFIX}"
        self._begun = datetime.now(UTC).isoformat(timespec="seconds")
        self._lock = threading.Lock()
        self._file: LiveFile | None = None
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
            if new != self._reported or not (self._file is not None and self._file.is_in_place):
                self._write(new)
                self._reported = new

    def _write(self, new: ProcessReport) -> None:
        make_folder(self._folder)
        content = orjson.dumps(asdict(new))
        if self._file is None:
            self._file = LiveFile(self._path, content)
        else:
            self._file.replace(content)

    def reports(self) -> list[ProcessReport]:
        """Return the reports of living processes by process id, and remove the files of dead ones."""
        reports = [ProcessReport(**orjson.loads(content)) for content in LiveFile.read_all(self._folder, _SUFFIX)]
        return sorted(reports, key=lambda report: report.pid)

    def unready_pids(self) -> list[int]:
        """Return the living processes that accept connections and have nothing open yet."""
        return [one.pid for one in self.reports() if one.accepts and not one.is_ready]

    def pids_with_and_without(self, kind: str, name: str, version: str) -> tuple[list[int], list[int]]:
        """Return the living processes that serve this version and those that do not, as they are at one moment."""
        pids: tuple[list[int], list[int]] = ([], [])
        for report in self.reports():
            pids[report.versions.get(kind, {}).get(name) != version].append(report.pid)
        return pids

    def close(self) -> None:
        """Remove the report of this process."""
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = self._reported = None
