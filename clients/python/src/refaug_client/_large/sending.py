"""Requests for many items: sent as several requests where they are too many for one."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Generic, TypeVar

from refaug_client._core import errors
from refaug_client._core.progress import Progress, make_reporter, size_of
from refaug_client._http.call import Call, read_answer

from .batches import (
    AT_ONCE,
    BATCH,
    Batch,
    BatchAttempt,
    BatchOutcome,
    Document,
    Input,
    Part,
    Size,
    async_cut,
    is_too_large,
    require_count,
    require_several,
)
from .documents import AssembledAnswer, LargeRequest

if TYPE_CHECKING:
    from refaug_client._http.call import Wire


M = TypeVar("M")
T = TypeVar("T")


@dataclass(frozen=True)
class WholeCall(Call[M]):
    """A call about many items, whose answer is the same in how many requests they are sent."""

    large: Callable[[Call[M]], LargeRequest] = LargeRequest
    batch: int = BATCH
    at_once: int = AT_ONCE
    progress: Progress = None

    async def through(self, wire: Wire) -> M:
        """Send it, in several requests where the items are too many, and return the answer about all of them."""
        size, at_once = require_count(self.batch, "batch"), require_count(self.at_once, "at_once")
        request = self.large(self) if (count := self._count()) > size else None
        with make_reporter(self.progress, count or None, "items" if request is None else request.name) as report:
            if request is None:
                try:
                    answer = await wire.send(self)
                except (errors.BadInput, errors.BadAnswer) as error:
                    if count < 2 or not is_too_large(error):
                        raise
                    request, size = self.large(self), (count + 1) // 2
                else:
                    report.advance(count)
                    return answer
            parts = send_batches(wire, request, request.items, batch=size, at_once=at_once)
            try:
                async for part in parts:
                    request.add(part)
                    report.advance(len(part.batch.items))
            finally:
                await parts.aclose()  # what the caller's progress function raises ends the sending at once
            combining = request.combine_call()
            combined = None if combining is None else await _combine(wire, combining)
        return read_answer(self, AssembledAnswer.of(request.document(combined)))

    def _count(self) -> int:
        """Return how many items there are; 0 where only the server knows: all items of a set."""
        return len((self.body or {}).get(self.large.field) or ())  # type: ignore[attr-defined]


async def _combine(wire: Wire, call: Call[Document]) -> Document:
    try:
        return await wire.send(call)
    except errors.BadInput as error:
        if is_too_large(error):
            error.remedy = "fewer metrics or systems at once, or score_iter(), which keeps no sums"
        raise


@dataclass(frozen=True)
class Streaming(Generic[T]):
    """Requests whose results are handed out one by one, in the order of the input, which is read meanwhile."""

    order: Any
    items: Input[Any]
    read: Callable[[Any], T]
    batch: int = BATCH
    at_once: int = AT_ONCE
    progress: Progress = None

    def rows(self, wire: Wire) -> AsyncGenerator[T, None]:
        """Return the results; an error comes after all results before it."""
        require_several(self.items, self.order.name)
        require_count(self.batch, "batch")
        require_count(self.at_once, "at_once")
        report = make_reporter(self.progress, size_of(self.items), self.order.name)
        return self._rows(send_batches(wire, self.order, self.items, batch=self.batch, at_once=self.at_once), report)

    async def _rows(self, parts: AsyncGenerator[Part, None], report: Any) -> AsyncGenerator[T, None]:
        try:
            async for part in parts:
                report.advance(len(part.batch.items))
                for row in self.order.rows(part):
                    yield self.read(row)
        finally:
            await parts.aclose()
            report.close()


async def send_batches(
    wire: Wire, requests: LargeRequest, items: Input[Any], *, batch: int, at_once: int
) -> AsyncGenerator[Part, None]:
    """Yield the answers about all items, in their order; an error comes after all answers before it."""
    size = Size(batch)
    cutter = async_cut(items, size)

    async def tasks() -> AsyncGenerator[Callable[[Wire], Coroutine[Any, Any, BatchOutcome]], None]:
        async for cut_batch in cutter:
            yield partial(_send_batch, requests=requests, batch=cut_batch, size=size)

    outcomes = wire.run_in_order(tasks(), at_once)
    try:
        async for first in cutter:  # alone: later requests repeat the versions of its answer
            for part in (await _send_batch(wire, requests, first, size)).results():
                yield part
            break
        async for outcome in outcomes:
            for part in outcome.results():
                yield part
    finally:
        await outcomes.aclose()
        await cutter.aclose()


async def _send_batch(wire: Wire, requests: LargeRequest, batch: Batch, size: Size) -> BatchOutcome:
    attempt = BatchAttempt(requests, size, [batch])
    while (piece := attempt.next) is not None:
        try:
            attempt.add_answer(await wire.send(requests.call(piece)))
        except errors.RefaugError as error:
            attempt.handle_error(error)
    return attempt.outcome
