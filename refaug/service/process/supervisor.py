"""The supervisor in the parent process: it keeps the web processes and the job process running, and stops them.

uvicorn's supervisor takes a web process that is silent for 5 s for dead, and opening a large index or compiling may
take longer: here a web process may be silent for `start_s`, and the parent does not wait for it in the meantime, so
that it can be stopped at any moment.
"""

from __future__ import annotations

import logging
import multiprocessing
import socket
import time
from typing import Final

from uvicorn import Config
from uvicorn.supervisors.multiprocess import Multiprocess, Process

from refaug.core.home import Settings
from refaug.service import prometheus_figures
from refaug.service.process import json_logging
from refaug.service.process.job_process import JobProcess
from refaug.service.process.parent_watch import end_with_parent
from refaug.service.process.restart_backoff import RestartBackoff

_CLEANUP_S: Final = 10.0  # for the cleanup of a process after its requests have ended

log = logging.getLogger(__name__)


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
                self._not_before[place] = 0.0
                self._backoffs[place].record_start(now)
                self.processes[place] = self._start_process()
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
