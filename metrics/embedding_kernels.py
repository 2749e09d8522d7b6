"""The loops of `metrics.embedding`: words and starts of packed texts in, a number for each pair out.

A pair without a known word on one side is NaN. Greedy matching needs the cosines of all words of a reply with all words
of a reference. They are made in a table that many references of one reply share, and for texts of more different words
than a table holds, a part at a time: memory is bounded however long the texts are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from core.kernels import compiled, compiled_with

# What the loops share


@compiled
def scale_to_unit(matrix: Any, rows: Any, out: Any) -> None:
    """Write the vectors of these rows, each of length one; a zero vector stays."""
    for i in range(rows.size):
        vector = matrix[rows[i]]
        squares = 0.0
        for k in range(vector.size):
            squares += np.float64(vector[k]) * np.float64(vector[k])
        scale = 1.0 / np.sqrt(squares) if squares > 0.0 else 0.0
        for k in range(vector.size):
            out[i, k] = vector[k] * scale


@compiled_with(fastmath={"reassoc"})
def _dot(left: Any, right: Any) -> float:
    total = 0.0
    for k in range(left.size):
        total += left[k] * right[k]
    return total


@compiled
def _cosine(left: Any, left_square: float, right: Any) -> Any:
    """A vector and itself give exactly one, as the square root of a rounded square is the number squared."""
    squares = left_square * _dot(right, right)
    if squares > 0.0:
        return min(1.0, max(-1.0, _dot(left, right) / np.sqrt(squares)))
    return 0.0


# Average


@compiled
def _add_up(matrix: Any, rows: Any, weights: Any, words: Any, total: Any) -> None:
    """The weighted sum of a text's vectors; its length does not matter to the cosine, so it need not be divided."""
    total[:] = 0.0
    for i in range(words.size):
        weight, vector = weights[words[i]], matrix[rows[words[i]]]
        for k in range(total.size):
            total[k] += weight * vector[k]


@compiled
def average_pairs(
    matrix: Any, rows: Any, weights: Any,
    reply_words: Any, reply_starts: Any, reference_words: Any, reference_starts: Any, reply_of: Any, reference_of: Any,
) -> Any:  # fmt: skip
    """The cosine of each pair's mean vectors."""
    out = np.full(reply_of.size, np.nan)
    reply, reference = np.empty(matrix.shape[1]), np.empty(matrix.shape[1])
    square, at = 0.0, -1
    for i in range(reply_of.size):
        words = reply_words[reply_starts[reply_of[i]] : reply_starts[reply_of[i] + 1]]
        others = reference_words[reference_starts[reference_of[i]] : reference_starts[reference_of[i] + 1]]
        if words.size == 0 or others.size == 0:
            continue
        if reply_of[i] != at:
            at = reply_of[i]
            _add_up(matrix, rows, weights, words, reply)
            square = _dot(reply, reply)
        _add_up(matrix, rows, weights, others, reference)
        out[i] = _cosine(reply, square, reference)
    return out


# Extrema


@compiled
def _go_to_extremes(matrix: Any, rows: Any, words: Any, low: Any, extreme: Any) -> None:
    """The largest value of each dimension if it is larger than the magnitude of the smallest, else the smallest."""
    first = matrix[rows[words[0]]]
    for k in range(low.size):
        low[k] = extreme[k] = first[k]
    for i in range(1, words.size):
        vector = matrix[rows[words[i]]]
        for k in range(low.size):
            low[k] = min(low[k], np.float64(vector[k]))
            extreme[k] = max(extreme[k], np.float64(vector[k]))
    for k in range(low.size):
        extreme[k] = extreme[k] if extreme[k] > abs(low[k]) else low[k]


@compiled
def extrema_pairs(
    matrix: Any, rows: Any,
    reply_words: Any, reply_starts: Any, reference_words: Any, reference_starts: Any, reply_of: Any, reference_of: Any,
) -> Any:  # fmt: skip
    """The cosine of each pair's vectors of extreme values."""
    out = np.full(reply_of.size, np.nan)
    reply, reference, low = np.empty(matrix.shape[1]), np.empty(matrix.shape[1]), np.empty(matrix.shape[1])
    square, at = 0.0, -1
    for i in range(reply_of.size):
        words = reply_words[reply_starts[reply_of[i]] : reply_starts[reply_of[i] + 1]]
        others = reference_words[reference_starts[reference_of[i]] : reference_starts[reference_of[i] + 1]]
        if words.size == 0 or others.size == 0:
            continue
        if reply_of[i] != at:
            at = reply_of[i]
            _go_to_extremes(matrix, rows, words, low, reply)
            square = _dot(reply, reply)
        _go_to_extremes(matrix, rows, others, low, reference)
        out[i] = _cosine(reply, square, reference)
    return out


# Pooling


@compiled
def _pool(matrix: Any, rows: Any, words: Any, pooled: Any) -> None:
    """The largest value of each dimension, and after all of those the smallest of each."""
    dimensions = matrix.shape[1]
    pooled[:dimensions] = -np.inf
    pooled[dimensions:] = np.inf
    for i in range(words.size):
        vector = matrix[rows[words[i]]]
        for k in range(dimensions):
            pooled[k] = max(pooled[k], np.float64(vector[k]))
            pooled[dimensions + k] = min(pooled[dimensions + k], np.float64(vector[k]))


@compiled
def pooled_pairs(
    matrix: Any, rows: Any,
    reply_words: Any, reply_starts: Any, reference_words: Any, reference_starts: Any, reply_of: Any, reference_of: Any,
) -> Any:  # fmt: skip
    """The cosine of each pair's vectors of largest and smallest values."""
    out = np.full(reply_of.size, np.nan)
    reply, reference = np.empty(2 * matrix.shape[1]), np.empty(2 * matrix.shape[1])
    square, at = 0.0, -1
    for i in range(reply_of.size):
        words = reply_words[reply_starts[reply_of[i]] : reply_starts[reply_of[i] + 1]]
        others = reference_words[reference_starts[reference_of[i]] : reference_starts[reference_of[i] + 1]]
        if words.size == 0 or others.size == 0:
            continue
        if reply_of[i] != at:
            at = reply_of[i]
            _pool(matrix, rows, words, reply)
            square = _dot(reply, reply)
        _pool(matrix, rows, others, reference)
        out[i] = _cosine(reply, square, reference)
    return out


# Greedy matching


@compiled_with(fastmath={"reassoc"})
def _four_dots(four: Any, vector: Any, out: Any) -> None:
    """A vector of the reference with four of the reply: it is read once, and all four sums run in the same order."""
    a = b = c = d = np.float32(0.0)
    for k in range(vector.size):
        value = vector[k]
        a += four[0, k] * value
        b += four[1, k] * value
        c += four[2, k] * value
        d += four[3, k] * value
    out[0], out[1], out[2], out[3] = a, b, c, d


@compiled
def _distinct(words: Any, place: Any, distinct: Any, count: int) -> int:
    """Number the words not met yet from `count` on: `place` is -1 for those, and has the number of the others."""
    for i in range(words.size):
        if place[words[i]] < 0:
            place[words[i]] = count
            distinct[count] = words[i]
            count += 1
    return count


@compiled
def _forget(place: Any, distinct: Any) -> None:
    for i in range(distinct.size):
        place[distinct[i]] = -1


@compiled
def _fill_table(unit: Any, reply_words: Any, block: Any, columns: Any, table: Any, best: Any) -> None:
    """The cosines of a reply's distinct words with those of its references, (columns, words); `best` rises to them.

    The reply is filled up with zero vectors to fours, so that every cosine comes out of the same loop.
    """
    for j in range(columns.size):
        vector = unit[columns[j]]
        for i in range(0, block.shape[0], 4):
            _four_dots(block[i : i + 4], vector, table[j, i : i + 4])
        for i in range(reply_words.size):
            if reply_words[i] == columns[j] and table[j, i] > 0.5:  # all but a zero vector: exactly one with itself
                table[j, i] = 1.0
            table[j, i] = min(np.float32(1.0), max(np.float32(-1.0), table[j, i]))
            best[j] = max(best[j], table[j, i])


@compiled
def _raise_to(best: Any, cosines: Any) -> None:
    for i in range(best.size):
        best[i] = max(best[i], cosines[i])


@compiled
def _match(
    unit: Any, words: Any, columns: Any, alone: bool, block: Any, table: Any, best: Any, best_column: Any
) -> None:
    """The best cosine of each column among all words and, where the pair is alone, of each word among all columns.

    `block` and `table` have room for a part of them at a time: what is more goes through in turn. Where all have room,
    their cosines are left in the table.
    """
    best_column[:] = -1.0
    best[:] = -1.0
    for row in range(0, words.size, block.shape[0]):
        some = words[row : row + block.shape[0]]
        padded = (some.size + 3) // 4 * 4
        for i in range(some.size):
            block[i] = unit[some[i]]
        block[some.size : padded] = 0.0
        for start in range(0, columns.size, table.shape[0]):
            stop = min(start + table.shape[0], columns.size)
            _fill_table(unit, some, block[:padded], columns[start:stop], table, best_column[start:stop])
            for column in range(stop - start if alone else 0):
                _raise_to(best[row : row + some.size], table[column])


@compiled
def _mean_of_best(weights: Any, words: Any, numbers: Any, best: Any) -> Any:
    """The weighted mean, over the words of a text in their order, of each word's best cosine."""
    total, mass = 0.0, 0.0
    for i in range(words.size):
        total += weights[words[i]] * best[numbers[i]]
        mass += weights[words[i]]
    return total / mass


@compiled
def _numbers_of(words: Any, place: Any, numbers: Any) -> None:
    for i in range(words.size):
        numbers[i] = place[words[i]]


@compiled
def _run_end(start: int, reply_of: Any, reference_of: Any, reference_starts: Any, most_columns: int) -> Any:
    """Where a run of pairs with one reply ends, or has enough words; and how many words it has."""
    stop, size = start, 0
    while stop < reply_of.size and reply_of[stop] == reply_of[start]:
        length = reference_starts[reference_of[stop] + 1] - reference_starts[reference_of[stop]]
        if stop > start and size + length > most_columns:
            break
        size += length
        stop += 1
    return stop, size


@compiled
def _largest(reply_starts: Any, reference_starts: Any, reply_of: Any, reference_of: Any, most_columns: int) -> Any:
    """The words of the longest reply, and of the references of the longest run."""
    most_words, most_others, start = 0, 0, 0
    while start < reply_of.size:
        most_words = max(most_words, reply_starts[reply_of[start] + 1] - reply_starts[reply_of[start]])
        start, size = _run_end(start, reply_of, reference_of, reference_starts, most_columns)
        most_others = max(most_others, size)
    return most_words, most_others


@compiled
def greedy_pairs(
    unit: Any, weights: Any,
    reply_words: Any, reply_starts: Any, reference_words: Any, reference_starts: Any, reply_of: Any, reference_of: Any,
    most_rows: int, most_columns: int,
) -> Any:  # fmt: skip
    """Precision and recall. The cosines are in a table of at most (most_columns, most_rows), the rows a multiple of 4.

    It holds the words of a reply and of a run of its references together. A pair with more distinct words on one side
    than there is room for is a run of its own.
    """
    precision, recall = np.full(reply_of.size, np.nan), np.full(reply_of.size, np.nan)
    most_words, most_others = _largest(reply_starts, reference_starts, reply_of, reference_of, most_columns)
    width = min(most_rows, (most_words + 3) // 4 * 4)
    block = np.empty((max(width, 4), unit.shape[1]), np.float32)
    table = np.empty((max(min(most_columns, most_others), 1), width), np.float32)
    place = np.full(unit.shape[0], np.int32(-1))  # all -1 again after each use
    distinct, columns = np.empty(most_words, np.int32), np.empty(most_others, np.int32)
    row_of, column_of = np.empty(most_words, np.int32), np.empty(most_others, np.int32)  # of each word of a text
    best, best_column = np.empty(most_words, np.float32), np.empty(most_others, np.float32)
    at, rows, start = -1, 0, 0
    while start < reply_of.size:
        words = reply_words[reply_starts[reply_of[start]] : reply_starts[reply_of[start] + 1]]
        if reply_of[start] != at:
            at, rows = reply_of[start], _distinct(words, place, distinct, 0)
            _numbers_of(words, place, row_of)
            _forget(place, distinct[:rows])
        stop = start + 1
        if rows <= most_rows:
            stop, _ = _run_end(start, reply_of, reference_of, reference_starts, most_columns)
        alone, count = stop == start + 1, 0
        for pair in range(start, stop):
            text = reference_of[pair]
            others = reference_words[reference_starts[text] : reference_starts[text + 1]]
            count = _distinct(others, place, columns, count)
        _match(unit, distinct[:rows], columns[:count], alone, block, table, best[:rows], best_column[:count])
        for pair in range(start, stop):
            text = reference_of[pair]
            others = reference_words[reference_starts[text] : reference_starts[text + 1]]
            if words.size == 0 or others.size == 0:
                continue
            _numbers_of(others, place, column_of)
            if not alone:
                best[:rows] = -1.0
                for i in range(others.size):
                    _raise_to(best[:rows], table[column_of[i]])
            recall[pair] = _mean_of_best(weights, others, column_of, best_column)
            precision[pair] = _mean_of_best(weights, words, row_of, best)
        _forget(place, columns[:count])
        start = stop
    return precision, recall
