"""Jobs as rows: what was ordered, who works on it, and what came of it; the queue is a look at these rows.

Every change of state is one transaction that also writes the event telling it, so that events and states never
disagree. Whoever changes a running job says which worker it is: a worker that was taken for dead, and is not, is told
that the job is no longer its own.
"""

from __future__ import annotations

import re
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final

import orjson
from sqlalchemy import Connection, Row, Select, delete, exists, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from core.errors import Conflict, NotFound, Overloaded, RefaugError, Usage
from service.database import Database, time_text
from service.migrations.tables import JOB_EVENTS, JOB_RESOURCES, JOBS

_DIGITS: Final = "0123456789abcdefghjkmnpqrstvwxyz"  # in the order of their bytes; without i, l, o, u
_TIME_DIGITS: Final = 12  # microseconds: enough for 36,000 years
_CHANCE_DIGITS: Final = 14  # 70 bits: nobody finds an id by trying
_ID: Final = re.compile(f"[{_DIGITS}]{{{_TIME_DIGITS + _CHANCE_DIGITS}}}")
_CLAIMS: Final = 100  # each that fails means that another worker got a job
_COME_AGAIN_S: Final = 30.0  # jobs take minutes; a queue that is full is full for a while
_LONGEST_PAGE: Final = 1000


class JobState(StrEnum):
    """Where a job is."""

    QUEUED = "queued"  # it waits for a worker, and for other jobs that use the same things
    RUNNING = "running"  # a worker has it
    DONE = "done"  # it came to its end, and has a result
    FAILED = "failed"  # it ended with an error, or its workers died under it too often
    CANCELLED = "cancelled"  # somebody asked for its end; what it had finished is kept for the next one

    @property
    def is_ended(self) -> bool:
        """Whether nothing more will come of it."""
        return self in ENDED


ENDED: Final = frozenset({JobState.DONE, JobState.FAILED, JobState.CANCELLED})


@dataclass(frozen=True, kw_only=True)
class Job:
    """One order and what became of it."""

    id: str
    kind: str
    order: Mapping[str, Any]
    resources: tuple[str, ...]
    state: JobState
    created: str
    started: str | None
    finished: str | None
    tries: int  # how often it was begun, but for the times that its worker was stopped in good order
    progress: Mapping[str, Any] | None
    result: Mapping[str, Any] | None
    error: Mapping[str, Any] | None
    requested_by: str | None
    schedule: str | None
    cancel_requested: bool
    worker: str | None  # who runs it; who ran it last, once it has ended
    beat: str | None = None  # when that worker was last heard of


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that happened to a job; ids rise within the job, and who has seen one can see all smaller ones."""

    id: int
    job: str
    at: str
    type: str  # state, stage, progress, warning or note
    data: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class NewEvent:
    """An event that has no number yet."""

    type: str
    data: Mapping[str, Any]
    at: str = field(default_factory=time_text)


class NotYours(Conflict):
    """A worker wants to write about a job that is no longer its own."""

    code = "not_your_job"


class JobStore:
    """The queue and its history."""

    def __init__(self, database: Database, *, waiting_jobs: int = 1000, tries: int = 3) -> None:
        self._database, self._waiting_jobs, self._tries = database, waiting_jobs, tries

    # ── asking ────────────────────────────────────────────────────────────────────────────────────────────────────

    def enqueue(
        self,
        kind: str,
        order: Mapping[str, Any],
        resources: Sequence[str],
        *,
        requested_by: str | None = None,
        schedule: str | None = None,
    ) -> Job:
        """A new job at the end of the queue.

        Conflict where the same kind already waits for the same resources, Overloaded where too many jobs wait.
        """
        wanted = _resources(resources)
        with self._database.writing() as connection:
            self._database.in_turn(connection, "enqueue")  # so that both refusals are exact
            self._require_room(connection, kind, wanted)
            row = {
                "id": new_id(),
                "kind": kind,
                "order": _json(order),
                "resources": _json(wanted),
                "state": JobState.QUEUED,
                "created": time_text(),
                "requested_by": requested_by,
                "schedule": schedule,
            }
            connection.execute(insert(JOBS).values(row))
            if wanted:
                named = [{"job": row["id"], "resource": resource} for resource in wanted]
                connection.execute(insert(JOB_RESOURCES), named)
            said = {"requested_by": requested_by} if requested_by else {}
            _tell(connection, str(row["id"]), [_state_event(JobState.QUEUED, **said)])
            return _found(connection, str(row["id"]))

    def _require_room(self, connection: Connection, kind: str, resources: Sequence[str]) -> None:
        waits = JOBS.c.state == JobState.QUEUED
        same = select(JOBS.c.id).where(waits, JOBS.c.kind == kind, JOBS.c.resources == _json(resources)).limit(1)
        there = connection.execute(same).scalar()
        if there is not None:
            named = f" on {', '.join(resources)}" if resources else ""
            raise Conflict(
                f"job {there} of kind {kind}{named} waits already", remedy="it will do the same; or cancel it first"
            )
        waiting = connection.execute(select(func.count()).select_from(JOBS).where(waits)).scalar_one()
        if waiting >= self._waiting_jobs:
            raise Overloaded(
                f"{waiting:,} jobs wait, and no more are taken",
                remedy="wait for some to end, or cancel some",
                retry_after_s=_COME_AGAIN_S,
            )

    def cancel(self, id: str) -> Job:  # noqa: A002  the name of the column
        """Ask for a job's end: at once where it waits, else as soon as its worker can; one that has ended stays so."""
        with self._database.writing() as connection:
            job = _found(connection, id, locked=True)
            if job.state is JobState.QUEUED:
                _change(connection, id, state=JobState.CANCELLED, finished=time_text(), cancel_requested=True)
                _tell(connection, id, [_state_event(JobState.CANCELLED)])
            elif job.state is JobState.RUNNING and not job.cancel_requested:
                _change(connection, id, cancel_requested=True)
                _tell(connection, id, [NewEvent(type="note", data={"message": "asked to stop"})])
            return _found(connection, id)

    # ── looking ───────────────────────────────────────────────────────────────────────────────────────────────────

    def get(self, id: str) -> Job:  # noqa: A002
        """The job; NotFound where there is none."""
        with self._database.reading() as connection:
            return _found(connection, id)

    def list(
        self, *, state: JobState | None = None, kind: str | None = None, after: str | None = None, limit: int = 50
    ) -> tuple[list[Job], str | None]:
        """Jobs, newest first, and what the next page is to be asked with, if there is one."""
        if after is not None and not _is_id(after):
            raise Usage(f"{after[:40]!r} is no place in the list", remedy="give what the page before named as the next")
        if not 1 <= limit <= _LONGEST_PAGE:
            raise Usage(f"a page of {limit} jobs", remedy=f"from 1 to {_LONGEST_PAGE:,}")
        wanted = select(JOBS).order_by(JOBS.c.id.desc()).limit(limit + 1)
        if state is not None:
            wanted = wanted.where(JOBS.c.state == state)
        if kind is not None:
            wanted = wanted.where(JOBS.c.kind == kind)
        if after is not None:
            wanted = wanted.where(JOBS.c.id < after)
        found = self._all(wanted)
        return [*found[:limit]], found[limit - 1].id if len(found) > limit else None

    def running(self) -> Sequence[Job]:
        """All jobs that a worker has, oldest first."""
        return self._all(select(JOBS).where(JOBS.c.state == JobState.RUNNING).order_by(JOBS.c.id))

    def _all(self, wanted: Select[Any]) -> Sequence[Job]:
        with self._database.reading() as connection:
            return [_job(row) for row in connection.execute(wanted)]

    def events(self, job: str, after: int = 0, limit: int = 500) -> Sequence[Event]:
        """A job's events with a larger id, in order.

        Progress that newer progress has overtaken is gone, so ids may have gaps; everything else stays.
        """
        if not _is_id(job):
            return []
        of = JOB_EVENTS.c
        wanted = select(JOB_EVENTS).where(of.job == job, of.number > after).order_by(of.number).limit(limit)
        with self._database.reading() as connection:
            return [
                Event(id=row.number, job=row.job, at=row.at, type=row.type, data=orjson.loads(row.data))
                for row in connection.execute(wanted)
            ]

    def counts(self) -> Mapping[str, int]:
        """How many jobs are in each state; every state is named."""
        wanted = select(JOBS.c.state, func.count()).group_by(JOBS.c.state)
        with self._database.reading() as connection:
            found = {row.state: row[1] for row in connection.execute(wanted)}
        return {state.value: found.get(state.value, 0) for state in JobState}

    # ── working ───────────────────────────────────────────────────────────────────────────────────────────────────

    def claim(self, worker: str) -> Job | None:
        """The oldest waiting job whose resources are all free, from now on this worker's; None where there is none."""
        waits = select(JOBS.c.id).where(JOBS.c.state == JobState.QUEUED).limit(1)
        for _ in range(_CLAIMS):
            with self._database.reading() as connection:  # who looks twice a second is not to stand in writers' way
                if connection.execute(waits).first() is None:
                    return None
            try:
                with self._database.writing() as connection:
                    return self._claim(connection, worker)
            except IntegrityError:  # PostgreSQL: another worker took a resource of this job at the same moment
                continue
        return None

    def _claim(self, connection: Connection, worker: str) -> Job | None:
        mine, other = JOB_RESOURCES.alias("mine"), JOB_RESOURCES.alias("other")
        shared = exists().where(mine.c.job == JOBS.c.id, other.c.resource == mine.c.resource, other.c.in_use)
        oldest = (
            select(JOBS.c.id)
            .where(JOBS.c.state == JobState.QUEUED, ~shared)
            .order_by(JOBS.c.id)
            .limit(1)
            .with_for_update(skip_locked=True, of=JOBS)  # of no meaning to SQLite, where writers take turns
            .scalar_subquery()
        )
        now = time_text()
        taken = connection.execute(
            update(JOBS)
            .where(JOBS.c.id == oldest)
            .values(state=JobState.RUNNING, started=now, beat=now, worker=worker, tries=JOBS.c.tries + 1)
            .returning(JOBS.c.id, JOBS.c.tries)
        ).first()
        if taken is None:
            return None
        for resource in _found(connection, taken.id).resources:  # one by one, in order: two workers cannot embrace
            connection.execute(
                update(JOB_RESOURCES)
                .where(JOB_RESOURCES.c.job == taken.id, JOB_RESOURCES.c.resource == resource)
                .values(in_use=True)
            )
        _tell(connection, taken.id, [_state_event(JobState.RUNNING, **{"try": taken.tries})])
        return _found(connection, taken.id)

    def beat(self, id: str, worker: str) -> bool:  # noqa: A002
        """Say that the worker lives; whether it is to stop the job. NotYours where it has lost it."""
        with self._database.writing() as connection:
            _change(connection, id, worker=worker, beat=time_text())
            return _found(connection, id).cancel_requested

    def progress(
        self,
        id: str,  # noqa: A002
        worker: str,
        progress: Mapping[str, Any] | None,
        events: Sequence[NewEvent],
    ) -> None:
        """Where the job is, and what has happened; the row's progress stays where none is given."""
        with self._database.writing() as connection:
            there = {} if progress is None else {"progress": _json(progress)}
            _change(connection, id, worker=worker, beat=time_text(), **there)
            _tell(connection, id, events)

    def finish(
        self,
        id: str,  # noqa: A002
        worker: str,
        state: JobState,
        *,
        result: Mapping[str, Any] | None = None,
        error: Mapping[str, Any] | None = None,
    ) -> None:
        """The job has ended. Said twice by the same worker, it counts once: the first answer may have been lost."""
        assert state in ENDED
        with self._database.writing() as connection:
            job = _found(connection, id, locked=True)
            if (job.state, job.worker) == (state, worker):
                return
            ended = {"state": state, "finished": time_text(), "result": _json(result), "error": _json(error)}
            _change(connection, id, worker=worker, **ended)
            _free(connection, id)
            said = {"error": dict(error)} if error is not None else {}
            _tell(connection, id, [_state_event(state, **said)])

    def requeue(self, id: str, worker: str, why: str) -> None:  # noqa: A002
        """The worker stops and the job goes on with the next one; it ends where that was asked for."""
        with self._database.writing() as connection:
            job = _found(connection, id, locked=True)
            _require_yours(job, worker)
            _put_back(connection, job, why, tries=max(0, job.tries - 1))

    def recover(self, is_alive: Callable[[str], bool]) -> Sequence[Job]:
        """Put back what dead workers had; what has killed as many as it is allowed to has failed. All of these jobs."""
        lost = [job for job in self.running() if job.worker is None or not is_alive(job.worker)]
        found = list[Job]()
        for one in lost:
            with self._database.writing() as connection:
                job = _found(connection, one.id, locked=True)
                if (job.state, job.worker, job.started) != (JobState.RUNNING, one.worker, one.started):
                    continue  # somebody else has looked after it
                if job.tries >= self._tries and not job.cancel_requested:
                    self._give_up(connection, job)
                else:
                    _put_back(connection, job, "its worker died", tries=job.tries)
                found.append(_found(connection, one.id))
        return found

    def _give_up(self, connection: Connection, job: Job) -> None:
        error = {
            "code": "worker_died",
            "message": f"the process that ran the job died, {job.tries} times" if job.tries > 1 else _DIED,
            "remedy": "look into the log of the machine: often there was too little memory; then start it again",
            "exit_code": RefaugError.exit_code,
        }
        _change(connection, job.id, state=JobState.FAILED, finished=time_text(), error=_json(error))
        _free(connection, job.id)
        _tell(connection, job.id, [_state_event(JobState.FAILED, error=error)])

    def remove_older(self, days: float) -> int:
        """Remove jobs that ended longer ago, with their events; how many there were."""
        then = time_text(datetime.now(UTC) - timedelta(days=days))
        with self._database.writing() as connection:
            old = delete(JOBS).where(JOBS.c.state.in_(ENDED), JOBS.c.finished < then)
            return connection.execute(old).rowcount


_DIED: Final = "the process that ran the job died"


# ── rows ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _json(value: object) -> str | None:
    """A text; nothing stays nothing."""
    return None if value is None else orjson.dumps(value).decode()


def _resources(given: Sequence[str]) -> Sequence[str]:
    """Each once, in one order: equal sets are equal texts."""
    return sorted(set(given))


def _job(row: Row[Any]) -> Job:
    values = dict(row._mapping)  # noqa: SLF001  SQLAlchemy's public name for it
    del values["events"]
    for name in ("order", "progress", "result", "error"):
        values[name] = None if values[name] is None else orjson.loads(values[name])
    values["resources"] = tuple(orjson.loads(values["resources"]))
    return Job(**{**values, "state": JobState(values["state"])})


def _found(connection: Connection, id: str, *, locked: bool = False) -> Job:  # noqa: A002
    """The job; locked, nobody else changes it before this transaction ends."""
    wanted = select(JOBS).where(JOBS.c.id == id)
    row = connection.execute(wanted.with_for_update() if locked else wanted).first() if _is_id(id) else None
    if row is None:
        raise NotFound(f"no job {id[:40]!r}", remedy="refaug jobs list, or GET /v1/jobs")
    return _job(row)


def _require_yours(job: Job, worker: str) -> None:
    if job.state is not JobState.RUNNING or job.worker != worker:
        raise NotYours(f"job {job.id} is {job.state}, and not with worker {worker}", remedy="leave it alone")


def _change(connection: Connection, id: str, *, worker: str | None = None, **values: Any) -> None:  # noqa: A002
    """Write into a job's row; of a worker, only as long as it has the job."""
    wanted = update(JOBS).where(JOBS.c.id == id)
    if worker is not None:
        wanted = wanted.where(JOBS.c.state == JobState.RUNNING, JOBS.c.worker == worker)
    if connection.execute(wanted.values(values)).rowcount == 0:
        job = _found(connection, id)
        raise NotYours(f"job {id} is {job.state}, and not with worker {worker}", remedy="leave it alone")


def _put_back(connection: Connection, job: Job, why: str, *, tries: int) -> None:
    if job.cancel_requested:
        _change(connection, job.id, state=JobState.CANCELLED, finished=time_text())
        event = _state_event(JobState.CANCELLED, why=why)
    else:
        _change(connection, job.id, state=JobState.QUEUED, tries=tries, beat=None)
        connection.execute(update(JOBS).where(JOBS.c.id == job.id).values(worker=None))
        event = _state_event(JobState.QUEUED, why=why)
    _free(connection, job.id)
    _tell(connection, job.id, [event])


def _free(connection: Connection, job: str) -> None:
    connection.execute(update(JOB_RESOURCES).where(JOB_RESOURCES.c.job == job).values(in_use=False))


def _state_event(state: JobState, **more: Any) -> NewEvent:
    return NewEvent(type="state", data={"state": state, **more})


def _tell(connection: Connection, job: str, events: Sequence[NewEvent]) -> None:
    """Write events with the next numbers; the job's row stays locked until they can be seen."""
    if not events:
        return
    count = update(JOBS).where(JOBS.c.id == job).values(events=JOBS.c.events + len(events)).returning(JOBS.c.events)
    last = connection.execute(count).scalar_one()
    if any(event.type == "progress" for event in events):
        # Newer progress says all that older said; without this, a job of a day would leave a hundred thousand rows.
        connection.execute(delete(JOB_EVENTS).where(JOB_EVENTS.c.job == job, JOB_EVENTS.c.type == "progress"))
    rows = [
        {"job": job, "number": number, "at": event.at, "type": event.type, "data": _json(event.data)}
        for number, event in enumerate(events, last - len(events) + 1)
    ]
    connection.execute(insert(JOB_EVENTS), rows)


# ── ids ───────────────────────────────────────────────────────────────────────────────────────────────────────────


class _Ids:
    """Ids in the order in which this process made them, also where the clock stands still or goes back."""

    def __init__(self) -> None:
        self._lock, self._last = threading.Lock(), 0

    def new(self) -> str:
        with self._lock:
            self._last = max(time.time_ns() // 1000, self._last + 1)
            moment = self._last
        return _digits(moment, _TIME_DIGITS) + _digits(secrets.randbits(5 * _CHANCE_DIGITS), _CHANCE_DIGITS)


def _is_id(text: str) -> bool:
    """Whether a job may be called so; PostgreSQL cannot even be asked about some texts."""
    return _ID.fullmatch(text) is not None


def _digits(number: int, count: int) -> str:
    return "".join(_DIGITS[number >> 5 * place & 31] for place in reversed(range(count)))


new_id: Final = _Ids().new
