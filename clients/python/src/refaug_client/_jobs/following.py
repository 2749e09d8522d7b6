"""Following a job: which events were seen, whether it has ended, when to connect again."""

from __future__ import annotations

import json
import math
import sys
import time
from codecs import getincrementaldecoder
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NoReturn, Optional

from refaug_client._api.models.jobs import ENDED_STATES, Job
from refaug_client._api.readers import read_model
from refaug_client._core import errors
from refaug_client._core.errors import BadAnswer
from refaug_client._core.progress import Progress, Reporter, make_reporter
from refaug_client._http.call import Answer, Call, path
from refaug_client._http.settings import ConnectionSettings

if TYPE_CHECKING:
    from refaug_client._http.call import Wire

# ── Events from a stream: bytes in, cut anywhere, events out. Nothing is read or sent here ────────────────────────────

_LONGEST = 16 * 1024 * 1024  # characters of an event that does not end: refaug's have some hundred


@dataclass(frozen=True)
class Event:
    """Something that happened to a job: a change of state, a stage, progress, a warning or a note.

    `data` holds the details, with the time at which it happened (`at`); ids rise.
    """

    id: int
    kind: str
    data: dict[str, Any] = field(default_factory=dict)

    @property
    def at(self) -> str:
        """When it happened, as ISO 8601."""
        return str(self.data.get("at", ""))

    @property
    def stage(self) -> Optional[str]:
        """The stage of the work that begins or goes on, where the event names one."""
        stage = self.data.get("stage")
        return stage if isinstance(stage, str) else None

    @property
    def share(self) -> Optional[float]:
        """How much of the stage is done, from 0 to 1, where that is known."""
        done, total = self.data.get("done"), self.data.get("total")
        if not isinstance(done, (int, float)) or not isinstance(total, (int, float)) or total <= 0:
            return None
        return min(1.0, done / total)

    @property
    def state(self) -> Optional[str]:
        """The state that the job is in from now on, where the event is a change of state."""
        state = self.data.get("state") if self.kind == "state" else None
        return state if isinstance(state, str) else None

    def to_dict(self) -> dict[str, Any]:
        """Return the event as a dict."""
        return {"id": self.id, "kind": self.kind, "data": dict(self.data)}


class Reader:
    """Puts events together from the pieces of a stream (the format of `text/event-stream`)."""

    def __init__(self) -> None:
        self._decoder = getincrementaldecoder("utf-8")("replace")
        self._rest = ""
        self._ends_with_cr = False
        self._is_first = True
        self._fields: dict[str, str] = {}

    def feed(self, piece: bytes) -> list[Event]:
        """Return the events that are complete with this piece; none for a keep-alive."""
        text = self._decoder.decode(piece)
        if not text:
            return []
        if self._is_first:
            self._is_first, text = False, text[1:] if text[0] == "\ufeff" else text
        if self._ends_with_cr and text.startswith("\n"):
            text = text[1:]  # the second half of a line's end
        self._ends_with_cr = text.endswith("\r") or (self._ends_with_cr and not text)
        lines = (self._rest + text.replace("\r\n", "\n").replace("\r", "\n")).split("\n")
        self._rest = lines.pop()
        if len(self._rest) + sum(map(len, self._fields.values())) > _LONGEST:
            raise BadAnswer("an event that does not end", excerpt=self._rest[:200], content_type="text/event-stream")
        events = (self._line(line) for line in lines)
        return [event for event in events if event is not None]

    def _line(self, line: str) -> Optional[Event]:
        if not line:
            fields, self._fields = self._fields, {}
            return _event(fields) if "data" in fields else None
        name, _, content = line.partition(":")
        content = content[1:] if content.startswith(" ") else content
        if name == "data" and "data" in self._fields:
            content = f"{self._fields['data']}\n{content}"
        if name:  # without one it is a comment
            self._fields[name] = content
        return None


def _event(fields: dict[str, str]) -> Event:
    try:
        return Event(int(fields["id"]), fields.get("event", "message"), _require_object(json.loads(fields["data"])))
    except (KeyError, ValueError, TypeError, RecursionError) as error:
        raise BadAnswer(
            f"an event that is not refaug's ({type(error).__name__}: {error})",
            excerpt=fields["data"][:200],
            content_type="text/event-stream",
        ) from error


def _require_object(event_data: Any) -> dict[str, Any]:
    if not isinstance(event_data, dict):
        raise TypeError(f"its data is a JSON {type(event_data).__name__}")
    return event_data


# ── Following a job: which events were seen, whether it has ended, when to connect again ──────────────────────────────

_SILENT_S = 45.0  # that a stream may be silent; the server sends a keep-alive every 15
_SIGN_S = 15.0
_FIRST_LOOK_S, _LONGEST_LOOK_S = 0.2, 5.0


def get_job(id: str) -> Call[Job]:  # noqa: A002  the wire's name
    """GET /v1/jobs/{id}."""
    return Call("GET", path("v1", "jobs", id), read_model(Job))


def follow_job(id: str, *, after: int = 0) -> Call[bytes]:  # noqa: A002
    """GET /v1/jobs/{id}/events: to be streamed."""
    headers = {"Accept": "text/event-stream"}
    route = path("v1", "jobs", id, "events")
    return Call("GET", route, lambda answer: answer.content, query={"after": after}, headers=headers)


async def follow(wire: Wire, following: JobFollower) -> AsyncGenerator[Event, None]:
    """Yield the events of a job, past and coming ones, each once; it ends with the job.

    A lost connection is made again, and goes on after the last event.
    """
    while not following.is_over():
        try:
            call, within_s = following.call(), following.silence_limit_s()
            async with wire.stream(call, timeout_s=within_s, within_s=following.remaining_s()) as response:
                following.note_opened(response.headers)
                async for piece in response.aiter_bytes():
                    for event in following.read(piece):
                        yield following.mark_seen(event)
                    if following.is_over():
                        return
                    if following.must_reopen():
                        break
                else:
                    job = await wire.send(get_job(following.id), within_s=following.remaining_s())
                    if job.is_ended:  # it had ended before `after`, or the server has dropped its last event
                        return
                    raise following.broken_stream()
        except (errors.NoAnswer, errors.Later) as error:
            await wire.pause(following.pause_after(error))


async def wait_for_job(
    wire: Wire,
    id: str,  # noqa: A002
    *,
    progress: Progress = None,
    timeout_s: Optional[float] = None,
) -> Job:
    """Return the job when it is done; JobFailed or JobCancelled where it ends otherwise, TimedOut where it is late.

    Its events tell when it ends; where those cannot be had, the job is polled.
    """
    following = JobFollower(wire.settings, id, 0, timeout_s)
    job = await wire.send(get_job(id), within_s=following.remaining_s())
    with make_reporter(progress, None, job.kind) as report:
        while not job.is_ended:
            try:
                async for event in follow(wire, following):
                    report.event(event.kind, event.data)
            except (errors.BadAnswer, errors.Unavailable):
                return require_done(await _poll(wire, following, report))
            job = await wire.send(get_job(id), within_s=following.remaining_s())
    return require_done(job)


async def _poll(wire: Wire, following: JobFollower, report: Reporter) -> Job:
    """Return the job when it has ended; it is polled often at first, then less."""
    next_s = _FIRST_LOOK_S
    while True:
        job = await wire.send(get_job(following.id), within_s=following.remaining_s())
        if job.progress is not None:
            report.event("progress", job.progress)
        if job.is_ended:
            return job
        await wire.pause(min(next_s, following.remaining_s()))
        next_s = min(_LONGEST_LOOK_S, next_s * 1.5)


class JobFollower:
    """Follows the events of one job, over as many connections as it takes."""

    def __init__(self, to: ConnectionSettings, id: str, after: int = 0, timeout_s: Optional[float] = None) -> None:  # noqa: A002
        if isinstance(after, bool) or not isinstance(after, int) or after < 0:
            raise errors.Usage(f"after={after!r} is not an id of an event", remedy="0, or the id of the last one seen")
        self.id, self.last, self._has_ended = id, after, False
        self._settings = to
        if timeout_s is not None and not timeout_s > 0:
            raise errors.Usage(
                f"timeout_s={timeout_s!r} is not a time to wait", remedy="more than 0, or None: no limit"
            )
        self._deadline = None if timeout_s in (None, math.inf) else time.monotonic() + timeout_s
        self._timeout_s = timeout_s
        self._failures, self._since = 0, time.monotonic()
        self._reader, self._within_s = Reader(), _SILENT_S
        self._opened_at: Optional[float] = None

    # ── connecting ────────────────────────────────────────────────────────────────────────────────────────────────

    def call(self) -> Call[bytes]:
        """Return the request for the events after the last one."""
        self._reader, self._opened_at = Reader(), None
        call = follow_job(self.id)
        return replace(call, query={}, headers={**call.headers, "Last-Event-ID": str(self.last)})

    def silence_limit_s(self) -> float:
        """Return how long the stream may be silent; TimedOut where the time is over."""
        self._within_s = _SILENT_S if self._deadline is None else min(_SILENT_S, self.remaining_s())
        return self._within_s

    def remaining_s(self) -> float:
        """Return the time that is left; TimedOut where it is over."""
        if self._deadline is None:
            return math.inf
        remaining = self._deadline - time.monotonic()
        if remaining <= 0:
            self._raise_timeout()
        return remaining

    def note_opened(self, headers: Any) -> None:
        """Note that a stream begins; BadAnswer for what is no stream of events, such as a proxy's page."""
        kind = str(headers.get("content-type", ""))
        if kind.partition(";")[0].strip().lower() != "text/event-stream":
            Answer(200, headers, b"").refuse(f"events of type {kind or 'none at all'}: is there a proxy between?")
        self._opened_at = time.monotonic()

    def pause_after(self, error: errors.RefaugError) -> float:
        """Return the seconds until the next connection; raise the error after `total_s` without a sign of life.

        Jobs take hours, and a server may restart meanwhile: how often the client connected does not count.
        """
        if self._deadline is not None and time.monotonic() >= self._deadline:
            self._raise_timeout()
        if isinstance(error, errors.TimedOut) and self._opened_at is not None and self._within_s < _SILENT_S:
            return 0.0  # the silence limit was shortened to the time that is left
        if isinstance(error, errors.Later) and error.code == "overloaded":
            raise error  # there are too many streams, and each may last for hours
        self._failures += 1
        spent = time.monotonic() - self._since
        retry = (
            self._settings.retry
            if self._settings.retry.tries == 1
            else replace(self._settings.retry, tries=sys.maxsize)
        )
        wait = retry.pause(error, tried=self._failures, spent_s=spent, repeatable=True)
        if wait is None:
            error.tries = self._failures
            raise error
        return min(wait, self.remaining_s())

    def broken_stream(self) -> errors.ConnectionLost:
        """Return the error of a stream that ends before its job: the server stops, or a proxy ends it."""
        return errors.ConnectionLost(f"the stream of job {self.id} ended before the job did")

    # ── events ────────────────────────────────────────────────────────────────────────────────────────────────────

    def read(self, piece: bytes) -> list[Event]:
        """Return the new events in a piece of the stream."""
        events = [event for event in self._reader.feed(piece) if event.id > self.last]
        if events or self._is_steady():
            self._failures, self._since = 0, time.monotonic()
        return events

    def mark_seen(self, event: Event) -> Event:
        """Mark an event as seen, so that it is not asked for again, and return it."""
        self.last = event.id
        self._has_ended = self._has_ended or event.state in ENDED_STATES
        return event

    def is_over(self) -> bool:
        """Whether the job's end was among the events that were seen."""
        return self._has_ended

    def _is_steady(self) -> bool:
        """Whether the stream has lived for longer than one that breaks off as soon as it opens."""
        return self._opened_at is not None and time.monotonic() - self._opened_at > _SIGN_S / 2

    def must_reopen(self) -> bool:
        """Whether the time ends before the silence limit of the stream would."""
        return self._deadline is not None and self.remaining_s() < min(_SIGN_S, self._within_s - 1.0)

    def _raise_timeout(self) -> NoReturn:
        raise errors.TimedOut(
            f"job {self.id} has not ended within {self._timeout_s:g} s",
            remedy="it goes on: wait() for it again, or cancel() it",
        )


def require_done(job: Job) -> Job:
    """Return a job that is done; raise JobFailed or JobCancelled with it where it is not."""
    if job.state == "failed":
        error = job.error or {}
        reason = error.get("message") or error.get("detail") or "nobody knows why"
        raise errors.JobFailed(
            f"job {job.id} ({job.kind}) failed: {reason}",
            remedy=str(error.get("remedy") or ""),
            job=job,
        )
    if job.state == "cancelled":
        raise errors.JobCancelled(f"job {job.id} ({job.kind}) was cancelled", job=job)
    return job
