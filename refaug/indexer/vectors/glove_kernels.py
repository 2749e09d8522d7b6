"""Compiled loops of `glove_blocks.py` and `glove.py`: filling blocks, and AdaGrad over blocks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from refaug.core.kernels import compiled, compiled_with

# Sums in lanes, and 1/√x as the processor's estimate with a step of Newton's method: 1.4 times the speed for one last
# digit. The order is still fixed, so on one machine the same input gives the same bits.
_QUICK = {"reassoc", "contract", "nsz", "arcp"}

Floats = NDArray[np.float32]


@compiled
def block_number(first_range: int, second_range: int) -> int:
    """Return the block of the entries between two ranges of words, in the order (0, 0), (0, 1), (1, 1), (0, 2), …."""
    lower, higher = min(first_range, second_range), max(first_range, second_range)
    return higher * (higher + 1) // 2 + lower


@compiled
def count_blocks(
    rows: NDArray[np.int32],
    columns: NDArray[np.int32],
    positions: NDArray[np.int64],
    size: int,
    counts: NDArray[np.int64],
) -> None:
    """Add to the count of each block its entries among these."""
    for entry in range(len(rows)):
        counts[block_number(positions[rows[entry]] // size, positions[columns[entry]] // size)] += 1


@compiled
def deal(
    rows: NDArray[np.int32],
    columns: NDArray[np.int32],
    values: Floats,
    positions: NDArray[np.int64],
    size: int,
    x_max: float,
    alpha: float,
    ends: NDArray[np.int64],  # where each block ends so far; advanced
    pairs: NDArray[np.uint16],
    targets: Floats,
) -> None:
    """Append entries to their blocks: places in the lower and the higher range, log x and the weight f(x)."""
    for entry in range(len(rows)):
        row, column = positions[rows[entry]], positions[columns[entry]]
        lower, higher = min(row, column), max(row, column)
        block = block_number(lower // size, higher // size)
        pairs[ends[block], 0], pairs[ends[block], 1] = lower % size, higher % size
        targets[ends[block], 0] = np.log(values[entry])
        targets[ends[block], 1] = min(1.0, (values[entry] / x_max) ** alpha)
        ends[block] += 1


@compiled
def shuffle_blocks(
    first: int, last: int, starts: NDArray[np.int64], seed: np.uint64, pairs: NDArray[np.uint16], targets: Floats
) -> None:
    """Shuffle the entries of the blocks first … last − 1 (Fisher and Yates), each block with a separate seed."""
    for block in range(first, last):
        state = _mix(seed + np.uint64(block))
        for k in range(starts[block + 1] - starts[block] - 1, 0, -1):
            state += np.uint64(0x9E3779B97F4A7C15)
            # 32 random bits times the number of choices, over 2^32; a block has less than 2^32 entries
            drawn = ((_mix(state) >> np.uint64(32)) * np.uint64(k + 1)) >> np.uint64(32)
            place, other_place = starts[block] + k, starts[block] + np.int64(drawn)
            for side in range(2):
                pairs[place, side], pairs[other_place, side] = pairs[other_place, side], pairs[place, side]
                targets[place, side], targets[other_place, side] = targets[other_place, side], targets[place, side]


@compiled
def _mix(state: np.uint64) -> np.uint64:
    """Mix a counter into random bits with SplitMix64 (Steele, Lea and Flood 2014)."""
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


@compiled
def train_blocks(
    rows: NDArray[np.int64],  # ranges of words, each with …
    columns: NDArray[np.int64],  # … a range of contexts
    starts: NDArray[np.int64],
    pairs: NDArray[np.uint16],
    targets: Floats,
    size: int,
    parameters: Floats,  # (words and contexts, ranges · size, row length)
    width: int,
    rate: np.float32,
    losses: NDArray[np.float64],  # by range of words
) -> None:
    """Train blocks one after the other; blocks trained at the same time share neither rows nor columns.

    A block's entries serve both orientations: (row, column) has them as written, (column, row) the other way round.
    On the diagonal both orientations come one after the other, and pairs of a word with itself only once.
    """
    for n in range(len(rows)):
        row, column = rows[n], columns[n]
        block = block_number(row, column)
        first, last = starts[block], starts[block + 1]
        words = parameters[0, row * size : (row + 1) * size]
        contexts = parameters[1, column * size : (column + 1) * size]
        losses[row] = 0.0
        for side in range(int(row > column), 1 + int(row >= column)):
            once = row == column and side == 1
            losses[row] += _train(pairs[first:last], targets[first:last], side, once, words, contexts, width, rate)


@compiled_with(fastmath=_QUICK)
def _train(
    pairs: NDArray[np.uint16],
    targets: Floats,
    side: int,
    skip_equal: bool,
    words: Floats,  # a row is a vector, the sums of squares of its steps, its bias, the sum of squares of that
    contexts: Floats,
    width: int,
    rate: np.float32,
) -> float:
    """Run AdaGrad over the entries of a block in order; return the sum of their losses, each before its step.

    As in the original program, the squared steps include the learning rate, and biases have the rate 1.
    """
    loss, bias = 0.0, 2 * width
    for entry in range(len(pairs)):
        i, j = pairs[entry, side], pairs[entry, 1 - side]
        if skip_equal and i == j:
            continue
        word, context = words[i], contexts[j]
        product = np.float32(0)
        for k in range(width):
            product += word[k] * context[k]
        difference = product + word[bias] + context[bias] - targets[entry, 0]
        weighted = targets[entry, 1] * difference
        loss += 0.5 * weighted * difference
        factor = weighted * rate
        for k in range(width):
            word_step, context_step = factor * context[k], factor * word[k]
            word[k] -= word_step / np.sqrt(word[width + k])
            context[k] -= context_step / np.sqrt(context[width + k])
            word[width + k] += word_step * word_step
            context[width + k] += context_step * context_step
        word[bias] -= weighted / np.sqrt(word[bias + 1])
        context[bias] -= weighted / np.sqrt(context[bias + 1])
        word[bias + 1] += weighted * weighted
        context[bias + 1] += weighted * weighted
    return loss
