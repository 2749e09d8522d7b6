"""Further references one after the other: the rungs of a ladder, and the number of references as a curve.

Every rung and every number has its control: as many replies drawn from a log, as long token by token.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from typing import Final

import numpy as np

from core.progress import Progress
from core.records import Item, Reference
from core.text import get_tokenizer
from metrics.base import Floats, Metric
from metrics.correlation import PARTIAL, spearman
from metrics.specification import build
from service.proof.chain import ProofSettings
from service.proof.figures import Figure, Line, Measured, measured
from service.proof.references import BY_CHANCE, MATCHED, ONE, RATED, SHUFFLED, Drawn, Pool, scores_of
from service.proof.sets import Mask, ProofSet

SINGLE, HUMAN = "1 by people", "all by people"
SIZES: Final = (1, 2, 5, 10, 20)
K: Final = 15
SMOOTHINGS: Final = ("none", "floor", "add-k", "exp", "epsilon")
PENALTIES: Final = ("closest", "closest-positive", "average", "gold", "none")
SEEDS_TO_CHOOSE: Final = 3  # of a control, to choose its setting by; its figure is of all seeds
_SEEDS_AT_SIZE: Final = 3
_DRAWS_AT_SIZE: Final = 300  # of a thousand contexts: a third digit is not wanted
KINDS: Final = ("spearman", PARTIAL)
BOTH: Final = ("spearman", "pearson")
_IN_WORDS: Final = {
    MATCHED: "drawn, as long",
    ONE: "retrieved, each worth 1",
    SHUFFLED: "retrieved, weights shuffled",
    RATED: "retrieved and rated",
}


# ── the ladder ────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True, eq=False)
class Ladder:
    """A set with several references for every item, and what is retrieved beside the first or all of them."""

    rated_set: ProofSet
    single: ProofSet
    beside_one: Pool
    beside_all: Pool

    def rungs(self) -> tuple[str, ...]:
        """One reference, all, and each with further ones; in the order of the tables."""
        return (SINGLE, HUMAN, *(rung(own, kind) for own in (SINGLE, HUMAN) for kind in _IN_WORDS))

    def scores(self, name: str, metric: Metric, seeds: int) -> Floats:
        """The scores on a rung (seeds, rows)."""
        own, kind = _taken_apart(name)
        one, pool = (self.single, self.beside_one) if own == SINGLE else (self.rated_set, self.beside_all)
        if kind is None:
            return scores_of(one, metric)[None]
        return np.stack(
            [
                scores_of(one, metric, pool.extras(kind, k=K, parrot=False, seed=seed))
                for seed in range(seeds if kind in BY_CHANCE else 1)
            ]
        )


def rung(own: str, kind: str) -> str:
    """The name of people's references with further ones of a kind."""
    return f"{own} + {K} {_IN_WORDS[kind]}"


def _taken_apart(name: str) -> tuple[str, str | None]:
    own, plus, words = name.partition(f" + {K} ")
    return own, next(kind for kind, said in _IN_WORDS.items() if said == words) if plus else None


@dataclass(frozen=True, kw_only=True)
class Climbed:
    """The rungs of one set, measured with one metric; `settings` say with which where each has its own."""

    metric: str
    found: Measured
    settings: Mapping[str, str]


def climbed(ladder: Ladder, metric: str, settings: ProofSettings, *, rows: Mask | None = None) -> Climbed:
    """All rungs with the same metric."""
    built = build(metric)
    lines = [_line(ladder, name, ladder.scores(name, built, settings.seeds)) for name in ladder.rungs()]
    return Climbed(metric=metric, found=_measured(ladder, lines, settings, rows), settings={})


def climbed_at_best(ladder: Ladder, order: int, settings: ProofSettings, progress: Progress) -> Climbed:
    """Every rung at the smoothing and the penalty that are best for it on these very rows: an upper bound of each."""
    grid = [f"upsilon-bleu:n={order},smooth={smooth},bp={bp}" for smooth, bp in product(SMOOTHINGS, PENALTIES)]
    lines, chosen = list[Line](), dict[str, str]()
    for name in ladder.rungs():
        tried = min(settings.seeds, SEEDS_TO_CHOOSE)
        best = max(grid, key=lambda metric: _on_fair_rows(ladder, ladder.scores(name, build(metric), tried)))
        lines.append(_line(ladder, name, ladder.scores(name, build(best), settings.seeds)))
        chosen[name] = best.partition("smooth=")[2]
        progress.advance(1)
    return Climbed(metric=f"BLEU-{order}", found=_measured(ladder, lines, settings, None), settings=chosen)


def _on_fair_rows(ladder: Ladder, scores: Floats) -> float:
    """The mean over seeds; no correlation is the worst."""
    one = ladder.rated_set
    values = [spearman(of[one.fair], one.ratings[one.fair]).value for of in scores]
    return float(np.mean([-1.0 if value is None else value for value in values]))


def _line(ladder: Ladder, name: str, scores: Floats) -> Line:
    return Line(name=name, scores={ladder.rated_set.name: scores})


def _measured(ladder: Ladder, lines: Sequence[Line], settings: ProofSettings, rows: Mask | None) -> Measured:
    one = ladder.rated_set
    return measured(
        [one],
        lines,
        rows=None if rows is None else {one.name: rows},
        kinds=KINDS if rows is None else BOTH,
        draws=settings.draws,
        seed=settings.seed,
    )


# ── one reference after the other ─────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A metric by the number of references: those of the set, and one of them with drawn ones as long as the rest."""

    metric: str
    numbers: tuple[str, ...]
    found: Measured

    def own(self, number: str) -> Figure:
        """With so many of the set's references."""
        return self.found.figure(own_name(number), "spearman", self.found.sets[0])

    def drawn(self, number: str) -> Figure:
        """With one of them, and drawn ones for the rest."""
        return self.found.figure(drawn_name(number), "spearman", self.found.sets[0])


def own_name(number: str) -> str:
    """Of the line with so many references of the set."""
    return f"{number} of the set"


def drawn_name(number: str) -> str:
    """Of its control."""
    return "1 of the set" if number == "1" else f"1 of the set, drawn ones up to {number}"


def by_subsets(one: ProofSet, name: str, metric: Metric, settings: ProofSettings, drawn: Drawn) -> Curve:
    """1, 2, … references by people: the mean over all subsets of that size."""
    most = min(len(item.pair.references) for item in one.items)
    lines = list[Line]()
    for number in range(1, most + 1):
        subsets = list(combinations(range(most), number))
        lines.append(_line_of(one, own_name(str(number)), metric, [_subset(one, places) for places in subsets]))
        if number > 1:
            control = [with_drawn(one, number, seed, drawn, first=seed % most) for seed in range(settings.seeds)]
            lines.append(_line_of(one, drawn_name(str(number)), metric, control))
    found = measured([one], lines, kinds=KINDS, draws=settings.draws, seed=settings.seed)
    return Curve(metric=name, numbers=tuple(str(number) for number in range(1, most + 1)), found=found)


def by_size(one: ProofSet, name: str, metric: Metric, settings: ProofSettings, drawn: Drawn) -> Curve:
    """1, 2, 5, … of very many references, the gold first and the others in a drawn order; fewer where there are."""
    numbers = [*map(str, SIZES), "all"]
    lines = list[Line]()
    seeds = min(settings.seeds, _SEEDS_AT_SIZE)
    for number in numbers:
        count = None if number == "all" else int(number)
        by_chance = range(1 if number in ("1", "all") else seeds)
        lines.append(_line_of(one, own_name(number), metric, [_first_of(one, count, seed) for seed in by_chance]))
        if number not in ("1", "all"):
            control = [with_drawn(one, int(number), seed, drawn) for seed in range(seeds)]
            lines.append(_line_of(one, drawn_name(number), metric, control))
    draws = min(settings.draws, _DRAWS_AT_SIZE)
    found = measured([one], lines, kinds=KINDS, draws=draws, seed=settings.seed)
    return Curve(metric=name, numbers=tuple(numbers), found=found)


def _line_of(one: ProofSet, name: str, metric: Metric, sets: Sequence[ProofSet]) -> Line:
    return Line(name=name, scores={one.name: np.stack([scores_of(each, metric) for each in sets])})


def with_references(item: Item, references: Sequence[Reference]) -> Item:
    """The item with other references."""
    return replace(item, pair=replace(item.pair, references=tuple(references)))


def _subset(one: ProofSet, places: Sequence[int]) -> ProofSet:
    return replace(
        one,
        items=tuple(with_references(item, [item.pair.references[at] for at in places]) for item in one.items),
    )


def _first_of(one: ProofSet, count: int | None, seed: int) -> ProofSet:
    """So many references of each item: the first, and others in a drawn order."""
    return replace(
        one,
        items=tuple(
            with_references(item, _in_drawn_order(item.pair.references, seed, number)[:count])
            for number, item in enumerate(one.items)
        ),
    )


def _in_drawn_order(references: Sequence[Reference], seed: int, item: int) -> list[Reference]:
    order = np.random.default_rng([seed, item]).permutation(max(0, len(references) - 1))
    return [*references[:1], *(references[1 + at] for at in order)]


def with_drawn(one: ProofSet, count: int, seed: int, drawn: Drawn, *, first: int = 0) -> ProofSet:
    """One reference of each item, and drawn ones as long as those that it has beside it, up to so many."""
    tokenizer = get_tokenizer(drawn.tokenizer)
    items = list[Item]()
    for number, item in enumerate(one.items):
        own = item.pair.references[first]
        others = [reference for at, reference in enumerate(item.pair.references) if at != first]
        others = [others[at] for at in np.random.default_rng([seed, number]).permutation(len(others))][: count - 1]
        lengths = [len(words) for words in tokenizer.tokenize_batch([reference.text for reference in others])]
        texts = drawn.as_long_as(lengths, np.random.default_rng([seed, number, 1]))
        items.append(with_references(item, [own, *(Reference(text=text) for text in texts)]))
    return replace(one, items=tuple(items))
