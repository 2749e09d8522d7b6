"""How long a dead process waits before it is started again."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Final

from refaug.core.backoff import Backoff

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
