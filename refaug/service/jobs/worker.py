"""The process that runs jobs: it takes them from the queue one after the other, and writes their progress and end.

A job runs in the main thread, so that it can be stopped like a command by Ctrl-C: with a KeyboardInterrupt wherever it
is. A second thread monitors it: it writes progress and heartbeats, and learns that the job was cancelled. So a slow or
absent database never delays a job; what could not be written is written later.

A killed worker leaves a running job without a lock on its name. The next check of any worker finds the job and puts it
back into the queue, and it continues after the last stage that it had finished.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, Protocol, TypeVar

import orjson
from sqlalchemy import delete, select, update

from refaug.core import installation
from refaug.core.artefacts.build_stages import Stages
from refaug.core.backoff import Backoff
from refaug.core.errors import NoAccess, RefaugError, StorageFull, Unavailable
from refaug.core.files import storage_errors
from refaug.core.home import Settings
from refaug.core.installation import extras_named
from refaug.core.progress import Progress
from refaug.core.text.messages import HiddenFolders, escape_undecodable
from refaug.service.database.database import Database, overwrite_removed, remove_old_copies, time_text
from refaug.service.database.row_ids import RowHolders
from refaug.service.database.stored_answers import IdempotencyStore
from refaug.service.database.tables import JOBS
from refaug.service.evaluations.evaluation_store import EvaluationStore, remove_expired
from refaug.service.history.notices import NoticeBox
from refaug.service.jobs import kinds
from refaug.service.jobs.audited_jobs import JobActs
from refaug.service.jobs.interruption import Interruption, StopReason
from refaug.service.jobs.kinds.job_context import job_folder
from refaug.service.jobs.schedules import ScheduleStore
from refaug.service.jobs.store import Job, JobState, JobStore, LostJob, NewEvent
from refaug.service.server_settings import ServeSettings
from refaug.service.traces import Traces, opened_traces

# ── Evaluations whose jobs did not end well, and the rows of such jobs: what is removed while no retry can begin ──────

_NOT_DONE: Final = (JobState.FAILED, JobState.CANCELLED)


class EndedJobs:
    """The jobs of evaluations that failed or were cancelled."""

    def __init__(self, database: Database, home: Settings, serve: ServeSettings) -> None:
        self._database, self._home = database, home
        self._evaluations = EvaluationStore(home, serve)

    def discard_all(self) -> int:
        """Remove the evaluations of all jobs that failed or were cancelled, and return how many there were."""
        return sum(self.discard(evaluation_id) for evaluation_id in self._evaluations.ids())

    def discard(self, evaluation_id: str) -> bool:
        """Remove what a job stored before it failed or was cancelled; return whether there was something.

        Such a job stored its evaluation, and was stopped before it could end. A retry waits meanwhile: it finds the
        evaluation with its mark, or neither.
        """
        if not self._evaluations.is_there(evaluation_id) or not self._did_not_end_well(evaluation_id):
            return False
        with self._database.writing() as connection:
            state = select(JOBS.c.state).where(JOBS.c.id == evaluation_id).with_for_update()
            if connection.execute(state).scalar() not in _NOT_DONE:
                return False
            Stages(job_folder(self._home, evaluation_id)).drop()
            self._evaluations.remove(evaluation_id)
        return True

    def _did_not_end_well(self, job: str) -> bool:
        """Whether a job failed or was cancelled, as far as can be seen without making writers wait."""
        with self._database.reading() as connection:
            return connection.execute(select(JOBS.c.state).where(JOBS.c.id == job)).scalar() in _NOT_DONE

    def remove(self, job: str) -> bool:
        """Remove the row of a job that failed or was cancelled, with its events; False where it is in another state."""
        self.discard(job)
        with self._database.writing() as connection:
            row = delete(JOBS).where(JOBS.c.id == job, JOBS.c.state.in_(_NOT_DONE))
            return connection.execute(row).rowcount > 0


# ── The process that runs jobs: it takes them from the queue one after the other, and writes their progress and end ───

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
        now: Callable[[], str] = time_text,
    ) -> None:
        self._jobs, self._job, self._worker = jobs, job, worker
        self._clean, self._check, self._clock, self._now_text = clean, check, clock, now
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
            self._now, self._is_new = {**stage_event, "done": 0, "since": self._now_text()}, True
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


# ── Which workers are alive, so that the jobs of dead ones are recovered ──────────────────────────────────────────────

STALE_S: Final = 60.0  # a worker loses its job after so long without a heartbeat


class LiveWorkers:
    """The workers that are alive: those that hold the lock on their name and whose heartbeat has changed recently.

    Times are taken from this process's clock; clocks of other machines, and times without a database, do not matter.
    """

    def __init__(self, home: Settings, own: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._holders, self._own, self._clock = RowHolders(home), own, clock
        self._seen = dict[str, tuple[str | None, float]]()  # worker → its last heartbeat, and when that was first seen

    def observe(self, running: Sequence[Job]) -> None:
        """Record the heartbeats of the running jobs."""
        now, before = self._clock(), self._seen
        self._seen = {}
        for job in running:
            beat, since = before.get(job.worker or "", (None, now))
            self._seen[job.worker or ""] = (job.beat, since if beat == job.beat else now)

    def reset(self) -> None:
        """Forget all heartbeats, since no worker could write while the database was away."""
        self._seen = {}

    def is_alive(self, worker: str) -> bool:
        """Return whether a job may stay with this worker."""
        if worker == self._own:
            return True
        since = self._seen.get(worker, (None, self._clock()))[1]
        return self._holders.is_held(worker) and self._clock() - since < STALE_S


# ── The end of an erasure: its job is stored as done, and its order names none of those whom it erased ────────────────

_NAMES: Final = ("dialogues", "speakers")


def finish_without_names(database: Database, job: Job, finish: Callable[[], Any]) -> None:
    """Store the end of an erasure by `finish`, and take the names out of its order in the same transaction."""
    order = {name: setting for name, setting in job.order.items() if name not in _NAMES}
    with database.writing() as connection:
        overwrite_removed(connection, is_sqlite=database.is_sqlite)
        finish()
        connection.execute(update(JOBS).where(JOBS.c.id == job.id).values(order=orjson.dumps(order).decode()))
    remove_old_copies(database, (JOBS.name,), rewrites=False)


# ── The process that runs jobs ────────────────────────────────────────────────────────────────────────────────────────

T = TypeVar("T")

HEARTBEAT_S: Final = 2.0  # after which a cancelled job learns of it
_POLL_S: Final = 0.5  # between two checks of the queue and of the schedules
_STEP_S: Final = 0.1
_RECOVER_S: Final = 5.0
_CLEANUP_S: Final = 3600.0
_STOP_WAIT_S: Final = 5.0  # that a stopping worker waits for an absent database
_MAX_RETRY_S: Final = 5.0  # between two tries while the database does not answer


@contextmanager
def _failing_alone(what: str) -> Iterator[None]:
    """Log what fails in the block, so that jobs do not wait for ever; an absent database passes."""
    try:
        yield
    except (Unavailable, StorageFull):
        raise
    except Exception:
        log.exception("%s failed", what)


class JobFunction(Protocol):
    """The function that does a job: `refaug.service.jobs.kinds.run`, or one of a test."""

    def __call__(
        self, order: Mapping[str, Any], home: Settings, serve: ServeSettings, progress: Progress, *, job: str
    ) -> Mapping[str, Any]:
        """Return the result; RefaugError where the job failed."""


def run_worker(
    home: Settings,
    serve: ServeSettings,
    *,
    once: bool = False,
    until: threading.Event | None = None,
    run: JobFunction = kinds.run,
    between_jobs: Callable[[], None] = lambda: None,
) -> int:
    """Run jobs until a signal or `until` stops the worker; `once`: only waiting and due ones. Return the exit code.

    The database must have its tables. In the main thread SIGTERM and SIGINT stop the worker, and the running job goes
    back into the queue. In any other thread only `until` stops it, when the job next reports progress. `between_jobs`
    is called before the first job and after each.
    """
    database = Database.open(home, serve.database)
    try:
        with (
            opened_traces() as traces,
            RowHolders(home).hold() as name,
            Interruption().handle_signals(until) as interruption,
        ):
            worker = Worker(home, serve, database, name=name, run=run, interruption=interruption, traces=traces)
            with worker.monitoring(maintains=not once), _sending_notices(database, serve, sends=not once):
                worker.loop(once=once, between_jobs=between_jobs)
        return 0
    finally:
        database.close()


@contextmanager
def _sending_notices(database: Database, serve: ServeSettings, *, sends: bool) -> Iterator[None]:
    """Deliver notices during the block, if there is a webhook."""
    if not serve.webhook or not sends:
        yield
        return
    from refaug.service.history.notice_sender import NoticeSender  # noqa: PLC0415  httpx

    sender = NoticeSender(NoticeBox(database), serve)
    sender.start()
    try:
        yield
    finally:
        sender.stop()


# ── Working ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _run_id(job: Job) -> str:
    """Return the id of this run; a later run of the same job by this worker must not stop for this one."""
    return f"{job.id} {job.started}"


@dataclass(frozen=True, kw_only=True)
class _RunningJob:
    """The job of the main thread."""

    job: Job
    progress: JobProgress


@dataclass(frozen=True, kw_only=True)
class _JobEnd:
    """How a job's function ended; without a state the job goes back into the queue."""

    state: JobState | None
    result: Mapping[str, Any] | None = None
    error: Mapping[str, Any] | None = None


class Worker:
    """A worker that runs jobs, with everything that it needs."""

    def __init__(
        self,
        home: Settings,
        serve: ServeSettings,
        database: Database,
        *,
        name: str,
        run: JobFunction,
        interruption: Interruption,
        traces: Traces | None = None,
    ) -> None:
        self._home, self._serve, self._database, self._name = home, serve, database, name
        self._run, self._interruption, self._traces = run, interruption, traces
        self._jobs = JobStore(database, waiting_jobs=serve.waiting_jobs, tries=serve.job_tries, acts=JobActs(home))
        self._schedules = ScheduleStore(database)
        self._live_workers = LiveWorkers(home, name)
        self._maintenance_lock = threading.Lock()
        self._due = {"tick": 0.0, "recover": 0.0, "tidy": 0.0}
        self._current: _RunningJob | None = None
        self._heartbeat_at = self._not_before = 0.0

    # ── the main thread ───────────────────────────────────────────────────────────────────────────────────────────────

    def loop(self, *, once: bool, between_jobs: Callable[[], None]) -> None:
        """Run job after job; wait for an absent database, unless `once` limits the work to waiting jobs."""
        between_jobs()
        self._retry_until_answered(self._database.require_current, raises=once)
        log.info("worker", extra={"worker": self._name})
        while not self._interruption.is_stopped:
            job = self._retry_until_answered(self._claim_next, raises=once)
            if job is not None:
                self._run_job(job)
                between_jobs()
            elif once:
                return
            else:
                self._pause(_POLL_S)

    def _claim_next(self) -> Job | None:
        self._maintain()
        return None if self._interruption.is_stopped else self._jobs.claim(self._name)

    def _retry_until_answered(self, ask: Callable[[], T], *, raises: bool) -> T | None:
        """Call the database until it answers; return None if the worker is stopped before."""
        backoff = Backoff(_POLL_S, _MAX_RETRY_S)
        while not self._interruption.is_stopped:
            try:
                return ask()
            except (Unavailable, StorageFull) as error:
                if raises:
                    raise
                self._live_workers.reset()
                log.warning("waiting for the database", extra={"why": error.message})
                self._pause(backoff.next_s())
        return None

    def _pause(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while not self._interruption.is_stopped and time.monotonic() < end:
            time.sleep(_STEP_S)

    def _run_job(self, job: Job) -> None:
        began = time.monotonic()
        log.info("job begun", extra={"job": job.id, "kind": job.kind, "try": job.tries})
        progress = JobProgress(
            self._jobs, job.id, self._name, clean=self._without_paths, check=self._interruption.check
        )
        self._current = _RunningJob(job=job, progress=progress)
        try:
            ended = self._call_function(job, progress)
            self._record_end(job, progress, ended)
        finally:
            self._current = None
        state, seconds = ended.state or "put back", time.monotonic() - began
        if self._traces is not None:
            code = None if ended.error is None else ended.error["code"]
            self._traces.add_job(job.id, kind=job.kind, state=str(state), tries=job.tries, code=code, seconds=seconds)
        log.info("job ended", extra={"job": job.id, "state": state, "seconds": round(seconds, 3)})

    def _call_function(self, job: Job, progress: Progress) -> _JobEnd:
        """Run the job's function; whatever it raises ends the job and not the worker."""
        try:
            with self._interruption.interruptible(_run_id(job)), storage_errors(self._home.home), extras_named():
                outcome = self._run(job.order, self._home, self._serve, progress, job=job.id)
                options = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS
                return _JobEnd(state=JobState.DONE, result=orjson.loads(orjson.dumps(outcome, option=options)))
        except BaseException as error:  # noqa: BLE001  includes MemoryError, SystemExit and panics of Rust libraries
            self._interruption.end()
            # After a stop was requested, any error counts as its consequence, such as that of a child process.
            why = self._interruption.reason(_run_id(job))
            if why is not None:
                return _JobEnd(state=JobState.CANCELLED if why is StopReason.CANCELLED else None)
            return self._failure(job, error)

    def _failure(self, job: Job, error: BaseException) -> _JobEnd:
        known_error = error if isinstance(error, RefaugError) else _access_error(error)
        if known_error is None:
            kind = type(error).__name__
            log.error("job failed", extra={"job": job.id, "why": kind}, exc_info=error)
            internal_error = RefaugError(f"something went wrong that was not foreseen ({kind})", remedy=_REPORT)
            return _JobEnd(state=JobState.FAILED, error={**self._as_json(internal_error), "kind": kind})
        log.warning("job failed", extra={"job": job.id, "code": known_error.code, "why": known_error.message})
        return _JobEnd(
            state=JobState.FAILED, result=getattr(known_error, "result", None), error=self._as_json(known_error)
        )

    def _as_json(self, error: RefaugError) -> dict[str, object]:
        return {
            "code": error.code,
            "message": self._without_paths(error.message),
            "remedy": self._without_paths(error.remedy),
            "exit_code": error.exit_code,
        }

    def _record_end(self, job: Job, progress: JobProgress, ended: _JobEnd) -> None:
        """Write how the job ended, and retry while the database is away; a stopping worker does not wait long."""
        if self._interruption.reason(_run_id(job)) is StopReason.LOST:
            log.warning("job lost", extra={"job": job.id})
            return

        def write() -> None:
            progress.write(last=True)
            if ended.state is None:
                self._jobs.requeue(job.id, self._name, "its worker was stopped")
            else:
                finish = partial(
                    self._jobs.finish, job.id, self._name, ended.state, outcome=ended.result, error=ended.error
                )
                if job.kind == "erase" and ended.state is JobState.DONE:
                    finish_without_names(self._database, job, finish)
                else:
                    finish()
                EndedJobs(self._database, self._home, self._serve).discard(job.id)

        backoff, until = Backoff(_STEP_S, _MAX_RETRY_S), float("inf")
        while time.monotonic() < until:
            try:
                write()
            except LostJob as error:
                log.warning("job lost", extra={"job": job.id, "why": error.message})
            except (Unavailable, StorageFull) as error:
                log.warning("waiting for the database", extra={"job": job.id, "why": error.message})
                if self._interruption.is_stopped:
                    until = min(until, time.monotonic() + _STOP_WAIT_S)
                time.sleep(backoff.next_s())
                continue
            return
        log.warning("job left as running; the next worker puts it back", extra={"job": job.id})

    def _without_paths(self, text: str) -> str:
        """Return a message without the paths of this machine; names that are not UTF-8 are escaped."""
        return escape_undecodable(HiddenFolders.named(self._home.home).hide(text))

    # ── the other thread ──────────────────────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def monitoring(self, *, maintains: bool) -> Iterator[None]:
        """Monitor the running job in a thread during the block; `maintains`: that thread also maintains the queue."""
        over = threading.Event()

        def tend() -> None:
            while not over.wait(_STEP_S):
                try:
                    self._monitor(maintains=maintains)
                except Exception:  # without this thread, the worker would be taken for dead
                    log.exception("tending failed")
                    over.wait(_MAX_RETRY_S)

        thread = threading.Thread(target=tend, name="tending", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _monitor(self, *, maintains: bool) -> None:
        current = self._current
        if current is None:
            return
        self._interruption.signal_thread()
        if time.monotonic() < self._not_before:
            return
        try:
            current.progress.write()
            self._send_heartbeat(current.job)
            if maintains:
                self._maintain()
        except LostJob:
            self._interruption.request_stop(_run_id(current.job), StopReason.LOST)
        except (Unavailable, StorageFull):  # logged where it happened; waiting events are written the next time
            self._live_workers.reset()
            self._not_before = time.monotonic() + HEARTBEAT_S

    def _send_heartbeat(self, job: Job) -> None:
        if time.monotonic() - self._heartbeat_at < HEARTBEAT_S:
            return
        self._heartbeat_at = time.monotonic()
        if self._jobs.heartbeat(job.id, self._name):
            self._interruption.request_stop(_run_id(job), StopReason.CANCELLED)

    def _maintain(self) -> None:
        """Do the regular work of any worker: fire schedules, recover jobs of dead workers, remove old rows."""
        with self._maintenance_lock:
            if self._is_due("tick", _POLL_S):
                self._fire_schedules()
            if self._is_due("recover", _RECOVER_S):
                self._live_workers.observe(self._jobs.running())
                for job in self._jobs.recover(self._live_workers.is_alive):
                    log.warning("recovered", extra={"job": job.id, "state": job.state, "try": job.tries})
            if self._is_due("tidy", _CLEANUP_S):
                with _failing_alone("tidying"):
                    self._tidy()

    def _fire_schedules(self) -> None:
        with _failing_alone("schedules"):
            for firing in self._schedules.tick(self._jobs, datetime.now(UTC)):
                log.info("fired", extra={"schedule": firing.schedule, "job": firing.job, "note": firing.note})

    def _tidy(self) -> None:
        removed = self._jobs.remove_older(self._serve.keep_jobs_days)
        removed += IdempotencyStore(self._database).delete_expired()
        EndedJobs(self._database, self._home, self._serve).discard_all()
        remove_expired(self._home, self._serve, self._database)
        RowHolders(self._home).remove_dead()
        if not self._serve.webhook:  # another worker of the database may have one
            NoticeBox(self._database).remove_expired(datetime.now(UTC))
        for name in installation.registered(installation.CHORES):
            installation.find(installation.CHORES, name)(self._database)
        log.info("tidied", extra={"rows": removed})

    def _is_due(self, what: str, every_s: float) -> bool:
        now = time.monotonic()
        if now < self._due[what]:
            return False
        self._due[what] = now + every_s
        return True


_REPORT: Final = "this is a fault of ours: please report it with the lines of the log"


def _access_error(error: BaseException) -> RefaugError | None:
    """Return the refusal of the operating system with its path; without a path the fault is ours."""
    if not isinstance(error, OSError) or error.filename is None:
        return None
    return NoAccess(
        f"{error.filename}: {(error.strerror or 'no access').lower()}", remedy="give the service's user the right to it"
    )
