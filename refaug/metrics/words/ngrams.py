"""Texts as numbers, and the n-grams that a reply shares with its references, counted in compiled loops.

The n-grams of a reply are distinguished exactly, without hashing whole n-grams: an n-gram is the pair of its first
(n−1)-gram and its last token, and every such pair in the reply gets a number. A reference's n-grams are looked up among
those; most of its tokens are not in the reply at all, and end there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain, repeat
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from refaug.core.kernels.kernel import compiled

Ids = NDArray[np.int32]
Offsets = NDArray[np.int64]

UNKNOWN = -1  # a token that no reference has: it counts, and never matches


Vocabulary = defaultdict[str, int]  # tokens → numbers, in the order in which they first occur


def new_vocabulary() -> Vocabulary:
    """Return an empty vocabulary; looking up a new token numbers that token."""
    vocabulary = Vocabulary()
    vocabulary.default_factory = vocabulary.__len__
    return vocabulary


PackedTexts = tuple[
    Ids, Offsets
]  # texts one after the other as token numbers; text i is ids[offsets[i]:offsets[i + 1]]


def pack(texts: Sequence[Sequence[str]], vocabulary: Vocabulary) -> PackedTexts:
    """Number the tokens of references; new tokens are added to the vocabulary."""
    return _pack_numbers(texts, map(vocabulary.__getitem__, chain.from_iterable(texts)))


def pack_known(texts: Sequence[Sequence[str]], vocabulary: Vocabulary) -> PackedTexts:
    """Number the tokens of replies; the vocabulary does not change, so that all threads may share it."""
    return _pack_numbers(texts, map(vocabulary.get, chain.from_iterable(texts), repeat(UNKNOWN)))


def _pack_numbers(texts: Sequence[Sequence[str]], numbers: Iterable[int]) -> PackedTexts:
    offsets = np.zeros(len(texts) + 1, dtype=np.int64)
    np.cumsum(np.fromiter(map(len, texts), dtype=np.int64, count=len(texts)), out=offsets[1:])
    return np.fromiter(numbers, dtype=np.int32, count=int(offsets[-1])), offsets


# How weights act on a match.
BEST_PRODUCT, BEST_APART, BEST_PRODUCT_FLOORED = 0, 1, 2
# The reference length that a reply is compared with.
CLOSEST, CLOSEST_POSITIVE, AVERAGE, GOLD, NO_LENGTH = 0, 1, 2, 3, 4


class Scratch(NamedTuple):
    """Working space for one reply at a time; a stamp with the row's number marks what belongs to it."""

    number_of_token: Ids  # (vocabulary,) the number of a token among those of the reply
    token_stamps: Offsets  # (vocabulary,)
    keys: NDArray[np.int64]  # (order, table) open addressing: (n−1)-gram and last token → number
    numbers: Ids  # (order, table)
    stamps: NDArray[np.int64]  # (order, table)
    kinds: NDArray[np.int64]  # (order,) how many different n-grams the reply has
    in_reply: Ids  # (order, longest reply) how often each is in the reply; the following have the same shape
    in_reference: Ids  # … in the current reference; all 0 between references
    best: NDArray[np.float64]  # the best credit, or the best weight, so far
    best_count: Ids  # the best count so far
    seen: NDArray[np.bool_]  # whether any reference has it
    touched: Ids  # the n-grams of the current reference
    touched_count: NDArray[np.int64]  # (order,)
    prefix: Ids  # (longest reply,) the number of the n-gram that begins at each place


# The references of all items stand one behind the other: `spans` has the first place and the end, (references, 2), of
# the tokens of each among those of all texts, and `weights` its weight. Those of item i are offsets[i]:offsets[i + 1],
# and its gold is the one in place golds[i] of them; −1: it has none.


def count_tokens(
    reply_offsets: Offsets, spans: Offsets, offsets: Offsets, rows_reply: Offsets, rows_item: Offsets
) -> int:
    """Return how many tokens `credit_rows` reads: those of each row's reply and of its references."""
    before = np.zeros(len(spans) + 1, dtype=np.int64)
    np.cumsum(spans[:, 1] - spans[:, 0], out=before[1:])
    of_references = before[offsets[rows_item + 1]] - before[offsets[rows_item]]
    return int(np.diff(reply_offsets)[rows_reply].sum() + of_references.sum())


@compiled
def credit_rows(
    reply_ids: Ids,
    reply_offsets: Offsets,
    ids: Ids,
    spans: Offsets,
    weights: NDArray[np.float64],
    offsets: Offsets,
    golds: Offsets,
    rows_reply: Offsets,
    rows_item: Offsets,
    order: int,
    matching: int,
    penalty: int,
    vocabulary_size: int,
    out: NDArray[np.float64],
) -> None:
    """Fill a row for each (reply, item): credits by order, possible credits, n-grams, both lengths.

    credit_n = Σ over distinct n-grams g of the reply of max over references j with g of w_j · min(#g(reply), #g(r_j)),
    summed in their order in the reply, so that the order of the references cannot matter.
    """
    longest = 1
    for row in range(rows_reply.size):
        number = rows_reply[row]
        longest = max(longest, reply_offsets[number + 1] - reply_offsets[number])
    scratch = _scratch(order, longest, vocabulary_size)
    for row in range(rows_reply.size):
        number, item_place = rows_reply[row], rows_item[row]
        first, last = offsets[item_place], offsets[item_place + 1]
        reply = reply_ids[reply_offsets[number] : reply_offsets[number + 1]]
        mask = 3
        while mask + 1 < 2 * reply.size:
            mask = 2 * mask + 1
        _number_ngrams(reply, order, row, mask, scratch)
        highest = -np.inf
        for place in range(first, last):
            weight = weights[place]
            highest = max(highest, weight)
            _count_matches(ids[spans[place, 0] : spans[place, 1]], reply.size, order, row, mask, scratch)
            _keep_best(weight, order, matching, scratch)
        for n in range(order):
            total = max(0, reply.size - n)
            out[row, n] = _credit(n, matching, scratch)
            out[row, order + n] = highest * total
            out[row, 2 * order + n] = total
        out[row, 3 * order] = reply.size
        of_item = spans[first:last]
        out[row, 3 * order + 1] = _compared_length(reply.size, of_item, weights[first:last], golds[item_place], penalty)


@compiled
def _scratch(order: int, longest: int, vocabulary_size: int) -> Scratch:
    """Allocate working space for the longest reply of the batch."""
    table = 4
    while table < 2 * longest:
        table *= 2
    return Scratch(
        np.zeros(vocabulary_size, dtype=np.int32),
        np.full(vocabulary_size, -1, dtype=np.int64),
        np.zeros((order, table), dtype=np.int64),
        np.zeros((order, table), dtype=np.int32),
        np.full((order, table), -1, dtype=np.int64),
        np.zeros(order, dtype=np.int64),
        np.zeros((order, longest), dtype=np.int32),
        np.zeros((order, longest), dtype=np.int32),
        np.zeros((order, longest), dtype=np.float64),
        np.zeros((order, longest), dtype=np.int32),
        np.zeros((order, longest), dtype=np.bool_),
        np.zeros((order, longest), dtype=np.int32),
        np.zeros(order, dtype=np.int64),
        np.zeros(longest, dtype=np.int32),
    )


@compiled
def _number_ngrams(reply: Ids, order: int, row: int, mask: int, to: Scratch) -> None:
    """Give every distinct n-gram of the reply a number, in the order of the text, and count them."""
    to.kinds[:] = 0
    for place in range(reply.size):
        token = reply[place]
        if token < 0:  # a token of no reference: no n-gram with it can match
            to.prefix[place] = -1
            continue
        if to.token_stamps[token] != row:
            to.token_stamps[token] = row
            to.number_of_token[token] = _new_number(0, to)
        to.prefix[place] = to.number_of_token[token]
        to.in_reply[0, to.prefix[place]] += 1
    for n in range(1, order):
        for place in range(reply.size - n):
            token = reply[place + n]
            if to.prefix[place] < 0 or token < 0:
                to.prefix[place] = -1
                continue
            key = np.int64(to.prefix[place]) * (reply.size + 1) + to.number_of_token[token]
            slot = _slot(to.keys[n], to.stamps[n], key, row, mask)
            if to.stamps[n, slot] != row:
                to.stamps[n, slot] = row
                to.keys[n, slot] = key
                to.numbers[n, slot] = _new_number(n, to)
            to.prefix[place] = to.numbers[n, slot]
            to.in_reply[n, to.prefix[place]] += 1


@compiled
def _new_number(n: int, to: Scratch) -> np.int64:
    """Return the next number among the reply's n-grams, with its counts at 0."""
    number: np.int64 = to.kinds[n]
    to.kinds[n] += 1
    to.in_reply[n, number] = 0
    to.seen[n, number] = False
    return number


@compiled
def _count_matches(reference: Ids, reply_size: int, order: int, row: int, mask: int, to: Scratch) -> None:
    """Count the reply's n-grams in a reference: from every place on, as long as the run is in the reply."""
    to.touched_count[:] = 0
    for start in range(reference.size):
        token = reference[start]
        if to.token_stamps[token] != row:
            continue
        number = to.number_of_token[token]
        _count_one(0, number, to)
        for n in range(1, min(order, reference.size - start)):
            token = reference[start + n]
            if to.token_stamps[token] != row:
                break
            key = np.int64(number) * (reply_size + 1) + to.number_of_token[token]
            slot = _slot(to.keys[n], to.stamps[n], key, row, mask)
            if to.stamps[n, slot] != row:
                break
            number = to.numbers[n, slot]
            _count_one(n, number, to)


@compiled
def _count_one(n: int, number: int, to: Scratch) -> None:
    if to.in_reference[n, number] == 0:
        to.touched[n, to.touched_count[n]] = number
        to.touched_count[n] += 1
    to.in_reference[n, number] += 1


@compiled
def _keep_best(weight: float, order: int, matching: int, to: Scratch) -> None:
    """Store a reference's matches where they are worth more than earlier ones, and reset its counts to 0."""
    for n in range(order):
        for position in range(to.touched_count[n]):
            number = to.touched[n, position]
            count = min(to.in_reply[n, number], to.in_reference[n, number])
            to.in_reference[n, number] = 0
            credit = weight if matching == BEST_APART else weight * count
            if not to.seen[n, number]:
                to.seen[n, number] = True
                to.best[n, number] = credit
                to.best_count[n, number] = count
            else:
                to.best[n, number] = max(to.best[n, number], credit)
                to.best_count[n, number] = max(to.best_count[n, number], count)


@compiled
def _credit(n: int, matching: int, to: Scratch) -> float:
    """Return the sum over the reply's n-grams."""
    credited = 0.0
    for number in range(to.kinds[n]):
        if to.seen[n, number]:
            credit = to.best[n, number]
            if matching == BEST_APART:
                credit *= to.best_count[n, number]
            elif matching == BEST_PRODUCT_FLOORED:
                credit = max(0.0, credit)
            credited += credit
    return credited


@compiled
def _slot(keys: NDArray[np.int64], stamps: NDArray[np.int64], key: np.int64, row: int, mask: int) -> np.int64:
    """Return the place of a key in an open-addressed table, or the free place where it belongs."""
    # Multiplying by 2^64 over the golden ratio spreads neighbouring keys; the upper bits are the well mixed ones.
    slot = ((key * np.int64(-7046029254386353131)) >> np.int64(29)) & mask
    while stamps[slot] == row and keys[slot] != key:
        slot = (slot + 1) & mask
    return slot


@compiled
def _compared_length(length: int, spans: Offsets, weights: NDArray[np.float64], gold: int, penalty: int) -> float:
    """Return the reference length for the penalty; the shorter of two that are equally close.

    A reference without tokens has length 0, as in sacrebleu; readers of test files leave empty references out.
    """
    if penalty == NO_LENGTH or len(spans) == 0:
        return 0.0
    if penalty == GOLD:
        place = max(0, gold)
        return float(spans[place, 1] - spans[place, 0])
    total, count, closest, distance = 0, 0, 0, np.int64(2**62)
    for place in range(len(spans)):
        size = spans[place, 1] - spans[place, 0]
        if penalty == CLOSEST_POSITIVE and weights[place] <= 0:
            continue
        total += size
        count += 1
        away = abs(size - length)
        if away < distance or (away == distance and size < closest):
            closest, distance = size, away
    return total / max(1, count) if penalty == AVERAGE else float(closest)
