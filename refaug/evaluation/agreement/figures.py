"""Compute the figures of one set: every metric with the ratings and the baseline, systems, groups, and annotators.

The statistics come from `refaug.metrics.statistics`. A figure that is not defined is None, and `why` tells the reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from refaug.evaluation.agreement.annotator_records import AnnotatorFigures, KappaLevel
from refaug.evaluation.agreement.records import (
    HUMAN,
    LENGTH,
    AgreementRow,
    ComparedMetric,
    RowCounts,
    RowKind,
    SetResult,
    WithoutSystem,
)
from refaug.evaluation.agreement.row_scores import ScoredSet
from refaug.evaluation.scoring.score_settings import MetaSettings
from refaug.metrics.statistics.agreement import (
    Agreement,
    group_agreement,
    leave_one_system_out,
    mean_over_sets,
    system_level,
)
from refaug.metrics.statistics.alpha import krippendorff_alpha
from refaug.metrics.statistics.correlation import (
    BOOTSTRAPPED_KINDS,
    Correlation,
    Spread,
    WilliamsTest,
    between_annotators,
    by_annotator,
    correlate,
    holm,
    partial_spearman,
    williams,
)
from refaug.metrics.statistics.intraclass import intraclass_correlations
from refaug.metrics.statistics.kappa import KappaShare, kappa, kappa_of_each, kappa_shares
from refaug.metrics.statistics.resampling import Estimate, Floats
from refaug.metrics.statistics.split_half import SplitHalf, split_half

# ── compute how well annotators agree with each other, and metrics with each of them ──────────────────────────────────


def annotator_figures(scored: ScoredSet, metrics: Sequence[str], settings: MetaSettings) -> AnnotatorFigures:
    """Return all figures of the kept annotators of a set; the metrics are named in their order."""
    ratings = scored.points.by_annotator
    return AnnotatorFigures(
        kept=scored.rated_rows.kept,
        dropped=scored.rated_rows.dropped,
        fewest=scored.rated_rows.lengths[0],
        longest=scored.rated_rows.lengths[1],
        kappa=kappa(ratings),
        kappa_of_each=kappa_of_each(ratings),
        alpha={level: krippendorff_alpha(ratings, level) for level in ("interval", "ordinal")},
        icc=intraclass_correlations(ratings, level=settings.confidence),
        split_half=split_half(ratings, seed=settings.seed, level=settings.confidence),
        pairs={kind: between_annotators(ratings, kind) for kind in BOOTSTRAPPED_KINDS},
        kappa_shares=kappa_levels(scored, metrics),
    )


def with_each_annotator(scored: ScoredSet, values: Floats, kind: str) -> Spread | None:
    """Return the agreement with each annotator, by place in the lists of ratings; None with one annotator only."""
    annotators = scored.rated_rows.kept
    if len(annotators) < 2:
        return None
    spread = by_annotator(values, scored.points.by_annotator, kind)
    return Spread.of(spread.kind, {annotators[column]: correlation for column, correlation in spread.each.items()})


def kappa_levels(scored: ScoredSet, metrics: Sequence[str]) -> tuple[KappaLevel, ...]:
    """Return for each threshold of κ the pairs above it, and how the metrics agree with whom it keeps.

    There is none where no pair of annotators has a κ.
    """
    ratings = scored.points.by_annotator
    by_annotators = dict[tuple[int, ...], KappaLevel]()  # neighbouring thresholds often keep the same annotators
    levels = []
    for share in kappa_shares(ratings):
        if share.annotators not in by_annotators:
            by_annotators[share.annotators] = _level(scored, metrics, share)
        levels.append(replace(by_annotators[share.annotators], share=share))
    return tuple(levels) if levels[0].share.pairs else ()


def _level(scored: ScoredSet, metrics: Sequence[str], share: KappaShare) -> KappaLevel:
    ratings = scored.points.by_annotator[:, list(share.annotators)]
    is_rated = ~np.isnan(ratings).all(axis=1)
    mean = np.full(len(ratings), np.nan)
    mean[is_rated] = np.nanmean(ratings[is_rated], axis=1)
    names = dict(enumerate([*metrics, LENGTH]))
    return KappaLevel(
        share=share,
        n=int(is_rated.sum()),
        correlations={names[place]: _correlations(values, mean) for place, values in sorted(scored.signed.items())},
    )


def _correlations(values: Floats, ratings: Floats) -> Mapping[str, Correlation]:
    return {kind: correlate(kind, values, ratings) for kind in BOOTSTRAPPED_KINDS}


# ── compute the figures of one set ────────────────────────────────────────────────────────────────────────────────────

GROUP_SIZES: Final = (1, 5, 20, 100)
_GROUP_DRAWS: Final = 1_000  # deals of rows into groups: their mean is steady to the third digit
_ITSELF: Final = "it is the length itself"
_NOT_FOR_PEOPLE: Final = "split-half reliability is in Spearman and Pearson alone"


# ── all metrics, with the ratings and with the baseline ───────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class MetricComparison:
    """Every metric in order, and after them the length, compared with the ratings and with the baseline."""

    by_kind: Mapping[str, tuple[Agreement, ...]]  # spearman and pearson
    metrics: int
    baseline: int

    @classmethod
    def of(cls, sets: Sequence[ScoredSet], metrics: int, baseline: int, settings: MetaSettings) -> MetricComparison:
        """Compare the metrics on one set, or over several.

        A metric without any score in one of the sets has a reason instead of figures, and so has a comparison with it.
        """
        missing = _without_scores(sets)
        places = [place for place in range(metrics + 1) if place not in missing]
        means = mean_over_sets(
            [scored.rated_set(places) for scored in sets],
            draws=settings.draws,
            seed=settings.seed,
            baseline=places.index(baseline) if baseline in places else None,
            level=settings.confidence,
        )
        by_kind = {kind: dict(zip(places, rows, strict=True)) for kind, rows in means.by_kind.items()}
        return cls(
            by_kind={
                kind: tuple(_agreement(rows.get(place), place, baseline, missing) for place in range(metrics + 1))
                for kind, rows in by_kind.items()
            },
            metrics=metrics,
            baseline=baseline,
        )

    def correlation(self, kind: str, place: int) -> Estimate:
        """Return the correlation with the ratings."""
        return self.by_kind[kind][place].correlation

    def differences(self, place: int) -> dict[str, Estimate]:
        """Return by kind how much more the metric correlates than the baseline; nothing for the baseline."""
        differences = {kind: rows[place].difference for kind, rows in self.by_kind.items()}
        return {kind: difference for kind, difference in differences.items() if difference is not None}

    def holm(self, place: int) -> dict[str, float | None]:
        """Return by kind p adjusted for all compared metrics; the length is not one of the family."""
        if place in (self.baseline, self.metrics):
            return {}
        family = {kind: [_p(row) for row in rows[: self.metrics]] for kind, rows in self.by_kind.items()}
        return {kind: holm(values)[place] for kind, values in family.items()}


def _without_scores(sets: Sequence[ScoredSet]) -> dict[int, str]:
    """Return why metrics have no score; with several sets, in which set first."""
    missing = dict[int, str]()
    for number, scored in enumerate(sets, start=1):
        whose = f"in set {number} of {len(sets)}: " if len(sets) > 1 else ""
        for place, why in scored.without_scores.items():
            missing.setdefault(place, whose + why)
    return missing


def _agreement(agreement: Agreement | None, place: int, baseline: int, missing: Mapping[int, str]) -> Agreement:
    """Return the agreement, with a reason where the metric or the baseline has no score."""
    own = missing.get(place)
    correlation = Estimate(why=own) if agreement is None else agreement.correlation
    if place == baseline:
        return Agreement(correlation=correlation)
    if agreement is not None and baseline not in missing:
        return agreement
    return Agreement(correlation=correlation, difference=Estimate(why=own or f"the baseline: {missing[baseline]}"))


def _p(agreement: Agreement) -> float | None:
    return agreement.difference.p if agreement.difference is not None else None


# ── one set ───────────────────────────────────────────────────────────────────────────────────────────────────────


def compare_set(
    scored: ScoredSet, metrics: Sequence[ComparedMetric], baseline: int, settings: MetaSettings
) -> SetResult:
    """Compute all rows of a set: the metrics in order, the length, and people where there are several annotators."""
    comparison = MetricComparison.of([scored], len(metrics), baseline, settings)
    rows = [_row(scored, comparison, place, metric, settings) for place, metric in enumerate([*metrics, None])]
    annotators = annotator_figures(scored, [metric.name for metric in metrics], settings)
    if len(annotators.kept) > 1:
        rows.append(_human_row(annotators.split_half))
    return SetResult(
        name=scored.rated_rows.name,
        counts=_counts(scored),
        rows=tuple(rows),
        annotators=annotators,
        golds=scored.golds,
        points=scored.points,
        signatures=scored.signatures,
        data=scored.data,
        bad_items=tuple(scored.rated_rows.bad_items),
    )


def _counts(scored: ScoredSet) -> RowCounts:
    rated_rows, points, golds = scored.rated_rows, scored.points, int(scored.rated_rows.is_gold.sum())
    return RowCounts(
        items=len(rated_rows.items),
        bad_items=len(rated_rows.bad_items),
        replies=len(rated_rows.rows) + sum(rated_rows.unrated.values()),
        unrated=dict(rated_rows.unrated),
        rated=len(rated_rows.rows),
        references_themselves=golds,
        fair=len(rated_rows.rows) - golds,
        references_removed=scored.removed,
        unscored=scored.unscored,
        left_out=scored.left_out,
        used=len(points.items),
        contexts=len(np.unique(scored.contexts)),
        systems=len(set(points.systems)),
    )


def _row(
    scored: ScoredSet, comparison: MetricComparison, place: int, metric: ComparedMetric | None, settings: MetaSettings
) -> AgreementRow:
    """Return the row of one metric, or of the length where there is no metric."""
    why = scored.without_scores.get(place)
    row = AgreementRow(
        name=LENGTH if metric is None else metric.name,
        kind=RowKind.LENGTH if metric is None else RowKind.METRIC,
        is_baseline=place == comparison.baseline,
        turned=metric is not None and metric.turned,
        n=0,
        spearman=comparison.correlation("spearman", place),
        pearson=comparison.correlation("pearson", place),
        kendall=Correlation("kendall", None, None, 0, why),
        partial_spearman=Correlation("partial-spearman", None, None, 0, why),
        differences=comparison.differences(place),
        holm=comparison.holm(place),
        williams=_williams(scored, place, comparison.baseline),
    )
    return row if why is not None else _with_figures_of_rows(row, scored, scored.signed[place], settings)


def _with_figures_of_rows(row: AgreementRow, scored: ScoredSet, values: Floats, settings: MetaSettings) -> AgreementRow:
    """Return the row of a metric that has scores, with all figures beside those of the bootstrap."""
    points, n = scored.points, len(values)
    is_length = row.kind is RowKind.LENGTH
    undefined = Correlation("partial-spearman", None, None, n, _ITSELF)
    kendall = correlate("kendall", values, points.ratings)
    partial = undefined if is_length else partial_spearman(values, points.ratings, points.lengths)
    return replace(
        row,
        n=n,
        kendall=kendall,
        partial_spearman=partial,
        p_values={
            **{kind: correlate(kind, values, points.ratings).p for kind in BOOTSTRAPPED_KINDS},
            "kendall": kendall.p,
            "partial_spearman": partial.p,
        },
        by_annotator=with_each_annotator(scored, values, "spearman"),
        by_annotator_pearson=with_each_annotator(scored, values, "pearson"),
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


def _williams(scored: ScoredSet, place: int, baseline: int) -> dict[str, WilliamsTest]:
    """Return the test that assumes independent rows, by Spearman's ρ and by Pearson's r."""
    if place == baseline:
        return {}
    missing = scored.without_scores.get(place) or scored.without_scores.get(baseline)
    if missing is not None:
        return dict.fromkeys(BOOTSTRAPPED_KINDS, WilliamsTest(t=None, p=None, n=0, why=missing))
    return {kind: _williams_of(kind, scored, place, baseline) for kind in BOOTSTRAPPED_KINDS}


def _williams_of(kind: str, scored: ScoredSet, place: int, baseline: int) -> WilliamsTest:
    scores, base_scores, ratings = scored.signed[place], scored.signed[baseline], scored.points.ratings
    pairs = ((scores, ratings), (base_scores, ratings), (scores, base_scores))
    correlations = [correlate(kind, first, second) for first, second in pairs]
    values = [correlation.value for correlation in correlations if correlation.value is not None]
    if len(values) < len(correlations):
        why = next(correlation.why for correlation in correlations if correlation.value is None)
        return WilliamsTest(t=None, p=None, n=len(ratings), why=why)
    return williams(values[0], values[1], values[2], len(ratings))


def _without_system(scored: ScoredSet, values: Floats) -> WithoutSystem:
    points = scored.points
    spread = leave_one_system_out(values, points.ratings, np.array(points.systems))
    whole = correlate("spearman", values, points.ratings).value
    changes = {
        str(name): correlation.value - whole
        for name, correlation in spread.each.items()
        if correlation.value is not None and whole is not None
    }
    most = max(changes, key=lambda name: abs(changes[name]), default=None)
    return WithoutSystem(spread=spread, most=most, change=None if most is None else changes[most])


def _human_row(halves: SplitHalf) -> AgreementRow:
    """Return the agreement of people with people as a row, the most that a metric may hope for."""
    undefined = [
        Correlation(kind, None, None, halves.rows, _NOT_FOR_PEOPLE) for kind in ("kendall", "partial-spearman")
    ]
    return AgreementRow(
        name=HUMAN,
        kind=RowKind.HUMAN,
        n=halves.rows,
        spearman=Estimate(value=halves.spearman.stepped_up, why=halves.spearman.why),
        pearson=Estimate(value=halves.pearson.stepped_up, why=halves.pearson.why),
        kendall=undefined[0],
        partial_spearman=undefined[1],
    )
