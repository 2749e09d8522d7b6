"""Sends batches from asyncio: a few at once, their answers in the order of the input."""

from __future__ import annotations

from collections import deque
from collections.abc import (
    AsyncGenerator,
    Awaitable,
)
from typing import TYPE_CHECKING, Any, Callable, Optional, TypeVar

from refaug_client._core import errors
from refaug_client._http.async_connection import AsyncConnection

from .batches import (
    AT_ONCE,
    BATCH,
    AsyncInput,
    Batch,
    BatchAttempt,
    BatchOutcome,
    BatchRequests,
    Part,
    Size,
    async_cut,
    require_count,
)

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")


async def async_send_batches(
    connection: AsyncConnection,
    requests: BatchRequests[T],
    items: AsyncInput[Any],
    *,
    batch: int = BATCH,
    at_once: int = AT_ONCE,
    timeout_s: Optional[float] = None,
) -> AsyncGenerator[Part[T], None]:
    """Yield the answers as `send_batches` does; the input may be an asynchronous iterator."""
    size = Size(require_count(batch, "batch"))
    cutter = async_cut(items, size)

    def task(piece: Batch) -> Callable[[], Awaitable[BatchOutcome[T]]]:
        return lambda: _async_send_batch(connection, requests, piece, size, timeout_s)

    async def tasks() -> AsyncGenerator[Callable[[], Awaitable[BatchOutcome[T]]], None]:
        async for cut_batch in cutter:
            yield task(cut_batch)

    outcomes: AsyncGenerator[BatchOutcome[T], None] = async_run_in_order(connection, tasks(), at_once)
    try:
        async for first in cutter:  # alone: later requests repeat the versions of its answer
            for part in (await task(first)()).results():
                yield part
            break
        async for outcome in outcomes:
            for part in outcome.results():
                yield part
    finally:
        await outcomes.aclose()
        await cutter.aclose()


async def _async_send_batch(
    connection: AsyncConnection, requests: BatchRequests[T], batch: Batch, size: Size, timeout_s: Optional[float]
) -> BatchOutcome[T]:
    attempt = BatchAttempt(requests, size, [batch])
    while (piece := attempt.next) is not None:
        try:
            attempt.add_answer(await connection.send(requests.call(piece), timeout_s=timeout_s))
        except errors.RefaugError as error:
            attempt.handle_error(error)
    return attempt.outcome


async def async_run_in_order(
    connection: AsyncConnection, tasks: AsyncGenerator[Callable[[], Awaitable[T]], None], at_once: int
) -> AsyncGenerator[T, None]:
    """Yield the results of tasks, in their order, with so many of them under way at once."""
    import asyncio  # noqa: PLC0415  imported already where a loop runs

    most = min(require_count(at_once, "at_once"), connection.settings.connections)
    room = asyncio.Semaphore(most)
    waiting: deque[asyncio.Future[T]] = deque()
    input_error: Optional[Exception] = None

    async def within(make: Callable[[], Awaitable[T]]) -> T:
        async with room:
            return await make()

    try:
        while True:
            try:
                waiting.append(asyncio.ensure_future(within(await tasks.__anext__())))
            except StopAsyncIteration:
                break
            except Exception as error:  # noqa: BLE001  an error of the input: what was read before goes first
                input_error = error
                break
            if len(waiting) > most:
                yield await waiting.popleft()
        while waiting:
            yield await waiting.popleft()
        if input_error is not None:
            raise input_error
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        await tasks.aclose()
