"""How long a dead process waits before it is started again."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Final

_STABLE_AFTER_S: Final = 10.0  # a process that ran for so long did not die of its start
_MAX_BACKOFF_S: Final = 30.0


@dataclass(kw_only=True)
class Backoff:
    """The waiting time before a dead process is started again: longer each time while it dies early."""

    begun: float = field(default_factory=time.monotonic)
    wait_s: float = 0.0

    def record_death(self, now: float) -> float:
        """Return when the process may start again."""
        steady = now - self.begun >= _STABLE_AFTER_S
        self.wait_s = 0.0 if steady else min(_MAX_BACKOFF_S, max(0.5, 2 * self.wait_s))
        return now + self.wait_s

    def record_start(self, now: float) -> None:
        """Note that the process was started again."""
        self.begun = now
