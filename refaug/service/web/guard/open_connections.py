"""The open connections of a web process, in the order in which they came into their states: their clocks, their number.

Each state has one limit of time, so that the first connection of a state is the first whose time is over: a look at the
first of each state, a few times a second, takes no longer for many connections than for one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final, Protocol
from weakref import WeakKeyDictionary

from refaug.service.process.guarded_config import ConnectionLimits, GuardedConfig
from refaug.service.web.guard.states import EVICTION, SECONDS, ConnectionEvent, State

_MAX_TICK_S: Final = 0.25
_EXAMINED_BODIES: Final = 16  # the oldest requests whose speed is looked at when a place is needed

_servers: WeakKeyDictionary[object, OpenConnections] = WeakKeyDictionary()


class GuardedConnection(Protocol):
    """What the clocks need of a connection."""

    state: State

    @property
    def body_bytes(self) -> int:
        """The bytes of the body that have come."""

    @property
    def unsent_bytes(self) -> int:
        """The bytes of answers that the client has not fetched."""

    def step(self, event: ConnectionEvent) -> None:
        """Let an event happen."""


class OpenConnections:
    """All connections of one server."""

    def __init__(self, config: GuardedConfig, loop: asyncio.AbstractEventLoop) -> None:
        self._config, self._loop = config, loop
        self._entered: dict[State, dict[GuardedConnection, float]] = {state: {} for state in State}
        self._stalled = dict[GuardedConnection, tuple[float, int]]()
        self._closing_bytes = dict[GuardedConnection, int]()
        self._is_ticking = False
        self.count = 0

    @classmethod
    def of(cls, server: object, config: GuardedConfig, loop: asyncio.AbstractEventLoop) -> OpenConnections:
        """Return the connections of a server, by the state that it shares among them."""
        connections = _servers.get(server)
        if connections is None:
            connections = _servers[server] = cls(config, loop)
        return connections

    @property
    def limits(self) -> ConnectionLimits:
        """The limits, as they are now."""
        return self._config.limits

    def admit(self) -> State | None:
        """Return the state of a new connection, or None where there is no place even for an error."""
        limits = self.limits
        if self.count >= limits.connections and not self.make_room():
            if self.count >= limits.connections + limits.surplus_connections:
                return None
            return State.SURPLUS
        return State.CONNECTING

    def make_room(self) -> bool:
        """Close the connection that most deserves it, and return whether there was one."""
        for state, limit in EVICTION.items():
            latest = self._loop.time() - getattr(self.limits, limit)
            for connection, entered in self._oldest(state):
                if entered > latest:
                    break
                if state is not State.BODY or self._is_slow(connection, entered):
                    connection.step(ConnectionEvent.EVICTED)
                    return True
        return False

    def _oldest(self, state: State) -> Iterator[tuple[GuardedConnection, float]]:
        oldest = iter(self._entered[state].items())
        for _ in range(_EXAMINED_BODIES):
            if (entry := next(oldest, None)) is None:
                return
            yield entry

    def _is_slow(self, connection: GuardedConnection, entered: float) -> bool:
        return connection.body_bytes < self.limits.slow_bytes_s * (self._loop.time() - entered)

    def enter(self, connection: GuardedConnection, state: State, previous: State | None) -> None:
        """Start the clock of a state, and stop that of the state that the connection has left."""
        if previous is None:
            self.count += 1
        else:
            self._entered[previous].pop(connection, None)
        self._entered[state][connection] = self._loop.time()
        if state is State.CLOSING:
            self._closing_bytes[connection] = connection.unsent_bytes
        if not self._is_ticking:
            self._is_ticking = True
            self._tick_later()

    def leave(self, connection: GuardedConnection, state: State) -> None:
        """Forget a connection that is gone."""
        self.count -= 1
        self._entered[state].pop(connection, None)
        self._stalled.pop(connection, None)
        self._closing_bytes.pop(connection, None)

    def start_stall(self, connection: GuardedConnection) -> None:
        """Start the clock of an answer that waits for its client."""
        self._stalled[connection] = (self._loop.time(), connection.unsent_bytes)

    def end_stall(self, connection: GuardedConnection) -> None:
        """Stop that clock."""
        self._stalled.pop(connection, None)

    def _tick_later(self) -> None:
        shortest = min(getattr(self.limits, field) for field in SECONDS.values())
        self._loop.call_later(min(_MAX_TICK_S, shortest / 4), self._tick)

    def _tick(self) -> None:
        if not self.count:
            self._is_ticking = False
            return
        now = self._loop.time()
        for state, field in SECONDS.items():
            latest = now - getattr(self.limits, field)
            for connection in self._overdue(state, latest):
                self._end_time(connection, state, now)
        for connection, (since, unsent_bytes) in list(self._stalled.items()):
            if since > now - self.limits.fetch_s:
                break
            self._stalled.pop(connection)
            if connection.unsent_bytes >= unsent_bytes:
                connection.step(ConnectionEvent.STALLED)
            else:
                self.start_stall(connection)
        self._tick_later()

    def _overdue(self, state: State, latest: float) -> list[GuardedConnection]:
        overdue = list[GuardedConnection]()
        for connection, entered in self._entered[state].items():
            if entered > latest:
                break
            overdue.append(connection)
        return overdue

    def _end_time(self, connection: GuardedConnection, state: State, now: float) -> None:
        """Let the time of a state be over; who still fetches the rest of an answer gets more of it."""
        if connection.state is not state:
            return
        unsent_bytes = connection.unsent_bytes
        if state is State.CLOSING and unsent_bytes < self._closing_bytes[connection]:
            self._entered[state].pop(connection)
            self._entered[state][connection] = now
            self._closing_bytes[connection] = unsent_bytes
        else:
            connection.step(ConnectionEvent.OVERTIME)
