"""Requests that make something, and may be sent again: with an Idempotency-Key, the same one is answered the same."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, Final

from anyio import CapacityLimiter
from anyio.lowlevel import RunVar
from anyio.to_thread import run_sync
from fastapi import Header, Request
from starlette.responses import Response

from service.web import rows
from service.web.answers import json_answer
from service.web.deps import key_of
from service.web.state import state_of

IdempotencyKey = Annotated[
    str | None,
    Header(
        description="Any text that names this request, such as a UUID. Sent again with the same body within a day, it "
        "gets the first answer; with another body it is 409 `idempotency_key_reused`.",
        min_length=1,
        max_length=200,
        pattern=r"^[\x21-\x7e]+$",
    ),
]

_AT_ONCE: Final = 16
_ROOM: Final[RunVar[CapacityLimiter]] = RunVar("service.web.once")


@dataclass(frozen=True, kw_only=True)
class Made:
    """What a request has made: its answer, and where that can be found again."""

    status: int
    body: Mapping[str, Any] = field(repr=False)
    location: str

    def as_json(self) -> tuple[int, Mapping[str, Any]]:
        """As it is kept."""
        return self.status, {"body": self.body, "location": self.location}

    def answer(self, request: Request, *, is_again: bool = False) -> Response:
        """The answer; one that was given before says so in a header."""
        location = f"{request.scope.get('root_path', '')}{self.location}"
        again = {"Idempotent-Replayed": "true"} if is_again else {}
        return json_answer(self.body, status=self.status, headers={"Location": location, **again})


async def once(
    request: Request, what: str, key: str | None, raw: bytes, make: Callable[[], Awaitable[Made]]
) -> Response:
    """The answer of `make`, or what it was for the same key and body before; without a key it is always made."""
    if key is None:
        return (await make()).answer(request)
    loop = asyncio.get_running_loop()

    def made() -> tuple[int, Mapping[str, Any]]:
        # Asked for in a thread, and made by the event loop, which has index and rater.
        return asyncio.run_coroutine_threadsafe(_awaited(make), loop).result().as_json()

    remember = partial(_remember(request, what, key, raw), made)
    # A thread that waits for others must not take the place of one of them. Who hangs up does not undo what is made:
    # the same request again finds it.
    return _answer(request, await run_sync(remember, limiter=_room(), abandon_on_cancel=True))


async def once_written(request: Request, what: str, key: str | None, raw: bytes, make: Callable[[], Made]) -> Response:
    """The same for what is but written into the database: it is there together with the answer, or not at all."""
    if key is None:
        return (await rows.asked(make)).answer(request)
    remember = _remember(request, what, key, raw)
    return _answer(request, await rows.asked(lambda: remember(lambda: make().as_json(), at_once=True)))


def _remember(request: Request, what: str, key: str, raw: bytes) -> Callable[..., tuple[int, Mapping[str, Any], bool]]:
    """Whoever made something decides over the keys of it, so keys of different callers do not meet."""
    scope, digest = f"{what} {key_of(request).id}", hashlib.sha256(raw).hexdigest()
    return partial(state_of(request).idempotency.remember, scope, key, digest)


def _answer(request: Request, found: tuple[int, Mapping[str, Any], bool]) -> Response:
    status, kept, is_again = found
    return Made(status=status, body=kept["body"], location=kept["location"]).answer(request, is_again=is_again)


async def _awaited(make: Callable[[], Awaitable[Made]]) -> Made:
    return await make()


def _room() -> CapacityLimiter:
    """Of this event loop."""
    try:
        return _ROOM.get()
    except LookupError:
        _ROOM.set(CapacityLimiter(_AT_ONCE))
        return _ROOM.get()
