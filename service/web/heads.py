"""HEAD is answered as GET is, without the body: load balancers and download managers ask so."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Heads:
    """Routes are asked for what their GET answers; the body stays here."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through; of a HEAD the route sees a GET."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        as_get = {**scope, "method": "GET"}  # a copy: the server must know that no body is to come
        try:
            await self._app(as_get, receive, _without_body(send))
        finally:
            scope.update({name: value for name, value in as_get.items() if name not in scope})


def _without_body(send: Send) -> Send:
    """The answer ends with its head; to a stream it is as if its listener had gone."""

    async def head(message: Message) -> None:
        if message["type"] == "http.response.start":
            await send(message)
            await send({"type": "http.response.body", "body": b""})

    return head
