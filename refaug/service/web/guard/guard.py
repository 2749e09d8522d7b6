"""The protocol of a connection: it holds uvicorn's, and closes what takes too long or too much.

uvicorn alone reads a head of any length and trailers without end, waits for the rest of a request for ever, keeps
answers that no client fetches, and answers malformed requests in plain text. The guard hands it one request after the
other, none before the answer to the one before is complete, through nothing but what asyncio defines for every
protocol and transport.
"""

from __future__ import annotations

import asyncio
import http
import secrets
import socket
from collections.abc import Mapping
from typing import Any, Final, Protocol

import orjson
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol  # the one import of uvicorn's inside here

from refaug.service import prometheus_figures
from refaug.service.process.guarded_config import CONNECTION, ConnectionLimits, GuardedConfig, Message
from refaug.service.web.connection.admission import HEADERS, UNKNOWN_ROUTE, UNLIMITED_PATHS
from refaug.service.web.guard.open_connections import OpenConnections
from refaug.service.web.guard.request_reader import OversizedRequest, RequestReader, UnreadableRequest
from refaug.service.web.guard.states import ENDING, TABLE, ConnectionEvent, State
from refaug.service.web.problems import MEDIA_TYPE, code_meanings, code_of


class TransportHolder(Protocol):
    """What the guard does with the calls of uvicorn's protocol."""

    @property
    def is_ending(self) -> bool:
        """Whether nothing more may be written."""

    def write(self, content: bytes) -> None:
        """Write a part of an answer."""

    def shut(self) -> None:
        """Close the connection."""

    def pause_reading(self) -> None:
        """Read no more for now."""

    def resume_reading(self) -> None:
        """Read on."""


class HeldTransport(asyncio.Transport):
    """A transport that asks the guard."""

    def __init__(self, transport: asyncio.Transport, guard: TransportHolder) -> None:
        super().__init__()
        self._transport, self._guard = transport, guard
        self.pause_reading = guard.pause_reading  # type: ignore[method-assign]
        self.resume_reading = guard.resume_reading  # type: ignore[method-assign]
        self.write = guard.write  # type: ignore[method-assign, assignment]
        self.close = guard.shut  # type: ignore[method-assign]

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return what the real transport says."""
        return self._transport.get_extra_info(name, default)

    def get_write_buffer_size(self) -> int:
        """Return how many bytes wait for the client."""
        return self._transport.get_write_buffer_size()

    def is_closing(self) -> bool:
        """Return whether nothing more may be written."""
        return self._guard.is_ending or self._transport.is_closing()

    def abort(self) -> None:
        """Close the connection at once."""
        self._transport.abort()


_IN_HEAD: Final = frozenset({State.CONNECTING, State.SURPLUS, State.IDLE, State.HEAD})
_UNREADABLE: Final = "this is not a request that can be read"


def refusal(state: State, status: http.HTTPStatus, limits: ConnectionLimits, root_path: str, fault: str) -> bytes:
    """Return the whole answer to a connection that is refused in this state, and count it."""
    prometheus_figures.request(UNKNOWN_ROUTE, "", status, 0.0)
    return _answer(status, _detail(state, status, limits) or fault or _UNREADABLE, root_path)


def _detail(state: State, status: http.HTTPStatus, limits: ConnectionLimits) -> str:
    part = "head" if state in _IN_HEAD else "body"
    match status:
        case http.HTTPStatus.REQUEST_TIMEOUT:
            return f"the {part} of the request was not there in time"
        case http.HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE if part == "head":
            return f"the head of the request is longer than {limits.head_bytes >> 10} KiB"
        case http.HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE:
            return "the trailers or the chunk heads of the request are too long"
        case http.HTTPStatus.SERVICE_UNAVAILABLE:
            return f"{limits.connections:,} connections are open already"
    return ""


def _answer(status: http.HTTPStatus, detail: str, root_path: str) -> bytes:
    code, request_id = code_of(status), secrets.token_hex(8)
    problem: Mapping[str, Any] = {
        "type": f"{root_path}/problems/{code}",
        "title": code_meanings()[code]["title"],
        "status": int(status),
        "code": code,
        "detail": detail,
        "request_id": request_id,
    }
    body = orjson.dumps(problem)
    headers = {
        "Content-Type": MEDIA_TYPE,
        "Content-Length": str(len(body)),
        "Connection": "close",
        "X-Request-Id": request_id,
        **({"Retry-After": "1"} if status == http.HTTPStatus.SERVICE_UNAVAILABLE else {}),
        **HEADERS,
    }
    head = "".join(f"{name}: {content}\r\n" for name, content in headers.items())
    return f"HTTP/1.1 {int(status)} {status.phrase}\r\n{head}\r\n".encode("ascii") + body


_ALWAYS: Final = frozenset(path.encode("ascii") for path in UNLIMITED_PATHS)
_PROBE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"  # every client of HTTP/1.1 skips it; one that has gone resets
_ANSWERING: Final = frozenset({State.ANSWERING, State.HALF_CLOSED})


class Guard(asyncio.Protocol):
    """One connection."""

    def __init__(
        self,
        config: GuardedConfig,
        server_state: Any,
        app_state: dict[str, object],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        loop = _loop or asyncio.get_running_loop()
        self.state = State.CONNECTING
        self._connections = OpenConnections.of(server_state, config, loop)
        self._limits, self._root_path = config.limits, config.root_path
        self._uvicorn: HttpToolsProtocol | None = HttpToolsProtocol(
            config, server_state, {**app_state, CONNECTION: self}, loop
        )
        self._reader = RequestReader(config.limits)
        self._transport: asyncio.Transport | None = None
        self._loop = loop
        self._held = b""  # of the next requests
        self._head = b""  # of the answer, which goes out with the first part of its body
        self._thrown_bytes = 0
        self._is_feeding = self._has_refused = False  # uvicorn is being fed, and has answered by itself
        self._wants_pause = self._is_paused = self._is_surplus = False
        self._has_started = self._has_stream = self._has_eof = self._has_probed = self._expects_head = False

    # ── what asyncio calls ────────────────────────────────────────────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvloop has none other
        """Take the connection in, or drop it where there are too many."""
        state = self._connections.admit()
        if state is None:
            self.state, self._uvicorn = State.CLOSED, None
            transport.abort()
            return
        self._transport = transport
        self.state, self._is_surplus = state, state is State.SURPLUS
        self._connections.enter(self, state, None)
        if self._uvicorn is not None:
            self._uvicorn.connection_made(HeldTransport(transport, self))

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell uvicorn, and forget the connection."""
        del exc
        if self._transport is None:
            return
        self._connections.leave(self, self.state)
        self.state = State.CLOSED
        self._part()
        self._reader.release()
        self._held = b""

    def data_received(self, piece: bytes) -> None:
        """Read on, as far as the answers allow."""
        if self.state in ENDING:
            self._throw_away(len(piece))
        elif self.state in _ANSWERING:
            self._hold(piece)
        else:
            self._read(piece)

    def eof_received(self) -> bool:
        """Answer a complete request before the connection is closed."""
        self._has_eof = True
        self.step(ConnectionEvent.LEFT if self._has_stream and self.state is State.ANSWERING else ConnectionEvent.EOF)
        return self.state is State.HALF_CLOSED

    def pause_writing(self) -> None:
        """Require a slow client to fetch some of the answer."""
        self._connections.start_stall(self)
        if self._uvicorn is not None:
            self._uvicorn.pause_writing()

    def resume_writing(self) -> None:
        """Stop that clock, since the answer has gone out."""
        self._connections.end_stall(self)
        if self._uvicorn is not None:
            self._uvicorn.resume_writing()

    # ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _read(self, piece: bytes) -> None:
        start = 0
        while start < len(piece) and self.state not in ENDING:
            if self.state in _ANSWERING:
                self._hold(piece[start:])
                return
            end = self._read_request(piece, start)
            if end is not None:
                self._feed(piece if end - start == len(piece) else piece[start:end])
                start = end

    def _read_request(self, piece: bytes, start: int) -> int | None:
        """Read to the end of the request or of the piece, and return where that is; None where it is refused."""
        reader = self._reader
        was_begun, had_head, had_trailer = reader.has_begun, reader.has_head, reader.has_trailer
        if reader.is_complete:
            was_begun = had_head = had_trailer = False
        try:
            end = reader.read(piece, start)
        except (UnreadableRequest, OversizedRequest) as error:
            if reader.has_begun and self.state in (State.CONNECTING, State.IDLE):
                self.step(ConnectionEvent.BEGIN)
            self.step(ConnectionEvent.OVERSIZE if isinstance(error, OversizedRequest) else ConnectionEvent.MALFORMED)
            return None
        if reader.has_begun and not was_begun:
            self._begin_request()
        if reader.has_head and not had_head:
            self.step(ConnectionEvent.TURNED_AWAY if self._is_turned_away() else ConnectionEvent.HEAD_END)
        if reader.has_trailer and not had_trailer:
            self.step(ConnectionEvent.TRAILER)
        if reader.is_complete:
            self.step(ConnectionEvent.END)
        if self.state is State.DRAINING and reader.body_bytes > self._limits.drain_bytes:
            self.step(ConnectionEvent.OVERSIZE)
        return None if self.state in ENDING else end

    def _begin_request(self) -> None:
        self._has_started = self._has_stream = self._has_probed = False
        self.step(ConnectionEvent.BEGIN)

    def _is_turned_away(self) -> bool:
        """Return whether there is no place for the request; a place that has become free is taken."""
        if self.state is not State.SURPLUS or self._reader.url.partition(b"?")[0] in _ALWAYS:
            return False
        self._is_surplus = self._connections.count > self._limits.connections and not self._connections.make_room()
        return self._is_surplus

    def _feed(self, piece: bytes) -> None:
        """Hand bytes to uvicorn; what it writes meanwhile is its own refusal, since requests are answered later."""
        if self._uvicorn is None:
            return
        self._is_feeding = True
        try:
            self._uvicorn.data_received(piece)
        finally:
            self._is_feeding = False
        if self._has_refused:
            self.step(ConnectionEvent.MALFORMED)

    def _hold(self, piece: bytes) -> None:
        """Keep what follows a request until its answer is complete."""
        if self._reader.is_last:
            self._throw_away(len(piece))
            return
        self._held += piece
        self._pause_or_resume()

    def _throw_away(self, size: int) -> None:
        self._thrown_bytes += size
        if self._thrown_bytes > self._limits.linger_bytes:
            self.step(ConnectionEvent.OVERSIZE)

    def _pause_or_resume(self) -> None:
        wants_pause = self.state not in ENDING and (self._wants_pause or len(self._held) > self._limits.held_bytes)
        if self._transport is None or wants_pause == self._is_paused or self._transport.is_closing():
            return
        self._is_paused = wants_pause
        if wants_pause:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    # ── what uvicorn does with its transport ──────────────────────────────────────────────────────────────────────────

    @property
    def is_ending(self) -> bool:
        """Whether nothing more may be written."""
        return self.state in ENDING

    def write(self, content: bytes) -> None:
        """Write a part of an answer."""
        if self._is_feeding:
            self._has_refused = True
        elif self._expects_head:  # a packet for it alone would wake the client twice
            self._expects_head = False
            self._head = content
            self._loop.call_soon(self._send_head)
        elif self._transport is not None and self.state not in ENDING:
            if self._head:
                content, self._head = self._head + content, b""
            self._transport.write(content)

    def _send_head(self) -> None:
        """Write the head of an answer whose body does not follow at once."""
        head, self._head = self._head, b""
        if head and self._transport is not None and self.state not in ENDING:
            self._transport.write(head)

    def shut(self) -> None:
        """Close the connection: uvicorn has written its last answer."""
        if not self._is_feeding:
            self._send_head()
            self.step(ConnectionEvent.SHUT)

    def pause_reading(self) -> None:
        """Read no more for now: the application has not taken the body."""
        self._wants_pause = True
        self._pause_or_resume()

    def resume_reading(self) -> None:
        """Read on."""
        self._wants_pause = False
        self._pause_or_resume()

    # ── what the watch around the application says ────────────────────────────────────────────────────────────────────

    def begin_answer(self, scope: Message) -> None:
        """Let the application see the headers of the head, without those that follow the body."""
        if self._reader.is_chunked:
            scope["headers"] = scope["headers"][: self._reader.header_count]

    def start_answer(self, message: Message) -> None:
        """Note what is answered; a connection above the limit takes no second request."""
        self._has_started = self._expects_head = True
        headers = message.get("headers", ())
        self._has_stream = any(content.startswith(b"text/event-stream") for _, content in headers)
        if self._is_surplus:
            message["headers"] = [*headers, (b"connection", b"close")]

    def end_answer(self) -> None:
        """Go on with what the client has sent meanwhile."""
        self._send_head()
        self.step(ConnectionEvent.ANSWERED)
        if self.state is State.IDLE and self._reader.is_last:
            self.step(ConnectionEvent.SHUT)
        if self.state is State.IDLE and self._held:
            held, self._held = self._held, b""
            self._pause_or_resume()
            self._read(held)
        if self._has_eof and self.state not in ENDING:
            self.step(ConnectionEvent.EOF)

    # ── the table ─────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def body_bytes(self) -> int:
        """The bytes of the body that have come."""
        return self._reader.body_bytes

    @property
    def unsent_bytes(self) -> int:
        """The bytes of answers that the client has not fetched."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def step(self, event: ConnectionEvent) -> None:
        """Let an event happen: go to the next state, if there is one."""
        step = TABLE.get((self.state, event))
        if step is None or self._transport is None:
            return
        previous, self.state = self.state, step.state
        self._connections.enter(self, step.state, previous)
        if step.state in ENDING:
            self._end(step.state, previous, step.status)
        elif event is ConnectionEvent.OVERTIME:
            self._probe()

    def _end(self, state: State, previous: State, status: http.HTTPStatus | None) -> None:
        assert self._transport is not None
        self._held = b""
        if status is not None:
            self._part()
            if self._has_started and previous not in (State.CONNECTING, State.IDLE, State.HEAD):
                self._transport.abort()  # in the middle of an answer
                return
            self._transport.write(refusal(previous, status, self._limits, self._root_path, self._reader.fault))
        self._pause_or_resume()
        if state is State.CLOSED:
            self._transport.abort()
        elif state is State.LINGERING and self._transport.can_write_eof() and not self._has_eof:
            self._transport.write_eof()
        else:
            self._transport.close()

    def _probe(self) -> None:
        """Find out whether a client that sends nothing more has gone: it resets the connection when it gets something.

        Nothing is read any more, so that the socket has to be asked.
        """
        assert self._transport is not None
        if not self._has_probed and not self._has_started and not self._reader.has_old_http:
            self._has_probed = True
            self._transport.write(_PROBE)
            return
        connected = self._transport.get_extra_info("socket")
        if connected is not None and connected.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._transport.abort()

    def _part(self) -> None:
        """Tell uvicorn that its client has gone."""
        if self._uvicorn is not None:
            uvicorn, self._uvicorn = self._uvicorn, None
            uvicorn.connection_lost(None)
