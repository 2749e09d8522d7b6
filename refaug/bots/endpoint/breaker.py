"""A circuit breaker: after many faults in a row requests wait, and one at a time tries whether the endpoint is back."""

from __future__ import annotations

import asyncio
from enum import Enum
from typing import Final

FAULTS: Final = 8  # requests in a row that failed for good, each after its own tries
TRIALS: Final = 2
PAUSE_S: Final = 5.0


class Permit(Enum):
    """What a request may do."""

    SEND = "send"
    TRIAL = "trial"  # it is sent alone, and all others wait for how it goes
    REFUSED = "refused"


class Breaker:
    """Counts the requests in a row that failed for good; any answer sets the count back.

    When there are `faults` of them, all requests wait; then one is sent. If `trials` of these fail too, the endpoint
    is given up, and no request is sent any more.
    """

    def __init__(self, *, faults: int = FAULTS, trials: int = TRIALS, pause_s: float = PAUSE_S) -> None:
        self._faults, self._trials, self._pause_s = faults, trials, pause_s
        self._in_a_row = self._failed_trials = 0
        self._trial = asyncio.Lock()
        self.last_message = ""

    async def permit(self) -> Permit:
        """Wait until the request may be sent, or the endpoint is given up."""
        if self._failed_trials >= self._trials:
            return Permit.REFUSED
        if self._in_a_row < self._faults:
            return Permit.SEND
        await self._trial.acquire()  # released by `note`
        if self._failed_trials < self._trials and self._in_a_row >= self._faults:
            await self._pause()
            return Permit.TRIAL
        self._trial.release()
        return Permit.REFUSED if self._failed_trials >= self._trials else Permit.SEND

    async def _pause(self) -> None:
        try:
            await asyncio.sleep(self._pause_s)
        except BaseException:
            self._trial.release()
            raise

    def note(self, permit: Permit, fault_message: str | None) -> None:
        """Note how a permitted request went: the message of its fault, or None for an answer."""
        if fault_message is None:
            self._in_a_row = self._failed_trials = 0
        else:
            self._in_a_row += 1
            self.last_message = fault_message
            self._failed_trials += permit is Permit.TRIAL
        if permit is Permit.TRIAL:
            self._trial.release()
