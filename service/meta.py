"""How far metrics agree with people: rated test sets in, records of agreement out; what `refaug meta` prints.

Which replies count is decided in `service.meta_rows`, their scores come from `service.meta_scores`, and the figures of
each set from `service.meta_figures`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from core.errors import BadInput, Usage
from core.items import BadItem
from core.progress import Progress, Silent
from core.records import Item
from metrics.correlation import Correlation
from metrics.resampling import Estimate
from service.cases import require_references, split
from service.meta_figures import Compared, set_result
from service.meta_records import (
    HUMAN,
    AgreementRow,
    ComparedMetric,
    MeanResult,
    MeanRow,
    MetaResult,
    MetaSettings,
    RatedItems,
    RowKind,
    RowsChoice,
    SetResult,
)
from service.meta_rows import TakenSet
from service.meta_scores import ScoredSet, score_set


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
    scored = [score_set(one, metrics, progress) for one in taken]
    progress.stage("bootstrap", len(scored) + (len(scored) > 1))
    results = []
    for one in scored:
        results.append(set_result(one, metrics, place, settings))
        progress.advance(1)
    mean = _mean_result(scored, results, metrics, place, settings) if len(results) > 1 else None
    return MetaResult(
        metrics=tuple(metrics),
        baseline=metrics[place].name,
        sets=tuple(results),
        mean=mean,
        settings=settings,
        warnings=(
            *(warning for one in results for warning in _warnings(one, settings)),
            *dict.fromkeys(remark for one in metrics for remark in one.metric.remarks()),
        ),
    )


def default_metrics(items: Iterable[Item | BadItem]) -> list[str]:
    """The plain metrics that apply: `multi-bleu` is not `bleu` only where an item has several references."""
    good, _ = split(items)  # refuses a set without a good one
    own = [sum(one.is_own for one in item.pair.references) for item in good]
    if not any(own):
        raise BadInput("no item has a reference of its own", remedy='give items "references": ["…"], or name a metric')
    golds = any(item.pair.gold is not None for item in good)
    several = max(own) > 1 or not golds
    return [*(["bleu"] if golds else []), *(["multi-bleu"] if several else []), "rouge-l", "chrf"]


def _taken(given: RatedItems, metrics: Sequence[ComparedMetric], settings: MetaSettings) -> TakenSet:
    """The rows of a set, or what is wrong, and in which set."""
    try:
        taken = TakenSet.of(given, settings)
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


def _warnings(found: SetResult, settings: MetaSettings) -> Iterator[str]:
    """What makes the figures mean something else than one may think."""
    counts, annotators = found.counts, found.annotators
    for system, missing in counts.unrated.items():
        yield f"{found.name}: {missing:,} replies of {system} have no rating and are not used"
    for row in found.rows:
        if row.kind is not RowKind.METRIC:
            continue
        if row.name not in found.points.values:
            yield f"{found.name}: {row.name} is not compared: {row.spearman.why}"
            continue
        for code, rows in counts.unscored[row.name].items():
            yield f"{found.name}: {row.name} has no score for {rows:,} replies ({code}): left out for all metrics"
    if annotators.fewest < annotators.longest:
        yield (
            f"{found.name}: replies have from {annotators.fewest} to {annotators.longest} ratings: κ, ICC(2), ICC(3), "
            "--min-kappa and the figures of each annotator take the ratings in one place of all lists for one person's"
        )
    if settings.min_kappa is not None and len(annotators.kept) + len(annotators.dropped) == 1:
        yield f"{found.name}: one annotator only, so that there is no κ to be left out by"
    for one in annotators.dropped:
        yield f"{found.name}: annotator {one.annotator + 1} {one.why}"
    if settings.rows is RowsChoice.ALL and counts.references_themselves:
        yield (
            f"{found.name}: {counts.references_themselves:,} of {counts.rated:,} replies are one of their own golds, "
            "which flatters every metric that uses references"
        )


# ── the mean over sets ────────────────────────────────────────────────────────────────────────────────────────────


def _mean_result(
    scored: Sequence[ScoredSet],
    results: Sequence[SetResult],
    metrics: Sequence[ComparedMetric],
    baseline: int,
    settings: MetaSettings,
) -> MeanResult:
    found = Compared.of(scored, len(metrics), baseline, settings)
    rows = [_mean_row(found, place, [one.rows[place] for one in results]) for place in range(len(metrics) + 1)]
    humans = [row for one in results for row in one.rows if row.kind is RowKind.HUMAN]
    if len(humans) == len(results):
        rows.append(_mean_human_row(humans))
    return MeanResult(sets=tuple(one.name for one in results), rows=tuple(rows))


def _mean_row(compared: Compared, place: int, of_sets: Sequence[AgreementRow]) -> MeanRow:
    first = of_sets[0]
    return MeanRow(
        name=first.name,
        kind=first.kind,
        is_baseline=first.is_baseline,
        turned=first.turned,
        n=sum(row.n for row in of_sets),
        spearman=compared.correlation("spearman", place),
        pearson=compared.correlation("pearson", place),
        kendall=_plain_mean([row.kendall for row in of_sets]),
        partial_spearman=_plain_mean([row.partial_spearman for row in of_sets]),
        differences=compared.differences(place),
        holm=compared.holm(place),
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
