"""What replies are worth as references of each other: by people, by the rater, and with weights dealt out anew.

Each reply is scored against the gold and the other systems' replies to its context. The weights of the others tell
something of its own: where it is the best of its context, they are worth less than on average. Weights are therefore
dealt out anew among the very references that a reply is scored against, so that this is in the control as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from core.progress import Progress
from core.records import Origin, Reference
from core.text import normalise
from metrics.base import Floats, Indexes, Metric, Problem, References
from metrics.correlation import PARTIAL, spearman
from rater.coverage import Coverage
from rater.rate import Candidate, Rater, ToRate
from service.cases import Case, references_of, score_cases
from service.proof.chain import ProofSettings
from service.proof.figures import MEAN, Figure, Line, Measured, measured
from service.proof.references import GOLD, ONE, RATED
from service.proof.sets import Mask, ProofSet

PEOPLE: Final = "people"
SHUFFLED_PEOPLE, SHUFFLED_RATED = "people, shuffled", "rated, shuffled"
CONDITIONS: Final = (GOLD, ONE, PEOPLE, SHUFFLED_PEOPLE, RATED, SHUFFLED_RATED)
LIKERT: Final = (1.0, 5.0)  # what people rate on, mapped linearly to −1 … 1
FEWEST_TEXTS: Final = 3  # in a context, to correlate weights within it
KINDS: Final = ("spearman", PARTIAL)
LENGTH: Final = "length"


# ── what people and the rater think of the replies ────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True, eq=False)
class Judged:
    """A set with the different replies to each item, beside its gold, and what they are worth."""

    rated_set: ProofSet
    texts: tuple[tuple[str, ...], ...]  # item by item
    people: tuple[Floats, ...]  # mean rating of equal texts, −1 … 1
    rated: tuple[Floats, ...]  # NaN where the rater cannot be asked
    place: Indexes  # (rows,): the reply's among the texts of its item, −1 where it is the gold
    remark: str | None  # why ratings mean little here

    @classmethod
    def of(cls, one: ProofSet, rater: Rater) -> Judged:
        """Ask the rater about every different reply."""
        texts, people, place = _different(one)
        rated, remark = _rated(one, texts, rater)
        return cls(rated_set=one, texts=texts, people=people, rated=rated, place=place, remark=remark)

    def others(self, row: int) -> Indexes:
        """The places of the references of a row: all texts of its item but its own."""
        places = np.arange(len(self.texts[self.rated_set.item[row]]))
        return np.delete(places, places == self.place[row])

    def weights(self, condition: str, row: int, seed: int = 0) -> Floats:
        """What each of them is worth to this row."""
        item, others = int(self.rated_set.item[row]), self.others(row)
        if condition == ONE:
            return np.ones(len(others))
        whose = self.people if condition in (PEOPLE, SHUFFLED_PEOPLE) else self.rated
        found = whose[item][others]
        if condition in (SHUFFLED_PEOPLE, SHUFFLED_RATED):
            return np.random.default_rng([seed, CONDITIONS.index(condition), row]).permutation(found)
        return found

    @property
    def counts(self) -> Indexes:
        """How many other replies each fair row has as references."""
        rows = np.flatnonzero(self.rated_set.fair).tolist()
        return np.array([len(self.others(row)) for row in rows], dtype=np.int64)

    @property
    def contexts(self) -> int:
        """How many contexts have fair rows."""
        return len(np.unique(self.rated_set.item[self.rated_set.fair]))


def _different(one: ProofSet) -> tuple[tuple[tuple[str, ...], ...], tuple[Floats, ...], Indexes]:
    texts: list[dict[str, str]] = [{} for _ in one.items]
    ratings: list[dict[str, list[float]]] = [{} for _ in one.items]
    place = np.full(len(one.replies), -1, dtype=np.int64)
    golds = [normalise(item.pair.gold.text) if item.pair.gold else None for item in one.items]
    for row, (item, reply) in enumerate(zip(one.item.tolist(), one.replies, strict=True)):
        key = normalise(reply)
        if key == golds[item]:
            continue
        texts[item].setdefault(key, reply)
        ratings[item].setdefault(key, []).append(float(one.ratings[row]))
        place[row] = list(texts[item]).index(key)
    return (
        tuple(tuple(some.values()) for some in texts),
        tuple(_as_weights(np.array([np.mean(given) for given in some.values()])) for some in ratings),
        place,
    )


def _as_weights(ratings: Floats) -> Floats:
    low, high = LIKERT
    return 2 * (ratings - low) / (high - low) - 1


def _rated(one: ProofSet, texts: Sequence[Sequence[str]], rater: Rater) -> tuple[tuple[Floats, ...], str | None]:
    """The rater's weights of all texts, each against the gold of its item; and whether it knows the language."""
    rated = [np.full(len(some), np.nan) for some in texts]
    asked, items, coverage = list[ToRate](), list[int](), Coverage()
    for number, item in enumerate(one.items):
        utterance, gold = item.pair.utterance, item.pair.gold
        if gold is None or not (utterance or "").strip() or not texts[number]:
            continue
        candidates = tuple(Candidate(text=text) for text in texts[number])
        asked.append(ToRate(utterance=str(utterance), golds=(gold.text,), candidates=candidates))
        items.append(number)
        coverage += rater.coverage([str(utterance), gold.text, *texts[number]])
    for number, found in zip(items, rater.rate(asked), strict=True):
        rated[number] = np.array(found)
    return tuple(rated), rater.unfamiliar(coverage)


# ── scores ────────────────────────────────────────────────────────────────────────────────────────────────────────


def weighted_scores(judged: Judged, metric: Metric, condition: str, seed: int = 0) -> Floats:
    """The score of every row against the gold and the other replies, weighted so; NaN where it has none."""
    one = judged.rated_set
    chosen = [_references(judged, metric, condition, row, seed) for row in range(len(one.replies))]
    bound = metric.for_set([found for found in chosen if isinstance(found, References)])
    cases = [
        found if isinstance(found, Problem) else Case(reply, found)
        for reply, found in zip(one.replies, chosen, strict=True)
    ]
    return score_cases(bound, cases).values(bound)


def _references(judged: Judged, metric: Metric, condition: str, row: int, seed: int) -> References | Problem:
    item = int(judged.rated_set.item[row])
    pair = judged.rated_set.items[item].pair
    others = list[Reference]()
    if condition != GOLD:
        others = [
            Reference(
                text=judged.texts[item][place],
                source=Origin.SUPPLIED,
                weight=None if np.isnan(weight) else float(weight),
            )
            for place, weight in zip(judged.others(row), judged.weights(condition, row, seed), strict=True)
        ]
    return references_of((*pair.references, *others), metric.info.uses, pair.utterance)


def lines_of(judged: Sequence[Judged], metric: Metric, seeds: int, progress: Progress | None = None) -> list[Line]:
    """A line for every condition; those with chance in them have several seeds."""
    lines = list[Line]()
    for condition in CONDITIONS:
        by_chance = condition in (SHUFFLED_PEOPLE, SHUFFLED_RATED)
        scores = dict[str, Floats]()
        for one in judged:
            found = list[Floats]()
            for seed in range(seeds if by_chance else 1):
                found.append(weighted_scores(one, metric, condition, seed))
                if progress is not None:
                    progress.advance(1)
            scores[one.rated_set.name] = np.stack(found)
        lines.append(Line(name=condition, scores=scores))
    return lines


def scored_times(judged: Sequence[Judged], seeds: int) -> int:
    """How often `lines_of` scores a set: what its progress counts."""
    return len(judged) * (len(CONDITIONS) - 2 + 2 * seeds)


# ── rated weights beside those by people ──────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True, eq=False)
class WeightAgreement:
    """How well the rater's weights go with people's: within contexts, and over all replies.

    Within: the mean over contexts of Spearman's ρ, by line and set, on the contexts and in the draws of them.
    """

    whole: Measured
    contexts: Mapping[str, int]
    points: Mapping[tuple[str, str], float]
    drawn: Mapping[tuple[str, str], Floats]

    def within(self, line: str, where: str) -> Figure:
        """A line's mean over contexts."""
        return Figure.of(self.points[line, where], self.drawn[line, where])

    def within_less(self, line: str, other: str, where: str) -> Figure:
        """What a line has over another one, on the same draws."""
        return Figure.of(
            self.points[line, where] - self.points[other, where], self.drawn[line, where] - self.drawn[other, where]
        )

    def as_json(self) -> dict[str, Any]:
        """Every figure."""
        return {
            "contexts_within": dict(self.contexts),
            "within": {
                line: {where: self.within(line, where).as_json() for where in self.whole.wheres}
                for line in self.whole.names
            },
            "within_rated_less_shuffled": {
                where: self.within_less(RATED, SHUFFLED_RATED, where).as_json() for where in self.whole.wheres
            },
            "over_all": self.whole.as_json(KINDS),
        }


def weight_agreement(judged: Sequence[Judged], settings: ProofSettings) -> WeightAgreement:
    """Correlate the weights of different replies, each once."""
    sets, rows = list[ProofSet](), dict[str, Mask]()
    tables: dict[str, dict[str, Floats]] = {RATED: {}, SHUFFLED_RATED: {}, LENGTH: {}}
    for one in judged:
        name = one.rated_set.name
        rows[name] = _first_of_each(one)
        sets.append(replace(one.rated_set, ratings=_of_rows(one, one.people)))
        tables[RATED][name] = _of_rows(one, one.rated)[None]
        tables[SHUFFLED_RATED][name] = np.stack([_of_rows(one, _dealt(one, seed)) for seed in range(settings.seeds)])
        tables[LENGTH][name] = one.rated_set.lengths[None]
    lines = [Line(name=line, scores=scores) for line, scores in tables.items()]
    whole = measured(sets, lines, rows=rows, kinds=KINDS, draws=settings.draws, seed=settings.seed)
    contexts, points, drawn = dict[str, int](), dict[tuple[str, str], float](), dict[tuple[str, str], Floats]()
    for number, each in enumerate(sets):
        table = np.stack([_within(each, scores[each.name], rows[each.name]) for scores in tables.values()])
        table = table[:, np.isfinite(table[0])]  # contexts in which the rater's weights differ, and people's
        contexts[each.name] = table.shape[1]
        random = np.random.default_rng([settings.seed, number])
        picked = random.integers(0, max(1, table.shape[1]), (settings.draws, table.shape[1]))
        for line, values in zip(tables, table, strict=True):
            points[line, each.name] = _mean(values)
            drawn[line, each.name] = np.array([_mean(values[some]) for some in picked])
    for line in tables:
        points[line, MEAN] = float(np.mean([points[line, each.name] for each in sets]))
        drawn[line, MEAN] = np.mean([drawn[line, each.name] for each in sets], axis=0)
    return WeightAgreement(whole=whole, contexts=contexts, points=points, drawn=drawn)


def _first_of_each(one: Judged) -> Mask:
    """The first fair row of each different reply."""
    seen = set[tuple[int, int]]()
    mask = np.zeros(len(one.place), dtype=np.bool_)
    for row in np.flatnonzero(one.rated_set.fair & (one.place >= 0)).tolist():
        key = (int(one.rated_set.item[row]), int(one.place[row]))
        mask[row] = key not in seen
        seen.add(key)
    return mask


def _of_rows(one: Judged, by_item: Sequence[Floats]) -> Floats:
    """The weight of each row's reply; NaN where it is the gold."""
    return np.array(
        [
            by_item[item][place] if place >= 0 else np.nan
            for item, place in zip(one.rated_set.item.tolist(), one.place.tolist(), strict=True)
        ]
    )


def _dealt(one: Judged, seed: int) -> list[Floats]:
    return [np.random.default_rng([seed, item]).permutation(given) for item, given in enumerate(one.rated)]


def _within(one: ProofSet, scores: Floats, rows: Mask) -> Floats:
    """Spearman within each context, the mean over seeds; NaN where it is not defined."""
    found = list[float]()
    for item in range(len(one.items)):
        mine = rows & (one.item == item)
        found.append(_mean_spearman(scores[:, mine], one.ratings[mine]) if mine.sum() >= FEWEST_TEXTS else np.nan)
    return np.array(found)


def _mean_spearman(scores: Floats, ratings: Floats) -> float:
    values = [spearman(of, ratings).value for of in scores]
    defined = [value for value in values if value is not None]
    return float(np.mean(defined)) if len(defined) == len(values) else float("nan")


def _mean(values: Floats) -> float:
    defined = values[np.isfinite(values)]
    return float(defined.mean()) if len(defined) else float("nan")
