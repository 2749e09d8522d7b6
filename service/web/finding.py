"""What is found for the items of a request: an index and a rater held until it is answered, one search for all."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from core.errors import Expired
from core.records import Item
from service.augment import Augmented, AugmentSettings, provenance, provenance_details
from service.engine import Lease
from service.web.state import State

# Threads of their own: those who wait for a large version to be opened must not take the ones that others need.
_OPENING: Final = ThreadPoolExecutor(8, thread_name_prefix="opening")


@dataclass(frozen=True, kw_only=True)
class Made:
    """What signatures say of references: in both forms, and in the full one."""

    by: Mapping[str, str]
    details: Mapping[str, str]

    @classmethod
    def of(cls, lease: Lease, settings: AugmentSettings) -> Made:
        """Of the artefacts that are held."""
        assert lease.index is not None, "references are found in an index"
        return cls(by=provenance(lease.index, lease.rater, settings), details=provenance_details(lease.index, settings))

    @property
    def all(self) -> dict[str, str]:
        """Both."""
        return {**self.by, **self.details}


@dataclass(frozen=True, kw_only=True)
class References:
    """Items with their weighted references, in the order given."""

    found: Sequence[Augmented]
    warnings: tuple[str, ...]
    made: Made


@asynccontextmanager
async def leased(
    state: State, *, index: str | None, rater: str | None, needs_index: bool, needs_rater: bool, deadline: float
) -> AsyncIterator[Lease]:
    """The artefacts that a request names, or the server's: the same until the block ends, whatever is published.

    A version that has to be opened first is waited for until the deadline, on the clock of `time.monotonic`; it goes on
    being opened, for whoever asks again.
    """
    engines = state.engines

    def take() -> Lease:
        return engines.take(index=index, rater=rater, needs_index=needs_index, needs_rater=needs_rater)

    if engines.is_open(index, rater):
        lease = take()
    else:
        lease = await _taken(take, deadline)
    with lease:
        yield lease


async def _taken(take: Callable[[], Lease], deadline: float) -> Lease:
    """Opening takes a while; a request that is given up meanwhile must not keep what is opened for it."""
    taking = _OPENING.submit(take)
    try:
        async with asyncio.timeout(deadline - time.monotonic()):
            return await asyncio.shield(asyncio.wrap_future(taking))
    except BaseException as error:
        if not taking.cancel():  # it has begun, or ended in this moment
            taking.add_done_callback(_let_go)
        if isinstance(error, TimeoutError):
            raise Expired(
                "the time for this answer is over, and the version that was asked for is still being opened",
                remedy="ask again in a while, or give it more time",
            ) from None
        raise


def _let_go(taken: Future[Lease]) -> None:
    if not taken.cancelled() and taken.exception() is None:
        taken.result().release()


async def find(
    state: State, lease: Lease, items: Sequence[Item], settings: AugmentSettings, *, deadline: float
) -> References:
    """Further references for every item, found and weighed with those of other requests."""
    found = await state.batcher.augment(lease, items, settings, deadline=deadline)
    return References(found=found.items, warnings=found.warnings, made=Made.of(lease, settings))
