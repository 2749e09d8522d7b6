"""The context of every job: the home, the settings, its finished stages, and a clock on its stages."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import orjson

from refaug.core.artefacts.build_stages import Stages
from refaug.core.errors import CheckFailed, Usage
from refaug.core.files import make_folder, remove_tree
from refaug.core.home import Settings
from refaug.core.processes.free_cores import available_cores, free_cores
from refaug.core.processes.kept import cached_property
from refaug.core.progress import Progress
from refaug.service.jobs.audited_jobs import FOLDER
from refaug.service.server_settings import ServeSettings

log = logging.getLogger(__name__)

_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_DAY_S: Final = 86_400


class NotPublished(CheckFailed):
    """Built, but not published because a check failed; `result` says what was measured."""

    def __init__(self, message: str, *, remedy: str, facts: Mapping[str, Any]) -> None:
        super().__init__(message, remedy=remedy)
        self.result = as_json(facts)


class FindsReferences(Protocol):
    """An order of a job that finds references, perhaps on a cluster."""

    @property
    def threads(self) -> int | None:
        """Threads that it names."""

    @property
    def on(self) -> str | None:
        """The cluster that it names."""


class TimedProgress:
    """Progress that also measures the seconds of every stage."""

    def __init__(self, progress: Progress, clock: Callable[[], float] = time.monotonic) -> None:
        self._progress, self._clock = progress, clock
        self._stage, self._since = "", clock()
        self._seconds = dict[str, float]()

    def stage(self, name: str, total: int | None = None, unit: str = "") -> None:
        """Begin a new stage; the one before is done."""
        self._count()
        self._stage = name
        self._progress.stage(name, total, unit)

    def advance(self, amount: int) -> None:
        """Add to the finished amount of the current stage."""
        self._progress.advance(amount)

    def warn(self, message: str) -> None:
        """Report a problem that does not stop the work."""
        self._progress.warn(message)

    @property
    def seconds(self) -> dict[str, float]:
        """The seconds of each stage of this run, added up where a stage comes several times."""
        self._count()
        return {name: round(seconds, 3) for name, seconds in self._seconds.items() if name}

    def _count(self) -> None:
        now = self._clock()
        self._seconds[self._stage] = self._seconds.get(self._stage, 0.0) + now - self._since
        self._since = now


@dataclass(frozen=True, kw_only=True)
class JobContext:
    """What a job works with."""

    home: Settings
    serve: ServeSettings
    progress: TimedProgress
    stages: Stages

    @classmethod
    def of(cls, home: Settings, serve: ServeSettings, progress: Progress, job: str) -> JobContext:
        """Return the context of a job by its id, with the stages that an earlier run has finished."""
        return cls(home=home, serve=serve, progress=TimedProgress(progress), stages=Stages(job_folder(home, job)))

    @property
    def job(self) -> str:
        """The id of the job, which names its folder."""
        return self.stages.folder.name

    def threads(self, ordered: int | None) -> int:
        """Return the threads of this job: those of its order, else of the server's settings, else one a free core."""
        return ordered or self.serve.job_threads or self.fitted_threads

    def reproducible_threads(self, ordered: int | None) -> int:
        """Return the threads of work whose bits depend on the number: no free cores count, and a resume keeps it."""
        if ordered:
            return ordered
        facts = self.stages.run("threads", lambda: {"threads": self.serve.job_threads or available_cores()})
        return int(facts["threads"])

    def reference_threads(self, order: FindsReferences) -> int | None:
        """Return the threads that find references: those of this job or, on a cluster, those that the order names."""
        return self.threads(order.threads) if order.on is None else order.threads

    @cached_property
    def fitted_threads(self) -> int:
        """The number of cores that are free when the job first asks; the same until it ends."""
        threads = free_cores()
        log.info("threads of a job", extra={"threads": threads, "cores": available_cores()})
        return threads


def job_folder(home: Settings, job: str) -> Path:
    """Return the folder of a job's finished stages."""
    if _ID.fullmatch(job) is None:
        raise Usage(f"{job[:80]!r} is not an id of a job")
    return home.home / FOLDER / job


def jobs_folder(home: Settings) -> Path:
    """Return the folder of all jobs, and of items that wait to be frozen."""
    for folder in (home.home, home.home / FOLDER):
        make_folder(folder)
    return home.home / FOLDER


def remove_old_jobs(home: Settings, days: float) -> None:
    """Remove stages and items of jobs that ended, or never began, longer ago."""
    before = time.time() - days * _DAY_S
    for path in jobs_folder(home).iterdir():
        try:
            if path.stat().st_mtime >= before:
                continue
            if path.is_dir():
                remove_tree(path)
            else:
                path.unlink()
        except FileNotFoundError:  # another worker was quicker
            pass
        except OSError:
            log.exception("an old job stays", extra={"job": path.name})


def as_json(values: Mapping[str, Any]) -> dict[str, object]:
    """Return the values as JSON types, as the database stores them."""
    options = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS
    content: dict[str, object] = orjson.loads(orjson.dumps(values, option=options))
    return content
