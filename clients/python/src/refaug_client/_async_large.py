"""Large inputs of the client of asyncio: whole, or one by one. `_large.py` is made of this file by unasync.py."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from types import TracebackType
from typing import Any, Callable, Generic, Optional, TypeVar

from . import _errors as errors
from ._batches import AT_ONCE, BATCH, AsyncInput, Part, async_sent, is_too_large, require_several, whole
from ._call import Call, understood
from ._connection import AsyncConnection
from ._gathered import Document, Large, Made
from ._progress import Progress, Reporter, reporter, size_of

M = TypeVar("M")
T = TypeVar("T")
S = TypeVar("S", bound="AsyncStream[Any]")


async def async_answered(
    connection: AsyncConnection,
    call: Call[M],
    large: Callable[[Call[M]], Large],
    items: Optional[list[Any]],
    *,
    batch: int = BATCH,
    at_once: int = AT_ONCE,
    progress: Progress = None,
    timeout_s: Optional[float] = None,
) -> M:
    """What one request for all items answers; by several where they are too many for one. None: they are not known."""
    size, count = whole(batch, "batch"), len(items or ())
    whole(at_once, "at_once")
    order = large(call) if count > size else None
    with reporter(progress, count or None, order.name if order is not None else "items") as told:
        if order is None:
            try:
                answer = await connection.send(call, timeout_s=timeout_s)
            except (errors.BadInput, errors.BadAnswer) as error:
                if count < 2 or not is_too_large(error):
                    raise
                order, size = large(call), (count + 1) // 2
            else:
                told.advance(count)
                return answer
        async for part in async_sent(connection, order, order.items, batch=size, at_once=at_once, timeout_s=timeout_s):
            order.add(part)
            told.advance(len(part.batch.items))
        combining = order.combining()
        combined = None if combining is None else await _combined(connection, combining, timeout_s)
    return understood(call, Made.of(order.document(combined)))


async def _combined(connection: AsyncConnection, call: Call[Document], timeout_s: Optional[float]) -> Document:
    try:
        return await connection.send(call, timeout_s=timeout_s)
    except errors.BadInput as error:
        if is_too_large(error):
            error.remedy = "fewer metrics or systems at once, or score_iter(), which keeps no sums"
        raise


class AsyncStream(Generic[T]):
    """Results one by one, in the order of the input, which is read as they are asked for.

    An error comes after all results that came before it. To end early is to leave the loop, or `aclose()`: nothing more
    is sent. What could not be used is in `problems`, so far, where `on_error="report"`.
    """

    def __init__(
        self,
        connection: AsyncConnection,
        order: Any,
        items: AsyncInput[Any],
        read: Callable[[Any], T],
        *,
        batch: int = BATCH,
        at_once: int = AT_ONCE,
        progress: Progress = None,
        timeout_s: Optional[float] = None,
    ) -> None:
        require_several(items, order.name)
        whole(batch, "batch")
        whole(at_once, "at_once")
        self._order: Large = order
        told = reporter(progress, size_of(items), order.name)
        parts = async_sent(connection, order, items, batch=batch, at_once=at_once, timeout_s=timeout_s)
        self._rows = _rows(parts, order, read, told)

    @property
    def problems(self) -> list[Document]:
        """What could not be used, so far; places are those in the whole input."""
        return self._order.problems

    @property
    def warnings(self) -> list[str]:
        """What was warned of, so far."""
        return self._order.warnings

    @property
    def versions(self) -> Document:
        """What made the results: the same for all of them."""
        return self._order.versions

    def __aiter__(self: S) -> S:  # noqa: PYI019  Self is of 3.11
        return self

    async def __anext__(self) -> T:
        return await self._rows.__anext__()

    async def aclose(self) -> None:
        """Send no more, and give up what is on its way."""
        await self._rows.aclose()

    async def __aenter__(self: S) -> S:  # noqa: PYI019
        return self

    async def __aexit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], where: Optional[TracebackType]
    ) -> None:
        await self.aclose()


async def _rows(
    parts: AsyncGenerator[Part[Document], None], order: Any, read: Callable[[Any], T], told: Reporter
) -> AsyncGenerator[T, None]:
    try:
        async for part in parts:
            told.advance(len(part.batch.items))
            for row in order.rows(part):
                yield read(row)
    finally:
        await parts.aclose()
        told.close()


def as_it_is(row: Any) -> Any:
    """A row that needs no reading."""
    return row
