"""Stopping a running job: by a signal, because it was cancelled, or because another worker has it."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from types import FrameType
from typing import Final

_REPEAT_INTERRUPT_S: Final = 10.0  # before an interrupt that a library has swallowed is repeated
_CHECK_SIGNAL: Final = signal.SIGUSR1  # a separate signal, so that it is never mistaken for Ctrl-C


class StopReason(StrEnum):
    """Why a job is stopped before its end."""

    CANCELLED = "cancelled"
    LOST = "lost"  # another worker has the job
    STOPPED = "stopped"  # the worker ends


class Interruption:
    """Interrupts the running job in the worker's thread, and nothing else in it.

    Flags are plain attributes, not events: a signal handler may run while the thread is setting that very event.
    """

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._is_main = threading.current_thread() is threading.main_thread()
        self._until: threading.Event | None = None
        self._stopped = False
        self._run: str | None = None  # id of the run that may be interrupted now
        self._stop_requests = dict[str, StopReason]()
        self._raised_at = float("-inf")

    @contextmanager
    def handle_signals(self, until: threading.Event | None) -> Iterator[Interruption]:
        """Handle the process's signals in this object during the block."""
        self._until = until
        signals = (signal.SIGTERM, signal.SIGINT, _CHECK_SIGNAL) if self._is_main else ()
        before = {number: signal.signal(number, self._on_signal) for number in signals}
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if number != _CHECK_SIGNAL:
            self._stopped = True
        self.check()

    @property
    def is_stopped(self) -> bool:
        """Whether the worker is to end."""
        return self._stopped or (self._until is not None and self._until.is_set())

    def reason(self, run: str) -> StopReason | None:
        """Return why this run of a job is to stop, if it is."""
        return self._stop_requests.get(run) or (StopReason.STOPPED if self.is_stopped else None)

    def request_stop(self, run: str, why: StopReason) -> None:
        """Ask for a run to stop, from another thread."""
        self._stop_requests[run] = why

    @contextmanager
    def interruptible(self, run: str) -> Iterator[None]:
        """Allow interrupting the run during the block."""
        try:
            self._run, self._raised_at = run, float("-inf")
            self.check()
            yield
        finally:
            self.end()

    def end(self) -> None:
        """Forbid interrupting the run."""
        self._run = None

    def check(self) -> None:
        """Raise KeyboardInterrupt in the job's thread if the run is to stop and was not interrupted just before."""
        if threading.get_ident() == self._thread and self._is_due():
            self._raised_at = time.monotonic()
            raise KeyboardInterrupt

    def signal_thread(self) -> None:
        """Make the job's thread check, from another thread, even while it waits for something."""
        if self._is_main and self._is_due():
            signal.pthread_kill(self._thread, _CHECK_SIGNAL)

    def _is_due(self) -> bool:
        run = self._run
        return (
            run is not None
            and self.reason(run) is not None
            and time.monotonic() - self._raised_at >= _REPEAT_INTERRUPT_S
        )
