"""One bounded queue for all requests of a process, and one thread that searches and rates for many requests at once.

Work that takes far longer than a batch and cannot be divided, such as ten thousand bootstrap draws, has a queue and a
thread for itself, so that it delays no other request.

Requests for the same index and rater with the same settings are served together. The thread checks between two pieces
of work, of some hundredths of a second each, whether the client still waits.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from refaug.core.errors import Usage
from refaug.core.records import Item
from refaug.evaluation.scoring.augment_settings import AugmentSettings
from refaug.rater.rating import RatingRequest
from refaug.rater.rating_settings import RatingSettings
from refaug.service.server_settings import MIB, ServeSettings
from refaug.service.serving.batches import queued_requests
from refaug.service.serving.batches.batch_runner import BatchRunner
from refaug.service.serving.batches.reference_cache import ReferenceCache
from refaug.service.serving.batches.reference_lookup import ReferenceLookup
from refaug.service.serving.batches.request_queue import RequestQueue
from refaug.service.serving.batches.stage_timings import StageObserver, notify
from refaug.service.serving.versions.leases import Lease

T = TypeVar("T")
_MAX_KEYS_INLINE: Final = 64  # items; a key takes some hundredths of a millisecond
_LONGEST_TIMER_S: Final = 86_400.0  # event loops count milliseconds in a number of limited size


class Batcher:
    """The queues, their threads, and the cache of references.

    `waiting_changed` is called with the number of waiting items whenever it changes, and `looked_up` with the numbers
    of a request's items that were and were not in the cache.
    """

    def __init__(
        self,
        serve: ServeSettings,
        *,
        observe: StageObserver | None = None,
        waiting_changed: Callable[[int], None] | None = None,
        looked_up: Callable[[int, int], None] | None = None,
    ) -> None:
        self._max_waiting, self._max_batch = serve.queue_items, serve.batch_items
        self._observe, self._waiting_changed, self._looked_up = observe, waiting_changed, looked_up
        self._cache = ReferenceCache(serve.held_references_mib * MIB)
        self._runner = BatchRunner(observe)
        self._guard = threading.RLock()  # of all queues
        self._batches, self._long = self._queues = tuple(
            RequestQueue(
                name,
                self._serve,
                self._guard,
                max_waiting=serve.queue_items,
                max_batch=serve.batch_items,
                waiting_changed=self._report_waiting,
            )
            for name in ("batches", "long work")
        )
        for queue in self._queues:
            queue.thread.start()

    async def augment(
        self, lease: Lease, items: Sequence[Item], settings: AugmentSettings, *, deadline: float
    ) -> tuple[list[Item], tuple[str, ...]]:
        """Augment the items as `augmentation.augment` does, and return warnings beside them.

        `deadline` is on the clock of `time.monotonic`.
        """
        if not items:
            return [], ()
        lookup = await self._look_up(lease, items, settings, deadline)
        if not lookup.missing:
            return lookup.augmented()
        augmented: tuple[list[Item], tuple[str, ...]] = await self._submit(
            queued_requests.QueuedAugmentation(lease, lookup, settings, deadline)
        )
        return augmented

    async def augment_and_score(
        self,
        lease: Lease,
        items: Sequence[Item],
        settings: AugmentSettings,
        scoring: queued_requests.ItemScoring[T],
        *,
        deadline: float,
    ) -> T:
        """Augment the items and return their scores, computed in the same thread where that takes no longer.

        So a request waits in the queue only once, and the next batch is larger.
        """
        lookup = await self._look_up(lease, items, settings, deadline)
        entry: queued_requests.QueuedRequest
        if lookup.missing:
            entry = queued_requests.QueuedAugmentation(
                lease, lookup, settings, deadline, scoring=scoring, observe=self._observe
            )
        else:
            work = partial(_score_cached, lookup, scoring)
            entry = queued_requests.QueuedCall(work, lease, min(len(items), self._max_waiting), deadline)
        scores: T = await self._submit(entry)
        return scores

    async def _look_up(
        self, lease: Lease, items: Sequence[Item], settings: AugmentSettings, deadline: float
    ) -> ReferenceLookup:
        """Look the references of the items up in the cache; many in a thread, so that the event loop goes on."""
        if settings.needs_rater and lease.rater is None:
            raise Usage("something is to be rated, and there is no rater", remedy="give one, or weights of one")
        if time.monotonic() >= deadline:
            raise queued_requests.expired_error()
        look_up = partial(ReferenceLookup, self._cache, lease, items, settings)
        lookup = look_up() if len(items) <= _MAX_KEYS_INLINE else await asyncio.to_thread(look_up)
        notify(self._looked_up, len(items) - len(lookup.missing), len(lookup.missing))
        return lookup

    async def rate(
        self, lease: Lease, requests: Sequence[RatingRequest], settings: RatingSettings, *, deadline: float
    ) -> list[list[float]]:
        """Return the ratings of each test pair's candidates, in the order given."""
        if lease.rater is None:
            raise Usage("something is to be rated, and there is no rater", remedy="give one")
        if not requests:
            return []
        ratings: list[list[float]] = await self._submit(
            queued_requests.QueuedRating(lease, requests, settings, deadline)
        )
        return ratings

    async def run(
        self,
        work: Callable[[], T],
        *,
        items: int,
        deadline: float,
        lease: Lease | None = None,
        is_long: bool = False,
    ) -> T:
        """Return what the work returns; the lease is held until the work ends, even without a waiting client.

        The work waits as if it were `items` items. Work larger than the whole queue waits until nothing else does. Work
        larger than a batch, or work that `is_long` for another reason, has a queue and a thread beside the batches.
        """
        is_long = is_long or items > self._max_batch
        entry = queued_requests.QueuedCall(work, lease, min(items, self._max_waiting), deadline, is_long=is_long)
        answer: T = await self._submit(entry)
        return answer

    def waiting(self) -> int:
        """Return the number of items that wait."""
        return sum(queue.waiting for queue in self._queues)

    def _report_waiting(self) -> None:
        notify(self._waiting_changed, self.waiting())

    async def close(self, within_s: float) -> None:
        """Refuse new requests, finish those that wait within this time, and fail the others."""
        self._stop()
        until = time.monotonic() + within_s
        for queue in self._queues:
            remaining_s = max(0.0, until - time.monotonic())
            await asyncio.get_running_loop().run_in_executor(None, queue.has_ended.wait, remaining_s)
            queue.fail_remaining()

    def _stop(self) -> None:
        with self._guard:
            for queue in self._queues:
                queue.stop()

    async def _submit(self, entry: queued_requests.QueuedRequest) -> Any:
        """Queue a request and return its answer; Expired at the deadline, whatever the thread does then."""
        queue = self._long if entry.is_long else self._batches
        try:
            if not entry.is_wanted():
                raise queued_requests.expired_error()
            queue.admit(entry)
            remaining_s = entry.deadline - time.monotonic()
            await asyncio.wait({entry.future}, timeout=min(max(0.0, remaining_s), _LONGEST_TIMER_S))
            if not entry.future.done():
                raise queued_requests.expired_error(queue.estimate_wait_s())
            return entry.future.result()
        finally:
            queue.withdraw(entry)

    # ── the threads ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _serve(self, queue: RequestQueue) -> None:
        """Run the batches of a queue until the batcher is closed."""
        try:
            while self._run_next_batch(queue):
                pass  # a batch is released before waiting for the next one
        finally:
            self._stop()
            queue.fail_remaining()
            queue.finish_batch()  # where the thread ends in the middle of a batch
            queue.has_ended.set()

    def _run_next_batch(self, queue: RequestQueue) -> bool:
        """Run the next batch; return False when the batcher is closed."""
        shares = queue.take_batch()
        if not shares:
            return False
        begun, items = time.monotonic(), sum(len(places) for _, places in shares)
        self._runner.run(shares)
        queue.finish_batch()
        queue.record_time(time.monotonic() - begun, items)
        return True


def _score_cached(lookup: ReferenceLookup, scoring: queued_requests.ItemScoring[T]) -> T:
    return scoring.score(*lookup.augmented())
