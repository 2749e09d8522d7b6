"""The lease of a request on its index and rater, which stay open until it is answered."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from typing import Final

from refaug.core.errors import Expired, Interrupted
from refaug.service.serving.versions.leases import Lease
from refaug.service.web.state import ServiceState

# A pool apart: requests that wait for a large version to open must not use up the threads of the others.
_OPENING: Final = ThreadPoolExecutor(8, thread_name_prefix="opening")


@asynccontextmanager
async def open_lease(
    state: ServiceState,
    *,
    index: str | None,
    rater: str | None,
    needs_index: bool,
    needs_rater: bool,
    sample: str | None = None,
    deadline: float,
) -> AsyncIterator[Lease]:
    """Lease the artefacts that a request names, or the server's defaults; they do not change until the block ends.

    A version that is not open yet is waited for until the deadline, on the clock of `time.monotonic`. Opening goes on
    after that, for the next request.
    """
    engines = state.open_versions

    def take() -> Lease:
        return engines.lease(index=index, rater=rater, needs_index=needs_index, needs_rater=needs_rater, sample=sample)

    if engines.is_open(index, rater, sample):
        lease = take()
    else:
        lease = await _lease_in_thread(take, deadline)
    with lease:
        yield lease


async def _lease_in_thread(take: Callable[[], Lease], deadline: float) -> Lease:
    """Lease in a thread, since opening takes a while; if the request has ended meanwhile, the lease is released."""
    taking = _OPENING.submit(take)
    try:
        async with asyncio.timeout(deadline - time.monotonic()):
            return await asyncio.shield(asyncio.wrap_future(taking))
    except BaseException as error:
        if not taking.cancel():  # it has begun or just ended
            taking.add_done_callback(_release_lease)
        if isinstance(error, TimeoutError):
            raise Expired(
                "the time for this answer is over, and the version that was asked for is still being opened",
                remedy="try again in a while, or give it more time",
            ) from None
        raise


def _release_lease(leasing: Future[Lease]) -> None:
    if not leasing.cancelled() and leasing.exception() is None:
        leasing.result().release()


# ── Progress of the work for a request: it stops at the deadline, or when the client has left ─────────────────────────


class DeadlineProgress:
    """Progress of scoring that is not shown: it stops the work at the deadline or when the client has left."""

    def __init__(self, deadline: float) -> None:
        self._deadline = deadline
        self.is_given_up = False

    def stage(self, name: str, total: int | None = None, unit: str = "") -> None:
        """Check the deadline."""
        del name, total, unit
        self.advance(0)

    def advance(self, amount: int) -> None:
        """Check the deadline."""
        del amount
        self.check()

    def check(self) -> None:
        """Raise where the client has left, or at the deadline; networks call it between pieces of their work."""
        if self.is_given_up:
            raise Interrupted("the client disconnected before the answer was ready")
        if time.monotonic() > self._deadline:
            raise Expired("the time was over before the answer was ready", remedy="ask for more time, or for less")

    def warn(self, message: str) -> None:
        """Drop the warning: stored answers do not concern the client."""
        del message

    @contextmanager
    def given_up_on_error(self) -> Iterator[None]:
        """Stop the thread that works when the block is left by an error, such as the end of the connection."""
        try:
            yield
        except BaseException:
            self.is_given_up = True
            raise
