"""Open bots by name or by specification, for commands and jobs; what stored bots need is imported only for these."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from refaug.bots.kinds import BotSources, open_bot, parse_bot
from refaug.bots.replier import Replier
from refaug.bots.specification import BotSpecification
from refaug.core.home import Settings
from refaug.core.progress import Progress
from refaug.indexer.search.index import ReferenceIndex
from refaug.scoring.home.indexes import open_index
from refaug.scoring.metric_setup.model_registry import ModelRegistry
from refaug.scoring.replies import BotSystem

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
