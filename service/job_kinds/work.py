"""What every job has at hand: the home, the settings, its own marks of what is done, and a clock on its stages."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from core.errors import CheckFailed, Usage
from core.files import make_folder, remove_tree
from core.progress import Progress
from core.stages import Stages
from service.serve_settings import ServeSettings
from service.settings import Settings

FOLDER: Final = "jobs"
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_DAY_S: Final = 86_400


class NotPublished(CheckFailed):
    """Built, but not published because a check failed; `result` says what was measured."""

    def __init__(self, message: str, *, remedy: str, result: Mapping[str, Any]) -> None:
        super().__init__(message, remedy=remedy)
        self.result = plain(result)


class Clocked:
    """Tells of progress, and counts the seconds of every stage."""

    def __init__(self, told: Progress, clock: Callable[[], float] = time.monotonic) -> None:
        self._told, self._clock = told, clock
        self._stage, self._since = "", clock()
        self._seconds = dict[str, float]()

    def stage(self, name: str, total: int | None = None, unit: str = "") -> None:
        """A new stage begins; the one before is done."""
        self._count()
        self._stage = name
        self._told.stage(name, total, unit)

    def advance(self, amount: int) -> None:
        """So much of the current stage's total is done."""
        self._told.advance(amount)

    def warn(self, message: str) -> None:
        """Something is not as it should be, and the work goes on."""
        self._told.warn(message)

    @property
    def seconds(self) -> dict[str, float]:
        """By stage, of this run; a stage that comes several times has them all."""
        self._count()
        return {name: round(seconds, 3) for name, seconds in self._seconds.items() if name}

    def _count(self) -> None:
        now = self._clock()
        self._seconds[self._stage] = self._seconds.get(self._stage, 0.0) + now - self._since
        self._since = now


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a job is done with."""

    home: Settings
    serve: ServeSettings
    progress: Clocked
    stages: Stages

    @classmethod
    def of(cls, home: Settings, serve: ServeSettings, progress: Progress, job: str) -> Work:
        """For a job by its id, with what an earlier run of it has done."""
        return cls(home=home, serve=serve, progress=Clocked(progress), stages=Stages(folder_of(home, job)))


def folder_of(home: Settings, job: str) -> Path:
    """Where a job keeps what it has done."""
    if _ID.fullmatch(job) is None:
        raise Usage(f"{job[:80]!r} is no id of a job")
    return home.home / FOLDER / job


def jobs_folder(home: Settings) -> Path:
    """Where all of them are, and items that wait to be frozen."""
    for folder in (home.home, home.home / FOLDER):
        make_folder(folder)
    return home.home / FOLDER


def remove_old(home: Settings, days: float) -> None:
    """Marks and items of jobs that ended, or never began, so long ago that nobody asks for them any more."""
    before = time.time() - days * _DAY_S
    for path in jobs_folder(home).iterdir():
        if path.stat().st_mtime < before:
            if path.is_dir():
                remove_tree(path)
            else:
                path.unlink(missing_ok=True)


def plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """The same as JSON has it: what is marked as done, and what a database keeps."""
    options = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS
    found: dict[str, Any] = orjson.loads(orjson.dumps(values, option=options))
    return found
