"""Runs tasks in asyncio: a few at once, their results in the order of the input."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Coroutine
from typing import TYPE_CHECKING, Any, Callable, Optional, TypeVar

from refaug_client._http.wire import Wire

from .batches import require_count

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")


async def run_in_order(
    wire: Wire, tasks: AsyncGenerator[Callable[[Wire], Coroutine[Any, Any, T]], None], at_once: int
) -> AsyncGenerator[T, None]:
    """Yield the results of tasks, in their order, with so many of them under way at once."""
    import asyncio  # noqa: PLC0415  imported already where a loop runs

    most = min(require_count(at_once, "at_once"), wire.settings.connections)
    room = asyncio.Semaphore(most)
    waiting: deque[asyncio.Future[T]] = deque()
    input_error: Optional[Exception] = None

    async def within(task: Callable[[Wire], Coroutine[Any, Any, T]]) -> T:
        async with room:
            return await task(wire)

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
