"""The client for threads: its methods block."""

from __future__ import annotations

import sys
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Coroutine,
    Generator,
    Iterable,
    Mapping,
)
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, Generic, Literal, Optional, TypeVar, Union

import httpx

from ._client import AnyClient, StreamFacts
from ._core import errors
from ._http.connection import Connection, finish
from ._http.exchange import AnyWire, closed_error
from ._http.settings import ConnectionSettings, Retry
from ._large.sending import Streaming, run_in_order

if TYPE_CHECKING:
    from refaug_client._http.call import Wire

    from ._scorer.rewards import Reward

C = TypeVar("C", bound="Client")
S = TypeVar("S", bound="Stream[Any]")
T = TypeVar("T")


class ThreadWire(AnyWire[Connection]):
    """The connection of a client for threads: every await of a method is answered at once."""

    blocks = True

    async def pause(self, seconds: float) -> None:
        """Wait; Usage where the client is closed meanwhile."""
        if self.connection.closing.wait(seconds):
            raise closed_error()

    async def run_in_order(
        self, tasks: AsyncGenerator[Callable[[Wire], Coroutine[Any, Any, T]], None], at_once: int
    ) -> AsyncGenerator[T, None]:
        """Yield the results of tasks, in their order, with so many of them in threads at once."""
        started = self.iterate(tasks)
        results = run_in_order(self.connection, map(self._in_thread, started), at_once)
        try:
            for task_result in results:
                yield task_result
        finally:
            results.close()
            started.close()

    def _in_thread(self, task: Callable[[Wire], Coroutine[Any, Any, T]]) -> Callable[[Connection], T]:
        """Return a task for the connection of the threads."""
        return lambda connection: finish(task(ThreadWire(connection, self.settings)))

    def finish(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Return the result of a method."""
        coroutine_result: T = finish(coroutine)
        return coroutine_result

    def iterate(self, rows: AsyncGenerator[T, None]) -> Generator[T, None, None]:
        """Yield what a method of asyncio yields; a loop that runs in this thread has nothing to do with it."""
        try:
            while True:
                hooks = sys.get_asyncgen_hooks()
                sys.set_asyncgen_hooks(None, None)
                try:
                    row = finish(rows.__anext__())
                except StopAsyncIteration:
                    return
                finally:
                    sys.set_asyncgen_hooks(*hooks)
                yield row
        finally:
            finish(rows.aclose())

    def stream_of(self, order: Streaming[T]) -> Stream[T]:
        """Return the results of a method that reads its input meanwhile."""
        if isinstance(order.items, AsyncIterable):
            if not isinstance(order.items, Iterable):
                raise errors.Usage(f"{order.order.name} is asynchronous", remedy="a list or generator, or AsyncClient")
            order = replace(order, items=iter(order.items))
        return Stream(self, order)


class Client(AnyClient[Connection]):
    """A client of a refaug server.

        with Client("http://127.0.0.1:8000") as refaug:
            scores = refaug.score(items, metric="upsilon-bleu")
        scores.corpus, scores.replies, scores.signature

    Address and key are read from REFAUG_URL and REFAUG_KEY where they are not given. `timeout_s` limits one try of a
    request; transient errors are retried as `retry` says (or so many times). `close()` ends the connections.
    """

    _wire_kind = ThreadWire

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
        http: Optional[httpx.Client] = None,
    ) -> None:
        reaching: dict[str, Any] = {
            "key": key,
            "timeout_s": timeout_s,
            "retry": retry,
            "connections": connections,
            "uds": uds,
        }
        self._attach(Connection(ConnectionSettings.of(url, **reaching, verify=verify, headers=headers or {}), http))

    def reward(
        self,
        *,
        reference_set: str,
        metric: str = "upsilon-bleu",
        on_unavailable: Literal["raise", "mask"] = "raise",
        override_purpose: bool = False,
        **scorer: Any,
    ) -> Reward:
        """Return a reward against a set frozen for training: `reward(replies, items=ids)` gives a float for each.

        `on_unavailable`: `raise`, or `mask` for NaN, counted in `reward.counts`. A set for testing is refused;
        `override_purpose=True` goes ahead and is written into the signature. Everything else is as for `scorer`.
        """
        from ._scorer.rewards import Reward  # noqa: PLC0415  imports the scorer

        return Reward(
            self,
            reference_set=reference_set,
            metric=metric,
            on_unavailable=on_unavailable,
            override_purpose=override_purpose,
            **scorer,
        )

    def close(self) -> None:
        """End all scorers and connections; an httpx client that was handed in stays open."""
        self._close_scorers()
        self._connection.close()

    def _close_scorers(self, wait_s: Optional[float] = None) -> None:
        for scorer in list(self._scorers):
            scorer.close(wait_s)

    def __enter__(self: C) -> C:  # noqa: PYI019  Self is of 3.11
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], where: Optional[TracebackType]
    ) -> None:
        if kind is not None:  # do not wait for what is on its way
            self._close_scorers(0.0)
        self.close()


class Stream(StreamFacts, Generic[T]):
    """Results one by one, in the order of the input, which is read as they are consumed.

    An error comes after all results before it. Leaving the loop, or `close()`, ends it early: nothing more is sent.
    `problems` has what could not be used, so far, where `on_error="report"`.
    """

    def __init__(self, wire: ThreadWire, order: Streaming[T]) -> None:
        super().__init__(order)
        self._rows = wire.iterate(order.rows(wire))

    def __iter__(self: S) -> S:  # noqa: PYI019
        return self

    def __next__(self) -> T:
        return next(self._rows)

    def close(self) -> None:
        """Send no more, and give up what is on its way."""
        self._rows.close()

    def __enter__(self: S) -> S:  # noqa: PYI019
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], where: Optional[TracebackType]
    ) -> None:
        self.close()
