"""What following a job has come to: which events were seen, whether it is over, when to look again."""

from __future__ import annotations

import math
import sys
import time
from dataclasses import replace
from typing import Any, NoReturn, Optional

from . import _errors as errors
from ._call import Answer, Call
from ._calls import follow_job
from ._models import ENDED, Job
from ._progress import Reporter
from ._settings import Connecting
from ._sse import Event, Reader

_SILENT_S = 45.0  # that a stream may be without a sign of life, which the server gives every 15
_SIGN_S = 15.0
_FIRST_LOOK_S, _LONGEST_LOOK_S = 0.2, 5.0


class Following:
    """One job's events, over as many connections as it takes."""

    def __init__(self, to: Connecting, id: str, after: int = 0, timeout_s: Optional[float] = None) -> None:  # noqa: A002
        if isinstance(after, bool) or not isinstance(after, int) or after < 0:
            raise errors.Usage(f"after={after!r} is no id of an event", remedy="0, or the id of the last one seen")
        self.id, self.last, self._has_ended = id, after, False
        self._to = to
        if timeout_s is not None and not timeout_s > 0:
            raise errors.Usage(f"timeout_s={timeout_s!r} is no time to wait", remedy="more than 0, or None: no limit")
        self._ends = None if timeout_s in (None, math.inf) else time.monotonic() + timeout_s
        self._timeout_s = timeout_s
        self._failures, self._since = 0, time.monotonic()
        self._reader, self._within_s = Reader(), _SILENT_S
        self._opened_at: Optional[float] = None

    # ── connecting ────────────────────────────────────────────────────────────────────────────────────────────────

    def call(self) -> Call[bytes]:
        """The request for what comes after the last event."""
        self._reader, self._opened_at = Reader(), None
        found = follow_job(self.id)
        return replace(found, query={}, headers={**found.headers, "Last-Event-ID": str(self.last)})

    def within_s(self) -> float:
        """How long a stream may be silent; TimedOut where the time is over."""
        self._within_s = _SILENT_S if self._ends is None else min(_SILENT_S, self.left_s())
        return self._within_s

    def left_s(self) -> float:
        """The time there is; TimedOut where it is over."""
        if self._ends is None:
            return math.inf
        left = self._ends - time.monotonic()
        if left <= 0:
            self._late()
        return left

    def opened(self, headers: Any) -> None:
        """The stream begins; what is no stream of events is refused: a proxy's page."""
        kind = str(headers.get("content-type", ""))
        if kind.partition(";")[0].strip().lower() != "text/event-stream":
            Answer(200, headers, b"").garbled(f"events of type {kind or 'none at all'}: is there a proxy between?")
        self._opened_at = time.monotonic()

    def lost(self, error: errors.RefaugError) -> float:
        """Seconds until the next connection; the error is raised where there was no sign of life for `total_s`.

        Jobs take hours, and a server may be begun anew meanwhile: how often it was tried does not count.
        """
        if self._ends is not None and time.monotonic() >= self._ends:
            self._late()
        if isinstance(error, errors.TimedOut) and self._opened_at is not None and self._within_s < _SILENT_S:
            return 0.0  # it was cut short so that the time could be looked at
        if isinstance(error, errors.Later) and error.code == "overloaded":
            raise error  # there are too many streams, and whoever has one may keep it for hours
        self._failures += 1
        spent = time.monotonic() - self._since
        retry = self._to.retry if self._to.retry.tries == 1 else replace(self._to.retry, tries=sys.maxsize)
        wait = retry.pause(error, tried=self._failures, spent_s=spent, repeatable=True)
        if wait is None:
            error.tries = self._failures
            raise error
        return min(wait, self.left_s())

    def ended(self) -> errors.ConnectionLost:
        """What it is when a stream ends before its job: the server stops, or a proxy has had enough."""
        return errors.ConnectionLost(f"the stream of job {self.id} ended before the job did")

    # ── events ────────────────────────────────────────────────────────────────────────────────────────────────────

    def take(self, piece: bytes) -> list[Event]:
        """New events out of a piece of the stream."""
        found = [event for event in self._reader.feed(piece) if event.id > self.last]
        if found or self._is_steady():
            self._failures, self._since = 0, time.monotonic()
        return found

    def see(self, event: Event) -> Event:
        """An event that is handed on: it is not asked for again."""
        self.last = event.id
        self._has_ended = self._has_ended or event.state in ENDED
        return event

    def is_over(self) -> bool:
        """Whether the job's end was among what was handed on."""
        return self._has_ended

    def _is_steady(self) -> bool:
        """Whether the stream has lived for longer than one that breaks off as soon as it is there."""
        return self._opened_at is not None and time.monotonic() - self._opened_at > _SIGN_S / 2

    def must_reopen(self) -> bool:
        """Whether the time ends before the stream would be given up for silent."""
        return self._ends is not None and self.left_s() < min(_SIGN_S, self._within_s - 1.0)

    def _late(self) -> NoReturn:
        raise errors.TimedOut(
            f"job {self.id} has not ended within {self._timeout_s:g} s",
            remedy="it goes on: wait() for it again, or cancel() it",
        )


class Looking:
    """How often a job is looked at, where its events cannot be had: at first often, then less."""

    def __init__(self) -> None:
        self._next_s = _FIRST_LOOK_S

    def pause_s(self, left_s: float) -> float:
        """Seconds until the next look."""
        wait, self._next_s = self._next_s, min(_LONGEST_LOOK_S, self._next_s * 1.5)
        return min(wait, left_s)

    @staticmethod
    def tell(job: Job, told: Reporter) -> None:
        """Say where it is."""
        if job.progress is not None:
            told.event("progress", job.progress)


def come_to(job: Job) -> Job:
    """A job that is done; JobFailed or JobCancelled with it where it is not."""
    if job.state == "failed":
        error = job.error or {}
        why = error.get("message") or error.get("detail") or "nobody knows why"
        raise errors.JobFailed(
            f"job {job.id} ({job.kind}) failed: {why}",
            remedy=str(error.get("remedy") or ""),
            job=job,
        )
    if job.state == "cancelled":
        raise errors.JobCancelled(f"job {job.id} ({job.kind}) was cancelled", job=job)
    return job
