"""Sending calls: connections that are used again, tries, deadlines; one kind for threads, one for asyncio.

A connection can be used from several threads at once. It is never carried into another process: one that was forked
begins with connections of its own, and one that is pickled takes along how to connect, not what is connected.
"""

from __future__ import annotations

import asyncio
import os
import platform
import secrets
import threading
import time
import weakref
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from typing import Any, Generic, Optional, TypeVar

import httpx

from . import _errors as errors
from ._call import Answer, Call, understood
from ._settings import Connecting
from ._version import VERSION

T = TypeVar("T")

_CONNECT_S = 10.0
_AGENT = f"refaug-client/{VERSION} python/{platform.python_version()} httpx/{httpx.__version__}"


class _Sending(Generic[T]):
    """One call on its way: what every try sends, how long it may take, what is done when it fails."""

    def __init__(self, to: Connecting, call: Call[T], timeout_s: Optional[float], within_s: Optional[float]) -> None:
        self.to, self.call = to, call
        self.began = time.monotonic()
        self.ends = None if within_s is None else self.began + within_s
        self.timeout_s = to.timeout_s if timeout_s is None else timeout_s
        self.tried = 0
        self.name = secrets.token_hex(8)
        self.body = None if call.body is None else call.said()
        self.key = secrets.token_hex(16) if call.keyed else None

    def request(self, http: Any) -> httpx.Request:
        """The next try, as a request; TimedOut where there is no time left for one."""
        self.tried += 1
        now = time.monotonic()
        left = self.timeout_s if self.ends is None else min(self.timeout_s, self.ends - now)
        if left <= 0:
            raise errors.TimedOut("the time for it was over before it was sent", request_id=self.id)
        self.try_ends = now + left
        headers = {"User-Agent": _AGENT, "Accept": "application/json", **self.to.headers, **self.call.headers}
        headers["X-Request-Id"] = self.id
        if self.to.key is not None:
            headers["Authorization"] = f"Bearer {self.to.key}"
        if self.body is not None:
            headers["Content-Type"] = "application/json"
        if self.call.timed:
            headers["X-Timeout-S"] = f"{left:.3f}"
        if self.key is not None:
            headers["Idempotency-Key"] = self.key
        query = {key: value for key, value in self.call.query.items() if value is not None}
        made: httpx.Request = http.build_request(
            self.call.method,
            self.to.url + self.call.path,
            params=query or None,
            content=self.body,
            headers=headers,
            timeout=httpx.Timeout(left, connect=min(left, _CONNECT_S)),
        )
        return made

    @property
    def id(self) -> str:
        """The name of this try in the server's log."""
        return self.name if self.tried <= 1 else f"{self.name}.{self.tried}"

    def late(self) -> bool:
        """Whether the time of this try is over, while its answer still comes in, drop by drop."""
        return time.monotonic() > self.try_ends

    def answer(self, response: httpx.Response, content: bytes) -> Answer:
        """What came back."""
        return Answer(response.status_code, response.headers, content, response.headers.get("x-request-id") or self.id)

    def error(self, error: Exception) -> errors.RefaugError:
        """What a failure on the way means."""
        where = self.to.uds or self.to.url
        said = str(error) or type(error).__name__
        if isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError)):
            return errors.CannotConnect(
                f"nobody answers at {where}: {said}", remedy="is refaug serve running there?", request_id=self.id
            )
        if isinstance(error, httpx.PoolTimeout):
            return errors.CannotConnect(
                f"all {self.to.connections} connections were busy", remedy="connections=… for more", request_id=self.id
            )
        if isinstance(error, httpx.TimeoutException):
            return errors.TimedOut(
                f"no answer from {where} to {self.call.method} {self.call.path} within {self.timeout_s:g} s",
                remedy="timeout_s=… for more",
                request_id=self.id,
            )
        if isinstance(error, httpx.DecodingError):
            return errors.BadAnswer(f"an answer that cannot be unpacked: {said}", request_id=self.id)
        if isinstance(error, (httpx.LocalProtocolError, httpx.UnsupportedProtocol, httpx.InvalidURL)):
            return errors.Usage(f"{where}: {said}", request_id=self.id)
        return errors.ConnectionLost(f"the connection to {where} ended before the answer: {said}", request_id=self.id)

    def pause(self, error: errors.RefaugError) -> float:
        """Seconds until the next try; the error is raised where there is to be none."""
        retry, now = self.to.retry, time.monotonic()
        if self.ends is not None:
            retry = replace(retry, total_s=min(retry.total_s, self.ends - self.began))
        wait = retry.pause(error, tried=self.tried, spent_s=now - self.began, repeatable=self.call.may_be_repeated)
        if wait is None:
            error.tries = self.tried
            raise error
        return wait


_TROUBLES = (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError)


class Connection:
    """Sends calls from threads."""

    def __init__(self, to: Connecting, http: Optional[httpx.Client] = None) -> None:
        self.to = to
        self._given = http
        self._http: Optional[httpx.Client] = http
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self.closing = threading.Event()
        _ALIVE.add(self)

    def send(self, call: Call[T], *, timeout_s: Optional[float] = None, within_s: Optional[float] = None) -> T:
        """What the server answers; `timeout_s` is for each try, `within_s` for all of them and the pauses."""
        sending = _Sending(self.to, call, timeout_s, within_s)
        while True:
            try:
                return self._tried(sending)
            except errors.RefaugError as error:
                if self.closing.wait(sending.pause(error)):
                    raise

    def _tried(self, sending: _Sending[T]) -> T:
        http = self.http
        request = sending.request(http)
        try:
            response = http.send(request, stream=True)
            try:
                chunks = []
                for chunk in response.iter_bytes():
                    chunks.append(chunk)
                    if sending.late():
                        raise httpx.ReadTimeout("the answer came too slowly", request=request)
            finally:
                response.close()
        except _TROUBLES as error:
            raise sending.error(error) from error
        except RuntimeError as error:
            self._require_open(error)
            raise
        return understood(sending.call, sending.answer(response, b"".join(chunks)))

    @contextmanager
    def stream(self, call: Call[Any], *, timeout_s: Optional[float] = None) -> Iterator[httpx.Response]:
        """The answer as it comes, for what is too long to be held; tried again only until it begins."""
        sending = _Sending(self.to, call, timeout_s, None)
        while True:
            try:
                response = self._begun(sending)
                break
            except errors.RefaugError as error:
                if self.closing.wait(sending.pause(error)):
                    raise
        try:
            yield response
        except _TROUBLES as error:
            raise sending.error(error) from error
        finally:
            response.close()

    def _begun(self, sending: _Sending[Any]) -> httpx.Response:
        http = self.http
        try:
            response = http.send(sending.request(http), stream=True)
            if response.status_code >= 300 and response.status_code not in sending.call.expected:
                try:
                    content = response.read()
                finally:
                    response.close()
                understood(sending.call, sending.answer(response, content))
        except _TROUBLES as error:
            raise sending.error(error) from error
        return response

    @property
    def http(self) -> httpx.Client:
        """The connections of this process."""
        if self._http is None or self._pid != os.getpid():
            with self._lock:
                if self.closing.is_set():
                    raise errors.Usage("this client is closed", remedy="a new one")
                if self._given is not None and self._pid != os.getpid():
                    raise errors.Usage(
                        "an httpx client that was handed in cannot be used in a forked process",
                        remedy="make the client in the worker, or let it make its own connections",
                    )
                if self._http is None or self._pid != os.getpid():
                    self._http = httpx.Client(
                        transport=httpx.HTTPTransport(**_transport(self.to)) if self.to.uds else None,
                        **_options(self.to),
                    )
                    self._pid = os.getpid()
        return self._http

    def close(self) -> None:
        """End all connections, and every pause between tries; a client that was handed in stays open."""
        self.closing.set()
        with self._lock:
            http, self._http = self._http, None
        if http is not None and http is not self._given and self._pid == os.getpid():
            http.close()

    def _require_open(self, error: Exception) -> None:
        if self.closing.is_set():
            raise errors.Usage("this client is closed", remedy="a new one") from error

    def forked(self) -> None:
        """In a child: nothing of the parent's is touched, a lock that another thread of its held least of all."""
        closed = self.closing.is_set()
        self._lock, self.closing = threading.Lock(), threading.Event()
        if closed:
            self.closing.set()

    def __reduce__(self) -> Any:
        if self._given is not None:
            raise errors.Usage(
                "a client with an httpx client that was handed in cannot be pickled",
                remedy="make the client in the worker, or let it make its own connections",
            )
        return type(self), (self.to,)


class AsyncConnection:
    """Sends calls from an asyncio loop."""

    def __init__(self, to: Connecting, http: Optional[httpx.AsyncClient] = None) -> None:
        self.to = to
        self._given = http
        self._http: Optional[httpx.AsyncClient] = http
        self._loop: Any = None
        self.closed = False

    async def send(self, call: Call[T], *, timeout_s: Optional[float] = None, within_s: Optional[float] = None) -> T:
        """What the server answers; `timeout_s` is for each try, `within_s` for all of them and the pauses."""
        sending = _Sending(self.to, call, timeout_s, within_s)
        while True:
            try:
                return await self._tried(sending)
            except errors.RefaugError as error:
                await asyncio.sleep(sending.pause(error))

    async def _tried(self, sending: _Sending[T]) -> T:
        http = self.http
        request = sending.request(http)
        try:
            response = await http.send(request, stream=True)
            try:
                chunks = []
                async for chunk in response.aiter_bytes():
                    chunks.append(chunk)
                    if sending.late():
                        raise httpx.ReadTimeout("the answer came too slowly", request=request)
            finally:
                await response.aclose()
        except _TROUBLES as error:
            raise sending.error(error) from error
        except RuntimeError as error:
            if self.closed:
                raise errors.Usage("this client is closed", remedy="a new one") from error
            raise
        return understood(sending.call, sending.answer(response, b"".join(chunks)))

    @asynccontextmanager
    async def stream(self, call: Call[Any], *, timeout_s: Optional[float] = None) -> AsyncIterator[httpx.Response]:
        """The answer as it comes, for what is too long to be held; tried again only until it begins."""
        sending = _Sending(self.to, call, timeout_s, None)
        while True:
            try:
                response = await self._begun(sending)
                break
            except errors.RefaugError as error:
                await asyncio.sleep(sending.pause(error))
        try:
            yield response
        except _TROUBLES as error:
            raise sending.error(error) from error
        finally:
            await response.aclose()

    async def _begun(self, sending: _Sending[Any]) -> httpx.Response:
        http = self.http
        try:
            response = await http.send(sending.request(http), stream=True)
            if response.status_code >= 300 and response.status_code not in sending.call.expected:
                try:
                    content = await response.aread()
                finally:
                    await response.aclose()
                understood(sending.call, sending.answer(response, content))
        except _TROUBLES as error:
            raise sending.error(error) from error
        return response

    @property
    def http(self) -> httpx.AsyncClient:
        """The connections of the loop that runs."""
        loop = asyncio.get_running_loop()
        if self.closed:
            raise errors.Usage("this client is closed", remedy="a new one")
        if self._http is None or (self._given is None and self._loop is not loop):
            # connections belong to the loop that opened them; those of a loop that has ended cannot even be closed
            self._http = httpx.AsyncClient(
                transport=httpx.AsyncHTTPTransport(**_transport(self.to)) if self.to.uds else None,
                **_options(self.to),
            )
            self._loop = loop
        return self._http

    async def close(self) -> None:
        """End all connections; a client that was handed in stays open."""
        self.closed = True
        http, self._http = self._http, None
        if http is not None and http is not self._given:
            with suppress(RuntimeError):  # its loop has ended before it
                await http.aclose()


def _options(to: Connecting) -> dict[str, Any]:
    options: dict[str, Any] = {"follow_redirects": False}
    return options if to.uds else {**options, "limits": _limits(to), "verify": to.verify}


def _transport(to: Connecting) -> dict[str, Any]:
    return {"uds": to.uds, "limits": _limits(to)}


def _limits(to: Connecting) -> httpx.Limits:
    return httpx.Limits(
        max_connections=to.connections, max_keepalive_connections=to.connections, keepalive_expiry=4.0
    )  # shorter than the server's 5 s, so that it is rarely the server that ends one just as it is used


_ALIVE: weakref.WeakSet[Connection] = weakref.WeakSet()


def _after_fork() -> None:
    for connection in list(_ALIVE):
        connection.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
