"""Whether enough references are found for a figure: where a log shares nothing with a set there is a gap instead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from core.errors import BadInput
from indexer.queries import SearchSettings
from metrics.correlation import FEWEST_ROWS
from service.cases import ENOUGH
from service.proof.chain import Chain
from service.proof.references import Pool
from service.proof.sets import ProofSet
from service.retrieval import open_index

_MOST_THIN: Final = 0.5  # of the items: beyond, a figure would be one of the golds
_FEWEST_CONTEXTS: Final = 2  # that intervals can be drawn from


def too_few(name: str, counts: Sequence[int]) -> str | None:
    """Why the references found for a set, so many for each item, are too few to say anything of them."""
    thin = sum(1 for one in counts if one < ENOUGH)
    if thin <= _MOST_THIN * len(counts):
        return None
    return f"{name}: fewer than {ENOUGH} references are found for {thin:,} of {len(counts):,} items"


def require_found(one: ProofSet, pool: Pool) -> None:
    """BadInput where a pool has too little for a set."""
    told = too_few(one.name, [len(found) for found in pool.retrieved])
    if told is not None:
        raise BadInput(told, remedy="give logs of dialogues like those that are evaluated")


def usable(chain: Chain, sets: Sequence[ProofSet]) -> tuple[list[ProofSet], list[str]]:
    """The sets that anything can be said of, and why not of the others; BadInput where none is left."""
    kept, gaps = list[ProofSet](), list[str]()
    for one in sets:
        told = _too_few_rows(one) or too_few(one.name, _counts(chain, one))
        if told is None:
            kept.append(one)
        else:
            gaps.append(told)
    if not kept:
        raise BadInput("; ".join(gaps), remedy="give sets with rated replies, and logs of dialogues like theirs")
    return kept, gaps


def _too_few_rows(one: ProofSet) -> str | None:
    rows, contexts = int(one.fair.sum()), len(np.unique(one.item[one.fair]))
    if rows == 0:
        return f"{one.name}: every rated reply is one of its own references"
    if rows < FEWEST_ROWS or contexts < _FEWEST_CONTEXTS:
        return f"{one.name}: {rows:,} rated replies in {contexts:,} contexts are not one of their own references"
    return None


def _counts(chain: Chain, one: ProofSet) -> list[int]:
    """How many references the main index has for each item."""
    with open_index(chain.home, chain.main_index(), threads=chain.settings.threads) as opened:
        found = opened.search([item.pair for item in one.items], SearchSettings(k=ENOUGH))
    return [len(each.references) for each in found]


def unfamiliar(chain: Chain, one: ProofSet) -> str | None:
    """Why the rater's opinion of a set means little: its texts are in no language that it knows."""
    rater = chain.rater()
    texts = [text for item in one.items for text in (item.pair.utterance or "", *item.replies.values())]
    told = rater.unfamiliar(rater.coverage(texts))
    return None if told is None else f"{one.name}: {told}"
