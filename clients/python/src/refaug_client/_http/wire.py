"""What the methods of both clients send by: written for asyncio, whether or not there is a loop."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Callable, Optional, Protocol, TypeVar

if TYPE_CHECKING:
    from .call import Call
    from .settings import ConnectionSettings

T = TypeVar("T")


class Response(Protocol):
    """An answer that comes in pieces."""

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers, by names in any case."""
        ...

    def aiter_bytes(self) -> AsyncIterator[bytes]:
        """Yield the pieces."""
        ...

    def aiter_lines(self) -> AsyncIterator[str]:
        """Yield the lines."""
        ...


class Wire(Protocol):
    """The connection of a client, and what its methods become."""

    blocks: bool  # every await is answered at once, since the thread waits

    @property
    def settings(self) -> ConnectionSettings:
        """How the server is reached; the time limit is that of this client."""
        ...

    async def send(self, call: Call[T], *, within_s: Optional[float] = None) -> T:
        """Return what the server answers; `within_s` limits all tries with the pauses between them."""
        ...

    def stream(
        self, call: Call[Any], *, timeout_s: Optional[float] = None, within_s: Optional[float] = None
    ) -> AbstractAsyncContextManager[Response]:
        """Open an answer that comes in pieces; `timeout_s` limits its beginning, and then every pause in it."""
        ...

    async def pause(self, seconds: float) -> None:
        """Wait; Usage where the client is closed meanwhile."""
        ...

    def run_in_order(
        self, tasks: AsyncGenerator[Callable[[Wire], Coroutine[Any, Any, T]], None], at_once: int
    ) -> AsyncGenerator[T, None]:
        """Yield the results of tasks, in their order, with so many of them under way at once."""
        ...

    def finish(self, coroutine: Coroutine[Any, Any, T]) -> Any:
        """Return what a method returns that is a coroutine."""
        ...

    def iterate(self, rows: AsyncGenerator[T, None]) -> Any:
        """Return what a method returns that is a generator."""
        ...

    def stream_of(self, order: Any) -> Any:
        """Return what a method returns whose input is sent meanwhile."""
        ...
