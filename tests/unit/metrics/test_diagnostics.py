"""Figures of replies, held to counting by brute force, to scipy, numpy and to examples worked out by eye."""

from __future__ import annotations

import itertools
from collections import Counter
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refusing
from scipy.stats import entropy as scipy_entropy

from refaug.core.errors import Usage
from refaug.core.records import Item, Origin, Reference
from refaug.core.text.normalisation import normalise
from refaug.core.text.tokenizers import get_tokenizer
from refaug.metrics.diagnostics import (
    FIGURES,
    GENERIC_PHRASES,
    DiagnosedReply,
    Diagnosis,
    DiagnosisSettings,
    diagnose,
    diagnose_items,
    distinct,
    distinct_of_sample,
    entropy,
    groups,
    in_repeated,
    is_question,
    ngram_counts,
    ngrams,
    repeats,
)

REPLIES = st.lists(st.lists(st.sampled_from("abcd"), max_size=8), max_size=8)
MODEST = settings(max_examples=40, deadline=None)


def answers(*texts: str, utterance: str | None = None, golds: tuple[str, ...] = ()) -> list[DiagnosedReply]:
    word = get_tokenizer("word")
    return [
        DiagnosedReply(
            text=text,
            tokens=word.tokenize(text),
            normalised=normalise(text),
            utterance=None if utterance is None else normalise(utterance),
            golds=frozenset(map(normalise, golds)),
        )
        for text in texts
    ]


def value(found: Diagnosis, name: str) -> float:
    figure = found.figures[name].value
    assert figure is not None
    return figure


# ── variety ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_distinct_is_the_share_of_different_ngrams_within_replies() -> None:
    found = diagnose(answers("the cat saw the dog", "the dog"))
    assert value(found, "distinct_1") == 4 / 7
    assert value(found, "distinct_2") == 4 / 5  # the cat, cat saw, saw the, the dog twice; never "dog the"
    assert value(found, "distinct_3") == 1.0


@MODEST
@given(REPLIES, st.integers(1, 3))
def test_distinct_and_entropy_equal_a_count_by_hand(texts: list[list[str]], n: int) -> None:
    listed = [tuple(text[at : at + n]) for text in texts for at in range(len(text)) if at + n <= len(text)]
    counts = ngram_counts(texts, n)
    if not listed:
        assert distinct(counts).value is None
        assert entropy(counts).why == "no reply is long enough for one"
        return
    assert distinct(counts).value == len(set(listed)) / len(listed)
    expected = scipy_entropy(list(Counter(listed).values()), base=2)
    assert entropy(counts).value == pytest.approx(expected, abs=1e-12)


@MODEST
@given(st.lists(st.sampled_from("abcd"), min_size=1, max_size=9), st.integers(1, 9))
def test_distinct_of_a_sample_is_the_mean_over_all_draws_of_that_size(tokens: list[str], size: int) -> None:
    found = distinct_of_sample(ngram_counts([tokens], 1), size)
    if size > len(tokens):
        assert (found.value, found.why) == (None, f"{len(tokens)} n-grams, and the sample has {size}")
        return
    expected = fmean(len(set(draw)) / size for draw in itertools.combinations(tokens, size))
    assert found.value == pytest.approx(expected, abs=1e-12)


def test_distinct_of_a_sample_of_everything_is_distinct_and_of_one_is_one() -> None:
    counts = Counter({("a",): 5, ("b",): 2, ("c",): 1})
    assert distinct_of_sample(counts, 8).value == pytest.approx(3 / 8, abs=1e-15)
    assert distinct_of_sample(counts, 1).value == pytest.approx(1.0, abs=1e-15)


def test_twice_the_replies_lower_distinct_but_hardly_that_of_a_sample() -> None:
    drawn = np.random.default_rng(3).zipf(1.4, size=40_000).astype(str).tolist()
    small, large = ngram_counts([drawn[:10_000]], 1), ngram_counts([drawn], 1)
    assert distinct(large).value < 0.8 * distinct(small).value
    assert distinct_of_sample(large, 1_000).value == pytest.approx(distinct_of_sample(small, 1_000).value, rel=0.03)


def test_the_entropy_of_four_equally_frequent_words_is_two_bits() -> None:
    assert entropy(ngram_counts([["a", "b"], ["c", "d"]], 1)).value == pytest.approx(2.0, abs=1e-15)


# ── length ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_lengths_are_those_of_numpy_and_an_empty_reply_counts_as_zero() -> None:
    texts = ["", "one", "one two three", "one two three four five six"]
    lengths = [0, 1, 3, 6]
    found = diagnose(answers(*texts))
    assert value(found, "tokens_mean") == np.mean(lengths)
    assert value(found, "tokens_median") == np.median(lengths)
    assert value(found, "tokens_sd") == pytest.approx(np.std(lengths, ddof=1), abs=1e-12)
    assert (value(found, "tokens_min"), value(found, "tokens_max")) == (0, 6)
    assert value(found, "characters_mean") == np.mean([len(text) for text in texts])
    assert found.tokens == 10


# ── shares ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_two_kinds_of_generic_reply_are_counted_apart_and_together() -> None:
    found = diagnose(answers("See you there!", "see you there", "I don’t know.", "The train is late.", ""))
    assert value(found, "generic_reused") == 2 / 5
    assert value(found, "generic_listed") == 1 / 5
    assert value(found, "generic_either") == 3 / 5
    assert value(found, "empty") == 1 / 5


def test_empty_replies_are_empty_and_nothing_else_however_many_there_are() -> None:
    found = diagnose(answers("", " ", "\u200b", utterance="", golds=("",)))
    shares = {name: found.figures[name].value for name in FIGURES if name.startswith(("generic", "questions"))}
    assert set(shares.values()) == {0.0}
    assert value(found, "empty") == 1.0
    assert value(found, "parrot") == value(found, "equal_to_gold") == 0.0


def test_language_without_a_list_has_a_reason_in_place_of_the_listed_share() -> None:
    found = diagnose(answers("ok", "ok"), DiagnosisSettings(listed=None))
    assert found.figures["generic_listed"].value is None
    assert found.figures["generic_either"].why == "the list of generic replies is English"
    assert value(found, "generic_reused") == 1.0


def test_every_phrase_of_the_list_is_normalised_and_short() -> None:
    assert {"i don t know", "ok", "yes"} <= GENERIC_PHRASES
    assert [
        phrase for phrase in GENERIC_PHRASES if normalise(phrase) != phrase or not 1 <= len(phrase.split()) <= 5
    ] == []


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("Really?", True),
        ("Why? Because.", False),
        ("Because. Why?", True),
        ("本当ですか？", True),
        ("本当ですか？」", True),
        ("What?!", True),
        ("Really ?...", True),
        ('He asked "why?"', True),
        ("Is it (open?)  ", True),
        ("متى؟", True),
        ("?", True),
        ("is it", False),
        ("Is it? :)", True),
        ("Is it? \U0001f60a", True),
        ("Is it? No!", False),
        ("Is it? 不", False),
        ("", False),
    ],
)
def test_a_question_is_a_last_sentence_with_a_question_mark_at_its_end(text: str, asks: bool) -> None:
    assert is_question(text) is asks


# ── repetition ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_trigram_may_overlap_with_itself() -> None:
    assert repeats(["ha", "ha", "ha", "ha"], 3)
    assert not repeats(["ha", "ha", "ha"], 3)
    assert repeats(["i", "am", "here", "and", "i", "am", "here"], 3)


@MODEST
@given(st.lists(st.sampled_from("abc"), max_size=10), st.integers(1, 3))
def test_repetition_equals_comparing_every_ngram_with_every_other(tokens: list[str], n: int) -> None:
    starts = range(len(tokens) - n + 1)
    again = {a for a in starts for b in starts if a != b and tokens[a : a + n] == tokens[b : b + n]}
    assert repeats(tokens, n) == bool(again)
    assert in_repeated(tokens, n) == len({at for at in range(len(tokens)) for a in again if a <= at < a + n})
    assert len(ngrams(tokens, n)) == len(starts)


def test_shares_of_repetition_are_of_replies_and_of_tokens() -> None:
    found = diagnose(answers("a b c a b c", "a b", "c c"))
    assert value(found, "repeated_trigram") == 1 / 3
    assert value(found, "tokens_in_repeated_1") == 8 / 10
    assert value(found, "tokens_in_repeated_2") == value(found, "tokens_in_repeated_3") == 6 / 10


# ── copies, items ─────────────────────────────────────────────────────────────────────────────────────────────────


def item(name: str, utterance: str | None, references: tuple[Reference, ...], **replies: str) -> Item:
    turns = () if utterance is None else ("Before.", utterance)
    return Item(id=name, turns=turns, references=references, replies=replies)


ITEMS = [
    item("1", "Is it open?", (Reference(text="Yes, it is."),), a="is it open", b="yes it is"),
    item("2", None, (Reference(text="Good."), Reference(text="Fine.")), a="Is it open?", b="fine!"),
    item("3", "Who won?", (Reference(text="We did.", source=Origin.SUPPLIED, weight=1.0),), a="We did."),
]


def test_copies_are_counted_among_the_items_that_have_what_could_be_copied() -> None:
    found = diagnose_items(ITEMS, ["a", "b"], get_tokenizer("word"))
    assert list(found) == ["a", "b"]
    assert value(found["a"], "parrot") == 1 / 2  # of items 1 and 3
    assert value(found["a"], "equal_to_gold") == 0.0  # a weighted reference is no gold
    assert value(found["b"], "equal_to_gold") == 1.0
    assert value(found["b"], "parrot") == 0.0
    assert [(one.replies, one.missing) for one in found.values()] == [(3, 0), (2, 1)]


def test_an_item_without_utterance_and_gold_gives_reasons_instead_of_zeros() -> None:
    found = diagnose_items([item("1", None, (), a="Hello there.")], ["a"], get_tokenizer("word"))["a"]
    assert found.as_json()["reasons"] == {
        **{f"distinct_{n}_sample": f"{4 - n} n-grams, and the sample has 1,000" for n in (1, 2, 3)},
        "tokens_sd": "fewer than two replies",
        "parrot": "no item with a reply has an utterance",
        "equal_to_gold": "no item with a reply has a gold",
    }
    assert found.as_json()["figures"]["parrot"] is None


def test_of_no_replies_at_all_every_figure_is_null_with_a_reason() -> None:
    found = diagnose([])
    assert {figure.value for figure in found.figures.values()} == {None}
    assert [name for name, figure in found.figures.items() if not figure.why] == []


def test_every_figure_is_in_one_group_and_in_the_order_of_the_list() -> None:
    assert [name for _, names in groups() for name in names] == list(FIGURES) == list(diagnose([]).figures)
    assert [group for group, _ in groups()] == ["variety", "length", "generic", "repetition", "copies"]


def test_tokens_decide_what_is_counted() -> None:
    japanese = item("1", "どう？", (), a="はいはい")
    found = diagnose_items([japanese], ["a"], get_tokenizer("char"), DiagnosisSettings(sample=2))["a"]
    assert value(found, "distinct_1") == 0.5
    assert value(found, "distinct_1_sample") == pytest.approx((1 * 2 + 2 * 4) / 6 / 2)  # of 6 pairs, 2 are alike


def test_a_sample_of_nothing_is_refused() -> None:
    with refusing(Usage):
        DiagnosisSettings(sample=0)
