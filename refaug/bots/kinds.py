"""The kinds of bots by name; a new kind is one more entry here."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from refaug.bots import generation, retrieval
from refaug.bots.replier import Replier
from refaug.bots.specification import SEED, STORED, BotSpecification
from refaug.core.errors import Usage
from refaug.core.files import require_name
from refaug.indexer.search.index import ReferenceIndex

if TYPE_CHECKING:
    from refaug.rater.adem.vhred.artefact import Vhred


_HASH: Final = re.compile(r"[0-9a-f]{6,64}")


@dataclass(frozen=True, kw_only=True)
class BotSources:
    """How bots open what they reply from; the caller closes it."""

    open_index: Callable[[str], ReferenceIndex]  # by name or name@version
    open_vhred: Callable[[str], Vhred]  # the same
    open_stored: Callable[[str], Replier] | None = None  # a stored bot, by its name


@dataclass(frozen=True, kw_only=True)
class BotKind:
    """One kind of bot: how its specification is written, checked and opened."""

    source: str  # what stands after the colon, for messages
    keys: Mapping[str, str]  # with what each means
    repeated_keys: tuple[str, ...]
    check: Callable[[BotSpecification], object]  # raises Usage where a setting is wrong; opens nothing
    open: Callable[[BotSpecification, BotSources], Replier]
    artefact: str | None  # the kind of artefact that the source names, and its key in the provenance


def _open_retrieval(specification: BotSpecification, sources: BotSources) -> Replier:
    return retrieval.RetrievalBot.of(specification, sources.open_index(specification.source))


def _open_generation(specification: BotSpecification, sources: BotSources) -> Replier:
    return generation.GeneratingBot.of(specification, sources.open_vhred(specification.source))


def _open_named(specification: BotSpecification, sources: BotSources) -> Replier:
    if sources.open_stored is None:
        raise Usage(f"{specification}: no stored bots can be asked here", remedy="name an index: retrieval:INDEX")
    return sources.open_stored(specification.source)


def _check_named(specification: BotSpecification) -> None:
    name, mark, digits = specification.source.partition("#")
    require_name("bot", name)
    if mark and not _HASH.fullmatch(digits):
        raise Usage(f"{specification}: {digits!r} is no hash", remedy=f"bot:{name}#, and 6 to 64 digits of its hash")


KINDS: Final[Mapping[str, BotKind]] = {
    retrieval.KIND: BotKind(
        source="INDEX",
        keys=retrieval.KEYS,
        repeated_keys=retrieval.REPEATED_KEYS,
        check=retrieval.search_settings,
        open=_open_retrieval,
        artefact="index",
    ),
    generation.KIND: BotKind(
        source="VHRED",
        keys=generation.KEYS,
        repeated_keys=(),
        check=generation.generation_settings,
        open=_open_generation,
        artefact="vhred",
    ),
    STORED: BotKind(source="NAME", keys={}, repeated_keys=(), check=_check_named, open=_open_named, artefact=None),
}


def parse_bot(text: str) -> BotSpecification:
    """Read a specification and check it; Usage where its kind, a key or a setting is wrong. Nothing is opened."""
    specification = BotSpecification.parse(text)
    kind = KINDS.get(specification.kind)
    if kind is None:
        raise Usage(f"{text!r}: there is no kind of bot {specification.kind!r}", remedy=f"one of: {_list_kinds()}")
    specification.require_keys([*kind.keys, SEED], kind.repeated_keys)
    if not specification.source or "=" in specification.source:
        example = f"{specification.kind}:{kind.source}"
        raise Usage(f"{text!r} does not say from which {kind.source.lower()}", remedy=f"{example},key=value,…")
    kind.check(specification)
    specification.require_seed()
    return specification


def _list_kinds() -> str:
    return "; ".join(
        f"{name}:{kind.source},key=value,… with the keys {', '.join([*kind.keys, SEED])}"
        for name, kind in KINDS.items()
    )


def open_bot(specification: BotSpecification, sources: BotSources) -> Replier:
    """Open the bot of a checked specification; Usage for a seed where nothing is drawn."""
    replier = KINDS[specification.kind].open(specification, sources)
    if specification.text(SEED) is not None and not replier.is_random:
        raise Usage(f"{specification}: {SEED} has no effect, since nothing is drawn", remedy=f"leave {SEED} out")
    return replier
