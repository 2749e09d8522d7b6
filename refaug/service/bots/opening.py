"""Open bots by name or by specification, for commands and jobs; what stored bots need is imported only for these."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from refaug.bots.kinds import BotSources, open_bot, parse_bot
from refaug.bots.replier import Replier
from refaug.bots.specification import BotSpecification
from refaug.core.home import Settings
from refaug.core.progress import Progress
from refaug.extras.conversations.operations.play_conversations import PlayConversations
from refaug.extras.conversations.selfplay.check import SelfPlayCheck, check_self_play
from refaug.extras.conversations.selfplay.recording import (
    PlayingBot,
    SelfPlayOrder,
    early_end_warnings,
    record_self_play,
)
from refaug.extras.conversations.selfplay.starts import read_starts
from refaug.extras.conversations.selfplay.stored import open_self_play
from refaug.indexer.search.index import ReferenceIndex
from refaug.logs.store import StoredLog
from refaug.scoring.home.indexes import open_index
from refaug.scoring.item_files.item_files import InputFile
from refaug.scoring.metric_setup.model_registry import ModelRegistry
from refaug.scoring.replies.system_replies import BotSystem

if TYPE_CHECKING:
    from refaug.bots.endpoint.spending import Price
    from refaug.bots.stored.endpoint_bot import EndpointAccess
    from refaug.bots.stored.specification import StoredBot
    from refaug.rater.adem.vhred.artefact import Vhred


@dataclass(frozen=True, kw_only=True)
class OpenBot:
    """A bot that replies, with what it was opened from."""

    name: str  # of the stored bot, or the specification
    kind: str
    replier: Replier
    seed: int
    specification_sha256: str | None  # None: it is written out, and not stored
    price: Price | None = None  # of the tokens of an endpoint


def open_bots(
    home: Settings,
    texts: Sequence[str],
    *,
    stack: ExitStack,
    threads: int | None = None,
    access: EndpointAccess | None = None,
    database: str | None = None,
) -> list[OpenBot]:
    """Open bots until the stack closes, each index once.

    All texts are checked before anything is opened. Without `access` they are asked as a command asks them, and without
    `database` stored bots are found in the one that the environment names.
    """
    specifications = [parse_bot(text) for text in texts]
    names = [specification.source for specification in specifications if specification.is_stored]
    opened: dict[str, ReferenceIndex] = {}

    def open_once(spec: str) -> ReferenceIndex:
        if spec not in opened:
            opened[spec] = stack.enter_context(open_index(home, spec, threads=threads))
        return opened[spec]

    models = ModelRegistry(home, threads)

    def open_vhred(spec: str) -> Vhred:
        return models.vhred(spec)

    stored, opener = _stored_bots(home, names, open_once, open_vhred, access, database) if names else ({}, None)
    sources = BotSources(open_index=open_once, open_vhred=open_vhred, open_stored=opener)
    return [_open(specification, sources, stored) for specification in specifications]


def bot_systems(names: Iterable[str], opened: Sequence[OpenBot], progress: Progress) -> list[BotSystem]:
    """Return bots under the names of the systems that they become, and report what they warn of."""
    systems = [
        BotSystem(name=name, replier=bot.replier, seed=bot.seed) for name, bot in zip(names, opened, strict=True)
    ]
    for system in systems:
        for warning in system.replier.warnings:
            progress.warn(f"{system.name}: {warning}")
    return systems


def _open(specification: BotSpecification, sources: BotSources, stored: dict[str, StoredBot]) -> OpenBot:
    bot = stored[specification.source] if specification.is_stored else None
    return OpenBot(
        name=str(specification) if bot is None else bot.name,
        kind=specification.kind if bot is None else bot.kind,
        replier=open_bot(specification, sources),
        seed=specification.seed,
        specification_sha256=None if bot is None else bot.sha256,
        price=None if bot is None else bot.price,
    )


def _stored_bots(
    home: Settings,
    names: Sequence[str],
    open_index: Callable[[str], ReferenceIndex],
    open_vhred: Callable[[str], Vhred],
    access: EndpointAccess | None,
    database: str | None,
) -> tuple[dict[str, StoredBot], Callable[[str], Replier]]:
    """Return the stored bots of these names, and what opens one of them."""
    from refaug.bots.stored.opening import StoredBotSources, open_stored  # noqa: PLC0415  httpx
    from refaug.service.bots.stored_bots import command_access, find_bots  # noqa: PLC0415  sqlalchemy

    stored = find_bots(home, names, database)
    sources = StoredBotSources(open_index=open_index, open_vhred=open_vhred, access=access or command_access(home))
    return stored, lambda name: open_stored(stored[name], sources)


# ── Self-play as commands and jobs do it, with bots that they have opened ─────────────────────────────────────────────


def play_conversations(
    home: Settings,
    order: PlayConversations,
    opened: Sequence[OpenBot],
    progress: Progress,
    *,
    start_file: InputFile | None = None,
) -> dict[str, Any]:
    """Play what is ordered with its bots, the partner behind them, and return the version with its figures."""
    for bot in opened:
        for warning in bot.replier.warnings:
            progress.warn(f"{bot.name}: {warning}")
    playing = [PlayingBot(name=bot.name, replier=bot.replier) for bot in opened]
    with closing(read_starts(home, order.start, order.conversations, order.seed, file=start_file)) as starts:
        recorded = record_self_play(
            home,
            order.name,
            SelfPlayOrder(
                bots=playing[: len(order.bots)],
                partner=playing[-1] if order.partner is not None else None,
                start=order.start,
                starts=starts,
                rules=order,
            ),
            batch=order.batch,
            retries_faults=order.retry,
            progress=progress,
        )
    for warning in early_end_warnings(recorded.problems, recorded.silent):
        progress.warn(warning)
    return {
        "self_play": order.name,
        "version": recorded.version,
        "bots": [bot.name for bot in playing[: len(order.bots)]],
        "conversations": len(order.bots) * order.conversations,
        "resumed_at": recorded.resumed_at,
        "played_again": recorded.played_again,
        "problems": {name: dict(reasons) for name, reasons in recorded.problems.items()},
        "silent": list(recorded.silent),
        "latency": {name: dict(figures) if figures else None for name, figures in recorded.latency.items()},
    }


def compared_log(home: Settings, order: PlayConversations) -> StoredLog | None:
    """Return the log that the conversations are compared with; NotFound before anything is played."""
    return None if order.check_log is None else StoredLog.open(home.logs, order.check_log)


def checks_of(home: Settings, spec: str, log: StoredLog | None, progress: Progress) -> list[SelfPlayCheck]:
    """Return what the conversations of a version share with the log and with each other; nothing without a log."""
    if log is None:
        return []
    with open_self_play(home, spec) as played:
        return check_self_play(played, log, scratch=home.cache, progress=progress)
