"""Compiled loops of `agreement.py`: the correlations of every metric with the ratings in every draw."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from refaug.core.kernels import compiled

Floats = NDArray[np.float64]


@compiled
def correlations_of_draws(
    counts: Floats,  # (draws, contexts): how often each context is in each draw
    clusters: NDArray[np.int64],
    variables: Floats,
    codes: NDArray[np.int64],
    ranked: bool,
) -> Floats:
    """Return the correlation of every variable with the last one in every draw (variables - 1, draws), or NaN."""
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
    """Write each drawn row's deviation from the draw's mean, and return the weighted sum of squares, or 0.

    The rank of a row in the draw is that of the middle of its ties: the rows below it, and half of those with its
    value. The values were sorted once, so a draw only counts how many rows have each. The sum is 0 if all values are
    equal.
    """
    lowest, highest = codes[drawn[0]], codes[drawn[0]]
    total, mean = 0.0, 0.0
    for i in range(len(drawn)):
        lowest, highest = min(lowest, codes[drawn[i]]), max(highest, codes[drawn[i]])
        total += weights[i]
        if not ranked:
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


@compiled
def partials_of_draws(
    counts: Floats,  # (draws, contexts): how often each context is in each draw
    clusters: NDArray[np.int64],
    codes: NDArray[np.int64],  # of the variables, the ratings last
    lengths: NDArray[np.int64],  # codes of the variable that is held fixed
) -> Floats:
    """Return Spearman's ρ of every variable with the last one, with the length held fixed by a parabola, in every draw.

    The shape is (variables - 1, draws), with NaN where undefined. The terms of the parabola are made orthogonal in each
    draw.
    """
    metrics, rows = codes.shape[0] - 1, codes.shape[1]
    results = np.full((metrics, counts.shape[0]), np.nan)
    drawn, weights, by_code = np.empty(rows, np.int64), np.empty(rows), np.empty(rows)
    line, square, of_ratings, of_scores = np.empty(rows), np.empty(rows), np.empty(rows), np.empty(rows)
    no_values = np.empty(0)
    for draw in range(counts.shape[0]):
        size, total = 0, 0.0
        for row in range(rows):
            if counts[draw, clusters[row]] > 0:
                drawn[size] = row
                weights[size] = counts[draw, clusters[row]]
                total += weights[size]
                size += 1
        drawn_rows = drawn[:size]
        linear = _deviations(drawn_rows, weights, no_values, lengths, True, by_code, line)
        curved = 0.0
        if linear > 0:
            for i in range(size):
                square[i] = line[i] * line[i] - linear / total
            curved = _remove_term(weights, line, linear, square, size, linear * linear / total)
        ratings = _residuals(drawn_rows, weights, codes[metrics], by_code, line, linear, square, curved, of_ratings)
        if ratings <= 0:
            continue
        for metric in range(metrics):
            rest = _residuals(drawn_rows, weights, codes[metric], by_code, line, linear, square, curved, of_scores)
            if rest > 0:
                product = 0.0
                for i in range(size):
                    product += weights[i] * of_scores[i] * of_ratings[i]
                results[metric, draw] = min(1.0, max(-1.0, product / np.sqrt(rest * ratings)))
    return results


@compiled
def _residuals(
    drawn: NDArray[np.int64],
    weights: Floats,
    codes: NDArray[np.int64],
    by_code: Floats,
    line: Floats,
    linear: float,
    square: Floats,
    curved: float,
    deviations: Floats,
) -> float:
    """Write the deviations of ranks without the two terms, and return their sum of squares: 0 if nothing remains."""
    size = len(drawn)
    whole = _deviations(drawn, weights, np.empty(0), codes, True, by_code, deviations)
    if whole == 0:
        return 0.0
    rest = whole
    if linear > 0:
        rest = _remove_term(weights, line, linear, deviations, size, whole)
    if curved > 0 and rest > 0:
        rest = _remove_term(weights, square, curved, deviations, size, whole)
    return rest


@compiled
def _remove_term(weights: Floats, term: Floats, of_term: float, values: Floats, size: int, whole: float) -> float:
    """Subtract from values what a term explains, and return the sum of their squares, where rounding counts as 0."""
    product = 0.0
    for i in range(size):
        product += weights[i] * term[i] * values[i]
    rest = 0.0
    for i in range(size):
        values[i] -= product / of_term * term[i]
        rest += weights[i] * values[i] * values[i]
    return rest if rest > 1e-18 * whole else 0.0
