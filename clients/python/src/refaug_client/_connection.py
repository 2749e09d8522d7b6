"""Sending calls: connections that are used again, tries, deadlines; one kind for threads, one for asyncio.

A connection can be used from several threads at once. It is never carried into another process: one that was forked
begins with connections of its own, and one that is pickled takes along how to connect, not what is connected.
"""

from __future__ import annotations

import atexit
import math
import os
import platform
import re
import socket
import threading
import time
import weakref
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Optional, TypeVar

import httpx

from . import _errors as errors
from ._call import Answer, Call, understood
from ._compat import async_require_current, require_current
from ._settings import Connecting, require_seconds
from ._version import VERSION

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")

_CONNECT_S = 10.0
_AGENT = f"refaug-client/{VERSION} python/{platform.python_version()} httpx/{httpx.__version__}"
_TOO_LONG = "header.x-timeout-s"  # the field of a problem: the server gives no request so much time
_OPENED = ("connect_tcp.complete", "connect_unix_socket.complete", "start_tls.complete")
_STAGES = ("connect", "read", "write", "pool")
_BROKEN_OFF = ("server disconnected", "peer closed connection")  # how httpcore and h11 say that nothing more came


class _Times(Mapping[str, float]):
    """The limits of the stages of one try, as they are asked for: what is left then, so that all have one end."""

    def __init__(self, ends: float, gap_s: Optional[float]) -> None:
        self._ends, self._gap_s = ends, gap_s

    def __getitem__(self, stage: str) -> float:
        if stage == "read" and self._gap_s is not None:
            return self._gap_s
        left = max(self._ends - time.monotonic(), 0.001)
        return min(left, _CONNECT_S) if stage == "connect" else left

    def __iter__(self) -> Iterator[str]:
        return iter(_STAGES)

    def __len__(self) -> int:
        return len(_STAGES)


class _Known:
    """What a connection has learnt of its server."""

    def __init__(self) -> None:
        self.most_s = math.inf  # the longest time that it can be asked for

    def told(self, error: errors.RefaugError) -> bool:
        """Whether the error says that this was too long a time, and by how much."""
        if not isinstance(error, errors.BadInput):
            return False
        listed = error.problem.get("errors")
        for one in listed if isinstance(listed, list) else []:
            if isinstance(one, dict) and one.get("field") == _TOO_LONG:
                found = re.search(r"at most ([0-9.]+)", str(one.get("message")))
                before, self.most_s = self.most_s, float(found[1].rstrip(".") or 0) if found else 0.0
                self.most_s = self.most_s if self.most_s < before else 0.0  # it was obeyed, and was still too long
                return True
        return False


class _Sending(Generic[T]):
    """One call on its way: what every try sends, how long it may take, what is done when it fails."""

    def __init__(
        self,
        to: Connecting,
        known: _Known,
        call: Call[T],
        timeout_s: Optional[float] = None,
        within_s: Optional[float] = None,
        *,
        whole: bool = True,
    ) -> None:
        self.to, self.known, self.call, self.whole = to, known, call, whole
        self.began = time.monotonic()
        self.ends = None if within_s is None else self.began + _finite(within_s)
        self.timeout_s = to.timeout_s if timeout_s is None else require_seconds("timeout_s", timeout_s)
        self.tried = 0
        self.name = os.urandom(8).hex()
        self.body = None if call.body is None else call.said()
        self.key = os.urandom(16).hex() if call.keyed else None
        self.last: Optional[errors.RefaugError] = None
        self.corrected = False

    def request(self, http: Any, trace: Any = None) -> httpx.Request:
        """The next try, as a request; TimedOut where there is no time left for one."""
        self.tried += 1
        now = time.monotonic()
        self.try_s = self.timeout_s if self.ends is None else min(self.timeout_s, self.ends - now)
        if self.try_s <= 0:
            raise errors.TimedOut("the time for it was over before it was sent", request_id=self.id) from self.last
        self.try_ends = now + self.try_s
        extensions: dict[str, Any] = {"timeout": _Times(self.try_ends, None if self.whole else self.timeout_s)}
        if trace is not None:
            extensions["trace"] = trace
        query = {key: value for key, value in self.call.query.items() if value is not None}
        try:
            made: httpx.Request = http.build_request(
                self.call.method,
                self.to.url + self.call.path,
                params=query or None,
                content=self.body,
                headers=self._headers(),
                extensions=extensions,
            )
        except UnicodeError as error:
            raise errors.Usage(
                f"{self.call.method} {self.call.path}: {error}", remedy="text without surrogates"
            ) from error
        except httpx.InvalidURL as error:
            raise errors.Usage(
                f"{self.call.method} {self.call.path[:100]}: {error}", remedy="a shorter name or id"
            ) from error
        return made

    def _headers(self) -> dict[str, str]:
        headers = {"user-agent": _AGENT, "accept": "application/json", **self.to.headers}
        headers.update({name.lower(): value for name, value in self.call.headers.items()})
        headers["x-request-id"] = self.id
        if self.to.key is not None:
            headers["authorization"] = f"Bearer {self.to.key}"
        if self.body is not None:
            headers.setdefault("content-type", "application/json")
        if self.call.timed and self.try_s <= self.known.most_s:  # without it, the server's own limit holds
            headers["x-timeout-s"] = f"{max(self.try_s, 0.001):.3f}"
        if self.key is not None:
            headers["idempotency-key"] = self.key
        return headers

    @property
    def id(self) -> str:
        """The name of this try in the server's log."""
        return self.name if self.tried <= 1 else f"{self.name}.{self.tried}"

    def require_time(self, request: httpx.Request) -> None:
        """Refuse to wait on, while the answer still comes in, drop by drop."""
        if time.monotonic() > self.try_ends:
            raise httpx.ReadTimeout("the answer came too slowly", request=request)

    def answer(self, response: httpx.Response, content: bytes) -> Answer:
        """What came back."""
        return Answer(response.status_code, response.headers, content, response.headers.get("x-request-id") or self.id)

    def error(self, error: Exception, *, closed: bool = False) -> errors.RefaugError:
        """What a failure on the way means."""
        where = self.to.uds or self.to.url
        said = str(error) or type(error).__name__
        if closed:
            return errors.ConnectionLost("the client was closed before the answer came", request_id=self.id)
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
                f"no answer from {where} to {self.call.method} {self.call.path} within {self.try_s:.3g} s",
                remedy="timeout_s=… for more" if self.try_s == self.timeout_s else "",
                request_id=self.id,
            )
        if isinstance(error, httpx.DecodingError):
            return errors.BadAnswer(f"an answer that cannot be unpacked: {said}", request_id=self.id)
        if isinstance(error, httpx.RemoteProtocolError) and not said.lower().startswith(_BROKEN_OFF):
            return errors.BadAnswer(
                f"an answer from {where} that is no HTTP: {said}",
                remedy="is it refaug's port, and http or https as it should be?",
                request_id=self.id,
            )
        if isinstance(error, (httpx.LocalProtocolError, httpx.UnsupportedProtocol, httpx.InvalidURL)):
            return errors.Usage(f"{where}: {said}", request_id=self.id)
        return errors.ConnectionLost(f"the connection to {where} ended before the answer: {said}", request_id=self.id)

    def pause(self, error: errors.RefaugError) -> Optional[float]:
        """Seconds until the next try; None where there is to be none."""
        retry, now = self.to.retry, time.monotonic()
        error.tries, self.last = self.tried, error
        if self.call.timed and not self.corrected and self.known.told(error):
            self.corrected = True
            return 0.0
        if self.ends is not None:
            retry = replace(retry, total_s=max(0.0, min(retry.total_s, self.ends - self.began)))
        return retry.pause(error, tried=self.tried, spent_s=now - self.began, repeatable=self.call.may_be_repeated)


def _finite(within_s: float) -> float:
    """Seconds that are left, which may be none."""
    if isinstance(within_s, (bool, str)) or not hasattr(within_s, "__float__") or math.isnan(within_s):
        raise errors.Usage(f"within_s={within_s!r} is no number of seconds", remedy="seconds, or None")
    return min(float(within_s), 1e8)


def _closed() -> errors.Usage:
    return errors.Usage("this client is closed", remedy="a new one")


_TROUBLES = (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError)


class Connection:
    """Sends calls from threads."""

    def __init__(self, to: Connecting, http: Optional[httpx.Client] = None) -> None:
        self.to = to
        self.given = http
        self._http: Optional[httpx.Client] = http
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        self._known = _Known()
        self._trace = self._opened if http is None else None
        self.closing: threading.Event = threading.Event()
        _ALIVE.add(self)

    def send(self, call: Call[T], *, timeout_s: Optional[float] = None, within_s: Optional[float] = None) -> T:
        """What the server answers; `timeout_s` is for each try, `within_s` for all of them and the pauses."""
        sending = _Sending(self.to, self._known, call, timeout_s, within_s)
        while True:
            try:
                return self._tried(sending)
            except errors.RefaugError as error:
                if self.closing.wait(self._pause(sending, error)):
                    raise

    def _pause(self, sending: _Sending[Any], error: errors.RefaugError) -> float:
        """Seconds until the next try; where there is none the error is raised, or what it means of an old server."""
        wait = sending.pause(error)
        if wait is None:
            require_current(error, sending.call, self)
            raise error
        return wait

    def _tried(self, sending: _Sending[T]) -> T:
        request, response = self._asked(sending)
        try:
            chunks = []
            for chunk in response.iter_bytes():
                chunks.append(chunk)
                sending.require_time(request)
        except _TROUBLES as error:
            raise sending.error(error, closed=self.closing.is_set()) from error
        finally:
            response.close()
        return understood(sending.call, sending.answer(response, b"".join(chunks)))

    def _asked(self, sending: _Sending[Any]) -> tuple[httpx.Request, httpx.Response]:
        """The request as it was sent, and the answer as far as its headers."""
        http = self.http
        request = sending.request(http, self._trace)
        try:
            return request, http.send(request, stream=True, follow_redirects=False)
        except _TROUBLES as error:
            raise sending.error(error, closed=self.closing.is_set()) from error
        except RuntimeError as error:  # httpx has no class of its own for this
            if self.closing.is_set() or http.is_closed:
                raise _closed() from error
            raise

    @contextmanager
    def stream(
        self, call: Call[Any], *, timeout_s: Optional[float] = None, within_s: Optional[float] = None
    ) -> Iterator[httpx.Response]:
        """The answer as it comes, for what is too long to be held; tried again only until it begins.

        `timeout_s` is for its beginning, and then for every pause in it; `within_s` for all tries of its beginning.
        """
        sending = _Sending(self.to, self._known, call, timeout_s, within_s, whole=False)
        while True:
            try:
                response = self._begun(sending)
                break
            except errors.RefaugError as error:
                if self.closing.wait(self._pause(sending, error)):
                    raise
        try:
            yield response
        except _TROUBLES as error:
            raise sending.error(error, closed=self.closing.is_set()) from error
        finally:
            response.close()

    def _begun(self, sending: _Sending[Any]) -> httpx.Response:
        _, response = self._asked(sending)
        if response.status_code >= 300 and response.status_code not in sending.call.expected:
            try:
                content = response.read()
            except _TROUBLES as error:
                raise sending.error(error, closed=self.closing.is_set()) from error
            finally:
                response.close()
            understood(sending.call, sending.answer(response, content))
        return response

    @property
    def http(self) -> httpx.Client:
        """The connections of this process."""
        found = self._http
        if found is not None and self._pid == os.getpid():
            return found
        with self._lock:
            if self.closing.is_set():
                raise _closed()
            if self.given is not None:
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

    def _opened(self, event: str, info: Mapping[str, Any]) -> None:
        """Remember every socket, for only by it can a thread be woken that waits for an answer."""
        if event.endswith(_OPENED):
            opened = info["return_value"].get_extra_info("socket")
            if isinstance(opened, socket.socket):
                self._sockets.add(opened)
                if self.closing.is_set():
                    _shut(opened)

    def close(self) -> None:
        """End all connections, requests and pauses between tries; a client that was handed in stays open."""
        self.closing.set()
        with self._lock:
            http, self._http = self._http, None
        if http is not None and http is not self.given and self._pid == os.getpid():
            for one in list(self._sockets):
                _shut(one)
            http.close()

    def part(self) -> Connection:
        """The same connections, with an end of its own: closing it ends its tries, and nobody else's."""
        made = Connection(self.to, self.http)
        made._known, made._trace = self._known, self._trace
        return made

    def forked(self) -> None:
        """In a child: nothing of the parent's is touched, a lock that another thread of its held least of all."""
        closed = self.closing.is_set()
        self._lock, self.closing = threading.Lock(), threading.Event()
        if closed:
            self.closing.set()
        for one in list(self._sockets):  # the child's hold on them: the parent's connections go on
            with suppress(OSError):
                one.close()
        self._sockets = weakref.WeakSet()

    def __reduce__(self) -> Any:
        return type(self), (_carried(self.to, self.given),)


class AsyncConnection:
    """Sends calls from an asyncio loop."""

    def __init__(self, to: Connecting, http: Optional[httpx.AsyncClient] = None) -> None:
        self.to = to
        self.given = http
        self._by_loop: weakref.WeakKeyDictionary[Any, httpx.AsyncClient] = weakref.WeakKeyDictionary()
        self._known = _Known()
        self._pauses: set[asyncio.Future[None]] = set()
        self.closed: bool = False

    async def send(self, call: Call[T], *, timeout_s: Optional[float] = None, within_s: Optional[float] = None) -> T:
        """What the server answers; `timeout_s` is for each try, `within_s` for all of them and the pauses."""
        sending = _Sending(self.to, self._known, call, timeout_s, within_s)
        while True:
            try:
                return await self._tried(sending)
            except errors.RefaugError as error:
                if await self._paused(await self._pause(sending, error)):
                    raise

    async def _pause(self, sending: _Sending[Any], error: errors.RefaugError) -> float:
        wait = sending.pause(error)
        if wait is None:
            await async_require_current(error, sending.call, self)
            raise error
        return wait

    async def _tried(self, sending: _Sending[T]) -> T:
        request, response = await self._asked(sending)
        try:
            chunks = []
            async for chunk in response.aiter_bytes():
                chunks.append(chunk)
                sending.require_time(request)
        except _TROUBLES as error:
            raise sending.error(error, closed=self.closed) from error
        finally:
            await response.aclose()
        return understood(sending.call, sending.answer(response, b"".join(chunks)))

    async def _asked(self, sending: _Sending[Any]) -> tuple[httpx.Request, httpx.Response]:
        """The request as it was sent, and the answer as far as its headers."""
        http = self.http
        request = sending.request(http)
        try:
            return request, await http.send(request, stream=True, follow_redirects=False)
        except _TROUBLES as error:
            raise sending.error(error, closed=self.closed) from error
        except RuntimeError as error:  # httpx has no class of its own for this
            if self.closed or http.is_closed:
                raise _closed() from error
            raise

    @asynccontextmanager
    async def stream(
        self, call: Call[Any], *, timeout_s: Optional[float] = None, within_s: Optional[float] = None
    ) -> AsyncIterator[httpx.Response]:
        """The answer as it comes, for what is too long to be held; tried again only until it begins.

        `timeout_s` is for its beginning, and then for every pause in it; `within_s` for all tries of its beginning.
        """
        sending = _Sending(self.to, self._known, call, timeout_s, within_s, whole=False)
        while True:
            try:
                response = await self._begun(sending)
                break
            except errors.RefaugError as error:
                if await self._paused(await self._pause(sending, error)):
                    raise
        try:
            yield response
        except _TROUBLES as error:
            raise sending.error(error, closed=self.closed) from error
        finally:
            await response.aclose()

    async def _begun(self, sending: _Sending[Any]) -> httpx.Response:
        _, response = await self._asked(sending)
        if response.status_code >= 300 and response.status_code not in sending.call.expected:
            try:
                content = await response.aread()
            except _TROUBLES as error:
                raise sending.error(error, closed=self.closed) from error
            finally:
                await response.aclose()
            understood(sending.call, sending.answer(response, content))
        return response

    async def _paused(self, seconds: float) -> bool:
        """Wait so long, or until it is closed; whether it is."""
        loop = _running_loop()
        over: asyncio.Future[None] = loop.create_future()
        alarm = loop.call_later(seconds, _end, over)
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
        """The connections of the loop that runs: they belong to the one that opened them, and end with it."""
        loop = _running_loop()
        if self.closed:
            raise _closed()
        if self.given is not None:
            return self.given
        found = self._by_loop.get(loop)
        if found is None:
            for other in [one for one in self._by_loop if one.is_closed()]:  # nothing else ends them: they hold it
                del self._by_loop[other]
            found = self._by_loop[loop] = httpx.AsyncClient(
                transport=httpx.AsyncHTTPTransport(**_transport(self.to)) if self.to.uds else None,
                **_options(self.to),
            )
        return found

    async def close(self) -> None:
        """End all connections and pauses of the loop that runs; a client that was handed in stays open."""
        self.closed = True
        loop = _running_loop()
        for over in list(self._pauses):
            if over.get_loop() is loop:
                _end(over)
        http = self._by_loop.pop(loop, None)
        self._by_loop.clear()
        if http is not None:
            await http.aclose()

    def __reduce__(self) -> Any:
        return type(self), (_carried(self.to, self.given),)


def _running_loop() -> asyncio.AbstractEventLoop:
    """The loop that runs; asyncio is imported by those who have one, since that takes half as long as httpx does."""
    import asyncio  # noqa: PLC0415

    return asyncio.get_running_loop()


def _end(over: asyncio.Future[None]) -> None:
    if not over.done():
        over.set_result(None)


def _shut(one: socket.socket) -> None:
    with suppress(OSError):
        socket.socket.shutdown(one, socket.SHUT_RDWR)  # of TLS, too, without a word of farewell


def _carried(to: Connecting, given: object) -> Connecting:
    if given is not None:
        raise errors.Usage(
            "a client with an httpx client that was handed in cannot be pickled",
            remedy="make the client in the worker, or let it make its own connections",
        )
    return to


def _options(to: Connecting) -> dict[str, Any]:
    if to.uds:
        return {}
    where = httpx.URL(to.url)
    # a proxy of the environment (HTTP_PROXY) would look for the server on its own machine, and hear key and texts
    near = {f"all://{where.netloc.decode('ascii')}": None} if _is_this_machine(where.host) else None
    return {"limits": _limits(to), "verify": _verify(to), "mounts": near}


def _is_this_machine(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _verify(to: Connecting) -> Any:
    """What certificates are held to; without TLS there are none, and reading those of the system takes its time."""
    if not isinstance(to.verify, str):
        return to.verify and to.url.startswith("https")
    import ssl  # noqa: PLC0415  httpx reads it only when it is needed, too

    try:
        if Path(to.verify).is_dir():
            return ssl.create_default_context(capath=to.verify)
        return ssl.create_default_context(cafile=to.verify)
    except (OSError, ssl.SSLError) as error:
        raise errors.Usage(f"verify={to.verify!r}: {error}", remedy="a file or folder of certificates") from error


def _transport(to: Connecting) -> dict[str, Any]:
    return {"uds": to.uds, "limits": _limits(to), "verify": False}  # nobody else can listen on its path


def _limits(to: Connecting) -> httpx.Limits:
    return httpx.Limits(
        max_connections=to.connections, max_keepalive_connections=to.connections, keepalive_expiry=4.0
    )  # shorter than any server or proxy keeps one, so that it is rarely they who end it just as it is used


_ALIVE: weakref.WeakSet[Connection] = weakref.WeakSet()


def _after_fork() -> None:
    for connection in list(_ALIVE):
        connection.forked()


def _at_exit() -> None:
    for connection in list(_ALIVE):
        connection.close()


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
