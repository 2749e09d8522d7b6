"""Scores by judges that were fitted without the rows they score: without a group, or without a fold of contexts."""

from __future__ import annotations

import numpy as np

from refaug.evaluation.fitted_judge.fit import context_folds, fit_judge
from refaug.evaluation.fitted_judge.rated_table import FEWEST_ROWS, RatedTable
from refaug.evaluation.metric_setup.combined.combination import FitSettings
from refaug.metrics.base import Floats


def out_of_group_scores(table: RatedTable, settings: FitSettings | None = None) -> Floats:
    """Return the score of each row by a judge that was fitted to the other groups alone; NaN where a value is missing.

    Sets of one group share contexts or their source, so a judge must not be fitted to one of them and tried on another.
    """
    scores = np.full(len(table), np.nan)
    for group in np.unique(table.groups).tolist():
        rows = np.flatnonzero(table.groups == group)
        judge = fit_judge(table.select(np.flatnonzero(table.groups != group)), settings)
        scores[rows] = judge.score(table.values[rows], table.lengths[rows])
    return scores


def out_of_fold_scores(table: RatedTable, settings: FitSettings | None = None, *, fewest: int = FEWEST_ROWS) -> Floats:
    """Return the score of each row by a judge fitted to other contexts, of the same set too: seen domain and taste.

    `fewest` are the rows that each of these judges is fitted to at least.
    """
    settings = settings or FitSettings()
    folds = context_folds(table.contexts, settings.seed)
    scores = np.full(len(table), np.nan)
    for fold in np.unique(folds).tolist():
        rows = np.flatnonzero(folds == fold)
        judge = fit_judge(table.select(np.flatnonzero(folds != fold)), settings, fewest=fewest)
        scores[rows] = judge.score(table.values[rows], table.lengths[rows])
    return scores


def shuffled_within_sets(table: RatedTable, seed: int) -> RatedTable:
    """Return the table with its ratings shuffled within each set: a control that knows nothing."""
    random, ratings = np.random.default_rng(seed), table.ratings.copy()
    for number in np.unique(table.sets).tolist():
        rows = np.flatnonzero(table.sets == number)
        ratings[rows] = ratings[random.permutation(rows)]
    return RatedTable(
        features=table.features,
        values=table.values,
        ratings=ratings,
        lengths=table.lengths,
        sets=table.sets,
        groups=table.groups,
        contexts=table.contexts,
    )
