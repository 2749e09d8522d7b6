"""The process that runs jobs: it takes one after the other from the queue, and says in the database how each goes on.

The job runs in the main thread, so that it can be stopped the way Ctrl-C stops a command: by a KeyboardInterrupt where
it happens to be. A second thread tends it: it writes down progress, says that the worker lives, and hears that the
job was cancelled. So a database that is slow or away never holds a job up; what could not be written waits.

A worker that is killed leaves a running job without a lock. The next look of any worker finds it and puts it back, and
it goes on where its functions had finished something.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import Any, Final, Protocol, TypeVar

import orjson

from core.errors import NoAccess, RefaugError, StorageFull, Unavailable
from core.files import storage_errors
from core.progress import Progress
from service import job_kinds
from service.database import Database, lives, living, remove_dead
from service.idempotency import Idempotency
from service.job_store import Job, JobState, JobStore, NewEvent, NotYours
from service.schedules import Schedules
from service.serve_settings import ServeSettings
from service.settings import Settings

log = logging.getLogger(__name__)
T = TypeVar("T")

WRITE_S: Final = 0.5  # two writes a second at most, however fast a job advances
BEAT_S: Final = 2.0  # how soon a cancelled job hears of it
STALE_S: Final = 60.0  # a worker that was silent for so long has the job no more
_LOOK_S: Final = 0.5  # how soon a job that was asked for begins, and a schedule is looked at
_STEP_S: Final = 0.1
_RECOVER_S: Final = 5.0
_TIDY_S: Final = 3600.0
_AGAIN_S: Final = 10.0  # an interrupt that a library has swallowed is sent again after this
_LAST_S: Final = 5.0  # a worker that is stopped while the database is away does not wait longer for it
_SLOWEST_S: Final = 5.0  # between two tries while the database is away
_MOST_WAITING: Final = 1000  # events that wait for a database that is away
_POKE: Final = signal.SIGUSR1  # a signal of our own, so that it is never taken for somebody's Ctrl-C


class Run(Protocol):
    """What does a job: service.job_kinds.run, or a test's own."""

    def __call__(
        self, order: Mapping[str, Any], home: Settings, serve: ServeSettings, progress: Progress, *, job: str
    ) -> Mapping[str, Any]:
        """The result; RefaugError where it failed."""


def work(
    home: Settings,
    serve: ServeSettings,
    *,
    once: bool = False,
    until: threading.Event | None = None,
    run: Run = job_kinds.run,
) -> int:
    """Run jobs until stopped by a signal or `until`; with `once`, those that wait and are due now. The exit code.

    The database's tables have to be there. In the main thread SIGTERM and SIGINT stop it: the job that runs is put back
    into the queue. In any other thread only `until` does, at the job's next word about its progress.
    """
    database = Database.open(home, serve.database)
    try:
        with living(home) as name, Interruption().listening(until) as interruption:
            worker = Worker(home, serve, database, name=name, run=run, interruption=interruption)
            with worker.tending(is_looking=not once):
                worker.loop(once=once)
        return 0
    finally:
        database.close()


# ── stopping ──────────────────────────────────────────────────────────────────────────────────────────────────────


class Why(StrEnum):
    """Why a job is stopped before its end."""

    CANCELLED = "cancelled"
    LOST = "lost"  # another worker has it by now
    STOPPED = "stopped"  # the worker itself is to end


class Interruption:
    """Stops the job in the worker's thread, and only there: nothing of our own is ever interrupted.

    Flags are plain values, not events: a handler runs in the middle of whatever the thread does, which may be setting
    the very event.
    """

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._is_main = threading.current_thread() is threading.main_thread()
        self._until: threading.Event | None = None
        self._stopped = False
        self._run: str | None = None  # of a job, that may be interrupted now
        self._asked = dict[str, Why]()
        self._raised_at = float("-inf")

    @contextmanager
    def listening(self, until: threading.Event | None) -> Iterator[Interruption]:
        """Signals come to this object in the block."""
        self._until = until
        wanted = (signal.SIGTERM, signal.SIGINT, _POKE) if self._is_main else ()
        before = {number: signal.signal(number, self._heard) for number in wanted}
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _heard(self, number: int, _frame: FrameType | None) -> None:
        if number != _POKE:
            self._stopped = True
        self.check()

    @property
    def is_stopped(self) -> bool:
        """Whether the worker is to end."""
        return self._stopped or (self._until is not None and self._until.is_set())

    def why(self, run: str) -> Why | None:
        """Why this run of a job was to be stopped, if it was."""
        return self._asked.get(run) or (Why.STOPPED if self.is_stopped else None)

    def ask(self, run: str, why: Why) -> None:
        """Have a run stopped, by whoever is not its thread."""
        self._asked[run] = why

    @contextmanager
    def around(self, run: str) -> Iterator[None]:
        """Where the run may be interrupted."""
        try:
            self._run, self._raised_at = run, float("-inf")
            self.check()
            yield
        finally:
            self.over()

    def over(self) -> None:
        """Nothing is to be interrupted any more."""
        self._run = None

    def check(self) -> None:
        """KeyboardInterrupt in the job's own thread, if it is to stop, and was not just told so."""
        if threading.get_ident() == self._thread and self._is_due():
            self._raised_at = time.monotonic()
            raise KeyboardInterrupt

    def poke(self) -> None:
        """From another thread: make the job's thread look, also while it waits for something."""
        if self._is_main and self._is_due():
            signal.pthread_kill(self._thread, _POKE)

    def _is_due(self) -> bool:
        run = self._run
        return run is not None and self.why(run) is not None and time.monotonic() - self._raised_at >= _AGAIN_S


# ── telling ───────────────────────────────────────────────────────────────────────────────────────────────────────


class JobProgress:
    """A job's progress as rows: collected at any speed, written at most twice a second, by another thread."""

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
        self._lock = threading.Lock()  # what is collected
        self._writing = threading.Lock()  # one writes at a time, so that events keep their order
        self._waiting = list[NewEvent]()
        self._left_out = 0
        self._now: dict[str, Any] | None = None
        self._is_new = False
        self._wrote_at = float("-inf")

    def stage(self, name: str, total: int | None = None, unit: str = "") -> None:
        """A new stage begins; the one before is done."""
        self._check()
        log.info("stage", extra={"job": self._job, "stage": name, "total": total})
        said = {"stage": self._clean(name), "total": total, "unit": unit}
        with self._lock:
            self._now, self._is_new = {**said, "done": 0}, True
            self._add(NewEvent(type="stage", data=said))

    def advance(self, amount: int) -> None:
        """So much of the current stage's total is done."""
        self._check()
        with self._lock:
            before = self._now or {"stage": "", "total": None, "unit": "", "done": 0}
            self._now, self._is_new = {**before, "done": before["done"] + amount}, True

    def warn(self, message: str) -> None:
        """Something is not as it should be, and the work goes on."""
        log.warning("job", extra={"job": self._job, "why": message})
        with self._lock:
            self._add(NewEvent(type="warning", data={"message": self._clean(message)}))

    def _add(self, event: NewEvent) -> None:
        if len(self._waiting) < _MOST_WAITING:
            self._waiting.append(event)
        else:
            self._left_out += 1

    def write(self, *, last: bool = False) -> None:
        """Write what is new, unless the last time was just now; what cannot be written waits for the next time."""
        with self._writing:
            now = self._clock()
            if not last and now - self._wrote_at < WRITE_S:
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


# ── who is alive ──────────────────────────────────────────────────────────────────────────────────────────────────


class Pulse:
    """Which workers live: those that hold their lock, and whose heartbeat was seen to change of late.

    Seen by our own clock: what theirs says does not matter, nor that nobody could write while the database was away.
    """

    def __init__(self, home: Settings, own: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._home, self._own, self._clock = home, own, clock
        self._seen = dict[str, tuple[str | None, float]]()  # worker → its last beat, and since when that is the last

    def look(self, running: Sequence[Job]) -> None:
        """Take note of the beats that stand in the rows now."""
        now, before = self._clock(), self._seen
        self._seen = {}
        for job in running:
            beat, since = before.get(job.worker or "", (None, now))
            self._seen[job.worker or ""] = (job.beat, since if beat == job.beat else now)

    def forget(self) -> None:
        """The database was away: nobody can be blamed for silence."""
        self._seen = {}

    def is_alive(self, worker: str) -> bool:
        """Whether a job may be left with this worker."""
        if worker == self._own:
            return True
        since = self._seen.get(worker, (None, self._clock()))[1]
        return lives(self._home, worker) and self._clock() - since < STALE_S


# ── working ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _run_of(job: Job) -> str:
    """This run of the job: it may come to the same worker once more, and is not to be stopped then for what was."""
    return f"{job.id} {job.started}"


@dataclass(frozen=True, kw_only=True)
class _Current:
    """What the main thread is at."""

    job: Job
    progress: JobProgress


@dataclass(frozen=True, kw_only=True)
class _Ended:
    """How a job's function ended; without a state it is to be put back."""

    state: JobState | None
    result: Mapping[str, Any] | None = None
    error: Mapping[str, Any] | None = None


class Worker:
    """One that runs jobs, with what it needs for that."""

    def __init__(
        self,
        home: Settings,
        serve: ServeSettings,
        database: Database,
        *,
        name: str,
        run: Run,
        interruption: Interruption,
    ) -> None:
        self._home, self._serve, self._database, self._name = home, serve, database, name
        self._run, self._interruption = run, interruption
        self._jobs = JobStore(database, waiting_jobs=serve.waiting_jobs, tries=serve.job_tries)
        self._schedules = Schedules(database)
        self._pulse = Pulse(home, name)
        self._looking = threading.Lock()
        self._due = {"tick": 0.0, "recover": 0.0, "tidy": 0.0}
        self._current: _Current | None = None
        self._beat_at = self._not_before = 0.0

    # ── the main thread ───────────────────────────────────────────────────────────────────────────────────────────

    def loop(self, *, once: bool) -> None:
        """Job after job; a database that is away is waited for, unless it is only for what waits now."""
        self._waited_for(self._database.require_current, raises=once)
        log.info("worker", extra={"worker": self._name})
        while not self._interruption.is_stopped:
            job = self._waited_for(self._next, raises=once)
            if job is not None:
                self._do(job)
            elif once:
                return
            else:
                self._pause(_LOOK_S)

    def _next(self) -> Job | None:
        self._look_after()
        return None if self._interruption.is_stopped else self._jobs.claim(self._name)

    def _waited_for(self, ask: Callable[[], T], *, raises: bool) -> T | None:
        """What the database answers, as soon as it does; None where the worker is stopped before that."""
        wait_s = _LOOK_S
        while not self._interruption.is_stopped:
            try:
                return ask()
            except (Unavailable, StorageFull) as error:
                if raises:
                    raise
                self._pulse.forget()
                log.warning("waiting for the database", extra={"why": error.message})
                self._pause(wait_s)
                wait_s = min(2 * wait_s, _SLOWEST_S)
        return None

    def _pause(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while not self._interruption.is_stopped and time.monotonic() < end:
            time.sleep(_STEP_S)

    def _do(self, job: Job) -> None:
        began = time.monotonic()
        log.info("job begun", extra={"job": job.id, "kind": job.kind, "try": job.tries})
        progress = JobProgress(
            self._jobs, job.id, self._name, clean=self._without_paths, check=self._interruption.check
        )
        self._current = _Current(job=job, progress=progress)
        try:
            ended = self._ended(job, progress)
            self._settle(job, progress, ended)
        finally:
            self._current = None
        state = ended.state or "put back"
        log.info("job ended", extra={"job": job.id, "state": state, "seconds": round(time.monotonic() - began, 3)})

    def _ended(self, job: Job, progress: Progress) -> _Ended:
        """Run the job's function; whatever it raises is its end, and never the worker's."""
        try:
            with self._interruption.around(_run_of(job)), storage_errors(self._home.home):
                result = self._run(job.order, self._home, self._serve, progress, job=job.id)
                options = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS
                return _Ended(state=JobState.DONE, result=orjson.loads(orjson.dumps(result, option=options)))
        except BaseException as error:  # noqa: BLE001  MemoryError, SystemExit, and panics of libraries in Rust as well
            self._interruption.over()
            # Once it was told to stop, whatever it ended with came of that: a child process that went first, and so on.
            why = self._interruption.why(_run_of(job))
            if why is not None:
                return _Ended(state=JobState.CANCELLED if why is Why.CANCELLED else None)
            return self._failed(job, error)

    def _failed(self, job: Job, error: BaseException) -> _Ended:
        told = error if isinstance(error, RefaugError) else _no_access(error)
        if told is None:
            kind = type(error).__name__
            log.error("job failed", extra={"job": job.id, "why": kind}, exc_info=error)
            said = RefaugError(f"something went wrong that was not foreseen ({kind})", remedy=_REPORT)
            return _Ended(state=JobState.FAILED, error={**self._as_json(said), "kind": kind})
        log.warning("job failed", extra={"job": job.id, "code": told.code, "why": told.message})
        return _Ended(state=JobState.FAILED, result=getattr(told, "result", None), error=self._as_json(told))

    def _as_json(self, error: RefaugError) -> dict[str, Any]:
        return {
            "code": error.code,
            "message": self._without_paths(error.message),
            "remedy": self._without_paths(error.remedy),
            "exit_code": error.exit_code,
        }

    def _settle(self, job: Job, progress: JobProgress, ended: _Ended) -> None:
        """Write down how it ended, however long the database is away; a worker that is stopped does not wait for it."""
        if self._interruption.why(_run_of(job)) is Why.LOST:
            log.warning("job lost", extra={"job": job.id})
            return

        def write() -> None:
            progress.write(last=True)
            if ended.state is None:
                self._jobs.requeue(job.id, self._name, "its worker was stopped")
            else:
                self._jobs.finish(job.id, self._name, ended.state, result=ended.result, error=ended.error)

        wait_s, until = _STEP_S, float("inf")
        while time.monotonic() < until:
            try:
                write()
            except NotYours as error:
                log.warning("job lost", extra={"job": job.id, "why": error.message})
            except (Unavailable, StorageFull) as error:
                log.warning("waiting for the database", extra={"job": job.id, "why": error.message})
                if self._interruption.is_stopped:
                    until = min(until, time.monotonic() + _LAST_S)
                time.sleep(wait_s)
                wait_s = min(2 * wait_s, _SLOWEST_S)
                continue
            return
        log.warning("job left as running; the next worker puts it back", extra={"job": job.id})

    def _without_paths(self, text: str) -> str:
        """A message as others may see it: where our files lie is nobody's business; a name may be no UTF-8."""
        for folder in {str(self._home.home.resolve()), str(self._home.home.absolute())} - {"/"}:
            text = text.replace(folder, "HOME")
        return text.replace(f"{Path.home()}/", "~/").encode("utf-8", "backslashreplace").decode()

    # ── the other thread ──────────────────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def tending(self, *, is_looking: bool) -> Iterator[None]:
        """A thread that tends the running job; with `is_looking` also the queue, while the main thread is busy."""
        over = threading.Event()

        def tend() -> None:
            while not over.wait(_STEP_S):
                try:
                    self._tend(is_looking=is_looking)
                except Exception:  # without this thread, the job would be taken for dead
                    log.exception("tending failed")
                    over.wait(_SLOWEST_S)

        thread = threading.Thread(target=tend, name="tending", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _tend(self, *, is_looking: bool) -> None:
        current = self._current
        if current is None:
            return
        self._interruption.poke()
        if time.monotonic() < self._not_before:
            return
        try:
            current.progress.write()
            self._beat(current.job)
            if is_looking:
                self._look_after()
        except NotYours:
            self._interruption.ask(_run_of(current.job), Why.LOST)
        except (Unavailable, StorageFull):  # logged where it happened; what waits is written the next time
            self._pulse.forget()
            self._not_before = time.monotonic() + BEAT_S

    def _beat(self, job: Job) -> None:
        if time.monotonic() - self._beat_at < BEAT_S:
            return
        self._beat_at = time.monotonic()
        if self._jobs.beat(job.id, self._name):
            self._interruption.ask(_run_of(job), Why.CANCELLED)

    def _look_after(self) -> None:
        """What some worker has to do from time to time: schedules, jobs of dead workers, rows that are old."""
        with self._looking:
            if self._is_due("tick", _LOOK_S):
                self._tick()
            if self._is_due("recover", _RECOVER_S):
                self._pulse.look(self._jobs.running())
                for job in self._jobs.recover(self._pulse.is_alive):
                    log.warning("recovered", extra={"job": job.id, "state": job.state, "try": job.tries})
            if self._is_due("tidy", _TIDY_S):
                removed = self._jobs.remove_older(self._serve.keep_jobs_days)
                removed += Idempotency(self._database).forget_older()
                remove_dead(self._home)
                log.info("tidied", extra={"rows": removed})

    def _tick(self) -> None:
        try:
            fired = self._schedules.tick(self._jobs, datetime.now(UTC))
        except (Unavailable, StorageFull):
            raise
        except Exception:  # one schedule that cannot be understood must not keep all jobs waiting
            log.exception("schedules failed")
            return
        for firing in fired:
            log.info("fired", extra={"schedule": firing.schedule, "job": firing.job, "note": firing.note})

    def _is_due(self, what: str, every_s: float) -> bool:
        now = time.monotonic()
        if now < self._due[what]:
            return False
        self._due[what] = now + every_s
        return True


_REPORT: Final = "this is a fault of ours: please report it with the lines of the log"


def _no_access(error: BaseException) -> RefaugError | None:
    """What the system refused, by path; where there is no path it is no matter of access, and ours."""
    if not isinstance(error, OSError) or error.filename is None:
        return None
    return NoAccess(
        f"{error.filename}: {(error.strerror or 'no access').lower()}", remedy="give the service's user the right to it"
    )
