"""Requests that wait in a queue or are in a batch: their items, how many of them have begun, and their results."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Protocol, TypeVar

from refaug.core.errors import Expired, Overloaded, RefaugError
from refaug.core.progress import Silent
from refaug.core.records import Item
from refaug.rater.language_coverage import Coverage
from refaug.rater.rating import Rater, RatingRequest
from refaug.rater.rating_settings import RatingSettings
from refaug.scoring.augmentation import ReferenceLookup, own_texts, rating_units, search_units, with_ratings
from refaug.scoring.cases import RowsToScore, Scored, ScoringSteps
from refaug.scoring.settings import AugmentSettings
from refaug.service.serving.versions.leases import Lease

# ── How long the stages of a batch take: callbacks that hear of them, and moving averages ─────────────────────────────

log = logging.getLogger(__name__)

_SMOOTHING: Final = 0.3  # weight of the newest measurement in a moving average
# A place in the queue is one item searched and rated, which takes milliseconds: fifteen short candidates are read.
UNITS_PER_ITEM: Final = 2_500
RATING_UNITS_PER_ITEM: Final = 50_000
_HELD_S: Final = 0.01  # an answer waits at most so long, and for the score that is being computed, for others


class StageObserver(Protocol):
    """A callback for how long a stage (`queue`, `search`, `rate`, `score`) took, and for how many items."""

    def __call__(self, stage: str, seconds: float, items: int) -> None:
        """Record a stage that has ended."""


def moving_average(before: float, measured: float) -> float:
    """Return the expected value after a new measurement."""
    return before + _SMOOTHING * (measured - before)


def notify(listener: Callable[..., None] | None, *figures: object) -> None:
    """Call a listener of statistics; its failure does not fail the request."""
    if listener is not None:
        try:
            listener(*figures)
        except Exception:
            log.exception("not counted")


# ── Requests that wait in a queue or are in a batch: their items, how many of them have begun, and their results ──────

T_co = TypeVar("T_co", covariant=True)


class ItemScoring(Protocol[T_co]):
    """How the items of a request are scored once they have their references."""

    def steps(self, augmented: Sequence[Item], warnings: Sequence[str]) -> ScoringSteps[T_co]:
        """Return the scores of the items, with these warnings, in steps."""


class QueuedRequest:
    """A request in the queue: its items, how many of them have begun, and its results."""

    def __init__(self, lease: Lease | None, places: Sequence[int], deadline: float, key: Hashable) -> None:
        self.key = key  # requests with equal keys share a batch; without a key, it runs alone
        self.places, self.deadline = places, deadline  # of the queue, that each item takes by its size
        self.size = len(places)
        self.scored = 0  # the number of items whose scores the answer has
        self.entered = time.monotonic()
        self.begun = 0  # number of items; the others wait
        self.waiting = sum(places)  # the places of items that have not begun
        self.is_queued = False
        self.is_long = False  # it would delay all others
        self.is_running = False  # some of its items are in the current batch
        self.is_over = False  # answered, failed, or abandoned by its client
        self._lease = None if lease is None else lease.share()
        self.future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._steps = self.steps()

    def begin(self, room: int) -> range:
        """Return the next items that have room, at least one, which begin now."""
        begin = self.begun
        while self.begun < self.size and (self.begun == begin or self.places[self.begun] <= room):
            room -= self.places[self.begun]
            self.waiting -= self.places[self.begun]
            self.begun += 1
        return range(begin, self.begun)

    def is_wanted(self) -> bool:
        """Return whether a client still waits; a request past its deadline ends now with Expired."""
        if not self.is_over and time.monotonic() >= self.deadline:
            self.end(error=expired_error())
        return not self.is_over

    def steps(self) -> ScoringSteps[Any]:
        """Return the answer when all items are done, by the scores of the rows that are yielded."""
        yield from ()
        raise NotImplementedError

    def advance(self, scored: Scored | None = None) -> RowsToScore | None:
        """Go on with the scores of the last rows to the next ones; None at the end, or after an error."""
        if not self.is_wanted():
            return None
        try:
            return next(self._steps) if scored is None else self._steps.send(scored)
        except StopIteration as end:
            self.end(end.value)
        except Exception as error:  # noqa: BLE001  the waiting request raises it
            self.end(error=error)
        return None

    def end(self, answer: Any = None, error: BaseException | None = None) -> None:
        """Send the answer or the error to the event loop, from any thread; the first one counts."""
        self.is_over = True
        if error is not None and (not isinstance(error, Exception) or isinstance(error, StopIteration)):
            error = RefaugError(f"the work was broken off ({type(error).__name__})")
        _answers.add((self.future, answer, error))

    def require_unchanged_files(self) -> None:
        """Raise Unavailable where a file of the leased versions was cut or written to: reading it may kill us."""
        if self._lease is not None:
            self._lease.require_unchanged_files()

    def release(self) -> None:
        """Release the lease."""
        if self._lease is not None:
            self._lease.release()


_Outcome = tuple[asyncio.Future[Any], Any, Exception | None]


class _Answers(threading.local):
    """What a thread has for the event loop: each time that wakes, the thread waits for it."""

    def __init__(self) -> None:
        self.outcomes = list[_Outcome]()
        self.held_until = 0.0  # where nothing is held

    def add(self, outcome: _Outcome) -> None:
        """Hold an outcome, or send it with those that are held."""
        self.outcomes.append(outcome)
        if (now := time.monotonic()) >= self.held_until:
            self.send()
            self.held_until = self.held_until and now + _HELD_S

    def send(self) -> None:
        """Send the outcomes, from any thread."""
        outcomes, self.outcomes = self.outcomes, []
        try:
            if outcomes:
                outcomes[0][0].get_loop().call_soon_threadsafe(_resolve_futures, outcomes)
        except RuntimeError:  # the loop is closed, so no client waits
            log.info("clients disconnected before their answers were ready", extra={"requests": len(outcomes)})


_answers = _Answers()


@contextmanager
def answered_together() -> Iterator[None]:
    """Send the answers of this block to the event loop at its end, or when a moment has passed."""
    _answers.held_until = time.monotonic() + _HELD_S
    try:
        yield
    finally:
        _answers.held_until = 0.0
        _answers.send()


def _resolve_futures(outcomes: Sequence[_Outcome]) -> None:
    for future, answer, error in outcomes:
        if future.done():
            continue
        if error is None:
            future.set_result(answer)
        else:
            future.set_exception(error)


class RatableRequest(QueuedRequest):
    """A request with something to rate, in pieces."""

    rater: Rater | None
    settings: RatingSettings
    to_rate: list[RatingRequest | None]  # by item: None where there is nothing to rate

    def __init__(self, lease: Lease | None, places: Sequence[int], deadline: float, key: Hashable) -> None:
        super().__init__(lease, places, deadline, key)
        self.results: list[Any] = [None] * self.size
        self._missing = self.size

    def finish(self, at: int, ratings: Sequence[float]) -> bool:
        """Store the result of an item that was rated or need not be, and return whether it was the last.

        An error fails only this request.
        """
        try:
            self.results[at] = self.result(at, ratings)
        except Exception as error:  # noqa: BLE001  the waiting request raises it
            self.end(error=error)
            return False
        self._missing -= 1
        return not self._missing

    def result(self, at: int, ratings: Sequence[float]) -> Any:
        """Return the result of an item by its ratings."""
        raise NotImplementedError


class QueuedRating(RatableRequest):
    """Candidates to rate."""

    def __init__(
        self, lease: Lease, requests: Sequence[RatingRequest], settings: RatingSettings, deadline: float
    ) -> None:
        places = [_places(0, request.units) for request in requests]
        super().__init__(lease, places, deadline, (hash(settings), "rate", id(lease.rater), settings))
        self.to_rate, self.settings, self.rater = list(requests), settings, lease.rater

    def result(self, at: int, ratings: Sequence[float]) -> list[float]:
        """Return the ratings."""
        del at
        return list(ratings)

    def steps(self) -> ScoringSteps[list[list[float]]]:
        """Return the ratings of all; nothing is scored."""
        yield from ()
        return self.results


class QueuedAugmentation(RatableRequest):
    """Items to find references for, and how they are scored in the same turn, if they are."""

    settings: AugmentSettings

    def __init__(
        self,
        lease: Lease,
        lookup: ReferenceLookup,
        settings: AugmentSettings,
        deadline: float,
        *,
        scoring: ItemScoring[Any] | None = None,
    ) -> None:
        assert lease.index is not None
        self.items, self.settings, self.index = lookup.missing_items(), settings, lease.index
        self.rater = lease.rater if settings.needs_rater else None
        key = (hash(settings), "augment", id(self.index), id(self.rater), settings)
        places = [_places(search_units(item), rating_units(item, settings)) for item in self.items]
        super().__init__(lease, places, deadline, key)
        self.coverages = [Coverage()] * len(self.items)  # how the rater's pieces cover each item's texts
        self.to_rate = [None] * len(self.items)
        self._lookup, self._scoring = lookup, scoring
        self.scored = lookup.size if scoring is not None else 0

    def found(self, at: int, augmented: Item, to_rate: RatingRequest | None) -> None:
        """Replace an item by the same with references, some of which may be still to be rated."""
        self.items[at], self.to_rate[at] = augmented, to_rate
        if self.rater is not None:
            self.coverages[at] = self.rater.coverage(own_texts(augmented))

    def result(self, at: int, ratings: Sequence[float]) -> Item:
        """Return the item with its ratings, where it has some."""
        augmented = self.items[at]
        return augmented if self.to_rate[at] is None else with_ratings(augmented, ratings, self.settings)

    def steps(self) -> ScoringSteps[Any]:
        """Return the items with their references, or their scores."""
        self._lookup.add(self.results, self.coverages)
        augmented, warnings = self._lookup.augmented()
        if self._scoring is None:
            return augmented, warnings
        return (yield from self._scoring.steps(augmented, warnings))


class QueuedScoring(QueuedRequest):
    """Items to score whose references are known."""

    def __init__(
        self, lease: Lease, lookup: ReferenceLookup, scoring: ItemScoring[Any], places: int, deadline: float
    ) -> None:
        super().__init__(lease, [places], deadline, ("score", id(lease.index), id(lease.rater)))
        self._lookup, self._scoring, self.scored = lookup, scoring, lookup.size

    def steps(self) -> ScoringSteps[Any]:
        """Return the scores."""
        return (yield from self._scoring.steps(*self._lookup.augmented()))


class QueuedCall(QueuedRequest):
    """A function that runs alone in the thread."""

    def __init__(
        self, work: Callable[[], Any], lease: Lease | None, items: int, deadline: float, *, is_long: bool = False
    ) -> None:
        super().__init__(lease, [max(1, items)], deadline, None)
        self.work, self.is_long = work, is_long


class WhileWanted(Silent):
    """Progress that stops work for several requests when none of their clients waits any more."""

    def __init__(self, entries: Sequence[QueuedRequest]) -> None:
        self._entries = entries

    def advance(self, amount: int) -> None:
        """Raise Expired where no client waits any more."""
        del amount
        if not any(entry.is_wanted() for entry in self._entries):
            raise expired_error()


def _places(search: float, rating: float) -> int:
    """Return the places of the queue that an item takes: one is an ordinary item, searched and rated."""
    return max(1, math.ceil(search / UNITS_PER_ITEM), math.ceil(rating / RATING_UNITS_PER_ITEM))


def expired_error(retry_after_s: float = 1.0) -> Expired:
    """Return the error of a request whose deadline has passed."""
    return Expired(
        "the time for this answer is over, and the work is not done",
        remedy="send fewer items at once, or give it more time",
        retry_after_s=retry_after_s,
    )


def stopping_error() -> Overloaded:
    """Return the error of a request that comes while the service stops."""
    return Overloaded("the service is stopping", remedy="send it again in a moment", retry_after_s=1.0)
