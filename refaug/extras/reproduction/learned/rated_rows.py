"""The rows of rated sets as learners take them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from refaug.core.records import Origin
from refaug.core.text.normalisation import normalise
from refaug.extras.reproduction.material.rated_sets import Mask, ProofSet, context_numbers
from refaug.metrics.base import Floats
from refaug.rater.adem.scorer.rated_triples import LEAST, MOST, Form, Indexes, RatedTriples, Triple, to_five


@dataclass(frozen=True, kw_only=True, eq=False)
class LearnedRows:
    """Rated triples with the lengths of their replies, which controls are fitted to."""

    rated: RatedTriples
    lengths: Floats

    def __len__(self) -> int:
        return len(self.rated)

    def select(self, rows: Indexes) -> LearnedRows:
        """Return these rows."""
        return LearnedRows(rated=self.rated.select(rows), lengths=self.lengths[rows])

    def with_ratings(self, ratings: Floats) -> LearnedRows:
        """Return the rows with other ratings."""
        return LearnedRows(rated=replace(self.rated, ratings=ratings), lengths=self.lengths)

    @classmethod
    def joined(cls, parts: Sequence[LearnedRows]) -> LearnedRows:
        """Return the rows of several sets, whose contexts are numbered together."""
        return cls(
            rated=RatedTriples(
                triples=tuple(triple for part in parts for triple in part.rated.triples),
                ratings=np.concatenate([part.rated.ratings for part in parts]),
                contexts=np.concatenate([part.rated.contexts for part in parts]),
                systems=tuple(system for part in parts for system in part.rated.systems),
            ),
            lengths=np.concatenate([part.lengths for part in parts]),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class LearnedSet:
    """A rated set with all its rows as triples; those that are no fair rows are neither learnt from nor compared."""

    rated_set: ProofSet
    rows: LearnedRows
    usable: Mask  # fair rows that have what a form needs

    @property
    def name(self) -> str:
        """The name of the set."""
        return self.rated_set.name

    @property
    def fair_rows(self) -> LearnedRows:
        """The rows that can be learnt from."""
        return self.rows.select(np.flatnonzero(self.usable))

    def spread(self, scores: Floats) -> Floats:
        """Return scores of the usable rows as scores of all rows, NaN for the others."""
        everywhere = np.full((*scores.shape[:-1], len(self.rows)), np.nan)
        everywhere[..., self.usable] = scores
        return everywhere


def learned_sets(sets: Sequence[ProofSet], form: Form) -> list[LearnedSet]:
    """Return sets for a form; a context that several of them share has one number in all."""
    contexts = context_numbers(sets)
    return [_learned_set(rated_set, form, contexts[rated_set.name]) for rated_set in sets]


def _learned_set(rated_set: ProofSet, form: Form, contexts: Indexes) -> LearnedSet:
    """Return a set; the reference of a row is the first gold that is not the reply itself."""
    triples = tuple(_triple(rated_set, row) for row in range(len(rated_set.replies)))
    has_parts = np.array(
        [
            (not form.has_context or any(turn.strip() for turn in triple.context))
            and (not form.has_reference or bool(triple.reference.strip()))
            for triple in triples
        ],
        dtype=np.bool_,
    )
    scale = next((test_item.scale for test_item in rated_set.items if test_item.scale is not None), (LEAST, MOST))
    return LearnedSet(
        rated_set=rated_set,
        rows=LearnedRows(
            rated=RatedTriples(
                triples=triples,
                ratings=to_five(rated_set.ratings, scale),
                contexts=contexts[rated_set.item],
                systems=rated_set.systems,
            ),
            lengths=rated_set.lengths,
        ),
        usable=rated_set.fair & has_parts,
    )


def _triple(rated_set: ProofSet, row: int) -> Triple:
    test_item, reply = rated_set.items[int(rated_set.item[row])], rated_set.replies[row]
    golds = (reference.text for reference in test_item.references if reference.source is Origin.GOLD)
    gold = next((text for text in golds if text.strip() and normalise(text) != normalise(reply)), "")
    return Triple(context=test_item.turns, reference=gold, reply=reply)
