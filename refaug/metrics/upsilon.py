"""υ-metrics: any metric of single references, over weighted references.

With m(h, r) the base metric (for TER: max(0, 1 − TER)), b its mean over random pairs and m̃ = clip((m − b) / (1 − b),
0, 1), an item's references r_j of weight w_j make one score by `agg`:

    weighted-best    max(0, max_{w_j > 0} w_j · m̃_j − λ · max_{w_j < 0} |w_j| · m̃_j) / max_j w_j
    best             max m̃_j over references of positive weight
    mean-best-3      the mean of the three largest m̃_j over those, or of all if there are fewer
    weighted-mean    Σ w_j · m̃_j / Σ w_j over those

With `keep-gold=yes` the score is the mean of the gold's m̃ and the aggregate of all others, or only the gold's m̃ if no
other reference has a positive weight. References for which the base metric is undefined are left out. An empty reply
scores 0, whatever the base metric gives. The order of references never changes a bit of the score: sums are taken in
order of size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from refaug.core.errors import BadInput, Usage
from refaug.core.kernels.kernel import compiled
from refaug.metrics.base import (
    NO_GOLD,
    NO_POSITIVE_WEIGHT,
    NO_REFERENCE,
    Floats,
    Indexes,
    Level,
    MeanMetric,
    Metric,
    Prepared,
    Problem,
    References,
)
from refaug.metrics.catalogue import find
from refaug.metrics.metric_info import MetricInfo
from refaug.metrics.models.model_kinds import VectorOpener
from refaug.metrics.single_reference import DistinctTexts, TextPairs, ranges
from refaug.metrics.specification import Specification, build_of

PREFIX: Final = "upsilon-"
_WEIGHTED_BEST, _BEST, _MEAN_BEST_3, _WEIGHTED_MEAN = 0, 1, 2, 3
_AGGREGATES: Final = {
    "weighted-best": _WEIGHTED_BEST,
    "best": _BEST,
    "mean-best-3": _MEAN_BEST_3,
    "weighted-mean": _WEIGHTED_MEAN,
}
_OWN: Final = ("agg", "keep-gold", "lambda", "b")
_MULTI_REFERENCE_SETTINGS: Final = ("refs", "multi")  # of the base metric, which never gets several references


@dataclass(frozen=True, kw_only=True)
class PreparedUpsilon(Prepared):
    """References with their weights; each distinct text is a separate item for the base metric.

    Those of item i are `texts[offsets[i]:offsets[i + 1]]`, only those that can change a score.
    """

    singles: Prepared
    offsets: Indexes
    texts: Indexes
    weights: Floats
    is_gold: NDArray[np.bool_]


class Upsilon(MeanMetric):
    """A base metric, and how its scores against an item's references become one.

    While `b_is_open`, b is not set yet: it counts as 0 until `with_b` sets it.
    """

    def __init__(self, info: MetricInfo, settings: Mapping[str, str], source: VectorOpener | None = None) -> None:
        if settings["agg"] != "weighted-best" and settings["lambda"] != "0":
            raise Usage(
                f"{info.name}: agg={settings['agg']} subtracts nothing, so lambda={settings['lambda']} has no meaning",
                remedy="agg=weighted-best, or leave lambda out",
            )
        self.info = info
        self.base = _base_of(info, settings, source)
        base_settings = {
            key: setting for key, setting in self.base.settings.items() if key not in _MULTI_REFERENCE_SETTINGS
        }
        self.settings = {**{key: settings[key] for key in _OWN}, **base_settings}
        self._aggregate = _AGGREGATES[settings["agg"]]
        self._keep_gold = settings["keep-gold"] == "yes"
        self._subtracted = float(settings["lambda"])
        self._baseline = float(settings["b"])
        self.b_is_open = False

    def without_b(self) -> Upsilon:
        """Return the metric as requested without b."""
        copied = copy(self)
        copied.b_is_open = True
        return copied

    def with_b(self, b: str) -> Upsilon:
        """Return the metric with a b as specifications write it, measured or not: the number alone decides a score."""
        copied = copy(self)
        copied.settings = {**self.settings, "b": b}
        copied._baseline, copied.b_is_open = float(b), False  # noqa: SLF001  a copy
        return copied

    def versions(self) -> Mapping[str, str]:
        """Return those of the base metric."""
        return self.base.versions()

    @property
    def looks_at_set(self) -> bool:
        """Whether the base metric does."""
        return self.base.looks_at_set

    def for_set(self, references: Sequence[References]) -> Upsilon:
        """Return the metric with the base metric for this set."""
        copied = copy(self)
        copied.base = self.base.for_set(references)
        return copied

    def matches(self, reply: str, references: References) -> list[dict[str, object]] | None:
        """Return those of the base metric, with the weights of the references."""
        return self.base.matches(reply, references)

    def words_of(self, reply: str) -> list[str] | None:
        """Return those of the base metric."""
        return self.base.words_of(reply)

    def undefined(self) -> Problem:
        """The base metric is undefined for this reply and each of the references."""
        return self.base.undefined()

    def prepare(self, references: Sequence[References]) -> PreparedUpsilon:
        """Let the base metric prepare every distinct text as a separate item, and keep what can change a score."""
        distinct = DistinctTexts.of([text for of_item in references for text in of_item.texts])
        singles = self.base.prepare([References.unweighted([text]) for text in distinct.texts])
        counts = np.array([len(of_item.texts) for of_item in references], dtype=np.int64)
        item_of = np.repeat(np.arange(len(references), dtype=np.int64), counts)
        weights = np.array([weight for of_item in references for weight in of_item.weights], dtype=np.float64)
        golds = np.repeat(np.array([of_item.gold for of_item in references], dtype=np.int64), counts)
        is_gold = golds == ranges(np.zeros(len(references), dtype=np.int64), counts)
        usable = ~np.isin(distinct.numbers, list(singles.problems))
        matters = (weights > 0) | ((weights < 0) & (self._subtracted > 0)) | (is_gold & self._keep_gold)
        is_used = usable & matters
        return PreparedUpsilon(
            items=len(references),
            problems=self._problems(references, singles, distinct.numbers, item_of, usable, weights, is_gold),
            singles=singles,
            offsets=np.searchsorted(item_of[is_used], np.arange(len(references) + 1)).astype(np.int64),
            texts=distinct.numbers[is_used],
            weights=weights[is_used],
            is_gold=is_gold[is_used],
        )

    def _problems(
        self,
        references: Sequence[References],
        singles: Prepared,
        texts: Indexes,
        item_of: Indexes,
        usable: NDArray[np.bool_],
        weights: Floats,
        is_gold: NDArray[np.bool_],
    ) -> dict[int, Problem]:
        """Return the problems of items; where no reference is usable, the problem of the first."""
        has_usable, has_positive, has_gold = (
            set(item_of[mask].tolist()) for mask in (usable, usable & (weights > 0), usable & is_gold)
        )
        first = dict(zip(reversed(item_of.tolist()), reversed(texts.tolist()), strict=True))
        problems = {}
        for item_place in range(len(references)):
            if item_place not in has_usable:
                problems[item_place] = singles.problems[first[item_place]] if item_place in first else NO_REFERENCE
            elif item_place not in has_positive:
                problems[item_place] = NO_POSITIVE_WEIGHT
            elif self._keep_gold and item_place not in has_gold:
                problems[item_place] = NO_GOLD
        return problems

    def statistics(
        self, replies: Sequence[str], prepared: Prepared, reply_places: Indexes, item_places: Indexes
    ) -> Floats:
        """Return a score and a count for each row."""
        assert isinstance(prepared, PreparedUpsilon)
        distinct = DistinctTexts.of(replies)
        pairs = TextPairs.of(prepared.offsets, prepared.texts, distinct.numbers[reply_places], item_places)
        base_scores = similarities(self.base, distinct.texts, prepared.singles, pairs.reply, pairs.reference)
        scores = np.clip((base_scores - self._baseline) / (1 - self._baseline), 0, 1)
        place = ranges(prepared.offsets[item_places], pairs.counts)
        out = np.empty(len(reply_places), dtype=np.float64)
        _aggregate_rows(
            scores[pairs.place],
            prepared.weights[place],
            prepared.is_gold[place],
            np.concatenate([[0], np.cumsum(pairs.counts)]).astype(np.int64),
            self._aggregate,
            self._subtracted,
            self._keep_gold,
            out,
        )
        empty = np.array([not text.strip() for text in distinct.texts], dtype=np.bool_)
        out[empty[distinct.numbers[reply_places]]] = 0
        out[np.isin(item_places, list(prepared.problems))] = np.nan
        return self.rows(out)


def open_without_b(metric: Metric, specification: Specification) -> Metric:
    """Return the metric; a weighted form whose specification sets no b remembers that b is open."""
    if not isinstance(metric, Upsilon) or "b" in dict(specification.parameters):
        return metric
    return metric.without_b()


def similarities(
    base: Metric, replies: Sequence[str], singles: Prepared, reply_places: Indexes, reference_places: Indexes
) -> Floats:
    """Return the base metric's score of each pair so that higher is better; NaN where it has none."""
    values = base.values(base.statistics(replies, singles, reply_places, reference_places), Level.REPLY)
    return values if base.info.higher_is_better else np.maximum(0, 1 - values)


def baseline(metric: Metric, replies: Sequence[str], references: Sequence[str]) -> float:
    """Return the b of a metric, or of the base of its υ form: its mean over pairs that the caller drew at random.

    Pairs without a score do not count, such as those with a text without a known word.
    """
    base = metric.base if isinstance(metric, Upsilon) else metric
    assert len(replies) == len(references), "a pair has a reply and a reference"
    places = np.arange(len(replies), dtype=np.int64)
    singles = base.prepare([References.unweighted([text]) for text in references])
    scores = similarities(base, replies, singles, places, places)
    if np.isnan(scores).all():
        raise BadInput(
            f"none of {len(replies)} random pairs has a score by {base.name}",
            remedy="check that the texts are in the language of the word vectors or the encoder",
        )
    return float(scores[~np.isnan(scores)].mean())


def _base_of(info: MetricInfo, settings: Mapping[str, str], source: VectorOpener | None) -> Metric:
    """Build the base metric with its part of the settings."""
    if missing := next((model for model in info.models if not settings[model.name]), None):
        raise missing.missing(info.name)
    base = find(info.name.removeprefix(PREFIX))
    chosen = {parameter.name: settings.get(parameter.name, parameter.default) for parameter in base.parameters}
    return build_of(base, chosen, source)


@compiled
def _aggregate_rows(
    scores: Floats,
    weights: Floats,
    is_gold: NDArray[np.bool_],
    offsets: Indexes,
    aggregate: int,
    subtracted: float,
    keep_gold: bool,
    out: Floats,
) -> None:
    """Compute one score from each row's pairs; NaN where nothing is defined."""
    for row in range(len(out)):
        part = slice(offsets[row], offsets[row + 1])
        gold, defined = np.nan, ~np.isnan(scores[part])
        if keep_gold:
            for place in range(offsets[row], offsets[row + 1]):
                if is_gold[place]:
                    gold = scores[place]
                    defined[place - offsets[row]] = False
        aggregated = _aggregate_one(scores[part][defined], weights[part][defined], aggregate, subtracted)
        if not keep_gold or np.isnan(gold):
            out[row] = aggregated if not keep_gold else np.nan
        else:
            out[row] = gold if np.isnan(aggregated) else (gold + aggregated) / 2


@compiled
def _aggregate_one(scores: Floats, weights: Floats, aggregate: int, subtracted: float) -> float:
    """Return the aggregate of one item's references; NaN if none has a positive weight."""
    positive = weights > 0
    if not positive.any():
        return np.nan
    positive_scores, positive_weights = scores[positive], weights[positive]
    if aggregate == _BEST:
        return float(positive_scores.max())
    if aggregate == _MEAN_BEST_3:
        best = np.sort(positive_scores)[-3:]
        return float(best.sum() / len(best))
    if aggregate == _WEIGHTED_MEAN:
        return float(min(1.0, np.sort(positive_scores * positive_weights).sum() / np.sort(positive_weights).sum()))
    worst = 0.0
    for place in range(len(scores)):
        if weights[place] < 0:
            worst = max(worst, -weights[place] * scores[place])
    return float(max(0.0, (positive_scores * positive_weights).max() - subtracted * worst) / positive_weights.max())
