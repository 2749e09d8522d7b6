"""Compiled loops of `cooccurrence.py`: packing texts, listing each word's places, summing rows, merging runs.

A place is one number: the word's position in the packed texts, then how many words of its text are at most a window
away to the left and to the right, 8 bits each. Indexes are unsigned where this spares the loops a test for negative
ones.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from refaug.core.kernels import compiled
from refaug.core.kernels.compiler import fetch_ahead

COLUMNS_A_MARK = 16  # two cache lines of sums
COLUMNS_A_STEP = 8 * COLUMNS_A_MARK  # the loops check eight marks together; sums have a multiple of so many
_MARK_SHIFT = np.uint64(4)
_PLACE_SHIFT, _REACH_BITS, _REACH = np.uint64(16), np.uint64(8), np.uint64(255)
_PLACES_AHEAD = 8
_ONE = np.uint64(1)


@compiled
def pack(
    codes: NDArray[np.int32],
    start: int,
    end: int,
    window: int,
    packed: NDArray[np.uint32],
    used: int,
    reaches: NDArray[np.uint16],
    counts: NDArray[np.int64],
) -> int:
    """Append the known words of the text `codes[start:end]` with their reaches, and count them.

    Return the new length.
    """
    first, appended = np.uint64(used), 0
    for k in range(start, end):
        if codes[k] >= 0:
            packed[used + appended] = codes[k]
            counts[codes[k]] += 1
            appended += 1
    last = np.uint64(used + appended)
    for place in range(first, last):
        left_reach, right_reach = min(place - first, np.uint64(window)), min(last - _ONE - place, np.uint64(window))
        reaches[place] = left_reach << _REACH_BITS | right_reach
    return used + appended


@compiled
def pack_texts(
    codes: NDArray[np.int32],
    offsets: NDArray[np.int64],
    text: int,
    window: int,
    packed: NDArray[np.uint32],
    used: int,
    reaches: NDArray[np.uint16],
    counts: NDArray[np.int64],
) -> tuple[int, int]:
    """Append texts from the given one on until one might not fit; return the next text and the new length."""
    while text + 1 < len(offsets) and used + offsets[text + 1] - offsets[text] <= len(packed):
        used = pack(codes, offsets[text], offsets[text + 1], window, packed, used, reaches, counts)
        text += 1
    return text, used


@compiled
def list_places(
    packed: NDArray[np.uint32],
    reaches: NDArray[np.uint16],
    first: int,
    last: int,
    ends: NDArray[np.int64],
    places: NDArray[np.uint64],
) -> None:
    """Write each of the places first … last − 1 to its word's list and advance `ends`, where the lists end so far."""
    for place in range(np.uint64(first), np.uint64(last)):
        word = packed[place]
        places[ends[word]] = place << _PLACE_SHIFT | np.uint64(reaches[place])
        ends[word] += 1


@compiled
def sum_rows(
    packed: NDArray[np.uint32],
    places: NDArray[np.uint64],
    starts: NDArray[np.int64],  # (words + 1): where each word's places begin
    weights: NDArray[np.uint64],  # by distance from −window to window
    most_places: int,
    at: NDArray[np.int64],  # the row and the place to continue from; advanced
    sums: NDArray[np.uint64],
    marks: NDArray[np.uint8],
    rows_out: NDArray[np.int32],
    columns_out: NDArray[np.int32],
    sums_out: NDArray[np.uint64],
) -> int:
    """Sum rows until so many places were read or the output may lack room for a row; return how much was written."""
    written, remaining = 0, most_places
    while at[0] + 1 < len(starts) and remaining > 0 and written + len(sums) <= len(rows_out):
        row = at[0]
        until = min(starts[row + 1], at[1] + remaining)
        _gather(packed, places[at[1] : until], np.uint64(row), weights, sums, marks)
        remaining -= until - at[1]
        at[1] = until
        if until == starts[row + 1]:
            written = _flush_row(row, sums, marks, written, rows_out, columns_out, sums_out)
            at[0] += 1
    return written


@compiled
def _gather(
    packed: NDArray[np.uint32],
    places: NDArray[np.uint64],
    row: np.uint64,
    weights: NDArray[np.uint64],
    sums: NDArray[np.uint64],
    marks: NDArray[np.uint8],
) -> None:
    """Add the words around these places of a word to its row; smaller codes have the pair in their own rows.

    The place itself is included with the weight 0, which leaves no entry.
    """
    last = len(places) - 1
    for k in range(len(places)):
        first, after = _surroundings(places[min(k + _PLACES_AHEAD, last)])
        fetch_ahead(packed, first)
        fetch_ahead(packed, after - _ONE)
        first, after = _surroundings(places[k])
        to_weight = np.uint64(len(weights) // 2) - (places[k] >> _PLACE_SHIFT)
        for near in range(first, after):
            column = np.uint64(packed[near])
            if column >= row:
                sums[column] += weights[to_weight + near]
                marks[column >> _MARK_SHIFT] = 1


@compiled
def _surroundings(place: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Return the words around a place, itself included: the first of them, and the first after them."""
    at = place >> _PLACE_SHIFT
    return at - (place >> _REACH_BITS & _REACH), at + (place & _REACH) + _ONE


@compiled
def _flush_row(
    row: int,
    sums: NDArray[np.uint64],
    marks: NDArray[np.uint8],
    written: int,
    rows_out: NDArray[np.int32],
    columns_out: NDArray[np.int32],
    sums_out: NDArray[np.uint64],
) -> int:
    """Move a row's sums to the output, in order of columns, and reset them to zero."""
    steps = marks.view(np.uint64)
    for step in range(row // COLUMNS_A_STEP, len(steps)):
        if steps[step] == 0:
            continue
        for mark in range(8 * step, 8 * step + 8):
            if marks[mark] == 0:
                continue
            marks[mark] = 0
            for column in range(COLUMNS_A_MARK * mark, COLUMNS_A_MARK * (mark + 1)):
                rows_out[written], columns_out[written], sums_out[written] = row, column, sums[column]
                written += sums[column] != 0
                sums[column] = 0
    return written


@compiled
def merge_rows(
    columns: NDArray[np.int32],
    spilled: NDArray[np.uint64],
    starts: NDArray[np.int64],  # (runs, words + 1): where each run's rows begin
    most_entries: int,
    row: int,
    sums: NDArray[np.uint64],
    marks: NDArray[np.uint8],
    rows_out: NDArray[np.int32],
    columns_out: NDArray[np.int32],
    sums_out: NDArray[np.uint64],
) -> tuple[int, int, int]:
    """Add up the same rows of all runs until so many entries were read.

    Return the next row, entries written, and read.
    """
    written, read = 0, 0
    while row + 1 < starts.shape[1] and read < most_entries and written + len(sums) <= len(rows_out):
        for run in range(starts.shape[0]):
            for entry in range(starts[run, row], starts[run, row + 1]):
                column = np.uint64(columns[entry])
                sums[column] += spilled[entry]
                marks[column >> _MARK_SHIFT] = 1
            read += starts[run, row + 1] - starts[run, row]
        written = _flush_row(row, sums, marks, written, rows_out, columns_out, sums_out)
        row += 1
    return row, written, read
