"""Measure how far metrics agree with people: rated test sets in, records of agreement out, for `refaug meta`.

`refaug.evaluation.agreement.rows` selects the replies that count, `refaug.evaluation.agreement.row_scores` scores
them, and `refaug.evaluation.agreement.figures` computes the figures of each set.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from refaug.core.errors import BadInput, Usage
from refaug.core.progress import Progress, Silent
from refaug.core.records import Item
from refaug.evaluation.agreement.figures import MetricComparison, compare_set
from refaug.evaluation.agreement.records import (
    HUMAN,
    AgreementRow,
    ComparedMetric,
    MeanResult,
    MeanRow,
    MetaResult,
    RatedItems,
    RowKind,
    SetResult,
)
from refaug.evaluation.agreement.row_scores import ScoredSet, score_set
from refaug.evaluation.agreement.rows import RatedRows
from refaug.evaluation.scoring.cases import require_references, require_texts_and_sources, split
from refaug.evaluation.scoring.items import BadItem
from refaug.evaluation.scoring.score_settings import MetaSettings, RowsChoice
from refaug.metrics.metric_info import Uses
from refaug.metrics.statistics.correlation import Correlation
from refaug.metrics.statistics.resampling import Estimate


def agreement(
    sets: Sequence[RatedItems],
    metrics: Sequence[ComparedMetric],
    settings: MetaSettings | None = None,
    *,
    baseline: str | None = None,
    progress: Progress | None = None,
) -> MetaResult:
    """Compare metrics with the ratings of one or several test sets, and each metric with the baseline.

    The baseline is one of the metrics by name, by default the first. All sets are read before any is scored, so that an
    error in the last set is not found after the work on the others.
    """
    settings, progress = settings or MetaSettings(), progress or Silent()
    place = _require_baseline(metrics, baseline)
    rated_sets = [_rated_rows(rated_items, metrics, settings) for rated_items in sets]
    if not rated_sets:
        raise Usage("no test set", remedy="give at least one file of items with ratings")
    scored = [score_set(rated_rows, metrics, progress) for rated_rows in rated_sets]
    progress.stage("bootstrap", len(scored) + (len(scored) > 1))
    results = []
    for scored_set in scored:
        results.append(compare_set(scored_set, metrics, place, settings))
        progress.advance(1)
    mean = _mean_result(scored, results, metrics, place, settings) if len(results) > 1 else None
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


def default_metrics(items: Iterable[Item | BadItem]) -> list[str]:
    """Return the plain metrics that apply; `multi-bleu` differs from `bleu` only with several references an item."""
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
        raise BadInput("no item has a reference of its own", remedy='give items "references": ["…"], or name a metric')
    several = most > 1 or not golds
    return [*(["bleu"] if golds else []), *(["multi-bleu"] if several else []), "rouge-l", "chrf"]


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


# ── the mean over sets ────────────────────────────────────────────────────────────────────────────────────────────


def _mean_result(
    scored: Sequence[ScoredSet],
    results: Sequence[SetResult],
    metrics: Sequence[ComparedMetric],
    baseline: int,
    settings: MetaSettings,
) -> MeanResult:
    comparison = MetricComparison.of(scored, len(metrics), baseline, settings)
    rows = [
        _mean_row(comparison, place, [set_result.rows[place] for set_result in results])
        for place in range(len(metrics) + 1)
    ]
    humans = [row for set_result in results for row in set_result.rows if row.kind is RowKind.HUMAN]
    if len(humans) == len(results):
        rows.append(_mean_human_row(humans))
    return MeanResult(sets=tuple(set_result.name for set_result in results), rows=tuple(rows))


def _mean_row(comparison: MetricComparison, place: int, of_sets: Sequence[AgreementRow]) -> MeanRow:
    first = of_sets[0]
    return MeanRow(
        name=first.name,
        kind=first.kind,
        is_baseline=first.is_baseline,
        turned=first.turned,
        n=sum(row.n for row in of_sets),
        spearman=comparison.correlation("spearman", place),
        pearson=comparison.correlation("pearson", place),
        kendall=_plain_mean([row.kendall for row in of_sets]),
        partial_spearman=_plain_mean([row.partial_spearman for row in of_sets]),
        differences=comparison.differences(place),
        holm=comparison.holm(place),
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


def _plain_mean(figures: Sequence[Correlation | Estimate]) -> Estimate:
    """Return the mean without interval; where a set has no value, there is no mean, for the reason of that set."""
    values = [figure.value for figure in figures if figure.value is not None]
    if len(values) < len(figures):
        return Estimate(why=next(figure.why for figure in figures if figure.value is None))
    return Estimate(value=math.fsum(values) / len(values))
