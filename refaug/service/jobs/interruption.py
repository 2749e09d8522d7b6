"""Stopping a running job: by a signal, because it was cancelled, or because another worker has it."""

from __future__ import annotations

import os
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
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, _CHECK_SIGNAL)
_MANY_SIGNALS: Final = 4_096  # read from the pipe at once


class StopReason(StrEnum):
    """Why a job is stopped before its end."""

    CANCELLED = "cancelled"
    LOST = "lost"  # another worker has the job
    STOPPED = "stopped"  # the worker ends


class Interruption:
    """Interrupts the running job in the worker's thread, and nothing else in it.

    Flags are plain attributes, not events: a signal handler may run while the thread is setting that very event.

    A signal may come just before the thread begins to wait, or reach another thread: then Python's handler runs only
    when the wait ends. Therefore the interpreter also writes every signal into a pipe, and the thread that watches the
    job reads it and wakes the job's thread.
    """

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._is_main = threading.current_thread() is threading.main_thread()
        self._until: threading.Event | None = None
        self._stopped = False
        self._run: str | None = None  # id of the run that may be interrupted now
        self._stop_requests = dict[str, StopReason]()
        self._raised_at = float("-inf")
        self._arrived: int | None = None  # the pipe's end from which signals are read

    @contextmanager
    def handle_signals(self, until: threading.Event | None) -> Iterator[Interruption]:
        """Handle the process's signals in this object during the block."""
        self._until = until
        if not self._is_main:
            yield self
            return
        self._arrived, written = os.pipe()
        for end in (self._arrived, written):
            os.set_blocking(end, False)
        wakeup_before = signal.set_wakeup_fd(written, warn_on_full_buffer=False)
        before = {number: signal.signal(number, self._on_signal) for number in _SIGNALS}
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(wakeup_before)
            arrived, self._arrived = self._arrived, None
            os.close(arrived)
            os.close(written)

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
        if self._is_main and (self._has_signal() or self._is_due()):
            signal.pthread_kill(self._thread, _CHECK_SIGNAL)

    def _has_signal(self) -> bool:
        """Return whether a signal to stop has come since the last time, even if Python has not handled it yet."""
        if self._arrived is None:
            return False
        try:
            numbers = os.read(self._arrived, _MANY_SIGNALS)
        except BlockingIOError:
            return False
        return any(number != _CHECK_SIGNAL for number in numbers)

    def _is_due(self) -> bool:
        run = self._run
        return (
            run is not None
            and self.reason(run) is not None
            and time.monotonic() - self._raised_at >= _REPEAT_INTERRUPT_S
        )
