"""The outermost layer of every request: its id, its place among the concurrent requests, and the headers of its answer.

It is plain ASGI around the whole application, so that streams are not buffered and every response gets its headers,
errors included.
"""

from __future__ import annotations

import ipaddress
import logging
import re
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from refaug.core.errors import NotAllowed, Overloaded, RefaugError
from refaug.service import prometheus_figures
from refaug.service.server_settings import ServeSettings, is_local
from refaug.service.traces import Traces
from refaug.service.web import problems
from refaug.service.web.answers import REQUEST_ID
from refaug.service.web.dependencies import end_key_place, is_event_stream, items_in, key_name, take_key_place
from refaug.service.web.state import ServiceState

_MAX_CACHED: Final = 64  # checked headers to remember: clients send the same one again and again


class AllowedHosts:
    """The host names that requests may be addressed to."""

    def __init__(self, serve: ServeSettings) -> None:
        named = [name.strip() for name in serve.allowed_hosts.split(",") if name.strip()]
        needs_names = bool(named) or (is_local(serve) and not serve.uds and not serve.keys)
        self._allows_any = "*" in named or not needs_names
        self._names = frozenset(_host_name(one) for one in ("localhost", serve.host, *named))
        self._checked = dict[bytes, bool]()

    def find_foreign(self, headers: Sequence[tuple[bytes, bytes]]) -> str | None:
        """Return the host of a request if it is not allowed; None if it is, or if there is none as in HTTP/1.0."""
        if self._allows_any:
            return None
        for name, content in headers:
            if name == b"host" and not self._is_allowed(content):
                return content.decode("latin-1")
        return None

    def _is_allowed(self, header: bytes) -> bool:
        is_allowed = self._checked.get(header)
        if is_allowed is None:
            name = _host_name(header.decode("latin-1"))
            is_allowed = name in self._names or name == "" or _is_address(name)
            if len(self._checked) < _MAX_CACHED:
                self._checked[header] = is_allowed
        return is_allowed


def _host_name(host: str) -> str:
    """Return the host without its port, in the form that is compared."""
    host = host.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return (host if host.count(":") > 1 else host.partition(":")[0]).removesuffix(".")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


log = logging.getLogger(__name__)

# Never refused: probes of these decide whether the server is up.
UNLIMITED_PATHS: Final = frozenset({"/healthz", "/readyz", "/metrics"})
_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_MAX_DRAINED_BYTES: Final = (
    1 << 18
)  # bytes of a refused request's body that are read, so that its client goes on to read the answer
HEADERS: Final[Mapping[str, str]] = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_ANOTHER_SITE_ERROR: Final = NotAllowed(
    "a page of another site has sent this through a browser", remedy="send it by a program, or from the page at /docs"
)
PLACE: Final = "refaug.place"  # of a request, in its scope
WAITING_A_PLACE: Final = 8  # requests that may wait for each one that is being answered
_READING: Final = ("GET", "HEAD", "OPTIONS")  # their routes change nothing, and read no body
UNKNOWN_ROUTE: Final = "(none)"  # the route of an unknown path


class Gate:
    """The outermost ASGI layer of the application."""

    def __init__(self, app: ASGIApp, state: ServiceState) -> None:
        self._app, self.state = app, state
        self._hosts = AllowedHosts(state.serve)
        self.request_count = 0
        self.waiting_count = 0  # requests that have lent their places

    @property
    def is_full(self) -> bool:
        """Whether as many requests are being answered as may be."""
        return self.request_count >= self.state.serve.requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let one request through."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = _HttpExchange(scope, send, self.state.traces)
        REQUEST_ID.set(exchange.id)
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        if (host := self._hosts.find_foreign(scope["headers"])) is not None:
            await self._refuse(scope, receive, exchange, _wrong_host_error(host))
            return
        if _is_from_another_site(scope):
            await self._refuse(scope, receive, exchange, _ANOTHER_SITE_ERROR)
            return
        is_limited = path not in UNLIMITED_PATHS and not is_event_stream(scope)
        if is_limited and self.is_full:
            await self._refuse(scope, receive, exchange, self.overloaded_error())
            return
        place = scope[PLACE] = _Place(self, scope, receive)
        if is_limited and not _may_read_body(scope):
            place.take()
        try:
            await self._app(scope, place.receive if is_limited else receive, exchange.send)
        except Exception as error:  # noqa: BLE001  every error becomes a problem document without a trace
            answer = problems.internal_error_response(Request(scope), error)
            if not exchange.status:
                await answer(scope, receive, exchange.send)
        finally:
            place.give_back()
            end_key_place(self.state, scope)
            exchange.log_end(is_quiet=path in UNLIMITED_PATHS)

    def overloaded_error(self) -> Overloaded:
        """Return the error of a request that finds no place."""
        return Overloaded(
            f"{self.state.serve.requests:,} requests are being answered already",
            remedy="send it again in a moment",
            retry_after_s=1,
        )

    async def _refuse(self, scope: Scope, receive: Receive, exchange: _HttpExchange, error: RefaugError) -> None:
        """Answer without the application; a small body is read so that the connection stays open, else it is closed."""
        answer = problems.problem_response(Request(scope), error)
        if not await _drain(Headers(scope=scope), receive):
            answer.headers["Connection"] = "close"
        await answer(scope, receive, exchange.send)
        exchange.log_end(is_quiet=False)


class _Place:
    """The place of a request among the concurrent ones, and among those of its key.

    Both are taken when the body is there: slow clients hold none.
    """

    def __init__(self, gate: Gate, scope: Scope, receive: Receive) -> None:
        self._gate, self._scope, self._receive = gate, scope, receive
        self._is_taken = False

    async def receive(self) -> Message:
        """Receive the next part of the body; Overloaded or TooMany if it is the last one, and no place is free."""
        message = await self._receive()
        if message["type"] == "http.request" and not message.get("more_body", False):
            if not self._is_taken:
                if self._gate.is_full:
                    raise self._gate.overloaded_error()
                self.take()
            take_key_place(self._gate.state, self._scope)
        return message

    def take(self) -> None:
        """Take the place."""
        self._is_taken = True
        self._gate.request_count += 1

    def give_back(self) -> None:
        """Give the place back, if it was taken."""
        self._gate.request_count -= self._is_taken

    @contextmanager
    def lent(self) -> Iterator[bool]:
        """Let another request have the place for this block; False where as many wait already as may."""
        gate = self._gate
        if not self._is_taken or gate.waiting_count >= WAITING_A_PLACE * gate.state.serve.requests:
            yield False
            return
        gate.request_count -= 1
        gate.waiting_count += 1
        try:
            yield True
        finally:
            gate.waiting_count -= 1
            gate.request_count += 1


def lent_place(scope: Scope) -> AbstractContextManager[bool]:
    """Let other requests have the place of one that only waits; False where it cannot wait."""
    place: _Place = scope[PLACE]
    return place.lent()


def _may_read_body(scope: Scope) -> bool:
    """Return whether a body follows the head, of a method whose routes may read one."""
    headers = Headers(scope=scope)
    if scope["method"] in _READING:
        return False
    return "transfer-encoding" in headers or headers.get("content-length", "0") != "0"


def _wrong_host_error(host: str) -> NotAllowed:
    return NotAllowed(
        f"{host[:80]!r} is not a name that this service may be called by",
        remedy="call it localhost or 127.0.0.1; for another name, such as a proxy's, the server has --allowed-hosts",
    )


def _is_from_another_site(scope: Scope) -> bool:
    """Return whether a page of another site makes a browser send this request; keys may be off here.

    Browsers say so in a header that pages cannot set. They do not show such a page the answers to reading requests.
    """
    if scope["method"] in _READING:
        return False
    return Headers(scope=scope).get("sec-fetch-site", "none") not in ("none", "same-origin")


async def _drain(headers: Headers, receive: Receive) -> bool:
    """Read the body if it is small, and return whether it was read to its end."""
    length = headers.get("content-length", "")
    if "transfer-encoding" in headers or (length and not (length.isdecimal() and int(length) <= _MAX_DRAINED_BYTES)):
        return False
    while (message := await receive())["type"] == "http.request":
        if not message.get("more_body", False):
            return True
    return False


class _HttpExchange:
    """One request and its response."""

    def __init__(self, scope: Scope, send: Send, traces: Traces | None) -> None:
        self._scope, self._send, self._traces, self._begun = scope, send, traces, time.perf_counter()
        client_id = Headers(scope=scope).get("x-request-id", "")
        self.id = client_id if _ID.fullmatch(client_id) else secrets.token_hex(8)
        self.status = 0
        scope["request_id"] = self.id

    async def send(self, message: Message) -> None:
        """Add headers to the start of the response; all other messages pass unchanged."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message.setdefault("headers", [])
            headers = MutableHeaders(scope=message)
            headers["X-Request-Id"] = self.id
            for name, content in HEADERS.items():
                headers.setdefault(name, content)
        await self._send(message)

    def log_end(self, *, is_quiet: bool) -> None:
        """Count the request, log it and trace it, without its query and body; quiet requests have no span."""
        seconds = time.perf_counter() - self._begun
        template = getattr(self._scope.get("route"), "path", None) or None
        route, method = template or UNKNOWN_ROUTE, self._scope["method"][:16]
        prometheus_figures.request(route, self._scope["method"], self.status, seconds)
        if self._traces is not None and not is_quiet:
            self._traces.add_request(
                Headers(scope=self._scope),
                request=self.id,
                route=template,
                method=method,
                status=self.status,
                seconds=seconds,
            )
        line: dict[str, object] = {
            "request": self.id,
            "route": route,
            "method": method,
            "status": self.status,
            "ms": round(1_000 * seconds, 2),
            "items": items_in(self._scope),
            "key": key_name(self._scope),
        }
        fields = {name: value for name, value in line.items() if value is not None}
        log.log(logging.DEBUG if is_quiet else logging.INFO, "request", extra=fields)


# ── HEAD requests are answered like GET without the body, as load balancers and download managers expect ──────────────


class HeadAsGet:
    """Middleware that hands HEAD to the application as GET and drops the body."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through; the route sees a GET instead of a HEAD."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        as_get = {**scope, "method": "GET"}  # a copy: the server must know that no body follows
        try:
            await self._app(as_get, receive, _without_body(send))
        finally:
            scope.update({name: value for name, value in as_get.items() if name not in scope})


def _without_body(send: Send) -> Send:
    """End the response with its start; a stream sees its listener disconnect."""

    async def head(message: Message) -> None:
        if message["type"] == "http.response.start":
            await send(message)
            await send({"type": "http.response.body", "body": b""})

    return head
