"""The bounded queue where requests wait, and from which its thread takes batches.

Requests wait in order of arrival, and each has a share of the next batch. Requests with equal keys share a batch; a
large request is divided, so that small ones get between its parts. A request without a waiting client is dropped.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from refaug.core.errors import Overloaded, TooLarge, Unavailable
from refaug.service.serving.batches.queued_requests import QueuedRequest, stopping_error
from refaug.service.serving.batches.stage_timings import moving_average

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
        self.waiting = 0  # items
        self.item_s = 0.0  # moving average of the seconds per item; 0: none measured yet
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
        if entry.size > self._max_waiting:
            raise TooLarge(
                f"{entry.size:,} items at once never fit into the queue of {self._max_waiting:,}",
                remedy="send them in several requests",
            )
        with self._guard:
            if self.is_stopping:
                raise stopping_error()
            if not self.thread.is_alive():
                raise Unavailable("the thread that searches and rates has ended", remedy="restart the service")
            if self.waiting + entry.size > self._max_waiting:
                raise Overloaded(
                    f"{self.waiting:,} items wait already, and at most {self._max_waiting:,} may",
                    remedy="send it again after a while, or in smaller requests",
                    retry_after_s=self.estimate_wait_s(),
                )
            self._queue.append(entry)
            entry.is_queued = True
            self._add_waiting(entry.size)
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
        return min(max(1.0, self.waiting * self.item_s), _LONGEST_WAIT_S)

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

    def record_time(self, seconds: float, items: int) -> None:
        """Include the time of a batch in the expected time per item."""
        item_s = seconds / items
        self.item_s = moving_average(self.item_s, item_s) if self.item_s else item_s

    def _select_shares(self, head: QueuedRequest) -> list[Share]:
        """Return the shares of a batch for the first request and those with its key; called with the lock held."""
        room = self._max_batch if head.key is not None else head.size
        shares = list[Share]()
        for entry in tuple(self._queue) if head.key is not None else (head,):
            if not room:
                break
            if entry is head or entry.key == head.key:
                if entry.is_wanted():
                    shares.append(self._take_share(entry, room))
                    room -= len(shares[-1][1])
                else:
                    self._unqueue(entry)
        if shares and shares[0][0] is head and head.waiting:
            self._queue.rotate(-1)  # the rest of a large request waits behind the others
        return shares

    def _take_share(self, entry: QueuedRequest, room: int) -> Share:
        """Take up to `room` items of a request that have not begun; called with the lock held."""
        begin, count = entry.begun, min(entry.waiting, room)
        entry.is_running = True
        if count == entry.waiting:
            self._queue.remove(entry)
            entry.is_queued = False
        entry.begun += count
        self._add_waiting(-count)
        return entry, range(begin, begin + count)

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
