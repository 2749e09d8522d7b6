"""What routes share: the key of a request, its deadline, page and audit row, and whether its client still waits."""

from __future__ import annotations

import asyncio
import re
import time
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, Final, TypedDict, TypeVar

from fastapi import Depends, Header, Query, Request

from refaug.core.errors import RefaugError
from refaug.service.audit import actor_of
from refaug.service.keys import ANONYMOUS, Key, WrongKey, id_in
from refaug.service.scopes import Scope
from refaug.service.web.problems import BadRequest
from refaug.service.web.state import ServiceState, state_of

T = TypeVar("T")
_KEY: Final = "refaug.key"  # of the request's key in the ASGI scope
_ITEMS: Final = "refaug.items"
_PLACE: Final = "refaug.key_place"
_UPLOADING: Final = "refaug.uploading_key"  # the key of a request whose body is still to come
_EVENT_STREAM: Final = re.compile(r"/v1/(?:jobs|studies)/[^/]+/events")


# ── Keys ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


class Requires:
    """A dependency that lets a request pass if its key has the scope; the OpenAPI document reads `scope`.

    A key with `other` passes as well. Without a scope any valid key passes.
    """

    def __init__(self, scope: Scope | None, other: Scope | None = None) -> None:
        self.scope = scope
        self.other = other

    async def __call__(self, request: Request) -> Key:
        """Return the key; NoKey, NotAllowed or TooMany if the request may not pass."""
        state = state_of(request)
        key = _checked_key(state, request)
        request.scope[_KEY] = key
        if self.scope is not None and not (self.other is not None and key.allows(self.other)):
            key.require(self.scope)
        state.rate_limits.take(key)
        if key is not ANONYMOUS and not is_event_stream(request.scope):
            request.scope[_UPLOADING] = key
            if not _reads_body(request.scope):
                take_key_place(state, request.scope)
        return key


def _checked_key(state: ServiceState, request: Request) -> Key:
    """Return the key of a request; wrong ones are counted by the address that the server believes, and slowed.

    The secret is compared first: a right key passes, however many guesses at it came from its address.
    """
    if not state.serve.keys:
        return ANONYMOUS
    token, address = token_of(request), request.client.host if request.client is not None else ""
    try:
        return state.keys.check(token)
    except WrongKey:
        state.wrong_keys.count(id_in(token), address)
        raise


def take_key_place(state: ServiceState, scope: Any) -> None:
    """Take the place of a request among those of its key, once: when its body is there, so that slow ones hold none."""
    key = scope.pop(_UPLOADING, None)
    if key is not None:
        state.key_places.take(key)
        scope[_PLACE] = key


def _reads_body(scope: Any) -> bool:
    """Return whether the route reads its body itself, after its dependencies."""
    return "requestBody" in (getattr(scope.get("route"), "openapi_extra", None) or {})


def end_key_place(state: ServiceState, scope: Any) -> None:
    """Give back the place that a request has among those of its key."""
    key = scope.pop(_PLACE, None)
    if key is not None:
        state.key_places.give_back(key)


def is_event_stream(scope: Any) -> bool:
    """Return whether a request is for a stream of events: long and idle; streams have a separate limit."""
    path: str = scope["path"].removeprefix(scope.get("root_path", ""))
    return _EVENT_STREAM.fullmatch(path) is not None


def token_of(request: Request) -> str | None:
    """Return the token of a request, from either of two headers."""
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer" and token.strip():
        return token.strip()
    return request.headers.get("x-api-key", "").strip() or None


def key_of(request: Request) -> Key:
    """Return the key of a request that `Requires` has let pass."""
    key: Key = request.scope[_KEY]
    return key


def key_name(scope: Any) -> str | None:
    """Return the key's id for the log, never its token."""
    key = scope.get(_KEY)
    return None if key is None else key.id


# ── Items and deadlines ───────────────────────────────────────────────────────────────────────────────────────────────


def count_items(request: Request, items: int) -> None:
    """Record the number of items of a request, for the log."""
    request.scope[_ITEMS] = items


def items_in(scope: Any) -> int | None:
    """Return the recorded number of items, if there is one."""
    item_count: int | None = scope.get(_ITEMS)
    return item_count


async def deadline(  # async, although it awaits nothing: FastAPI would run it in a thread otherwise
    request: Request,
    x_timeout_s: Annotated[
        float | None,
        Header(
            gt=0,
            description="Seconds that the answer may take, at most the server's `timeout_s`; then it is 503 `expired`.",
        ),
    ] = None,
) -> float:
    """Return when the work for a request has to be done, on the clock of `time.monotonic`."""
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
    """Return the result of the work, and cancel it when the client hangs up. The body has been read before."""
    worker = asyncio.current_task()
    assert worker is not None, "routes run in tasks"
    disconnect = asyncio.ensure_future(_wait_for_disconnect(request))
    is_disconnected = is_over = False

    def drop(listening: asyncio.Future[None]) -> None:
        nonlocal is_disconnected
        if is_over or listening.cancelled():  # the event loop may call this after the work has ended
            return
        listening.exception()  # read, so that asyncio does not log it: the client is away in any case
        is_disconnected = True
        worker.cancel()

    disconnect.add_done_callback(drop)
    try:
        return await work
    except asyncio.CancelledError:
        if is_disconnected and worker.uncancel() == 0:  # otherwise the work was also cancelled by another caller
            raise ClientGone from None
        raise
    finally:
        is_over = True
        disconnect.cancel()


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


# ── Lists in pages: the position a page begins after, its length, and the start of the next page ──────────────────────


_AFTER = Query(description="what `next` was on the page before", max_length=200)
After = Annotated[str, _AFTER]
AfterRow = Annotated[str | None, _AFTER]  # of rows that are listed by their ids
Limit = Annotated[int, Query(description="how many on a page", ge=1, le=200)]


def page_of(
    names: Sequence[str], after: str, limit: int, *, order: Callable[[str], Any] = str
) -> tuple[Sequence[str], str | None]:
    """Return the names of a page of a sorted list, and the last one if more follow.

    The name that a page begins after need not exist any more: its position in the order is enough.
    """
    begin = bisect_right(names, order(after), key=order) if after else 0
    page = names[begin : begin + limit]
    return page, page[-1] if begin + limit < len(names) else None


# ── Rows of the audit log for what a request has done ─────────────────────────────────────────────────────────────────


class RequestActor(TypedDict):
    """The actor and the id of a request."""

    actor: str
    request: str | None


def acting(request: Request) -> RequestActor:
    """Return the key of a request as the actor, and its id as its answer has it: stores put them into the audit log."""
    return {"actor": actor_of(key_of(request).name), "request": request.scope.get("request_id")}


def add_audit_row(request: Request, action: str, subject: str, **details: Any) -> None:
    """Add a row in the transaction of this thread, so that what a request does and its row come together."""
    state_of(request).audit.add(action=action, subject=subject, **acting(request), **details)


def try_to_add_audit_row(request: Request, action: str, subject: str, **details: Any) -> None:
    """Add a row for what has happened outside of the database, which may be away."""
    state_of(request).audit.try_to_add(action=action, subject=subject, **acting(request), **details)
