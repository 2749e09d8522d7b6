"""A bot that replies with a response from an index: one of the k best pairs for the utterance.

With BM25 over utterances and k = 1 it is the C-BM25 of the literature. It follows the rules by which references are
excluded (`refaug.indexer.search.ranking`): it never replies with a gold or nearly one, with the utterance, or out of
the dialogue of the test pair. References that people weighted count as golds here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final, Self

from refaug.bots.replier import BotReply, Replier, ReplyRequest
from refaug.bots.specification import BotSpecification
from refaug.core.errors import Usage
from refaug.core.records import Item, Origin, Reference
from refaug.indexer.search.index import ReferenceIndex
from refaug.indexer.search.search_settings import MAX_REFERENCES, MODES, SearchSettings

KIND: Final = "retrieval"
KEYS: Final[Mapping[str, str]] = {
    "mode": f"{', '.join(MODES)}; without it {SearchSettings.mode}",
    "k": f"the reply is drawn from so many best candidates, 1 to {MAX_REFERENCES:,}; without it the best one",
    "exclude-log": "a log to take nothing from; may be repeated",
    "after": "only pairs at or after this time",
    "before": "only pairs before this time",
}
REPEATED_KEYS: Final = ("exclude-log",)
NOTHING_RETRIEVED: Final = "nothing_retrieved"


def search_settings(specification: BotSpecification) -> SearchSettings:
    """Return the search that a specification describes; k is the number of candidates."""
    mode = specification.text("mode") or SearchSettings.mode
    if mode not in MODES:
        raise Usage(f"{specification}: no mode is called {mode!r}", remedy=f"one of: {', '.join(MODES)}")
    return SearchSettings(
        k=specification.whole_number("k", 1, least=1, most=MAX_REFERENCES),
        mode=mode,
        exclude_logs=specification.texts("exclude-log"),
        after=_time(specification, "after"),
        before=_time(specification, "before"),
    )


def _time(specification: BotSpecification, key: str) -> datetime | None:
    text = specification.text(key)
    if text is None:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        raise Usage(
            f"{specification}: {key}={text} is not a time", remedy="for example 2026-11-20 or 2026-11-20T08:30:00Z"
        ) from error
    return time if time.tzinfo else time.replace(tzinfo=UTC)


@dataclass(frozen=True, eq=False, kw_only=True)
class RetrievalBot(Replier):
    """A bot that retrieves its replies from an opened index."""

    index: ReferenceIndex
    search: SearchSettings

    @classmethod
    def of(cls, specification: BotSpecification, index: ReferenceIndex) -> Self:
        """Return the bot of a specification; Usage for a log that the index does not have."""
        search = search_settings(specification)
        if unknown := sorted(set(search.exclude_logs) - set(index.logs)):
            raise Usage(
                f"{specification}: the index has no log {unknown[0]!r}", remedy=f"it has: {', '.join(index.logs)}"
            )
        return cls(index=index, search=search)

    @property
    def provenance(self) -> Mapping[str, str]:
        """The index with its version and hash, and the settings of the search."""
        search = self.search
        fields = {
            "kind": KIND,
            "index": self.index.spec,
            "mode": search.mode,
            "k": str(search.k),
            "exclude-logs": ",".join(sorted(search.exclude_logs)),
            "after": search.after.isoformat() if search.after else "",
            "before": search.before.isoformat() if search.before else "",
        }
        return {key: setting for key, setting in fields.items() if setting}

    @property
    def is_random(self) -> bool:
        """Whether there are several candidates to draw from."""
        return self.search.k > 1

    @property
    def warnings(self) -> Sequence[str]:
        """That the dialog modes look at the gold, which no system sees that is put to the test."""
        if not self.search.is_dialog:
            return ()
        return (f"{self.search.mode} compares with the gold, which a system under test never sees",)

    def openings(self, requests: Sequence[ReplyRequest]) -> list[BotReply]:
        """Begin each dialogue with the reply to an utterance that the seed draws from the index."""
        return self.replies(opening_requests(requests, self.index))

    def replies(self, requests: Sequence[ReplyRequest]) -> list[BotReply]:
        """Search for all requests at once, and draw one of the candidates of each."""
        retrieved = self.index.search([withheld(request.item) for request in requests], self.search)
        return [
            choose_reply(request, candidates.references, candidates.search_notes.get("note", ""))
            for request, candidates in zip(requests, retrieved, strict=True)
        ]


def opening_requests(requests: Sequence[ReplyRequest], index: ReferenceIndex) -> list[ReplyRequest]:
    """Return requests in which each dialogue is an utterance that its seed draws from the index."""
    return [
        replace(request, item=replace(request.item, turns=(index.draw_utterance(request.seed),)))
        for request in requests
    ]


def withheld(pair: Item) -> Item:
    """Return the pair with all its own references as golds, which are excluded; the golds stay first."""
    golds = [reference for reference in pair.references if reference.source is Origin.GOLD]
    supplied = [reference for reference in pair.references if reference.source is Origin.SUPPLIED]
    return replace(pair, references=(*golds, *(replace(reference, source=Origin.GOLD) for reference in supplied)))


def choose_reply(request: ReplyRequest, candidates: Sequence[Reference], note: str = "") -> BotReply:
    """Draw one of the candidates, each with the same probability; `note` says why there may be none.

    The draw depends on the seed, the turns and the golds alone, so ids and the order of test pairs do not matter.
    """
    if not candidates:
        return BotReply(text=None, problem=note or NOTHING_RETRIEVED)
    golds = [reference.text for reference in request.item.references if reference.source is Origin.GOLD]
    digest = hashlib.sha256(json.dumps([request.seed, request.item.turns, golds]).encode()).digest()
    return BotReply(text=candidates[int.from_bytes(digest[:8], "big") % len(candidates)].text)
