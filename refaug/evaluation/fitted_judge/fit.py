"""Fitting a judge: metrics on the normal scores of the training rows, added with weights that people's ratings give.

Ridge regression on the normal scores of the ratings shrinks the weights; how much is chosen on folds over contexts of
the training rows. `equal` takes scales and the effect of length from the training rows, and gives every metric the same
weight, whatever their ratings.

With `length="held"` the length of the reply is regressed out of every metric and of the ratings first (Frisch and
Waugh 1933), and out of the metrics again when a reply is scored: a longer reply gets no more and no less for its
length alone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
from scipy.stats import spearmanr

from refaug.evaluation.fitted_judge.rated_table import FEWEST_ROWS, RatedTable
from refaug.evaluation.metric_setup.combined.combination import CombinedJudge, FitSettings, NormalScale
from refaug.metrics.base import Floats, Indexes

PENALTIES: Final = (0.001, 0.01, 0.1, 1.0, 10.0)  # for each row
FOLDS: Final = 5


def fit_judge(table: RatedTable, settings: FitSettings | None = None, *, fewest: int = FEWEST_ROWS) -> CombinedJudge:
    """Fit a judge to the complete rows of a table; the penalty is the one with the best Spearman on folds.

    `fewest` are the rows that it takes at least: less than usual where folds measure a judge.
    """
    settings, table = settings or FitSettings(), table.complete()
    table.require_enough(fewest)
    if settings.method == "equal":
        return _fit_with(table, 0.0, settings)
    table.require_contexts()
    folds = context_folds(table.contexts, settings.seed)
    agreements = [_agreement_on_folds(table, folds, penalty, settings) for penalty in PENALTIES]
    return _fit_with(table, PENALTIES[int(np.argmax(agreements))], settings)


def context_folds(contexts: Indexes, seed: int) -> Indexes:
    """Return the fold of each row: contexts are dealt out at random, so that none is in two folds."""
    distinct, place = np.unique(contexts, return_inverse=True)
    dealt = np.random.default_rng(seed).permutation(len(distinct)) % FOLDS
    folds: Indexes = dealt[place]
    return folds


def _agreement_on_folds(table: RatedTable, folds: Indexes, penalty: float, settings: FitSettings) -> float:
    """Return the mean over sets of Spearman on rows of other folds than those fitted to."""
    scores = np.full(len(table), np.nan)
    for fold in np.unique(folds).tolist():
        rows = np.flatnonzero(folds == fold)
        judge = _fit_with(table.select(np.flatnonzero(folds != fold)), penalty, settings)
        scores[rows] = judge.score(table.values[rows], table.lengths[rows])
    by_set = [table.sets == number for number in np.unique(table.sets).tolist()]
    return float(np.mean([np.nan_to_num(spearmanr(scores[rows], table.ratings[rows]).statistic) for rows in by_set]))


def _fit_with(table: RatedTable, penalty: float, settings: FitSettings) -> CombinedJudge:
    """Return the judge with the weights of this penalty; length is out of metrics and ratings if held."""
    scales = tuple(NormalScale.of(table.values[:, column]) for column in range(len(table.features)))
    equal = (1.0 / len(scales),) * len(scales)
    judge = CombinedJudge(
        features=table.features,
        scales=scales,
        coefficients=equal,
        length_scale=NormalScale.of(table.lengths),
        length_slopes=(0.0,) * len(scales),
        penalty=penalty,
        settings=settings,
    )
    targets, weights = table.targets, table.weights
    if settings.length == "held":
        lengths = judge.length_scale.apply(table.lengths)
        slopes = _slopes(np.column_stack([judge.design(table.values, table.lengths), targets]), lengths, weights)
        judge = replace(judge, length_slopes=tuple(slopes[:-1].tolist()))
        targets = targets - slopes[-1] * lengths
    if settings.method == "equal":  # what ratings say changes nothing
        return judge
    design = judge.design(table.values, table.lengths)
    return replace(judge, coefficients=tuple(_ridge(design, targets, weights, penalty * len(table)).tolist()))


def _slopes(columns: Floats, lengths: Floats, weights: Floats) -> Floats:
    """Return the slope of each column on length, with an intercept."""
    centred = lengths - np.average(lengths, weights=weights)
    return np.asarray((weights * centred) @ columns / (weights @ centred**2 or 1.0))


def _ridge(design: Floats, targets: Floats, weights: Floats, penalty: float) -> Floats:
    """Return the weights that minimise the weighted squared error and penalty · |weights|², with a free intercept."""
    design = design - np.average(design, axis=0, weights=weights)
    targets = targets - np.average(targets, weights=weights)
    normal = (design * weights[:, None]).T @ design + penalty * np.eye(design.shape[1])
    return np.asarray(np.linalg.solve(normal, (design * weights[:, None]).T @ targets))
