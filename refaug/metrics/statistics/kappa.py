"""Cohen's κ of annotators with each other, and leaving out those who disagree with the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from refaug.metrics.statistics.ratings import ONE_ANNOTATOR, ratings_matrix
from refaug.metrics.statistics.resampling import Floats

KAPPA_THRESHOLDS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)


@dataclass(frozen=True, slots=True, kw_only=True)
class PairKappa:
    """Cohen's κ of two annotators (columns), over the n rows that both rated."""

    first: int
    second: int
    value: float | None
    n: int
    why: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Kappa:
    """The κ of all pairs of annotators, and the mean of those that are defined."""

    mean: float | None
    pairs: tuple[PairKappa, ...]
    why: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotatorKappa:
    """One annotator's mean κ with the others, over `pairs` of them."""

    annotator: int
    value: float | None
    pairs: int
    why: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotatorSelection:
    """A mask of the kept columns (annotators,), and for each the reason why it is kept or dropped."""

    mask: NDArray[np.bool_]
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KappaShare:
    """How many pairs of annotators have a κ above a threshold, and which annotators `select_annotators` keeps at it."""

    threshold: float
    above: int
    pairs: int  # with a κ
    annotators: tuple[int, ...]

    @property
    def share(self) -> float | None:
        """The share of the pairs that are above; None where no pair has a κ."""
        return self.above / self.pairs if self.pairs else None


def kappa_shares(ratings: ArrayLike, thresholds: Sequence[float] = KAPPA_THRESHOLDS) -> tuple[KappaShare, ...]:
    """Count the pairs of annotators above each threshold (as Sharma et al. 2017), and list who remains at it (ours)."""
    matrix = ratings_matrix(ratings)
    values = [pair.value for pair in kappa(matrix).pairs if pair.value is not None]
    means = kappa_of_each(matrix)
    return tuple(
        KappaShare(
            threshold=threshold,
            above=sum(value > threshold for value in values),
            pairs=len(values),
            annotators=tuple(mean.annotator for mean in means if _is_kept(mean, threshold)),
        )
        for threshold in thresholds
    )


def _is_kept(mean: AnnotatorKappa, min_kappa: float) -> bool:
    return mean.value is None or mean.value >= min_kappa


def kappa(ratings: ArrayLike) -> Kappa:
    """Return Cohen's κ with quadratic weights, of every pair of annotators and on average (Cohen 1968).

    A disagreement counts as the squared difference of the two ratings, so that a scale needs no list of its categories,
    and uneven distances count as they are.
    """
    matrix = ratings_matrix(ratings)
    pairs = tuple(_pair_kappa(matrix, *pair) for pair in combinations(range(matrix.shape[1]), 2))
    values = [pair.value for pair in pairs if pair.value is not None]
    if not values:
        return Kappa(mean=None, pairs=pairs, why=pairs[0].why if pairs else ONE_ANNOTATOR)
    return Kappa(mean=float(np.mean(values)), pairs=pairs)


def _pair_kappa(matrix: Floats, first: int, second: int) -> PairKappa:
    """Return κ = 1 − observed / expected disagreement.

    If the two were independent, the mean of (x − y)² would be var x + var y + (mean x − mean y)².
    """
    both = matrix[~np.isnan(matrix[:, [first, second]]).any(axis=1)]
    x, y = both[:, first], both[:, second]
    n = len(both)
    if n < 2:
        return PairKappa(first=first, second=second, value=None, n=n, why="fewer than 2 rows in common")
    if x.min() == x.max() == y.min() == y.max():
        return PairKappa(first=first, second=second, value=None, n=n, why="all ratings are equal")
    expected = x.var() + y.var() + (x.mean() - y.mean()) ** 2
    return PairKappa(first=first, second=second, value=float(1 - np.mean((x - y) ** 2) / expected), n=n)


def kappa_of_each(ratings: ArrayLike) -> tuple[AnnotatorKappa, ...]:
    """Return each annotator's mean κ with the others; a low one points to an annotator who misread the task."""
    matrix = ratings_matrix(ratings)
    pairs = kappa(matrix).pairs
    each = []
    for annotator in range(matrix.shape[1]):
        pairs_of_annotator = [pair for pair in pairs if annotator in {pair.first, pair.second}]
        values = [pair.value for pair in pairs_of_annotator if pair.value is not None]
        why = None if values else (pairs_of_annotator[0].why if pairs_of_annotator else ONE_ANNOTATOR)
        mean = float(np.mean(values)) if values else None
        each.append(AnnotatorKappa(annotator=annotator, value=mean, pairs=len(values), why=why))
    return tuple(each)


def select_annotators(ratings: ArrayLike, min_kappa: float) -> AnnotatorSelection:
    """Drop annotators whose mean κ with the others is below `min_kappa`, all at once.

    Annotators without a κ are kept, since nothing counts against them.
    """
    each = kappa_of_each(ratings)
    mask = np.array([_is_kept(mean, min_kappa) for mean in each], dtype=np.bool_)
    return AnnotatorSelection(mask=mask, reasons=tuple(_reason(mean, min_kappa) for mean in each))


def _reason(mean: AnnotatorKappa, min_kappa: float) -> str:
    if mean.value is None:
        return f"kept: no mean κ, {mean.why}"
    if mean.value < min_kappa:
        return f"dropped: mean κ {mean.value:.3f} is below {min_kappa:g}"
    return f"kept: mean κ {mean.value:.3f}"
