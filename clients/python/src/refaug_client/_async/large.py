"""Large inputs of the asyncio client: as a whole, or one by one; `_sync/large.py` is generated from it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from types import TracebackType
from typing import Any, Callable, Generic, Optional, TypeVar

from refaug_client._core import errors
from refaug_client._core.progress import Progress, Reporter, make_reporter, size_of
from refaug_client._http.async_connection import AsyncConnection
from refaug_client._http.call import Call, read_answer
from refaug_client._large.batches import AT_ONCE, BATCH, AsyncInput, Part, is_too_large, require_count, require_several
from refaug_client._large.documents import AssembledAnswer, Document, LargeRequest
from refaug_client._large.loops import async_send_batches

M = TypeVar("M")
T = TypeVar("T")
S = TypeVar("S", bound="AsyncStream[Any]")


async def async_send_whole(
    connection: AsyncConnection,
    call: Call[M],
    large: Callable[[Call[M]], LargeRequest],
    items: Optional[list[Any]],
    *,
    batch: int = BATCH,
    at_once: int = AT_ONCE,
    progress: Progress = None,
    timeout_s: Optional[float] = None,
) -> M:
    """Return the answer to a request for all items, sent as several requests where the items are too many.

    `items` is None where the client does not know them: all items of a set.
    """
    size, count = require_count(batch, "batch"), len(items or ())
    require_count(at_once, "at_once")
    request = large(call) if count > size else None
    with make_reporter(progress, count or None, request.name if request is not None else "items") as report:
        if request is None:
            try:
                answer = await connection.send(call, timeout_s=timeout_s)
            except (errors.BadInput, errors.BadAnswer) as error:
                if count < 2 or not is_too_large(error):
                    raise
                request, size = large(call), (count + 1) // 2
            else:
                report.advance(count)
                return answer
        parts = async_send_batches(connection, request, request.items, batch=size, at_once=at_once, timeout_s=timeout_s)
        try:
            async for part in parts:
                request.add(part)
                report.advance(len(part.batch.items))
        finally:
            await parts.aclose()  # what the caller's progress function raises ends the sending at once
        combining = request.combine_call()
        combined = None if combining is None else await _combine(connection, combining, timeout_s)
    return read_answer(call, AssembledAnswer.of(request.document(combined)))


async def _combine(connection: AsyncConnection, call: Call[Document], timeout_s: Optional[float]) -> Document:
    try:
        return await connection.send(call, timeout_s=timeout_s)
    except errors.BadInput as error:
        if is_too_large(error):
            error.remedy = "fewer metrics or systems at once, or score_iter(), which keeps no sums"
        raise


class AsyncStream(Generic[T]):
    """Results one by one, in the order of the input, which is read as they are consumed.

    An error comes after all results before it. Leaving the loop, or `aclose()`, ends it early: nothing more is sent.
    `problems` has what could not be used, so far, where `on_error="report"`.
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
        require_count(batch, "batch")
        require_count(at_once, "at_once")
        self._order: LargeRequest = order
        report = make_reporter(progress, size_of(items), order.name)
        parts = async_send_batches(connection, order, items, batch=batch, at_once=at_once, timeout_s=timeout_s)
        self._rows = _rows(parts, order, read, report)

    @property
    def problems(self) -> list[Document]:
        """What could not be used, so far; places are those in the whole input."""
        return self._order.problems

    @property
    def warnings(self) -> list[str]:
        """The warnings so far."""
        return self._order.warnings

    @property
    def versions(self) -> Document:
        """The versions of the artefacts that made the results: the same for all of them."""
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
    parts: AsyncGenerator[Part[Document], None], order: Any, read: Callable[[Any], T], report: Reporter
) -> AsyncGenerator[T, None]:
    try:
        async for part in parts:
            report.advance(len(part.batch.items))
            for row in order.rows(part):
                yield read(row)
    finally:
        await parts.aclose()
        report.close()


def keep_row(row: Any) -> Any:
    """Return a row that needs no reading."""
    return row
