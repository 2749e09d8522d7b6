"""The parent process of a server: it listens, and keeps the web processes and the job process running.

    parent            the lock on the home, the socket, the database's schema, signals; no indexes and no requests
    ├── web process   one or several, spawned: accept from the parent's socket (refaug.service.web.app)
    └── job process   runs jobs and schedules (refaug.service.jobs.worker)

Settings reach the children through the environment. A child that dies is started again; all children end with the
parent, however it ends.
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from uvicorn import Config
from uvicorn.supervisors.multiprocess import Multiprocess, Process

from refaug.core.errors import Locked, RefaugError, Unavailable, Usage
from refaug.core.files import exclusive, make_folder
from refaug.core.home import Settings
from refaug.core.kernels import kernel_cache
from refaug.core.memory import collect_rarely
from refaug.core.processes.free_cores import available_cores
from refaug.service import prometheus_figures
from refaug.service.database.database import Database
from refaug.service.figures import FigureMemory
from refaug.service.keys import KeyStore
from refaug.service.process import json_logging
from refaug.service.process.guarded_config import ConnectionLimits, GuardedConfig
from refaug.service.process.job_process import JobProcess, RestartBackoff, end_with_parent
from refaug.service.process.listening_socket import BACKLOG, address_of, bound_socket
from refaug.service.process.server_address import published_address
from refaug.service.server_settings import ServeSettings, is_local
from refaug.service.serving.versions.version_opener import require_shards

# ── What must hold before a server starts: one server a home, keys on a public address, files enough, a schema ────────

_OTHER_FILES: Final = 256  # open files of a process beside its connections: a small version, databases, logs
_VERSION_FILES: Final = 16_384  # of large versions: about thirty a segment, each held open, of several versions at once
_MIGRATION_RETRY_S: Final = 5.0

log = logging.getLogger(__name__)


@contextmanager
def lock_home(home: Settings, settings: ServeSettings) -> Iterator[None]:
    """Hold the lock on the home against a second server; it is released with this process."""
    home.require_whole()
    where = settings.uds or f"{settings.host}, port {settings.port}"
    with ExitStack() as stack:
        try:
            stack.enter_context(exclusive(home.home / "serving", f"a server on {where}"))
        except Locked as error:
            holder = error.message.partition(" is in use: ")[2]
            raise Locked(
                f"{home.home} is served already: {holder}",
                remedy="stop that server, or give this one a home of its own: refaug --home FOLDER serve",
            ) from error
        home.require_whole()  # again, since a restore looks for the lock after it has begun
        yield


def require_keys_if_public(settings: ServeSettings, has_keys: Callable[[], bool]) -> ServeSettings:
    """Return the settings with keys required on a public address; Usage if there are no keys.

    If the database does not answer, keys may exist: they are required, and every request is refused until it answers.
    """
    if settings.open and settings.keys:
        raise Usage("open to anybody, and asking for keys, at once", remedy="--open or --keys")
    if is_local(settings) or settings.open:
        return settings
    if not settings.keys and not has_keys():
        raise Usage(
            f"{settings.host} can be reached from elsewhere, and there are no keys",
            remedy="refaug admin keys create NAME --scope score, or --host 127.0.0.1, or --open for all who reach it",
        )
    return replace(settings, keys=True)


def raise_file_limit(settings: ServeSettings) -> int:
    """Raise the limit of open files and return it; Usage if the system allows less than the connections need.

    Without this, a connection would be refused without an answer when files run out. Versions get room for what their
    segments need, as far as the system allows that.
    """
    needed = settings.connections + _OTHER_FILES
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed == resource.RLIM_INFINITY:
        return allowed
    if most != resource.RLIM_INFINITY and most < needed:
        raise Usage(
            f"{settings.connections:,} connections need {needed:,} open files, and the system allows {most:,}",
            remedy=f"--connections {max(1, most - _OTHER_FILES)}, or a higher limit (LimitNOFILE= of systemd, ulimit)",
        )
    ample = needed + _VERSION_FILES
    raised = ample if most == resource.RLIM_INFINITY else min(ample, most)
    if allowed >= raised:
        return allowed
    resource.setrlimit(resource.RLIMIT_NOFILE, (raised, most))
    return raised


def has_keys(home: Settings, settings: ServeSettings) -> bool:
    """Return whether any valid key exists."""
    with contextlib.closing(Database.open(home, settings.database)) as database:
        now = datetime.now(UTC)
        return any(
            key.revoked is None and (key.expires is None or now < key.expires) for key in KeyStore(database).list()
        )


def migrate(home: Settings, settings: ServeSettings) -> bool:
    """Upgrade the database's schema; False if it does not answer now, since scoring works without it."""
    make_folder(home.home)
    with contextlib.closing(Database.open(home, settings.database)) as database:
        try:
            database.migrate()
        except Unavailable as error:
            log.warning("the database does not answer: no jobs, schedules or new keys until it does: %s", error.message)
            return False
    return True


def retry_migration(home: Settings, settings: ServeSettings) -> None:
    """Upgrade the schema as soon as the database answers; the processes check it whenever they need it."""
    while not migrate(home, settings):
        time.sleep(_MIGRATION_RETRY_S)


# ── The parent process of a server: it listens, and keeps the web processes and the job process running ───────────────

_CLEANUP_S: Final = 10.0  # for the cleanup of a process after its requests have ended


class WebProcess(Process):
    """A web process that is pinged without waiting for the answer."""

    def __init__(self, config: Config, sockets: list[socket.socket], *, level: int) -> None:
        super().__init__(config, sockets)
        self.has_served = False
        self._level = level
        self._pinged_at: float | None = None

    def is_alive(self, timeout: float = 5) -> bool:
        """Return whether it runs and has answered within this time, as far as it has passed."""
        if not self.process.is_alive():
            return False
        try:
            if self._pinged_at is None:
                self.parent_conn.send(b"ping")
                self._pinged_at = time.monotonic()
            if self.parent_conn.poll(0):
                if self.parent_conn.recv() and not self.has_served:
                    self.has_served = True
                    log.info("web process listens", extra={"child": self.pid})
                self._pinged_at = None
                return True
        except (OSError, EOFError):
            return False
        return time.monotonic() - self._pinged_at < timeout

    def target(self, sockets: list[socket.socket] | None = None) -> None:
        """Run uvicorn's server in the child, with our logs, ending with the parent."""
        collect_rarely()
        parent = multiprocessing.parent_process()
        assert parent is not None and parent.pid is not None  # noqa: PT018  the process was spawned
        within_s = float(self.config.timeout_graceful_shutdown or 0) + _CLEANUP_S
        end_with_parent(parent.pid, within_s=within_s)
        json_logging.configure_logging(Settings.from_env().home, level=self._level)
        try:
            super().target(sockets)
        except Exception:
            log.critical("the web process failed", exc_info=True)
            raise SystemExit(1) from None


class Supervisor(Multiprocess):
    """uvicorn's supervisor with a job process beside the web processes, and with a limit on stopping."""

    def __init__(
        self, config: Config, sockets: list[socket.socket], jobs: JobProcess | None, *, level: int = logging.INFO
    ) -> None:
        super().__init__(config, sockets)
        self.jobs = jobs
        self._level = level
        self.has_failed = False
        self._at_once = False
        self._backoffs = [RestartBackoff() for _ in range(config.workers)]
        self._not_before = [0.0] * config.workers

    def init_processes(self) -> None:
        """Start all processes."""
        for _ in range(self.processes_num):
            self.processes.append(self._start_process())
        if self.jobs is not None:
            self.jobs.keep_alive()

    def _start_process(self) -> WebProcess:
        process = WebProcess(self.config, self.sockets, level=self._level)
        process.start()
        log.info("web process started", extra={"child": process.pid})
        return process

    def keep_subprocess_alive(self) -> None:
        """Check every process, and start dead or silent ones again."""
        if self.should_exit.is_set():
            return
        for place, process in enumerate(self.processes):
            self._keep_alive(place, process)
        if self.jobs is not None and not self.should_exit.is_set():
            self.jobs.keep_alive()

    def _keep_alive(self, place: int, process: Process) -> None:
        now = time.monotonic()
        if self._not_before[place]:
            if now >= self._not_before[place]:
                self._start_again(place, now)
            return
        if process.is_alive(timeout=self.config.timeout_worker_healthcheck):
            return
        was_silent = process.process.is_alive()
        process.kill()
        process.join()
        _forget_figures(process)
        code = process.exitcode or 0
        if code > 0 and not (isinstance(process, WebProcess) and process.has_served):
            # it ended before it served: the next one would do the same
            log.error("a web process cannot start", extra={"child": process.pid, "code": code})
            self.has_failed = True
            self.should_exit.set()
            return
        self._not_before[place] = self._backoffs[place].record_death(now)
        log.warning(
            "a web process was silent for too long" if was_silent else "a web process died",
            extra={"child": process.pid, "code": code, "again_in_s": self._not_before[place] - now},
        )

    def _start_again(self, place: int, now: float) -> None:
        self._backoffs[place].record_start(now)
        try:
            self.processes[place] = self._start_process()
        except OSError as error:  # no process or memory is left: the others go on
            self._not_before[place] = self._backoffs[place].record_death(now)
            log.error("a web process cannot be made", extra={"why": str(error)})  # noqa: TRY400
        else:
            self._not_before[place] = 0.0

    def handle_term(self) -> None:
        """Stop the server at the first signal, and at once at the second."""
        self._at_once = self.should_exit.is_set()
        self.should_exit.set()

    handle_int = handle_term

    def terminate_all(self) -> None:
        """Accept no more connections, and ask all processes to end."""
        for listener in self.sockets:
            listener.close()
        if self.jobs is not None:
            self.jobs.terminate()
        super().terminate_all()

    def join_all(self) -> None:
        """Wait for the processes as long as they may take; a second signal, or the end of that time, kills them."""
        deadline = time.monotonic() + float(self.config.timeout_graceful_shutdown or 0) + _CLEANUP_S
        while self._running() and time.monotonic() < deadline and not self._has_second_signal():
            time.sleep(0.05)
        if self._running():
            log.warning("ended by force", extra={"children": self._running()})
        for process in self.processes:
            process.kill()
            process.join()
            _forget_figures(process)
        if self.jobs is not None:
            self.jobs.kill()

    def _running(self) -> list[int | None]:
        web = [process.pid for process in self.processes if process.process.is_alive()]
        return [*web, self.jobs.pid] if self.jobs is not None and self.jobs.is_running() else list[int | None](web)

    def _has_second_signal(self) -> bool:
        self.handle_signals()
        return self._at_once

    def restart_all(self) -> None:
        """Not supported: new versions are opened without a restart, and the parent reads settings once."""
        log.info("SIGHUP does nothing: published versions are taken up without it; for settings, restart the server")

    def handle_ttin(self) -> None:
        """Not supported: the threads of each process depend on the number of processes."""
        log.info("the number of web processes is fixed while the server runs")

    handle_ttou = handle_ttin


def _forget_figures(process: Process) -> None:
    """Remove the waiting items of a dead process from the figures."""
    if process.pid is not None:
        prometheus_figures.forget_process(process.pid)


@contextmanager
def child_environment(home: Settings, settings: ServeSettings) -> Iterator[None]:
    """Set the environment of the children, with memory for their figures; restore it afterwards."""
    before = dict(os.environ)
    with ExitStack() as stack:
        os.environ.update(environment_of(home, settings, _figures_of(settings, stack), os.environ))
        try:
            yield
        finally:
            for name in os.environ.keys() - before.keys():
                del os.environ[name]
            os.environ.update(before)


def _figures_of(settings: ServeSettings, stack: ExitStack) -> str:
    """Return the path of memory for the figures of all web processes; empty where the system has none."""
    try:
        # one more than processes, in case a new one starts before the system has ended the locks of a killed one
        return stack.enter_context(FigureMemory.create(settings.workers + 1)).path
    except OSError as error:
        log.warning("no memory for the figures of all processes, each counts for itself: %s", error)
        return ""


def environment_of(
    home: Settings, settings: ServeSettings, figures: str, inherited: Mapping[str, str]
) -> dict[str, str]:
    """Return the variables for the children; thread counts and caches that are set already are kept.

    Compiled kernels are cached where the commands have them, beside the code; in the home only where that folder is not
    writable. An empty value counts as set.

    Threads are divided among the web processes: more threads than cores make every barrier of OpenMP wait. What numpy
    multiplies for a batch is too small to gain by a second thread, which costs as much again.
    """
    threads = str(max(1, available_cores() // settings.workers))
    unless_set = {
        "OMP_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
        "OPENBLAS_NUM_THREADS": "1",
        "NUMBA_NUM_THREADS": threads,
    }
    if not kernel_cache.is_writable():
        unless_set["NUMBA_CACHE_DIR"] = str((home.cache / "numba").resolve())
    return {
        **{name: value for name, value in unless_set.items() if name not in inherited},
        "REFAUG_HOME": str(home.home.resolve()),
        prometheus_figures.MEMORY_VARIABLE: figures,
        **settings.as_env(),
    }


APP: Final = "refaug.service.web.app:from_env"
KEEP_ALIVE_S: Final = (
    75  # longer than the usual limits of clients and proxies, so that they close idle connections first
)

_ROUTES_FIRST_S: Final = 5.0  # so that a route that waits for a body is the first to refuse it


def serve(
    home: Settings,
    settings: ServeSettings,
    *,
    any_port: bool = False,
    tell: Callable[[str], None] = lambda _address: None,
    level: int = logging.INFO,
    app: str = APP,
) -> None:
    """Serve until SIGINT or SIGTERM: the first lets requests end, the second ends at once.

    `tell` is called with the address as soon as it accepts connections; with `any_port` a free port is used where the
    requested one is in use.
    """
    if settings.shards:
        require_shards()
    json_logging.configure_logging(home.home, level=level)
    with ExitStack() as stack:
        stack.enter_context(lock_home(home, settings))
        has_schema = migrate(home, settings)
        settings = require_keys_if_public(settings, lambda: not has_schema or has_keys(home, settings))
        raise_file_limit(settings)
        listener = stack.enter_context(bound_socket(settings, any_port=any_port))
        stack.enter_context(child_environment(home, settings))
        address = address_of(listener)
        stack.enter_context(published_address(home, address))
        log.info("listening on %s", address, extra={"workers": settings.workers})
        tell(address)
        jobs = JobProcess(within_s=settings.shutdown_s, level=level) if settings.job_worker else None
        if not has_schema:
            threading.Thread(target=retry_migration, args=(home, settings), name="migrate", daemon=True).start()
        supervisor = Supervisor(config_of(settings, app=app), [listener], jobs, level=level)
        supervisor.run()
    if supervisor.has_failed:
        raise RefaugError(
            "the web processes cannot start", remedy="the lines above say why; refaug serve --check looks at the rest"
        )
    log.info("stopped")


def config_of(settings: ServeSettings, *, app: str = APP) -> GuardedConfig:
    """Return uvicorn's configuration. The application counts and logs requests, since it knows their routes."""
    return GuardedConfig(
        app,
        limits=limits_of(settings),
        factory=True,
        workers=settings.workers,
        loop="uvloop",
        ws="none",
        lifespan="on",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=bool(settings.proxies),
        forwarded_allow_ips=settings.proxies,
        root_path=settings.root_path.rstrip("/"),
        server_header=False,
        date_header=True,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=settings.shutdown_s,  # asyncio.wait_for takes it
        timeout_worker_healthcheck=settings.start_s,  # seconds of a clock
    )


def limits_of(settings: ServeSettings) -> ConnectionLimits:
    """Return what a connection may take by these settings."""
    return ConnectionLimits(
        connections=settings.connections,
        idle_s=KEEP_ALIVE_S,
        body_s=settings.body_timeout_s + _ROUTES_FIRST_S,
        drain_s=settings.body_timeout_s,
    )
