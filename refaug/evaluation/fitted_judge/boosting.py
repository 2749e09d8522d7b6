"""Gradient boosting of small trees (Friedman 2001), with the squared error: each tree is fitted to what is left.

A tree asks two questions, so that two metrics may count together. Its ends hold ten rows at least, and only a tenth of
what would fit best is added: shrunk trees overfit later.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from refaug.evaluation.metric_setup.combined.score_trees import ScoreTree
from refaug.metrics.base import Floats, Indexes

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
