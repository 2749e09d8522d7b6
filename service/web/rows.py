"""Questions of requests to the database, in threads of their own: one that keeps them waiting keeps no other waiting.

Everything else that blocks shares the threads of the event loop. A database that is locked, or whose machine does not
answer, holds whoever asks it for many seconds: forty such requests, and nobody would be scored any more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import anyio
from anyio import CapacityLimiter
from anyio.lowlevel import RunVar
from anyio.to_thread import run_sync

from core.errors import Unavailable

T = TypeVar("T")
_AT_ONCE: Final = 12  # the pool has 15 connections, and streams of events and keys need some
_STREAMS_AT_ONCE: Final = 2  # they only read, a millisecond each; so they never take the last connection
LINE_S: Final = 2.0  # in line for a thread: each that waits is a request that the server could answer otherwise
_ROOM: Final[RunVar[CapacityLimiter]] = RunVar("service.web.rows")
_STREAMS: Final[RunVar[CapacityLimiter]] = RunVar("service.web.rows.streams")


async def asked(work: Callable[[], T]) -> T:
    """What the work gives; Unavailable where those before it do not come back from the database."""
    room, me = _limiter(_ROOM, _AT_ONCE), object()
    try:
        with anyio.fail_after(LINE_S):
            await room.acquire_on_behalf_of(me)
    except TimeoutError:
        raise Unavailable(
            "the database keeps too many requests waiting", remedy="send it again in a moment", retry_after_s=LINE_S
        ) from None
    try:
        return await run_sync(work, limiter=CapacityLimiter(1))  # its place in line was taken above
    finally:
        room.release_on_behalf_of(me)


async def looked_at(work: Callable[[], T]) -> T:
    """The same for a stream of events, which may wait: whoever listens sees nothing of it."""
    return await run_sync(work, limiter=_limiter(_STREAMS, _STREAMS_AT_ONCE))


def _limiter(of: RunVar[CapacityLimiter], places: int) -> CapacityLimiter:
    """Of this event loop."""
    try:
        return of.get()
    except LookupError:
        of.set(CapacityLimiter(places))
        return of.get()
