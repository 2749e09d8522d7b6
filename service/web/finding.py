"""What is found for the items of a request: an index and a rater held until it is answered, one search for all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from core.records import Item
from service.augment import Augmented, AugmentSettings, provenance, provenance_details
from service.engine import Lease
from service.web.state import State


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
    state: State, *, index: str | None, rater: str | None, needs_index: bool, needs_rater: bool
) -> AsyncIterator[Lease]:
    """The artefacts that a request names, or the server's: the same until the block ends, whatever is published."""
    engines = state.engines

    def take() -> Lease:
        return engines.take(index=index, rater=rater, needs_index=needs_index, needs_rater=needs_rater)

    if engines.is_open(index, rater):
        lease = take()
    else:
        lease = await _in_thread(take)
    with lease:
        yield lease


async def _in_thread(take: Any) -> Lease:
    """Opening takes a while; a request that is given up meanwhile must not keep what is opened for it."""
    taking = asyncio.get_running_loop().run_in_executor(None, take)
    try:
        return await asyncio.shield(taking)
    except asyncio.CancelledError:
        taking.add_done_callback(_let_go)
        raise


def _let_go(taken: asyncio.Future[Lease]) -> None:
    if not taken.cancelled() and taken.exception() is None:
        with taken.result():
            pass


async def find(
    state: State, lease: Lease, items: Sequence[Item], settings: AugmentSettings, *, deadline: float
) -> References:
    """Further references for every item, found and weighed with those of other requests."""
    found = await state.batcher.augment(lease, items, settings, deadline=deadline)
    return References(found=found.items, warnings=found.warnings, made=Made.of(lease, settings))
