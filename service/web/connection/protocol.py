"""The HTTP protocol of a connection: uvicorn's reader with limits on what it waits for and holds.

uvicorn alone reads a head of any length and waits for its rest for ever, keeps responses that no client fetches, and
answers malformed requests and too many connections in plain text. Everything after the head is read and limited by the
routes.
"""

from __future__ import annotations

import asyncio
import http
import secrets
from typing import Any, ClassVar, Final

import orjson
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from refaug.service import prometheus_figures
from refaug.service.web.connection.admission import HEADERS, UNKNOWN_ROUTE, UNLIMITED_PATHS
from refaug.service.web.problems import MEDIA_TYPE, code_meanings, code_of

HEAD_BYTES: Final = 1 << 16  # address and headers: several times the limits of proxies
EXTRA_CONNECTIONS: Final = 64  # connections above the limit that get an error; further ones are dropped
_EXTRA_S: Final = 2.0  # that such a connection has for its request
_ALWAYS: Final = frozenset(path.encode("ascii") for path in UNLIMITED_PATHS)


class Protocol(HttpToolsProtocol):
    """One connection."""

    head_s: ClassVar[float] = 30.0  # for the head of a request, from its first byte
    fetch_s: ClassVar[float] = 60.0  # in which a client must fetch some of a waiting response

    _is_extra = False  # above the limit of connections
    _in_head = False
    _began = False  # a request began in the current piece
    _head_bytes = 0  # bytes of an unfinished head; of its first piece, only whole lines
    _refused: tuple[int, str] | None = None
    _head_timer: asyncio.TimerHandle | None = None
    _fetch_timer: asyncio.TimerHandle | None = None
    _answered: RequestResponseCycle | None = None  # the request being answered; `cycle` is the newest one

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        # uvicorn would also limit requests by this, and refuse the last allowed connection
        self._most_connections, self.limit_concurrency = self.limit_concurrency, None

    # ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Close a connection without a request after the same idle time as one between requests."""
        super().connection_made(transport)
        extra = 0 if self._most_connections is None else len(self.connections) - self._most_connections
        if extra > EXTRA_CONNECTIONS:
            transport.abort()
            return
        self._is_extra = extra > 0
        idle_s = _EXTRA_S if self._is_extra else self.timeout_keep_alive
        self.timeout_keep_alive_task = self.loop.call_later(idle_s, self.timeout_keep_alive_handler)

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timers, and tell the running request that its client has gone."""
        super().connection_lost(exc)
        self._mark_disconnected()
        self._unset_keepalive_if_required()
        self._cancel_timers(head=True, fetch=True)

    def data_received(self, piece: bytes) -> None:
        """Read on, and refuse a head that is too long before its end arrives."""
        self._began = False
        super().data_received(piece)
        if self._in_head and not self.transport.is_closing():
            self._head_bytes = self._measure_head() if self._began else self._head_bytes + len(piece)
            if self._head_bytes > HEAD_BYTES:
                self._refuse(*_TOO_LONG)
            elif self._head_timer is None:
                head_s = min(_EXTRA_S, self.head_s) if self._is_extra else self.head_s
                self._head_timer = self.loop.call_later(head_s, self._refuse_slow_head)

    def on_message_begin(self) -> None:
        """Note the first byte of a request."""
        super().on_message_begin()
        self._in_head = self._began = True

    def on_headers_complete(self) -> None:
        """Check the size of the head, which may have come in large pieces."""
        self._in_head = False
        self._cancel_timers(head=True)
        if self._measure_head() > HEAD_BYTES:
            self._refused = _TOO_LONG
            raise ValueError("a head that is too long")  # the parser stops, and send_400_response is called
        if self._is_extra and self.url.partition(b"?")[0] not in _ALWAYS:
            most = f"{self._most_connections:,} connections are open already"
            self._refused = (http.HTTPStatus.SERVICE_UNAVAILABLE, most)
            raise ValueError(most)
        super().on_headers_complete()
        if self._is_extra:
            self.cycle.keep_alive = False

    def _measure_head(self) -> int:
        return len(self.url) + sum(len(name) + len(value) for name, value in self.headers)

    def _refuse_slow_head(self) -> None:
        self._head_timer = None
        if not self.transport.is_closing():
            self._refuse(http.HTTPStatus.REQUEST_TIMEOUT, "the head of the request was not there in time")

    # ── refusing ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def send_400_response(self, msg: str) -> None:
        """Answer a malformed request with a problem document."""
        del msg  # uvicorn's own words
        self._refuse(*(self._refused or (http.HTTPStatus.BAD_REQUEST, "this is no request that can be read")))

    def _refuse(self, status: int, detail: str) -> None:
        """Answer, unless another response is under way, and close the connection."""
        self._cancel_timers(head=True)
        is_answering = self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete
        if not is_answering and not self.pipeline:
            name = secrets.token_hex(8)
            self.transport.write(_problem(status, detail, name, self.root_path))
            prometheus_figures.request(UNKNOWN_ROUTE, "", status, 0.0)
        self._mark_disconnected()
        self.transport.close()

    # ── answering ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._answered = cycle
        super()._start_asgi_task(cycle, app)

    def _mark_disconnected(self) -> None:
        """Mark the requests as disconnected: writing to a closed connection would be an error."""
        for cycle in (self._answered, self.cycle):
            if cycle is not None and not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()

    def pause_writing(self) -> None:
        """Require a slow client to fetch some of the response in every `fetch_s`."""
        super().pause_writing()
        self._check_later(self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        """Cancel the timer, since the response has gone out."""
        super().resume_writing()
        self._cancel_timers(fetch=True)

    def _check_later(self, unsent_bytes: int) -> None:
        self._cancel_timers(fetch=True)
        self._fetch_timer = self.loop.call_later(self.fetch_s, self._require_fetched, unsent_bytes)

    def _require_fetched(self, unsent_before: int) -> None:
        unsent_bytes = self.transport.get_write_buffer_size()
        if unsent_bytes >= unsent_before:
            self._mark_disconnected()
            self.transport.abort()
        else:
            self._check_later(unsent_bytes)

    def _cancel_timers(self, *, head: bool = False, fetch: bool = False) -> None:
        if head and self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
        if fetch and self._fetch_timer is not None:
            self._fetch_timer.cancel()
            self._fetch_timer = None


_TOO_LONG: Final = (
    http.HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    f"the head of the request is longer than {HEAD_BYTES >> 10} KiB",
)


def _problem(status: int, detail: str, name: str, root_path: str) -> bytes:
    """Return the whole response, since there is no request for the application."""
    code = code_of(status)
    body: dict[str, Any] = {
        "type": f"{root_path}/problems/{code}",
        "title": code_meanings()[code]["title"],
        "status": int(status),
        "code": code,
        "detail": detail,
        "request_id": name,
    }
    written = orjson.dumps(body)
    headers = {
        "Content-Type": MEDIA_TYPE,
        "Content-Length": str(len(written)),
        "Connection": "close",
        "X-Request-Id": name,
        **({"Retry-After": "1"} if status == http.HTTPStatus.SERVICE_UNAVAILABLE else {}),
        **HEADERS,
    }
    head = "".join(f"{key}: {value}\r\n" for key, value in headers.items())
    return f"HTTP/1.1 {int(status)} {http.HTTPStatus(status).phrase}\r\n{head}\r\n".encode("ascii") + written
