"""uvicorn's configuration with limits for connections, and with a watch on when answers begin and end.

The guard of a connection (`refaug.service.web.guard`) reads the limits, and learns from the watch, which stands around
the whole application, when an answer is complete: the bytes that a client sends do not say so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from uvicorn import Config

CONNECTION: Final = "refaug.connection"  # the guard in the state of a request, until the watch takes it out
GUARD: Final = "refaug.service.web.guard.guard:Guard"

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]


@dataclass(frozen=True, kw_only=True)
class ConnectionLimits:
    """What a connection may take of a web process: seconds in each state, bytes, and how many there may be."""

    connections: int = 1_000
    surplus_connections: int = 64  # above the limit, that get an error; further ones are dropped at once

    idle_s: float = 75.0  # before the first request, and between two requests
    head_s: float = 30.0  # for the head of a request, from its first byte
    body_s: float = 35.0  # for the body; a little more than the routes wait, so that they answer
    trailers_s: float = 5.0
    drain_s: float = 30.0  # for the rest of a body that is answered already
    fetch_s: float = 60.0  # in which a client must fetch some of a waiting answer
    linger_s: float = 2.0  # for the client to read an error, while what it still sends is thrown away
    surplus_s: float = 2.0  # for the head of a request above the limit of connections
    probe_s: float = 1.0  # between two looks whether a client that has closed its sending side is still there
    slow_s: float = 1.0  # after which an incomplete request may have to make room for a new connection
    quiet_s: float = 5.0  # after which a connection without a request may have to

    stray_bytes: int = 1 << 10  # line ends before a request
    head_bytes: int = 1 << 16  # address and headers: several times the limits of proxies
    trailer_bytes: int = 1 << 14
    framing_bytes: int = 1 << 16  # of a chunked body beside its content, of which a quarter comes on top
    drain_bytes: int = 1 << 27
    linger_bytes: int = 1 << 20
    held_bytes: int = 1 << 16  # of the next requests, read while one is answered
    slow_bytes_s: int = 1 << 10  # a body that comes slower may have to make room


class GuardedConfig(Config):
    """uvicorn's configuration with the guard as its protocol."""

    def __init__(self, app: str, *, limits: ConnectionLimits, **options: Any) -> None:
        super().__init__(app, http=GUARD, **options)
        self.limits = limits

    def load(self) -> None:
        """Load the application, and set the watch around it."""
        super().load()
        self.loaded_app: Any = AnswerWatch(self.loaded_app)


class WatchedConnection(Protocol):
    """What a connection learns of its answers."""

    def begin_answer(self, scope: Message) -> None:
        """Prepare the request for the application, which is about to see it."""

    def start_answer(self, message: Message) -> None:
        """Take note of the status and the headers that are about to be sent, and add to them."""

    def end_answer(self) -> None:
        """Take note that the answer is complete."""


class AnswerWatch:
    """The outermost ASGI layer: it tells each connection when an answer begins and ends."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Let one request through."""
        connection: WatchedConnection | None = scope.get("state", {}).pop(CONNECTION, None)
        if connection is None:
            await self._app(scope, receive, send)
            return
        connection.begin_answer(scope)
        is_complete = False

        async def watched_send(message: Message) -> None:
            nonlocal is_complete
            if message["type"] == "http.response.start":
                connection.start_answer(message)
            await send(message)
            if message["type"] == "http.response.body" and not message.get("more_body", False):
                is_complete = True
                connection.end_answer()

        try:
            await self._app(scope, receive, watched_send)
        finally:
            if not is_complete:  # uvicorn now answers by itself, or closes the connection
                asyncio.get_running_loop().call_soon(connection.end_answer)
