"""Leases and references for the items of a request: the artefacts stay open until it is answered."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from refaug.core.errors import Expired
from refaug.core.records import Item
from refaug.evaluation.scoring import augmentation
from refaug.evaluation.scoring.augment_settings import AugmentSettings
from refaug.evaluation.scoring.provenance import Provenance
from refaug.service.serving.versions.leases import Lease
from refaug.service.web.state import ServiceState

# A pool apart: requests that wait for a large version to open must not use up the threads of the others.
_OPENING: Final = ThreadPoolExecutor(8, thread_name_prefix="opening")


def leased_provenance(lease: Lease, settings: AugmentSettings) -> Provenance:
    """Return what signatures say of references that the leased artefacts give."""
    assert lease.index is not None, "references are found in an index"
    return augmentation.references_provenance(lease.index, lease.rater, settings)


def leased_without_shards(lease: Lease, provenance: Provenance, missing: Sequence[str]) -> Provenance:
    """Return the provenance of references that shards of the leased index had no part in."""
    return provenance if lease.index is None else augmentation.without_shards(provenance, lease.index, missing)


def require_leased_preset(lease: Lease, settings: AugmentSettings) -> None:
    """Raise Usage where the leased index was not built with the preset of the settings."""
    assert lease.index is not None, "references are found in an index"
    augmentation.require_preset_index(lease.index, settings)


@dataclass(frozen=True, kw_only=True)
class ItemsWithReferences:
    """Items with their weighted references, in the order given, and the provenance of these."""

    items: Sequence[augmentation.Augmented]
    warnings: tuple[str, ...]
    provenance: Provenance
    missing: Sequence[str] = ()  # shards that had no part in the references of some item
    lines: Sequence[str] = ()  # the provenance of each item


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
                remedy="ask again in a while, or give it more time",
            ) from None
        raise


def _release_lease(leasing: Future[Lease]) -> None:
    if not leasing.cancelled() and leasing.exception() is None:
        leasing.result().release()


async def augment_items(
    state: ServiceState, lease: Lease, items: Sequence[Item], settings: AugmentSettings, *, deadline: float
) -> ItemsWithReferences:
    """Return the items with further references, found and weighted in batches with other requests."""
    require_leased_preset(lease, settings)
    augmented = await state.batcher.augment(lease, items, settings, deadline=deadline)
    provenance = leased_provenance(lease, settings)
    return ItemsWithReferences(
        items=augmented.items,
        warnings=augmented.warnings,
        provenance=leased_without_shards(lease, provenance, augmented.missing),
        missing=augmented.missing,
        lines=[leased_without_shards(lease, provenance, item.missing).line for item in augmented.items],
    )
