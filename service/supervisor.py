"""The parent process of a server: it listens, and keeps the processes going that answer and that run jobs.

    parent            the lock on the home, the socket, the database's schema, signals; opens no index, answers nothing
    ├── web process   one or several, spawned: accept from the parent's socket (service.web.app)
    └── job process   runs jobs and schedules (service.job_worker)

Settings reach the children through the environment. A child that dies is begun again; all end with the parent, however
that ends. uvicorn's own supervisor takes a web process that says nothing for 5 s for dead, and one that opens a large
index or compiles may well say nothing for longer: here it may be silent for `start_s`, and the parent does not wait for
it in the meantime, so that it can be stopped at any moment.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import multiprocessing
import os
import resource
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from uvicorn import Config
from uvicorn.supervisors.multiprocess import Multiprocess, Process

from core.errors import Conflict, Locked, RefaugError, Unavailable, Usage
from core.files import exclusive, make_folder, remove_tree, unique
from service import logs_json, observe
from service.database import Database
from service.keys import KeyStore
from service.parent import end_with_parent
from service.serve_settings import ServeSettings, is_local
from service.settings import Settings

APP: Final = "service.web.app:from_env"
KEEP_ALIVE_S: Final = 75  # longer than clients and proxies usually keep an idle connection, so that they close first
BACKLOG: Final = 2_048  # connections that may wait until a process accepts them
_FILES_BESIDE: Final = 256  # that a process has open beside its connections: what is mapped, databases, logs
_AFTER_REQUESTS_S: Final = 10.0  # for what a process has to put in order once its requests have ended
_STEADY_S: Final = 10.0  # who lived for so long did not die of how it began
_LONGEST_WAIT_S: Final = 30.0
_MIGRATE_AGAIN_S: Final = 5.0
_JOBS: Final = "import sys; from service.supervisor import run_jobs; sys.exit(run_jobs(*map(int, sys.argv[1:])))"

log = logging.getLogger(__name__)


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

    `tell` is called with the address once it can be connected to; with `any_port` a free one is taken where the one
    that was asked for is in use.
    """
    logs_json.set_up(home.home, level=level)
    with ExitStack() as stack:
        stack.enter_context(only_server(home, settings))
        has_schema = _migrated(home, settings)
        settings = guarded(settings, lambda: not has_schema or has_keys(home, settings))
        allow_files(settings)
        listener = stack.enter_context(listening(settings, any_port=any_port))
        stack.enter_context(_environment(home, settings))
        address = address_of(listener)
        log.info("listening on %s", address, extra={"workers": settings.workers})
        tell(address)
        jobs = JobProcess(within_s=settings.shutdown_s, level=level) if settings.job_worker else None
        if not has_schema:
            threading.Thread(target=_migrate_later, args=(home, settings), name="migrate", daemon=True).start()
        supervisor = Supervisor(config_of(settings, app=app), [listener], jobs, level=level)
        supervisor.run()
    if supervisor.has_failed:
        raise RefaugError(
            "the web processes cannot start", remedy="the lines above say why; refaug serve --check looks at the rest"
        )
    log.info("stopped")


# ── before anything starts ────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def only_server(home: Settings, settings: ServeSettings) -> Iterator[None]:
    """Hold the home against a second server; the lock goes with this process."""
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
        yield


def guarded(settings: ServeSettings, has_keys: Callable[[], bool]) -> ServeSettings:
    """The same with keys asked for on an address that others reach; Usage where nobody could have one.

    Where the database does not answer there may be some: it is asked for them, and nobody is let in until it does.
    """
    if settings.open and settings.keys:
        raise Usage("open to anybody, and asking for keys, at once", remedy="--open or --keys")
    if is_local(settings) or settings.open:
        return settings
    if not settings.keys and not has_keys():
        raise Usage(
            f"{settings.host} can be reached from elsewhere, and there are no keys",
            remedy="refaug keys create NAME --scope score, or --host 127.0.0.1, or --open for anybody who reaches it",
        )
    return replace(settings, keys=True)


def allow_files(settings: ServeSettings) -> int:
    """Let each process have as many files open as its connections need, as far as the system lets us; how many.

    Usage where it does not: without a file for it, a connection is not accepted, and nobody is told why.
    """
    wanted = settings.connections + _FILES_BESIDE
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed == resource.RLIM_INFINITY or allowed >= wanted:
        return allowed
    if most != resource.RLIM_INFINITY and most < wanted:
        raise Usage(
            f"{settings.connections:,} connections need {wanted:,} open files, and the system allows {most:,}",
            remedy=f"--connections {max(1, most - _FILES_BESIDE)}, or a higher limit (LimitNOFILE= of systemd, ulimit)",
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
    return wanted


def has_keys(home: Settings, settings: ServeSettings) -> bool:
    """Whether any key was made that still counts."""
    with contextlib.closing(Database.open(home, settings.database)) as database:
        now = datetime.now(UTC)
        return any(
            key.revoked is None and (key.expires is None or now < key.expires) for key in KeyStore(database).list()
        )


def _migrated(home: Settings, settings: ServeSettings) -> bool:
    """Bring the database to this version's schema; False where it does not answer now: scoring does without it."""
    make_folder(home.home)
    with contextlib.closing(Database.open(home, settings.database)) as database:
        try:
            database.migrate()
        except Unavailable as error:
            log.warning("the database does not answer: no jobs, schedules or new keys until it does: %s", error.message)
            return False
    return True


def _migrate_later(home: Settings, settings: ServeSettings) -> None:
    """Once the database answers; the processes look at its schema whenever they need it."""
    while not _migrated(home, settings):
        time.sleep(_MIGRATE_AGAIN_S)


@contextmanager
def _environment(home: Settings, settings: ServeSettings) -> Iterator[None]:
    """What the children read, with a fresh folder for their figures; the rest of the environment stays as it is."""
    serving = home.home / "serving"
    for left in serving.glob("metrics-*"):  # of servers that were killed
        remove_tree(left)
    figures = serving / f"metrics-{unique()}"
    make_folder(figures)
    before = dict(os.environ)
    os.environ.update(environment_of(home, settings, figures, os.environ))
    try:
        yield
    finally:
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)
        remove_tree(figures)


def environment_of(home: Settings, settings: ServeSettings, figures: Path, given: Mapping[str, str]) -> dict[str, str]:
    """Variables for the children; thread counts and caches that somebody has set already are kept.

    Set to nothing counts as well: NUMBA_CACHE_DIR= leaves what is compiled where the commands have it, beside the code.

    Threads are divided among the web processes: more than cores make every barrier of OpenMP wait, and a thread that
    waits for work must not spin where the next process has some.
    """
    threads = str(max(1, len(os.sched_getaffinity(0)) // settings.workers))
    unless_set = {
        "OMP_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
        "OPENBLAS_NUM_THREADS": threads,
        "NUMBA_NUM_THREADS": threads,
        "OMP_WAIT_POLICY": "PASSIVE",
        "NUMBA_CACHE_DIR": str((home.cache / "numba").resolve()),
    }
    return {
        **{name: value for name, value in unless_set.items() if name not in given},
        "REFAUG_HOME": str(home.home.resolve()),
        observe.FOLDER: str(figures.resolve()),
        **settings.as_env(),
    }


# ── the socket ────────────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def listening(settings: ServeSettings, *, any_port: bool = False) -> Iterator[socket.socket]:
    """A socket that connections can be made to from now on; they wait until a web process accepts them."""
    bound = _unix_socket(Path(settings.uds)) if settings.uds else _internet_socket(settings, any_port=any_port)
    try:
        bound.listen(BACKLOG)  # now, or a second server could bind the same port until a process listens
        yield bound
    finally:
        bound.close()
        if settings.uds:
            Path(settings.uds).unlink(missing_ok=True)


def _internet_socket(settings: ServeSettings, *, any_port: bool) -> socket.socket:
    try:
        found = socket.getaddrinfo(
            settings.host or None, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except OSError as error:
        raise Usage(
            f"{settings.host!r} is no address to listen on: {(error.strerror or str(error)).lower()}",
            remedy="--host 127.0.0.1, or an address of this machine",
        ) from error
    family, _, _, _, place = min(found, key=lambda one: one[0] != socket.AF_INET)  # localhost is often both
    for port in (settings.port, 0) if any_port and settings.port else (settings.port,):
        bound = socket.socket(family, socket.SOCK_STREAM)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((place[0], port, *place[2:]))
        except OSError as error:
            bound.close()
            if error.errno == errno.EADDRINUSE and any_port and port:
                continue
            raise _cannot_listen(settings, error) from error
        return bound
    raise AssertionError("port 0 is never in use")


def _cannot_listen(settings: ServeSettings, error: OSError) -> RefaugError:
    if error.errno == errno.EADDRINUSE:
        return Conflict(
            f"port {settings.port} of {settings.host} is in use",
            remedy="stop whoever listens there, or --port with another one (0: any that is free), or --any-port",
        )
    reason = (error.strerror or str(error)).lower()
    remedy = "a port from 1024 on" if error.errno == errno.EACCES else "--host with an address of this machine"
    return Usage(f"cannot listen on port {settings.port} of {settings.host}: {reason}", remedy=remedy)


def _unix_socket(path: Path) -> socket.socket:
    """A socket that only this user reaches; what a server that was killed left behind is removed."""
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o177)  # from the first moment, not by a chmod after it
    try:
        if path.exists():
            _require_left_behind(path)
            path.unlink()
        bound.bind(str(path))
    except OSError as error:
        bound.close()
        raise Usage(
            f"cannot listen on {path}: {(error.strerror or str(error)).lower()}",
            remedy="a path in a folder of this user, of at most about 100 characters",
        ) from error
    except RefaugError:
        bound.close()
        raise
    finally:
        os.umask(mask)
    return bound


def _require_left_behind(path: Path) -> None:
    """Conflict where the file is something else than a socket, or one on which somebody listens."""
    if not stat.S_ISSOCK(path.lstat().st_mode):
        raise Conflict(f"{path} is there and is no socket", remedy="another path for --uds")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return
    raise Conflict(f"somebody listens on {path}", remedy="stop that server, or another path for --uds")


def address_of(listener: socket.socket) -> str:
    """Where to connect to, as a URL."""
    if listener.family == socket.AF_UNIX:
        return f"unix:{listener.getsockname()}"
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


# ── the processes ─────────────────────────────────────────────────────────────────────────────────────────────────


def config_of(settings: ServeSettings, *, app: str = APP) -> Config:
    """How uvicorn serves. Requests and access lines are counted and logged by the app, which knows their routes."""
    return Config(
        app,
        factory=True,
        workers=settings.workers,
        loop="uvloop",
        http="service.web.protocol:Protocol",
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
        limit_concurrency=settings.connections,  # our protocol takes it for connections alone
        timeout_graceful_shutdown=settings.shutdown_s,  # type: ignore[arg-type]  # asyncio.wait_for takes it
        timeout_worker_healthcheck=settings.start_s,  # type: ignore[arg-type]  # seconds of a clock
    )


@dataclass(kw_only=True)
class Backoff:
    """How long to wait before a process that died is begun again: longer each time while it dies young."""

    begun: float = field(default_factory=time.monotonic)
    wait_s: float = 0.0

    def died(self, now: float) -> float:
        """When it may begin again."""
        steady = now - self.begun >= _STEADY_S
        self.wait_s = 0.0 if steady else min(_LONGEST_WAIT_S, max(0.5, 2 * self.wait_s))
        return now + self.wait_s

    def began(self, now: float) -> None:
        """It was begun again."""
        self.begun = now


class WebProcess(Process):
    """A web process that is asked whether it lives, without waiting for the answer."""

    def __init__(self, config: Config, sockets: list[socket.socket], *, level: int) -> None:
        super().__init__(config, sockets)
        self.has_served = False
        self._level = level
        self._asked: float | None = None

    def is_alive(self, timeout: float = 5) -> bool:
        """Whether it runs and has answered within so many seconds, as far as they have passed."""
        if not self.process.is_alive():
            return False
        try:
            if self._asked is None:
                self.parent_conn.send(b"ping")
                self._asked = time.monotonic()
            if self.parent_conn.poll(0):
                if self.parent_conn.recv() and not self.has_served:
                    self.has_served = True
                    log.info("web process listens", extra={"child": self.pid})
                self._asked = None
                return True
        except (OSError, EOFError):
            return False
        return time.monotonic() - self._asked < timeout

    def target(self, sockets: list[socket.socket] | None = None) -> None:
        """What runs in the child: our logs, our end with the parent, and then uvicorn's server."""
        parent = multiprocessing.parent_process()
        assert parent is not None and parent.pid is not None  # noqa: PT018  it was spawned
        within_s = float(self.config.timeout_graceful_shutdown or 0) + _AFTER_REQUESTS_S
        end_with_parent(parent.pid, within_s=within_s)
        logs_json.set_up(Settings.from_env().home, level=self._level)
        try:
            super().target(sockets)
        except Exception:
            log.critical("the web process failed", exc_info=True)
            raise SystemExit(1) from None


class JobProcess:
    """The process that runs jobs: in a process group of its own, so that Ctrl-C reaches it through the parent alone."""

    def __init__(self, *, within_s: float, level: int) -> None:
        self._command = [sys.executable, "-P", "-c", _JOBS, str(os.getpid()), str(level), str(int(within_s))]
        self._process: subprocess.Popen[bytes] | None = None
        self._backoff = Backoff()
        self._not_before = 0.0

    @property
    def pid(self) -> int | None:
        """The process, if one runs."""
        return None if self._process is None else self._process.pid

    def keep(self) -> None:
        """Begin it, or again where it has died."""
        now = time.monotonic()
        if self._process is not None:
            code = self._process.poll()
            if code is None:
                return
            self._not_before = self._backoff.died(now)
            wait_s = self._not_before - now
            log.warning("the job process ended", extra={"child": self.pid, "code": code, "again_in_s": wait_s})
            self._process = None
        if now >= self._not_before:
            self._backoff.began(now)
            self._process = subprocess.Popen(  # noqa: S603  our own interpreter and words
                self._command, stdin=subprocess.DEVNULL, process_group=0
            )
            log.info("job process started", extra={"child": self.pid})

    def terminate(self) -> None:
        """Ask it to stop: the job that it runs is queued again."""
        if self._process is not None:
            self._process.terminate()

    def kill(self) -> None:
        """End it at once; its job is taken up again as after any crash."""
        if self._process is not None:
            self._process.kill()

    def is_running(self) -> bool:
        """Whether it still has to be waited for."""
        return self._process is not None and self._process.poll() is None


def run_jobs(parent: int, level: int, within_s: int) -> int:
    """What runs in the job process."""
    from service.job_worker import work  # noqa: PLC0415  what jobs need is heavy, and nothing for the parent

    end_with_parent(parent, within_s=within_s)
    home = Settings.from_env()
    logs_json.set_up(home.home, level=level)
    try:
        ended_with: int = work(home, ServeSettings.from_env())
    except KeyboardInterrupt:
        return 0
    except Exception:
        log.critical("the job process failed", exc_info=True)
        return 1
    return ended_with


class Supervisor(Multiprocess):
    """uvicorn's supervisor with the job process beside the web processes, and with an end that comes in time."""

    def __init__(
        self, config: Config, sockets: list[socket.socket], jobs: JobProcess | None, *, level: int = logging.INFO
    ) -> None:
        super().__init__(config, sockets)
        self.jobs = jobs
        self._level = level
        self.has_failed = False
        self._at_once = False
        self._backoffs = [Backoff() for _ in range(config.workers)]
        self._not_before = [0.0] * config.workers

    def init_processes(self) -> None:
        """Start all of them."""
        for _ in range(self.processes_num):
            self.processes.append(self._begun())
        if self.jobs is not None:
            self.jobs.keep()

    def _begun(self) -> WebProcess:
        process = WebProcess(self.config, self.sockets, level=self._level)
        process.start()
        log.info("web process started", extra={"child": process.pid})
        return process

    def keep_subprocess_alive(self) -> None:
        """Look at every process, and begin again those that have died or are silent for too long."""
        if self.should_exit.is_set():
            return
        for place, process in enumerate(self.processes):
            self._keep(place, process)
        if self.jobs is not None and not self.should_exit.is_set():
            self.jobs.keep()

    def _keep(self, place: int, process: Process) -> None:
        now = time.monotonic()
        if self._not_before[place]:
            if now >= self._not_before[place]:
                self._not_before[place] = 0.0
                self._backoffs[place].began(now)
                self.processes[place] = self._begun()
            return
        if process.is_alive(timeout=self.config.timeout_worker_healthcheck):
            return
        was_silent = process.process.is_alive()
        process.kill()
        process.join()
        _forget(process)
        code = process.exitcode or 0
        if code > 0 and not (isinstance(process, WebProcess) and process.has_served):
            # it ended by itself before it served: the next one would do the same
            log.error("a web process cannot start", extra={"child": process.pid, "code": code})
            self.has_failed = True
            self.should_exit.set()
            return
        self._not_before[place] = self._backoffs[place].died(now)
        log.warning(
            "a web process was silent for too long" if was_silent else "a web process died",
            extra={"child": process.pid, "code": code, "again_in_s": self._not_before[place] - now},
        )

    def handle_term(self) -> None:
        """The first signal stops the server; one that comes after it, or with it, does so at once."""
        self._at_once = self.should_exit.is_set()
        self.should_exit.set()

    handle_int = handle_term

    def terminate_all(self) -> None:
        """Take no more connections, and ask all processes to end."""
        for listener in self.sockets:
            listener.close()
        if self.jobs is not None:
            self.jobs.terminate()
        super().terminate_all()

    def join_all(self) -> None:
        """Wait for them as long as they were told they had; a second signal, or that time, ends them at once."""
        deadline = time.monotonic() + float(self.config.timeout_graceful_shutdown or 0) + _AFTER_REQUESTS_S
        while self._running() and time.monotonic() < deadline and not self._is_told_again():
            time.sleep(0.05)
        if self._running():
            log.warning("ended by force", extra={"children": self._running()})
        for process in self.processes:
            process.kill()
            process.join()
            _forget(process)
        if self.jobs is not None:
            self.jobs.kill()

    def _running(self) -> list[int | None]:
        web = [process.pid for process in self.processes if process.process.is_alive()]
        return [*web, self.jobs.pid] if self.jobs is not None and self.jobs.is_running() else list[int | None](web)

    def _is_told_again(self) -> bool:
        self.handle_signals()
        return self._at_once

    def restart_all(self) -> None:
        """Not offered: new versions are opened without it, and settings are read once, by the parent."""
        log.info("SIGHUP does nothing: published versions are taken up without it; for settings, restart the server")

    def handle_ttin(self) -> None:
        """Not offered: how many threads each process has was decided for the number that was asked for."""
        log.info("the number of web processes is fixed while the server runs")

    handle_ttou = handle_ttin


def _forget(process: Process) -> None:
    """Take what a dead process had waiting out of the figures."""
    if process.pid is not None:
        observe.ended(process.pid)
