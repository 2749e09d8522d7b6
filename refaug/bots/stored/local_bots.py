"""Stored bots that reply on this machine: from an index, where they do not repeat themselves, and from a network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from refaug.bots.replier import BotReply, Replier, ReplyRequest, openings_of
from refaug.bots.retrieval import NOTHING_RETRIEVED, RetrievalBot, opening_requests, withheld
from refaug.bots.stored.seeded_draws import draw_by_similarity
from refaug.core.records import Reference
from refaug.core.text.normalisation import normalise
from refaug.indexer.search.search_settings import MAX_REFERENCES

OWN_TURNS: Final = 3  # earlier replies that are not given again


@dataclass(frozen=True, eq=False, kw_only=True)
class ConversingRetrievalBot:
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

    @property
    def remarks(self) -> Sequence[str]:
        """Nothing: the index is searched here."""
        return ()

    def openings(self, requests: Sequence[ReplyRequest]) -> list[BotReply]:
        """Begin each dialogue with the reply to an utterance that the seed draws from the index."""
        return self.replies(opening_requests(requests, self.inner.index))

    def replies(self, requests: Sequence[ReplyRequest]) -> list[BotReply]:
        """Search for all requests at once; there are so many more candidates as may be left out."""
        search = replace(self.inner.search, k=min(self.inner.search.k + OWN_TURNS, MAX_REFERENCES))
        retrieved = self.inner.index.search([withheld(request.item) for request in requests], search)
        return [
            self._choose(request, candidates.references, candidates.note)
            for request, candidates in zip(requests, retrieved, strict=True)
        ]

    def _choose(self, request: ReplyRequest, candidates: Sequence[Reference], note: str) -> BotReply:
        turns = request.item.turns
        replies = turns[-2::-2][::-1] if request.own is None else request.own
        own = {normalise(reply) for reply in replies[-OWN_TURNS:]}
        usable = [candidate for candidate in candidates if normalise(candidate.text) not in own]
        usable = usable[: self.inner.search.k]
        if not usable:
            return BotReply(text=None, problem=note or NOTHING_RETRIEVED)
        if self.temperature is None:
            return BotReply(text=usable[0].text)
        similarities = [candidate.similarity or 0.0 for candidate in usable]
        return BotReply(text=usable[draw_by_similarity(similarities, self.temperature, request.seed, list(turns))].text)


@dataclass(frozen=True, eq=False, kw_only=True)
class NamedBot:
    """A bot of a command under the name of a stored one."""

    spec: str
    inner: Replier

    @property
    def provenance(self) -> Mapping[str, str]:
        """What makes the replies, and the name with its hash."""
        return {**self.inner.provenance, "bot": self.spec}

    @property
    def is_random(self) -> bool:
        """Whether the seed of a request can change its reply."""
        return self.inner.is_random

    @property
    def warnings(self) -> Sequence[str]:
        """What to know of all replies."""
        return self.inner.warnings

    @property
    def remarks(self) -> Sequence[str]:
        """What the replies so far have cost."""
        return self.inner.remarks

    def replies(self, requests: Sequence[ReplyRequest]) -> list[BotReply]:
        """Return one reply for each request, in their order."""
        return self.inner.replies(requests)

    def openings(self, requests: Sequence[ReplyRequest]) -> list[BotReply]:
        """Return what the bot begins each dialogue with, if it can."""
        return openings_of(self.inner, requests)
