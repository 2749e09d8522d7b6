"""Kinds of further references that metrics are tried on: what is retrieved, and the controls that it has to beat.

Every kind gives each item as many references, so that a difference between two of them is not one of number:

    gold       none: the item's own
    parrot     the utterance itself
    random     k replies drawn from the log
    matched    k drawn replies as long, token by token, as the retrieved ones
    shuffled   the retrieved ones, their weights dealt out anew within the item
    one        the retrieved ones, each worth 1
    rated      the retrieved ones, each worth what the rater says

Kinds with chance in them are drawn for several seeds. With many references of many lengths a brevity penalty never
strikes, so "random" alone lifts some correlations: a claim for retrieval stands against "matched", one for the rater
against "shuffled".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from core.errors import BadInput
from core.items import BadItem
from core.progress import Progress
from core.records import Item, Origin, Reference
from core.text import get_tokenizer, normalise
from metrics.base import Floats, Metric, Problem, References
from service.cases import Case, bound_to, references_for, score_cases
from service.meta_scores import length_tokenizer
from service.proof.figures import Line
from service.proof.sets import NEAR, TOKENIZER, ProofSet, likeness, words_of

GOLD, PARROT, RANDOM, MATCHED = "gold", "parrot", "random", "matched"
SHUFFLED, ONE, RATED = "shuffled", "one", "rated"
KINDS: Final = (GOLD, PARROT, RANDOM, MATCHED, SHUFFLED, ONE, RATED)
BY_CHANCE: Final = frozenset((RANDOM, MATCHED, SHUFFLED))

Extras = tuple[tuple[Reference, ...], ...]  # for each item of a set, beside its own references


class Drop(StrEnum):
    """Which further references do not count for a reply."""

    EQUAL = "equal"  # those that are the same text, normalised
    NEAR = "near"  # also those with four fifths of all their words in common


@dataclass(frozen=True, kw_only=True, eq=False)
class Drawn:
    """Replies drawn from the logs, with their lengths: what controls are made of."""

    texts: tuple[str, ...]
    by_length: Mapping[int, NDArray[np.int64]]  # tokens → places in texts
    tokenizer: str = TOKENIZER  # whose tokens these are

    @classmethod
    def of(cls, texts: Sequence[str]) -> Drawn:
        """Count their tokens."""
        tokenizer = length_tokenizer(texts)
        lengths = np.array([len(one) for one in get_tokenizer(tokenizer).tokenize_batch(list(texts))], dtype=np.int64)
        known = np.unique(lengths[lengths > 0])
        if not len(known):
            raise BadInput("the log has no reply with a word in it, so there is nothing to draw controls from")
        by_length = {int(one): np.flatnonzero(lengths == one) for one in known}
        return cls(texts=tuple(texts), by_length=by_length, tokenizer=tokenizer)

    def any_of(self, count: int, random: np.random.Generator) -> list[str]:
        """So many, whatever their length."""
        return [self.texts[place] for place in random.integers(0, len(self.texts), count)]

    def as_long_as(self, lengths: Sequence[int], random: np.random.Generator) -> list[str]:
        """One for each length: of that very length, or of the nearest that there is."""
        return [self.texts[random.choice(self.by_length[self._nearest(one)])] for one in lengths]

    def _nearest(self, length: int) -> int:
        if length in self.by_length:
            return length
        return min(self.by_length, key=lambda one: (abs(one - length), one))


@dataclass(frozen=True, kw_only=True, eq=False)
class Pool:
    """What an index and a rater have for the items of a set: the parrot, and retrieved references in order."""

    parrots: tuple[Reference | None, ...]
    retrieved: tuple[tuple[Reference, ...], ...]
    lengths: tuple[tuple[int, ...], ...]  # in tokens, of the retrieved ones
    drawn: Drawn

    @classmethod
    def of(cls, items: Sequence[Item | BadItem], drawn: Drawn) -> Pool:
        """Sort the references of augmented items."""
        good = [one for one in items if isinstance(one, Item)]
        retrieved = tuple(tuple(one for one in item.pair.references if one.source is Origin.RETRIEVED) for item in good)
        tokenizer = get_tokenizer(drawn.tokenizer)  # one for both: what is drawn is to be as long as what was found
        return cls(
            parrots=tuple(
                next((one for one in item.pair.references if one.source is Origin.PARROT), None) for item in good
            ),
            retrieved=retrieved,
            lengths=tuple(
                tuple(len(words) for words in tokenizer.tokenize_batch([one.text for one in some]))
                for some in retrieved
            ),
            drawn=drawn,
        )

    def extras(self, kind: str, *, k: int = 15, parrot: bool = True, seed: int = 0) -> Extras:
        """The references of a kind, item by item; as many of each item for all kinds but the first two."""
        return tuple(
            self._of_item(item, kind, k, parrot, np.random.default_rng([seed, item]))
            for item in range(len(self.retrieved))
        )

    def _of_item(
        self, item: int, kind: str, k: int, parrot: bool, random: np.random.Generator
    ) -> tuple[Reference, ...]:
        found = self.retrieved[item][:k]
        own = self.parrots[item] if parrot or kind == PARROT else None
        if own is not None and kind in (PARROT, RANDOM, MATCHED, ONE):
            own = replace(own, weight=1.0)
        first = () if own is None or kind == GOLD else (own,)
        if kind in (GOLD, PARROT):
            return first
        if kind == RANDOM:
            return (*first, *map(_worth_one, self.drawn.any_of(len(found), random)))
        if kind == MATCHED:
            return (*first, *map(_worth_one, self.drawn.as_long_as(self.lengths[item][:k], random)))
        if kind == ONE:
            return (*first, *(replace(one, weight=1.0) for one in found))
        if kind == SHUFFLED:
            dealt = random.permutation(len(found))
            return (*first, *(replace(one, weight=found[at].weight) for one, at in zip(found, dealt, strict=True)))
        return (*first, *found)

    def best(self, k: int, deep: int) -> Extras:
        """Of the first `deep`, the k that the rater thinks best, each worth 1; in its order."""
        return tuple(
            tuple(
                replace(one, weight=1.0)
                for one in sorted(some[:deep], key=lambda one: (-(one.rating or 0.0), one.text))[:k]
            )
            for some in self.retrieved
        )


def _worth_one(text: str) -> Reference:
    return Reference(text=text, source=Origin.RETRIEVED, weight=1.0)


# ── scores ────────────────────────────────────────────────────────────────────────────────────────────────────────


def scores_of(one: ProofSet, metric: Metric, extras: Extras | None = None, drop: Drop = Drop.EQUAL) -> Floats:
    """The metric's score of every row of a set, turned so that more is better; NaN where it has none."""
    cases = list[Case | Problem]()
    known = dict[tuple[int, frozenset[int]], References | Problem]()
    for row, item in enumerate(one.item.tolist()):
        dropped = _dropped(one.replies[row], () if extras is None else extras[item], drop, one.tokenizer)
        if (item, dropped) not in known:
            known[item, dropped] = _references(one, item, metric, extras, dropped)
        found = known[item, dropped]
        cases.append(found if isinstance(found, Problem) else Case(one.replies[row], found))
    whole = [_references(one, item, metric, extras, frozenset()) for item in range(len(one.items))]
    bound = bound_to(metric, whole, cases)
    values = score_cases(bound, cases).values(bound)
    return values if metric.info.higher_is_better else -values


def _references(
    one: ProofSet, item: int, metric: Metric, extras: Extras | None, dropped: frozenset[int]
) -> References | Problem:
    pair = one.items[item].pair
    further = () if extras is None else extras[item]
    kept = tuple(reference for at, reference in enumerate(further) if at not in dropped)
    return references_for(metric, (*pair.references, *kept), pair.turns)


def _dropped(reply: str, further: Sequence[Reference], drop: Drop, tokenizer: str) -> frozenset[int]:
    """The places of the further references that are the reply itself, or nearly so."""
    text = normalise(reply)
    same = {at for at, one in enumerate(further) if normalise(one.text) == text}
    if drop is Drop.NEAR:
        [words] = words_of([reply], tokenizer)
        others = words_of([one.text for one in further], tokenizer)
        same |= {at for at, one in enumerate(others) if likeness(words, one) >= NEAR}
    return frozenset(same)


def line_of(
    name: str,
    sets: Sequence[ProofSet],
    metric: Metric,
    extras: Callable[[ProofSet, int], Extras | None] = lambda _one, _seed: None,
    *,
    seeds: int = 1,
    drop: Drop = Drop.EQUAL,
    about: str = "",
    progress: Progress | None = None,
) -> Line:
    """The scores of all sets, for as many seeds; `extras` gives the further references of a set and a seed."""
    scores = dict[str, Floats]()
    for one in sets:
        found = list[Floats]()
        for seed in range(seeds):
            found.append(scores_of(one, metric, extras(one, seed), drop))
            if progress is not None:
                progress.advance(1)
        scores[one.name] = np.stack(found)
    return Line(name=name, scores=scores, about=about)


def ranks_together(parts: Sequence[Line], name: str, about: str = "") -> Line:
    """The sum of the mean ranks of several lines, each set for itself; rows that a part has no score for get none."""
    scores = dict[str, Floats]()
    for where in parts[0].scores:
        tables = [part.scores[where] for part in parts]
        seeds = max(map(len, tables))
        scores[where] = np.stack([sum(_ranked(table[seed % len(table)]) for table in tables) for seed in range(seeds)])
    return Line(name=name, scores=scores, about=about)


def _ranked(values: Floats) -> Floats:
    """Mean ranks from 0 to 1, NaN where there is no score."""
    known = np.isfinite(values)
    distinct, place, counts = np.unique(values[known], return_inverse=True, return_counts=True)
    del distinct
    middle = np.cumsum(counts) - (counts + 1) / 2
    ranks = np.full(len(values), np.nan)
    ranks[known] = middle[place] / max(1, int(known.sum()) - 1)
    return ranks
