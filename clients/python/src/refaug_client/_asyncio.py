"""The client for asyncio: its methods are awaited."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Coroutine, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, Generic, Optional, TypeVar, Union

import httpx

from ._client import AnyClient, StreamFacts
from ._http.async_connection import AsyncConnection
from ._http.exchange import AnyWire, closed_error
from ._http.settings import ConnectionSettings, Retry
from ._large.batches import require_count
from ._large.sending import Streaming

if TYPE_CHECKING:
    import asyncio

    from refaug_client._http.call import Wire


C = TypeVar("C", bound="AsyncClient")
S = TypeVar("S", bound="AsyncStream[Any]")
T = TypeVar("T")


class LoopWire(AnyWire[AsyncConnection]):
    """The connection of a client for asyncio."""

    blocks = False

    async def pause(self, seconds: float) -> None:
        """Wait; Usage where the client is closed meanwhile."""
        import asyncio  # noqa: PLC0415  imported already where a loop runs

        if not self.connection.closed:
            await asyncio.sleep(seconds)
        if self.connection.closed:
            raise closed_error()

    async def run_in_order(
        self, tasks: AsyncGenerator[Callable[[Wire], Coroutine[Any, Any, T]], None], at_once: int
    ) -> AsyncGenerator[T, None]:
        """Yield the results of tasks, in their order, with so many of them under way at once."""
        import asyncio  # noqa: PLC0415  imported already where a loop runs

        most = min(require_count(at_once, "at_once"), self.settings.connections)
        room = asyncio.Semaphore(most)
        waiting: deque[asyncio.Future[T]] = deque()
        input_error: Optional[Exception] = None

        async def within(task: Callable[[Wire], Coroutine[Any, Any, T]]) -> T:
            async with room:
                return await task(self)

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

    def finish(self, coroutine: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
        """Return what a method is: it is awaited."""
        return coroutine

    def iterate(self, rows: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
        """Return what a method yields."""
        return rows

    def stream_of(self, order: Streaming[T]) -> AsyncStream[T]:
        """Return the results of a method that reads its input meanwhile."""
        return AsyncStream(self, order)


class AsyncClient(AnyClient[AsyncConnection]):
    """A client of a refaug server, for asyncio: the methods of `Client` but `reward`; what blocks there is awaited.

        async with AsyncClient("http://127.0.0.1:8000") as refaug:
            scores = await refaug.score(items, metric="upsilon-bleu")
        scores.corpus, scores.replies, scores.signature

    Where a method of `Client` is a generator, here it is an async generator. Address and key are read from REFAUG_URL
    and REFAUG_KEY where they are not given. `timeout_s` limits one try of a request; transient errors are retried as
    `retry` says (or so many times). `close()` ends the connections.
    """

    _wire_kind = LoopWire

    def __init__(
        self,
        url: Optional[str] = None,
        *,
        key: Optional[str] = None,
        timeout_s: float = 60.0,
        retry: Union[Retry, int, None] = None,
        connections: int = 8,
        uds: Optional[str] = None,
        verify: Union[bool, str] = True,
        headers: Optional[Mapping[str, str]] = None,
        http: Optional[httpx.AsyncClient] = None,
    ) -> None:
        reaching: dict[str, Any] = {
            "key": key,
            "timeout_s": timeout_s,
            "retry": retry,
            "connections": connections,
            "uds": uds,
        }
        to = ConnectionSettings.of(url, **reaching, verify=verify, headers=headers or {})
        self._attach(AsyncConnection(to, http))

    async def close(self) -> None:
        """End all scorers and connections; an httpx client that was handed in stays open."""
        await self._close_scorers()
        await self._connection.close()

    async def _close_scorers(self, wait_s: Optional[float] = None) -> None:
        import asyncio  # noqa: PLC0415  imported already where a loop runs

        for scorer in list(self._scorers):
            await asyncio.get_running_loop().run_in_executor(None, scorer.close, wait_s)

    async def __aenter__(self: C) -> C:  # noqa: PYI019  Self is of 3.11
        return self

    async def __aexit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], where: Optional[TracebackType]
    ) -> None:
        if kind is not None:  # do not wait for what is on its way
            await self._close_scorers(0.0)
        await self.close()


class AsyncStream(StreamFacts, Generic[T]):
    """Results one by one, in the order of the input, which is read as they are consumed.

    An error comes after all results before it. Leaving the loop, or `aclose()`, ends it early: nothing more is sent.
    `problems` has what could not be used, so far, where `on_error="report"`.
    """

    def __init__(self, wire: LoopWire, order: Streaming[T]) -> None:
        super().__init__(order)
        self._rows = order.rows(wire)

    def __aiter__(self: S) -> S:  # noqa: PYI019
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
