"""ROUGE: agreement with the package rouge-score, and with n-grams and subsequences counted here."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer

import refaug.metrics.catalogue
from refaug.core.errors import Usage
from refaug.core.text.tokenizers import get_tokenizer
from refaug.metrics.base import NO_GOLD, NO_REFERENCE, Floats, Level, References
from refaug.metrics.signature import Signature
from refaug.metrics.specification import build
from refaug.metrics.words.rouge import Rouge, common_subsequence

ROOT = Path(refaug.metrics.catalogue.__file__).parents[1]
KINDS = {"rouge-1": "rouge1", "rouge-2": "rouge2", "rouge-l": "rougeL"}
TEXT = st.lists(
    st.sampled_from(["the", "The", "cat", "cats", "running", "ran", "on", "mat", ".", "it's", "é", "犬", "?!"]),
    max_size=8,
).map(" ".join)


def scores(specification: str, replies: Sequence[str], references: Sequence[References]) -> Floats:
    """The score of each reply against the references of the same place."""
    metric = build(specification)
    places = np.arange(len(replies))
    return metric.values(metric.statistics(replies, metric.prepare(references), places, places), Level.REPLY)


def score(specification: str, reply: str, references: Sequence[str]) -> float:
    return float(scores(specification, [reply], [References.unweighted(references)])[0])


# Agreement


@settings(max_examples=40, deadline=None)
@given(TEXT, st.lists(TEXT, min_size=1, max_size=3), st.booleans())
def test_every_kind_and_measure_is_what_rouge_score_gives(reply: str, references: list[str], stem: bool) -> None:
    scorer = RougeScorer(list(KINDS.values()), use_stemmer=stem)
    found = [
        scorer.score(reference, reply)
        for reference in references
        if any(c.isascii() and c.isalnum() for c in reference)
    ]
    for name, kind in KINDS.items():
        for measure, field in {"f": "fmeasure", "precision": "precision", "recall": "recall"}.items():
            each = [getattr(one[kind], field) for one in found]
            specification = f"{name}:measure={measure},stem={'yes' if stem else 'no'}"
            expected = {"best": max(each, default=np.nan), "mean": np.mean(each) if each else np.nan}
            for how, value in expected.items():
                ours = score(f"{specification},multi={how}", reply, references)
                assert ours == pytest.approx(value, abs=1e-12, nan_ok=True)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from("abcd"), min_size=1, max_size=150), st.lists(st.sampled_from("bcde"), max_size=150))
def test_long_subsequences_are_those_of_rouge_score_to_the_last_bit(reply: list[str], reference: list[str]) -> None:
    expected = RougeScorer(["rougeL"]).score(" ".join(["b", *reference]), " ".join(reply))["rougeL"]
    for measure, field in {"f": "fmeasure", "precision": "precision", "recall": "recall"}.items():
        ours = score(f"rouge-l:measure={measure}", " ".join(reply), [" ".join(["b", *reference])])
        assert ours == getattr(expected, field)


def test_a_subsequence_needs_no_table_of_both_texts() -> None:
    words = [f"w{number}" for number in range(3_000)]
    swapped = [word for first, second in zip(words[::2], words[1::2], strict=True) for word in (second, first)]
    assert common_subsequence(words, swapped) == 1_500
    assert common_subsequence(["a"] * 1_000_000, ["b", "a", "a"]) == 2
    assert common_subsequence([], words) == 0


@settings(max_examples=40, deadline=None)
@given(TEXT, TEXT)
def test_on_our_tokens_it_is_what_counting_by_hand_gives(reply: str, reference: str) -> None:
    mine, theirs = (get_tokenizer("13a").tokenize(text) for text in (reply, reference))
    if not theirs:
        return
    for name, shared, lengths in (
        ("rouge-1", shared_ngrams(mine, theirs, 1), (len(mine), len(theirs))),
        ("rouge-2", shared_ngrams(mine, theirs, 2), (max(0, len(mine) - 1), len(theirs) - 1)),
        ("rouge-l", longest_common_subsequence(tuple(mine), tuple(theirs)), (len(mine), len(theirs))),
    ):
        precision, recall = (shared / length if length else 0 for length in lengths)
        f = 2 * precision * recall / (precision + recall) if shared else 0
        for measure, expected in {"precision": precision, "recall": recall, "f": f}.items():
            assert score(f"{name}:tok=13a,measure={measure}", reply, [reference]) == pytest.approx(expected, abs=1e-12)


def shared_ngrams(mine: list[str], theirs: list[str], n: int) -> int:
    one, other = (Counter(zip(*(tokens[i:] for i in range(n)), strict=False)) for tokens in (mine, theirs))
    return (one & other).total()


@cache
def longest_common_subsequence(mine: tuple[str, ...], theirs: tuple[str, ...]) -> int:
    if not mine or not theirs:
        return 0
    if mine[0] == theirs[0]:
        return 1 + longest_common_subsequence(mine[1:], theirs[1:])
    return max(longest_common_subsequence(mine[1:], theirs), longest_common_subsequence(mine, theirs[1:]))


# Settings


def test_best_is_by_the_measure_asked_for_not_by_f() -> None:
    references = [
        "the cat sat on the mat there",
        "cat",
    ]  # f: 4/9·… of the first; precision 1 of the first, recall 1 of the second
    reply = "the cat"
    assert score("rouge-1:measure=recall", reply, references) == 1
    assert score("rouge-1:measure=precision", reply, references) == 1
    assert score("rouge-1:measure=f", reply, references) == pytest.approx(2 / 3)


def test_stems_are_taken_of_words_of_more_than_three_letters_in_any_tokens() -> None:
    assert score("rouge-1:stem=yes,tok=word", "running cats", ["run cat"]) == 1
    assert score("rouge-1:stem=yes,tok=13a,case=mixed", "Running cats", ["run cat"]) == 0.5
    assert score("rouge-1:stem=yes,tok=13a,case=lc", "Running cats", ["run cat"]) == 1
    assert score("rouge-1:stem=yes,tok=word", "his", ["hi"]) == 0
    assert score("rouge-1:tok=word", "running cats", ["run cat"]) == 0


def test_case_can_be_kept_where_the_tokenizer_keeps_it() -> None:
    assert score("rouge-1:tok=13a", "The cat", ["the cat"]) == 0.5
    assert score("rouge-1:tok=13a,case=lc", "The cat", ["the cat"]) == 1
    with pytest.raises(Usage) as refused:
        build("rouge-1:case=mixed")
    assert refused.value.message == "rouge-1: tok=rouge is lower-case by itself"


def test_signature_names_resolved_settings_and_reads_back_unchanged() -> None:
    metric = build("rouge-l")
    assert metric.settings == {
        "measure": "f", "stem": "no", "refs": "own", "multi": "best", "tok": "rouge", "case": "lc",
    }  # fmt: skip
    assert metric.versions() == {}
    signature = Signature.parse(Signature.of(metric).full)
    assert build(signature.specification()).settings == metric.settings
    other = build("rouge-2:stem=yes,tok=intl")
    assert (other.settings["tok"], other.settings["case"]) == ("intl", "mixed")
    assert sorted(other.versions()) == ["nltk", "tokenizer"]


# What has no score, and what scores 0


def test_an_empty_reply_scores_0_and_an_empty_reference_is_left_out() -> None:
    for name in KINDS:
        assert score(name, "", ["the cat sat"]) == score(name, "?!", ["the cat sat"]) == 0
        assert score(f"{name}:multi=mean", "the cat sat", ["the cat sat", "", "?!"]) == 1


def test_item_without_usable_reference_is_a_problem_with_nan_rows() -> None:
    metric = build("rouge-1:refs=gold")
    references = [
        References(("a", ""), (1.0, 1.0), gold=1),
        References(("a",), (1.0,), gold=-1),
        References((), (), gold=-1),
        References(("...", "a"), (1.0, 1.0)),
        References(("a",), (1.0,)),
    ]
    prepared = metric.prepare(references)
    assert prepared.problems == {0: NO_REFERENCE, 1: NO_GOLD, 2: NO_GOLD, 3: NO_REFERENCE}
    rows = metric.statistics(["a"], prepared, np.zeros(5, int), np.arange(5))
    assert np.isnan(rows).all(axis=1).tolist() == [True] * 4 + [False]
    assert build("rouge-1").prepare(references).problems == {2: NO_REFERENCE}


# Batches


def test_importing_the_modules_imports_no_heavy_library() -> None:
    modules = [
        "catalogue",
        "words.rouge",
        "words.chrf",
        "words.ter",
        "words.meteor",
        "words.cider",
        "upsilon",
        "embeddings.word_vector_metrics",
        "embeddings.encoder_metrics",
    ]
    heavy = ["sacrebleu", "nltk", "gensim", "onnxruntime", "tokenizers"]
    imports = ", ".join(f"refaug.metrics.{module}" for module in modules)
    script = f"import sys, {imports}; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "[]\n"


def test_the_metric_is_the_one_of_the_register() -> None:
    for name in KINDS:
        metric = build(name)
        assert isinstance(metric, Rouge)
        assert metric.name == name
