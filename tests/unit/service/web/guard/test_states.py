"""The table of a connection's states: every pair of state and event, on a guard whose transport is played."""

from __future__ import annotations

import asyncio
from dataclasses import fields
from typing import Any

import pytest
from uvicorn.server import ServerState

from refaug.service.process.guarded_config import ConnectionLimits, GuardedConfig
from refaug.service.web.guard.guard import Guard
from refaug.service.web.guard.states import ENDING, EVICTION, SECONDS, TABLE, ConnectionEvent, State

ROWS = {
    State.CONNECTING: "BEGIN>HEAD OVERTIME>CLOSING OVERSIZE>400 MALFORMED>400 EOF>CLOSING SHUT>CLOSING EVICTED>CLOSING",
    State.SURPLUS: "HEAD_END>BODY TURNED_AWAY>503 OVERTIME>CLOSING OVERSIZE>431 MALFORMED>400 EOF>CLOSING SHUT>CLOSING",
    State.HEAD: "HEAD_END>BODY OVERTIME>408 OVERSIZE>431 MALFORMED>400 EOF>CLOSING SHUT>CLOSING EVICTED>503",
    State.BODY: (
        "TRAILER>TRAILERS END>ANSWERING ANSWERED>DRAINING OVERTIME>408 OVERSIZE>431 MALFORMED>400 EOF>CLOSING "
        "SHUT>LINGERING EVICTED>503 STALLED>CLOSED"
    ),
    State.TRAILERS: (
        "END>ANSWERING ANSWERED>DRAINING OVERTIME>408 OVERSIZE>431 MALFORMED>400 EOF>CLOSING SHUT>LINGERING "
        "EVICTED>503 STALLED>CLOSED"
    ),
    State.ANSWERING: "ANSWERED>IDLE MALFORMED>400 EOF>HALF_CLOSED LEFT>CLOSING SHUT>CLOSING STALLED>CLOSED",
    State.HALF_CLOSED: "ANSWERED>IDLE OVERTIME>HALF_CLOSED SHUT>CLOSING STALLED>CLOSED",
    State.DRAINING: (
        "END>IDLE OVERTIME>CLOSING OVERSIZE>CLOSING MALFORMED>CLOSING EOF>CLOSING SHUT>LINGERING EVICTED>CLOSING "
        "STALLED>CLOSED"
    ),
    State.IDLE: (
        "BEGIN>HEAD OVERTIME>CLOSING OVERSIZE>400 MALFORMED>400 EOF>CLOSING SHUT>CLOSING EVICTED>CLOSING STALLED>CLOSED"
    ),
    State.LINGERING: "OVERTIME>CLOSED OVERSIZE>CLOSED EOF>CLOSING EVICTED>CLOSED",
    State.CLOSING: "OVERTIME>CLOSED",
    State.CLOSED: "",
}
EXPECTED = {
    (state, ConnectionEvent[row.partition(">")[0]]): row.partition(">")[2]
    for state, rows in ROWS.items()
    for row in rows.split()
} | {(state, ConnectionEvent.LOST): "CLOSED" for state in State if state is not State.CLOSED}


class PlayedTransport(asyncio.Transport):
    """A transport that writes down what is done with it."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.written = b""

    def write(self, content: Any) -> None:
        self.written += content

    def close(self) -> None:
        self.calls.append("close")

    def abort(self) -> None:
        self.calls.append("abort")

    def write_eof(self) -> None:
        self.calls.append("write_eof")

    def can_write_eof(self) -> bool:
        return True

    def is_closing(self) -> bool:
        return bool({"close", "abort"} & set(self.calls))

    def get_write_buffer_size(self) -> int:
        return 0


async def _no_application(*_call: Any) -> None:
    raise AssertionError("no request is complete")


def _guard() -> tuple[Guard, PlayedTransport]:
    config = GuardedConfig("", limits=ConnectionLimits(), log_config=None, proxy_headers=False, factory=True)
    config.app = lambda: _no_application
    guard, transport = Guard(config, ServerState(), {}, asyncio.get_running_loop()), PlayedTransport()
    guard.connection_made(transport)
    return guard, transport


@pytest.mark.parametrize("state", State, ids=lambda state: state.name)
@pytest.mark.parametrize("event", ConnectionEvent, ids=lambda event: event.name)
def test_every_pair_of_state_and_event_does_what_its_row_says(state: State, event: ConnectionEvent) -> None:
    async def play() -> tuple[Guard, PlayedTransport]:
        guard, transport = _guard()
        guard.step(ConnectionEvent.BEGIN)
        guard.state = state
        guard.step(event)
        return guard, transport

    guard, transport = asyncio.run(play())
    expected = EXPECTED.get((state, event))
    if expected is None:
        assert (guard.state, transport.written, transport.calls) == (state, b"", [])
    elif expected.isdigit():
        assert transport.written.startswith(f"HTTP/1.1 {expected} ".encode())
        assert (guard.state, transport.calls) == (State.LINGERING, ["write_eof"])
    else:
        assert guard.state is State[expected]
        ends = {State.CLOSING: ["close"], State.CLOSED: ["abort"], State.LINGERING: ["write_eof"]}
        assert transport.calls == ends.get(guard.state, [])


def test_the_table_has_these_rows_and_no_other() -> None:
    assert set(TABLE) == set(EXPECTED)


def test_each_state_that_a_client_can_prolong_has_a_limit_of_time() -> None:
    limits = {field.name for field in fields(ConnectionLimits)}
    assert set(SECONDS.values()) | set(EVICTION.values()) <= limits
    assert set(State) - set(SECONDS) == {State.ANSWERING, State.CLOSED}, "the application and nobody"
    for state in SECONDS:
        assert (state, ConnectionEvent.OVERTIME) in TABLE
    for state in EVICTION:
        assert TABLE[state, ConnectionEvent.EVICTED].state in ENDING


def test_every_state_is_reached_and_leads_to_the_end() -> None:
    reached, steps = {State.CONNECTING, State.SURPLUS}, set(TABLE.items())
    for _ in State:
        reached |= {step.state for (state, _event), step in steps if state in reached}
    assert reached == set(State)
    for state in SECONDS:
        over = TABLE[state, ConnectionEvent.OVERTIME].state
        assert over in ENDING or over is State.HALF_CLOSED, state
    assert (
        TABLE[State.LINGERING, ConnectionEvent.OVERTIME].state
        is TABLE[State.CLOSING, ConnectionEvent.OVERTIME].state
        is State.CLOSED
    )
