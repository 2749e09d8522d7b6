"""HEAD requests are answered like GET without the body, as load balancers and download managers expect."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class HeadAsGet:
    """Middleware that hands HEAD to the application as GET and drops the body."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through; the route sees a GET instead of a HEAD."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        as_get = {**scope, "method": "GET"}  # a copy: the server must know that no body follows
        try:
            await self._app(as_get, receive, _without_body(send))
        finally:
            scope.update({name: value for name, value in as_get.items() if name not in scope})


def _without_body(send: Send) -> Send:
    """End the response with its start; a stream sees its listener disconnect."""

    async def head(message: Message) -> None:
        if message["type"] == "http.response.start":
            await send(message)
            await send({"type": "http.response.body", "body": b""})

    return head
