"""Streams of events as answers: counted apart from other requests, kept open by comments, ended with the server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

import anyio
from fastapi import FastAPI
from sse_starlette.event import ServerSentEvent
from sse_starlette.sse import EventSourceResponse
from starlette.types import Receive, Scope, Send

from refaug.core.errors import Overloaded
from refaug.service.web.state import ServiceState

PING_S: Final = 15  # proxies drop a connection that is silent for half a minute
_GRACE_S: Final = 5.0  # for the last query of a stream when the server stops; it takes milliseconds


class EventStream(EventSourceResponse):
    """A stream of events; the server counts the open ones, and their number is limited.

    `stopping` is set when the server stops; the application hears of that only when all requests have ended.
    """

    def __init__(
        self,
        content: AsyncIterator[ServerSentEvent],
        app: FastAPI,
        stopping: anyio.Event,
        *,
        remedy: str,
        ping_s: float = PING_S,
    ) -> None:
        super().__init__(
            content,
            ping=ping_s,
            ping_message_factory=_ping,
            sep="\n",
            shutdown_event=stopping,
            shutdown_grace_period=_GRACE_S,
        )
        self._app = app
        _require_room(app, remedy)
        app.state.streams = _stream_count(app) + 1

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stream the events; at the end, also after an error, the stream no longer counts."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._app.state.streams -= 1


def _stream_count(app: FastAPI) -> int:
    count: int = getattr(app.state, "streams", 0)
    return count


def _require_room(app: FastAPI, remedy: str) -> None:
    state: ServiceState = app.state.refaug
    if _stream_count(app) >= state.serve.streams:
        raise Overloaded(f"{state.serve.streams:,} streams of events are open", remedy=remedy, retry_after_s=5)


def _ping() -> ServerSentEvent:
    return ServerSentEvent(comment="still here", sep="\n")
