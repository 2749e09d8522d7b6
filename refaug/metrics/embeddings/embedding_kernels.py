"""Compiled loops of `embedding.py`: words and starts of packed texts in, a number for each pair out.

A pair without a known word on one side is NaN. Greedy matching needs the cosines of all words of a reply with all words
of a reference. They are computed in a table that many references of one reply share, and in parts for texts with more
distinct words than a table holds: memory is bounded however long the texts are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from refaug.core.kernels import compiled, compiled_with

# Shared by all loops


@compiled
def scale_to_unit(matrix: Any, rows: Any, out: Any) -> None:
    """Write the vectors of these rows, scaled to length one; a zero vector stays."""
    for i in range(rows.size):
        vector = matrix[rows[i]]
        squares = 0.0
        for k in range(vector.size):
            squares += np.float64(vector[k]) * np.float64(vector[k])
        scale = 1.0 / np.sqrt(squares) if squares > 0.0 else 0.0
        for k in range(vector.size):
            out[i, k] = vector[k] * scale


@compiled_with(fastmath={"reassoc"})
def _dot(first: Any, second: Any) -> float:
    total = 0.0
    for k in range(first.size):
        total += first[k] * second[k]
    return total


@compiled
def _cosine(first: Any, first_square: float, second: Any) -> Any:
    """Return the cosine; a vector and itself give exactly 1, as the root of a rounded square is the number squared."""
    squares = first_square * _dot(second, second)
    if squares > 0.0:
        return min(1.0, max(-1.0, _dot(first, second) / np.sqrt(squares)))
    return 0.0


# Average


@compiled
def _add_up(matrix: Any, rows: Any, weights: Any, words: Any, total: Any) -> None:
    """Write the weighted sum of a text's vectors; its length does not change the cosine, so it is not divided."""
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
    """Return the cosine of each pair's mean vectors."""
    out = np.full(reply_of.size, np.nan)
    reply, reference = np.empty(matrix.shape[1]), np.empty(matrix.shape[1])
    square, at = 0.0, -1
    for i in range(reply_of.size):
        words = reply_words[reply_starts[reply_of[i]] : reply_starts[reply_of[i] + 1]]
        reference_text = reference_words[reference_starts[reference_of[i]] : reference_starts[reference_of[i] + 1]]
        if words.size == 0 or reference_text.size == 0:
            continue
        if reply_of[i] != at:
            at = reply_of[i]
            _add_up(matrix, rows, weights, words, reply)
            square = _dot(reply, reply)
        _add_up(matrix, rows, weights, reference_text, reference)
        out[i] = _cosine(reply, square, reference)
    return out


# Extrema


@compiled
def _extreme_values(matrix: Any, rows: Any, words: Any, low: Any, extreme: Any) -> None:
    """Write the largest value of each dimension if it exceeds the magnitude of the smallest, else the smallest."""
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
    """Return the cosine of each pair's vectors of extreme values."""
    out = np.full(reply_of.size, np.nan)
    reply, reference, low = np.empty(matrix.shape[1]), np.empty(matrix.shape[1]), np.empty(matrix.shape[1])
    square, at = 0.0, -1
    for i in range(reply_of.size):
        words_of_reply = reply_words[reply_starts[reply_of[i]] : reply_starts[reply_of[i] + 1]]
        words_of_reference = reference_words[reference_starts[reference_of[i]] : reference_starts[reference_of[i] + 1]]
        if words_of_reply.size == 0 or words_of_reference.size == 0:
            continue
        if reply_of[i] != at:
            at = reply_of[i]
            _extreme_values(matrix, rows, words_of_reply, low, reply)
            square = _dot(reply, reply)
        _extreme_values(matrix, rows, words_of_reference, low, reference)
        out[i] = _cosine(reply, square, reference)
    return out


# Pooling


@compiled
def _pool(matrix: Any, rows: Any, words: Any, pooled: Any) -> None:
    """Write the largest value of each dimension, and after all of those the smallest of each."""
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
    """Return the cosine of each pair's vectors of largest and smallest values."""
    out = np.full(reply_of.size, np.nan)
    reply, reference = np.empty(2 * matrix.shape[1]), np.empty(2 * matrix.shape[1])
    square, at = 0.0, -1
    for i in range(reply_of.size):
        words_of_reply = reply_words[reply_starts[reply_of[i]] : reply_starts[reply_of[i] + 1]]
        words_of_reference = reference_words[reference_starts[reference_of[i]] : reference_starts[reference_of[i] + 1]]
        if words_of_reply.size == 0 or words_of_reference.size == 0:
            continue
        if reply_of[i] != at:
            at = reply_of[i]
            _pool(matrix, rows, words_of_reply, reply)
            square = _dot(reply, reply)
        _pool(matrix, rows, words_of_reference, reference)
        out[i] = _cosine(reply, square, reference)
    return out


# Greedy matching


@compiled_with(fastmath={"reassoc"})
def _four_dots(four: Any, vector: Any, out: Any) -> None:
    """Multiply a vector of the reference with four of the reply, reading it once, all sums in the same order."""
    a = b = c = d = np.float32(0.0)
    for k in range(vector.size):
        component = vector[k]
        a += four[0, k] * component
        b += four[1, k] * component
        c += four[2, k] * component
        d += four[3, k] * component
    out[0], out[1], out[2], out[3] = a, b, c, d


@compiled
def _distinct(words: Any, place: Any, distinct: Any, count: int) -> int:
    """Number the new words from `count` on; `place` is -1 for new words, and the number of the others."""
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
    """Write the cosines of a reply's distinct words with those of its references, (columns, words), and update `best`.

    The reply is padded with zero vectors to a multiple of four, so that every cosine comes from the same loop.
    """
    for j in range(columns.size):
        vector = unit[columns[j]]
        for i in range(0, block.shape[0], 4):
            _four_dots(block[i : i + 4], vector, table[j, i : i + 4])
        for i in range(reply_words.size):
            if reply_words[i] == columns[j] and table[j, i] > 0.5:  # except for a zero vector, exactly one with itself
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
    """Compute the best cosine of each column among all words and, for a single pair, of each word among all columns.

    `block` and `table` hold a part of them at a time, and the parts take turns. Where all fit, their cosines remain in
    the table.
    """
    best_column[:] = -1.0
    best[:] = -1.0
    for row in range(0, words.size, block.shape[0]):
        rows_of_block = words[row : row + block.shape[0]]
        padded = (rows_of_block.size + 3) // 4 * 4
        for i in range(rows_of_block.size):
            block[i] = unit[rows_of_block[i]]
        block[rows_of_block.size : padded] = 0.0
        for start in range(0, columns.size, table.shape[0]):
            stop = min(start + table.shape[0], columns.size)
            _fill_table(unit, rows_of_block, block[:padded], columns[start:stop], table, best_column[start:stop])
            for column in range(stop - start if alone else 0):
                _raise_to(best[row : row + rows_of_block.size], table[column])


@compiled
def _mean_of_best(weights: Any, words: Any, numbers: Any, best: Any) -> Any:
    """Return the weighted mean, over the words of a text in their order, of each word's best cosine."""
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
    """Return where a run of pairs with one reply ends or has enough words, and its number of words."""
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
    """Return the number of words of the longest reply, and of the references of the longest run."""
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
    """Return precision and recall; the table of cosines is at most (most_columns, most_rows), the rows a multiple of 4.

    The table holds the words of a reply and of a run of its references together. A pair with more distinct words on one
    side than fit is a separate run.
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
            reference_text = reference_words[reference_starts[text] : reference_starts[text + 1]]
            count = _distinct(reference_text, place, columns, count)
        _match(unit, distinct[:rows], columns[:count], alone, block, table, best[:rows], best_column[:count])
        for pair in range(start, stop):
            text = reference_of[pair]
            reference_text = reference_words[reference_starts[text] : reference_starts[text + 1]]
            if words.size == 0 or reference_text.size == 0:
                continue
            _numbers_of(reference_text, place, column_of)
            if not alone:
                best[:rows] = -1.0
                for i in range(reference_text.size):
                    _raise_to(best[:rows], table[column_of[i]])
            recall[pair] = _mean_of_best(weights, reference_text, column_of, best_column)
            precision[pair] = _mean_of_best(weights, words, row_of, best)
        _forget(place, columns[:count])
        start = stop
    return precision, recall
