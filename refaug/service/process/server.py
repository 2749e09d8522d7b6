"""The parent process of a server: it listens, and keeps the web processes and the job process running.

    parent            the lock on the home, the socket, the database's schema, signals; no indexes and no requests
    ├── web process   one or several, spawned: accept from the parent's socket (refaug.service.web.app)
    └── job process   runs jobs and schedules (refaug.service.jobs.worker)

Settings reach the children through the environment. A child that dies is started again; all children end with the
parent, however it ends.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Final

from refaug.core import kernel_cache
from refaug.core.errors import RefaugError
from refaug.core.home import Settings
from refaug.core.processes.free_cores import available_cores
from refaug.core.processes.passive_waiting import PASSIVE_WAITING
from refaug.service import prometheus_figures
from refaug.service.figures.figure_memory import FigureMemory
from refaug.service.process import json_logging, start_conditions
from refaug.service.process.guarded_config import ConnectionLimits, GuardedConfig
from refaug.service.process.job_process import JobProcess
from refaug.service.process.listening_socket import BACKLOG, address_of, bound_socket
from refaug.service.process.supervisor import Supervisor
from refaug.service.server_settings import ServeSettings
from refaug.service.serving.versions.shard_cluster import require_shards

log = logging.getLogger(__name__)


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

    Threads are divided among the web processes: more threads than cores make every barrier of OpenMP wait, and waiting
    threads must not spin while another process has work.
    """
    threads = str(max(1, available_cores() // settings.workers))
    unless_set = {
        "OMP_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
        "OPENBLAS_NUM_THREADS": threads,
        "NUMBA_NUM_THREADS": threads,
        **PASSIVE_WAITING,
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
        stack.enter_context(start_conditions.lock_home(home, settings))
        has_schema = start_conditions.migrate(home, settings)
        settings = start_conditions.require_keys_if_public(
            settings, lambda: not has_schema or start_conditions.has_keys(home, settings)
        )
        start_conditions.raise_file_limit(settings)
        listener = stack.enter_context(bound_socket(settings, any_port=any_port))
        stack.enter_context(child_environment(home, settings))
        address = address_of(listener)
        log.info("listening on %s", address, extra={"workers": settings.workers})
        tell(address)
        jobs = JobProcess(within_s=settings.shutdown_s, level=level) if settings.job_worker else None
        if not has_schema:
            threading.Thread(
                target=start_conditions.retry_migration, args=(home, settings), name="migrate", daemon=True
            ).start()
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
