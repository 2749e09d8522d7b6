"""Large inputs, cut into batches: one request each, whose answers are put together in the order of the input.

The input is read while the answers are consumed, and no further ahead than it is sent: `at_once` requests are on their
way and one more is ready, whether the input is a list or has no end. A batch that the server finds too large (413) is
halved, and so are all that follow it.
"""

from __future__ import annotations

import re
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Optional, TypeVar, Union

from refaug_client._core import errors

if TYPE_CHECKING:
    from .documents import LargeRequest

T = TypeVar("T")
Document = dict[str, Any]
Input = Union[Iterable[T], AsyncIterable[T]]
BATCH = 100  # items of a request: two of the server's own batches, so that requests of other clients get between
ROWS = 1_000  # replies of a request against a frozen set, where nothing is searched
AT_ONCE = 4
_PLACE = re.compile(r"\b(items|pairs|dialogues)\[(\d+)\]|(\breplies\.[^\n:]*?)\[(\d+)\]")


# ── Cutting ───────────────────────────────────────────────────────────────────────────────────────────────────────


def require_count(count: Any, name: str, *, least: int = 1) -> int:
    """Return a whole number; Usage where it is none."""
    if isinstance(count, bool) or not isinstance(count, int) or count < least:
        raise errors.Usage(f"{name}={count!r} is not a number of them", remedy=f"a whole number, {least} or more")
    return count


def require_several(items: Any, name: str = "items") -> None:
    """Usage for an argument that can be iterated over, but is one thing."""
    if isinstance(items, (str, bytes, Mapping)) or not (hasattr(items, "__iter__") or hasattr(items, "__aiter__")):
        raise errors.Usage(
            f"{name} is {type(items).__name__}, where several are wanted", remedy=f"a list or generator of {name}"
        )


@dataclass
class Size:
    """How many items go into a request; lowered when the server has found that too many."""

    now: int

    def lower_to(self, size: int) -> None:
        """Send at most so many items from here on."""
        self.now = max(1, min(self.now, size))


@dataclass(frozen=True)
class Batch:
    """Consecutive items, and the place of the first one in all of the input."""

    first: int
    items: Sequence[Any]

    @property
    def halves(self) -> tuple[Batch, Batch]:
        """The batch as two."""
        middle = (len(self.items) + 1) // 2
        return Batch(self.first, self.items[:middle]), Batch(self.first + middle, self.items[middle:])


def cut(items: Iterable[Any], size: Size) -> Iterator[Batch]:
    """Yield the input as batches; each has the size that is current when it is cut."""
    remaining, first = iter(items), 0
    while batch := list(islice(remaining, size.now)):
        yield Batch(first, batch)
        first += len(batch)


async def async_cut(items: Input[Any], size: Size) -> AsyncGenerator[Batch, None]:
    """Yield input of either kind as batches."""
    if not isinstance(items, AsyncIterable):
        for batch in cut(items, size):
            yield batch
        return
    batch_items: list[Any] = []
    first = 0
    async for element in items:
        batch_items.append(element)
        if len(batch_items) >= size.now:
            yield Batch(first, batch_items)
            first, batch_items = first + len(batch_items), []
    if batch_items:
        yield Batch(first, batch_items)


# ── Requests and answers ──────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Part:
    """The answer to a batch."""

    batch: Batch
    answer: Document


@dataclass
class BatchOutcome:
    """The result of a batch: its answer, or those of the parts it was cut into, and the error that ended it."""

    parts: list[Part] = field(default_factory=list)
    error: Optional[BaseException] = None

    def results(self) -> Iterator[Part]:
        """Yield the parts there are, and then raise the error."""
        yield from self.parts
        if self.error is not None:
            raise self.error


@dataclass
class BatchAttempt:
    """A batch on its way: the pieces still to be sent, until none is left or one has failed."""

    requests: LargeRequest
    size: Size
    waiting: list[Batch]
    outcome: BatchOutcome = field(default_factory=BatchOutcome)

    @property
    def next(self) -> Optional[Batch]:
        """The piece to be sent now."""
        return self.waiting[0] if self.waiting else None

    def add_answer(self, answer: Document) -> None:
        """Take the answer to the piece in."""
        self.requests.learn(answer)
        self.outcome.parts.append(Part(self.waiting.pop(0), answer))

    def handle_error(self, error: BaseException) -> None:
        """Halve the piece, or give up."""
        batch = self.waiting.pop(0)
        if is_too_large(error) and len(batch.items) > 1:
            self.waiting[:0] = batch.halves
            self.size.lower_to(len(batch.halves[0].items))
            return
        if isinstance(error, errors.BadInput):
            if (answer := self.requests.substitute(error, batch)) is not None:
                self.outcome.parts.append(Part(batch, answer))
                return
            shift_error(error, batch.first)
        self.outcome.error = error
        self.waiting.clear()


def is_too_large(error: BaseException) -> bool:
    """Whether a smaller request may go through; a proxy's limit counts, too, whatever page it answers with."""
    return isinstance(error, (errors.BadInput, errors.BadAnswer)) and error.status == 413


def shift_error(error: errors.BadInput, first: int) -> None:
    """Move the places that an error names from a batch to the whole input."""
    if not first:
        return
    error.problem["errors"] = [shift_problem(one, first) for one in error.errors]
    error.message = _shift_places(error.message, first)
    error.args = (error.message,)


def shift_problem(problem: Mapping[str, Any], first: int) -> dict[str, object]:
    """Return one problem of a list with its places moved."""
    moved = dict(problem)
    if type(moved.get("place")) is int:
        moved["place"] += first
    for name in ("field", "message"):
        if isinstance(moved.get(name), str):
            moved[name] = _shift_places(moved[name], first)
    return moved


def _shift_places(text: str, first: int) -> str:
    def moved(match: re.Match[str]) -> str:
        name, place = (match[1], match[2]) if match[1] else (match[3], match[4])
        return f"{name}[{int(place) + first}]"

    return _PLACE.sub(moved, text)
