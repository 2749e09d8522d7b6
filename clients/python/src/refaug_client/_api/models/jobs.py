"""Results about jobs and schedules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Optional

from .base import Model, record, shorten

ENDED_STATES = ("done", "failed", "cancelled")


@record
class Job(Model):
    """A job: its order, its state, and its result."""

    id: str
    kind: str
    state: str  # queued, running, done, failed or cancelled
    order: Mapping[str, Any] = field(default_factory=dict)  # what was asked for, with all defaults
    resources: list[str] = field(default_factory=list)  # what it writes: no two jobs that share one run at once
    created: str = ""
    started: Optional[str] = None
    finished: Optional[str] = None
    tries: int = 0  # how often it was begun
    progress: Optional[Mapping[str, Any]] = None  # where it is
    result: Optional[Mapping[str, Any]] = None  # what came of it
    outcome: Optional[str] = None  # the same in a few words
    error: Optional[Mapping[str, Any]] = None  # why it failed
    requested_by: Optional[str] = None  # name of the key
    schedule: Optional[str] = None  # that asked for it
    cancel_requested: bool = False  # it has been told to stop

    @property
    def is_ended(self) -> bool:
        """Whether it is done, failed or cancelled."""
        return self.state in ENDED_STATES

    def __repr__(self) -> str:
        parts = [self.id, self.kind, self.state]
        if self.progress and not self.is_ended:
            parts.append(f"progress={shorten(self.progress)}")
        if self.error:
            parts.append(f"error={shorten(self.error.get('message', self.error))}")
        if self.result:
            parts.append(f"result={shorten(self.result)}")
        return f"Job({', '.join(parts)})"


@record
class Firing(Model):
    """What became of one time at which a schedule was due."""

    due: str
    job: Optional[str] = None  # that was begun
    state: Optional[str] = None  # the job's
    note: Optional[str] = None  # why no job was begun


@record
class Schedule(Model):
    """A job that begins by the clock; `firings`, newest first, only where one schedule was asked for."""

    name: str
    cron: str  # minute, hour, day of the month, month, day of the week
    timezone: str  # by which clocks
    order: Mapping[str, Any]  # what its jobs do, with all defaults
    enabled: bool  # whether it begins anything
    created: str = ""
    updated: str = ""
    next: list[str] = field(default_factory=list)  # the next times it is due
    firings: list[Firing] = field(default_factory=list)
