"""The agreement of annotators with annotators, which bounds the agreement that a metric can reach."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from refaug.core.kernels import compiled
from refaug.metrics.statistics import correlation
from refaug.metrics.statistics.ratings import ONE_ANNOTATOR, ratings_matrix
from refaug.metrics.statistics.resampling import Floats, check_resampling, percentile_interval

_BLOCK_CELLS = 2_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Reliability:
    """The correlation of half means, the mean of the draws, and its value for all annotators (`stepped_up`)."""

    kind: str
    half: float | None
    stepped_up: float | None
    low: float | None = None
    high: float | None = None
    undefined: int = 0
    why: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitHalf:
    """The agreement of half of the annotators with the other half, over rows with at least two ratings."""

    spearman: Reliability
    pearson: Reliability
    rows: int
    left_out: int


def split_half(ratings: ArrayLike, *, draws: int = 1000, seed: int = 0, level: float = 0.95) -> SplitHalf:
    """Return the agreement of people with people, for a row beside the metrics.

    In each draw the ratings of every row are divided at random into halves (of an odd number, one half has one more)
    and the means of the halves are correlated over the rows. The mean r of the draws is stepped up to the full number
    of annotators by Spearman & Brown's 2r / (1 + r); low and high are percentiles of r over the ways of halving.
    """
    check_resampling(draws=draws, seed=seed, level=level)
    matrix = ratings_matrix(ratings)
    rated = matrix[(~np.isnan(matrix)).sum(axis=1) >= 2]
    left_out = len(matrix) - len(rated)
    why = None
    if matrix.shape[1] < 2:
        why = ONE_ANNOTATOR
    elif len(rated) < correlation.FEWEST_ROWS:
        why = f"fewer than {correlation.FEWEST_ROWS} rows with two ratings"
    if why is not None:
        undefined = [Reliability(kind=kind, half=None, stepped_up=None, why=why) for kind in ("spearman", "pearson")]
        return SplitHalf(spearman=undefined[0], pearson=undefined[1], rows=len(rated), left_out=left_out)
    draws_by_kind: dict[str, list[Floats]] = {kind: [] for kind in correlation.BOOTSTRAPPED_KINDS}
    for first_means, second_means in _halve(rated, draws, seed):
        for kind, results in draws_by_kind.items():
            results.append(correlation.row_correlations(kind, first_means, second_means))
    spearman, pearson = (
        _reliability(kind, np.concatenate(draws_by_kind[kind]), level) for kind in ("spearman", "pearson")
    )
    return SplitHalf(spearman=spearman, pearson=pearson, rows=len(rated), left_out=left_out)


def spearman_brown(r: float | None) -> float | None:
    """Return the correlation for twice as many annotators; None below 0, where stepping up has no meaning."""
    return None if r is None or r < 0 else 2 * r / (1 + r)


def _reliability(kind: str, drawn: Floats, level: float) -> Reliability:
    defined = drawn[~np.isnan(drawn)]
    undefined = len(drawn) - len(defined)
    if len(defined) == 0:
        return Reliability(kind=kind, half=None, stepped_up=None, undefined=undefined, why="all ratings are equal")
    half = float(defined.mean())
    low, high = percentile_interval(defined, level)
    why = "the halves do not agree, so there is nothing to step up" if half < 0 else None
    return Reliability(
        kind=kind, half=half, stepped_up=spearman_brown(half), low=low, high=high, undefined=undefined, why=why
    )


def _halve(rated: Floats, draws: int, seed: int) -> Iterator[tuple[Floats, Floats]]:
    """Yield the means of both halves of every row (draws, rows), in blocks of draws."""
    random = np.random.Generator(np.random.PCG64(seed))
    block = max(1, _BLOCK_CELLS // rated.size)
    for start in range(0, draws, block):
        chances = random.random((min(block, draws - start), *rated.shape))
        halves = correlation.join_near_ties(_half_means(rated, chances))
        yield halves[0], halves[1]


@compiled
def _half_means(rated: Floats, chances: Floats) -> Floats:
    """Divide each row's ratings into halves (2, draws, rows), so that all divisions are equally likely.

    With `open_places` left in the first half and `waiting` ratings left, the next rating goes there with probability
    open_places / waiting.
    """
    draws, rows, annotators = chances.shape
    means = np.empty((2, draws, rows))
    for draw in range(draws):
        for row in range(rows):
            waiting = 0
            for annotator in range(annotators):
                if not np.isnan(rated[row, annotator]):
                    waiting += 1
            first = waiting // 2
            second = waiting - first
            open_places = first
            sums = [0.0, 0.0]
            for annotator in range(annotators):
                if not np.isnan(rated[row, annotator]):
                    if chances[draw, row, annotator] * waiting < open_places:
                        sums[0] += rated[row, annotator]
                        open_places -= 1
                    else:
                        sums[1] += rated[row, annotator]
                    waiting -= 1
            means[0, draw, row] = sums[0] / first
            means[1, draw, row] = sums[1] / second
    return means


def one_against_others(ratings: ArrayLike, kind: str = "spearman") -> correlation.Spread:
    """Return the correlation of each annotator with the mean of the others, over rows that both rated."""
    matrix = ratings_matrix(ratings)
    each = {}
    for annotator in range(matrix.shape[1]):
        other_ratings = np.delete(matrix, annotator, axis=1)
        is_rated = ~np.isnan(other_ratings)
        rated = is_rated.sum(axis=1)
        mean = np.where(rated > 0, np.where(is_rated, other_ratings, 0.0).sum(axis=1) / np.maximum(rated, 1), np.nan)
        each[annotator] = correlation.correlate(kind, matrix[:, annotator], mean)
    if len(each) < 2:
        return replace(correlation.Spread.of(kind, {}), why=ONE_ANNOTATOR)
    return correlation.Spread.of(kind, each)
