"""Measure how far metrics agree with people: rated test sets in, records of agreement out, for `refaug agreement`.

`refaug.agreement.rows` selects the replies that count, `refaug.agreement.row_scores` scores them, and this module
computes the figures of each set.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np

from refaug.agreement.records import (
    HUMAN,
    LENGTH,
    AgreementRow,
    AnnotatorFigures,
    ComparedMetric,
    KappaLevel,
    MeanResult,
    MeanRow,
    MetaResult,
    RatedItems,
    RowCounts,
    RowKind,
    SetResult,
    WithoutSystem,
)
from refaug.agreement.row_scores import ScoredSet, score_set
from refaug.agreement.rows import RatedRows
from refaug.core.errors import BadInput, Usage
from refaug.core.progress import Progress, Silent
from refaug.core.records import Item
from refaug.metrics.metric_info import Uses
from refaug.metrics.statistics.agreement import (
    Agreement,
    group_agreement,
    leave_one_system_out,
    mean_over_sets,
    system_level,
)
from refaug.metrics.statistics.annotator_agreement import (
    KappaShare,
    SplitHalf,
    intraclass_correlations,
    kappa,
    kappa_of_each,
    kappa_shares,
    krippendorff_alpha,
    split_half,
)
from refaug.metrics.statistics.correlation import (
    BOOTSTRAPPED_KINDS,
    Correlation,
    Spread,
    WilliamsTest,
    between_annotators,
    by_annotator,
    correlate,
    partial_spearman,
    williams,
)
from refaug.metrics.statistics.resampling import Estimate, Floats, holm
from refaug.scoring.cases import require_references, require_texts_and_sources, split
from refaug.scoring.items import BadItem
from refaug.scoring.settings import MetaSettings, RowsChoice

# ── Compute how well annotators agree with each other, and metrics with each of them ──────────────────────────────────


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


# ── Compute the figures of one set ────────────────────────────────────────────────────────────────────────────────────

GROUP_SIZES: Final = (1, 5, 20, 100)
_GROUP_DRAWS: Final = 1_000  # deals of rows into groups: their mean is steady to the third digit
_ITSELF: Final = "it is the length itself"
_NOT_FOR_PEOPLE: Final = "split-half reliability is in Spearman and Pearson alone"


# ── All metrics, with the ratings and with the baseline ───────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class MetricComparison:
    """Every metric in order, and after them the length, compared with the ratings and with the baseline."""

    by_kind: Mapping[str, tuple[Agreement, ...]]  # spearman and pearson
    metrics: int
    baseline: int

    @classmethod
    def of(
        cls,
        sets: Sequence[ScoredSet],
        metrics: int,
        baseline: int,
        settings: MetaSettings,
        weights: Sequence[float] | None = None,
        check: Callable[[], None] = lambda: None,
    ) -> MetricComparison:
        """Compare the metrics on one set, or over several, which weigh the same without weights.

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
            weights=weights,
            check=check,
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


# ── One set ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def compare_set(
    scored: ScoredSet,
    metrics: Sequence[ComparedMetric],
    baseline: int,
    settings: MetaSettings,
    check: Callable[[], None] = lambda: None,
) -> SetResult:
    """Compute all rows of a set: the metrics in order, the length, and people where there are several annotators."""
    comparison, rows = (
        MetricComparison.of([scored], len(metrics), baseline, settings, check=check),
        list[AgreementRow](),
    )
    for place, metric in enumerate([*metrics, None]):
        check()
        rows.append(_row(scored, comparison, place, metric, settings))
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


def agreement(
    sets: Sequence[RatedItems],
    metrics: Sequence[ComparedMetric],
    settings: MetaSettings | None = None,
    *,
    baseline: str | None = None,
    weights: Sequence[float] | None = None,
    progress: Progress | None = None,
) -> MetaResult:
    """Compare metrics with the ratings of one or several test sets, and each metric with the baseline.

    In the mean every set counts the same, or by its weight. The baseline is one of the metrics by name, by default the
    first. All sets are read before any is scored, so that an error in the last set is not found after the work on the
    others.
    """
    settings, progress = settings or MetaSettings(), progress or Silent()
    place = _require_baseline(metrics, baseline)
    rated_sets = [_rated_rows(rated_items, metrics, settings) for rated_items in sets]
    if not rated_sets:
        raise Usage("no test set", remedy="give at least one file of items with ratings")
    scored = [score_set(rated_rows, metrics, progress) for rated_rows in rated_sets]
    progress.stage("bootstrap", len(scored) + (len(scored) > 1))
    results, check = [], partial(progress.advance, 0)
    for scored_set in scored:
        results.append(compare_set(scored_set, metrics, place, settings, check))
        progress.advance(1)
    mean = _mean_result(scored, results, metrics, place, settings, weights, check) if len(results) > 1 else None
    return MetaResult(
        metrics=tuple(metrics),
        baseline=metrics[place].name,
        sets=tuple(results),
        mean=mean,
        settings=settings,
        warnings=(
            *(warning for set_result in results for warning in _warnings(set_result, settings)),
            *_mixed_warnings(rated_sets, metrics),
            *dict.fromkeys(remark for compared in metrics for remark in compared.metric.remarks()),
        ),
    )


def default_metrics(items: Iterable[Item | BadItem], first: Sequence[str] = ()) -> list[str]:
    """Return `first`, and the plain metrics that apply.

    `multi-bleu` differs from `bleu` only with several references an item.
    """
    bad, golds, most, count = list[BadItem](), False, 0, 0
    for test_item in items:
        if isinstance(test_item, BadItem):
            bad.append(test_item)
            continue
        count += 1
        most = max(most, sum(reference.is_own for reference in test_item.references))
        golds = golds or test_item.gold is not None
    if not count:
        split(bad)  # refuses a set without a usable item
    if not most:
        if first:
            return list(first)
        raise BadInput("no item has a reference of its own", remedy='give items "references": ["…"], or name a metric')
    several = most > 1 or not golds
    return [*first, *(["bleu"] if golds else []), *(["multi-bleu"] if several else []), "rouge-l", "chrf"]


def _rated_rows(rated_items: RatedItems, metrics: Sequence[ComparedMetric], settings: MetaSettings) -> RatedRows:
    """Return the rated rows of a set; errors name the set."""
    try:
        rated_rows = RatedRows.of(rated_items, settings)
        for compared in metrics:
            if (in_file := rated_rows.in_file) is None:
                require_references(rated_rows.items, compared.metric)
            else:
                require_texts_and_sources(in_file.ids, in_file.sources, compared.metric, has_text=in_file.has_text)
    except BadInput as error:
        raise type(error)(f"{rated_items.name}: {error.message}", remedy=error.remedy) from error
    return rated_rows


def _require_baseline(metrics: Sequence[ComparedMetric], baseline: str | None) -> int:
    names = [compared.name for compared in metrics]
    if not names:
        raise Usage("no metric", remedy="name at least one, for example bleu")
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise Usage(f"{twice} is named twice", remedy="give every metric once")
    if baseline is not None and baseline not in names:
        raise Usage(f"the baseline {baseline} is not among the metrics", remedy=f"one of: {', '.join(names)}")
    return 0 if baseline is None else names.index(baseline)


def _warnings(set_result: SetResult, settings: MetaSettings) -> Iterator[str]:
    """Yield warnings of everything that changes what the figures of a set mean."""
    name, counts, annotators = set_result.name, set_result.counts, set_result.annotators
    for system, missing in counts.unrated.items():
        yield f"{name}: {missing:,} replies of {system} have no rating and are not used"
    for row in set_result.rows:
        if row.kind is not RowKind.METRIC:
            continue
        if row.name not in set_result.points.values:
            yield f"{name}: {row.name} is not compared: {row.spearman.why}"
            continue
        for code, rows in counts.unscored[row.name].items():
            yield f"{name}: {row.name} has no score for {rows:,} replies ({code}): left out for all metrics"
    if annotators.fewest < annotators.longest:
        yield (
            f"{name}: replies have from {annotators.fewest} to {annotators.longest} ratings: κ, ICC(2), ICC(3), "
            "--min-kappa and the figures of each annotator take the ratings in one place of all lists for one person's"
        )
    if settings.min_kappa is not None and len(annotators.kept) + len(annotators.dropped) == 1:
        yield f"{name}: one annotator only, so that there is no κ to be left out by"
    for dropped in annotators.dropped:
        yield f"{name}: annotator {dropped.annotator + 1} {dropped.why}"
    if settings.rows is RowsChoice.ALL and counts.references_themselves:
        yield (
            f"{name}: {counts.references_themselves:,} of {counts.rated:,} replies are one of their own golds, "
            "which flatters every metric that uses references"
        )


def _mixed_warnings(rated_sets: Sequence[RatedRows], metrics: Sequence[ComparedMetric]) -> Iterator[str]:
    """Yield a warning for each set whose weighted references were made in several ways."""
    if any(compared.metric.info.uses is Uses.WEIGHTED for compared in metrics):
        for rated_rows in rated_sets:
            for warning in rated_rows.provenance.warnings:
                yield f"{rated_rows.name}: {warning}"


# ── The mean over sets ────────────────────────────────────────────────────────────────────────────────────────────────


def _mean_result(
    scored: Sequence[ScoredSet],
    results: Sequence[SetResult],
    metrics: Sequence[ComparedMetric],
    baseline: int,
    settings: MetaSettings,
    weights: Sequence[float] | None,
    check: Callable[[], None],
) -> MeanResult:
    comparison = MetricComparison.of(scored, len(metrics), baseline, settings, weights, check)
    rows = [
        _mean_row(comparison, place, [set_result.rows[place] for set_result in results], weights)
        for place in range(len(metrics) + 1)
    ]
    humans = [row for set_result in results for row in set_result.rows if row.kind is RowKind.HUMAN]
    if len(humans) == len(results):
        rows.append(_mean_human_row(humans, weights))
    return MeanResult(sets=tuple(set_result.name for set_result in results), rows=tuple(rows))


def _mean_row(
    comparison: MetricComparison, place: int, of_sets: Sequence[AgreementRow], weights: Sequence[float] | None
) -> MeanRow:
    first = of_sets[0]
    return MeanRow(
        name=first.name,
        kind=first.kind,
        is_baseline=first.is_baseline,
        turned=first.turned,
        n=sum(row.n for row in of_sets),
        spearman=comparison.correlation("spearman", place),
        pearson=comparison.correlation("pearson", place),
        kendall=_plain_mean([row.kendall for row in of_sets], weights),
        partial_spearman=_plain_mean([row.partial_spearman for row in of_sets], weights),
        differences=comparison.differences(place),
        holm=comparison.holm(place),
    )


def _mean_human_row(of_sets: Sequence[AgreementRow], weights: Sequence[float] | None) -> MeanRow:
    return MeanRow(
        name=HUMAN,
        kind=RowKind.HUMAN,
        n=sum(row.n for row in of_sets),
        spearman=_plain_mean([row.spearman for row in of_sets], weights),
        pearson=_plain_mean([row.pearson for row in of_sets], weights),
        kendall=_plain_mean([row.kendall for row in of_sets], weights),
        partial_spearman=_plain_mean([row.partial_spearman for row in of_sets], weights),
    )


def _plain_mean(figures: Sequence[Correlation | Estimate], weights: Sequence[float] | None) -> Estimate:
    """Return the mean without interval; where a set has no value, there is no mean, for the reason of that set."""
    values = [figure.value for figure in figures if figure.value is not None]
    if len(values) < len(figures):
        return Estimate(why=next(figure.why for figure in figures if figure.value is None))
    weights = [1.0] * len(values) if weights is None else weights
    products = (value * weight for value, weight in zip(values, weights, strict=True))
    return Estimate(value=math.fsum(products) / math.fsum(weights))
