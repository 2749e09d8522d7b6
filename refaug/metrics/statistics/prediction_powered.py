"""Means from few labels by people and many scores: prediction-powered intervals with a tuned weight (PPI++).

With labels y and scores f of n replies, and scores of N replies without a label,

    mean = λ · mean f (unlabelled) + mean (y − λ · f) (labelled)

is unbiased whatever the scores are worth, and the better they predict labels, the narrower its interval. λ is the
weight of least variance, cov(y, f) / ((1 + n / N) · var f), at least 0 (Angelopoulos, Duchi and Zrnic 2023,
arXiv:2311.01453). Scores need not have the scale of labels, so λ may be above 1; ppi-python, to which tests hold this
module, ends it there. Variances are sums over clusters, and intervals Student's with one degree of freedom less than
there are clusters with labels: with 50 labels the normal ones are too narrow.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np
import scipy
from numpy.typing import ArrayLike

from refaug.core.errors import BadInput, Usage
from refaug.metrics.statistics.correlation import finite_or_missing
from refaug.metrics.statistics.resampling import Estimate, Floats, Labels, check_level

FEWEST_LABELLED = 20  # below, a variance is too uncertain for an interval


@dataclass(frozen=True, slots=True, kw_only=True)
class PoweredMean:
    """A mean by labels and scores, and beside it the mean by labels alone."""

    powered: Estimate
    labels_only: Estimate
    weight: float  # λ
    labelled: int
    unlabelled: int
    left_out: int  # rows without a score

    @property
    def half_width(self) -> float:
        """Half of the width of the interval."""
        assert self.powered.low is not None
        assert self.powered.high is not None
        return (self.powered.high - self.powered.low) / 2


def powered_mean(
    labels: ArrayLike, scores: ArrayLike, *, clusters: Labels | None = None, level: float = 0.95
) -> PoweredMean:
    """Return the mean of labels over all rows; NaN stands for a row without a label.

    `clusters` has a label for each row: rows of one cluster are not independent.
    """
    check_level(level)
    rows = _LabelledRows.of(labels, scores, clusters)
    rows.require_enough()
    weight = rows.best_weight()
    return PoweredMean(
        powered=rows.interval(weight, level),
        labels_only=rows.interval(0.0, level),
        weight=weight,
        labelled=int(rows.is_labelled.sum()),
        unlabelled=int((~rows.is_labelled).sum()),
        left_out=rows.left_out,
    )


def powered_difference(
    labels: tuple[ArrayLike, ArrayLike],
    scores: tuple[ArrayLike, ArrayLike],
    *,
    clusters: Labels | None = None,
    level: float = 0.95,
) -> PoweredMean:
    """Return how much larger the mean of the first system is, over the contexts that both replied to.

    A context counts as labelled where both replies are; what makes a context easy for both cancels out.
    """
    first, second = (np.asarray(values, dtype=np.float64) for values in labels)
    scored, other = (np.asarray(values, dtype=np.float64) for values in scores)
    return powered_mean(first - second, scored - other, clusters=clusters, level=level)


def labels_needed(
    half_width: float, labels: ArrayLike, scores: ArrayLike, *, clusters: Labels | None = None, level: float = 0.95
) -> int | None:
    """Return how many of these rows have to be labelled for an interval of ± half_width; None where all are too few.

    Variances and covariance are those of the rows that have labels.
    """
    check_level(level)
    if not half_width > 0:
        raise Usage(f"an interval of ± {half_width:g} has no width", remedy="a number above 0")
    rows = _LabelledRows.of(labels, scores, clusters)
    rows.require_enough()
    counts = np.arange(rows.count_in(FEWEST_LABELLED), len(rows.scores) + 1)
    enough = np.flatnonzero(rows.expected_half_widths(counts, level) <= half_width)
    return int(counts[enough[0]]) if len(enough) else None


@dataclass(frozen=True, kw_only=True, eq=False)
class _LabelledRows:
    """Rows with a score; `cluster` numbers clusters from 0."""

    labels: Floats
    scores: Floats
    is_labelled: np.ndarray[tuple[int], np.dtype[np.bool_]]
    cluster: np.ndarray[tuple[int], np.dtype[np.int64]]
    left_out: int

    @classmethod
    def of(cls, labels: ArrayLike, scores: ArrayLike, clusters: Labels | None) -> _LabelledRows:
        given, scored = finite_or_missing("labels", labels), finite_or_missing("scores", scores)
        if given.ndim != 1 or given.shape != scored.shape or (clusters is not None and len(clusters) != len(given)):
            raise BadInput(
                f"{given.shape} labels, {scored.shape} scores and their clusters do not match",
                remedy="one of each for a row; NaN where it has no label",
            )
        has_score = ~np.isnan(scored)
        names = np.arange(len(given)) if clusters is None else np.asarray(clusters)
        return cls(
            labels=given[has_score],
            scores=scored[has_score],
            is_labelled=~np.isnan(given[has_score]),
            cluster=np.unique(names[has_score], return_inverse=True)[1].astype(np.int64),
            left_out=int((~has_score).sum()),
        )

    def require_enough(self) -> None:
        labelled = self._labelled_clusters
        if labelled < FEWEST_LABELLED:
            raise BadInput(
                f"{labelled} contexts have labels with a score, too few for an interval",
                remedy=f"label replies to at least {FEWEST_LABELLED} contexts",
            )

    @property
    def _labelled_clusters(self) -> int:
        return len(np.unique(self.cluster[self.is_labelled]))

    def count_in(self, clusters: int) -> int:
        """Return how many labels so many clusters have, rounded up."""
        return -(-clusters * int(self.is_labelled.sum()) // self._labelled_clusters)

    def _summed(self, values: Floats, rows: np.ndarray[tuple[int], np.dtype[np.bool_]] | None = None) -> Floats:
        chosen = self.cluster if rows is None else self.cluster[rows]
        return np.bincount(chosen, weights=values, minlength=int(self.cluster.max()) + 1).astype(np.float64)

    def _covariances(self) -> Floats:
        """Return the covariances of labels and scores (2, 2) for one row, over the rows with labels.

        They are those of sums over clusters, and larger than those of rows where the rows of a cluster are alike.
        """
        both = np.stack([self.labels[self.is_labelled], self.scores[self.is_labelled]])
        sums = np.stack([self._summed(values - values.mean(), self.is_labelled) for values in both])
        return np.asarray(sums @ sums.T / both.shape[1])

    def best_weight(self) -> float:
        of_all = self._summed(self.scores - self.scores.mean())
        variance = float(of_all @ of_all) / (len(self.scores) - 1)
        if variance == 0 or self.is_labelled.all():
            return 0.0
        ratio = self.is_labelled.sum() / (~self.is_labelled).sum()
        return max(0.0, float(self._covariances()[0, 1] / ((1 + ratio) * variance)))

    def interval(self, weight: float, level: float) -> Estimate:
        is_labelled = self.is_labelled
        rectified = self.labels[is_labelled] - weight * self.scores[is_labelled]
        value = float(rectified.mean())
        influence = self._summed((rectified - value) / len(rectified), is_labelled)
        if weight:
            imputed = weight * self.scores[~is_labelled]
            value += float(imputed.mean())
            influence += self._summed((imputed - imputed.mean()) / len(imputed), ~is_labelled)
        clusters = self._labelled_clusters
        error = sqrt(float(influence @ influence) * clusters / (clusters - 1))
        half = float(scipy.stats.t.ppf((1 + level) / 2, clusters - 1)) * error
        return Estimate(value=value, low=value - half, high=value + half)

    def expected_half_widths(self, counts: np.ndarray[tuple[int], np.dtype[np.int64]], level: float) -> Floats:
        """Return the half width if so many of all rows were labelled, each with its best weight."""
        (of_labels, covariance), (_, of_scores) = self._covariances().tolist()
        unlabelled = len(self.scores) - counts
        spread = of_scores * (1 + counts / np.maximum(unlabelled, 1))
        weights = np.where((unlabelled > 0) & (spread > 0), np.maximum(covariance, 0) / np.maximum(spread, 1e-300), 0.0)
        variances = (of_labels - 2 * weights * covariance + weights**2 * spread) / counts
        clusters = counts * self._labelled_clusters / self.is_labelled.sum()
        errors = np.sqrt(np.maximum(variances, 0) * clusters / (clusters - 1))
        return np.asarray(scipy.stats.t.ppf((1 + level) / 2, clusters - 1) * errors)
