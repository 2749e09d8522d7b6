"""CIDEr and CIDEr-D: agreement with the definition, computed slowly, and examples worked out by hand."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from math import exp, log, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refaug.core.errors import Usage
from refaug.metrics.base import NO_GOLD, NO_REFERENCE, Floats, Level, References
from refaug.metrics.specification import build
from refaug.metrics.words.cider import TOO_FEW_ITEMS, Idf

TEXT = st.lists(st.sampled_from(["a", "b", "c", "d", "!"]), max_size=7).map(" ".join)
ITEMS = st.lists(st.lists(TEXT.filter(str.strip), min_size=1, max_size=3), min_size=2, max_size=4)


def scores(specification: str, replies: Sequence[str], items: Sequence[Sequence[str]]) -> Floats:
    """The score of each reply against the references of the same place."""
    metric = build(specification)
    prepared = metric.prepare([References.unweighted(one) for one in items])
    places = np.arange(len(replies))
    return metric.values(metric.statistics(replies, prepared, places, places), Level.REPLY)


# The definition


def slow_cider(
    reply: str, references: Sequence[str], items: Sequence[Sequence[str]], order: int, sigma: float
) -> float:
    """As it is written down; sigma 0 is CIDEr, without clipping and penalty."""
    total = 0.0
    for n in range(1, order + 1):
        for reference in references:
            c, r = vector(reply, items, n), vector(reference, items, n)
            norm = sqrt(sum(x * x for x in c.values())) * sqrt(sum(x * x for x in r.values()))
            if norm == 0:
                continue
            clipped = {k: min(c.get(k, 0), r[k]) if sigma else c.get(k, 0) for k in r}
            cosine = sum(clipped[k] * r[k] for k in r) / norm
            difference = len(reply.split()) - len(reference.split())
            total += cosine * (exp(-(difference**2) / (2 * sigma**2)) if sigma else 1) / len(references)
    return 10 * total / order


def vector(text: str, items: Sequence[Sequence[str]], n: int) -> dict[tuple[str, ...], float]:
    found = ngrams(text, n)
    return {
        k: found.count(k) * log(len(items) / max(1, sum(any(k in ngrams(one, n) for one in item) for item in items)))
        for k in set(found)
    }


def ngrams(text: str, n: int) -> list[tuple[str, ...]]:
    words = text.split()
    return [tuple(words[at : at + n]) for at in range(len(words) - n + 1)]


@settings(max_examples=40, deadline=None)
@given(ITEMS, st.data(), st.integers(1, 4), st.sampled_from([6, 0.5, 20]))
def test_it_is_what_the_definition_gives(items: list[list[str]], data: st.DataObject, n: int, sigma: float) -> None:
    replies = data.draw(st.lists(TEXT, min_size=len(items), max_size=len(items)))
    for variant, width in ((f"cider-d,sigma={sigma}", sigma), ("cider", 0)):
        expected = [slow_cider(reply, item, items, n, width) for reply, item in zip(replies, items, strict=True)]
        found = scores(f"cider:n={n},variant={variant}", replies, items)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)
        assert ((found >= 0) & (found <= 10 + 1e-9)).all()


# Worked examples


def test_reference_itself_scores_10_and_words_of_all_items_count_nothing() -> None:
    items = [["the red cat sleeps"], ["the old dog barks"]]
    np.testing.assert_allclose(scores("cider", ["the red cat sleeps", "the"], items), [10, 0])
    np.testing.assert_allclose(scores("cider:variant=cider", ["the red cat sleeps", "the"], items), [10, 0])


def test_cider_d_alone_clips_repetition_and_penalises_length() -> None:
    items = [["cat"], ["dog"]]  # idf of cat: log 2, in one order
    assert scores("cider:n=1,variant=cider", ["cat cat cat", "x"], items)[0] == pytest.approx(10)
    # min(3, 1) · 1 / (3 · 1), times exp(−2² / 72).
    assert scores("cider:n=1", ["cat cat cat", "x"], items)[0] == pytest.approx(10 / 3 * exp(-4 / 72))
    assert scores("cider:n=1,sigma=1", ["cat cat cat", "x"], items)[0] == pytest.approx(10 / 3 * exp(-2))


def test_a_word_of_no_reference_weighs_most_in_the_reply() -> None:
    items = [["cat dog"], ["dog bird"], ["cow"]]
    reply_norm = sqrt(log(3) ** 2 + log(3) ** 2)  # cat and, unknown, fish
    expected = 10 * log(3) ** 2 / (reply_norm * sqrt(log(3) ** 2 + log(1.5) ** 2))
    assert scores("cider:n=1", ["cat fish", "x", "x"], items)[0] == pytest.approx(expected)


def test_stems_and_case_are_settled_before_counting() -> None:
    items = [["Cats sleep"], ["dogs bark"]]
    assert scores("cider:stem=yes,n=2", ["cat sleeping", "x"], items)[0] == pytest.approx(10)
    assert scores("cider:n=2", ["cat sleeping", "x"], items)[0] == 0
    assert scores("cider:n=2,tok=13a", ["cats sleep", "x"], items)[0] < 10
    assert scores("cider:n=2,tok=13a,case=lc", ["cats sleep", "x"], items)[0] == pytest.approx(10)


@pytest.mark.parametrize("words", [2, 50, 30_000])
def test_hash_of_weights_is_of_the_ngrams_in_order(words: int) -> None:
    draw = random.Random(words)
    text = [f"w{draw.randrange(words)}" for _ in range(20_000)]
    counts = {tuple(text[at : at + n]): n for n in range(1, 5) for at in range(len(text) - n)}
    told = "".join(f"{' '.join(ngram)}\t{items}\n" for ngram, items in sorted(counts.items()))
    assert Idf(9, counts).sha256 == hashlib.sha256(f"9\n{told}".encode()).hexdigest()


# Items


def test_a_set_of_one_item_has_no_idf_and_so_no_scores() -> None:
    metric = build("cider")
    prepared = metric.prepare([References.unweighted(["a b"]), References.unweighted([""])])
    assert prepared.problems == {0: TOO_FEW_ITEMS, 1: NO_REFERENCE}
    assert np.isnan(metric.statistics(["a b"], prepared, np.array([0, 0]), np.array([0, 1]))).all()


def test_items_without_references_do_not_count_as_items() -> None:
    items = [["a b"], ["c d"]]
    with_more = [References.unweighted(one) for one in ([""], *items, [])]
    metric = build("cider")
    prepared = metric.prepare(with_more)
    assert prepared.problems == {0: NO_REFERENCE, 3: NO_REFERENCE}
    rows = metric.statistics(["a b c"], prepared, np.array([0]), np.array([1]))
    assert metric.values(rows, Level.REPLY)[0] == scores("cider", ["a b c", "c"], items)[0]


def test_only_the_golds_count_where_only_they_are_asked_for() -> None:
    references = [
        References(("a b", "c d"), (1.0, 1.0), 1),
        References(("e", "c d"), (1.0, 1.0), 0),
        References(("a",), (1.0,), -1),
    ]
    metric = build("cider:refs=gold")
    prepared = metric.prepare(references)
    assert prepared.problems == {2: NO_GOLD}
    rows = metric.statistics(["c d e"], prepared, np.array([0, 0]), np.array([0, 1]))
    np.testing.assert_array_equal(
        metric.values(rows, Level.REPLY), scores("cider", ["c d e", "c d e"], [["c d"], ["e"]])
    )


def test_a_score_depends_on_the_other_items_of_the_set() -> None:
    few = scores("cider", ["a b", "x"], [["a c"], ["d"]])
    more = scores("cider", ["a b", "x", "x"], [["a c"], ["d"], ["a"]])
    assert few[0] != more[0]


def test_a_text_that_two_items_share_counts_for_both() -> None:
    items = [["a b"], ["a b"], ["c"]]
    expected = slow_cider("a c", ["a b"], items, 4, 6)
    assert scores("cider", ["a c", "x", "x"], items)[0] == pytest.approx(expected)


def test_an_empty_reply_scores_0() -> None:
    assert scores("cider", ["", " "], [["a b"], ["c d"]]).tolist() == [0, 0]


# Settings


def test_sigma_is_refused_where_it_would_change_nothing() -> None:
    with pytest.raises(Usage) as refused:
        build("cider:variant=cider,sigma=3")
    assert refused.value.message == "cider: sigma=3 is only for variant=cider-d"
