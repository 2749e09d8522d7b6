"""Numbering tokens, and counting n-grams in compiled loops: against counters, at the edges, and at size."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise
from threading import Thread
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from plain_bleu import PlainBleu, PlainReference, ngrams

from refaug.metrics.words.ngrams import (
    AVERAGE,
    BEST_APART,
    BEST_PRODUCT,
    BEST_PRODUCT_FLOORED,
    CLOSEST,
    CLOSEST_POSITIVE,
    GOLD,
    NO_LENGTH,
    UNKNOWN,
    _compared_length,
    credit_rows,
    new_vocabulary,
    pack,
    pack_known,
)

VARIANT = {BEST_PRODUCT: "galley15", BEST_APART: "galley-fork", BEST_PRODUCT_FLOORED: "tsuta20"}
PENALTY = {
    CLOSEST: "closest",
    CLOSEST_POSITIVE: "closest-positive",
    AVERAGE: "average",
    GOLD: "gold",
    NO_LENGTH: "none",
}


def rows(
    replies: Sequence[Sequence[str]],
    references: Sequence[PlainReference],
    *,
    order: int = 2,
    matching: int = BEST_PRODUCT,
    penalty: int = CLOSEST,
) -> NDArray[np.float64]:
    """A row for each reply against one item, whose first reference is the gold."""
    vocabulary = new_vocabulary()
    ids, ends = pack([one.tokens for one in references], vocabulary)
    out = np.full((len(replies), 3 * order + 2), np.nan)
    credit_rows(
        *pack_known(replies, vocabulary),
        ids,
        np.stack([ends[:-1], ends[1:]], axis=1),
        np.array([one.weight for one in references], dtype=np.float64),
        np.array([0, len(references)]),
        np.array([0]),
        np.arange(len(replies)),
        np.zeros(len(replies), dtype=np.int64),
        order,
        matching,
        penalty,
        len(vocabulary),
        out,
    )
    return out


# ── numbers ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_tokens_are_numbered_in_the_order_in_which_they_are_met() -> None:
    vocabulary = new_vocabulary()
    ids, offsets = pack([["b", "a"], [], ["a", "c", "b"]], vocabulary)
    assert dict(vocabulary) == {"b": 0, "a": 1, "c": 2}
    assert ids.tolist() == [0, 1, 1, 2, 0]
    assert offsets.tolist() == [0, 2, 2, 5]
    assert pack([["d", "a"]], vocabulary)[0].tolist() == [3, 1]


def test_tokens_of_replies_are_looked_up_and_never_numbered() -> None:
    vocabulary = new_vocabulary()
    pack([["a", "b"]], vocabulary)
    ids, offsets = pack_known([["b", "new"], [], ["newer", "a"]], vocabulary)
    assert ids.tolist() == [1, UNKNOWN, UNKNOWN, 0]
    assert offsets.tolist() == [0, 2, 2, 4]
    assert dict(vocabulary) == {"a": 0, "b": 1}


@pytest.mark.parametrize("texts", [[], [[]], [[], []]])
def test_texts_without_tokens_are_packed_too(texts: list[list[str]]) -> None:
    for ids, offsets in (pack(texts, new_vocabulary()), pack_known(texts, new_vocabulary())):
        assert ids.size == 0
        assert offsets.tolist() == [0] * (len(texts) + 1)


@given(st.lists(st.lists(st.text(max_size=3), max_size=6), max_size=6))
@settings(max_examples=40, deadline=None)
def test_numbers_stand_for_the_same_tokens_again(texts: list[list[str]]) -> None:
    vocabulary = new_vocabulary()
    ids, offsets = pack(texts, vocabulary)
    token_of = {number: token for token, number in vocabulary.items()}
    spans = pairwise(offsets)
    assert [[token_of[number] for number in ids[a:b].tolist()] for a, b in spans] == texts
    assert sorted(token_of) == list(range(len(token_of)))
    assert pack_known(texts, vocabulary)[0].tolist() == ids.tolist()


# ── counts ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_credits_by_hand() -> None:
    # "a b a b c" has a·2, b·2, c; ab·2, ba, bc. The gold, worth 1, has a, b, ab once; the other, worth ½, a·2, ba.
    # a: max(1·1, ½·2) = 1; b: 1·1; ab: 1·1; ba: ½·1; c and bc in neither.
    references = [PlainReference(tokens=["a", "b"], weight=1), PlainReference(tokens=["x", "b", "a", "a"], weight=0.5)]
    found = rows([["a", "b", "a", "b", "c"]], references)
    assert found.tolist() == [[2.0, 1.5, 5.0, 4.0, 5.0, 4.0, 5.0, 4.0]]
    # Apart: a: 2 · 1; b: 1·1; ab: 1·1; ba: 1·½.
    assert rows([["a", "b", "a", "b", "c"]], references, matching=BEST_APART)[0, :2].tolist() == [3.0, 1.5]


def test_a_match_found_only_where_it_is_bad_subtracts_unless_it_is_floored() -> None:
    references = [PlainReference(tokens=["a"], weight=1), PlainReference(tokens=["b", "b"], weight=-0.5)]
    replies = [["b", "b"], ["b", "a"], ["z"]]
    assert rows(replies, references)[:, 0].tolist() == [-1.0, 0.5, 0.0]
    assert rows(replies, references, matching=BEST_APART)[:, 0].tolist() == [-1.0, 0.5, 0.0]
    assert rows(replies, references, matching=BEST_PRODUCT_FLOORED)[:, 0].tolist() == [0.0, 1.0, 0.0]


def test_no_ngram_goes_over_a_token_that_the_references_do_not_have() -> None:
    # Left out, "new" would make a bigram of "a" and "b".
    found = rows([["a", "new", "b"], ["new", "a", "b"], ["a", "b", "new"]], [PlainReference(tokens=["a", "b"])])
    assert found[:, :2].tolist() == [[2, 0], [2, 1], [2, 1]]


def test_the_same_pair_of_tokens_is_one_ngram_however_it_began() -> None:
    # "b c" after "a" and after "d" is the same bigram, while "a b c" and "d b c" are two trigrams.
    found = rows([["a", "b", "c", "d", "b", "c"]], [PlainReference(tokens=["b", "c", "d", "b", "c"])], order=3)
    assert found[0, :3].tolist() == [5, 4, 3]


@given(
    st.lists(st.lists(st.sampled_from("abcz"), max_size=9), min_size=1, max_size=4),
    st.lists(st.tuples(st.lists(st.sampled_from("abc"), max_size=9), st.integers(-8, 8)), min_size=1, max_size=5),
    st.integers(1, 4),
    st.sampled_from(sorted(VARIANT)),
    st.sampled_from(sorted(PENALTY)),
)
@settings(max_examples=50, deadline=None)
def test_rows_are_those_of_counters(
    replies: list[list[str]], given_: list[tuple[list[str], int]], order: int, matching: int, penalty: int
) -> None:
    """Weights are eighths, so that every sum is exact."""
    references = [
        PlainReference(tokens=tokens, weight=eighths / 8, is_gold=place == 0)
        for place, (tokens, eighths) in enumerate(given_)
    ]
    if all(one.weight <= 0 for one in references):
        references[0] = PlainReference(tokens=references[0].tokens, weight=1.0, is_gold=True)
    plain = PlainBleu(n=order, variant=VARIANT[matching], penalty=PENALTY[penalty])
    found = rows(replies, references, order=order, matching=matching, penalty=penalty)
    for row, reply in zip(found.tolist(), replies, strict=True):
        sums = plain.sums(reply, references)
        assert row == [*sums.credit, *sums.possible, *sums.totals, sums.length, sums.reference_length]


@pytest.mark.parametrize("kinds", [2, 300, 20_000])
def test_many_different_ngrams_are_told_apart(kinds: int) -> None:
    """A hash that mixed two n-grams up would show here: the tables are half full."""
    rng = random.Random(kinds)
    words = [f"w{number}" for number in range(kinds)]
    reply, reference = (rng.choices(words, k=20_000) for _ in range(2))
    reference[5_000:9_000] = reply[1_000:5_000]
    found = rows([reply, reply[:7]], [PlainReference(tokens=reference)], order=4)
    for row, text in zip(found, (reply, reply[:7]), strict=True):
        expected = [(ngrams(text, n) & ngrams(reference, n)).total() for n in range(1, 5)]
        assert row[:4].tolist() == expected


def test_threads_that_share_references_do_not_disturb_each_other() -> None:
    rng = random.Random(5)
    words = [f"w{number}" for number in range(50)]
    references = [PlainReference(tokens=rng.choices(words, k=12), weight=rng.uniform(0.1, 1)) for _ in range(17)]
    batches = [[rng.choices(words, k=12) for _ in range(200)] for _ in range(4)]
    alone = [rows(batch, references, order=4) for batch in batches]
    together: dict[int, NDArray[np.float64]] = {}

    def work(number: int) -> None:
        together[number] = rows(batches[number], references, order=4)

    threads = [Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [together[number].tobytes() for number in range(4)] == [one.tobytes() for one in alone]


@pytest.mark.parametrize("penalty", sorted(PENALTY))
def test_item_without_references_has_length_zero_and_reads_no_memory(penalty: int) -> None:
    """Run as plain Python, which checks the bounds of arrays; compiled loops read whatever lies beyond."""
    plain: Any = _compared_length
    assert plain.py_func(3, np.zeros((0, 2), np.int64), np.zeros(0), -1, penalty) == 0
