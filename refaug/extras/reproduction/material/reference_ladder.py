"""The ladder of references: rungs with ever more references, and the metric as a curve of their number.

Every rung and every number has its control: equally many replies drawn from a log, of the same lengths in tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Final

import numpy as np

from refaug.core.records import Item, Reference
from refaug.core.text.tokenizers import get_tokenizer
from refaug.extras.reproduction.figures.correlations import Correlations, IntervalEstimate, Line, correlate
from refaug.extras.reproduction.material import reference_kinds
from refaug.extras.reproduction.material.proof_logs import ProofSettings
from refaug.extras.reproduction.material.rated_sets import Mask, ProofSet
from refaug.metrics.base import Floats, Metric
from refaug.metrics.specification import build
from refaug.metrics.statistics.correlation import PARTIAL

SINGLE, HUMAN = "1 by people", "all by people"
K: Final = 15
KINDS: Final = ("spearman", PARTIAL)
BOTH: Final = ("spearman", "pearson")
_IN_WORDS: Final = {
    reference_kinds.MATCHED: "drawn, as long",
    reference_kinds.ONE: "retrieved, each worth 1",
    reference_kinds.SHUFFLED: "retrieved, weights shuffled",
    reference_kinds.RATED: "retrieved and rated",
}


# ── The ladder ────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True, eq=False)
class Ladder:
    """A set with several references for every item, and what is retrieved beside the first or beside all of them."""

    rated_set: ProofSet
    single: ProofSet
    beside_one: reference_kinds.Pool
    beside_all: reference_kinds.Pool

    def rungs(self) -> tuple[str, ...]:
        """Return the names of the rungs in the order of the tables: one reference, all, and each with further ones."""
        return (SINGLE, HUMAN, *(rung_name(own, kind) for own in (SINGLE, HUMAN) for kind in _IN_WORDS))

    def scores(self, name: str, metric: Metric, seeds: int) -> Floats:
        """Return the scores on a rung (seeds, rows)."""
        own, kind = _split_rung_name(name)
        rated_set, pool = (self.single, self.beside_one) if own == SINGLE else (self.rated_set, self.beside_all)
        if kind is None:
            return reference_kinds.scores_of(rated_set, metric)[None]
        return np.stack(
            [
                reference_kinds.scores_of(rated_set, metric, pool.extras(kind, k=K, parrot=False, seed=seed))
                for seed in range(seeds if kind in reference_kinds.BY_CHANCE else 1)
            ]
        )


def rung_name(own: str, kind: str) -> str:
    """Return the name of the rung with people's references and further ones of a kind."""
    return f"{own} + {K} {_IN_WORDS[kind]}"


def _split_rung_name(name: str) -> tuple[str, str | None]:
    own, plus, words = name.partition(f" + {K} ")
    return own, next(kind for kind, label in _IN_WORDS.items() if label == words) if plus else None


@dataclass(frozen=True, kw_only=True)
class RungCorrelations:
    """The correlations of the rungs of one set with one metric."""

    metric: str
    correlations: Correlations


def correlate_rungs(
    ladder: Ladder, metric: str, settings: ProofSettings, *, rows: Mask | None = None
) -> RungCorrelations:
    """Correlate all rungs with the same metric."""
    built = build(metric)
    lines = [_line(ladder, name, ladder.scores(name, built, settings.seeds)) for name in ladder.rungs()]
    return RungCorrelations(metric=metric, correlations=_correlate_lines(ladder, lines, settings, rows))


def _line(ladder: Ladder, name: str, scores: Floats) -> Line:
    return Line(name=name, scores={ladder.rated_set.name: scores})


def _correlate_lines(ladder: Ladder, lines: Sequence[Line], settings: ProofSettings, rows: Mask | None) -> Correlations:
    rated_set = ladder.rated_set
    return correlate(
        [rated_set],
        lines,
        rows=None if rows is None else {rated_set.name: rows},
        kinds=KINDS if rows is None else BOTH,
        draws=settings.draws,
        seed=settings.seed,
    )


# ── Curves by number of references ────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A metric by the number of references: those of the set, and one of them with drawn replies for the rest."""

    metric: str
    numbers: tuple[str, ...]
    correlations: Correlations

    def own(self, number: str) -> IntervalEstimate:
        """Return the figure with that many references of the set."""
        return self.correlations.estimate(own_name(number), "spearman", self.correlations.sets[0])

    def drawn(self, number: str) -> IntervalEstimate:
        """Return the figure with one reference of the set and drawn replies for the rest."""
        return self.correlations.estimate(drawn_name(number), "spearman", self.correlations.sets[0])


def own_name(number: str) -> str:
    """Return the name of the line with that many references of the set."""
    return f"{number} of the set"


def drawn_name(number: str) -> str:
    """Return the name of the control of that line."""
    return "1 of the set" if number == "1" else f"1 of the set, drawn ones up to {number}"


def curve_by_subsets(
    rated_set: ProofSet, name: str, metric: Metric, settings: ProofSettings, sample: reference_kinds.ReplySample
) -> Curve:
    """Return the curve over 1, 2, … references by people: each point is the mean over all subsets of that size."""
    most = min(len(test_item.references) for test_item in rated_set.items)
    lines = list[Line]()
    for number in range(1, most + 1):
        subsets = list(combinations(range(most), number))
        lines.append(
            _line_over_sets(
                rated_set,
                own_name(str(number)),
                metric,
                [_with_reference_subset(rated_set, places) for places in subsets],
            )
        )
        if number > 1:
            control = [
                with_drawn_references(rated_set, number, seed, sample, first=seed % most)
                for seed in range(settings.seeds)
            ]
            lines.append(_line_over_sets(rated_set, drawn_name(str(number)), metric, control))
    correlations = correlate([rated_set], lines, kinds=KINDS, draws=settings.draws, seed=settings.seed)
    return Curve(metric=name, numbers=tuple(str(number) for number in range(1, most + 1)), correlations=correlations)


def _line_over_sets(rated_set: ProofSet, name: str, metric: Metric, sets: Sequence[ProofSet]) -> Line:
    return Line(
        name=name, scores={rated_set.name: np.stack([reference_kinds.scores_of(variant, metric) for variant in sets])}
    )


def with_references(test_item: Item, references: Sequence[Reference]) -> Item:
    """Return the item with other references."""
    return replace(test_item, references=tuple(references))


def _with_reference_subset(rated_set: ProofSet, places: Sequence[int]) -> ProofSet:
    return replace(
        rated_set,
        items=tuple(
            with_references(test_item, [test_item.references[at] for at in places]) for test_item in rated_set.items
        ),
    )


def with_drawn_references(
    rated_set: ProofSet, count: int, seed: int, sample: reference_kinds.ReplySample, *, first: int = 0
) -> ProofSet:
    """Keep one reference of each item, and add drawn replies as long as its other references, up to a number."""
    tokenizer = get_tokenizer(sample.tokenizer)
    items = list[Item]()
    for number, test_item in enumerate(rated_set.items):
        own = test_item.references[first]
        further = [reference for at, reference in enumerate(test_item.references) if at != first]
        further = [further[at] for at in np.random.default_rng([seed, number]).permutation(len(further))][: count - 1]
        lengths = [len(words) for words in tokenizer.tokenize_batch([reference.text for reference in further])]
        texts = sample.draw_as_long_as(lengths, np.random.default_rng([seed, number, 1]))
        items.append(with_references(test_item, [own, *(Reference(text=text) for text in texts)]))
    return replace(rated_set, items=tuple(items))
