"""Checks that a set has enough references and rows for a figure: a set that shares nothing with the log is a gap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from refaug.core.errors import BadInput
from refaug.extras.reproduction.material.chain import Chain
from refaug.extras.reproduction.material.rated_sets import ProofSet
from refaug.indexer.search.search_settings import SearchSettings
from refaug.metrics.statistics.correlation import FEWEST_ROWS
from refaug.scoring.cases import ENOUGH
from refaug.scoring.home.indexes import open_index

_MOST_THIN: Final = 0.5  # of the items: beyond, a figure would say more about the golds
_FEWEST_CONTEXTS: Final = 2  # from which intervals can be drawn


def too_few_references(name: str, counts: Sequence[int]) -> str | None:
    """Return why the references of a set, counted by item, are too few for a figure; None where they suffice."""
    thin = sum(1 for count in counts if count < ENOUGH)
    if thin <= _MOST_THIN * len(counts):
        return None
    return f"{name}: fewer than {ENOUGH} references are found for {thin:,} of {len(counts):,} items"


def sets_with_references(chain: Chain, sets: Sequence[ProofSet]) -> tuple[list[ProofSet], list[str]]:
    """Return the usable sets and why the others are not usable; raise BadInput where no set is."""
    usable_sets, gaps = list[ProofSet](), list[str]()
    for rated_set in sets:
        shortage = _too_few_rows(rated_set) or too_few_references(rated_set.name, _reference_counts(chain, rated_set))
        if shortage is None:
            usable_sets.append(rated_set)
        else:
            gaps.append(shortage)
    if not usable_sets:
        raise BadInput("; ".join(gaps), remedy="give sets with rated replies, and logs of dialogues like theirs")
    return usable_sets, gaps


def _too_few_rows(rated_set: ProofSet) -> str | None:
    rows, contexts = int(rated_set.fair.sum()), len(np.unique(rated_set.item[rated_set.fair]))
    if rows == 0:
        return f"{rated_set.name}: every rated reply is one of its own references"
    if rows < FEWEST_ROWS or contexts < _FEWEST_CONTEXTS:
        return f"{rated_set.name}: {rows:,} rated replies in {contexts:,} contexts are not one of their own references"
    return None


def _reference_counts(chain: Chain, rated_set: ProofSet) -> list[int]:
    """Return the number of references that the main index has for each item."""
    with open_index(chain.home, chain.main_index(), threads=chain.settings.threads) as opened:
        matches = opened.search(rated_set.items, SearchSettings(k=ENOUGH))
    return [len(match.references) for match in matches]


def unknown_language(chain: Chain, rated_set: ProofSet) -> str | None:
    """Return why the rater's opinion of a set means little: its texts are in no language that the rater knows."""
    rater = chain.rater()
    texts = [text for test_item in rated_set.items for text in (test_item.utterance or "", *test_item.replies.values())]
    reason = rater.unfamiliar(rater.coverage(texts))
    return None if reason is None else f"{rated_set.name}: {reason}"
