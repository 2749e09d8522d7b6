"""Streams of events as answers: counted apart, kept open by comments, ended with the server or the key that asked."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Final

import anyio
from fastapi import FastAPI, Request
from sse_starlette.event import ServerSentEvent
from sse_starlette.sse import EventSourceResponse
from starlette.types import Receive, Scope, Send

from refaug.core.errors import Overloaded, RefaugError
from refaug.service.web.dependencies import token_of
from refaug.service.web.state import ServiceState, state_of

PING_S: Final = 15  # proxies drop a connection that is silent for half a minute
_GRACE_S: Final = 5.0  # for the last query of a stream when the server stops; it takes milliseconds


class EventStream(EventSourceResponse):
    """A stream of events; the server counts the open ones, and their number is limited.

    `stopping` is set when the server stops; the application hears of that only when all requests have ended.
    """

    def __init__(
        self,
        content: AsyncGenerator[ServerSentEvent, None],
        request: Request,
        stopping: anyio.Event,
        *,
        remedy: str,
        ping_s: float = PING_S,
    ) -> None:

        def ping() -> ServerSentEvent:
            if not _is_allowed(request):
                stopping.set()  # a silent stream ends, too
            return _ping()

        super().__init__(
            _while_allowed(content, request),
            ping=ping_s,
            ping_message_factory=ping,
            sep="\n",
            shutdown_event=stopping,
            shutdown_grace_period=_GRACE_S,
        )
        self._app: FastAPI = request.app
        _require_room(self._app, remedy)
        self._app.state.streams = _stream_count(self._app) + 1

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stream the events; at the end, also after an error, the stream no longer counts."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._app.state.streams -= 1


async def _while_allowed(
    content: AsyncGenerator[ServerSentEvent, None], request: Request
) -> AsyncIterator[ServerSentEvent]:
    """Yield the events until the key of the request was revoked or has expired."""
    async with aclosing(content):
        async for event in content:
            if not _is_allowed(request):
                return
            yield event


def _is_allowed(request: Request) -> bool:
    try:
        state_of(request).keys.check(token_of(request))
    except RefaugError:
        return False
    return True


def _stream_count(app: FastAPI) -> int:
    count: int = getattr(app.state, "streams", 0)
    return count


def _require_room(app: FastAPI, remedy: str) -> None:
    state: ServiceState = app.state.refaug
    if _stream_count(app) >= state.serve.streams:
        raise Overloaded(f"{state.serve.streams:,} streams of events are open", remedy=remedy, retry_after_s=5)


def _ping() -> ServerSentEvent:
    return ServerSentEvent(comment="still here", sep="\n")
