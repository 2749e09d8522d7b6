"""Bots of a request, each with a lease on what it replies from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from refaug.bots.kinds import BotSources, open_bot
from refaug.bots.replier import BotReply
from refaug.bots.specification import BotSpecification
from refaug.core.records import Item
from refaug.evaluation.replies.system_replies import BotSystem
from refaug.indexer.search.index import ReferenceIndex
from refaug.service.web.handling.reference_retrieval import open_lease
from refaug.service.web.state import ServiceState


@dataclass(frozen=True, kw_only=True)
class AskedBot:
    """What one bot replied to all items of a request."""

    pinned: BotSpecification  # with the version of its index
    system: BotSystem
    replies: Sequence[BotReply]


async def ask_bot(
    state: ServiceState, name: str, specification: BotSpecification, items: Sequence[Item], *, deadline: float
) -> AskedBot:
    """Let one bot reply to all items; its index is leased until it has, in the thread of the batches."""
    async with open_lease(
        state, index=specification.source, rater=None, needs_index=True, needs_rater=False, deadline=deadline
    ) as lease:

        def leased_index(_spec: str) -> ReferenceIndex:
            assert lease.index is not None, "an index was asked for"
            return lease.index

        bot = open_bot(specification, BotSources(open_index=leased_index))
        system = BotSystem(name=name, replier=bot, seed=specification.seed)
        replies = await state.batcher.run(
            partial(system.replies, items), items=len(items), deadline=deadline, lease=lease
        )
        pinned = replace(specification, source=leased_index(specification.source).spec.partition("#")[0])
        return AskedBot(pinned=pinned, system=system, replies=replies)
