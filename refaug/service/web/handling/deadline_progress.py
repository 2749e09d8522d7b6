"""Progress of the work for a request: it stops at the deadline, or when the client has left."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from refaug.core.errors import Expired, Interrupted


class DeadlineProgress:
    """Progress of scoring that is not shown: it stops the work at the deadline or when the client has left."""

    def __init__(self, deadline: float) -> None:
        self._deadline = deadline
        self.is_given_up = False

    def stage(self, name: str, total: int | None = None, unit: str = "") -> None:
        """Check the deadline."""
        del name, total, unit
        self.advance(0)

    def advance(self, amount: int) -> None:
        """Check the deadline."""
        del amount
        if self.is_given_up:
            raise Interrupted("the client disconnected before the answer was ready")
        if time.monotonic() > self._deadline:
            raise Expired("the time was over before the answer was ready", remedy="ask for more time, or for less")

    def warn(self, message: str) -> None:
        """Drop the warning: stored answers do not concern the client."""
        del message

    @contextmanager
    def given_up_on_error(self) -> Iterator[None]:
        """Stop the thread that works when the block is left by an error, such as the end of the connection."""
        try:
            yield
        except BaseException:
            self.is_given_up = True
            raise
