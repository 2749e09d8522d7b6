"""Stored bots to bots that reply; a new kind is one more entry here, and one in `specification_fields`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp
from typing import TYPE_CHECKING, Final

from refaug.bots.endpoint.specification import Endpoint, endpoint_of, turns_endpoint_of
from refaug.bots.generation import GeneratingBot
from refaug.bots.kinds import BotSources, open_bot
from refaug.bots.replier import BotReply, Replier, ReplyRequest, WrappedBot, openings_of
from refaug.bots.retrieval import NOTHING_RETRIEVED, RetrievalBot, opening_requests, withheld
from refaug.bots.stored import specification_fields
from refaug.bots.stored.endpoint_bot import EndpointAccess, EndpointBot, require_hosts
from refaug.bots.stored.specification import StoredBot
from refaug.core.records import Reference
from refaug.core.text.normalisation import normalise
from refaug.indexer.search.index import ReferenceIndex

if TYPE_CHECKING:
    from refaug.rater.adem.vhred.artefact import Vhred


def draw_bits(*parts: object) -> int:
    """Return 64 bits from texts, numbers and lists of them."""
    return int.from_bytes(hashlib.sha256(json.dumps(parts).encode()).digest()[:8], "big")


def draw_place(count: int, *parts: object) -> int:
    """Return one of `count` places, each with the same probability."""
    return draw_bits(*parts) % count


def draw_share(*parts: object) -> float:
    """Return a number from 0 to below 1."""
    return (draw_bits(*parts) >> 11) / 2**53


def draw_by_similarity(similarities: Sequence[float], temperature: float, *parts: object) -> int:
    """Return a place, drawn with probabilities in proportion to exp(similarity / temperature)."""
    greatest = max(similarities)
    weights = [exp((similarity - greatest) / temperature) for similarity in similarities]
    point, total = draw_share(*parts) * sum(weights), 0.0
    for place, weight in enumerate(weights):
        total += weight
        if point < total:
            return place
    return len(weights) - 1  # the sum is rounded


# ── A bot with fixed replies, for tests and rehearsals ────────────────────────────────────────────────────────────────

NO_MORE_REPLIES: Final = "no_more_replies"
NO_UTTERANCE: Final = "no_utterance"


@dataclass(frozen=True, eq=False, kw_only=True)
class ReplayBot(Replier):
    """A bot whose n-th reply in a dialogue is the n-th of a list, or is drawn from the list."""

    spec: str
    texts: tuple[str, ...]
    draws: bool = False
    cycles: bool = False

    @property
    def provenance(self) -> Mapping[str, str]:
        """The name with its hash, which covers the list."""
        return {"kind": "replay", "bot": self.spec}

    @property
    def is_random(self) -> bool:
        """Whether replies are drawn."""
        return self.draws

    @property
    def warnings(self) -> Sequence[str]:
        """That the replies do not depend on the dialogue."""
        return ("its replies are a fixed list, whatever is said",)

    def replies(self, requests: Sequence[ReplyRequest]) -> list[BotReply]:
        """Return the reply to each dialogue."""
        return [self._reply(request) for request in requests]

    def openings(self, requests: Sequence[ReplyRequest]) -> list[BotReply]:
        """Return the first reply, or a drawn one."""
        return [
            BotReply(text=self.texts[draw_place(len(self.texts), request.seed, []) if self.draws else 0])
            for request in requests
        ]

    def _reply(self, request: ReplyRequest) -> BotReply:
        turns = request.item.turns
        if not turns or not turns[-1].strip():
            return BotReply(text=None, problem=NO_UTTERANCE)
        if self.draws:
            return BotReply(text=self.texts[draw_place(len(self.texts), request.seed, list(turns))])
        own_turns = len(turns) // 2 if request.own is None else len(request.own)
        if own_turns >= len(self.texts) and not self.cycles:
            return BotReply(text=None, problem=NO_MORE_REPLIES)
        return BotReply(text=self.texts[own_turns % len(self.texts)])


# ── Stored bots that reply on this machine: from an index, where they do not repeat themselves, and from a network ────

OWN_TURNS: Final = 3  # earlier replies that are not given again
SHOWN_CANDIDATES: Final = 5  # that a reply comes with


@dataclass(frozen=True, eq=False, kw_only=True)
class ConversingRetrievalBot(Replier):
    """A bot that retrieves its replies, and gives none that equals one of its last three."""

    spec: str
    inner: RetrievalBot
    temperature: float | None  # of the draw among the candidates; None: the best one

    @property
    def provenance(self) -> Mapping[str, str]:
        """The index with its version and hash, the search, and how one candidate is chosen."""
        pick = "top" if self.temperature is None else f"sample({self.temperature:g},{self.inner.search.k})"
        return {**self.inner.provenance, "bot": self.spec, "pick": pick}

    @property
    def is_random(self) -> bool:
        """Whether there are several candidates to draw from."""
        return self.temperature is not None

    @property
    def warnings(self) -> Sequence[str]:
        """What is to know of the search."""
        return self.inner.warnings

    def openings(self, requests: Sequence[ReplyRequest]) -> list[BotReply]:
        """Begin each dialogue with the reply to an utterance that the seed draws from the index."""
        return self.replies(opening_requests(requests, self.inner.index))

    def replies(self, requests: Sequence[ReplyRequest]) -> list[BotReply]:
        """Search for all requests at once; there are so many more candidates as may be left out."""
        search = replace(self.inner.search, k=min(self.inner.search.k + OWN_TURNS, self.inner.search.most_references))
        retrieved = self.inner.index.search([withheld(request.item) for request in requests], search)
        return [
            self._choose(request, candidates.references, candidates.search_notes.get("note", ""))
            for request, candidates in zip(requests, retrieved, strict=True)
        ]

    def _choose(self, request: ReplyRequest, candidates: Sequence[Reference], note: str) -> BotReply:
        turns = request.item.turns
        replies = turns[-2::-2][::-1] if request.own is None else request.own
        own = {normalise(reply) for reply in replies[-OWN_TURNS:]}
        fresh = [candidate for candidate in candidates if normalise(candidate.text) not in own]
        usable = fresh[: self.inner.search.k]
        if not usable:
            return BotReply(text=None, problem=note or NOTHING_RETRIEVED)
        place = 0
        if self.temperature is not None:
            similarities = [candidate.similarity or 0.0 for candidate in usable]
            place = draw_by_similarity(similarities, self.temperature, request.seed, list(turns))
        return BotReply(text=usable[place].text, retrieved=tuple(fresh[:SHOWN_CANDIDATES]))


@dataclass(frozen=True, eq=False, kw_only=True)
class NamedBot(WrappedBot):
    """A bot of a command under the name of a stored one."""

    spec: str

    @property
    def provenance(self) -> Mapping[str, str]:
        """What makes the replies, and the name with its hash."""
        return {**self.inner.provenance, "bot": self.spec}


# ── A bot that is worse on purpose: words of another bot's replies are replaced by words of random replies ────────────


@dataclass(frozen=True, eq=False, kw_only=True)
class DegradedBot(WrappedBot):
    """A bot that replaces a run of words in each reply by as many words of a reply drawn from a pool."""

    spec: str
    share: float
    pool: tuple[str, ...]

    @property
    def provenance(self) -> Mapping[str, str]:
        """The bot that it wraps, and how much is replaced."""
        inner = ",".join(f"{key}={text}" for key, text in self.inner.provenance.items())
        return {"kind": "degraded", "bot": self.spec, "share": f"{self.share:g}", "of": inner}

    @property
    def is_random(self) -> bool:
        """Yes: the words and their place are drawn."""
        return True

    @property
    def warnings(self) -> Sequence[str]:
        """That it is worse on purpose, and what is to know of the bot that it wraps."""
        return ("its replies are spoilt on purpose", *self.inner.warnings)

    def replies(self, requests: Sequence[ReplyRequest]) -> list[BotReply]:
        """Return the spoilt replies; a reply that is missing stays so."""
        return self._spoilt(requests, self.inner.replies(requests))

    def openings(self, requests: Sequence[ReplyRequest]) -> list[BotReply]:
        """Return what the wrapped bot begins dialogues with, spoilt as its replies are."""
        return self._spoilt(requests, openings_of(self.inner, requests))

    def _spoilt(self, requests: Sequence[ReplyRequest], replies: Sequence[BotReply]) -> list[BotReply]:
        return [
            reply if reply.text is None else replace(reply, text=self._spoil(reply.text, request))
            for request, reply in zip(requests, replies, strict=True)
        ]

    def _spoil(self, text: str, request: ReplyRequest) -> str:
        words, drawn_from = text.split(), [request.seed, list(request.item.turns), text]
        count = min(len(words), max(1, round(self.share * len(words))))
        begin = draw_place(len(words) - count + 1, *drawn_from, "place")
        strange = list[str]()
        step = 0
        while len(strange) < count:
            strange += self._words(text, [*drawn_from, step], count - len(strange))
            step += 1
        return " ".join([*words[:begin], *strange, *words[begin + count :]])

    def _words(self, text: str, drawn_from: Sequence[object], most: int) -> list[str]:
        """Return up to `most` words in a row of a random reply, which is another one than the text where possible."""
        texts = [other for other in self.pool if other != text] or list(self.pool)
        words = texts[draw_place(len(texts), *drawn_from, "reply")].split()
        begin = draw_place(max(1, len(words) - most + 1), *drawn_from, "words")
        return words[begin : begin + most]


# ── Stored bots to bots that reply; a new kind is one more entry here, and one in `specification_fields` ──────────────

_MAX_TOKENS: Final = 200
_TURNS: Final = 50


def _no_index(spec: str) -> ReferenceIndex:
    raise LookupError(f"no index {spec} is opened here")


def _no_vhred(spec: str) -> Vhred:
    raise LookupError(f"no vhred {spec} is opened here")


@dataclass(frozen=True, kw_only=True)
class StoredBotSources:
    """How stored bots open what they reply from; the caller closes it."""

    open_index: Callable[[str], ReferenceIndex] = _no_index  # by name or name@version
    open_vhred: Callable[[str], Vhred] = _no_vhred  # the same
    access: EndpointAccess = field(default_factory=EndpointAccess)


def open_stored(stored: StoredBot, sources: StoredBotSources) -> Replier:
    """Open a stored bot; NotAllowed where its host may not be asked, BadInput where its key is not set."""
    opener = _OPENERS.get(stored.kind)
    return _open_of_package(stored, sources) if opener is None else opener(stored, sources)


def _open_retrieval(stored: StoredBot, sources: StoredBotSources) -> Replier:
    fields, where = specification_fields.without_kind(stored.fields), f"bot {stored.name}"
    specification, (_, temperature) = (
        specification_fields.retrieval_specification(fields, where),
        specification_fields.pick_of(fields, where),
    )
    inner = RetrievalBot.of(specification, sources.open_index(specification.source))
    return ConversingRetrievalBot(spec=stored.spec, inner=inner, temperature=temperature)


def _open_neural(stored: StoredBot, sources: StoredBotSources) -> Replier:
    specification = specification_fields.neural_specification(
        specification_fields.without_kind(stored.fields), f"bot {stored.name}"
    )
    inner = GeneratingBot.of(specification, sources.open_vhred(specification.source))
    return NamedBot(spec=stored.spec, inner=inner)


def _open_replay(stored: StoredBot, sources: StoredBotSources) -> Replier:
    del sources
    fields = specification_fields.without_kind(stored.fields)
    return ReplayBot(
        spec=stored.spec,
        texts=specification_fields.replay_replies(fields, f"bot {stored.name}"),
        draws=fields.get("pick") == "sample",
        cycles=bool(fields.get("cycle", False)),
    )


def _open_degraded(stored: StoredBot, sources: StoredBotSources) -> Replier:
    wrapped, fields = stored.wrapped, specification_fields.without_kind(stored.fields)
    if wrapped is None:
        raise LookupError(f"bot {stored.name} wraps no bot")
    return DegradedBot(
        spec=stored.spec,
        inner=open_stored(wrapped, sources),
        share=float(fields.get("share", 0.5)),
        pool=specification_fields.degraded_pool(fields, f"bot {stored.name}"),
    )


def _open_openai(stored: StoredBot, sources: StoredBotSources) -> Replier:
    fields = specification_fields.without_kind(stored.fields)
    endpoint = endpoint_of(specification_fields.endpoint_fields(fields), where=f"bot {stored.name}", name=stored.name)
    _require_usable(stored, endpoint, sources.access)
    return EndpointBot(
        kind=stored.kind,
        spec=stored.spec,
        endpoint=endpoint,
        access=sources.access,
        most_turns=int(fields.get("turns", _TURNS)),
        system=str(fields.get("system", "")),
        max_tokens=int(fields.get("max_tokens", _MAX_TOKENS)),
        temperature=float(fields.get("temperature", 0.0)),
        spending=sources.access.spending_of(endpoint),
    )


def _open_http(stored: StoredBot, sources: StoredBotSources) -> Replier:
    fields = specification_fields.without_kind(stored.fields)
    most_turns = int(fields.pop("turns", _TURNS))
    endpoint = turns_endpoint_of(fields, where=f"bot {stored.name}", name=stored.name)
    _require_usable(stored, endpoint, sources.access)
    return EndpointBot(
        kind=stored.kind,
        spec=stored.spec,
        endpoint=endpoint,
        access=sources.access,
        most_turns=most_turns,
        spending=sources.access.spending_of(endpoint),
    )


def _open_of_package(stored: StoredBot, sources: StoredBotSources) -> Replier:
    fields, where = specification_fields.without_kind(stored.fields), f"bot {stored.name}"
    specification = specification_fields.package_specification(stored.kind, fields, where)
    opened = BotSources(open_index=sources.open_index, open_vhred=sources.open_vhred)
    return NamedBot(spec=stored.spec, inner=open_bot(specification, opened))


def _require_usable(stored: StoredBot, endpoint: Endpoint, access: EndpointAccess) -> None:
    require_hosts(stored.name, stored.addresses, access.client.policy)
    endpoint.secret(access.client.environment)


_OPENERS: Final[Mapping[str, Callable[[StoredBot, StoredBotSources], Replier]]] = {
    "retrieval": _open_retrieval,
    "openai": _open_openai,
    "http": _open_http,
    "replay": _open_replay,
    "degraded": _open_degraded,
    "neural": _open_neural,
}
