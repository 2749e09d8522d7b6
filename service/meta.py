"""How far metrics agree with people: rated test sets in, records of agreement out; what `refaug meta` prints.

A row is one rated reply, its context is its item, and its rating the mean of its annotators'. All metrics of a set are
looked at on the same rows, so that none looks better for having been spared the hard ones. The figures themselves come
from `metrics.correlation` and `metrics.annotators`; where one is not defined it is None and `why` says why.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from core.errors import BadInput, Usage
from core.items import BadItem
from core.progress import Progress, Silent
from core.records import Item, Origin, Reference
from core.text import get_tokenizer, normalise
from metrics.annotators import (
    Alpha,
    AnnotatorKappa,
    IntraclassCorrelations,
    Kappa,
    SplitHalf,
    intraclass_correlations,
    kappa,
    kappa_of_each,
    keep_annotators,
    krippendorff_alpha,
    split_half,
)
from metrics.base import Metric, Problem, References
from metrics.catalogue import Uses
from metrics.correlation import (
    BOOTSTRAPPED_KINDS,
    Agreement,
    Comparison,
    Correlation,
    GroupAgreement,
    RatedSet,
    Spread,
    SystemLevel,
    WilliamsTest,
    by_annotator,
    cluster_bootstrap,
    correlate,
    group_agreement,
    holm,
    leave_one_system_out,
    mean_over_sets,
    partial_spearman,
    system_level,
    williams,
)
from metrics.resampling import Estimate, Floats
from metrics.signature import Signature
from service.cases import Case, Scored, references_of, require_references, score_cases, split, systems_of

LENGTH: Final = "length"  # the row of the reply length, in tokens
HUMAN: Final = "human"  # the row of people against people
LENGTH_TOKENIZER: Final = "word"
GROUP_SIZES: Final = (1, 5, 20, 100)
_GROUP_DRAWS: Final = 1_000  # dealing rows into groups: the mean of this many deals is steady to the third digit
_ITSELF: Final = "it is the length itself"
_NOT_FOR_PEOPLE: Final = "split-half reliability is in Spearman and Pearson alone"


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

    @property
    def signature(self) -> Signature:
        """Says how its scores were made."""
        return Signature.of(self.metric)

    def as_json(self) -> dict[str, Any]:
        """The metric without its figures."""
        return {
            "name": self.name,
            "signature": self.signature.short,
            "signature_full": self.signature.full,
            "turned": self.turned,
        }


# ── what comes of it ──────────────────────────────────────────────────────────────────────────────────────────────
#
# MetaResult ─┬─ metrics          what was compared, in order; `baseline` names one of them
#             ├─ sets: SetResult ─┬─ counts: RowCounts        which rows were used and why others were not
#             │                   ├─ rows: AgreementRow …     the metrics in order, then `length`, then `human`
#             │                   ├─ annotators               what the ratings are worth
#             │                   └─ points: Points           every used row with its rating and scores, for plots
#             └─ mean: MeanResult   the same rows over all sets; None where there is one set only
#
# `Estimate` has value, low, high (the interval), p and why; `Correlation` has value, p, n and why.


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
            "name": self.name,
            "kind": self.kind.value,
            "baseline": self.is_baseline,
            "turned": self.turned,
            "n": self.n,
            "spearman": _estimate(self.spearman),
            "pearson": _estimate(self.pearson),
            "kendall": _correlation(self.kendall),
            "partial_spearman": _correlation(self.partial_spearman),
            "difference": {kind: _estimate(one) for kind, one in self.differences.items()},
            "p_holm": dict(self.holm),
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
class Points:
    """The used rows, column by column, in the order of the file: entry i of every column is about the same reply."""

    items: tuple[str, ...]
    systems: tuple[str, ...]
    ratings: Floats  # (rows,): the mean over the kept annotators who rated the row
    by_annotator: Floats  # (rows, kept annotators), NaN where one did not rate the row
    lengths: Floats  # (rows,), in tokens
    values: Mapping[str, Floats]  # name of the metric → its own scores (rows,), not turned

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
    points: Points
    bad_items: tuple[BadItem, ...]

    def as_json(self, *, points: bool = False) -> dict[str, Any]:
        """With `points`, also every row."""
        return {
            "name": self.name,
            "counts": self.counts.as_json(),
            "rows": [row.as_json() for row in self.rows],
            "annotators": self.annotators.as_json(),
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
        return {
            "name": self.name,
            "kind": self.kind.value,
            "baseline": self.is_baseline,
            "turned": self.turned,
            "n": self.n,
            "spearman": _estimate(self.spearman),
            "pearson": _estimate(self.pearson),
            "kendall": _estimate(self.kendall),
            "partial_spearman": _estimate(self.partial_spearman),
            "difference": {kind: _estimate(one) for kind, one in self.differences.items()},
            "p_holm": dict(self.holm),
        }


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

    def as_json(self, *, points: bool = False) -> dict[str, Any]:
        """One document; with `points`, also every row of every set."""
        return {
            "settings": {**asdict(self.settings), "rows": self.settings.rows.value, "baseline": self.baseline},
            "metrics": [one.as_json() for one in self.metrics],
            "sets": [one.as_json(points=points) for one in self.sets],
            "mean": self.mean and self.mean.as_json(),
            "warnings": list(self.warnings),
        }


def _without_none(values: Mapping[str, Any], *, keep: Sequence[str] = ()) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None or name in keep}


def _estimate(one: Estimate) -> dict[str, Any]:
    interval = None if one.low is None or one.high is None else [one.low, one.high]
    more = {"interval": interval, "p": one.p, "undefined_draws": one.undefined or None, "why": one.why}
    return {"value": one.value, **_without_none(more)}


def _correlation(one: Correlation) -> dict[str, Any]:
    return {"value": one.value, **_without_none({"p": one.p, "n": one.n, "why": one.why})}


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


# ── the command's work ────────────────────────────────────────────────────────────────────────────────────────────


def agreement(
    sets: Sequence[RatedItems],
    metrics: Sequence[ComparedMetric],
    settings: MetaSettings | None = None,
    *,
    baseline: str | None = None,
    progress: Progress | None = None,
) -> MetaResult:
    """Compare metrics with the ratings of one or several test sets, and each metric with the baseline.

    The baseline is one of the metrics by name, the first where none is named. All sets are read before any is scored,
    so that a fault in the last one is not found after the work on the others.
    """
    settings, progress = settings or MetaSettings(), progress or Silent()
    place = _require_baseline(metrics, baseline)
    taken = [_taken(one, metrics, settings) for one in sets]
    if not taken:
        raise Usage("no test set", remedy="give at least one file of items with ratings")
    scored = [_scored(one, metrics, progress) for one in taken]
    progress.stage("bootstrap", len(scored) + (len(scored) > 1))
    results = []
    for one in scored:
        results.append(_set_result(one, metrics, place, settings))
        progress.advance(1)
    mean = _mean_result(scored, results, metrics, place, settings) if len(results) > 1 else None
    return MetaResult(
        metrics=tuple(metrics),
        baseline=metrics[place].name,
        sets=tuple(results),
        mean=mean,
        settings=settings,
        warnings=tuple(warning for one in results for warning in _warnings(one, settings)),
    )


def default_metrics(items: Iterable[Item | BadItem]) -> list[str]:
    """The plain metrics that apply: `multi-bleu` is not `bleu` only where an item has several references."""
    good = [item for item in items if isinstance(item, Item)]
    own = [sum(one.is_own for one in item.pair.references) for item in good]
    if not any(own):
        raise BadInput("no item has a reference of its own", remedy='give items "references": ["…"], or name a metric')
    golds = any(item.pair.gold is not None for item in good)
    several = max(own) > 1 or not golds
    return [*(["bleu"] if golds else []), *(["multi-bleu"] if several else []), "rouge-l", "chrf"]


def _taken(given: RatedItems, metrics: Sequence[ComparedMetric], settings: MetaSettings) -> _TakenSet:
    """The rows of a set, or what is wrong, and in which set."""
    try:
        taken = _TakenSet.of(given, settings)
        for one in metrics:
            require_references(taken.items, one.metric)
    except BadInput as error:
        raise type(error)(f"{given.name}: {error.message}", remedy=error.remedy) from error
    return taken


def _require_baseline(metrics: Sequence[ComparedMetric], baseline: str | None) -> int:
    names = [one.name for one in metrics]
    if not names:
        raise Usage("no metric", remedy="name at least one, for example bleu")
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise Usage(f"{twice} is named twice", remedy="give every metric once")
    if baseline is not None and baseline not in names:
        raise Usage(f"the baseline {baseline} is not among the metrics", remedy=f"one of: {', '.join(names)}")
    return 0 if baseline is None else names.index(baseline)


# ── which rows ────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Row:
    """A rated reply and the references that it is scored against."""

    item: int  # number of its item among the good ones: its context
    system: str
    reply: str
    ratings: tuple[float | None, ...]
    references: tuple[Reference, ...]  # the item's own object where none was removed: references are prepared once
    is_reference: bool  # it is one of its own golds
    removed: int  # of the references, those identical to the reply


def _rows_of(number: int, item: Item, settings: MetaSettings) -> Iterator[_Row]:
    """The replies to one item, each looked for among the references: texts that normalise alike are the same."""
    everything = item.pair.references
    texts = [normalise(one.text) for one in everything]
    for system, reply in item.replies.items():
        text = normalise(reply)
        same = [bool(text) and one == text for one in texts]
        kept = everything
        if any(same) and settings.rows is RowsChoice.FAIR:
            kept = tuple(one for one, is_same in zip(everything, same, strict=True) if not is_same)
        yield _Row(
            item=number,
            system=system,
            reply=reply,
            ratings=item.ratings.get(system, ()),
            references=kept,
            is_reference=any(
                is_same and one.source is Origin.GOLD for one, is_same in zip(everything, same, strict=True)
            ),
            removed=len(everything) - len(kept),
        )


@dataclass(frozen=True)
class _TakenSet:
    """A set's candidates: rated by a kept annotator, and fair if that was asked for."""

    name: str
    items: list[Item]
    bad_items: list[BadItem]
    rows: list[_Row]
    ratings: Floats  # (rows, kept annotators), NaN where one did not rate the row
    kept: tuple[int, ...]
    dropped: tuple[DroppedAnnotator, ...]
    unrated: Mapping[str, int]
    rated: int
    references_themselves: int

    @classmethod
    def of(cls, given: RatedItems, settings: MetaSettings) -> _TakenSet:
        items, bad = split(given.items)
        systems_of(items)  # refuses a set without replies
        rows = [row for number, item in enumerate(items) for row in _rows_of(number, item, settings)]
        matrix = _matrix(rows)
        kept, dropped = _annotators(matrix, settings)
        matrix = matrix[:, kept]
        is_rated: NDArray[np.bool_] = np.asarray(~np.isnan(matrix).all(axis=1))
        is_fair = np.array([not row.is_reference for row in rows], dtype=np.bool_)
        used = np.asarray(is_rated & is_fair) if settings.rows is RowsChoice.FAIR else is_rated
        return cls(
            name=given.name,
            items=items,
            bad_items=bad,
            rows=[row for row, use in zip(rows, used, strict=True) if use],
            ratings=matrix[used],
            kept=kept,
            dropped=dropped,
            unrated=Counter(row.system for row, known in zip(rows, is_rated, strict=True) if not known),
            rated=int(is_rated.sum()),
            references_themselves=int((is_rated & ~is_fair).sum()),
        )


def _matrix(rows: Sequence[_Row]) -> Floats:
    """The ratings (rows, annotators), NaN where there is none; lists shorter than the longest end early."""
    matrix = np.full((len(rows), max(len(row.ratings) for row in rows)), np.nan)
    for place, row in enumerate(rows):
        matrix[place, : len(row.ratings)] = [math.nan if one is None else one for one in row.ratings]
    if np.isnan(matrix).all():
        raise BadInput(
            "no reply has a rating in the field ratings",
            remedy='give items "ratings": {"system": [4, 5, 3]}, one number an annotator',
        )
    return matrix


def _annotators(matrix: Floats, settings: MetaSettings) -> tuple[tuple[int, ...], tuple[DroppedAnnotator, ...]]:
    """Who is kept and who is not, judged by all that they rated: replies that are references tell of them as well."""
    least = settings.min_kappa
    if least is None:
        return tuple(range(matrix.shape[1])), ()
    judged = keep_annotators(matrix, least)
    kept = tuple(np.flatnonzero(judged.mask).tolist())
    if not kept:
        highest = max(one.value for one in kappa_of_each(matrix) if one.value is not None)
        raise BadInput(
            f"no annotator is left, the mean κ of each is below {least:g}",
            remedy=f"the highest is {highest:.3f}: give a lower --min-kappa",
        )
    dropped = tuple(
        DroppedAnnotator(annotator=place, why=why) for place, why in enumerate(judged.reasons) if place not in kept
    )
    return kept, dropped


# ── their scores ──────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class _ScoredSet:
    """The rows that every metric has a score for."""

    taken: _TakenSet
    points: Points
    contexts: NDArray[np.int64]
    signed: Floats  # (metrics + 1, rows): turned so that higher should be better; the length last
    unscored: Mapping[str, Mapping[str, int]]
    left_out: int

    @property
    def rated(self) -> RatedSet:
        """As the bootstrap wants it."""
        return RatedSet(self.signed, self.points.ratings, self.contexts)


def _scored(taken: _TakenSet, metrics: Sequence[ComparedMetric], progress: Progress) -> _ScoredSet:
    values, unscored = dict[str, Floats](), dict[str, Mapping[str, int]]()
    known = np.ones(len(taken.rows), dtype=np.bool_)
    for one in metrics:
        progress.stage(f"score {taken.name}, {one.name}", len(taken.rows), "replies")
        scored = score_cases(one.metric, _cases(taken.rows, one.metric.info.uses), progress)
        values[one.name] = scored.values(one.metric)
        problems = _problems(scored, values[one.name], one.metric)
        unscored[one.name] = dict(Counter(problem.code for problem in problems.values()))
        known[list(problems)] = False
    rows = [row for row, use in zip(taken.rows, known, strict=True) if use]
    tokens = get_tokenizer(LENGTH_TOKENIZER).tokenize_batch([row.reply for row in rows])
    points = Points(
        items=tuple(taken.items[row.item].id for row in rows),
        systems=tuple(row.system for row in rows),
        ratings=_row_means(taken.ratings[known]),
        by_annotator=taken.ratings[known],
        lengths=np.array([len(one) for one in tokens], dtype=np.float64),
        values={name: one[known] for name, one in values.items()},
    )
    signs = [-1.0 if one.turned else 1.0 for one in metrics]
    return _ScoredSet(
        taken=taken,
        points=points,
        contexts=np.array([row.item for row in rows], dtype=np.int64),
        signed=np.stack(
            [*(sign * points.values[one.name] for sign, one in zip(signs, metrics, strict=True)), points.lengths]
        ),
        unscored=unscored,
        left_out=int((~known).sum()),
    )


def _cases(rows: Sequence[_Row], uses: Uses) -> list[Case | Problem]:
    """What each row is scored against; rows of an item that lost no reference share the object."""
    found = dict[int, References | Problem]()
    cases = list[Case | Problem]()
    for row in rows:
        if id(row.references) not in found:
            found[id(row.references)] = references_of(row.references, uses)
        references = found[id(row.references)]
        cases.append(references if isinstance(references, Problem) else Case(row.reply, references))
    return cases


def _problems(scored: Scored, values: Floats, metric: Metric) -> dict[int, Problem]:
    """Every row without a score that is a number, and why."""
    silent = [row for row in np.flatnonzero(~np.isfinite(values)).tolist() if row not in scored.problems]
    return {**scored.problems, **dict.fromkeys(silent, metric.undefined())}


def _row_means(ratings: Floats) -> Floats:
    """The mean of each row's ratings; every row has one."""
    known = ~np.isnan(ratings)
    return np.asarray(np.where(known, ratings, 0.0).sum(axis=1) / known.sum(axis=1))


# ── the figures of one set ────────────────────────────────────────────────────────────────────────────────────────


def _set_result(
    scored: _ScoredSet, metrics: Sequence[ComparedMetric], baseline: int, settings: MetaSettings
) -> SetResult:
    compared = cluster_bootstrap(
        scored.signed,
        scored.points.ratings,
        scored.contexts,
        draws=settings.draws,
        seed=settings.seed,
        baseline=baseline,
        level=settings.confidence,
    )
    adjusted = _holm(compared, len(metrics))
    rows = [
        _row(scored, compared, adjusted, place, baseline, metrics[place] if place < len(metrics) else None, settings)
        for place in range(len(metrics) + 1)
    ]
    annotators = _annotator_figures(scored, settings)
    if len(annotators.kept) > 1:
        rows.append(_human_row(annotators.split_half))
    return SetResult(
        name=scored.taken.name,
        counts=_counts(scored),
        rows=tuple(rows),
        annotators=annotators,
        points=scored.points,
        bad_items=tuple(scored.taken.bad_items),
    )


def _counts(scored: _ScoredSet) -> RowCounts:
    taken, points = scored.taken, scored.points
    return RowCounts(
        items=len(taken.items),
        bad_items=len(taken.bad_items),
        replies=taken.rated + sum(taken.unrated.values()),
        unrated=dict(taken.unrated),
        rated=taken.rated,
        references_themselves=taken.references_themselves,
        fair=taken.rated - taken.references_themselves,
        references_removed=sum(row.removed for row in taken.rows),
        unscored=scored.unscored,
        left_out=scored.left_out,
        used=len(points.items),
        contexts=len(np.unique(scored.contexts)),
        systems=len(set(points.systems)),
    )


def _holm(compared: Comparison, metrics: int) -> dict[str, tuple[float | None, ...]]:
    """Adjusted p values of the metrics; the length is shown beside them and is not one of the family."""
    return {kind: holm([_p(one) for one in found[:metrics]]) for kind, found in compared.by_kind.items()}


def _p(one: Agreement) -> float | None:
    return one.difference.p if one.difference is not None else None


def _row(
    scored: _ScoredSet,
    compared: Comparison,
    adjusted: Mapping[str, tuple[float | None, ...]],
    place: int,
    baseline: int,
    metric: ComparedMetric | None,
    settings: MetaSettings,
) -> AgreementRow:
    """One metric, or the length where there is no metric."""
    points, values = scored.points, scored.signed[place]
    spearman, pearson = (compared.by_kind[kind][place] for kind in ("spearman", "pearson"))
    n = len(values)
    alone = Correlation("partial-spearman", None, None, n, _ITSELF)
    return AgreementRow(
        name=LENGTH if metric is None else metric.name,
        kind=RowKind.LENGTH if metric is None else RowKind.METRIC,
        is_baseline=place == baseline,
        turned=metric is not None and metric.turned,
        n=n,
        spearman=spearman.correlation,
        pearson=pearson.correlation,
        kendall=correlate("kendall", values, points.ratings),
        partial_spearman=alone if metric is None else partial_spearman(values, points.ratings, points.lengths),
        differences=_differences(compared, place),
        holm={} if metric is None or place == baseline else {kind: p[place] for kind, p in adjusted.items()},
        williams={} if place == baseline else _williams(scored, place, baseline),
        by_annotator=_by_annotator(scored, values),
        without_system=_without_system(scored, values),
        system_level=system_level(values, points.ratings, np.array(points.systems), scored.contexts),
        groups=group_agreement(
            values,
            points.ratings,
            sizes=GROUP_SIZES,
            draws=min(settings.draws, _GROUP_DRAWS),
            seed=settings.seed,
            level=settings.confidence,
        ),
    )


def _differences(compared: Comparison, place: int) -> dict[str, Estimate]:
    found = {kind: of[place].difference for kind, of in compared.by_kind.items()}
    return {kind: difference for kind, difference in found.items() if difference is not None}


def _williams(scored: _ScoredSet, place: int, baseline: int) -> dict[str, WilliamsTest]:
    """The test that takes every row for independent, for those who know it: with Spearman's ρ as with Pearson's r."""
    one, other, ratings = scored.signed[place], scored.signed[baseline], scored.points.ratings
    tests = {}
    for kind in BOOTSTRAPPED_KINDS:
        three = [correlate(kind, one, ratings), correlate(kind, other, ratings), correlate(kind, one, other)]
        values = [found.value for found in three if found.value is not None]
        why = next((found.why for found in three if found.value is None), None)
        tests[kind] = (
            WilliamsTest(t=None, p=None, n=len(ratings), why=why)
            if len(values) < len(three)
            else williams(values[0], values[1], values[2], len(ratings))
        )
    return tests


def _by_annotator(scored: _ScoredSet, values: Floats) -> Spread | None:
    """Against each annotator, by place in the lists of ratings; with one alone there is nothing to tell apart."""
    kept = scored.taken.kept
    if len(kept) < 2:
        return None
    found = by_annotator(values, scored.points.by_annotator)
    return Spread.of(found.kind, {kept[column]: correlation for column, correlation in found.each.items()})


def _without_system(scored: _ScoredSet, values: Floats) -> WithoutSystem:
    points = scored.points
    spread = leave_one_system_out(values, points.ratings, np.array(points.systems))
    whole = correlate("spearman", values, points.ratings).value
    changes = {
        str(name): one.value - whole for name, one in spread.each.items() if one.value is not None and whole is not None
    }
    most = max(changes, key=lambda name: abs(changes[name]), default=None)
    return WithoutSystem(spread=spread, most=most, change=None if most is None else changes[most])


def _annotator_figures(scored: _ScoredSet, settings: MetaSettings) -> AnnotatorFigures:
    ratings = scored.points.by_annotator
    return AnnotatorFigures(
        kept=scored.taken.kept,
        dropped=scored.taken.dropped,
        kappa=kappa(ratings),
        kappa_of_each=kappa_of_each(ratings),
        alpha={level: krippendorff_alpha(ratings, level) for level in ("interval", "ordinal")},
        icc=intraclass_correlations(ratings, level=settings.confidence),
        split_half=split_half(ratings, seed=settings.seed, level=settings.confidence),
    )


def _human_row(found: SplitHalf) -> AgreementRow:
    """People against people, as a row beside the metrics: as much as one may hope for."""
    nothing = [Correlation(kind, None, None, found.rows, _NOT_FOR_PEOPLE) for kind in ("kendall", "partial-spearman")]
    return AgreementRow(
        name=HUMAN,
        kind=RowKind.HUMAN,
        n=found.rows,
        spearman=Estimate(value=found.spearman.stepped_up, why=found.spearman.why),
        pearson=Estimate(value=found.pearson.stepped_up, why=found.pearson.why),
        kendall=nothing[0],
        partial_spearman=nothing[1],
    )


def _warnings(found: SetResult, settings: MetaSettings) -> Iterator[str]:
    """What makes the figures mean something else than one may think."""
    counts = found.counts
    for system, missing in counts.unrated.items():
        yield f"{found.name}: {missing:,} replies of {system} have no rating and are not used"
    for metric, by_code in counts.unscored.items():
        for code, rows in by_code.items():
            yield f"{found.name}: {metric} has no score for {rows:,} replies ({code}): left out for all metrics"
    if settings.min_kappa is not None and len(found.annotators.kept) + len(found.annotators.dropped) == 1:
        yield f"{found.name}: one annotator only, so that there is no κ to be left out by"
    for one in found.annotators.dropped:
        yield f"{found.name}: annotator {one.annotator + 1} {one.why}"
    if settings.rows is RowsChoice.ALL and counts.references_themselves:
        yield (
            f"{found.name}: {counts.references_themselves:,} of {counts.rated:,} replies are one of their own golds, "
            "which flatters every metric that uses references"
        )


# ── the mean over sets ────────────────────────────────────────────────────────────────────────────────────────────


def _mean_result(
    scored: Sequence[_ScoredSet],
    results: Sequence[SetResult],
    metrics: Sequence[ComparedMetric],
    baseline: int,
    settings: MetaSettings,
) -> MeanResult:
    compared = mean_over_sets(
        [one.rated for one in scored],
        draws=settings.draws,
        seed=settings.seed,
        baseline=baseline,
        level=settings.confidence,
    )
    adjusted = _holm(compared, len(metrics))
    rows = [
        _mean_row(compared, adjusted, place, [found.rows[place] for found in results])
        for place in range(len(metrics) + 1)
    ]
    humans = [row for found in results for row in found.rows if row.kind is RowKind.HUMAN]
    if len(humans) == len(results):
        rows.append(_mean_human_row(humans))
    return MeanResult(sets=tuple(found.name for found in results), rows=tuple(rows))


def _mean_row(
    compared: Comparison,
    adjusted: Mapping[str, tuple[float | None, ...]],
    place: int,
    of_sets: Sequence[AgreementRow],
) -> MeanRow:
    first = of_sets[0]
    is_compared = first.kind is RowKind.METRIC and not first.is_baseline
    return MeanRow(
        name=first.name,
        kind=first.kind,
        is_baseline=first.is_baseline,
        turned=first.turned,
        n=sum(row.n for row in of_sets),
        spearman=compared.by_kind["spearman"][place].correlation,
        pearson=compared.by_kind["pearson"][place].correlation,
        kendall=_plain_mean([row.kendall for row in of_sets]),
        partial_spearman=_plain_mean([row.partial_spearman for row in of_sets]),
        differences=_differences(compared, place),
        holm={kind: p[place] for kind, p in adjusted.items()} if is_compared else {},
    )


def _mean_human_row(of_sets: Sequence[AgreementRow]) -> MeanRow:
    return MeanRow(
        name=HUMAN,
        kind=RowKind.HUMAN,
        n=sum(row.n for row in of_sets),
        spearman=_plain_mean([row.spearman for row in of_sets]),
        pearson=_plain_mean([row.pearson for row in of_sets]),
        kendall=_plain_mean([row.kendall for row in of_sets]),
        partial_spearman=_plain_mean([row.partial_spearman for row in of_sets]),
    )


def _plain_mean(of_sets: Sequence[Correlation | Estimate]) -> Estimate:
    """The mean without interval; where one of the sets has no value, there is no mean, for that set's reason."""
    values = [one.value for one in of_sets if one.value is not None]
    if len(values) < len(of_sets):
        return Estimate(why=next(one.why for one in of_sets if one.value is None))
    return Estimate(value=math.fsum(values) / len(values))
