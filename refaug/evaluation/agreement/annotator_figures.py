"""Compute how well annotators agree with each other, and metrics with each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from refaug.evaluation.agreement.annotator_records import AnnotatorFigures, KappaLevel
from refaug.evaluation.agreement.records import LENGTH
from refaug.evaluation.agreement.row_scores import ScoredSet
from refaug.evaluation.scoring.score_settings import MetaSettings
from refaug.metrics.statistics.alpha import krippendorff_alpha
from refaug.metrics.statistics.correlation import (
    BOOTSTRAPPED_KINDS,
    Correlation,
    Spread,
    between_annotators,
    by_annotator,
    correlate,
)
from refaug.metrics.statistics.intraclass import intraclass_correlations
from refaug.metrics.statistics.kappa import KappaShare, kappa, kappa_of_each, kappa_shares
from refaug.metrics.statistics.resampling import Floats
from refaug.metrics.statistics.split_half import split_half


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
