"""The kinds of bots by name; a new kind is one more entry here, or in another package (docs/extending.md)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from refaug.bots import generation, retrieval
from refaug.bots.replier import BotReply, Replier, ReplyRequest, WrappedBot, openings_of
from refaug.bots.specification import SEED, STORED, BotSpecification
from refaug.core.errors import RefaugError, Usage
from refaug.core.files import require_name
from refaug.core.installation import BOTS, Registration, broken, of_package, of_packages
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
        raise Usage(f"{specification}: {digits!r} is not a hash", remedy=f"bot:{name}#, and 6 to 64 digits of its hash")


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


def kind_of(name: str) -> BotKind | None:
    """Return a kind of bots, also of a package; None where there is none of this name.

    MissingPart names the package where its kind cannot be used, Conflict two that add the same name.
    """
    if name in KINDS:
        return KINDS[name]
    registration = of_package(BOTS, name, "kind of bot")
    return None if registration is None else registration.load("kind of bot", BotKind)


def artefact_of(specification: BotSpecification) -> str | None:
    """Return the kind of artefact that a checked specification names; None where it names none."""
    kind = kind_of(specification.kind)
    return None if kind is None else kind.artefact


def parse_bot(text: str) -> BotSpecification:
    """Read a specification and check it; Usage where its kind, a key or a setting is wrong. Nothing is opened."""
    return check_bot(BotSpecification.parse(text))


def check_bot(specification: BotSpecification) -> BotSpecification:
    """Return a specification that can be opened; Usage where its kind, a key or a setting is wrong."""
    text = str(specification)
    kind = kind_of(specification.kind)
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
    ours = [
        f"{name}:{kind.source},key=value,… with the keys {', '.join([*kind.keys, SEED])}"
        for name, kind in KINDS.items()
    ]
    return "; ".join([*ours, *(f"{name}:…" for name in sorted(of_packages(BOTS)))])


def _opened(specification: BotSpecification, sources: BotSources) -> Replier:
    """Open the bot of a specification; one of a package is watched."""
    kind = kind_of(specification.kind)
    assert kind is not None, "a checked specification has a kind"
    registration = None if specification.kind in KINDS else of_package(BOTS, specification.kind, "kind of bot")
    if registration is None:
        return kind.open(specification, sources)
    try:
        return PackageBot(inner=kind.open(specification, sources), registration=registration)
    except RefaugError:
        raise
    except Exception as error:  # whatever a package does
        raise broken(f"bot {specification} of package {registration.package}", repr(error)) from error


@dataclass(frozen=True, eq=False, kw_only=True)
class PackageBot(WrappedBot):
    """A bot of a package, whose replies are checked."""

    registration: Registration

    @property
    def provenance(self) -> Mapping[str, str]:
        """What makes the replies, with the package and its version."""
        return {**self.inner.provenance, "kind": self.registration.name, "package": self.registration.released}

    def replies(self, requests: Sequence[ReplyRequest]) -> list[BotReply]:
        """Return the replies; MissingPart names the package where they are none."""
        return self._checked(self.inner.replies, requests)

    def openings(self, requests: Sequence[ReplyRequest]) -> list[BotReply]:
        """Return what the bot begins dialogues with, checked in the same way."""
        return self._checked(partial(openings_of, self.inner), requests)

    def _checked(
        self, replies_to: Callable[[Sequence[ReplyRequest]], list[BotReply]], requests: Sequence[ReplyRequest]
    ) -> list[BotReply]:
        whose = f"kind of bot {self.registration.name} of package {self.registration.package}"
        try:
            replies = list(replies_to(requests))
        except RefaugError:
            raise
        except Exception as error:  # whatever a package does
            raise broken(whose, f"replying ended with {error!r}") from error
        wrong = next((reply for reply in replies if not _is_reply(reply)), None)
        if wrong is not None or len(replies) != len(requests):
            told = f"{len(replies)} replies to {len(requests)} requests" if wrong is None else f"{wrong!r:.100}"
            raise broken(whose, f"it returned {told}; a BotReply for each, with a text or a problem, was expected")
        return replies


def _is_reply(reply: object) -> bool:
    return isinstance(reply, BotReply) and bool(reply.problem if reply.text is None else reply.text.strip())


def open_bot(specification: BotSpecification, sources: BotSources) -> Replier:
    """Open the bot of a checked specification; Usage for a seed where nothing is drawn."""
    replier = _opened(specification, sources)
    if specification.text(SEED) is not None and not replier.is_random:
        raise Usage(f"{specification}: {SEED} has no effect, since nothing is drawn", remedy=f"leave {SEED} out")
    return replier
