"""The states of a connection, what can happen in each, and how long each may last: one table.

    CONNECTING ─ BEGIN → HEAD ─ HEAD_END → BODY ─ END → ANSWERING ─ ANSWERED → IDLE ─ BEGIN → HEAD …

A pair of state and event that is not in the table changes nothing.
"""

from __future__ import annotations

import enum
import http
from collections.abc import Mapping
from typing import Final, NamedTuple


class State(enum.IntEnum):
    """Where a connection stands."""

    __hash__ = int.__hash__  # in C: each request looks its states up a dozen times

    CONNECTING = enum.auto()  # open, without a byte of a request
    SURPLUS = enum.auto()  # above the limit of connections, without a whole head
    HEAD = enum.auto()  # a request has begun
    BODY = enum.auto()  # its head is complete
    TRAILERS = enum.auto()  # headers come after a chunked body
    ANSWERING = enum.auto()  # the request is complete, the answer is not
    HALF_CLOSED = enum.auto()  # as ANSWERING, and the client sends nothing more
    DRAINING = enum.auto()  # the answer is complete, the request is not
    IDLE = enum.auto()  # between two requests
    LINGERING = enum.auto()  # closed for writing; what still comes is thrown away
    CLOSING = enum.auto()  # closed as soon as the client has fetched the answer
    CLOSED = enum.auto()


class ConnectionEvent(enum.IntEnum):
    """What happens to a connection."""

    __hash__ = int.__hash__

    BEGIN = enum.auto()  # the first byte of a request
    HEAD_END = enum.auto()
    TRAILER = enum.auto()  # the first header after a body
    END = enum.auto()  # the request is complete
    ANSWERED = enum.auto()  # the answer is complete
    SHUT = enum.auto()  # uvicorn closes the connection
    EOF = enum.auto()  # the client closes its sending side
    LEFT = enum.auto()  # the same during a stream of events, which lasts as long as somebody listens
    OVERTIME = enum.auto()  # the state has lasted too long
    OVERSIZE = enum.auto()  # too many bytes
    MALFORMED = enum.auto()  # bytes that are no request
    TURNED_AWAY = enum.auto()  # the head of a request above the limit of connections is complete
    EVICTED = enum.auto()  # a new connection needs the place
    STALLED = enum.auto()  # the client does not fetch the answer
    LOST = enum.auto()  # the connection is gone


class Transition(NamedTuple):
    """The next state, and the status of the error that the client gets on the way there."""

    state: State
    status: http.HTTPStatus | None = None


# The field of ConnectionLimits that says how long a state may last; ANSWERING lasts as long as the application takes.
SECONDS: Final[Mapping[State, str]] = {
    State.CONNECTING: "idle_s",
    State.SURPLUS: "surplus_s",
    State.HEAD: "head_s",
    State.BODY: "body_s",
    State.TRAILERS: "trailers_s",
    State.HALF_CLOSED: "probe_s",
    State.DRAINING: "drain_s",
    State.IDLE: "idle_s",
    State.LINGERING: "linger_s",
    State.CLOSING: "fetch_s",
}

# The states whose connections make room for a new one, in this order, and the field of the limit of their age.
EVICTION: Final[Mapping[State, str]] = {
    State.LINGERING: "slow_s",
    State.HEAD: "slow_s",
    State.TRAILERS: "slow_s",
    State.BODY: "slow_s",
    State.DRAINING: "slow_s",
    State.CONNECTING: "quiet_s",
    State.IDLE: "quiet_s",
}

# The connection takes no more requests; what comes is thrown away.
ENDING: Final = frozenset({State.LINGERING, State.CLOSING, State.CLOSED})

_CLOSE: Final = Transition(State.CLOSING)
_ABORT: Final = Transition(State.CLOSED)
_BAD: Final = Transition(State.LINGERING, http.HTTPStatus.BAD_REQUEST)
_SLOW: Final = Transition(State.LINGERING, http.HTTPStatus.REQUEST_TIMEOUT)
_LARGE: Final = Transition(State.LINGERING, http.HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
_BUSY: Final = Transition(State.LINGERING, http.HTTPStatus.SERVICE_UNAVAILABLE)

_BETWEEN: Final[Mapping[ConnectionEvent, Transition]] = {
    ConnectionEvent.BEGIN: Transition(State.HEAD),
    ConnectionEvent.OVERTIME: _CLOSE,
    ConnectionEvent.OVERSIZE: _BAD,
    ConnectionEvent.MALFORMED: _BAD,
    ConnectionEvent.EOF: _CLOSE,
    ConnectionEvent.SHUT: _CLOSE,
    ConnectionEvent.EVICTED: _CLOSE,
}
_IN_BODY: Final[Mapping[ConnectionEvent, Transition]] = {
    ConnectionEvent.END: Transition(State.ANSWERING),
    ConnectionEvent.ANSWERED: Transition(State.DRAINING),
    ConnectionEvent.OVERTIME: _SLOW,
    ConnectionEvent.OVERSIZE: _LARGE,
    ConnectionEvent.MALFORMED: _BAD,
    ConnectionEvent.EOF: _CLOSE,
    ConnectionEvent.SHUT: Transition(State.LINGERING),  # the answer came early: the client has to be able to read it
    ConnectionEvent.EVICTED: _BUSY,
    ConnectionEvent.STALLED: _ABORT,
}
_ROWS: Final[Mapping[State, Mapping[ConnectionEvent, Transition]]] = {
    State.CONNECTING: _BETWEEN,
    State.SURPLUS: {
        ConnectionEvent.HEAD_END: Transition(State.BODY),
        ConnectionEvent.TURNED_AWAY: _BUSY,
        ConnectionEvent.OVERTIME: _CLOSE,
        ConnectionEvent.OVERSIZE: _LARGE,
        ConnectionEvent.MALFORMED: _BAD,
        ConnectionEvent.EOF: _CLOSE,
        ConnectionEvent.SHUT: _CLOSE,
    },
    State.HEAD: {
        ConnectionEvent.HEAD_END: Transition(State.BODY),
        ConnectionEvent.OVERTIME: _SLOW,
        ConnectionEvent.OVERSIZE: _LARGE,
        ConnectionEvent.MALFORMED: _BAD,
        ConnectionEvent.EOF: _CLOSE,
        ConnectionEvent.SHUT: _CLOSE,
        ConnectionEvent.EVICTED: _BUSY,
    },
    State.BODY: {**_IN_BODY, ConnectionEvent.TRAILER: Transition(State.TRAILERS)},
    State.TRAILERS: _IN_BODY,
    State.ANSWERING: {
        ConnectionEvent.ANSWERED: Transition(State.IDLE),
        ConnectionEvent.MALFORMED: _BAD,
        ConnectionEvent.EOF: Transition(State.HALF_CLOSED),
        ConnectionEvent.LEFT: _CLOSE,
        ConnectionEvent.SHUT: _CLOSE,
        ConnectionEvent.STALLED: _ABORT,
    },
    State.HALF_CLOSED: {
        ConnectionEvent.ANSWERED: Transition(State.IDLE),
        ConnectionEvent.OVERTIME: Transition(State.HALF_CLOSED),  # looks whether the client is still there
        ConnectionEvent.SHUT: _CLOSE,
        ConnectionEvent.STALLED: _ABORT,
    },
    State.DRAINING: {
        ConnectionEvent.END: Transition(State.IDLE),
        ConnectionEvent.OVERTIME: _CLOSE,
        ConnectionEvent.OVERSIZE: _CLOSE,
        ConnectionEvent.MALFORMED: _CLOSE,
        ConnectionEvent.EOF: _CLOSE,
        ConnectionEvent.SHUT: Transition(State.LINGERING),
        ConnectionEvent.EVICTED: _CLOSE,
        ConnectionEvent.STALLED: _ABORT,
    },
    State.IDLE: {**_BETWEEN, ConnectionEvent.STALLED: _ABORT},
    State.LINGERING: {
        ConnectionEvent.OVERTIME: _ABORT,
        ConnectionEvent.OVERSIZE: _ABORT,
        ConnectionEvent.EOF: _CLOSE,
        ConnectionEvent.EVICTED: _ABORT,
    },
    State.CLOSING: {ConnectionEvent.OVERTIME: _ABORT},  # if the client has fetched nothing meanwhile
}

TABLE: Final[Mapping[tuple[State, ConnectionEvent], Transition]] = {
    **{(state, event): step for state, row in _ROWS.items() for event, step in row.items()},
    **{(state, ConnectionEvent.LOST): _ABORT for state in State if state is not State.CLOSED},
}
