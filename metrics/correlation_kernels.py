"""The loops of `metrics.agreement`: the correlations of every metric with the ratings, anew in every draw."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from core.kernels import compiled

Floats = NDArray[np.float64]


@compiled
def correlations_of_draws(
    counts: Floats,  # (draws, contexts): how often each context is in each draw
    clusters: NDArray[np.int64],
    variables: Floats,
    codes: NDArray[np.int64],
    ranked: bool,
) -> Floats:
    """The correlation of every variable with the last one in every draw (variables - 1, draws), NaN where undefined."""
    metrics, rows = variables.shape[0] - 1, variables.shape[1]
    results = np.full((metrics, counts.shape[0]), np.nan)
    drawn, weights = np.empty(rows, np.int64), np.empty(rows)
    of_ratings, of_scores, by_code = np.empty(rows), np.empty(rows), np.empty(rows)
    for draw in range(counts.shape[0]):
        size = 0
        for row in range(rows):
            if counts[draw, clusters[row]] > 0:
                drawn[size] = row
                weights[size] = counts[draw, clusters[row]]
                size += 1
        ratings_square = _deviations(
            drawn[:size], weights, variables[metrics], codes[metrics], ranked, by_code, of_ratings
        )
        if ratings_square == 0:
            continue
        for metric in range(metrics):
            square = _deviations(drawn[:size], weights, variables[metric], codes[metric], ranked, by_code, of_scores)
            if square > 0:
                product = 0.0
                for i in range(size):
                    product += weights[i] * of_scores[i] * of_ratings[i]
                results[metric, draw] = min(1.0, max(-1.0, product / np.sqrt(square * ratings_square)))
    return results


@compiled
def _deviations(
    drawn: NDArray[np.int64],
    weights: Floats,
    values: Floats,
    codes: NDArray[np.int64],
    ranked: bool,
    by_code: Floats,
    deviations: Floats,
) -> float:
    """Write what each drawn row deviates from the draw's mean, and give the weighted sum of squares: 0 if all equal.

    The rank of a row in the draw is that of the middle of its ties: the rows below it, and half of those with its
    value. The values were sorted once, so a draw only counts how many rows have each.
    """
    lowest, highest = codes[drawn[0]], codes[drawn[0]]
    total, mean = 0.0, 0.0
    for i in range(len(drawn)):
        lowest, highest = min(lowest, codes[drawn[i]]), max(highest, codes[drawn[i]])
        total += weights[i]
        mean += weights[i] * values[drawn[i]]
    if lowest == highest:
        return 0.0
    if ranked:
        for code in range(lowest, highest + 1):
            by_code[code] = 0.0
        for i in range(len(drawn)):
            by_code[codes[drawn[i]]] += weights[i]
        below = 0.0
        for code in range(lowest, highest + 1):
            ties = by_code[code]
            by_code[code] = below + (ties - total) / 2  # the middle rank less the mean rank, (total + 1) / 2
            below += ties
    mean /= total
    square = 0.0
    for i in range(len(drawn)):
        deviation = by_code[codes[drawn[i]]] if ranked else values[drawn[i]] - mean
        deviations[i] = deviation
        square += weights[i] * deviation * deviation
    return square
