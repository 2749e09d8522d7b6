"""How long a process of a cluster waits for calls before it ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class CallLease:
    """Runs from the last call, or the last word that the process is still wanted; never out during a call."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._clock = seconds, clock
        self._lock = threading.Lock()
        self._calls, self._heard_at = 0, clock()

    def renew(self) -> None:
        """Begin anew."""
        with self._lock:
            self._heard_at = self._clock()

    @contextmanager
    def during_call(self) -> Iterator[None]:
        """Hold the lease, and begin anew when the block ends."""
        with self._lock:
            self._calls += 1
        try:
            yield
        finally:
            with self._lock:
                self._calls, self._heard_at = self._calls - 1, self._clock()

    def end_if_over(self, end: Callable[[], None]) -> None:
        """Call `end` if the lease has run out; no call begins meanwhile."""
        with self._lock:
            if not self._calls and self._clock() - self._heard_at > self._seconds:
                end()
