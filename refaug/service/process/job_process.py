"""The process that runs jobs: started and kept running by the parent, ending with it."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import Final

from refaug.core.backoff import Backoff
from refaug.core.home import Settings
from refaug.core.memory import collect_rarely, freeze_living
from refaug.service.process import json_logging
from refaug.service.server_settings import ServeSettings

# ── How long a dead process waits before it is started again ──────────────────────────────────────────────────────────

_STABLE_AFTER_S: Final = 10.0  # a process that ran for so long did not die of its start
_FIRST_BACKOFF_S, _MAX_BACKOFF_S = 0.5, 30.0


@dataclass(kw_only=True)
class RestartBackoff:
    """The waiting time before a dead process is started again: longer each time while it dies early."""

    begun: float = field(default_factory=time.monotonic)
    _backoff: Backoff = field(init=False, default_factory=lambda: Backoff(_FIRST_BACKOFF_S, _MAX_BACKOFF_S))

    def record_death(self, now: float) -> float:
        """Return when the process may start again."""
        if now - self.begun >= _STABLE_AFTER_S:
            self._backoff.reset()
            return now
        return now + self._backoff.next_s()

    def record_start(self, now: float) -> None:
        """Note that the process was started again."""
        self.begun = now


# ── Ending a child process of a server when its parent is gone ────────────────────────────────────────────────────────

POLL_S: Final = 0.5  # between two checks; an orphan may keep a port or a job for so long


def end_with_parent(parent: int, *, within_s: float) -> threading.Thread:
    """End this process when its parent is gone, watched by a thread.

    First with SIGTERM, which lets running work end; after `within_s` seconds at once, since no other process would do
    it. The caller passes `parent`, which may be gone before this process could ask for it.
    """
    watcher = threading.Thread(target=_watch, args=(parent, within_s), name="parent", daemon=True)
    watcher.start()
    return watcher


def _watch(parent: int, within_s: float) -> None:
    while os.getppid() == parent:
        time.sleep(POLL_S)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(within_s)
    os._exit(1)  # ends without the main thread, which may be blocked


# ── The process that runs jobs: started and kept running by the parent, ending with it ────────────────────────────────

_JOBS: Final = (
    "import sys; from refaug.service.process.job_process import run_jobs; sys.exit(run_jobs(*map(int, sys.argv[1:])))"
)

_MOST_NICE: Final = 19

log = logging.getLogger(__name__)


class JobProcess:
    """The process that runs jobs, in a separate process group, so that Ctrl-C reaches it only through the parent."""

    def __init__(self, *, within_s: float, level: int) -> None:
        self._command = [sys.executable, "-P", "-c", _JOBS, str(os.getpid()), str(level), str(int(within_s))]
        self._process: subprocess.Popen[bytes] | None = None
        self._backoff = RestartBackoff()
        self._not_before = 0.0

    @property
    def pid(self) -> int | None:
        """The id of the process, if it runs."""
        return None if self._process is None else self._process.pid

    def keep_alive(self) -> None:
        """Start it, or start it again where it has died."""
        now = time.monotonic()
        if self._process is not None:
            code = self._process.poll()
            if code is None:
                return
            self._not_before = self._backoff.record_death(now)
            wait_s = self._not_before - now
            log.warning("the job process ended", extra={"child": self.pid, "code": code, "again_in_s": wait_s})
            self._process = None
        if now >= self._not_before:
            self._backoff.record_start(now)
            try:
                self._process = subprocess.Popen(  # noqa: S603  our own interpreter and words
                    self._command, stdin=subprocess.DEVNULL, process_group=0
                )
            except OSError as error:  # no process or memory is left: requests are answered meanwhile
                self._not_before = self._backoff.record_death(now)
                log.error("the job process cannot start", extra={"why": str(error)})  # noqa: TRY400
                return
            log.info("job process started", extra={"child": self.pid})

    def terminate(self) -> None:
        """Ask it to stop: its job goes back into the queue."""
        if self._process is not None:
            self._process.terminate()

    def kill(self) -> None:
        """Kill it; its job is recovered as after any crash."""
        if self._process is not None:
            self._process.kill()

    def is_running(self) -> bool:
        """Return whether the process still runs."""
        return self._process is not None and self._process.poll() is None


def step_back(nice: int) -> None:
    """Let other processes have the cores first."""
    if nice:
        os.setpriority(os.PRIO_PROCESS, 0, min(_MOST_NICE, os.getpriority(os.PRIO_PROCESS, 0) + nice))


def run_jobs(parent: int, level: int, within_s: int) -> int:
    """Run the worker in the job process."""
    collect_rarely()
    home, settings = Settings.from_env(), ServeSettings.from_env()
    step_back(settings.job_nice)  # before libraries start threads: each has a niceness
    from refaug.service.jobs.worker import run_worker  # noqa: PLC0415  heavy, and not needed by the parent

    end_with_parent(parent, within_s=within_s)
    json_logging.configure_logging(home.home, level=level)
    try:
        ended_with: int = run_worker(home, settings, between_jobs=freeze_living)
    except KeyboardInterrupt:
        return 0
    except Exception:
        log.critical("the job process failed", exc_info=True)
        return 1
    return ended_with
