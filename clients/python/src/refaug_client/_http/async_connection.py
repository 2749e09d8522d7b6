"""A connection for asyncio: sends calls, retries them, and ends when it is closed."""

from __future__ import annotations

import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Optional, TypeVar

import httpx

from refaug_client._core import errors

from .call import Call, read_answer
from .exchange import HTTP_ERRORS, Exchange, ServerLimits, closed_error, require_picklable
from .settings import ConnectionSettings, client_options, transport_options

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")


class AsyncConnection:
    """Sends calls from an asyncio loop."""

    def __init__(self, to: ConnectionSettings, http: Optional[httpx.AsyncClient] = None) -> None:
        self.settings = to
        self.external_http = http
        self._by_loop: weakref.WeakKeyDictionary[Any, httpx.AsyncClient] = weakref.WeakKeyDictionary()
        self._limits = ServerLimits()
        self._pauses: set[asyncio.Future[None]] = set()
        self.closed: bool = False

    async def send(self, call: Call[T], *, timeout_s: Optional[float] = None, within_s: Optional[float] = None) -> T:
        """Return what the server answers; `timeout_s` limits each try, `within_s` all of them with the pauses."""
        sending = Exchange(self.settings, self._limits, call, timeout_s, within_s)
        while True:
            try:
                return await self._try_once(sending)
            except errors.RefaugError as error:
                if await self._is_closed_after(sending.pause(error)):
                    raise

    async def _try_once(self, sending: Exchange[T]) -> T:
        request, response = await self._send_request(sending)
        try:
            chunks = []
            async for chunk in response.aiter_bytes():
                chunks.append(chunk)
                sending.require_time(request)
        except HTTP_ERRORS as error:
            raise sending.error(error, closed=self.closed) from error
        finally:
            await response.aclose()
        return read_answer(sending.call, sending.answer(response, b"".join(chunks)))

    async def _send_request(self, sending: Exchange[Any]) -> tuple[httpx.Request, httpx.Response]:
        """Send the next try, and return its request and the answer as far as its headers."""
        http = self.http
        request = sending.request(http)
        try:
            return request, await http.send(request, stream=True, follow_redirects=False)
        except HTTP_ERRORS as error:
            raise sending.error(error, closed=self.closed) from error
        except RuntimeError as error:  # httpx raises this for a closed client
            if self.closed or http.is_closed:
                raise closed_error() from error
            raise

    @asynccontextmanager
    async def stream(
        self, call: Call[Any], *, timeout_s: Optional[float] = None, within_s: Optional[float] = None
    ) -> AsyncIterator[httpx.Response]:
        """Yield an answer as it comes, since it may be too long for memory; retried only until it begins.

        `timeout_s` limits its beginning, and then every pause in it; `within_s` all tries of its beginning.
        """
        sending = Exchange(self.settings, self._limits, call, timeout_s, within_s, whole=False)
        while True:
            try:
                response = await self._open_stream(sending)
                break
            except errors.RefaugError as error:
                if await self._is_closed_after(sending.pause(error)):
                    raise
        try:
            yield response
        except HTTP_ERRORS as error:
            raise sending.error(error, closed=self.closed) from error
        finally:
            await response.aclose()

    async def _open_stream(self, sending: Exchange[Any]) -> httpx.Response:
        _, response = await self._send_request(sending)
        if response.status_code >= 300 and response.status_code not in sending.call.expected:
            try:
                content = await response.aread()
            except HTTP_ERRORS as error:
                raise sending.error(error, closed=self.closed) from error
            finally:
                await response.aclose()
            read_answer(sending.call, sending.answer(response, content))
        return response

    async def _is_closed_after(self, seconds: float) -> bool:
        """Wait so long, or until the connection is closed; whether it is."""
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
