"""The shape of nlg-eval: its code's numbers for sentences of ours, its calls, and mistakes with them."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from refusals import refusing

from refaug.core.errors import BadInput, NotFound, Usage
from refaug.library.nlgeval import NLGEval, compute_individual_metrics, compute_metrics

NUMBERS: dict[str, Any] = json.loads(Path(__file__).with_name("nlg_eval_numbers.json").read_text("utf-8"))
OVERLAP = ("Bleu_1", "Bleu_2", "Bleu_3", "Bleu_4", "ROUGE_L", "CIDEr")
EMBEDDINGS = (
    "EmbeddingAverageCosineSimilarity",
    "EmbeddingAverageCosineSimilairty",
    "VectorExtremaCosineSimilarity",
    "GreedyMatchingScore",
)


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The word vectors that the numbers were computed with."""
    path = tmp_path_factory.mktemp("vectors") / "twelve.txt"
    lines = []
    for i, word in enumerate(NUMBERS["words"]):
        parts = [round(math.sin(1.3 * i + 0.7 * k * i + k) + 0.3 * math.cos(k * k + i), 3) for k in range(1, 13)]
        lines.append(f"{word} {' '.join(map(str, parts))}\n")
    path.write_text("".join(lines), "utf-8")
    return path


@pytest.fixture(scope="module")
def evaluator(vectors: Path) -> NLGEval:
    return NLGEval(vectors=vectors, wordnet="none")


def columns(items: Sequence[dict[str, Any]]) -> tuple[list[list[str]], list[str]]:
    return [list(texts) for texts in zip(*(item["references"] for item in items), strict=True)], [
        item["reply"] for item in items
    ]


# ── numbers ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_scores_of_all_replies_are_those_of_nlg_evals_code(evaluator: NLGEval) -> None:
    scores = evaluator.compute_metrics(*columns(NUMBERS["items"]))
    for name in (*OVERLAP, *EMBEDDINGS):
        assert scores[name] == pytest.approx(NUMBERS["all"][name], abs=1e-6), name


def test_scores_of_each_reply_are_those_of_nlg_evals_code(evaluator: NLGEval) -> None:
    for item, expected in zip(NUMBERS["items"], NUMBERS["each"], strict=True):
        scores = evaluator.compute_individual_metrics(item["references"], item["reply"])
        for name in (*OVERLAP, *EMBEDDINGS):
            assert scores[name] == pytest.approx(expected[name], abs=1e-6), (name, item)


def test_empty_texts_score_as_in_nlg_evals_code(evaluator: NLGEval) -> None:
    scores = evaluator.compute_metrics(*columns(NUMBERS["empties"]))
    assert {name: scores[name] for name in OVERLAP} == pytest.approx(
        {name: NUMBERS["all_empties"][name] for name in OVERLAP}, abs=1e-6
    )
    for item, expected in zip(NUMBERS["empties"], NUMBERS["each_empty"], strict=False):
        scores = evaluator.compute_individual_metrics(item["references"], item["reply"])
        assert {name: scores[name] for name in OVERLAP} == pytest.approx(
            {name: expected[name] for name in OVERLAP}, abs=1e-6
        )


def test_an_empty_reply_has_no_similarity_and_an_empty_reference_does_not_count(evaluator: NLGEval) -> None:
    assert [evaluator.compute_individual_metrics(["a reply"], "")[name] for name in EMBEDDINGS] == [0.0] * 4
    alone = evaluator.compute_individual_metrics(["the cat sat"], "the the")
    beside = evaluator.compute_individual_metrics(["", "the cat sat"], "the the")
    assert [beside[name] for name in EMBEDDINGS] == [alone[name] for name in EMBEDDINGS]


def test_a_dimension_whose_lowest_number_is_0_is_0_among_extremes(tmp_path: Path) -> None:
    """nlg-eval compares with 0 strictly on both sides."""
    path = tmp_path / "v.txt"
    path.write_text("a 0 1\nb 2 1\nc 1 1\n", "utf-8")
    evaluator = NLGEval(no_overlap=True, vectors=path)
    assert evaluator.compute_individual_metrics(["c"], "a b")["VectorExtremaCosineSimilarity"] == pytest.approx(
        0.5**0.5
    )


# ── calls ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_keys_stand_in_the_order_of_nlg_eval(evaluator: NLGEval) -> None:
    scores = evaluator.compute_individual_metrics(["the cat sat"], "the cat")
    assert list(scores) == [*OVERLAP[:4], "METEOR", *OVERLAP[4:], *EMBEDDINGS]
    assert set(scores.omitted) == {"SPICE", "SkipThoughtCS"}


def test_files_give_the_scores_of_lists(tmp_path: Path, vectors: Path, evaluator: NLGEval) -> None:
    references, replies = columns(NUMBERS["items"])
    paths = [tmp_path / f"{place}.txt" for place in range(len(references) + 1)]
    for path, texts, end in zip(paths, [*references, replies], ["\n", "\r\n", "\n", "\n"], strict=True):
        path.write_bytes("".join(f" {text}{end}" for text in texts).encode("utf-8"))
    scores = compute_metrics(str(paths[-1]), paths[:-1], False, True, False, vectors=vectors, wordnet="none")
    assert scores == evaluator.compute_metrics(references, replies)
    assert scores.signature == evaluator.signature


def test_references_in_one_string_are_split_at_its_delimiter() -> None:
    texts = ["this is a test", "this is also a test"]
    joined = compute_individual_metrics("||<|>||".join(texts), "this is a good test", no_glove=True, wordnet="none")
    assert joined == compute_individual_metrics(texts, "this is a good test", no_glove=True, wordnet="none")


def test_a_reply_may_have_fewer_references_than_others() -> None:
    evaluator = NLGEval(no_glove=True, metrics_to_omit=["METEOR"])
    fewer = evaluator.compute_metrics([["a b c", "d e f"], ["a b", None]], ["a b d", "d e"])
    same = evaluator.compute_metrics([["a b c", "d e f"], ["a b", "d e f"]], ["a b d", "d e"])
    assert fewer == same


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ({"no_overlap": True}, set(EMBEDDINGS)),
        ({"metrics_to_omit": ["Bleu_3", "METEOR", EMBEDDINGS[1]]}, {*OVERLAP[:2], *OVERLAP[4:], *EMBEDDINGS[2:]}),
        ({"no_glove": True, "no_skipthoughts": True, "metrics_to_omit": {"Bleu_1", "CIDEr"}}, {"METEOR", "ROUGE_L"}),
    ],
)
def test_arguments_leave_out_what_they_leave_out_in_nlg_eval(
    arguments: dict[str, Any], names: set[str], vectors: Path
) -> None:
    evaluator = NLGEval(**arguments, vectors=vectors, wordnet="none")
    assert set(evaluator.compute_individual_metrics(["the cat sat"], "the cat")) == names


def test_a_metric_without_a_score_says_why() -> None:
    scores = NLGEval(wordnet="none").compute_individual_metrics(["the cat sat"], "the cat")
    with pytest.raises(KeyError, match=r"GreedyMatchingScore: no word vectors: NLGEval\(vectors"):
        scores["GreedyMatchingScore"]
    with pytest.raises(KeyError, match="SkipThoughtCS: skip-thoughts need a model"):
        scores["SkipThoughtCS"]
    with pytest.raises(KeyError, match="BLEU: nlg-eval has no metric of that name"):
        scores["BLEU"]


# ── mistakes ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"no_skipthoughts": False}, "skip-thoughts need a model of 5 GB"),
        ({"no_glove": False}, "no_glove"),
        ({"metrics_to_omit": "METEOR"}, "METEOR"),
        ({"metrics_to_omit": ["BLEU"]}, "no metric to leave out: BLEU"),
    ],
)
def test_arguments_that_cannot_be_followed_are_refused(arguments: dict[str, Any], message: str) -> None:
    with refusing(Usage, message):
        NLGEval(**arguments)


def test_a_wordnet_that_is_asked_for_must_be_there(tmp_path: Path) -> None:
    with refusing(NotFound):
        NLGEval(wordnet=tmp_path)


@pytest.mark.parametrize(
    ("references", "replies", "message"),
    [
        ("a reply", ["a reply"], "ref_list"),
        (["a reply"], ["a reply"], "ref_list[0]"),
        ([["a"]], "a", "hyp_list"),
        ([["a", "b"]], ["a"], "ref_list[0]"),
        (
            [["a", "b", "c"], ["d", "e", "f"]],
            ["a", "b"],
            "ref_list",
        ),
        ([["a", None]], ["a", "b"], "hyp_list"),
        ([["a", float("nan")]], ["a", "b"], "ref_list[0]"),
        ([["a"]], [None], "hyp_list[0]"),
        ([], ["a"], "ref_list"),
        ([[]], [], "hyp_list"),
    ],
)
def test_mistakes_with_lists_are_named(references: Any, replies: Any, message: str) -> None:
    with refusing(BadInput, message):
        NLGEval(wordnet="none").compute_metrics(references, replies)


def test_a_string_of_references_is_not_taken_for_its_letters() -> None:
    with refusing(BadInput):
        NLGEval(wordnet="none").compute_individual_metrics("abc", "abc")


def test_mistakes_with_files_are_named(tmp_path: Path) -> None:
    replies, references = tmp_path / "replies.txt", tmp_path / "references.txt"
    replies.write_text("one\ntwo\n", "utf-8")
    references.write_bytes(b"one\nt\xffo\n")
    with refusing(BadInput, "references.txt"):
        compute_metrics(replies, [references])
    with refusing(BadInput):
        compute_metrics(replies, [tmp_path / "missing.txt"])
    with refusing(Usage):
        compute_metrics(replies, str(references))
    references.write_text("one\n", "utf-8")
    with refusing(BadInput, "ref_list[0]", "hyp_list"):
        compute_metrics(replies, [references], wordnet="none")
