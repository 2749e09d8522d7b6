"""The records of `refaug meta`: its settings and its results, and the JSON of each.

    MetaResult ─┬─ metrics          what was compared, in order; `baseline` names one of them
                ├─ sets: SetResult ─┬─ counts: RowCounts        which rows were used and why others were not
                │                   ├─ rows: AgreementRow …     the metrics in order, then `length`, then `human`
                │                   ├─ golds: GoldRows          the rows that rate the gold itself, kept apart
                │                   ├─ annotators               how well the annotators agree
                │                   ├─ signatures               how each metric's scores on this set were computed
                │                   ├─ data                     a hash of the rows that were used
                │                   └─ points: Points           every used row with its rating and scores, for plots
                └─ mean: MeanResult   the same rows over all sets; None where there is only one set

`Estimate` has value, low, high (the interval), p and why; `Correlation` has value, p, n and why. A figure that is not
defined is None, and `why` tells the reason.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Final

from refaug.core.records import Item
from refaug.evaluation.agreement.annotator_records import AnnotatorFigures
from refaug.evaluation.agreement.figure_json import (
    correlation_json,
    estimate_json,
    estimate_or_correlation_json,
    spread_json,
    without_none,
)
from refaug.evaluation.scoring.items import BadItem
from refaug.evaluation.scoring.score_settings import MetaSettings
from refaug.metrics.base import Metric
from refaug.metrics.signature import Signature
from refaug.metrics.statistics.agreement import GroupAgreement, SystemLevel
from refaug.metrics.statistics.correlation import Correlation, Spread, WilliamsTest
from refaug.metrics.statistics.resampling import Estimate, Floats

LENGTH: Final = "length"  # the row of the reply length, in tokens
HUMAN: Final = "human"  # the row of people against people


@dataclass(frozen=True, kw_only=True)
class RatedItems:
    """A test set with the name that tables give it."""

    name: str
    items: Iterable[Item | BadItem]


@dataclass(frozen=True, kw_only=True)
class ComparedMetric:
    """A metric with the name that tables give it: its specification as the user wrote it."""

    name: str
    metric: Metric

    @property
    def turned(self) -> bool:
        """Whether its sign is turned before it is correlated, so that higher always means better agreement."""
        return not self.metric.info.higher_is_better


# ── results ───────────────────────────────────────────────────────────────────────────────────────────────────────


class RowKind(StrEnum):
    """What a row of a table is about."""

    METRIC = "metric"
    LENGTH = "length"
    HUMAN = "human"


@dataclass(frozen=True, kw_only=True)
class RowCounts:
    """The numbers of rated replies of a set, and why some were not used.

    rated = references_themselves + fair; of these the `candidates` (fair, or all rated) = left_out + used.
    """

    items: int
    bad_items: int
    replies: int
    unrated: Mapping[str, int]  # replies without a rating, by system; only systems that have such replies
    rated: int
    references_themselves: int  # rated replies that are one of their golds
    fair: int
    references_removed: int  # references (of candidates) that are identical to the reply they would have scored
    unscored: Mapping[str, Mapping[str, int]]  # metric → code of the problem → candidates
    left_out: int  # candidates for which some metric has no score
    used: int
    contexts: int  # of the used rows
    systems: int  # of the used rows

    def as_json(self) -> dict[str, object]:
        """Return all counts."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class WithoutSystem:
    """Spearman over rows without each system in turn, and the system whose absence changes it most."""

    spread: Spread
    most: str | None  # None where nothing can be compared
    change: float | None  # Spearman without that system, less Spearman with all

    def as_json(self) -> dict[str, object]:
        """Return the extremes, then each system."""
        return {"most": self.most, "change": self.change, **spread_json(self.spread)}


@dataclass(frozen=True, kw_only=True)
class AgreementRow:
    """How well one metric agrees with the mean rating in one set.

    The row `length` has no partial correlation and no Holm p. The row `human` has only Spearman and Pearson: the
    split-half reliability, stepped up by Spearman–Brown, without interval (`SetResult.annotators` has the spread over
    halvings).
    """

    name: str  # the specification, `length` or `human`
    kind: RowKind
    is_baseline: bool = False
    turned: bool = False  # whether all figures of this row are about the negative of the scores
    n: int
    spearman: Estimate  # with its interval over draws of contexts
    pearson: Estimate
    kendall: Correlation
    partial_spearman: Correlation  # with reply length held fixed
    # `spearman` and `pearson` → this metric minus the baseline, with interval and p; none for baseline and human
    differences: Mapping[str, Estimate] = field(default_factory=dict)
    holm: Mapping[str, float | None] = field(default_factory=dict)  # kind → p, adjusted for all compared metrics
    williams: Mapping[str, WilliamsTest] = field(default_factory=dict)  # kind → the test that assumes independent rows
    # kind of correlation → its two-sided p, which assumes independent rows; empty for people, who have halves alone
    p_values: Mapping[str, float | None] = field(default_factory=dict)
    by_annotator: Spread | None = None  # Spearman; `each` by place of the annotator, from 0; None: one annotator only
    by_annotator_pearson: Spread | None = None  # the same of Pearson's r
    without_system: WithoutSystem | None = None
    system_level: SystemLevel | None = None  # its `scores` are turned where `turned` is true
    groups: tuple[GroupAgreement, ...] = ()

    def as_json(self) -> dict[str, object]:
        """Return all figures, each once."""
        return {
            **_row(self),
            "williams": {kind: without_none(asdict(test)) for kind, test in self.williams.items()},
            "p_independent": dict(self.p_values),
            "by_annotator": self.by_annotator and spread_json(self.by_annotator),
            "by_annotator_pearson": self.by_annotator_pearson and spread_json(self.by_annotator_pearson),
            "without_system": self.without_system and self.without_system.as_json(),
            "system_level": self.system_level and _systems(self.system_level),
            "groups": [_group(group) for group in self.groups],
        }


@dataclass(frozen=True, kw_only=True)
class GoldScore:
    """The mean scores of one metric, not turned; None where no row has a score."""

    golds: float | None
    fair: float | None
    scored: int  # the number of scored rows that rate the gold itself


@dataclass(frozen=True, kw_only=True)
class GoldRows:
    """The rows that rate the gold itself, beside the fair rows: they show what such rows would add to any agreement.

    They are scored against all references of their items, including themselves; the fair rows as they were used.
    """

    rows: int
    fair_rows: int
    rating: float  # the mean of their mean ratings
    fair_rating: float | None  # None where there is no fair row
    scores: Mapping[str, GoldScore]  # name of the metric → its means

    def as_json(self) -> dict[str, object]:
        """Return all figures."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class Points:
    """The used rows, column by column, in the order of the file: entry i of every column is about the same reply."""

    items: Sequence[str]
    systems: tuple[str, ...]
    ratings: Floats  # (rows,): the mean over the kept annotators who rated the row
    by_annotator: Floats  # (rows, kept annotators), NaN where the annotator did not rate the row
    lengths: Floats  # (rows,), in tokens
    values: Mapping[str, Floats]  # name of the metric → its scores (rows,), not turned; only metrics with scores

    def as_json(self) -> dict[str, object]:
        """Return the columns as lists."""
        ratings = [[None if math.isnan(rating) else rating for rating in row] for row in self.by_annotator.tolist()]
        return {
            "item": list(self.items),
            "system": list(self.systems),
            "rating": self.ratings.tolist(),
            "ratings": ratings,
            "length": self.lengths.tolist(),
            "scores": {name: values.tolist() for name, values in self.values.items()},
        }


@dataclass(frozen=True, kw_only=True)
class SetResult:
    """All figures of one test set."""

    name: str
    counts: RowCounts
    rows: tuple[AgreementRow, ...]  # the metrics in order, `length`, and `human` where there are several annotators
    annotators: AnnotatorFigures
    golds: GoldRows | None  # None where no gold was rated
    points: Points
    signatures: Mapping[str, Signature]  # name of the metric → how its scores on this set were computed
    data: str  # a hash of the used rows: ids, systems, ratings, references with their weights, replies
    bad_items: tuple[BadItem, ...]

    @property
    def system_ratings(self) -> dict[str, float]:
        """The mean rating of each system relative to its contexts, which is the same for all metrics."""
        level = next((row.system_level for row in self.rows if row.system_level is not None), None)
        return {} if level is None else dict(zip(map(str, level.systems), level.ratings, strict=True))

    def as_json(self, *, points: bool = False) -> dict[str, object]:
        """Return all figures; with `points`, also every row."""
        return {
            "name": self.name,
            "data": self.data,
            "counts": self.counts.as_json(),
            "rows": [row.as_json() for row in self.rows],
            "gold_rows": self.golds and self.golds.as_json(),
            "annotators": self.annotators.as_json(),
            "signatures": {name: _signature(signature) for name, signature in self.signatures.items()},
            "bad_items": [asdict(bad) for bad in self.bad_items],
            **({"points": self.points.as_json()} if points else {}),
        }


@dataclass(frozen=True, kw_only=True)
class MeanRow:
    """One metric's mean over the sets, each of which counts the same; contexts are drawn within each set."""

    name: str
    kind: RowKind
    is_baseline: bool = False
    turned: bool = False
    n: int  # rows of all sets
    spearman: Estimate
    pearson: Estimate
    kendall: Estimate  # the mean alone, without interval
    partial_spearman: Estimate  # the mean alone, without interval
    differences: Mapping[str, Estimate] = field(default_factory=dict)
    holm: Mapping[str, float | None] = field(default_factory=dict)

    def as_json(self) -> dict[str, object]:
        """Return the keys of a set's row that have a mean."""
        return _row(self)


@dataclass(frozen=True, kw_only=True)
class MeanResult:
    """The means over several sets."""

    sets: tuple[str, ...]
    rows: tuple[MeanRow, ...]

    def as_json(self) -> dict[str, object]:
        """Return the means as the command prints them."""
        return {"sets": list(self.sets), "rows": [row.as_json() for row in self.rows]}


@dataclass(frozen=True, kw_only=True)
class MetaResult:
    """The result of comparing metrics with people."""

    metrics: tuple[ComparedMetric, ...]
    baseline: str  # the name of the metric that all others are compared with
    sets: tuple[SetResult, ...]
    mean: MeanResult | None  # None where there is only one set
    settings: MetaSettings
    warnings: tuple[str, ...]

    @property
    def bad_items(self) -> tuple[BadItem, ...]:
        """The bad items of all sets."""
        return tuple(bad for set_result in self.sets for bad in set_result.bad_items)

    def signature(self, metric: str) -> Signature | None:
        """Return the signature that all sets share; None where the metric depends on the set, such as by an idf."""
        first, *further = (set_result.signatures[metric] for set_result in self.sets)
        return first if all(signature == first for signature in further) else None

    def as_json(self, *, points: bool = False) -> dict[str, object]:
        """Return one document; with `points`, also every row of every set."""
        return {
            "settings": {**asdict(self.settings), "rows": self.settings.rows.value, "baseline": self.baseline},
            "metrics": [
                {"name": metric.name, **_signature(self.signature(metric.name)), "turned": metric.turned}
                for metric in self.metrics
            ],
            "sets": [set_result.as_json(points=points) for set_result in self.sets],
            "mean": self.mean and self.mean.as_json(),
            "warnings": list(self.warnings),
        }


def _signature(signature: Signature | None) -> dict[str, object]:
    return {"signature": signature and signature.short, "signature_full": signature and signature.full}


def _row(row: AgreementRow | MeanRow) -> dict[str, object]:
    """Return the fields that rows of sets and rows of the mean share."""
    return {
        "name": row.name,
        "kind": row.kind.value,
        "baseline": row.is_baseline,
        "turned": row.turned,
        "n": row.n,
        "spearman": estimate_json(row.spearman),
        "pearson": estimate_json(row.pearson),
        "kendall": estimate_or_correlation_json(row.kendall),
        "partial_spearman": estimate_or_correlation_json(row.partial_spearman),
        "difference": {kind: estimate_json(difference) for kind, difference in row.differences.items()},
        "p_holm": dict(row.holm),
    }


def _systems(level: SystemLevel) -> dict[str, object]:
    return {
        **{kind: correlation_json(correlation) for kind, correlation in level.by_kind.items()},
        "systems": [
            {"system": name, "score": score, "rating": rating}
            for name, score, rating in zip(level.systems, level.scores, level.ratings, strict=True)
        ],
        "rows": level.rows,
        "alone_in_context": level.alone,
    }


def _group(group: GroupAgreement) -> dict[str, object]:
    figures = {kind: estimate_json(estimate) for kind, estimate in group.by_kind.items()}
    return {"size": group.size, "groups": group.groups, **figures}
