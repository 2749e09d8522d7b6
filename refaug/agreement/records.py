"""The records of `refaug agreement`: its settings and its results, and the JSON of each.

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
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Final

from refaug.core.records import Item, json_form, named
from refaug.metrics.base import Metric
from refaug.metrics.signature import Signature
from refaug.metrics.statistics.agreement import GroupAgreement, SystemLevel
from refaug.metrics.statistics.annotator_agreement import (
    Alpha,
    AnnotatorKappa,
    IntraclassCorrelations,
    Kappa,
    KappaShare,
    SplitHalf,
)
from refaug.metrics.statistics.correlation import Correlation, Spread, WilliamsTest
from refaug.metrics.statistics.resampling import Estimate, Floats
from refaug.scoring.items import BadItem
from refaug.scoring.settings import MetaSettings

# ── The records of annotators in the results of `refaug agreement`: how well they agree, and what follows from it ─────

# ── The JSON of figures: an undefined one is null, with its reason beside it ──────────────────────────────────────────


def without_none(values: Mapping[str, Any], *, keep: Sequence[str] = ()) -> dict[str, object]:
    """Return the values that are there, and the named ones in any case."""
    return {name: value for name, value in values.items() if value is not None or name in keep}


@json_form.register
def _(estimate: Estimate) -> Mapping[str, object]:
    interval = None if estimate.low is None or estimate.high is None else [estimate.low, estimate.high]
    more = {"interval": interval, "p": estimate.p, "undefined_draws": estimate.undefined or None, "why": estimate.why}
    return {"value": estimate.value, **without_none(more)}


@json_form.register
def _(correlation: Correlation) -> Mapping[str, object]:
    more = {"p": correlation.p, "n": correlation.n, "why": correlation.why}
    return {"value": correlation.value, **without_none(more)}


@json_form.register
def _(spread: Spread) -> Mapping[str, object]:
    ends = {"mean": spread.mean, "min": spread.lowest, "max": spread.highest}
    return {**ends, **without_none({"why": spread.why}), "each": json_form(spread.each)}


@json_form.register
def _(test: WilliamsTest) -> Mapping[str, object]:
    return without_none(asdict(test))


@json_form.register
def _(level: SystemLevel) -> Mapping[str, object]:
    return {
        **json_form(level.by_kind),
        "systems": [
            {"system": name, "score": score, "rating": rating}
            for name, score, rating in zip(level.systems, level.scores, level.ratings, strict=True)
        ],
        "rows": level.rows,
        "alone_in_context": level.alone,
    }


@json_form.register
def _(group: GroupAgreement) -> Mapping[str, object]:
    return {"size": group.size, "groups": group.groups, **json_form(group.by_kind)}


# ── The records of annotators in the results of `refaug agreement` ────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class DroppedAnnotator:
    """An annotator (a place in the lists of ratings, from 0) who is left out because of --min-kappa, and why."""

    annotator: int
    why: str


@dataclass(frozen=True, kw_only=True)
class KappaLevel:
    """A threshold of κ: the pairs of annotators above it, and how metrics agree with those whom it would keep."""

    share: KappaShare
    n: int  # rows that a remaining annotator rated
    # name of the metric, or `length` → kind → its correlation with the mean over the remaining annotators
    correlations: Mapping[str, Mapping[str, Correlation]]

    def as_json(self, place: Mapping[int, int]) -> dict[str, object]:
        """Return the figures with annotators by their place in the lists of ratings."""
        return {
            "kappa": self.share.threshold,
            "pairs_above": self.share.above,
            "pairs": self.share.pairs,
            "share": self.share.share,
            "annotators": [place[annotator] for annotator in self.share.annotators],
            "n": self.n,
            "metrics": json_form(self.correlations),
        }


@dataclass(frozen=True, kw_only=True)
class AnnotatorFigures:
    """How well the annotators of the used rows agree with each other, without those left out."""

    kept: tuple[int, ...]  # places in the lists of ratings, from 0; annotators in the figures are places among these
    fewest: int  # the length of the shortest list of ratings, among replies with ratings
    longest: int  # the length of the longest list
    dropped: tuple[DroppedAnnotator, ...]
    kappa: Kappa
    kappa_of_each: tuple[AnnotatorKappa, ...]
    alpha: Mapping[str, Alpha]  # by level: interval, ordinal
    icc: IntraclassCorrelations
    split_half: SplitHalf
    pairs: Mapping[str, Spread]  # `spearman` and `pearson` → every pair of annotators, by two places among the kept
    kappa_shares: tuple[KappaLevel, ...]  # by rising threshold

    def as_json(self) -> dict[str, object]:
        """Return the figures with annotators by their place in the lists of ratings."""
        place = dict(enumerate(self.kept))
        return {
            "kept": list(self.kept),
            "ratings_a_reply": [self.fewest, self.longest],
            "dropped": [asdict(dropped) for dropped in self.dropped],
            "kappa": without_none({"mean": self.kappa.mean, "why": self.kappa.why}, keep=("mean",)),
            "kappa_of_pairs": [
                {
                    **without_none(asdict(pair), keep=("value",)),
                    "first": place[pair.first],
                    "second": place[pair.second],
                }
                for pair in self.kappa.pairs
            ],
            "kappa_of_each": [
                {**without_none(asdict(kappa), keep=("value",)), "annotator": place[kappa.annotator]}
                for kappa in self.kappa_of_each
            ],
            "alpha": {level: without_none(asdict(alpha), keep=("value",)) for level, alpha in self.alpha.items()},
            "icc": {
                "rows": self.icc.rows,
                "annotators": self.icc.annotators,
                "forms": {
                    icc.form: without_none(
                        {"value": icc.value, "low": icc.low, "high": icc.high, "why": icc.why}, keep=("value",)
                    )
                    for icc in self.icc.forms
                },
            },
            "split_half": asdict(self.split_half),
            "pairs": {kind: _pairs_json(spread, place) for kind, spread in self.pairs.items()},
            "kappa_shares": [level.as_json(place) for level in self.kappa_shares],
        }


def _pairs_json(spread: Spread, place: Mapping[int, int]) -> dict[str, object]:
    """Return the extremes, then each pair with annotators by their place in the lists of ratings."""
    each = [
        {"first": place[first], "second": place[second], **json_form(correlation)}
        for (first, second), correlation in spread.each.items()
    ]
    return {**json_form(spread), "each": each}


# ── The records of `refaug agreement`: its settings and its results, and the JSON of each ─────────────────────────────

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


# ── Results ───────────────────────────────────────────────────────────────────────────────────────────────────────────


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


@dataclass(frozen=True, kw_only=True)
class WithoutSystem:
    """Spearman over rows without each system in turn, and the system whose absence changes it most."""

    spread: Spread
    most: str | None  # None where nothing can be compared
    change: float | None  # Spearman without that system, less Spearman with all


@json_form.register
def _(without: WithoutSystem) -> Mapping[str, object]:
    return {"most": without.most, "change": without.change, **json_form(without.spread)}


@dataclass(frozen=True, kw_only=True)
class AgreementRow:
    """How well one metric agrees with the mean rating in one set.

    The row `length` has no partial correlation and no Holm p. The row `human` has only Spearman and Pearson: the
    split-half reliability, stepped up by Spearman–Brown, without interval (`SetResult.annotators` has the spread over
    halvings).
    """

    name: str  # the specification, `length` or `human`
    kind: RowKind
    is_baseline: bool = field(default=False, metadata=named("baseline"))
    turned: bool = False  # whether all figures of this row are about the negative of the scores
    n: int
    spearman: Estimate  # with its interval over draws of contexts
    pearson: Estimate
    kendall: Correlation
    partial_spearman: Correlation  # with reply length held fixed
    # `spearman` and `pearson` → this metric minus the baseline, with interval and p; none for baseline and human
    differences: Mapping[str, Estimate] = field(default_factory=dict, metadata=named("difference"))
    # kind → p, adjusted for all compared metrics
    holm: Mapping[str, float | None] = field(default_factory=dict, metadata=named("p_holm"))
    williams: Mapping[str, WilliamsTest] = field(default_factory=dict)  # kind → the test that assumes independent rows
    # kind of correlation → its two-sided p, which assumes independent rows; empty for people, who have halves alone
    p_values: Mapping[str, float | None] = field(default_factory=dict, metadata=named("p_independent"))
    by_annotator: Spread | None = None  # Spearman; `each` by place of the annotator, from 0; None: one annotator only
    by_annotator_pearson: Spread | None = None  # the same of Pearson's r
    without_system: WithoutSystem | None = None
    system_level: SystemLevel | None = None  # its `scores` are turned where `turned` is true
    groups: tuple[GroupAgreement, ...] = ()


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
            "counts": json_form(self.counts),
            "rows": json_form(self.rows),
            "gold_rows": json_form(self.golds),
            "annotators": self.annotators.as_json(),
            "signatures": {name: _signature(signature) for name, signature in self.signatures.items()},
            "bad_items": json_form(self.bad_items),
            **({"points": self.points.as_json()} if points else {}),
        }


@dataclass(frozen=True, kw_only=True)
class MeanRow:
    """One metric's mean over the sets, each of which counts the same; contexts are drawn within each set."""

    name: str
    kind: RowKind
    is_baseline: bool = field(default=False, metadata=named("baseline"))
    turned: bool = False
    n: int  # rows of all sets
    spearman: Estimate
    pearson: Estimate
    kendall: Estimate  # the mean alone, without interval
    partial_spearman: Estimate  # the mean alone, without interval
    differences: Mapping[str, Estimate] = field(default_factory=dict, metadata=named("difference"))
    holm: Mapping[str, float | None] = field(default_factory=dict, metadata=named("p_holm"))


@dataclass(frozen=True, kw_only=True)
class MeanResult:
    """The means over several sets."""

    sets: tuple[str, ...]
    rows: tuple[MeanRow, ...]


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
            "settings": {**json_form(self.settings), "baseline": self.baseline},
            "metrics": [
                {"name": metric.name, **_signature(self.signature(metric.name)), "turned": metric.turned}
                for metric in self.metrics
            ],
            "sets": [set_result.as_json(points=points) for set_result in self.sets],
            "mean": json_form(self.mean),
            "warnings": list(self.warnings),
        }


def _signature(signature: Signature | None) -> dict[str, object]:
    return {"signature": signature and signature.short, "signature_full": signature and signature.full}


# ── The metrics that are compared: each once, however it is written, and which of them is the baseline ────────────────


def choose_metrics(
    specifications: Sequence[str],
    baseline: str | None,
    build: Callable[[str], Metric],
    names: Mapping[str, str] | None = None,
) -> tuple[list[ComparedMetric], str]:
    """Return the metrics in the order named, and the name of the baseline, which comes first where it is none of them.

    Without one it is the first metric that is no row after a paper of others. `names` are the names in tables; without
    it they are the specifications.
    """
    texts = list(dict.fromkeys([*([baseline] if baseline is not None else []), *specifications]))
    shown = names if names is not None else {text: text.strip() for text in texts}
    metrics = {text: build(text) for text in texts}
    by_signature = dict[str, ComparedMetric]()
    for text in specifications:
        compared = ComparedMetric(name=shown[text], metric=metrics[text])
        by_signature.setdefault(Signature.of(compared.metric).full, compared)
    if baseline is None:
        compared_metrics = list(by_signature.values())
        own = [each for each in compared_metrics if not each.metric.info.is_beside]
        return compared_metrics, (own or compared_metrics)[0].name
    same_as_baseline = by_signature.get(Signature.of(metrics[baseline]).full)
    if same_as_baseline is not None:
        return list(by_signature.values()), same_as_baseline.name
    return [ComparedMetric(name=shown[baseline], metric=metrics[baseline]), *by_signature.values()], shown[baseline]
