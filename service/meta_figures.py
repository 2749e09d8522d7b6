"""The figures of one set: every metric with the ratings and with the baseline, systems, groups, and the annotators.

The figures themselves come from `metrics.correlation` and `metrics.annotators`. Where one is not defined it is None and
`why` says why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from metrics.agreement import Agreement, group_agreement, leave_one_system_out, mean_over_sets, system_level
from metrics.annotators import (
    SplitHalf,
    intraclass_correlations,
    kappa,
    kappa_of_each,
    krippendorff_alpha,
    split_half,
)
from metrics.correlation import (
    BOOTSTRAPPED_KINDS,
    Correlation,
    Spread,
    WilliamsTest,
    by_annotator,
    correlate,
    holm,
    partial_spearman,
    williams,
)
from metrics.resampling import Estimate, Floats
from service.meta_records import (
    HUMAN,
    LENGTH,
    AgreementRow,
    AnnotatorFigures,
    ComparedMetric,
    MetaSettings,
    RowCounts,
    RowKind,
    SetResult,
    WithoutSystem,
)
from service.meta_scores import ScoredSet

GROUP_SIZES: Final = (1, 5, 20, 100)
_GROUP_DRAWS: Final = 1_000  # dealing rows into groups: the mean of this many deals is steady to the third digit
_ITSELF: Final = "it is the length itself"
_NOT_FOR_PEOPLE: Final = "split-half reliability is in Spearman and Pearson alone"


# ── all metrics, with the ratings and with the baseline ───────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class Compared:
    """Every metric in order, and after them the length, with the ratings and with the baseline."""

    by_kind: Mapping[str, tuple[Agreement, ...]]  # spearman and pearson
    metrics: int
    baseline: int

    @classmethod
    def of(cls, sets: Sequence[ScoredSet], metrics: int, baseline: int, settings: MetaSettings) -> Compared:
        """Compare them on one set, or over several.

        A metric without any score in one of the sets has a reason instead of figures, and so has what is compared with
        it.
        """
        missing = _without_scores(sets)
        places = [place for place in range(metrics + 1) if place not in missing]
        found = mean_over_sets(
            [one.rated(places) for one in sets],
            draws=settings.draws,
            seed=settings.seed,
            baseline=places.index(baseline) if baseline in places else None,
            level=settings.confidence,
        )
        by_kind = {kind: dict(zip(places, of, strict=True)) for kind, of in found.by_kind.items()}
        return cls(
            by_kind={
                kind: tuple(_agreement(of.get(place), place, baseline, missing) for place in range(metrics + 1))
                for kind, of in by_kind.items()
            },
            metrics=metrics,
            baseline=baseline,
        )

    def correlation(self, kind: str, place: int) -> Estimate:
        """With the ratings."""
        return self.by_kind[kind][place].correlation

    def differences(self, place: int) -> dict[str, Estimate]:
        """By kind, what the metric has over the baseline; nothing for that one itself."""
        found = {kind: of[place].difference for kind, of in self.by_kind.items()}
        return {kind: difference for kind, difference in found.items() if difference is not None}

    def holm(self, place: int) -> dict[str, float | None]:
        """By kind, p adjusted for all compared metrics; the length stands beside them and is not one of the family."""
        if place in (self.baseline, self.metrics):
            return {}
        family = {kind: [_p(one) for one in of[: self.metrics]] for kind, of in self.by_kind.items()}
        return {kind: holm(values)[place] for kind, values in family.items()}


def _without_scores(sets: Sequence[ScoredSet]) -> dict[int, str]:
    """Why a metric has no score; with several sets, in which it is the first."""
    missing = dict[int, str]()
    for number, one in enumerate(sets, start=1):
        whose = f"in set {number} of {len(sets)}: " if len(sets) > 1 else ""
        for place, why in one.without_scores.items():
            missing.setdefault(place, whose + why)
    return missing


def _agreement(found: Agreement | None, place: int, baseline: int, missing: Mapping[int, str]) -> Agreement:
    """What was found, with a reason where a metric, or the baseline, has no score."""
    own = missing.get(place)
    correlation = Estimate(why=own) if found is None else found.correlation
    if place == baseline:
        return Agreement(correlation=correlation)
    if found is not None and baseline not in missing:
        return found
    return Agreement(correlation=correlation, difference=Estimate(why=own or f"the baseline: {missing[baseline]}"))


def _p(one: Agreement) -> float | None:
    return one.difference.p if one.difference is not None else None


# ── one set ───────────────────────────────────────────────────────────────────────────────────────────────────────


def set_result(
    scored: ScoredSet, metrics: Sequence[ComparedMetric], baseline: int, settings: MetaSettings
) -> SetResult:
    """All rows of a set: the metrics in order, the length, and people where there are several annotators."""
    found = Compared.of([scored], len(metrics), baseline, settings)
    rows = [_row(scored, found, place, metric, settings) for place, metric in enumerate([*metrics, None])]
    annotators = _annotator_figures(scored, settings)
    if len(annotators.kept) > 1:
        rows.append(_human_row(annotators.split_half))
    return SetResult(
        name=scored.taken.name,
        counts=_counts(scored),
        rows=tuple(rows),
        annotators=annotators,
        golds=scored.golds,
        points=scored.points,
        signatures=scored.signatures,
        data=scored.data,
        bad_items=tuple(scored.taken.bad_items),
    )


def _counts(scored: ScoredSet) -> RowCounts:
    taken, points, golds = scored.taken, scored.points, int(scored.taken.is_gold.sum())
    return RowCounts(
        items=len(taken.items),
        bad_items=len(taken.bad_items),
        replies=len(taken.rows) + sum(taken.unrated.values()),
        unrated=dict(taken.unrated),
        rated=len(taken.rows),
        references_themselves=golds,
        fair=len(taken.rows) - golds,
        references_removed=scored.removed,
        unscored=scored.unscored,
        left_out=scored.left_out,
        used=len(points.items),
        contexts=len(np.unique(scored.contexts)),
        systems=len(set(points.systems)),
    )


def _row(
    scored: ScoredSet, compared: Compared, place: int, metric: ComparedMetric | None, settings: MetaSettings
) -> AgreementRow:
    """One metric, or the length where there is no metric."""
    why = scored.without_scores.get(place)
    row = AgreementRow(
        name=LENGTH if metric is None else metric.name,
        kind=RowKind.LENGTH if metric is None else RowKind.METRIC,
        is_baseline=place == compared.baseline,
        turned=metric is not None and metric.turned,
        n=0,
        spearman=compared.correlation("spearman", place),
        pearson=compared.correlation("pearson", place),
        kendall=Correlation("kendall", None, None, 0, why),
        partial_spearman=Correlation("partial-spearman", None, None, 0, why),
        differences=compared.differences(place),
        holm=compared.holm(place),
        williams=_williams(scored, place, compared.baseline),
    )
    return row if why is not None else _with_figures_of_rows(row, scored, scored.signed[place], settings)


def _with_figures_of_rows(row: AgreementRow, scored: ScoredSet, values: Floats, settings: MetaSettings) -> AgreementRow:
    """The row of a metric that has scores, with all that they are looked at in beside the bootstrap."""
    points, n = scored.points, len(values)
    is_length = row.kind is RowKind.LENGTH
    alone = Correlation("partial-spearman", None, None, n, _ITSELF)
    return replace(
        row,
        n=n,
        kendall=correlate("kendall", values, points.ratings),
        partial_spearman=alone if is_length else partial_spearman(values, points.ratings, points.lengths),
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


def _williams(scored: ScoredSet, place: int, baseline: int) -> dict[str, WilliamsTest]:
    """The test that takes every row for independent, for those who know it: with Spearman's ρ as with Pearson's r."""
    if place == baseline:
        return {}
    missing = scored.without_scores.get(place) or scored.without_scores.get(baseline)
    if missing is not None:
        return dict.fromkeys(BOOTSTRAPPED_KINDS, WilliamsTest(t=None, p=None, n=0, why=missing))
    return {kind: _williams_of(kind, scored, place, baseline) for kind in BOOTSTRAPPED_KINDS}


def _williams_of(kind: str, scored: ScoredSet, place: int, baseline: int) -> WilliamsTest:
    one, other, ratings = scored.signed[place], scored.signed[baseline], scored.points.ratings
    three = [correlate(kind, one, ratings), correlate(kind, other, ratings), correlate(kind, one, other)]
    values = [found.value for found in three if found.value is not None]
    if len(values) < len(three):
        why = next(found.why for found in three if found.value is None)
        return WilliamsTest(t=None, p=None, n=len(ratings), why=why)
    return williams(values[0], values[1], values[2], len(ratings))


def _by_annotator(scored: ScoredSet, values: Floats) -> Spread | None:
    """Against each annotator, by place in the lists of ratings; with one alone there is nothing to tell apart."""
    kept = scored.taken.kept
    if len(kept) < 2:
        return None
    found = by_annotator(values, scored.points.by_annotator)
    return Spread.of(found.kind, {kept[column]: correlation for column, correlation in found.each.items()})


def _without_system(scored: ScoredSet, values: Floats) -> WithoutSystem:
    points = scored.points
    spread = leave_one_system_out(values, points.ratings, np.array(points.systems))
    whole = correlate("spearman", values, points.ratings).value
    changes = {
        str(name): one.value - whole for name, one in spread.each.items() if one.value is not None and whole is not None
    }
    most = max(changes, key=lambda name: abs(changes[name]), default=None)
    return WithoutSystem(spread=spread, most=most, change=None if most is None else changes[most])


def _annotator_figures(scored: ScoredSet, settings: MetaSettings) -> AnnotatorFigures:
    ratings = scored.points.by_annotator
    return AnnotatorFigures(
        kept=scored.taken.kept,
        dropped=scored.taken.dropped,
        fewest=scored.taken.lengths[0],
        longest=scored.taken.lengths[1],
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
