"""How the bytes of a connection become requests: uvicorn's reader, with an end to what it would wait for or hold.

By itself it takes a head of any length and waits for the rest of one for ever, keeps what nobody fetches, and tells of
what is no HTTP, and of too many connections, in plain text. What comes after the head is read, and limited, by the
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

from service import observe
from service.web.gate import ALWAYS, HEADERS, UNKNOWN
from service.web.problems import MEDIA_TYPE, code_of, meanings

HEAD_BYTES: Final = 1 << 16  # address and headers: several times what proxies let through
TOLD_AT_ONCE: Final = 64  # connections above the limit that are told so; those above that are dropped
_TOLD_S: Final = 2.0  # that one of them has for its request
_ALWAYS: Final = frozenset(path.encode("ascii") for path in ALWAYS)


class Protocol(HttpToolsProtocol):
    """One connection."""

    head_s: ClassVar[float] = 30.0  # for the head of a request, from its first byte on
    fetch_s: ClassVar[float] = 60.0  # for fetching anything at all of an answer that waits

    _is_extra = False  # above the limit of connections
    _in_head = False
    _began = False  # in the piece that is being read
    _head_bytes = 0  # of an unfinished head; of the piece that it began in, its whole lines
    _refused: tuple[int, str] | None = None
    _head_timer: asyncio.TimerHandle | None = None
    _fetch_timer: asyncio.TimerHandle | None = None
    _answered: RequestResponseCycle | None = None  # the request whose turn it is; `cycle` is the last one that came

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        # uvicorn would count requests by it as well, and refuse the last connection that is allowed
        self._most_connections, self.limit_concurrency = self.limit_concurrency, None

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """A connection on which nothing is asked is closed as one on which nothing more is asked."""
        super().connection_made(transport)
        extra = 0 if self._most_connections is None else len(self.connections) - self._most_connections
        if extra > TOLD_AT_ONCE:
            transport.abort()
            return
        self._is_extra = extra > 0
        idle_s = _TOLD_S if self._is_extra else self.timeout_keep_alive
        self.timeout_keep_alive_task = self.loop.call_later(idle_s, self.timeout_keep_alive_handler)

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go of the clocks, and tell whoever still answers."""
        super().connection_lost(exc)
        self._nobody_listens()
        self._unset_keepalive_if_required()
        self._stop(head=True, fetch=True)

    def data_received(self, data: bytes) -> None:
        """Read on; a head that is too long is refused before its end is seen."""
        self._began = False
        super().data_received(data)
        if self._in_head and not self.transport.is_closing():
            self._head_bytes = self._measured() if self._began else self._head_bytes + len(data)
            if self._head_bytes > HEAD_BYTES:
                self._refuse(*_TOO_LONG)
            elif self._head_timer is None:
                head_s = min(_TOLD_S, self.head_s) if self._is_extra else self.head_s
                self._head_timer = self.loop.call_later(head_s, self._too_slow)

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        super().on_message_begin()
        self._in_head = self._began = True

    def on_headers_complete(self) -> None:
        """The head is there; one that came in large pieces is measured now."""
        self._in_head = False
        self._stop(head=True)
        if self._measured() > HEAD_BYTES:
            self._refused = _TOO_LONG
            raise ValueError("a head that is too long")  # the parser stops, and send_400_response is called
        if self._is_extra and self.url.partition(b"?")[0] not in _ALWAYS:
            most = f"{self._most_connections:,} connections are open already"
            self._refused = (http.HTTPStatus.SERVICE_UNAVAILABLE, most)
            raise ValueError(most)
        super().on_headers_complete()
        if self._is_extra:
            self.cycle.keep_alive = False

    def _measured(self) -> int:
        return len(self.url) + sum(len(name) + len(value) for name, value in self.headers)

    def _too_slow(self) -> None:
        self._head_timer = None
        if not self.transport.is_closing():
            self._refuse(http.HTTPStatus.REQUEST_TIMEOUT, "the head of the request was not there in time")

    # ── refusing ─────────────────────────────────────────────────────────────────────────────────────────────────

    def send_400_response(self, msg: str) -> None:
        """What could not be read, told in the shape of every error."""
        del msg  # uvicorn's own words
        self._refuse(*(self._refused or (http.HTTPStatus.BAD_REQUEST, "this is no request that can be read")))

    def _refuse(self, status: int, detail: str) -> None:
        """Answer, unless that would land in the middle of another answer; and close."""
        self._stop(head=True)
        is_answering = self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete
        if not is_answering and not self.pipeline:
            name = secrets.token_hex(8)
            self.transport.write(_problem(status, detail, name, self.root_path))
            observe.request(UNKNOWN, "", status, 0.0)
        self._nobody_listens()
        self.transport.close()

    # ── answering ────────────────────────────────────────────────────────────────────────────────────────────────

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._answered = cycle
        super()._start_asgi_task(cycle, app)

    def _nobody_listens(self) -> None:
        """What is still written goes nowhere: on a connection that is closed, writing would be an error."""
        for cycle in (self._answered, self.cycle):
            if cycle is not None and not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()

    def pause_writing(self) -> None:
        """Whoever asked does not fetch the answer as fast as it is made; some of it must go in every `fetch_s`."""
        super().pause_writing()
        self._look_again(self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        """The answer has gone."""
        super().resume_writing()
        self._stop(fetch=True)

    def _look_again(self, left: int) -> None:
        self._stop(fetch=True)
        self._fetch_timer = self.loop.call_later(self.fetch_s, self._require_fetched, left)

    def _require_fetched(self, before: int) -> None:
        left = self.transport.get_write_buffer_size()
        if left >= before:
            self._nobody_listens()
            self.transport.abort()
        else:
            self._look_again(left)

    def _stop(self, *, head: bool = False, fetch: bool = False) -> None:
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
    """The whole answer, as there is no request that an app could be asked with."""
    code = code_of(status)
    body: dict[str, Any] = {
        "type": f"{root_path}/problems/{code}",
        "title": meanings()[code]["title"],
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
