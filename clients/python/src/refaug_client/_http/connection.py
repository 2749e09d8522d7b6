"""A connection for threads: sends calls, retries them, and ends when it is closed.

A connection can be used from several threads at once. It is never carried into another process: a forked process makes
new connections, and a pickled connection takes along its settings only.
"""

from __future__ import annotations

import atexit
import os
import socket
import threading
import weakref
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import suppress
from typing import Any, Optional, Protocol, TypeVar

import httpx

from refaug_client._core import errors

from .call import Call
from .exchange import AnyConnection, Exchange, closed_error, require_picklable
from .settings import ConnectionSettings, client_options, transport_options

T = TypeVar("T")

_OPENED = ("connect_tcp.complete", "connect_unix_socket.complete", "start_tls.complete")


class Closable(Protocol):
    """Something that ends with a connection."""

    def close(self) -> None:
        """End it; closing it again does nothing."""


class _Each(AsyncIterator[T]):
    """Elements of an iterator, as asyncio reads them: with no generator that a loop of this thread would look after."""

    def __init__(self, elements: Iterable[T]) -> None:
        self._elements = iter(elements)

    async def __anext__(self) -> T:
        for element in self._elements:
            return element
        raise StopAsyncIteration


class _Response:
    """An answer that comes in pieces, as asyncio reads one."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        self.status_code, self.headers = response.status_code, response.headers

    def aiter_bytes(self) -> AsyncIterator[bytes]:
        return _Each(self._response.iter_bytes())

    async def aread(self) -> bytes:
        return self._response.read()

    async def aclose(self) -> None:
        self._response.close()


def finish(steps: Any) -> Any:
    """Return the result of a coroutine in which nothing waits for a loop."""
    try:
        steps.send(None)
    except StopIteration as end:
        return end.value
    raise RuntimeError("a method of the client for threads waits for a loop")


class Connection(AnyConnection):
    """Sends calls from threads."""

    def __init__(self, to: ConnectionSettings, http: Optional[httpx.Client] = None) -> None:
        super().__init__(to)
        self.external_http = http
        self._http: Optional[httpx.Client] = http
        self._pid = os.getpid()
        self._lock = threading.RLock()  # a garbage collection while it is held may close this connection
        self._sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        self._dependents: weakref.WeakSet[Closable] = weakref.WeakSet()
        self._trace = self._remember_socket if http is None else None
        self.closing: threading.Event = threading.Event()
        _ALIVE.add(self)

    def send(self, call: Call[T], *, timeout_s: Optional[float] = None, within_s: Optional[float] = None) -> T:
        """Return what the server answers; `timeout_s` limits each try, `within_s` all of them with the pauses."""
        answer: T = finish(self.answer(call, timeout_s=timeout_s, within_s=within_s))
        return answer

    @property
    def is_closed(self) -> bool:
        """Whether it was closed."""
        return self.closing.is_set()

    def _request(self, sending: Exchange[Any]) -> tuple[httpx.Client, httpx.Request]:
        http = self.http
        return http, sending.request(http, self._trace)

    async def _begin(self, http: httpx.Client, request: httpx.Request) -> _Response:
        return _Response(http.send(request, stream=True, follow_redirects=False))

    async def _is_closed_after(self, seconds: float) -> bool:
        return self.closing.wait(seconds)

    @property
    def http(self) -> httpx.Client:
        """The httpx client of this process."""
        client = self._http
        if client is not None and self._pid == os.getpid():
            return client
        with self._lock:
            if self.closing.is_set():
                raise closed_error()
            if self.external_http is not None:
                raise errors.Usage(
                    "neither refaug itself nor an httpx client that was handed in can be asked in a forked process",
                    remedy="make the client in the worker, or let it make its own connections",
                )
            if self._http is None or self._pid != os.getpid():
                with _MAKING:
                    self._http = httpx.Client(
                        transport=httpx.HTTPTransport(**transport_options(self.settings))
                        if self.settings.uds
                        else None,
                        **client_options(self.settings),
                    )
                self._pid = os.getpid()
            return self._http

    def _remember_socket(self, event: str, info: Mapping[str, Any]) -> None:
        """Remember every socket, since a thread that waits for an answer can be woken by its socket only."""
        if event.endswith(_OPENED):
            opened = info["return_value"].get_extra_info("socket")
            if isinstance(opened, socket.socket):
                with self._lock:  # a set must not change while `close` reads it
                    self._sockets.add(opened)
                if self.closing.is_set():
                    _shut_down(opened)

    def add_dependent(self, dependent: Closable) -> None:
        """Let something end with this connection; at once, if the connection is closed already."""
        with self._lock:
            self._dependents.add(dependent)
        if self.closing.is_set():
            dependent.close()

    def close(self) -> None:
        """End all connections, requests and pauses between tries; a client that was handed in stays open."""
        self.closing.set()
        with self._lock:
            http, self._http = self._http, None
            sockets, dependents = list(self._sockets), list(self._dependents)
        for dependent in dependents:
            dependent.close()
        if http is not None and http is not self.external_http and self._pid == os.getpid():
            for opened_socket in sockets:
                _shut_down(opened_socket)
            http.close()

    def share(self) -> Connection:
        """Return another handle of the same connections; closing it ends its own tries only."""
        shared = Connection(self.settings, self.http)
        shared._limits, shared._trace = self._limits, self._trace
        return shared

    def forked(self) -> None:
        """In a forked process: touch nothing of the parent's, least of all a lock that another thread may hold."""
        closed = self.closing.is_set()
        self._lock, self.closing = threading.RLock(), threading.Event()
        if closed:
            self.closing.set()
        for inherited in list(self._sockets):  # the child's copies: the parent's connections go on
            with suppress(OSError):
                inherited.close()
        self._sockets, self._dependents = weakref.WeakSet(), weakref.WeakSet()

    def __reduce__(self) -> Any:
        return type(self), (require_picklable(self.settings, self.external_http),)


def _shut_down(connected: socket.socket) -> None:
    with suppress(OSError):
        socket.socket.shutdown(connected, socket.SHUT_RDWR)  # of TLS, too, without its closing handshake


_ALIVE: weakref.WeakSet[Connection] = weakref.WeakSet()
# A process is not forked while a thread makes an httpx client: OpenSSL's locks would stay held in the child for ever.
_MAKING = threading.Lock()


def _after_fork() -> None:
    _MAKING.release()
    for connection in list(_ALIVE):
        connection.forked()


def _at_exit() -> None:
    for connection in list(_ALIVE):
        connection.close()


atexit.register(_at_exit)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_MAKING.acquire, after_in_parent=_MAKING.release, after_in_child=_after_fork)
