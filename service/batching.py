"""One bounded queue for all requests of a process, and one thread that searches and rates for many of them at once.

What takes far longer than a batch and cannot be parted, such as ten thousand draws of a bootstrap, has a queue and a
thread of its own, so that it holds up nobody else.

Requests wait in the order in which they came; each has a share of the next batch. Those that ask the same index and
rater with the same settings are done together, a large one in parts, so that small ones get between. What nobody waits
for any more is not begun: between two pieces of the work, of some hundredths of a second, the thread looks again.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from core.errors import Expired, Overloaded, RefaugError, TooLarge, Unavailable, Usage
from core.records import Item
from rater.coverage import Coverage
from rater.rate import Rater, RatingSettings, ToRate
from service.augment import Augmented, AugmentSettings, own_texts, seek
from service.engine import Lease
from service.found import Kept, KeptReferences
from service.serve_settings import MIB, ServeSettings

log = logging.getLogger(__name__)

T = TypeVar("T")
PIECE_S: Final = 0.05  # that rating goes on before anybody looks whether the answer is still wanted
_FIRST_GUESS_S: Final = 0.002  # for rating one candidate; about twice what a text takes that was not read before
_NEWEST: Final = 0.3  # share of the last measurement in what is expected of the next
_LONGEST_WAIT_S: Final = 600.0  # that anybody is told to wait: what is slow now says little of what comes then
_KEYS_AT_ONCE: Final = 64  # items; naming one takes some hundredths of a millisecond
_LONGEST_TIMER_S: Final = 86_400.0  # event loops count in milliseconds of limited size


class Observe(Protocol):
    """Who wants to know how long a stage (`queue`, `search`, `rate`, `score`) took, and for how many items."""

    def __call__(self, stage: str, seconds: float, items: int) -> None:
        """One stage has ended."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """Items with their references, in the order given, and what the user should know."""

    items: list[Augmented]
    warnings: tuple[str, ...] = ()


# ── what waits ────────────────────────────────────────────────────────────────────────────────────────────────────


class _Entry:
    """A request: its items, how many of them were begun, and what became of them."""

    def __init__(self, lease: Lease | None, size: int, deadline: float, key: Hashable) -> None:
        self.key = key  # those of equal keys are done together; one without a key, alone
        self.size, self.deadline = size, deadline
        self.entered = time.monotonic()
        self.begun = 0  # items; the others wait
        self.is_queued = False
        self.is_long = False  # it would hold up all others
        self.is_running = False  # some of it is in the batch that is being done
        self.is_over = False  # answered, failed, or nobody waits
        self._lease = None if lease is None else lease.shared()
        self._loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self._loop.create_future()
        self._results: list[Any] = [None] * size
        self._missing = size

    @property
    def waiting(self) -> int:
        """Items that were not begun."""
        return self.size - self.begun

    def is_wanted(self) -> bool:
        """Whether there is somebody to answer in time; whoever's time is over hears of it now."""
        if not self.is_over and time.monotonic() >= self.deadline:
            self.end(error=_expired())
        return not self.is_over

    def answer(self) -> Any:
        """What is given back when all items are done."""
        return self._results

    def put(self, at: int, result: Any) -> None:
        """One item is done; the last one is the answer."""
        self._results[at] = result
        self._missing -= 1
        if not self._missing and not self.is_over:
            self.end(self.answer())

    def end(self, result: Any = None, error: BaseException | None = None) -> None:
        """Answer whoever waits, from any thread; the first answer counts."""
        self.is_over = True
        if error is not None and (not isinstance(error, Exception) or isinstance(error, StopIteration)):
            error = RefaugError(f"the work was broken off ({type(error).__name__})")
        try:
            self._loop.call_soon_threadsafe(_set, self.future, result, error)
        except RuntimeError:  # the loop is closed: nobody is left who could wait
            log.info("nobody waits for an answer", extra={"items": self.size})

    def let_go(self) -> None:
        """What it needed may be closed."""
        if self._lease is not None:
            self._lease.release()


def _set(future: asyncio.Future[Any], result: Any, error: Exception | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


class _Rated(_Entry):
    """A request of which something is rated, in pieces."""

    rater: Rater | None
    rating: RatingSettings


class _ToRatings(_Rated):
    """Candidates to be rated."""

    def __init__(self, lease: Lease, asked: Sequence[ToRate], settings: RatingSettings, deadline: float) -> None:
        super().__init__(lease, len(asked), deadline, (hash(settings), "rate", id(lease.rater), settings))
        self.asked, self.rating, self.rater = asked, settings, lease.rater


class _ToAugment(_Rated):
    """Items that references are to be found for."""

    def __init__(
        self,
        lease: Lease,
        items: Sequence[Item],
        settings: AugmentSettings,
        deadline: float,
        then: Callable[[Sequence[Augmented], Sequence[Coverage]], Any],
    ) -> None:
        assert lease.index is not None
        self.then = then
        self.items, self.settings, self.index = items, settings, lease.index
        self.rating, self.rater = settings.rating, lease.rater if settings.needs_rater else None
        key = (hash(settings), "augment", id(self.index), id(self.rater), settings)
        super().__init__(lease, len(items), deadline, key)
        self.coverages = [Coverage()] * len(items)  # how the rater's pieces cover each item's own texts

    def answer(self) -> Any:
        """What is made of the items, by the thread that did the last of them."""
        return self.then(self._results, self.coverages)


class _ToRun(_Entry):
    """Anything else that wants the thread for itself."""

    def __init__(
        self, work: Callable[[], Any], lease: Lease | None, items: int, deadline: float, *, is_long: bool = False
    ) -> None:
        super().__init__(lease, max(1, items), deadline, None)
        self.work, self.is_long = work, is_long


class _Share(NamedTuple):
    """Which items of a request are in a batch."""

    entry: _Entry
    begin: int
    end: int


@dataclass(frozen=True, eq=False, slots=True)
class _Part:
    """One item of a request that is to be rated, or needs no rating."""

    entry: _Rated
    at: int  # in the request
    asked: ToRate | None
    finish: Callable[[Sequence[float]], Any]  # of its ratings

    def done(self, ratings: Sequence[float]) -> None:
        """Put in what came of it; what fails is the request's own fault."""
        try:
            self.entry.put(self.at, self.finish(ratings))
        except Exception as error:  # noqa: BLE001  whatever it is, whoever waits raises it
            self.entry.end(error=error)


# ── the queue ─────────────────────────────────────────────────────────────────────────────────────────────────────


class _Lane:
    """A queue, and the thread that empties it; what changes is guarded by the batcher."""

    def __init__(self, name: str, work: Callable[[_Lane], None], guard: threading.RLock) -> None:
        self.changed = threading.Condition(guard)
        self.queue = deque[_Entry]()
        self.waiting = 0  # items
        self.running = list[_Share]()
        self.item_s = 0.0  # what an item has taken lately; 0: not known yet
        self.has_ended = threading.Event()
        self.thread = threading.Thread(target=work, args=(self,), name=name, daemon=True)


class Batcher:
    """The queues and their threads, and what was found lately.

    `waiting_changed` hears how many items wait whenever that is another number, and `looked_up` how many of a request's
    items had been asked for before, and how many not.
    """

    def __init__(
        self,
        serve: ServeSettings,
        *,
        observe: Observe | None = None,
        waiting_changed: Callable[[int], None] | None = None,
        looked_up: Callable[[int, int], None] | None = None,
    ) -> None:
        self._most_waiting, self._most_at_once = serve.queue_items, serve.batch_items
        self._observe, self._waiting_changed, self._looked_up = observe, waiting_changed, looked_up
        self._kept = KeptReferences(serve.held_references_mib * MIB)
        self._guard = threading.RLock()  # of all below
        self._is_stopping = False
        self._candidate_s = _FIRST_GUESS_S  # of the thread of batches alone
        self._batches = _Lane("batches", self._work, self._guard)
        self._long = _Lane("long work", self._work, self._guard)
        self._lanes = (self._batches, self._long)
        for lane in self._lanes:
            lane.thread.start()

    async def augment(
        self, lease: Lease, items: Sequence[Item], settings: AugmentSettings, *, deadline: float
    ) -> Found:
        """What `service.augment.augment` gives for the same items; `deadline` is on the clock of `time.monotonic`."""
        if not items:
            return Found(items=[])
        return await self._augmented(lease, items, settings, lambda found: found, deadline=deadline, quick=True)

    async def augment_then(
        self,
        lease: Lease,
        items: Sequence[Item],
        settings: AugmentSettings,
        then: Callable[[Found], T],
        *,
        deadline: float,
    ) -> T:
        """What is made of the items with their references, by the thread and at once, if that takes no longer.

        So a request waits in the queue once, and more of them are there for the next batch.
        """

        def scored(found: Found) -> T:
            begun = time.perf_counter()
            answer = then(found)
            _tell(self._observe, "score", time.perf_counter() - begun, len(items))
            return answer

        return await self._augmented(lease, items, settings, scored, deadline=deadline, quick=False)

    async def _augmented(
        self,
        lease: Lease,
        items: Sequence[Item],
        settings: AugmentSettings,
        then: Callable[[Found], T],
        *,
        deadline: float,
        quick: bool,
    ) -> T:
        """Look up what was found lately, find the rest; `quick`: what then follows may be done here."""
        if settings.needs_rater and lease.rater is None:
            raise Usage("something is to be rated, and there is no rater", remedy="give one, or weights of one")
        if time.monotonic() >= deadline:
            raise _expired()
        keys = await self._keys(lease, items, settings)
        kept = [self._kept.get(key) for key in keys]
        new = [place for place, one in enumerate(kept) if one is None]
        _tell(self._looked_up, len(items) - len(new), len(new))

        def done(fresh: Sequence[Augmented] = (), coverages: Sequence[Coverage] = ()) -> T:
            for place, one, coverage in zip(new, fresh, coverages, strict=True):
                kept[place] = there = Kept.of(one, coverage)
                self._kept.put(keys[place], there)
            known = [one for one in kept if one is not None]
            return then(_found(items, known, lease.rater if settings.needs_rater else None))

        entry: _Entry
        if new:
            entry = _ToAugment(lease, [items[place] for place in new], settings, deadline, done)
        elif quick:
            return done()
        else:
            entry = _ToRun(done, lease, min(len(items), self._most_waiting), deadline)
        answer: T = await self._done(entry)
        return answer

    async def _keys(self, lease: Lease, items: Sequence[Item], settings: AugmentSettings) -> list[bytes]:
        """What the items ask; of many, in a thread, so that the event loop goes on."""

        def keys() -> list[bytes]:
            return [self._kept.key(lease, settings, item) for item in items]

        return keys() if len(items) <= _KEYS_AT_ONCE else await asyncio.to_thread(keys)

    async def rate(
        self, lease: Lease, asked: Sequence[ToRate], settings: RatingSettings, *, deadline: float
    ) -> list[list[float]]:
        """The ratings of each test pair's candidates, in the order given."""
        if lease.rater is None:
            raise Usage("something is to be rated, and there is no rater", remedy="give one")
        if not asked:
            return []
        ratings: list[list[float]] = await self._done(_ToRatings(lease, asked, settings, deadline))
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
        """What the work gives, done by the thread in its turn; a lease is held until it has ended, wanted or not.

        It waits as so many items do; what is worth more than the whole queue, until nothing else waits. What is worth
        more than a batch, or `is_long` for another reason, waits for others of its kind alone, and is done beside the
        batches.
        """
        is_long = is_long or items > self._most_at_once
        entry = _ToRun(work, lease, min(items, self._most_waiting), deadline, is_long=is_long)
        answer: T = await self._done(entry)
        return answer

    def waiting(self) -> int:
        """Items that wait."""
        return sum(lane.waiting for lane in self._lanes)

    async def close(self, within_s: float) -> None:
        """Take nothing new, do what waits within this time, and send the rest away."""
        with self._guard:
            self._stop()
        until = time.monotonic() + within_s
        for lane in self._lanes:
            left = max(0.0, until - time.monotonic())
            await asyncio.get_running_loop().run_in_executor(None, lane.has_ended.wait, left)
            self._send_away(lane)

    # ── coming and going: on the event loop ──────────────────────────────────────────────────────────────────────

    async def _done(self, entry: _Entry) -> Any:
        """The answer; Expired at the deadline, whatever the thread is doing then."""
        try:
            if not entry.is_wanted():
                raise _expired()
            self._admit(entry)
            left = entry.deadline - time.monotonic()
            await asyncio.wait({entry.future}, timeout=min(max(0.0, left), _LONGEST_TIMER_S))
            if not entry.future.done():
                raise _expired(self._wait_s(self._lane_of(entry)))
            return entry.future.result()
        finally:
            self._forget(entry)

    def _lane_of(self, entry: _Entry) -> _Lane:
        return self._long if entry.is_long else self._batches

    def _admit(self, entry: _Entry) -> None:
        lane = self._lane_of(entry)
        if entry.size > self._most_waiting:
            raise TooLarge(
                f"{entry.size:,} items at once never fit into the queue of {self._most_waiting:,}",
                remedy="send them in several requests",
            )
        with self._guard:
            if self._is_stopping:
                raise _stopping()
            if not lane.thread.is_alive():
                raise Unavailable("the thread that searches and rates has ended", remedy="restart the service")
            if lane.waiting + entry.size > self._most_waiting:
                raise Overloaded(
                    f"{lane.waiting:,} items wait already, and at most {self._most_waiting:,} may",
                    remedy="send it again after a while, or in smaller requests",
                    retry_after_s=self._wait_s(lane),
                )
            lane.queue.append(entry)
            entry.is_queued = True
            self._wait_for(lane, entry.size)
            lane.changed.notify()

    def _forget(self, entry: _Entry) -> None:
        """Nobody waits for it any more: it was answered, or is not wanted."""
        with self._guard:
            entry.is_over = True
            self._unqueue(entry)
            is_running = entry.is_running
        if not is_running:  # or else the thread lets go
            entry.let_go()
        if entry.future.done() and not entry.future.cancelled():
            entry.future.exception()  # heard, so that nobody complains of an error that came too late
        entry.future.cancel()

    def _wait_for(self, lane: _Lane, items: int) -> None:
        """So many more, or fewer, wait. Only under the lock, so that the last number told is the right one."""
        lane.waiting += items
        _tell(self._waiting_changed, self.waiting())

    def _unqueue(self, entry: _Entry) -> None:
        """Only under the lock."""
        if entry.is_queued:
            lane = self._lane_of(entry)
            lane.queue.remove(entry)
            entry.is_queued = False
            self._wait_for(lane, -entry.waiting)

    def _wait_s(self, lane: _Lane) -> float:
        """How long what waits will take, by what items took lately."""
        return min(max(1.0, lane.waiting * lane.item_s), _LONGEST_WAIT_S)

    def _stop(self) -> None:
        """Nothing new is taken. Only under the lock."""
        self._is_stopping = True
        for lane in self._lanes:
            lane.changed.notify()

    def _send_away(self, lane: _Lane) -> None:
        """Nothing that waits is done any more, and of what runs nothing but the piece."""
        with self._guard:
            left = {*lane.queue, *(share.entry for share in lane.running)}
            for entry in lane.queue:
                entry.is_queued = False
            lane.queue.clear()
            self._wait_for(lane, -lane.waiting)
        for entry in left:
            entry.end(error=_stopping())

    # ── the threads ───────────────────────────────────────────────────────────────────────────────────────────────

    def _work(self, lane: _Lane) -> None:
        try:
            while self._has_done_next(lane):
                pass  # nothing of a batch is referred to while the next one is waited for
        finally:
            with self._guard:
                self._stop()
            self._send_away(lane)
            lane.has_ended.set()

    def _has_done_next(self, lane: _Lane) -> bool:
        """The next batch; False at the end."""
        shares = self._next(lane)
        if shares:
            self._do(lane, shares)
        return bool(shares)

    def _next(self, lane: _Lane) -> list[_Share]:
        """The next batch: of the request that waits for the longest time, and of those like it; none at the end."""
        with self._guard:
            while True:
                lane.changed.wait_for(lambda: lane.queue or self._is_stopping)
                if not lane.queue:
                    return []
                if shares := self._shares(lane, lane.queue[0]):
                    lane.running = shares
                    return shares

    def _shares(self, lane: _Lane, head: _Entry) -> list[_Share]:
        """What fits into a batch of this request and those like it, in their order. Only under the lock."""
        room = self._most_at_once if head.key is not None else head.size
        shares = list[_Share]()
        for entry in tuple(lane.queue) if head.key is not None else (head,):
            if not room:
                break
            if entry is head or entry.key == head.key:
                if entry.is_wanted():
                    shares.append(self._share(lane, entry, room))
                    room -= shares[-1].end - shares[-1].begin
                else:
                    self._unqueue(entry)
        if shares and shares[0].entry is head and head.waiting:
            lane.queue.rotate(-1)  # what is left of a large request waits behind the others
        return shares

    def _share(self, lane: _Lane, entry: _Entry, room: int) -> _Share:
        """So many of its items that were not begun yet. Only under the lock."""
        begin, taken = entry.begun, min(entry.waiting, room)
        entry.is_running = True
        if taken == entry.waiting:
            lane.queue.remove(entry)
            entry.is_queued = False
        entry.begun += taken
        self._wait_for(lane, -taken)
        return _Share(entry, begin, begin + taken)

    def _do(self, lane: _Lane, shares: Sequence[_Share]) -> None:
        """One batch; whatever happens, nobody is left without an answer."""
        begun, items = time.monotonic(), sum(share.end - share.begin for share in shares)
        for share in shares:
            _tell(self._observe, "queue", begun - share.entry.entered, share.end - share.begin)
        try:
            first = shares[0].entry
            if isinstance(first, _ToRun):
                self._run(first)
            else:
                self._rate(self._parts(shares))
        except BaseException as error:
            log.exception("a batch failed", extra={"items": items})
            for share in shares:
                share.entry.end(error=error)
        finally:
            self._settle(lane, shares)
        took = (time.monotonic() - begun) / items
        lane.item_s = _later(lane.item_s, took) if lane.item_s else took

    def _settle(self, lane: _Lane, shares: Sequence[_Share]) -> None:
        """After a batch: what is over needs nothing any more."""
        with self._guard:
            lane.running = []
            for share in shares:
                share.entry.is_running = False
            over = [share.entry for share in shares if share.entry.is_over]
        for entry in over:
            entry.let_go()

    def _run(self, entry: _ToRun) -> None:
        begun = time.perf_counter()
        try:
            result = entry.work()
        except Exception as error:  # noqa: BLE001  whatever it is, whoever waits raises it
            entry.end(error=error)
        else:
            entry.end(result)
            _tell(self._observe, "score", time.perf_counter() - begun, entry.size)

    def _parts(self, shares: Sequence[_Share]) -> list[_Part]:
        """The items of a batch, ready to be rated; after a failure each request alone, so that none else fails."""
        try:
            return self._sought(shares) if isinstance(shares[0].entry, _ToAugment) else _listed(shares)
        except Exception as error:  # noqa: BLE001  whatever it is, whoever waits raises it
            if len(shares) == 1:
                shares[0].entry.end(error=error)
                return []
            return [part for share in shares for part in self._parts([share])]

    def _sought(self, shares: Sequence[_Share]) -> list[_Part]:
        """Search for the items of all requests at once; nobody waits for those that have been dropped meanwhile."""
        asked = [(share.entry, at) for share in shares for at in range(share.begin, share.end)]
        wanted = [(entry, at) for entry, at in asked if isinstance(entry, _ToAugment)]
        first = wanted[0][0]
        items = [entry.items[at] for entry, at in wanted]
        begun = time.perf_counter()
        found = seek(items, first.index, first.settings)
        _tell(self._observe, "search", time.perf_counter() - begun, len(items))
        if first.rater is not None:
            coverages = [first.rater.coverage(own_texts(item)) for item in items]
            for (entry, at), coverage in zip(wanted, coverages, strict=True):
                entry.coverages[at] = coverage
        return [_Part(entry, at, one.asked, one.finished) for (entry, at), one in zip(wanted, found, strict=True)]

    def _rate(self, parts: Sequence[_Part]) -> None:
        """Rate in pieces; each request is answered as soon as its last item is done."""
        for part in parts:
            if part.asked is None:
                part.done(())
        pending = deque(part for part in parts if part.asked is not None)
        begun, items = time.perf_counter(), 0
        while piece := self._piece(pending):
            self._rate_piece(piece)
            items += len(piece)
        if items:
            _tell(self._observe, "rate", time.perf_counter() - begun, items)

    def _piece(self, pending: deque[_Part]) -> list[_Part]:
        """What is to be rated next without looking up: an item at least, of requests that are still wanted."""
        piece, expected_s = list[_Part](), 0.0
        while pending:
            if not pending[0].entry.is_wanted():
                pending.popleft()
                continue
            expected_s += self._candidate_s * _size(pending[0])
            if piece and expected_s > PIECE_S:
                break
            piece.append(pending.popleft())
        return piece

    def _rate_piece(self, piece: Sequence[_Part]) -> None:
        rater, settings = piece[0].entry.rater, piece[0].entry.rating
        assert rater is not None
        begun = time.perf_counter()
        try:
            ratings = rater.rate([part.asked for part in piece if part.asked is not None], settings)
        except Exception as error:  # noqa: BLE001  whatever it is, whoever waits raises it
            self._rate_apart(piece, error)
            return
        took = (time.perf_counter() - begun) / max(1, sum(map(_size, piece)))
        self._candidate_s = _later(self._candidate_s, took)
        for part, own in zip(piece, ratings, strict=True):
            part.done(own)

    def _rate_apart(self, piece: Sequence[_Part], error: Exception) -> None:
        """Each request alone after a piece has failed, so that none fails for others."""
        by_entry = dict[_Rated, list[_Part]]()
        for part in piece:
            by_entry.setdefault(part.entry, []).append(part)
        if len(by_entry) == 1:
            piece[0].entry.end(error=error)
            return
        for own in by_entry.values():
            self._rate_piece(own)


def _found(items: Sequence[Item], kept: Sequence[Kept], rater: Rater | None) -> Found:
    """The items with what was found, and whether the rater knows their language."""
    told = None if rater is None else rater.unfamiliar(sum((one.coverage for one in kept), Coverage()))
    return Found(
        items=[one.given_to(item) for item, one in zip(items, kept, strict=True)],
        warnings=() if told is None else (told,),
    )


# ── small things ──────────────────────────────────────────────────────────────────────────────────────────────────


def _listed(shares: Sequence[_Share]) -> list[_Part]:
    """The test pairs of requests that ask for ratings alone."""
    return [
        _Part(entry, at, entry.asked[at], list)
        for entry, begin, end in shares
        if isinstance(entry, _ToRatings)
        for at in range(begin, end)
    ]


def _size(part: _Part) -> int:
    """Triplets of a text each: what rating takes its time for."""
    return 0 if part.asked is None else len(part.asked.candidates) * len(part.asked.golds)


def _later(before: float, measured: float) -> float:
    """What is expected next, after what was expected before and what was measured."""
    return before + _NEWEST * (measured - before)


def _tell(listener: Callable[..., None] | None, *told: object) -> None:
    """Tell whoever counts; a figure that cannot be counted costs nobody the answer."""
    if listener is not None:
        try:
            listener(*told)
        except Exception:
            log.exception("not counted")


def _expired(retry_after_s: float = 1.0) -> Expired:
    return Expired(
        "the time for this answer is over, and the work is not done",
        remedy="send fewer items at once, or give it more time",
        retry_after_s=retry_after_s,
    )


def _stopping() -> Overloaded:
    return Overloaded("the service is stopping", remedy="send it again in a moment", retry_after_s=1.0)
