"""What replies are worth as references of each other: weighted by people, by the rater, and with shuffled weights.

Each reply is scored against the gold and the other systems' replies to its context. The weights of those other replies
carry information: where the scored reply is the best of its context, they are lower than on average. So the control
shuffles the weights among the very references that a reply is scored against, and carries the same information.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from refaug.core.progress import Progress
from refaug.core.records import Origin, Reference
from refaug.core.text.normalisation import normalise
from refaug.extras.reproduction.figures.correlations import MEAN, Correlations, IntervalEstimate, Line, correlate
from refaug.extras.reproduction.material.proof_logs import ProofSettings
from refaug.extras.reproduction.material.rated_sets import Mask, ProofSet
from refaug.extras.reproduction.material.reference_kinds import GOLD, ONE, RATED
from refaug.metrics.base import Floats, Indexes, Level, Metric, Problem, References
from refaug.metrics.statistics.correlation import PARTIAL, spearman
from refaug.rater.language_coverage import Coverage
from refaug.rater.rating import Rater, RatingRequest
from refaug.scoring.cases import references_of, score_replies

PEOPLE: Final = "people"
SHUFFLED_PEOPLE, SHUFFLED_RATED = "people, shuffled", "rated, shuffled"
CONDITIONS: Final = (GOLD, ONE, PEOPLE, SHUFFLED_PEOPLE, RATED, SHUFFLED_RATED)
LIKERT: Final = (1.0, 5.0)  # the scale of people's ratings, mapped linearly to −1 … 1
FEWEST_TEXTS: Final = 3  # in a context, to correlate weights within it
KINDS: Final = ("spearman", PARTIAL)
LENGTH: Final = "length"


# ── Weights of the replies by people and by the rater ─────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True, eq=False)
class WeightedSet:
    """A set with the different replies to each item, beside its gold, and the weights of these replies."""

    rated_set: ProofSet
    texts: tuple[tuple[str, ...], ...]  # item by item
    people: tuple[Floats, ...]  # mean rating of equal texts, −1 … 1
    rated: tuple[Floats, ...]  # NaN where the rater has nothing to rate by
    place: Indexes  # (rows,): of the reply among the texts of its item, −1 where it is the gold
    remark: str | None  # why the rater's weights mean little here

    @classmethod
    def of(cls, rated_set: ProofSet, rater: Rater) -> WeightedSet:
        """Let the rater weight every different reply of a set."""
        texts, people, place = _distinct_replies(rated_set)
        rated, remark = _rate_texts(rated_set, texts, rater)
        return cls(rated_set=rated_set, texts=texts, people=people, rated=rated, place=place, remark=remark)

    def reference_places(self, row: int) -> Indexes:
        """Return the places of the references of a row: all texts of its item but the text of the row."""
        places = np.arange(len(self.texts[self.rated_set.item[row]]))
        return np.delete(places, places == self.place[row])

    def weights(self, condition: str, row: int, seed: int = 0) -> Floats:
        """Return the weight of each reference of a row."""
        item_number, places = int(self.rated_set.item[row]), self.reference_places(row)
        if condition == ONE:
            return np.ones(len(places))
        by_item = self.people if condition in (PEOPLE, SHUFFLED_PEOPLE) else self.rated
        weights = by_item[item_number][places]
        if condition in (SHUFFLED_PEOPLE, SHUFFLED_RATED):
            return np.random.default_rng([seed, CONDITIONS.index(condition), row]).permutation(weights)
        return weights

    @property
    def counts(self) -> Indexes:
        """Return the number of other replies that each fair row has as references."""
        rows = np.flatnonzero(self.rated_set.fair).tolist()
        return np.array([len(self.reference_places(row)) for row in rows], dtype=np.int64)

    @property
    def contexts(self) -> int:
        """Return the number of contexts that have fair rows."""
        return len(np.unique(self.rated_set.item[self.rated_set.fair]))


def _distinct_replies(rated_set: ProofSet) -> tuple[tuple[tuple[str, ...], ...], tuple[Floats, ...], Indexes]:
    texts: list[dict[str, str]] = [{} for _ in rated_set.items]
    ratings: list[dict[str, list[float]]] = [{} for _ in rated_set.items]
    place = np.full(len(rated_set.replies), -1, dtype=np.int64)
    golds = [normalise(test_item.gold.text) if test_item.gold else None for test_item in rated_set.items]
    for row, (item_number, reply) in enumerate(zip(rated_set.item.tolist(), rated_set.replies, strict=True)):
        key = normalise(reply)
        if key == golds[item_number]:
            continue
        texts[item_number].setdefault(key, reply)
        ratings[item_number].setdefault(key, []).append(float(rated_set.ratings[row]))
        place[row] = list(texts[item_number]).index(key)
    return (
        tuple(tuple(by_text.values()) for by_text in texts),
        tuple(
            _as_weights(np.array([np.mean(text_ratings) for text_ratings in by_text.values()])) for by_text in ratings
        ),
        place,
    )


def _as_weights(ratings: Floats) -> Floats:
    low, high = LIKERT
    return 2 * (ratings - low) / (high - low) - 1


def _rate_texts(
    rated_set: ProofSet, texts: Sequence[Sequence[str]], rater: Rater
) -> tuple[tuple[Floats, ...], str | None]:
    """Return the rater's weights of the texts against the gold, and a remark where their language is unknown."""
    rated = [np.full(len(item_texts), np.nan) for item_texts in texts]
    requests, item_numbers, coverage = list[RatingRequest](), list[int](), Coverage()
    for number, test_item in enumerate(rated_set.items):
        utterance, gold = test_item.utterance, test_item.gold
        if gold is None or not (utterance or "").strip() or not texts[number]:
            continue
        candidates = tuple(Reference(text=text) for text in texts[number])
        requests.append(RatingRequest(utterance=str(utterance), golds=(gold.text,), candidates=candidates))
        item_numbers.append(number)
        coverage += rater.coverage([str(utterance), gold.text, *texts[number]])
    for number, weights in zip(item_numbers, rater.rate(requests), strict=True):
        rated[number] = np.array(weights)
    return tuple(rated), rater.unfamiliar(coverage)


# ── Scores ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def weighted_scores(weighted_set: WeightedSet, metric: Metric, condition: str, seed: int = 0) -> Floats:
    """Return the score of every row against the gold and the weighted other replies; NaN where a row has none."""
    rated_set = weighted_set.rated_set
    references_by_row = [
        _references_of_row(weighted_set, metric, condition, row, seed) for row in range(len(rated_set.replies))
    ]
    bound = metric.for_set([references for references in references_by_row if isinstance(references, References)])
    return bound.values(score_replies(bound, rated_set.replies, references_by_row)[0], Level.REPLY)


def _references_of_row(
    weighted_set: WeightedSet, metric: Metric, condition: str, row: int, seed: int
) -> References | Problem:
    item_number = int(weighted_set.rated_set.item[row])
    test_item = weighted_set.rated_set.items[item_number]
    further = list[Reference]()
    if condition != GOLD:
        further = [
            Reference(
                text=weighted_set.texts[item_number][place],
                source=Origin.SUPPLIED,
                weight=None if np.isnan(weight) else float(weight),
            )
            for place, weight in zip(
                weighted_set.reference_places(row), weighted_set.weights(condition, row, seed), strict=True
            )
        ]
    return references_of((*test_item.references, *further), metric.info.uses, test_item.utterance)


def lines_by_condition(
    weighted_sets: Sequence[WeightedSet], metric: Metric, seeds: int, progress: Progress | None = None
) -> list[Line]:
    """Return a line for every condition; conditions with chance in them have several seeds."""
    lines = list[Line]()
    for condition in CONDITIONS:
        by_chance = condition in (SHUFFLED_PEOPLE, SHUFFLED_RATED)
        scores = dict[str, Floats]()
        for weighted_set in weighted_sets:
            scores_by_seed = list[Floats]()
            for seed in range(seeds if by_chance else 1):
                scores_by_seed.append(weighted_scores(weighted_set, metric, condition, seed))
                if progress is not None:
                    progress.advance(1)
            scores[weighted_set.rated_set.name] = np.stack(scores_by_seed)
        lines.append(Line(name=condition, scores=scores))
    return lines


def scoring_count(weighted_sets: Sequence[WeightedSet], seeds: int) -> int:
    """Return how often `lines_by_condition` scores a set, for its progress."""
    return len(weighted_sets) * (len(CONDITIONS) - 2 + 2 * seeds)


# ── Agreement of rated weights with people's ──────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True, eq=False)
class WeightAgreement:
    """How well the rater's weights agree with people's: within contexts, and over all replies.

    Within: the mean over contexts of Spearman's ρ, by line and set, on the contexts and in the draws of contexts.
    """

    whole: Correlations
    contexts: Mapping[str, int]
    points: Mapping[tuple[str, str], float]
    drawn: Mapping[tuple[str, str], Floats]

    def within(self, line: str, scope: str) -> IntervalEstimate:
        """Return the mean of a line over contexts."""
        return IntervalEstimate.of(self.points[line, scope], self.drawn[line, scope])

    def within_less(self, line: str, other: str, scope: str) -> IntervalEstimate:
        """Return the difference of two lines within contexts, on the same draws."""
        return IntervalEstimate.of(
            self.points[line, scope] - self.points[other, scope], self.drawn[line, scope] - self.drawn[other, scope]
        )

    def as_json(self) -> dict[str, object]:
        """Return every figure as JSON."""
        return {
            "contexts_within": dict(self.contexts),
            "within": {
                line: {scope: self.within(line, scope).as_json() for scope in self.whole.scopes}
                for line in self.whole.names
            },
            "within_rated_less_shuffled": {
                scope: self.within_less(RATED, SHUFFLED_RATED, scope).as_json() for scope in self.whole.scopes
            },
            "over_all": self.whole.as_json(KINDS),
        }


def weight_agreement(weighted_sets: Sequence[WeightedSet], settings: ProofSettings) -> WeightAgreement:
    """Correlate the weights of different replies; each reply counts once."""
    sets, rows = list[ProofSet](), dict[str, Mask]()
    tables: dict[str, dict[str, Floats]] = {RATED: {}, SHUFFLED_RATED: {}, LENGTH: {}}
    for weighted_set in weighted_sets:
        name = weighted_set.rated_set.name
        rows[name] = _first_rows_of_texts(weighted_set)
        sets.append(replace(weighted_set.rated_set, ratings=_weights_by_row(weighted_set, weighted_set.people)))
        tables[RATED][name] = _weights_by_row(weighted_set, weighted_set.rated)[None]
        tables[SHUFFLED_RATED][name] = np.stack(
            [_weights_by_row(weighted_set, _shuffled_weights(weighted_set, seed)) for seed in range(settings.seeds)]
        )
        tables[LENGTH][name] = weighted_set.rated_set.lengths[None]
    lines = [Line(name=line, scores=scores) for line, scores in tables.items()]
    whole = correlate(sets, lines, rows=rows, kinds=KINDS, draws=settings.draws, seed=settings.seed)
    contexts, points, drawn = dict[str, int](), dict[tuple[str, str], float](), dict[tuple[str, str], Floats]()
    for number, rated_set in enumerate(sets):
        table = np.stack(
            [
                _spearman_within_contexts(rated_set, scores[rated_set.name], rows[rated_set.name])
                for scores in tables.values()
            ]
        )
        table = table[:, np.isfinite(table[0])]  # contexts in which both the rater's weights and people's differ
        contexts[rated_set.name] = table.shape[1]
        random = np.random.default_rng([settings.seed, number])
        drawn_places = random.integers(0, max(1, table.shape[1]), (settings.draws, table.shape[1]))
        for line, values in zip(tables, table, strict=True):
            points[line, rated_set.name] = _mean(values)
            drawn[line, rated_set.name] = np.array([_mean(values[places]) for places in drawn_places])
    for line in tables:
        for group in whole.groups:
            points[line, group.name] = float(np.mean([points[line, name] for name in group.sets]))
            drawn[line, group.name] = np.mean([drawn[line, name] for name in group.sets], axis=0)
        points[line, MEAN] = float(np.mean([points[line, group.name] for group in whole.groups]))
        drawn[line, MEAN] = np.mean([drawn[line, group.name] for group in whole.groups], axis=0)
    return WeightAgreement(whole=whole, contexts=contexts, points=points, drawn=drawn)


def _first_rows_of_texts(weighted_set: WeightedSet) -> Mask:
    """Mark the first fair row of each different reply."""
    seen = set[tuple[int, int]]()
    mask = np.zeros(len(weighted_set.place), dtype=np.bool_)
    for row in np.flatnonzero(weighted_set.rated_set.fair & (weighted_set.place >= 0)).tolist():
        key = (int(weighted_set.rated_set.item[row]), int(weighted_set.place[row]))
        mask[row] = key not in seen
        seen.add(key)
    return mask


def _weights_by_row(weighted_set: WeightedSet, by_item: Sequence[Floats]) -> Floats:
    """Return the weight of the reply of each row; NaN where the reply is the gold."""
    return np.array(
        [
            by_item[item_number][place] if place >= 0 else np.nan
            for item_number, place in zip(
                weighted_set.rated_set.item.tolist(), weighted_set.place.tolist(), strict=True
            )
        ]
    )


def _shuffled_weights(weighted_set: WeightedSet, seed: int) -> list[Floats]:
    return [
        np.random.default_rng([seed, item_number]).permutation(weights)
        for item_number, weights in enumerate(weighted_set.rated)
    ]


def _spearman_within_contexts(rated_set: ProofSet, scores: Floats, rows: Mask) -> Floats:
    """Return Spearman within each context, the mean over seeds; NaN where it is not defined."""
    correlations = list[float]()
    for item_number in range(len(rated_set.items)):
        in_context = rows & (rated_set.item == item_number)
        correlations.append(
            _mean_spearman(scores[:, in_context], rated_set.ratings[in_context])
            if in_context.sum() >= FEWEST_TEXTS
            else np.nan
        )
    return np.array(correlations)


def _mean_spearman(scores: Floats, ratings: Floats) -> float:
    values = [spearman(seed_scores, ratings).value for seed_scores in scores]
    defined = [value for value in values if value is not None]
    return float(np.mean(defined)) if len(defined) == len(values) else float("nan")


def _mean(values: Floats) -> float:
    defined = values[np.isfinite(values)]
    return float(defined.mean()) if len(defined) else float("nan")
