"""The progress of a job: collected at any speed, and written to the database at most twice a second."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from refaug.core.errors import RefaugError
from refaug.service.jobs.store import JobStore, NewEvent

log = logging.getLogger(__name__)

PROGRESS_INTERVAL_S: Final = 0.5  # at most two writes a second, however fast a job advances
_MAX_WAITING_EVENTS: Final = 1000  # events to keep while the database does not answer


class JobProgress:
    """A job's progress as rows: collected at any speed, and written at most twice a second by another thread."""

    def __init__(
        self,
        jobs: JobStore,
        job: str,
        worker: str,
        *,
        clean: Callable[[str], str] = str,
        check: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._jobs, self._job, self._worker = jobs, job, worker
        self._clean, self._check, self._clock = clean, check, clock
        self._lock = threading.Lock()  # guards the collected events
        self._writing = threading.Lock()  # one write at a time, so that events keep their order
        self._waiting = list[NewEvent]()
        self._left_out = 0
        self._now: dict[str, Any] | None = None
        self._is_new = False
        self._wrote_at = float("-inf")

    def stage(self, name: str, total: int | None = None, unit: str = "") -> None:
        """Begin a new stage; the one before is done."""
        self._check()
        log.info("stage", extra={"job": self._job, "stage": name, "total": total})
        stage_event = {"stage": self._clean(name), "total": total, "unit": unit}
        with self._lock:
            self._now, self._is_new = {**stage_event, "done": 0}, True
            self._add(NewEvent(type="stage", data=stage_event))

    def advance(self, amount: int) -> None:
        """Add to the finished amount of the current stage."""
        self._check()
        with self._lock:
            before = self._now or {"stage": "", "total": None, "unit": "", "done": 0}
            self._now, self._is_new = {**before, "done": before["done"] + amount}, True

    def warn(self, message: str) -> None:
        """Report a problem that does not stop the work."""
        log.warning("job", extra={"job": self._job, "why": message})
        with self._lock:
            self._add(NewEvent(type="warning", data={"message": self._clean(message)}))

    def _add(self, event: NewEvent) -> None:
        if len(self._waiting) < _MAX_WAITING_EVENTS:
            self._waiting.append(event)
        else:
            self._left_out += 1

    def write(self, *, last: bool = False) -> None:
        """Write new events, unless the last write was just before; a failed write is repeated later."""
        with self._writing:
            now = self._clock()
            if not last and now - self._wrote_at < PROGRESS_INTERVAL_S:
                return
            with self._lock:
                if not (self._waiting or self._is_new):
                    return
                events, left_out, is_new, progress = self._waiting, self._left_out, self._is_new, self._now
                self._waiting, self._left_out, self._is_new = [], 0, False
            self._wrote_at = now
            try:
                self._jobs.progress(
                    self._job, self._worker, progress if is_new else None, _rows(events, left_out, progress, is_new)
                )
            except RefaugError:
                with self._lock:
                    later = self._waiting
                    self._waiting, self._left_out = list(events), self._left_out + left_out
                    self._is_new = self._is_new or is_new
                    for event in later:
                        self._add(event)
                raise


def _rows(
    events: Sequence[NewEvent], left_out: int, progress: Mapping[str, Any] | None, is_new: bool
) -> Sequence[NewEvent]:
    rows = list(events)
    if left_out:
        rows.append(NewEvent(type="note", data={"message": f"{left_out:,} events were not written"}))
    if is_new and progress is not None:
        rows.append(NewEvent(type="progress", data=progress))
    return rows
