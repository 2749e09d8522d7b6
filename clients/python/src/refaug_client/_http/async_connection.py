"""A connection for asyncio: sends calls, retries them, and ends when it is closed."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Optional, TypeVar

import httpx

from .call import Call
from .exchange import AnyConnection, Exchange, closed_error, require_picklable
from .settings import ConnectionSettings, client_options, transport_options

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")


class AsyncConnection(AnyConnection):
    """Sends calls from an asyncio loop."""

    def __init__(self, to: ConnectionSettings, http: Optional[httpx.AsyncClient] = None) -> None:
        super().__init__(to)
        self.external_http = http
        self._by_loop: weakref.WeakKeyDictionary[Any, httpx.AsyncClient] = weakref.WeakKeyDictionary()
        self._pauses: set[asyncio.Future[None]] = set()
        self.closed: bool = False

    async def send(self, call: Call[T], *, timeout_s: Optional[float] = None, within_s: Optional[float] = None) -> T:
        """Return what the server answers; `timeout_s` limits each try, `within_s` all of them with the pauses."""
        return await self.answer(call, timeout_s=timeout_s, within_s=within_s)

    @property
    def is_closed(self) -> bool:
        """Whether it was closed."""
        return self.closed

    def _request(self, sending: Exchange[Any]) -> tuple[httpx.AsyncClient, httpx.Request]:
        http = self.http
        return http, sending.request(http)

    async def _begin(self, http: httpx.AsyncClient, request: httpx.Request) -> httpx.Response:
        return await http.send(request, stream=True, follow_redirects=False)

    async def _is_closed_after(self, seconds: float) -> bool:
        loop = _running_loop()
        over: asyncio.Future[None] = loop.create_future()
        alarm = loop.call_later(seconds, _finish, over)
        self._pauses.add(over)
        try:
            if not self.closed:
                await over
        finally:
            alarm.cancel()
            self._pauses.discard(over)
        return self.closed

    @property
    def http(self) -> httpx.AsyncClient:
        """The httpx client of the running loop; connections belong to the loop that opened them."""
        loop = _running_loop()
        if self.closed:
            raise closed_error()
        if self.external_http is not None:
            return self.external_http
        client = self._by_loop.get(loop)
        if client is None:
            ended_loops = [loop for loop in self._by_loop if loop.is_closed()]
            for ended_loop in ended_loops:  # their clients hold references to them, so nothing else frees them
                del self._by_loop[ended_loop]
            client = self._by_loop[loop] = httpx.AsyncClient(
                transport=httpx.AsyncHTTPTransport(**transport_options(self.settings)) if self.settings.uds else None,
                **client_options(self.settings),
            )
        return client

    async def close(self) -> None:
        """End all connections and pauses of the running loop; a client that was handed in stays open."""
        self.closed = True
        loop = _running_loop()
        for over in list(self._pauses):
            if over.get_loop() is loop:
                _finish(over)
        http = self._by_loop.pop(loop, None)
        self._by_loop.clear()
        if http is not None:
            await http.aclose()

    def __reduce__(self) -> Any:
        return type(self), (require_picklable(self.settings, self.external_http),)


def _running_loop() -> asyncio.AbstractEventLoop:
    """Return the running loop; asyncio is imported only where one runs, since that takes half as long as httpx."""
    import asyncio  # noqa: PLC0415

    return asyncio.get_running_loop()


def _finish(over: asyncio.Future[None]) -> None:
    if not over.done():
        over.set_result(None)
