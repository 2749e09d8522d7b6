"""What routes ask for: a key that allows them, the time they have, and whether somebody still waits for the answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from typing import Annotated, Any, Final, TypeVar

from fastapi import Depends, Header, Request

from core.errors import RefaugError
from service.keys import Key, Scope
from service.web.problems import BadRequest
from service.web.state import state_of

T = TypeVar("T")
_KEY: Final = "refaug.key"  # under which a request carries whose it is
_ITEMS: Final = "refaug.items"


# ── keys ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class Requires:
    """A dependency that lets a request pass whose key has this scope; the OpenAPI document reads which one it is."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    async def __call__(self, request: Request) -> Key:
        """The key; NoKey, NotAllowed or TooMany where there is none that may."""
        state = state_of(request)
        key = state.keys.check(token_of(request))
        request.scope[_KEY] = key
        key.require(self.scope)
        state.rates.take(key)
        return key


def requires(scope: Scope) -> Requires:
    """What a route depends on that needs a key of this scope."""
    return Requires(scope)


def token_of(request: Request) -> str | None:
    """The token that came along, in either of the two headers."""
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer" and token.strip():
        return token.strip()
    return request.headers.get("x-api-key", "").strip() or None


def key_of(request: Request) -> Key:
    """Whose request it is, once `requires` has let it pass."""
    found: Key = request.scope[_KEY]
    return found


def key_name(scope: Any) -> str | None:
    """The same for the log: the id of a key, never its token."""
    key = scope.get(_KEY)
    return None if key is None else key.id


# ── how much, and how long ────────────────────────────────────────────────────────────────────────────────────────


def counted(request: Request, items: int) -> None:
    """Say for the log how many items a request had."""
    request.scope[_ITEMS] = items


def items_in(scope: Any) -> int | None:
    """What was said of them."""
    found: int | None = scope.get(_ITEMS)
    return found


async def deadline(  # async, though it waits for nothing: else it would be run in a thread
    request: Request,
    x_timeout_s: Annotated[
        float | None,
        Header(
            gt=0,
            description="Seconds that the answer may take, at most the server's `timeout_s`; then it is 503 `expired`.",
        ),
    ] = None,
) -> float:
    """When the work for a request has to be done, on the clock of `time.monotonic`."""
    most = state_of(request).serve.timeout_s
    if x_timeout_s is not None and not x_timeout_s <= most:
        raise BadRequest(
            f"X-Timeout-S: {x_timeout_s:g} s is more than this server gives",
            errors=[{"item": None, "place": None, "field": "header.x-timeout-s", "message": f"at most {most:g}"}],
            remedy=f"ask for at most {most:g} s, or for fewer items",
        )
    return time.monotonic() + (most if x_timeout_s is None else x_timeout_s)


Deadline = Annotated[float, Depends(deadline)]


class ClientGone(RefaugError):
    """Nobody waits for the answer any more."""

    code, status = "client_gone", 499


async def while_connected(request: Request, work: Awaitable[T]) -> T:
    """What the work gives; it is dropped as soon as the client hangs up. The body has been read before."""
    worker = asyncio.current_task()
    assert worker is not None, "routes run in tasks"
    gone = asyncio.ensure_future(_gone(request))
    has_gone = is_over = False

    def drop(listening: asyncio.Future[None]) -> None:
        nonlocal has_gone
        if is_over or listening.cancelled():  # called by the loop, which may be later than the end of the work
            return
        listening.exception()  # heard: whatever ends the connection, nobody is there any more
        has_gone = True
        worker.cancel()

    gone.add_done_callback(drop)
    try:
        return await work
    except asyncio.CancelledError:
        if has_gone and worker.uncancel() == 0:  # or else somebody else wants an end as well
            raise ClientGone from None
        raise
    finally:
        is_over = True
        gone.cancel()


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
