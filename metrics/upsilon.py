"""υ-anything: a metric of one reference, over weighted references.

With m(h, r) the base metric (for TER: max(0, 1 − TER)), b its mean over random pairs and m̃ = clip((m − b) / (1 − b), 0,
1), an item's references r_j of weight w_j make one score by `agg`:

    weighted-best    max(0, max_{w_j > 0} w_j · m̃_j − λ · max_{w_j < 0} |w_j| · m̃_j) / max_j w_j
    best             max m̃_j over references of positive weight
    mean-best-3      the mean of the three largest m̃_j over those, or of all if there are fewer
    weighted-mean    Σ w_j · m̃_j / Σ w_j over those

With `keep-gold=yes` the score is the mean of the gold's m̃ and the aggregate of all others, or the former alone if none
of the others has a positive weight. A reference for which the base metric is undefined is left out, as if it were not
there. An empty reply scores 0, whatever the base metric makes of it. The order of references never matters, to the last
bit: sums are taken in order of size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from importlib import import_module
from typing import Final

import numpy as np
from numpy.typing import NDArray

from core.errors import BadInput, Usage
from core.kernels import compiled
from metrics.base import (
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
from metrics.catalogue import METRICS, MetricInfo
from metrics.several import Distinct, Pairs, ranges
from metrics.specification import Specification

PREFIX: Final = "upsilon-"
_WEIGHTED_BEST, _BEST, _MEAN_BEST_3, _WEIGHTED_MEAN = 0, 1, 2, 3
_AGGREGATES: Final = {
    "weighted-best": _WEIGHTED_BEST,
    "best": _BEST,
    "mean-best-3": _MEAN_BEST_3,
    "weighted-mean": _WEIGHTED_MEAN,
}
_OWN: Final = ("agg", "keep-gold", "lambda", "b")
_OF_SEVERAL: Final = ("refs", "multi")  # what the base metric would do with several references, which it never gets


@dataclass(frozen=True, kw_only=True)
class PreparedUpsilon(Prepared):
    """References with their weights; each distinct text is an item of its own for the base metric.

    Those of item i are `texts[offsets[i]:offsets[i + 1]]`; only those are there that can change a score.
    """

    singles: Prepared
    offsets: Indexes
    texts: Indexes
    weights: Floats
    is_gold: NDArray[np.bool_]


class Upsilon(MeanMetric):
    """A base metric, and how its scores against an item's references become one.

    `b_is_open` where nobody has said what b is: it counts as 0 until `with_b` says it.
    """

    def __init__(self, info: MetricInfo, settings: Mapping[str, str]) -> None:
        if settings["agg"] != "weighted-best" and settings["lambda"] != "0":
            raise Usage(
                f"{info.name}: agg={settings['agg']} subtracts nothing, so lambda={settings['lambda']} has no meaning",
                remedy="agg=weighted-best, or leave lambda out",
            )
        self.info = info
        self.base = _base_of(info, settings)
        of_base = {key: value for key, value in self.base.settings.items() if key not in _OF_SEVERAL}
        self.settings = {**{key: settings[key] for key in _OWN}, **of_base}
        self._aggregate = _AGGREGATES[settings["agg"]]
        self._keep_gold = settings["keep-gold"] == "yes"
        self._subtracted = float(settings["lambda"])
        self._baseline = float(settings["b"])
        self.b_is_open = False
        self._b_from: Mapping[str, str] = {}

    def left_open(self) -> Upsilon:
        """The same, asked for without b."""
        left = copy(self)
        left.b_is_open = True
        return left

    def with_b(self, b: str, measured: Mapping[str, str]) -> Upsilon:
        """The same with a b as specifications write it; full signatures have how it was measured."""
        based = copy(self)
        based.settings = {**self.settings, "b": b}
        based._baseline, based.b_is_open, based._b_from = float(b), False, dict(measured)  # noqa: SLF001  a copy
        return based

    def versions(self) -> Mapping[str, str]:
        """Those of the base metric, and where b comes from, if it was not given."""
        return {**self.base.versions(), **self._b_from}

    def for_set(self, references: Sequence[References]) -> Upsilon:
        """The same with the base metric for this set."""
        bound = copy(self)
        bound.base = self.base.for_set(references)
        return bound

    def undefined(self) -> Problem:
        """The base metric is undefined for this reply and each of the references."""
        return self.base.undefined()

    def prepare(self, references: Sequence[References]) -> PreparedUpsilon:
        """Let the base metric prepare every distinct text as an item of its own, and keep what can change a score."""
        distinct = Distinct.of([text for one in references for text in one.texts])
        singles = self.base.prepare([References.unweighted([text]) for text in distinct.texts])
        counts = np.array([len(one.texts) for one in references], dtype=np.int64)
        item_of = np.repeat(np.arange(len(references), dtype=np.int64), counts)
        weights = np.array([weight for one in references for weight in one.weights], dtype=np.float64)
        golds = np.repeat(np.array([one.gold for one in references], dtype=np.int64), counts)
        is_gold = golds == ranges(np.zeros(len(references), dtype=np.int64), counts)
        usable = ~np.isin(distinct.numbers, list(singles.problems))
        matters = (weights > 0) | ((weights < 0) & (self._subtracted > 0)) | (is_gold & self._keep_gold)
        kept = usable & matters
        return PreparedUpsilon(
            items=len(references),
            problems=self._problems(references, singles, distinct.numbers, item_of, usable, weights, is_gold),
            singles=singles,
            offsets=np.searchsorted(item_of[kept], np.arange(len(references) + 1)).astype(np.int64),
            texts=distinct.numbers[kept],
            weights=weights[kept],
            is_gold=is_gold[kept],
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
        """What is wrong with an item as a whole; where no reference is usable, what is wrong with its first."""
        has_usable, has_positive, has_gold = (
            set(item_of[mask].tolist()) for mask in (usable, usable & (weights > 0), usable & is_gold)
        )
        first = dict(zip(reversed(item_of.tolist()), reversed(texts.tolist()), strict=True))
        problems = {}
        for item in range(len(references)):
            if item not in has_usable:
                problems[item] = singles.problems[first[item]] if item in first else NO_REFERENCE
            elif item not in has_positive:
                problems[item] = NO_POSITIVE_WEIGHT
            elif self._keep_gold and item not in has_gold:
                problems[item] = NO_GOLD
        return problems

    def statistics(self, replies: Sequence[str], prepared: Prepared, reply: Indexes, item: Indexes) -> Floats:
        """A score and a count for each row."""
        assert isinstance(prepared, PreparedUpsilon)
        distinct = Distinct.of(replies)
        pairs = Pairs.of(prepared.offsets, prepared.texts, distinct.numbers[reply], item)
        found = similarities(self.base, distinct.texts, prepared.singles, pairs.reply, pairs.reference)
        scores = np.clip((found - self._baseline) / (1 - self._baseline), 0, 1)
        place = ranges(prepared.offsets[item], pairs.counts)
        out = np.empty(len(reply), dtype=np.float64)
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
        out[empty[distinct.numbers[reply]]] = 0
        out[np.isin(item, list(prepared.problems))] = np.nan
        return self.rows(out)


def open_without_b(metric: Metric, asked: Specification) -> Metric:
    """The metric that was asked for; a weighted form without a b remembers that none was given."""
    if not isinstance(metric, Upsilon) or "b" in dict(asked.given):
        return metric
    return metric.left_open()


def similarities(base: Metric, replies: Sequence[str], singles: Prepared, reply: Indexes, reference: Indexes) -> Floats:
    """The base metric's score of each pair as something that is better the higher it is; NaN where it has none."""
    values = base.values(base.statistics(replies, singles, reply, reference), Level.REPLY)
    return values if base.info.higher_is_better else np.maximum(0, 1 - values)


def baseline(metric: Metric, replies: Sequence[str], references: Sequence[str]) -> float:
    """The b of a metric, or of the base of its υ form: its mean over pairs, of which the caller took care to be random.

    Pairs without a score, of which one text has no known word say, do not count.
    """
    base = metric.base if isinstance(metric, Upsilon) else metric
    assert len(replies) == len(references), "a pair has a reply and a reference"
    places = np.arange(len(replies), dtype=np.int64)
    singles = base.prepare([References.unweighted([text]) for text in references])
    found = similarities(base, replies, singles, places, places)
    if np.isnan(found).all():
        raise BadInput(
            f"none of {len(replies)} random pairs has a score by {base.name}",
            remedy="check that the texts are in the language of the word vectors or the encoder",
        )
    return float(found[~np.isnan(found)].mean())


def _base_of(info: MetricInfo, settings: Mapping[str, str]) -> Metric:
    """The base metric with its part of the settings."""
    base = METRICS[info.name.removeprefix(PREFIX)]
    chosen = {parameter.name: settings.get(parameter.name, parameter.default) for parameter in base.parameters}
    metric: Metric = import_module(base.module).build(base, chosen)
    return metric


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
    """One score out of each row's pairs; NaN where nothing is defined."""
    for row in range(len(out)):
        part = slice(offsets[row], offsets[row + 1])
        gold, defined = np.nan, ~np.isnan(scores[part])
        if keep_gold:
            for place in range(offsets[row], offsets[row + 1]):
                if is_gold[place]:
                    gold = scores[place]
                    defined[place - offsets[row]] = False
        others = _aggregate_one(scores[part][defined], weights[part][defined], aggregate, subtracted)
        if not keep_gold or np.isnan(gold):
            out[row] = others if not keep_gold else np.nan
        else:
            out[row] = gold if np.isnan(others) else (gold + others) / 2


@compiled
def _aggregate_one(scores: Floats, weights: Floats, aggregate: int, subtracted: float) -> float:
    """The aggregate of one item's references; NaN if none has a positive weight."""
    positive = weights > 0
    if not positive.any():
        return np.nan
    good, their_weights = scores[positive], weights[positive]
    if aggregate == _BEST:
        return float(good.max())
    if aggregate == _MEAN_BEST_3:
        best = np.sort(good)[-3:]
        return float(best.sum() / len(best))
    if aggregate == _WEIGHTED_MEAN:
        return float(min(1.0, np.sort(good * their_weights).sum() / np.sort(their_weights).sum()))
    worst = 0.0
    for place in range(len(scores)):
        if weights[place] < 0:
            worst = max(worst, -weights[place] * scores[place])
    return float(max(0.0, (good * their_weights).max() - subtracted * worst) / their_weights.max())


def build(info: MetricInfo, settings: Mapping[str, str]) -> Upsilon:
    """Make one from checked settings."""
    return Upsilon(info, settings)
