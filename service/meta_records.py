"""What `refaug meta` is asked for and what comes of it: records, and the JSON of each.

    MetaResult ─┬─ metrics          what was compared, in order; `baseline` names one of them
                ├─ sets: SetResult ─┬─ counts: RowCounts        which rows were used and why others were not
                │                   ├─ rows: AgreementRow …     the metrics in order, then `length`, then `human`
                │                   ├─ golds: GoldRows          the rows that rate the gold itself, kept apart
                │                   ├─ annotators               what the ratings are worth
                │                   ├─ signatures               how each metric's scores on this set were made
                │                   ├─ data                     names the rows that were used
                │                   └─ points: Points           every used row with its rating and scores, for plots
                └─ mean: MeanResult   the same rows over all sets; None where there is one set only

`Estimate` has value, low, high (the interval), p and why; `Correlation` has value, p, n and why. Where a figure is not
defined it is None, and `why` says why.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Final

from core.errors import Usage
from core.items import BadItem
from core.records import Item
from metrics.agreement import GroupAgreement, SystemLevel
from metrics.annotators import Alpha, AnnotatorKappa, IntraclassCorrelations, Kappa, SplitHalf
from metrics.base import Metric
from metrics.correlation import Correlation, Spread, WilliamsTest
from metrics.resampling import Estimate, Floats
from metrics.signature import Signature

LENGTH: Final = "length"  # the row of the reply length, in tokens
HUMAN: Final = "human"  # the row of people against people


# ── what is asked for ─────────────────────────────────────────────────────────────────────────────────────────────


class RowsChoice(StrEnum):
    """Which rated replies count."""

    FAIR = "fair"  # without replies that are one of their own golds; references identical to the reply do not count
    ALL = "all"  # every one, against every reference


@dataclass(frozen=True, kw_only=True)
class MetaSettings:
    """How agreement is measured."""

    rows: RowsChoice = RowsChoice.FAIR
    draws: int = 10_000
    seed: int = 1
    confidence: float = 0.95
    min_kappa: float | None = None  # annotators whose mean κ with the others is lower are left out

    def __post_init__(self) -> None:
        if self.draws < 1 or self.draws > 1_000_000:
            raise Usage(f"{self.draws} draws", remedy="from 1 to 1,000,000, usually 10,000")
        if not 0 < self.confidence < 1:
            raise Usage(f"a confidence of {self.confidence:g}", remedy="a share between 0 and 1, such as 0.95")
        if self.min_kappa is not None and not -1 <= self.min_kappa <= 1:
            raise Usage(f"no κ is as low or high as {self.min_kappa:g}", remedy="--min-kappa from -1 to 1, such as 0.2")


@dataclass(frozen=True, kw_only=True)
class RatedItems:
    """A test set under the name that it has in tables."""

    name: str
    items: Iterable[Item | BadItem]


@dataclass(frozen=True, kw_only=True)
class ComparedMetric:
    """A metric under the name that it has in tables: the specification as it was given."""

    name: str
    metric: Metric

    @property
    def turned(self) -> bool:
        """Whether its sign is turned before it is correlated, so that for all metrics higher is better agreement."""
        return not self.metric.info.higher_is_better


# ── what comes of it ──────────────────────────────────────────────────────────────────────────────────────────────


class RowKind(StrEnum):
    """What a row of a table is about."""

    METRIC = "metric"
    LENGTH = "length"
    HUMAN = "human"


@dataclass(frozen=True, kw_only=True)
class RowCounts:
    """The rated replies of a set, and why some were not used.

    rated = references_themselves + fair; of these the `candidates` (fair, or all rated) = left_out + used.
    """

    items: int
    bad_items: int
    replies: int
    unrated: Mapping[str, int]  # replies without a rating, by system; systems with none of these are not named
    rated: int
    references_themselves: int  # rated replies that are one of their own golds
    fair: int
    references_removed: int  # references (of candidates) that are identical to the reply they would have scored
    unscored: Mapping[str, Mapping[str, int]]  # metric → code of the problem → candidates
    left_out: int  # candidates that some metric has no score for
    used: int
    contexts: int  # of the used rows
    systems: int  # of the used rows

    def as_json(self) -> dict[str, Any]:
        """All counts."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class WithoutSystem:
    """Spearman over rows without each system in turn, and the system whose absence changes it most."""

    spread: Spread
    most: str | None  # None where nothing can be compared
    change: float | None  # Spearman without that system, less Spearman with all

    def as_json(self) -> dict[str, Any]:
        """Extremes first."""
        return {"most": self.most, "change": self.change, **_spread(self.spread)}


@dataclass(frozen=True, kw_only=True)
class AgreementRow:
    """How well one metric agrees with the mean rating in one set.

    The row `length` has no partial correlation and no Holm p; the row `human` has Spearman and Pearson alone: the
    split-half reliability, stepped up by Spearman–Brown, without interval (`SetResult.annotators` has the spread over
    halvings).
    """

    name: str  # the specification, `length` or `human`
    kind: RowKind
    is_baseline: bool = False
    turned: bool = False  # all figures of this row are about the negative of the scores
    n: int
    spearman: Estimate  # with its interval over draws of contexts
    pearson: Estimate
    kendall: Correlation
    partial_spearman: Correlation  # with reply length held fixed
    # `spearman` and `pearson` → this metric less the baseline, with interval and p; none for baseline and human
    differences: Mapping[str, Estimate] = field(default_factory=dict)
    holm: Mapping[str, float | None] = field(default_factory=dict)  # kind → p, adjusted for all compared metrics
    williams: Mapping[str, WilliamsTest] = field(default_factory=dict)  # kind → the test that assumes independent rows
    by_annotator: Spread | None = None  # Spearman; `each` by place of the annotator, from 0; None: one number only
    without_system: WithoutSystem | None = None
    system_level: SystemLevel | None = None  # its `scores` are turned where `turned` says so
    groups: tuple[GroupAgreement, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Everything but nothing twice."""
        return {
            **_row(self),
            "williams": {kind: _without_none(asdict(one)) for kind, one in self.williams.items()},
            "by_annotator": self.by_annotator and _spread(self.by_annotator),
            "without_system": self.without_system and self.without_system.as_json(),
            "system_level": self.system_level and _systems(self.system_level),
            "groups": [_group(one) for one in self.groups],
        }


@dataclass(frozen=True, kw_only=True)
class DroppedAnnotator:
    """An annotator (a place in the lists of ratings, from 0) who was left out by --min-kappa, and why."""

    annotator: int
    why: str


@dataclass(frozen=True, kw_only=True)
class AnnotatorFigures:
    """How well the annotators of the used rows agree with each other; those left out are not in it."""

    kept: tuple[int, ...]  # places in the lists of ratings, from 0: figures that name an annotator count these
    fewest: int  # how long the lists of ratings are, of replies that have any
    longest: int
    dropped: tuple[DroppedAnnotator, ...]
    kappa: Kappa
    kappa_of_each: tuple[AnnotatorKappa, ...]
    alpha: Mapping[str, Alpha]  # by level: interval, ordinal
    icc: IntraclassCorrelations
    split_half: SplitHalf

    def as_json(self) -> dict[str, Any]:
        """Annotators by their place in the lists of ratings."""
        place = dict(enumerate(self.kept))
        return {
            "kept": list(self.kept),
            "ratings_a_reply": [self.fewest, self.longest],
            "dropped": [asdict(one) for one in self.dropped],
            "kappa": _without_none({"mean": self.kappa.mean, "why": self.kappa.why}, keep=("mean",)),
            "kappa_of_pairs": [
                {**_without_none(asdict(one), keep=("value",)), "first": place[one.first], "second": place[one.second]}
                for one in self.kappa.pairs
            ],
            "kappa_of_each": [
                {**_without_none(asdict(one), keep=("value",)), "annotator": place[one.annotator]}
                for one in self.kappa_of_each
            ],
            "alpha": {level: _without_none(asdict(one), keep=("value",)) for level, one in self.alpha.items()},
            "icc": {
                "rows": self.icc.rows,
                "annotators": self.icc.annotators,
                "forms": {
                    one.form: _without_none(
                        {"value": one.value, "low": one.low, "high": one.high, "why": one.why}, keep=("value",)
                    )
                    for one in self.icc.forms
                },
            },
            "split_half": asdict(self.split_half),
        }


@dataclass(frozen=True, kw_only=True)
class GoldScore:
    """One metric's mean score, its own and not turned; None where no row has one."""

    golds: float | None
    fair: float | None
    scored: int  # of the rows that rate the gold itself


@dataclass(frozen=True, kw_only=True)
class GoldRows:
    """The rows that rate the gold itself, beside the fair rows: what they would add to any agreement.

    They are scored against all references of their items, themselves included; the fair rows as they were used.
    """

    rows: int
    fair_rows: int
    rating: float  # the mean of their mean ratings
    fair_rating: float | None  # None where there is no fair row
    scores: Mapping[str, GoldScore]  # name of the metric → its means

    def as_json(self) -> dict[str, Any]:
        """What stands beside what."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class Points:
    """The used rows, column by column, in the order of the file: entry i of every column is about the same reply."""

    items: tuple[str, ...]
    systems: tuple[str, ...]
    ratings: Floats  # (rows,): the mean over the kept annotators who rated the row
    by_annotator: Floats  # (rows, kept annotators), NaN where one did not rate the row
    lengths: Floats  # (rows,), in tokens
    values: Mapping[str, Floats]  # name of the metric → its own scores (rows,), not turned; without those of no score

    def as_json(self) -> dict[str, Any]:
        """Columns as lists."""
        ratings = [[None if math.isnan(one) else one for one in row] for row in self.by_annotator.tolist()]
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
    signatures: Mapping[str, Signature]  # name of the metric → how its scores on this set were made
    data: str  # a hash of the used rows: ids, systems, ratings, references with their weights, replies
    bad_items: tuple[BadItem, ...]

    @property
    def system_ratings(self) -> dict[str, float]:
        """Mean rating of each system relative to its contexts; it is the same whichever metric it stands beside."""
        level = next((row.system_level for row in self.rows if row.system_level is not None), None)
        return {} if level is None else dict(zip(map(str, level.systems), level.ratings, strict=True))

    def as_json(self, *, points: bool = False) -> dict[str, Any]:
        """With `points`, also every row."""
        return {
            "name": self.name,
            "data": self.data,
            "counts": self.counts.as_json(),
            "rows": [row.as_json() for row in self.rows],
            "gold_rows": self.golds and self.golds.as_json(),
            "annotators": self.annotators.as_json(),
            "signatures": {name: _signature(one) for name, one in self.signatures.items()},
            "bad_items": [asdict(one) for one in self.bad_items],
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

    def as_json(self) -> dict[str, Any]:
        """The keys of a set's row, as far as there is a mean of them."""
        return _row(self)


@dataclass(frozen=True, kw_only=True)
class MeanResult:
    """The means over several sets."""

    sets: tuple[str, ...]
    rows: tuple[MeanRow, ...]

    def as_json(self) -> dict[str, Any]:
        """As the command prints it."""
        return {"sets": list(self.sets), "rows": [row.as_json() for row in self.rows]}


@dataclass(frozen=True, kw_only=True)
class MetaResult:
    """What came of comparing metrics with people."""

    metrics: tuple[ComparedMetric, ...]
    baseline: str  # the name of the metric that all others are compared with
    sets: tuple[SetResult, ...]
    mean: MeanResult | None  # None where there is one set only
    settings: MetaSettings
    warnings: tuple[str, ...]

    @property
    def bad_items(self) -> tuple[BadItem, ...]:
        """Of all sets."""
        return tuple(bad for one in self.sets for bad in one.bad_items)

    def signature(self, metric: str) -> Signature | None:
        """The one of all sets; None where a metric takes something from each set, and so has one for each."""
        first, *others = (found.signatures[metric] for found in self.sets)
        return first if all(one == first for one in others) else None

    def as_json(self, *, points: bool = False) -> dict[str, Any]:
        """One document; with `points`, also every row of every set."""
        return {
            "settings": {**asdict(self.settings), "rows": self.settings.rows.value, "baseline": self.baseline},
            "metrics": [
                {"name": one.name, **_signature(self.signature(one.name)), "turned": one.turned} for one in self.metrics
            ],
            "sets": [one.as_json(points=points) for one in self.sets],
            "mean": self.mean and self.mean.as_json(),
            "warnings": list(self.warnings),
        }


def _signature(one: Signature | None) -> dict[str, Any]:
    return {"signature": one and one.short, "signature_full": one and one.full}


def _row(row: AgreementRow | MeanRow) -> dict[str, Any]:
    """What rows of sets and of the mean have in common."""
    return {
        "name": row.name,
        "kind": row.kind.value,
        "baseline": row.is_baseline,
        "turned": row.turned,
        "n": row.n,
        "spearman": _estimate(row.spearman),
        "pearson": _estimate(row.pearson),
        "kendall": _estimate_or_correlation(row.kendall),
        "partial_spearman": _estimate_or_correlation(row.partial_spearman),
        "difference": {kind: _estimate(one) for kind, one in row.differences.items()},
        "p_holm": dict(row.holm),
    }


def _without_none(values: Mapping[str, Any], *, keep: Sequence[str] = ()) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None or name in keep}


def _estimate(one: Estimate) -> dict[str, Any]:
    interval = None if one.low is None or one.high is None else [one.low, one.high]
    more = {"interval": interval, "p": one.p, "undefined_draws": one.undefined or None, "why": one.why}
    return {"value": one.value, **_without_none(more)}


def _correlation(one: Correlation) -> dict[str, Any]:
    return {"value": one.value, **_without_none({"p": one.p, "n": one.n, "why": one.why})}


def _estimate_or_correlation(one: Estimate | Correlation) -> dict[str, Any]:
    return _correlation(one) if isinstance(one, Correlation) else _estimate(one)


def _spread(one: Spread) -> dict[str, Any]:
    return {
        "mean": one.mean,
        "min": one.lowest,
        "max": one.highest,
        **_without_none({"why": one.why}),
        "each": {str(name): _correlation(correlation) for name, correlation in one.each.items()},
    }


def _systems(one: SystemLevel) -> dict[str, Any]:
    return {
        **{kind: _correlation(correlation) for kind, correlation in one.by_kind.items()},
        "systems": [
            {"system": name, "score": score, "rating": rating}
            for name, score, rating in zip(one.systems, one.scores, one.ratings, strict=True)
        ],
        "rows": one.rows,
        "alone_in_context": one.alone,
    }


def _group(one: GroupAgreement) -> dict[str, Any]:
    figures = {kind: _estimate(estimate) for kind, estimate in one.by_kind.items()}
    return {"size": one.size, "groups": one.groups, **figures}
