"""chrF, chrF++ and TER: agreement with sacrebleu at both levels, in every setting."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from refaug.core.errors import MissingPart, Usage
from refaug.metrics.base import NO_GOLD, NO_REFERENCE, Level, Metric, References
from refaug.metrics.specification import build

# Dense in what the definitions are about: punctuation at the ends of words, case, odd white space, Asian characters.
WORDS = st.sampled_from(
    [
        "the",
        "The",
        "cat",
        "sat",
        "a",
        "on",
        "mat",
        "(hi)",
        "it's",
        "x.",
        "...",
        "!",
        "5.5",
        "-",
        "&amp;",
        "今日は犬。",
        "ß",
    ]
)
SPACES = st.sampled_from([" ", " ", " ", "  ", "\t", "\u3000"])
TEXT = st.lists(st.tuples(WORDS, SPACES), min_size=1, max_size=8).map(lambda pairs: "".join(w + s for w, s in pairs))
CORPUS = st.integers(1, 3).flatmap(
    lambda count: st.lists(
        st.tuples(st.one_of(st.just(""), TEXT), st.lists(TEXT, min_size=count, max_size=count)), min_size=1, max_size=4
    )
)
YES_NO = st.sampled_from(["yes", "no"])


def held_to_sacrebleu(metric: Metric, theirs: CHRF | TER, corpus: list[tuple[str, list[str]]]) -> None:
    replies = [reply for reply, _ in corpus]
    prepared = metric.prepare([References.unweighted(references) for _, references in corpus])
    places = np.arange(len(corpus))
    rows = metric.statistics(replies, prepared, places, places)
    each = [theirs.sentence_score(reply, references).score / 100 for reply, references in corpus]
    np.testing.assert_allclose(metric.values(rows, Level.REPLY), each, rtol=0, atol=1e-9)
    streams = [list(stream) for stream in zip(*(references for _, references in corpus), strict=True)]
    whole = theirs.corpus_score(replies, streams).score / 100
    assert float(metric.values(rows.sum(axis=0), Level.CORPUS)) == pytest.approx(whole, abs=1e-9)


# Agreement


@settings(max_examples=40, deadline=None)
@given(
    CORPUS, st.integers(1, 7), st.integers(0, 3), st.integers(1, 3), YES_NO, YES_NO, st.sampled_from(["mixed", "lc"])
)
@example([("a b c", ["a b c d", "c b a", "x"])], 6, 0, 2, "no", "no", "mixed")
def test_chrf_is_what_sacrebleu_gives(
    corpus: list[tuple[str, list[str]]], characters: int, words: int, beta: int, epsilon: str, space: str, case: str
) -> None:
    metric = build(
        f"chrf:char-order={characters},word-order={words},beta={beta},eps={epsilon},space={space},case={case}"
    )
    theirs = CHRF(
        char_order=characters, word_order=words, beta=beta, lowercase=case == "lc",
        whitespace=space == "yes", eps_smoothing=epsilon == "yes",
    )  # fmt: skip
    held_to_sacrebleu(metric, theirs, corpus)


@settings(max_examples=30, deadline=None)
@given(CORPUS)
def test_the_defaults_are_those_of_sacrebleu(corpus: list[tuple[str, list[str]]]) -> None:
    held_to_sacrebleu(build("chrf"), CHRF(), corpus)
    held_to_sacrebleu(build("chrf++"), CHRF(word_order=2), corpus)
    if all(reference.strip() for _, references in corpus for reference in references):
        held_to_sacrebleu(build("ter"), TER(), corpus)


@settings(max_examples=40, deadline=None)
@given(CORPUS, YES_NO, YES_NO, YES_NO, st.sampled_from(["mixed", "lc"]))
@example([("d a b c e", ["a b c d e"])], "no", "yes", "no", "lc")
@example([("the", ["it's the"])], "yes", "yes", "no", "lc")
def test_ter_is_what_sacrebleu_gives(
    corpus: list[tuple[str, list[str]]], norm: str, punct: str, asian: str, case: str
) -> None:
    if (norm, punct, asian) == ("no", "yes", "yes"):
        asian = "no"
    theirs = TER(
        normalized=norm == "yes", no_punct=punct == "no", asian_support=asian == "yes", case_sensitive=case == "mixed"
    )
    with_words = [
        (reply, references) for reply, references in corpus
        if all(theirs.tokenizer(reference.rstrip()) for reference in references)
    ]  # fmt: skip
    if with_words:
        held_to_sacrebleu(build(f"ter:norm={norm},punct={punct},asian={asian},case={case}"), theirs, with_words)


# Worked examples


def test_chrf_counts_are_those_that_can_be_counted_by_hand() -> None:
    metric = build("chrf:char-order=2")
    prepared = metric.prepare([References.unweighted(["abcd", "zz"])])
    (row,) = metric.statistics(["a bx"], prepared, np.array([0]), np.array([0]))
    assert dict(zip(metric.columns, row.tolist(), strict=True)) == {
        "char_1_reply": 3, "char_1_reference": 4, "char_1_matches": 2,
        "char_2_reply": 2, "char_2_reference": 3, "char_2_matches": 1,
    }  # fmt: skip
    precision, recall = (2 / 3 + 1 / 2) / 2, (2 / 4 + 1 / 3) / 2
    assert float(metric.values(row, Level.REPLY)) == pytest.approx(5 * precision * recall / (4 * precision + recall))


def test_ter_counts_one_shift_and_the_mean_length_of_the_references() -> None:
    metric = build("ter")
    prepared = metric.prepare([References.unweighted(["a b c d e", "x y z"])])
    (row,) = metric.statistics(["d e a b c"], prepared, np.array([0]), np.array([0]))
    assert metric.parts(row, Level.REPLY) == {"edits": 1.0, "reference_length": 4.0}
    assert float(metric.values(row, Level.REPLY)) == 0.25


def test_an_empty_reply_is_all_insertions_to_ter_and_0_to_chrf() -> None:
    assert score("ter", "", ["one two three"]) == score("ter", "  ", ["one two three"]) == 1
    assert score("chrf", "", ["one"]) == score("chrf++", " ", ["one"]) == 0


def test_an_empty_reference_among_others_is_left_out() -> None:
    for name in ("chrf", "chrf++", "ter", "chrf:space=yes"):
        assert score(name, "a cat", ["a cat", "", " \n"]) == score(name, "a cat", ["a cat"])
        assert score(name, "", ["a cat", ""]) == score(name, "", ["a cat"])


def score(specification: str, reply: str, references: Sequence[str]) -> float:
    metric = build(specification)
    prepared = metric.prepare([References.unweighted(references)])
    return float(metric.values(metric.statistics([reply], prepared, np.array([0]), np.array([0])), Level.REPLY)[0])


# Items, batches, signatures


@pytest.mark.parametrize("name", ["chrf", "chrf++", "ter"])
def test_item_without_usable_reference_is_a_problem_with_nan_rows(name: str) -> None:
    references = [
        References(("a", " "), (1.0, 1.0), gold=1),
        References(("a",), (1.0,), -1),
        References(("a",), (1.0,)),
    ]
    metric = build(f"{name}:refs=gold")
    prepared = metric.prepare(references)
    assert prepared.problems == {0: NO_REFERENCE, 1: NO_GOLD}
    rows = metric.statistics(["a"], prepared, np.zeros(3, int), np.arange(3))
    assert np.isnan(rows).all(axis=1).tolist() == [True, True, False]
    assert np.isnan(metric.values(rows, Level.REPLY)).tolist() == [True, True, False]
    assert build(name).prepare(references).problems == {}


def test_values_keep_the_shape_of_what_they_are_given() -> None:
    for name in ("chrf", "ter"):
        metric = build(name)
        prepared = metric.prepare([References.unweighted(["a b c"])] * 2)
        rows = metric.statistics(["a b", "c"], prepared, np.array([0, 1]), np.array([0, 1]))
        mixtures = np.stack([rows, rows[::-1], rows * 2])  # (3, 2, columns)
        each = metric.values(rows, Level.REPLY)
        np.testing.assert_array_equal(metric.values(mixtures, Level.CORPUS), [each, each[::-1], each])


def test_ter_refuses_a_setting_that_would_change_nothing() -> None:
    with pytest.raises(Usage) as refused:
        build("ter:asian=yes")
    assert refused.value.message == "ter: asian=yes changes nothing by itself"
    assert refused.value.remedy == "give norm=yes or punct=no with it"


def test_a_missing_package_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics.lib_ter", None)
    with pytest.raises(MissingPart) as refused:
        build("ter")
    assert refused.value.remedy == "pip install sacrebleu"
