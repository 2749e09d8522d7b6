"""Bots of a request, each with a lease on what it replies from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from refaug.bots.kinds import BotSources, open_bot
from refaug.bots.replier import BotReply
from refaug.bots.specification import BotSpecification
from refaug.core.records import Item
from refaug.evaluation.replies.system_replies import BotSystem
from refaug.indexer.search.index import ReferenceIndex
from refaug.service.serving.versions.leases import Lease
from refaug.service.web.handling.reference_retrieval import open_lease
from refaug.service.web.state import ServiceState


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
    for source in dict.fromkeys(specification.source for specification in specifications.values()):
        async with open_lease(
            state, index=source, rater=None, needs_index=True, needs_rater=False, deadline=deadline
        ) as lease:
            for name, specification in specifications.items():
                if specification.source == source:
                    replied[name] = await _ask_bot(state, name, specification, items, lease, deadline=deadline)
    return [replied[name] for name in specifications]


async def _ask_bot(
    state: ServiceState,
    name: str,
    specification: BotSpecification,
    items: Sequence[Item],
    lease: Lease,
    *,
    deadline: float,
) -> AskedBot:
    """Let one bot reply to all items from its leased index, in the thread of the batches."""

    def leased_index(_spec: str) -> ReferenceIndex:
        assert lease.index is not None, "an index was asked for"
        return lease.index

    bot = open_bot(specification, BotSources(open_index=leased_index))
    system = BotSystem(name=name, replier=bot, seed=specification.seed)
    replies = await state.batcher.run(partial(system.replies, items), items=len(items), deadline=deadline, lease=lease)
    pinned = replace(specification, source=leased_index(specification.source).spec.partition("#")[0])
    return AskedBot(pinned=pinned, system=system, replies=replies)
