"""One bounded queue for all requests of a process, and one thread that searches, rates and scores for many at once.

Scores that need no search have a queue and a thread beside it, so that they never wait for a batch to be rated. Work
that takes far longer than a batch and cannot be divided, such as ten thousand bootstrap draws, has a third one, so that
it delays no other request.

Requests for the same index and rater with the same settings are served together. The thread checks between two pieces
of work, of some hundredths of a second each, whether the client still waits.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from refaug.core.errors import Overloaded, TooLarge, Unavailable, Usage
from refaug.core.records import Item
from refaug.rater.rating import RatingRequest
from refaug.rater.rating_settings import RatingSettings
from refaug.scoring.augmentation import ReferenceCache, ReferenceLookup, retrieve
from refaug.scoring.cases import RowsToScore, score_together
from refaug.scoring.settings import AugmentSettings
from refaug.service.server_settings import MIB, ServeSettings
from refaug.service.serving.batches import queued_requests
from refaug.service.serving.batches.queued_requests import (
    QueuedRequest,
    StageObserver,
    moving_average,
    notify,
    stopping_error,
)
from refaug.service.serving.versions.leases import Lease

# ── The bounded queue where requests wait, and from which its thread takes batches ────────────────────────────────────
#
# Requests wait in order of arrival, and each has a share of the next batch. Requests with equal keys share a batch; a
# large request is divided, so that small ones get between its parts. A request without a waiting client is dropped.

Share = tuple[QueuedRequest, range]  # a request, and which of its items are in a batch

_LONGEST_WAIT_S: Final = 600.0  # in Retry-After: the speed of today says little about a more distant time


class RequestQueue:
    """A queue and the thread that empties it.

    All queues of a process share one lock, so that the total number of waiting items is reported in order.
    """

    def __init__(
        self,
        name: str,
        serve: Callable[[RequestQueue], None],
        guard: threading.RLock,
        *,
        max_waiting: int,
        max_batch: int,
        waiting_changed: Callable[[], None],
    ) -> None:
        self.waiting = 0  # places that waiting items take
        self.place_s = 0.0  # moving average of the seconds of a place; 0: none measured yet
        self.has_ended = threading.Event()
        self.is_stopping = False
        self.thread = threading.Thread(target=serve, args=(self,), name=name, daemon=True)
        self._max_waiting, self._max_batch, self._waiting_changed = max_waiting, max_batch, waiting_changed
        self._guard, self._changed = guard, threading.Condition(guard)
        self._queue = deque[QueuedRequest]()
        self._running = list[Share]()

    # ── requests, on the event loop ───────────────────────────────────────────────────────────────────────────────────

    def admit(self, entry: QueuedRequest) -> None:
        """Queue a request; TooLarge, Overloaded or Unavailable where it cannot wait."""
        if entry.waiting > self._max_waiting:
            raise TooLarge(
                f"{entry.size:,} items that take {entry.waiting:,} places by their sizes never fit into the queue of "
                f"{self._max_waiting:,}",
                remedy="send them in several requests",
            )
        with self._guard:
            if self.is_stopping:
                raise stopping_error()
            if not self.thread.is_alive():
                raise Unavailable("the thread that searches and rates has ended", remedy="restart the service")
            if self.waiting + entry.waiting > self._max_waiting:
                raise Overloaded(
                    f"{self.waiting:,} items wait already, and at most {self._max_waiting:,} may",
                    remedy="send it again after a while, or in smaller requests",
                    retry_after_s=self.estimate_wait_s(),
                )
            self._queue.append(entry)
            entry.is_queued = True
            self._add_waiting(entry.waiting)
            self._changed.notify()

    def withdraw(self, entry: QueuedRequest) -> None:
        """Remove a request that was answered or is abandoned."""
        with self._guard:
            entry.is_over = True
            self._unqueue(entry)
            is_running = entry.is_running
        if not is_running:  # or else the thread releases the lease
            entry.release()
        if entry.future.done() and not entry.future.cancelled():
            entry.future.exception()  # read, so that asyncio does not log an error that came too late
        entry.future.cancel()

    def estimate_wait_s(self) -> float:
        """Return how long the waiting items will take, by the average time of recent ones."""
        return min(max(1.0, self.waiting * self.place_s), _LONGEST_WAIT_S)

    def stop(self) -> None:
        """Refuse new requests; the thread ends when none waits any more."""
        with self._guard:
            self.is_stopping = True
            self._changed.notify()

    def fail_remaining(self) -> None:
        """Fail all waiting and running requests; the current piece of work is finished."""
        with self._guard:
            unfinished = {*self._queue, *(entry for entry, _ in self._running)}
            for entry in self._queue:
                entry.is_queued = False
            self._queue.clear()
            self._add_waiting(-self.waiting)
        for entry in unfinished:
            entry.end(error=stopping_error())

    # ── batches, in the thread ────────────────────────────────────────────────────────────────────────────────────────

    def take_batch(self) -> list[Share]:
        """Wait for the next batch: the oldest request, with the ones that share its key; empty at the end."""
        with self._guard:
            while True:
                self._changed.wait_for(lambda: self._queue or self.is_stopping)
                if not self._queue:
                    return []
                if shares := self._select_shares(self._queue[0]):
                    self._running = shares
                    return shares

    def finish_batch(self) -> None:
        """Mark the requests of the batch as not running, and release those that are over."""
        with self._guard:
            shares, self._running = self._running, []
            for entry, _ in shares:
                entry.is_running = False
            over = [entry for entry, _ in shares if entry.is_over]
        for entry in over:
            entry.release()

    def record_time(self, seconds: float, places: int) -> None:
        """Include the time of a batch in the expected time of a place."""
        place_s = seconds / places
        self.place_s = moving_average(self.place_s, place_s) if self.place_s else place_s

    def _select_shares(self, head: QueuedRequest) -> list[Share]:
        """Return the shares of a batch for the first request and those with its key; called with the lock held."""
        room = self._max_batch
        shares = list[Share]()
        for entry in tuple(self._queue) if head.key is not None else (head,):
            if room <= 0:
                break
            if entry is head or (entry.key == head.key and entry.places[entry.begun] <= room):
                if entry.is_wanted():
                    before = entry.waiting
                    shares.append(self._take_share(entry, room))
                    room -= before - entry.waiting
                else:
                    self._unqueue(entry)
        if shares and shares[0][0] is head and head.waiting:
            self._queue.rotate(-1)  # the rest of a large request waits behind the others
        return shares

    def _take_share(self, entry: QueuedRequest, room: int) -> Share:
        """Take up to `room` items of a request that have not begun; called with the lock held."""
        before, items = entry.waiting, entry.begin(room)
        entry.is_running = True
        if not entry.waiting:
            self._queue.remove(entry)
            entry.is_queued = False
        self._add_waiting(entry.waiting - before)
        return entry, items

    # ── helpers ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _unqueue(self, entry: QueuedRequest) -> None:
        """Remove a request from its queue; called with the lock held."""
        if entry.is_queued:
            self._queue.remove(entry)
            entry.is_queued = False
            self._add_waiting(-entry.waiting)

    def _add_waiting(self, items: int) -> None:
        """Add to the number of waiting items; called with the lock held, so that the last number reported is right."""
        self.waiting += items
        self._waiting_changed()


# ── The work of a batch ───────────────────────────────────────────────────────────────────────────────────────────────


log = logging.getLogger(__name__)

BatchItem = tuple[queued_requests.RatableRequest, int]  # a request, and which of its items
AskedRows = tuple[QueuedRequest, RowsToScore]  # a request, and the rows whose scores it waits for

PIECE_S: Final = 0.05  # of rating between two checks whether the client still waits
_INITIAL_CANDIDATE_S: Final = 0.002  # for rating one candidate; about twice the time of a new text


class BatchRunner:
    """Runs batches; every request in a batch gets an answer or an error."""

    def __init__(self, observe: StageObserver | None = None) -> None:
        self._observe = observe
        self.candidate_s = _INITIAL_CANDIDATE_S  # moving average; used by the thread of batches only

    def run(self, shares: Sequence[Share]) -> None:
        """Run one batch."""
        begun, items = time.monotonic(), sum(len(items_of) for _, items_of in shares)
        for entry, items_of in shares:
            notify(self._observe, "queue", begun - entry.entered, sum(entry.places[at] for at in items_of))
        try:
            first, _ = shares[0]  # all of them have the same index and rater
            first.require_unchanged_files()
            if isinstance(first, queued_requests.QueuedCall):
                self._run_call(first)
            elif isinstance(first, queued_requests.QueuedScoring):
                self._answer([entry for entry, _ in shares])
            else:
                self._rate_items(self._prepare(shares))
        except Unavailable as error:
            log.warning("a batch was refused", extra={"items": items, "why": error.message})
            for entry, _ in shares:
                entry.end(error=error)
        except BaseException as error:
            log.exception("a batch failed", extra={"items": items})
            for entry, _ in shares:
                entry.end(error=error)

    def _run_call(self, entry: queued_requests.QueuedCall) -> None:
        begun = time.perf_counter()
        try:
            answer = entry.work()
        except Exception as error:  # noqa: BLE001  the waiting request raises it
            entry.end(error=error)
        else:
            entry.end(answer)
            notify(self._observe, "score", time.perf_counter() - begun, entry.places[0])

    def _prepare(self, shares: Sequence[Share]) -> list[BatchItem]:
        """Return the items of a batch, ready to be rated; after a failure each request is tried alone."""
        parts = [
            (entry, at)
            for entry, places in shares
            if isinstance(entry, queued_requests.RatableRequest)
            for at in places
        ]
        try:
            self._search(parts)
        except Exception as error:  # noqa: BLE001  the waiting request raises it
            if len(shares) == 1:
                shares[0][0].end(error=error)
                return []
            return [part for share in shares for part in self._prepare([share])]
        return parts

    def _search(self, parts: Sequence[BatchItem]) -> None:
        """Search for the items of all requests at once; those that only rate have none."""
        augmented = [(entry, at) for entry, at in parts if isinstance(entry, queued_requests.QueuedAugmentation)]
        if not augmented:
            return
        first, items = augmented[0][0], [entry.items[at] for entry, at in augmented]
        begun = time.perf_counter()
        retrieved = retrieve(items, first.index, first.settings)
        notify(self._observe, "search", time.perf_counter() - begun, len(items))
        for (entry, at), found in zip(augmented, retrieved, strict=True):
            entry.found(at, *found)

    def _rate_items(self, parts: Sequence[BatchItem]) -> None:
        """Rate in pieces; each request is answered as soon as its last item is done."""
        self._answer([entry for entry, at in parts if entry.to_rate[at] is None and entry.finish(at, ())])
        pending = deque((entry, at) for entry, at in parts if entry.to_rate[at] is not None)
        begun, items = time.perf_counter(), 0
        while piece := self._next_piece(pending):
            self._rate_piece(piece)
            items += len(piece)
        if items:
            notify(self._observe, "rate", time.perf_counter() - begun, items)

    def _next_piece(self, pending: deque[BatchItem]) -> list[BatchItem]:
        """Return the items to rate until the next check: at least one, of requests that are still wanted."""
        piece, expected_s = list[BatchItem](), 0.0
        while pending:
            if not pending[0][0].is_wanted():
                pending.popleft()
                continue
            expected_s += self.candidate_s * _rating_size(pending[0])
            if piece and expected_s > PIECE_S:
                break
            piece.append(pending.popleft())
        return piece

    def _rate_piece(self, piece: Sequence[BatchItem]) -> None:
        first, _ = piece[0]
        assert first.rater is not None
        begun = time.perf_counter()
        check = queued_requests.WhileWanted([entry for entry, _ in piece])
        try:
            requests = [request for entry, at in piece if (request := entry.to_rate[at]) is not None]
            ratings = first.rater.rate(requests, first.settings, check=partial(check.advance, 0))
        except Exception as error:  # noqa: BLE001  the waiting request raises it
            self._rate_separately(piece, error)
            return
        took = (time.perf_counter() - begun) / max(1, sum(map(_rating_size, piece)))
        self.candidate_s = moving_average(self.candidate_s, took)
        self._answer([entry for (entry, at), own in zip(piece, ratings, strict=True) if entry.finish(at, own)])

    def _rate_separately(self, piece: Sequence[BatchItem], error: Exception) -> None:
        """Rate each request alone after a piece has failed, so that one request does not fail another."""
        by_entry = dict[queued_requests.RatableRequest, list[BatchItem]]()
        for entry, at in piece:
            by_entry.setdefault(entry, []).append((entry, at))
        if len(by_entry) == 1:
            piece[0][0].end(error=error)
            return
        for own in by_entry.values():
            self._rate_piece(own)

    def _answer(self, entries: Sequence[QueuedRequest]) -> None:
        """Answer requests whose items are all done; what several have scored by the same metric is scored at once."""
        begun, scored = time.perf_counter(), sum(entry.scored for entry in entries)
        with queued_requests.answered_together():
            waiting = [(entry, rows) for entry in entries if (rows := entry.advance()) is not None]
            while waiting:
                metric, *_ = waiting[0][1]
                is_alone = metric.looks_at_set or metric.computes_in_batches
                together = waiting[:1] if is_alone else [one for one in waiting if one[1][0] is metric]
                waiting = [one for one in waiting if one not in together] + self._score(together)
        if scored:
            notify(self._observe, "score", time.perf_counter() - begun, scored)

    def _score(self, together: Sequence[AskedRows]) -> list[AskedRows]:
        """Score rows by one metric and return the next rows; after a failure each request's are scored alone."""
        check = queued_requests.WhileWanted([entry for entry, _ in together])
        try:
            scored = score_together([rows for _, rows in together], check)
        except Exception as error:  # noqa: BLE001  the waiting request raises it
            if len(together) == 1:
                together[0][0].end(error=error)
                return []
            return [following for one in together for following in self._score([one])]
        own = zip(together, scored, strict=True)
        return [(entry, rows) for (entry, _), of_entry in own if (rows := entry.advance(of_entry)) is not None]


def _rating_size(part: BatchItem) -> int:
    """Return the number of pairs of a candidate and a gold; the time of rating grows with it."""
    entry, at = part
    request = entry.to_rate[at]
    return 0 if request is None else len(request.candidates) * len(request.golds)


# ── The batcher ───────────────────────────────────────────────────────────────────────────────────────────────────────


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
        self._batches, self._calls, self._long = self._queues = tuple(
            RequestQueue(
                name,
                self._serve,
                self._guard,
                max_waiting=serve.queue_items,
                max_batch=serve.batch_items,
                waiting_changed=self._report_waiting,
            )
            for name in ("batches", "scores", "long work")
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
            entry = queued_requests.QueuedAugmentation(lease, lookup, settings, deadline, scoring=scoring)
        else:
            entry = queued_requests.QueuedScoring(lease, lookup, scoring, min(len(items), self._max_waiting), deadline)
        scores: T = await self._submit(entry)
        return scores

    async def _look_up(
        self, lease: Lease, items: Sequence[Item], settings: AugmentSettings, deadline: float
    ) -> ReferenceLookup:
        """Look the references of the items up in the cache; many in a thread, so that the event loop goes on."""
        settings.require_rater(lease.rater)
        if time.monotonic() >= deadline:
            raise queued_requests.expired_error()
        look_up = partial(ReferenceLookup, self._cache, lease.index, lease.rater, items, settings)
        lookup = look_up() if len(items) <= _MAX_KEYS_INLINE else await asyncio.to_thread(look_up)
        notify(self._looked_up, len(items) - len(lookup.missing), len(lookup.missing))
        return lookup

    async def rate(
        self, lease: Lease, requests: Sequence[RatingRequest], settings: RatingSettings, *, deadline: float
    ) -> list[list[float]]:
        """Return the ratings of each test pair's candidates, in the order given."""
        if lease.rater is None:
            raise Usage("candidates are to be rated, and there is no rater", remedy="name one")
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
        is_ratable = isinstance(entry, queued_requests.RatableRequest)
        queue = self._long if entry.is_long else self._batches if is_ratable else self._calls
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
        begun, place_count = time.monotonic(), sum(entry.places[at] for entry, items in shares for at in items)
        self._runner.run(shares)
        queue.finish_batch()
        queue.record_time(time.monotonic() - begun, place_count)
        return True
