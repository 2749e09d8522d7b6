"""Jobs as rows of the database: what was ordered, which worker has it, and its result; the queue is a query on them.

Every change of state is one transaction that also writes its event, so that events and states never disagree. A change
to a running job names the worker: a worker that was wrongly taken for dead learns that it has lost the job.
"""
# ruff: noqa: A002  `id` is the name of the column

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import islice
from typing import Any, Final

import orjson
from sqlalchemy import Connection, Row, Select, delete, exists, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from refaug.core.artefacts.versions import REFUSE
from refaug.core.errors import Conflict, NotFound, Overloaded, RefaugError, Usage
from refaug.service.audit import actor_of, add_row, user_of_machine
from refaug.service.database.database import Database, time_text
from refaug.service.database.row_ids import is_row_id, new_row_id
from refaug.service.database.tables import JOB_EVENTS, JOB_RESOURCES, JOBS
from refaug.service.history.hourly_figures import JOBS_DONE, JOBS_FAILED, count_in_this_hour
from refaug.service.history.notices import NoticeKind, add_notice, add_refusal
from refaug.service.jobs.audited_jobs import JobActs
from refaug.service.jobs.outcomes import outcome_of

_MAX_CLAIM_TRIES: Final = 100  # each failed try means that another worker got a job
_RETRY_AFTER_S: Final = 30.0  # jobs take minutes, so a full queue stays full for a while
_MAX_PAGE: Final = 1000


class JobState(StrEnum):
    """Where a job is."""

    QUEUED = "queued"  # it waits for a worker, and for jobs with the same resources
    RUNNING = "running"  # a worker has it
    DONE = "done"  # it has finished with a result
    FAILED = "failed"  # it ended with an error, or its workers died too often
    CANCELLED = "cancelled"  # it was cancelled; its finished stages are kept for the next job

    @property
    def is_ended(self) -> bool:
        """Whether the state is final."""
        return self in ENDED


ENDED: Final = frozenset({JobState.DONE, JobState.FAILED, JobState.CANCELLED})


@dataclass(frozen=True, kw_only=True)
class Job:
    """An order and what became of it."""

    id: str
    kind: str
    order: Mapping[str, Any]
    resources: tuple[str, ...]
    state: JobState
    created: str
    started: str | None
    finished: str | None
    tries: int  # how often it was started, without the times that its worker was stopped regularly
    progress: Mapping[str, Any] | None
    result: Mapping[str, Any] | None
    error: Mapping[str, Any] | None
    requested_by: str | None
    actor: str  # of the audit log: who or what queued it
    schedule: str | None
    cancel_requested: bool
    worker: str | None  # the worker that runs it, or ran it last
    beat: str | None = None  # the last heartbeat of that worker

    def as_json(self) -> dict[str, object]:
        """Return the job as commands and the service show it: without who queued it, and who works on it."""
        shown: dict[str, object] = {of_job.name: getattr(self, of_job.name) for of_job in fields(self)}
        for name in ("actor", "worker", "beat"):
            del shown[name]
        outcome = outcome_of(self.kind, self.state.value, self.result, self.error)
        return shown | {"resources": list(self.resources), "state": self.state.value, "outcome": outcome}


@dataclass(frozen=True, kw_only=True)
class Event:
    """An event of a job; ids rise within the job, and a reader that sees one can see all smaller ones."""

    id: int
    job: str
    at: str
    type: str  # state, stage, progress, warning or note
    data: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class NewEvent:
    """An event without a number."""

    type: str
    data: Mapping[str, Any]
    at: str = field(default_factory=time_text)


class LostJob(Conflict):
    """A worker wants to write about a job that is no longer its own."""

    code = "not_your_job"


class JobStore:
    """The queue and its history."""

    def __init__(
        self, database: Database, *, waiting_jobs: int = 1000, tries: int = 3, acts: JobActs | None = None
    ) -> None:
        self._database, self._waiting_jobs, self._tries, self._acts = database, waiting_jobs, tries, acts

    # ── queueing ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def enqueue(
        self,
        kind: str,
        order: Mapping[str, Any],
        resources: Sequence[str],
        *,
        requested_by: str | None = None,
        schedule: str | None = None,
    ) -> Job:
        """Add a job at the end of the queue.

        Conflict if the same kind already waits for the same resources, Overloaded if too many jobs wait.
        """
        names, actor = sorted(set(resources)), actor_of(requested_by, schedule)  # equal sets are equal texts
        with self._database.writing() as connection:
            self._database.advisory_lock(connection, "enqueue")  # so that both checks are exact
            self._require_room(connection, kind, names)
            newest = select(JOBS.c.id).order_by(JOBS.c.id.desc()).limit(1)
            last = connection.execute(newest).scalar() or ""  # maybe of a process whose clock was ahead
            row = {
                "id": new_row_id(after=last),
                "kind": kind,
                "order": _json(order),
                "resources": _json(names),
                "state": JobState.QUEUED,
                "created": time_text(),
                "requested_by": requested_by,
                "schedule": schedule,
                "actor": actor,
            }
            connection.execute(insert(JOBS).values(row))
            if names:
                named = [{"job": row["id"], "resource": resource} for resource in names]
                connection.execute(insert(JOB_RESOURCES), named)
            details = {"requested_by": requested_by} if requested_by else {}
            _add_events(connection, str(row["id"]), [_state_event(JobState.QUEUED, **details)])
            if schedule is None:
                add_row(connection, actor, "queue", f"job {row['id']}", kind=kind)
            return _load_job(connection, str(row["id"]))

    def _require_room(self, connection: Connection, kind: str, resources: Sequence[str]) -> None:
        waits = JOBS.c.state == JobState.QUEUED
        same = select(JOBS.c.id).where(waits, JOBS.c.kind == kind, JOBS.c.resources == _json(resources)).limit(1)
        waiting_id = connection.execute(same).scalar()
        if waiting_id is not None:
            named = f" on {', '.join(resources)}" if resources else ""
            raise Conflict(
                f"job {waiting_id} of kind {kind}{named} waits already",
                remedy="it will do the same; or cancel it first",
            )
        waiting = connection.execute(select(func.count()).select_from(JOBS).where(waits)).scalar_one()
        if waiting >= self._waiting_jobs:
            raise Overloaded(
                f"{waiting:,} jobs wait, and no more are taken",
                remedy="wait for some to end, or cancel some",
                retry_after_s=_RETRY_AFTER_S,
            )

    def cancel(self, id: str, *, actor: str | None = None, request: str | None = None) -> Job:
        """Cancel a job: at once if it waits, else as soon as its worker can; an ended job stays as it is.

        The audit log gets a row if this changes the job; without an actor it is the user of the command.
        """
        with self._database.writing() as connection:
            job = _load_job(connection, id, locked=True)
            if job.state.is_ended or job.cancel_requested:
                return job
            add_row(connection, actor or user_of_machine(), "cancel", f"job {id}", request=request, kind=job.kind)
            if job.state is JobState.QUEUED:
                _update_job(connection, id, state=JobState.CANCELLED, finished=time_text(), cancel_requested=True)
                _add_events(connection, id, [_state_event(JobState.CANCELLED)])
                self._audit_acts(connection, job)  # of earlier tries
            else:
                _update_job(connection, id, cancel_requested=True)
                _add_events(connection, id, [NewEvent(type="note", data={"message": "asked to stop"})])
            return _load_job(connection, id)

    def retry(self, id: str, *, actor: str | None = None, request: str | None = None) -> Job:
        """Queue a failed or cancelled job again, under its id: what it had finished is not done again.

        Conflict if it is done, has not ended, or if another one like it waits.
        """
        by = actor or user_of_machine()
        with self._database.writing() as connection:
            self._database.advisory_lock(connection, "enqueue")
            job = _load_job(connection, id, locked=True)
            if job.state not in (JobState.FAILED, JobState.CANCELLED):
                raise Conflict(f"job {id} is {job.state}", remedy=_NO_RETRY[job.state])
            self._require_room(connection, job.kind, job.resources)
            values = {**_AS_NEW, "state": JobState.QUEUED, "actor": by}
            connection.execute(update(JOBS).where(JOBS.c.id == id).values(values))
            _add_events(connection, id, [_state_event(JobState.QUEUED, why="it is tried again")])
            add_row(connection, by, "retry", f"job {id}", request=request, kind=job.kind)
            if self._acts is not None:
                self._acts.forget(id)  # they are in the audit log since the job ended
            return _load_job(connection, id)

    # ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def get(self, id: str) -> Job:
        """Return the job; NotFound if there is none."""
        with self._database.reading() as connection:
            return _load_job(connection, id)

    def list(
        self,
        *,
        state: JobState | None = None,
        kind: str | None = None,
        resource: str | None = None,
        after: str | None = None,
        limit: int = 50,
        is_listed: Callable[[Job], bool] = lambda _job: True,
    ) -> tuple[list[Job], str | None]:
        """Return jobs, newest first, and the `after` of the next page, if there is one.

        `resource` is what they write, such as index/chat; jobs that are not `is_listed` are as if not there.
        """
        if after is not None and not is_row_id(after):
            raise Usage(
                f"{after[:40]!r} is not a place in the list", remedy="give what the page before named as the next"
            )
        if not 1 <= limit <= _MAX_PAGE:
            raise Usage(f"a page of {limit} jobs", remedy=f"from 1 to {_MAX_PAGE:,}")
        query = select(JOBS).order_by(JOBS.c.id.desc())
        if state is not None:
            query = query.where(JOBS.c.state == state)
        if kind is not None:
            query = query.where(JOBS.c.kind == kind)
        if resource is not None:
            writes = JOB_RESOURCES.c
            query = query.where(exists().where(writes.job == JOBS.c.id, writes.resource == resource))
        if after is not None:
            query = query.where(JOBS.c.id < after)
        with self._database.reading() as connection:  # rows are read as they are needed
            rows = connection.execute(query.execution_options(yield_per=limit + 1))
            jobs = [*islice(filter(is_listed, map(_job, rows)), limit + 1)]
            rows.close()
        return jobs[:limit], jobs[limit - 1].id if len(jobs) > limit else None

    def running(self) -> Sequence[Job]:
        """Return all running jobs, oldest first."""
        return self._all(select(JOBS).where(JOBS.c.state == JobState.RUNNING).order_by(JOBS.c.id))

    def _all(self, query: Select[Any]) -> Sequence[Job]:
        with self._database.reading() as connection:
            return [_job(row) for row in connection.execute(query)]

    def events(self, job: str, after: int = 0, limit: int = 500) -> Sequence[Event]:
        """Return a job's events with a larger id, in order.

        Progress that newer progress has replaced is gone, so ids may have gaps; everything else stays.
        """
        if not is_row_id(job):
            return []
        of = JOB_EVENTS.c
        query = select(JOB_EVENTS).where(of.job == job, of.number > after).order_by(of.number).limit(limit)
        with self._database.reading() as connection:
            return [
                Event(id=row.number, job=row.job, at=row.at, type=row.type, data=orjson.loads(row.data))
                for row in connection.execute(query)
            ]

    def counts(self) -> Mapping[str, int]:
        """Return how many jobs are in each state; every state is listed."""
        query = select(JOBS.c.state, func.count()).group_by(JOBS.c.state)
        with self._database.reading() as connection:
            counts = {row.state: row[1] for row in connection.execute(query)}
        return {state.value: counts.get(state.value, 0) for state in JobState}

    # ── working ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def claim(self, worker: str) -> Job | None:
        """Give the worker the oldest waiting job whose resources are all free; None if there is none."""
        waits = select(JOBS.c.id).where(JOBS.c.state == JobState.QUEUED).limit(1)
        for _ in range(_MAX_CLAIM_TRIES):
            with self._database.reading() as connection:  # this runs twice a second and must not block writers
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
            .with_for_update(skip_locked=True, of=JOBS)  # SQLite ignores it, since its writers take turns
            .scalar_subquery()
        )
        now = time_text()
        claimed = connection.execute(
            update(JOBS)
            .where(JOBS.c.id == oldest)
            .values(state=JobState.RUNNING, started=now, beat=now, worker=worker, tries=JOBS.c.tries + 1)
            .returning(JOBS.c.id, JOBS.c.tries)
        ).first()
        if claimed is None:
            return None
        for resource in _load_job(
            connection, claimed.id
        ).resources:  # one by one, in order, so that two workers cannot deadlock
            connection.execute(
                update(JOB_RESOURCES)
                .where(JOB_RESOURCES.c.job == claimed.id, JOB_RESOURCES.c.resource == resource)
                .values(in_use=True)
            )
        _add_events(connection, claimed.id, [_state_event(JobState.RUNNING, **{"try": claimed.tries})])
        return _load_job(connection, claimed.id)

    def heartbeat(self, id: str, worker: str) -> bool:
        """Record that the worker lives, and return whether it is to stop the job; LostJob if it has lost the job."""
        with self._database.writing() as connection:
            _update_job(connection, id, worker=worker, beat=time_text())
            return _load_job(connection, id).cancel_requested

    def progress(self, id: str, worker: str, progress: Mapping[str, Any] | None, events: Sequence[NewEvent]) -> None:
        """Write the job's progress and events; without progress the row keeps the old one."""
        with self._database.writing() as connection:
            columns = {} if progress is None else {"progress": _json(progress)}
            _update_job(connection, id, worker=worker, beat=time_text(), **columns)
            _add_events(connection, id, events)

    def finish(
        self,
        id: str,
        worker: str,
        state: JobState,
        *,
        outcome: Mapping[str, Any] | None = None,
        error: Mapping[str, Any] | None = None,
    ) -> None:
        """End the job. The same end from the same worker counts once: the first answer may have been lost."""
        assert state in ENDED
        with self._database.writing() as connection:
            job = _load_job(connection, id, locked=True)
            if (job.state, job.worker) == (state, worker):
                return
            ended = {"state": state, "finished": time_text(), "result": _json(outcome), "error": _json(error)}
            _update_job(connection, id, worker=worker, **ended)
            _free_resources(connection, id)
            details = {"error": dict(error)} if error is not None else {}
            _add_events(connection, id, [_state_event(state, **details)])
            self._audit_acts(connection, job)
            if state in _COUNTED:
                count_in_this_hour(connection, **{_COUNTED[state]: 1})
            if state is JobState.FAILED:
                _add_failure_notice(connection, job, error or {})

    def _audit_acts(self, connection: Connection, job: Job) -> None:
        """Write what a job has done into the audit log, with its end, however it ends."""
        for act in self._acts.of_job(job.id) if self._acts is not None else ():
            add_row(connection, job.actor, act.action, act.subject, **act.details, job=job.id)
            if act.action == REFUSE:
                facts = {"job": job.id, "job_kind": job.kind, "schedule": job.schedule}
                add_refusal(connection, act.subject, act.details["reason"], **facts)

    def requeue(self, id: str, worker: str, why: str) -> None:
        """Put a job back whose worker stops; it ends where cancelling was requested."""
        with self._database.writing() as connection:
            job = _load_job(connection, id, locked=True)
            _require_owner(job, worker)
            self._requeue(connection, job, why, tries=max(0, job.tries - 1))

    def recover(self, is_alive: Callable[[str], bool]) -> Sequence[Job]:
        """Put back the jobs of dead workers, or fail those that have killed too many workers; return all of these."""
        lost = [job for job in self.running() if job.worker is None or not is_alive(job.worker)]
        recovered = list[Job]()
        for lost_job in lost:
            with self._database.writing() as connection:
                job = _load_job(connection, lost_job.id, locked=True)
                if (job.state, job.worker, job.started) != (JobState.RUNNING, lost_job.worker, lost_job.started):
                    continue  # another worker has recovered it
                if job.tries >= self._tries and not job.cancel_requested:
                    self._give_up(connection, job)
                else:
                    self._requeue(connection, job, "its worker died", tries=job.tries)
                recovered.append(_load_job(connection, lost_job.id))
        return recovered

    def _give_up(self, connection: Connection, job: Job) -> None:
        error = {
            "code": "worker_died",
            "message": f"the process that ran the job died, {job.tries} times" if job.tries > 1 else _WORKER_DIED,
            "remedy": "look into the log of the machine: often there was too little memory; then start it again",
            "exit_code": RefaugError.exit_code,
        }
        _update_job(connection, job.id, state=JobState.FAILED, finished=time_text(), error=_json(error))
        _free_resources(connection, job.id)
        _add_events(connection, job.id, [_state_event(JobState.FAILED, error=error)])
        self._audit_acts(connection, job)
        count_in_this_hour(connection, **{JOBS_FAILED: 1})
        _add_failure_notice(connection, job, error)

    def _requeue(self, connection: Connection, job: Job, why: str, *, tries: int) -> None:
        if job.cancel_requested:
            _update_job(connection, job.id, state=JobState.CANCELLED, finished=time_text())
            event = _state_event(JobState.CANCELLED, why=why)
            self._audit_acts(connection, job)
        else:
            _update_job(connection, job.id, state=JobState.QUEUED, tries=tries, beat=None)
            connection.execute(update(JOBS).where(JOBS.c.id == job.id).values(worker=None))
            event = _state_event(JobState.QUEUED, why=why)
        _free_resources(connection, job.id)
        _add_events(connection, job.id, [event])

    def remove_older(self, days: float) -> int:
        """Remove jobs that ended longer ago, with their events, and return their number."""
        then = time_text(datetime.now(UTC) - timedelta(days=days))
        with self._database.writing() as connection:
            old = delete(JOBS).where(JOBS.c.state.in_(ENDED), JOBS.c.finished < then)
            return connection.execute(old).rowcount


_COUNTED: Final[Mapping[JobState, str]] = {JobState.DONE: JOBS_DONE, JobState.FAILED: JOBS_FAILED}
_WORKER_DIED: Final = "the process that ran the job died"
_NO_RETRY: Final[Mapping[JobState, str]] = {
    JobState.DONE: "start a new job with the same order",
    JobState.QUEUED: "wait until it has ended",
    JobState.RUNNING: "wait until it has ended, or cancel it first",
}
_AS_NEW: Final[Mapping[str, Any]] = {
    **dict.fromkeys(("started", "finished", "progress", "result", "error", "worker", "beat")),
    "tries": 0,
    "cancel_requested": False,
}


# ── Rows ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _json(content: object) -> str | None:
    """Return a value as text, and None as None."""
    return None if content is None else orjson.dumps(content).decode()


def _job(row: Row[Any]) -> Job:
    values = dict(row._mapping)  # noqa: SLF001  SQLAlchemy's public name for it
    del values["events"]
    for name in ("order", "progress", "result", "error"):
        values[name] = None if values[name] is None else orjson.loads(values[name])
    values["resources"] = tuple(orjson.loads(values["resources"]))
    return Job(**{**values, "state": JobState(values["state"])})


def _add_failure_notice(connection: Connection, job: Job, error: Mapping[str, Any]) -> None:
    """Add the notice of a failed job, where a schedule has begun it."""
    if job.schedule is not None:
        why = error.get("message", "")
        facts = {"job": job.id, "job_kind": job.kind, "schedule": job.schedule, "code": error.get("code"), "error": why}
        add_notice(connection, NoticeKind.SCHEDULE_FAILED, f"schedule {job.schedule} failed: {why}", **facts)


def _load_job(connection: Connection, id: str, *, locked: bool = False) -> Job:
    """Return the job; `locked`: no other transaction changes it before this one ends."""
    query = select(JOBS).where(JOBS.c.id == id)
    row = connection.execute(query.with_for_update() if locked else query).first() if is_row_id(id) else None
    if row is None:
        raise job_not_found(id)
    return _job(row)


def job_not_found(id: str) -> NotFound:
    """Return the error for a job that is not there, or is of another key."""
    return NotFound(f"no job {id[:40]!r}", remedy="refaug admin jobs list, or GET /v1/jobs")


def _require_owner(job: Job, worker: str) -> None:
    if job.state is not JobState.RUNNING or job.worker != worker:
        raise LostJob(f"job {job.id} is {job.state}, and not with worker {worker}", remedy="leave it alone")


def _update_job(connection: Connection, id: str, *, worker: str | None = None, **values: Any) -> None:
    """Write into a job's row; with a worker, only while it has the job."""
    statement = update(JOBS).where(JOBS.c.id == id)
    if worker is not None:
        statement = statement.where(JOBS.c.state == JobState.RUNNING, JOBS.c.worker == worker)
    if connection.execute(statement.values(values)).rowcount == 0:
        job = _load_job(connection, id)
        raise LostJob(f"job {id} is {job.state}, and not with worker {worker}", remedy="leave it alone")


def _free_resources(connection: Connection, job: str) -> None:
    connection.execute(update(JOB_RESOURCES).where(JOB_RESOURCES.c.job == job).values(in_use=False))


def _state_event(state: JobState, **more: Any) -> NewEvent:
    return NewEvent(type="state", data={"state": state, **more})


def _add_events(connection: Connection, job: str, events: Sequence[NewEvent]) -> None:
    """Write events with the next numbers; the job's row stays locked until they are visible."""
    if not events:
        return
    count = update(JOBS).where(JOBS.c.id == job).values(events=JOBS.c.events + len(events)).returning(JOBS.c.events)
    last = connection.execute(count).scalar_one()
    if any(event.type == "progress" for event in events):
        # Newer progress replaces older; otherwise a job of a day would leave a hundred thousand rows.
        connection.execute(delete(JOB_EVENTS).where(JOB_EVENTS.c.job == job, JOB_EVENTS.c.type == "progress"))
    rows = [
        {"job": job, "number": number, "at": event.at, "type": event.type, "data": _json(event.data)}
        for number, event in enumerate(events, last - len(events) + 1)
    ]
    connection.execute(insert(JOB_EVENTS), rows)
