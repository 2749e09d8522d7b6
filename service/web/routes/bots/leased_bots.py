"""Bots of a request, each with a lease on what it replies from."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from refaug.bots.kinds import KINDS, BotSources, open_bot
from refaug.bots.replier import BotReply
from refaug.bots.specification import BotSpecification
from refaug.core.records import Item
from refaug.evaluation.replies.system_replies import BotSystem
from refaug.indexer.search.index import ReferenceIndex
from refaug.service.serving.versions.leases import Lease
from refaug.service.web.handling.reference_retrieval import open_lease
from refaug.service.web.state import ServiceState

if TYPE_CHECKING:
    from refaug.rater.adem.vhred.artefact import Vhred


@dataclass(frozen=True, kw_only=True)
class AskedBot:
    """What one bot replied to all items of a request."""

    pinned: BotSpecification  # with the version of its index
    system: BotSystem
    replies: Sequence[BotReply]


async def ask_bots(
    state: ServiceState, specifications: Mapping[str, BotSpecification], items: Sequence[Item], *, deadline: float
) -> list[AskedBot]:
    """Let each bot reply to all items; bots of the same index share a lease on it, and so reply from one version."""
    replied = dict[str, AskedBot]()
    sources = dict.fromkeys(_source(specification) for specification in specifications.values())
    for artefact, source in sources:
        index = source if artefact == "index" else None
        async with open_lease(
            state, index=index, rater=None, needs_index=index is not None, needs_rater=False, deadline=deadline
        ) as lease:
            for name, specification in specifications.items():
                if _source(specification) == (artefact, source):
                    replied[name] = await _ask_bot(state, name, specification, items, lease, deadline=deadline)
    return [replied[name] for name in specifications]


def _source(specification: BotSpecification) -> tuple[str, str]:
    """Return what a bot replies from: the kind of artefact, and its name."""
    return KINDS[specification.kind].artefact, specification.source


async def _ask_bot(
    state: ServiceState,
    name: str,
    specification: BotSpecification,
    items: Sequence[Item],
    lease: Lease,
    *,
    deadline: float,
) -> AskedBot:
    """Let one bot reply to all items from its leased index or its VHRED, in the thread of the batches."""

    def leased_index(_spec: str) -> ReferenceIndex:
        assert lease.index is not None, "an index was asked for"
        return lease.index

    def open_vhred(spec: str) -> Vhred:
        from refaug.evaluation.home.vhreds import held_vhred  # noqa: PLC0415  torch

        return held_vhred(state.home, spec, state.threads)

    sources = BotSources(open_index=leased_index, open_vhred=open_vhred)
    bot = await asyncio.to_thread(open_bot, specification, sources)
    system = BotSystem(name=name, replier=bot, seed=specification.seed)
    replies = await state.batcher.run(partial(system.replies, items), items=len(items), deadline=deadline, lease=lease)
    artefact, _ = _source(specification)
    pinned = replace(specification, source=bot.provenance[artefact].partition("#")[0])
    return AskedBot(pinned=pinned, system=system, replies=replies)
