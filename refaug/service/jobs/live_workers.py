"""Which workers are alive, so that the jobs of dead ones are recovered."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from refaug.core.home import Settings
from refaug.service.database.row_holders import RowHolders
from refaug.service.jobs.store import Job

STALE_S: Final = 60.0  # a worker loses its job after so long without a heartbeat


class LiveWorkers:
    """The workers that are alive: those that hold the lock on their name and whose heartbeat has changed recently.

    Times are taken from this process's clock; clocks of other machines, and times without a database, do not matter.
    """

    def __init__(self, home: Settings, own: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._holders, self._own, self._clock = RowHolders(home), own, clock
        self._seen = dict[str, tuple[str | None, float]]()  # worker → its last heartbeat, and when that was first seen

    def observe(self, running: Sequence[Job]) -> None:
        """Record the heartbeats of the running jobs."""
        now, before = self._clock(), self._seen
        self._seen = {}
        for job in running:
            beat, since = before.get(job.worker or "", (None, now))
            self._seen[job.worker or ""] = (job.beat, since if beat == job.beat else now)

    def reset(self) -> None:
        """Forget all heartbeats, since no worker could write while the database was away."""
        self._seen = {}

    def is_alive(self, worker: str) -> bool:
        """Return whether a job may stay with this worker."""
        if worker == self._own:
            return True
        since = self._seen.get(worker, (None, self._clock()))[1]
        return self._holders.is_held(worker) and self._clock() - since < STALE_S
