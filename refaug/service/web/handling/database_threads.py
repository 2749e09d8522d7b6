"""Database queries of requests, in a thread pool apart: a slow database delays only the requests that need it.

All other blocking work shares the threads of the event loop. A database that is locked or does not answer holds each of
its threads for many seconds: forty such requests in the shared pool would stop all scoring.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import anyio
from anyio import CapacityLimiter
from anyio.lowlevel import RunVar
from anyio.to_thread import run_sync

from refaug.core.errors import Unavailable

T = TypeVar("T")
_MAX_QUERIES: Final = 12  # the connection pool has 15, of which event streams and keys need some
_MAX_PATIENT: Final = 2  # of a millisecond each; they never take the last connection
MAX_WAIT_S: Final = 2.0  # in line for a thread: each waiting request takes the place of another one
_LIMITER: Final[RunVar[CapacityLimiter]] = RunVar("refaug.service.web.handling.database_threads")
_PATIENT_LIMITER: Final[RunVar[CapacityLimiter]] = RunVar("refaug.service.web.handling.database_threads.patient")


async def run_query(work: Callable[[], T]) -> T:
    """Run a query; Unavailable if earlier ones keep all threads waiting for the database."""
    room, me = _limiter(_LIMITER, _MAX_QUERIES), object()
    try:
        with anyio.fail_after(MAX_WAIT_S):
            await room.acquire_on_behalf_of(me)
    except TimeoutError:
        raise Unavailable(
            "the database keeps too many requests waiting", remedy="send it again in a moment", retry_after_s=MAX_WAIT_S
        ) from None
    try:
        return await run_sync(work, limiter=CapacityLimiter(1))  # its place was taken above
    finally:
        room.release_on_behalf_of(me)


async def poll_query(work: Callable[[], T]) -> T:
    """Run a query that may wait longer: of an event stream, or a row of the audit log for what has happened."""
    return await run_sync(work, limiter=_limiter(_PATIENT_LIMITER, _MAX_PATIENT))


def _limiter(of: RunVar[CapacityLimiter], places: int) -> CapacityLimiter:
    """Return the limiter of this event loop."""
    try:
        return of.get()
    except LookupError:
        of.set(CapacityLimiter(places))
        return of.get()
