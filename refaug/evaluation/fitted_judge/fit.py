"""Fitting a judge: metrics on the normal scores of the training rows, added with weights that people's ratings give.

Two ways to fit: ridge regression on the normal scores of the ratings, and ordinal regression on fifths of the ratings
within each set (proportional odds, McCullagh 1980), whose linear predictor is the score. Both shrink the weights; how
much is chosen on folds over contexts of the training rows. A third way, `equal`, takes scales and the effect of length
from the training rows, and gives every metric the same weight, whatever their ratings. A fourth, `boosting`, adds small
trees (`boosted_trees`), as many as agree best on these folds, so that metrics may count in one range only, or
together.

With `length="held"` the length of the reply is regressed out of every metric and of the ratings first (Frisch and
Waugh 1933), and out of the metrics again when a reply is scored: a longer reply gets no more and no less for its
length alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import rankdata, spearmanr

from refaug.evaluation.fitted_judge.rated_table import FEWEST_ROWS, RatedTable
from refaug.evaluation.metric_setup.combined.combination import CombinedJudge, FitSettings, NormalScale
from refaug.evaluation.metric_setup.combined.score_trees import ScoreTree
from refaug.metrics.base import Floats, Indexes

# ── gradient boosting of small trees (Friedman 2001), with the squared error: each tree is fitted to what is left ─────

TREE_COUNTS: Final = (5, 10, 20, 40, 80, 160)
_RATE: Final = 0.1
_BINS: Final = 32  # thresholds lie between these, of as many rows each
_LEAST_WEIGHT: Final = 10.0  # of an end; the mean weight of a row is 1


def boosted_trees(design: Floats, targets: Floats, weights: Floats, count: int) -> tuple[ScoreTree, ...]:
    """Return so many trees, fitted one after the other to metrics (rows, features) and targets.

    There are fewer where no question lowers the error any more.
    """
    bins = _FeatureBins.of(design)
    residuals = targets - np.average(targets, weights=weights)
    trees = list[ScoreTree]()
    for _ in range(count):
        tree = _fit_tree(bins, residuals, weights)
        if tree is None:
            break
        trees.append(tree)
        residuals = residuals - tree.score(design)
    return tuple(trees)


@dataclass(frozen=True, kw_only=True, eq=False)
class _FeatureBins:
    """The bin of each value, and the values that part the bins of each metric."""

    codes: NDArray[np.int64]  # (rows, features), counted on over all features
    edges: Floats  # (features, bins - 1): a value is in a later bin when it is above
    bins: Indexes  # (rows, features)

    @classmethod
    def of(cls, design: Floats) -> _FeatureBins:
        """Cut each metric into bins of about as many rows."""
        shares = np.arange(1, _BINS) / _BINS
        edges = np.quantile(design, shares, axis=0, method="lower").T
        bins = np.stack(
            [np.searchsorted(of_feature, column) for of_feature, column in zip(edges, design.T, strict=True)], axis=1
        )
        return cls(codes=bins + _BINS * np.arange(design.shape[1]), edges=edges, bins=bins)

    @property
    def features(self) -> int:
        """The number of metrics."""
        return int(self.codes.shape[1])

    def sums(self, numbers: Floats, rows: Indexes) -> Floats:
        """Return the sum of numbers over the rows below each edge (features, bins - 1)."""
        repeated = np.repeat(numbers[rows], self.features)
        by_bin = np.bincount(self.codes[rows].ravel(), repeated, self.features * _BINS)
        return np.asarray(np.cumsum(by_bin.reshape(self.features, _BINS), axis=1)[:, :-1], np.float64)


@dataclass(frozen=True, kw_only=True)
class _Question:
    """A metric and a threshold, and how much it lowers the squared error."""

    feature: int
    edge: int
    gain: float


def _fit_tree(bins: _FeatureBins, residuals: Floats, weights: Floats) -> ScoreTree | None:
    """Return the tree that lowers the error most, question by question; None where none does."""
    everything = np.arange(len(residuals))
    first = _best_question(bins, residuals, weights, everything)
    if first is None:
        return None
    features, thresholds, gains, leaves = [first.feature], [bins.edges[first.feature, first.edge]], [first.gain], []
    is_above = bins.bins[:, first.feature] > first.edge
    for rows in (np.flatnonzero(~is_above), np.flatnonzero(is_above)):
        question = _best_question(bins, residuals, weights, rows)
        if question is None:  # both ends alike
            features.append(first.feature)
            thresholds.append(bins.edges[first.feature, first.edge])
            gains.append(0.0)
            leaves += [_leaf(residuals, weights, rows)] * 2
            continue
        features.append(question.feature)
        thresholds.append(bins.edges[question.feature, question.edge])
        gains.append(question.gain)
        is_further = bins.bins[rows, question.feature] > question.edge
        leaves += [_leaf(residuals, weights, rows[~is_further]), _leaf(residuals, weights, rows[is_further])]
    return ScoreTree(
        features=tuple(features),
        thresholds=tuple(map(float, thresholds)),
        leaves=tuple(leaves),
        gains=tuple(gains),
    )


def _best_question(bins: _FeatureBins, residuals: Floats, weights: Floats, rows: Indexes) -> _Question | None:
    """Return the question that parts these rows best; the first of equals."""
    totals, counts = weights[rows] @ residuals[rows], weights[rows].sum()
    below, below_counts = bins.sums(weights * residuals, rows), bins.sums(weights, rows)
    above, above_counts = totals - below, counts - below_counts
    is_allowed = (below_counts >= _LEAST_WEIGHT) & (above_counts >= _LEAST_WEIGHT)
    if not is_allowed.any():
        return None
    gains = np.full(below.shape, -np.inf)
    gains[is_allowed] = (
        below[is_allowed] ** 2 / below_counts[is_allowed] + above[is_allowed] ** 2 / above_counts[is_allowed]
    ) - totals**2 / counts
    place = int(np.argmax(gains))
    gain = float(gains.flat[place])
    if gain <= 1e-12:
        return None
    feature, edge = divmod(place, _BINS - 1)
    return _Question(feature=feature, edge=edge, gain=gain)


def _leaf(residuals: Floats, weights: Floats, rows: Indexes) -> float:
    """Return what an end adds: a part of the mean of what is left."""
    return float(_RATE * np.average(residuals[rows], weights=weights[rows]))


# ── fitting a judge ───────────────────────────────────────────────────────────────────────────────────────────────────

PENALTIES: Final = (0.001, 0.01, 0.1, 1.0, 10.0)  # for each row
FOLDS: Final = 5
_CLASSES: Final = 5
_LEAST_PROBABILITY: Final = 1e-12


# ── fitting ───────────────────────────────────────────────────────────────────────────────────────────────────────────


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
    fit = _fit_boosted if settings.method == "boosting" else _fit_linear
    return fit(table, folds, settings)


def _fit_linear(table: RatedTable, folds: Indexes, settings: FitSettings) -> CombinedJudge:
    """Return the judge with the penalty that agrees best on folds."""
    scores = [
        _agreement_on_folds(table, folds, partial(_judges_with, penalty=penalty, settings=settings))[0]
        for penalty in PENALTIES
    ]
    return _fit_with(table, PENALTIES[int(np.argmax(scores))], settings)


def _judges_with(table: RatedTable, *, penalty: float, settings: FitSettings) -> list[CombinedJudge]:
    return [_fit_with(table, penalty, settings)]


def _fit_boosted(table: RatedTable, folds: Indexes, settings: FitSettings) -> CombinedJudge:
    """Return the judge with the number of trees that agrees best on folds."""
    scores = _agreement_on_folds(table, folds, lambda others: _boosted_judges(others, TREE_COUNTS, settings))
    [judge] = _boosted_judges(table, [TREE_COUNTS[int(np.argmax(scores))]], settings)
    return judge


def context_folds(contexts: Indexes, seed: int) -> Indexes:
    """Return the fold of each row: contexts are dealt out at random, so that none is in two folds."""
    distinct, place = np.unique(contexts, return_inverse=True)
    dealt = np.random.default_rng(seed).permutation(len(distinct)) % FOLDS
    folds: Indexes = dealt[place]
    return folds


def _agreement_on_folds(
    table: RatedTable, folds: Indexes, fit: Callable[[RatedTable], Sequence[CombinedJudge]]
) -> list[float]:
    """Return the mean over sets of Spearman on rows of other folds than those fitted to, for each judge of a fit."""
    by_fold = list[tuple[Indexes, list[Floats]]]()
    for fold in np.unique(folds).tolist():
        rows = np.flatnonzero(folds == fold)
        judges = fit(table.select(np.flatnonzero(folds != fold)))
        by_fold.append((rows, [judge.score(table.values[rows], table.lengths[rows]) for judge in judges]))
    agreements = list[float]()
    for place in range(len(by_fold[0][1])):
        scores = np.full(len(table), np.nan)
        for rows, of_judges in by_fold:
            scores[rows] = of_judges[place]
        agreements.append(
            float(
                np.mean(
                    [
                        np.nan_to_num(
                            spearmanr(scores[table.sets == number], table.ratings[table.sets == number]).statistic
                        )
                        for number in np.unique(table.sets).tolist()
                    ]
                )
            )
        )
    return agreements


def _fit_with(table: RatedTable, penalty: float, settings: FitSettings) -> CombinedJudge:
    unfitted, targets = _unfitted_judge(table, penalty, settings)
    design = unfitted.design(table.values, table.lengths)
    fits = {"ridge": _ridge, "ordinal": _ordinal, "equal": _equal}
    coefficients = fits[settings.method](design, targets, table.weights, penalty * len(table), table.sets)
    return replace(unfitted, coefficients=tuple(coefficients.tolist()))


def _boosted_judges(table: RatedTable, counts: Sequence[int], settings: FitSettings) -> list[CombinedJudge]:
    """Return a judge for each number of trees: the first ones of the same growth."""
    unfitted, targets = _unfitted_judge(table, 0.0, settings)
    design, weights = unfitted.design(table.values, table.lengths), table.weights
    trees = boosted_trees(design, targets, weights, max(counts))
    judges = [replace(unfitted, trees=trees[:count]) for count in counts]
    if settings.length == "free":
        return judges
    # Trees are no lines: what they give for length, though it is out of each metric, is taken off once more.
    lengths = unfitted.length_scale.apply(table.lengths)
    scores = np.stack([judge.score(table.values, table.lengths) for judge in judges], axis=1)
    slopes = _slopes(scores, lengths, weights).tolist()
    return [replace(judge, length_weight=slope) for judge, slope in zip(judges, slopes, strict=True)]


def _unfitted_judge(table: RatedTable, penalty: float, settings: FitSettings) -> tuple[CombinedJudge, Floats]:
    """Return a judge with its scales and without weights, and what to fit these to; length is out of both if held."""
    scales = tuple(NormalScale.of(table.values[:, column]) for column in range(len(table.features)))
    length_scale, weights = NormalScale.of(table.lengths), table.weights
    unfitted = CombinedJudge(
        features=table.features,
        scales=scales,
        coefficients=(0.0,) * len(scales),
        length_scale=length_scale,
        length_slopes=(0.0,) * len(scales),
        penalty=penalty,
        settings=settings,
    )
    targets = table.targets
    if settings.length == "held":
        lengths = length_scale.apply(table.lengths)
        plain = unfitted.design(table.values, table.lengths)
        slopes = _slopes(np.column_stack([plain, targets]), lengths, weights)
        unfitted = replace(unfitted, length_slopes=tuple(slopes[:-1].tolist()))
        targets = targets - slopes[-1] * lengths
    return unfitted, targets


def _slopes(columns: Floats, lengths: Floats, weights: Floats) -> Floats:
    """Return the slope of each column on length, with an intercept."""
    centred = lengths - np.average(lengths, weights=weights)
    return np.asarray((weights * centred) @ columns / (weights @ centred**2 or 1.0))


def _equal(design: Floats, targets: Floats, weights: Floats, penalty: float, sets: Indexes) -> Floats:
    """Return the same weight for every metric: what ratings say changes nothing."""
    del targets, weights, penalty, sets
    return np.full(design.shape[1], 1.0 / design.shape[1])


def _ridge(design: Floats, targets: Floats, weights: Floats, penalty: float, sets: Indexes) -> Floats:
    """Return the weights that minimise the weighted squared error and penalty · |weights|², with a free intercept."""
    del sets
    design = design - np.average(design, axis=0, weights=weights)
    targets = targets - np.average(targets, weights=weights)
    normal = (design * weights[:, None]).T @ design + penalty * np.eye(design.shape[1])
    return np.asarray(np.linalg.solve(normal, (design * weights[:, None]).T @ targets))


def _ordinal(design: Floats, targets: Floats, weights: Floats, penalty: float, sets: Indexes) -> Floats:
    """Return the weights of proportional odds for the fifths of the targets within each set."""
    classes = np.empty(len(targets), np.int64)
    for number in np.unique(sets).tolist():
        rows = sets == number
        classes[rows] = np.minimum(_CLASSES * (rankdata(targets[rows]) - 0.5) / rows.sum(), _CLASSES - 1)
    columns = design.shape[1]

    def loss(parameters: Floats) -> tuple[float, Floats]:
        """Return the penalised loss and its gradient; the bounds are a first one and the logarithms of steps."""
        slopes, steps = parameters[:columns], parameters[columns:]
        bounds = np.concatenate([[-np.inf], np.cumsum([steps[0], *np.exp(steps[1:])]), [np.inf]])
        predictor = design @ slopes
        above, below = expit(bounds[classes + 1] - predictor), expit(bounds[classes] - predictor)
        likely = np.maximum(above - below, _LEAST_PROBABILITY)
        rise, fall = weights * above * (1 - above) / likely, weights * below * (1 - below) / likely
        of_bounds = np.bincount(classes, fall, _CLASSES)[1:] - np.bincount(classes, rise, _CLASSES)[:-1]
        later = np.cumsum(of_bounds[::-1])[::-1]  # every step moves all later bounds
        of_steps = np.concatenate([later[:1], np.exp(steps[1:]) * later[1:]])
        gradient = np.concatenate([design.T @ (rise - fall) + penalty * slopes, of_steps])
        return float(-(weights @ np.log(likely)) + penalty * (slopes**2).sum() / 2), gradient

    start = np.concatenate([np.zeros(columns), [-1.0], np.zeros(_CLASSES - 2)])
    return np.asarray(minimize(loss, start, jac=True, method="L-BFGS-B").x[:columns])
