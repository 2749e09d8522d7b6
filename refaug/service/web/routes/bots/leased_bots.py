"""Bots of a request, each with a lease on what it replies from; those behind addresses are waited for in threads."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from refaug.bots.kinds import BotSources, artefact_of, open_bot
from refaug.bots.replier import BotReply, Replier
from refaug.bots.specification import BotSpecification
from refaug.core.errors import Expired, RefaugError
from refaug.core.records import Item
from refaug.indexer.search.index import ReferenceIndex
from refaug.scoring.replies import BotSystem
from refaug.service.bots.bot_use import AskedBatch
from refaug.service.serving.versions.leases import Lease
from refaug.service.web.handling import database_threads
from refaug.service.web.handling.request_lease import open_lease
from refaug.service.web.state import ServiceState

if TYPE_CHECKING:
    from refaug.bots.endpoint.spending import Spending
    from refaug.bots.stored.specification import StoredBot
    from refaug.rater.adem.vhred.artefact import Vhred

AskSystem = Callable[[BotSystem], list[BotReply]]
# Requests wait here for bots behind addresses: elsewhere a slow one would keep the threads of everything else.
_WAITING_THREADS: Final = ThreadPoolExecutor(16, thread_name_prefix="bots")


@dataclass(frozen=True, kw_only=True)
class AskedBot:
    """What one bot replied to all items of a request."""

    pinned: BotSpecification  # with the version of its index, or the hash of its specification
    system: BotSystem
    replies: Sequence[BotReply]


@dataclass(frozen=True, kw_only=True)
class _FoundBot:
    """A bot of a request, and the stored one that it names."""

    name: str
    specification: BotSpecification
    stored: StoredBot | None

    @property
    def source(self) -> tuple[str, str] | None:
        """What it replies from: the kind of artefact, and its name; None for what needs no artefact."""
        if self.stored is not None:
            return next(iter(self.stored.sources), None)
        artefact = artefact_of(self.specification)
        return None if artefact is None else (artefact, self.specification.source)

    @property
    def has_address(self) -> bool:
        """Whether it waits for a server elsewhere."""
        return self.stored is not None and next(iter(self.stored.addresses), None) is not None


async def ask_bots(
    state: ServiceState, specifications: Mapping[str, BotSpecification], items: Sequence[Item], *, deadline: float
) -> list[AskedBot]:
    """Let each bot reply to all items; bots of the same index share a lease on it, and so reply from one version."""
    return await ask_systems(
        state, specifications, lambda system: system.replies(items), count=len(items), deadline=deadline
    )


async def ask_systems(
    state: ServiceState,
    specifications: Mapping[str, BotSpecification],
    ask: AskSystem,
    *,
    count: int,
    deadline: float,
) -> list[AskedBot]:
    """Let each bot reply as `ask` has it, `count` times."""
    bots = await _find_bots(state, specifications)
    replied = dict[str, AskedBot]()
    for source in dict.fromkeys(bot.source for bot in bots):
        async with AsyncExitStack() as stack:
            index = source[1] if source is not None and source[0] == "index" else None
            lease = await stack.enter_async_context(
                open_lease(
                    state, index=index, rater=None, needs_index=index is not None, needs_rater=False, deadline=deadline
                )
            )
            for bot in bots:
                if bot.source == source:
                    replied[bot.name] = await _ask_bot(state, bot, ask, lease, count=count, deadline=deadline)
    return [replied[name] for name in specifications]


async def _find_bots(state: ServiceState, specifications: Mapping[str, BotSpecification]) -> list[_FoundBot]:
    """Look up the stored bots among them, all at once."""
    names = {bot.source for bot in specifications.values() if bot.is_stored}
    stored = dict[str, "StoredBot"]()
    if names:
        stored = await database_threads.run_query(lambda: {name: state.bots.get(name) for name in names})
    return [
        _FoundBot(name=name, specification=bot, stored=stored[bot.source] if bot.is_stored else None)
        for name, bot in specifications.items()
    ]


async def _ask_bot(
    state: ServiceState, bot: _FoundBot, ask: AskSystem, lease: Lease, *, count: int, deadline: float
) -> AskedBot:
    """Let one bot reply, in the thread of the batches, or in one that waits where the bot has an address."""

    def check_time() -> None:
        if time.monotonic() >= deadline:
            raise Expired(
                f"the time for this answer was over before {bot.name} had replied",
                remedy="ask again: what it has replied is stored; or give it more time, or fewer items",
            )

    try:
        replier = await asyncio.to_thread(open_bot, bot.specification, _sources(state, bot, lease, check_time))
    except RefaugError as error:
        _note_use(state, bot, AskedBatch.failed(count, error))
        raise
    system = BotSystem(name=bot.name, replier=replier, seed=bot.specification.seed)

    def counted() -> list[BotReply]:
        """Count what was asked and paid however it ends: by a deadline, an error, or for a client that has gone."""
        if bot.stored is None:
            return ask(system)
        check_time()
        replies = list[BotReply]()
        try:
            replies = ask(system)
        finally:
            spending = _spending_of(replier) if bot.has_address else None
            _note_use(state, bot, AskedBatch.of(replies, spending, bot.stored.price, count))
        return replies

    if bot.has_address:
        replies = await asyncio.get_running_loop().run_in_executor(_WAITING_THREADS, counted)
    else:
        replies = await state.batcher.run(counted, items=count, deadline=deadline, lease=lease)
    artefact = artefact_of(bot.specification)
    source = bot.stored.spec if bot.stored is not None else bot.specification.source
    if artefact is not None:
        source = replier.provenance[artefact].partition("#")[0]
    return AskedBot(pinned=replace(bot.specification, source=source), system=system, replies=replies)


def _note_use(state: ServiceState, bot: _FoundBot, batch: AskedBatch) -> None:
    """Count what a stored bot was asked, later: neither a reply nor the thread of the batches waits for the disk."""
    if bot.stored is not None:
        state.bot_use.add_soon(bot.stored.name, bot.stored.sha256, batch)


def _spending_of(replier: Replier) -> Spending | None:
    from refaug.service.bots.stored_bots import spending_of  # noqa: PLC0415  httpx

    return spending_of(replier)


def _sources(state: ServiceState, bot: _FoundBot, lease: Lease, check_time: Callable[[], None]) -> BotSources:
    def leased_index(_spec: str) -> ReferenceIndex:
        return lease.require_index()

    def open_vhred(spec: str) -> Vhred:
        return state.models.vhred(spec)

    if bot.stored is None:
        return BotSources(open_index=leased_index, open_vhred=open_vhred)
    from refaug.bots.stored.opening import StoredBotSources, open_stored  # noqa: PLC0415  httpx
    from refaug.service.bots.stored_bots import server_access  # noqa: PLC0415

    stored, access = bot.stored, server_access(state.home, state.serve, on_tick=check_time)
    sources = StoredBotSources(open_index=leased_index, open_vhred=open_vhred, access=access)
    return BotSources(
        open_index=leased_index, open_vhred=open_vhred, open_stored=lambda _name: open_stored(stored, sources)
    )
