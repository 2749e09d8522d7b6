"""Waiting between tries: how long, and until when.

Loops that look at intervals whether something has happened do not retry, and have constants of their module.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Backoff:
    """The waiting times between tries: the first, then twice as long each time, up to the longest."""

    def __init__(self, first_s: float, longest_s: float) -> None:
        self._first_s, self._longest_s = first_s, longest_s
        self._next_s = first_s

    def next_s(self) -> float:
        """Return how many seconds to wait before the next try."""
        wait_s, self._next_s = self._next_s, min(2 * self._next_s, self._longest_s)
        return wait_s

    def reset(self) -> None:
        """Begin again with the first waiting time."""
        self._next_s = self._first_s


def retry(
    call: Callable[[], T],
    *,
    on: type[Exception],
    backoff: Backoff,
    within_s: float,
    is_transient: Callable[[Exception], bool] = lambda _error: True,
) -> T:
    """Return what a function returns, calling it again after transient errors of one type.

    The last error is raised when it occurs later than `within_s` seconds after the first call, and any other error at
    once.
    """
    until = time.monotonic() + within_s
    while True:
        try:
            return call()
        except on as error:
            if not is_transient(error) or time.monotonic() >= until:
                raise
            time.sleep(backoff.next_s())
