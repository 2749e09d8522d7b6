"""What every request passes through: it gets an id and a place, or is told to come again; the answer its headers.

Plain ASGI around the whole app, so that streams are not gathered and nothing goes out unmarked, errors least of all.
"""

from __future__ import annotations

import logging
import re
import secrets
import time
from collections.abc import Mapping
from typing import Any, Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from core.errors import NotAllowed, Overloaded, RefaugError
from service import observe
from service.web import problems
from service.web.answers import REQUEST_ID
from service.web.deps import items_in, key_name
from service.web.hosts import Hosts
from service.web.state import State

log = logging.getLogger(__name__)

# Never refused: whoever asks them decides whether we are there at all.
ALWAYS: Final = frozenset({"/healthz", "/readyz", "/metrics"})
_STREAM: Final = re.compile(r"/v1/jobs/[^/]+/events")  # long and idle; they have a limit of their own
_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_DRAINED: Final = 1 << 18  # bytes of a refused request that are read, so that its client gets to reading the answer
HEADERS: Final[Mapping[str, str]] = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_ANOTHER_SITE: Final = NotAllowed(
    "a page of another site has sent this through a browser", remedy="send it by a program, or from the page at /docs"
)
UNKNOWN: Final = "(none)"  # the route of a path that we do not have


class Gate:
    """The outermost layer that is ours."""

    def __init__(self, app: ASGIApp, state: State) -> None:
        self._app, self._state = app, state
        self._hosts = Hosts(state.serve)
        self._inside = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let one request through."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        passing = _Passing(scope, send)
        REQUEST_ID.set(passing.id)
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        if (host := self._hosts.foreign(scope["headers"])) is not None:
            await self._refuse(scope, receive, passing, _addressed_wrongly(host))
            return
        if _is_of_another_site(scope):
            await self._refuse(scope, receive, passing, _ANOTHER_SITE)
            return
        takes_place = path not in ALWAYS and not _STREAM.fullmatch(path)
        if takes_place and self._inside >= self._state.serve.requests:
            await self._refuse(scope, receive, passing, self._full())
            return
        self._inside += takes_place
        try:
            await self._app(scope, receive, passing.send)
        except Exception as error:  # noqa: BLE001  whatever it is, it leaves in our shape and without a trace
            answer = problems.unforeseen(Request(scope), error)
            if not passing.status:
                await answer(scope, receive, passing.send)
        finally:
            self._inside -= takes_place
            passing.ended(is_quiet=path in ALWAYS)

    def _full(self) -> Overloaded:
        return Overloaded(
            f"{self._state.serve.requests:,} requests are being answered already",
            remedy="send it again in a moment",
            retry_after_s=1,
        )

    async def _refuse(self, scope: Scope, receive: Receive, passing: _Passing, error: RefaugError) -> None:
        """Answer without the app: what is small is read first, so that the connection can go on; else it is closed."""
        answer = problems.answer(Request(scope), error)
        if not await _drained(Headers(scope=scope), receive):
            answer.headers["Connection"] = "close"
        await answer(scope, receive, passing.send)
        passing.ended(is_quiet=False)


def _addressed_wrongly(host: str) -> NotAllowed:
    return NotAllowed(
        f"{host[:80]!r} is no name that this service may be called by",
        remedy="call it localhost or 127.0.0.1; for another name, such as a proxy's, the server has --allowed-hosts",
    )


def _is_of_another_site(scope: Scope) -> bool:
    """Whether a page from elsewhere wants something done, by the browser of somebody who may: keys may be off here.

    Browsers say so in a header that pages cannot set; what is only looked at they keep from such a page themselves.
    """
    if scope["method"] in ("GET", "HEAD", "OPTIONS"):
        return False
    return Headers(scope=scope).get("sec-fetch-site", "none") not in ("none", "same-origin")


async def _drained(headers: Headers, receive: Receive) -> bool:
    """Whether the body was small enough to be read to its end."""
    length = headers.get("content-length", "")
    if "transfer-encoding" in headers or (length and not (length.isdecimal() and int(length) <= _DRAINED)):
        return False
    while (message := await receive())["type"] == "http.request":
        if not message.get("more_body", False):
            return True
    return False


class _Passing:
    """One request on its way."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self._scope, self._send, self._begun = scope, send, time.perf_counter()
        given = Headers(scope=scope).get("x-request-id", "")
        self.id = given if _ID.fullmatch(given) else secrets.token_hex(8)
        self.status = 0
        scope["request_id"] = self.id

    async def send(self, message: Message) -> None:
        """Mark the answer's head; everything else goes through as it is."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message.setdefault("headers", [])
            headers = MutableHeaders(scope=message)
            headers["X-Request-Id"] = self.id
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await self._send(message)

    def ended(self, *, is_quiet: bool) -> None:
        """Count it, and write its line: neither what was asked for in the query nor any body."""
        seconds = time.perf_counter() - self._begun
        route = getattr(self._scope.get("route"), "path", None) or UNKNOWN
        observe.request(route, self._scope["method"], self.status, seconds)
        line: dict[str, Any] = {
            "request": self.id,
            "route": route,
            "method": self._scope["method"][:16],
            "status": self.status,
            "ms": round(1_000 * seconds, 2),
            "items": items_in(self._scope),
            "key": key_name(self._scope),
        }
        told = {name: value for name, value in line.items() if value is not None}
        log.log(logging.DEBUG if is_quiet else logging.INFO, "request", extra=told)
