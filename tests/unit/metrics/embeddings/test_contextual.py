"""BERTScore and sentence cosines: worked examples, plain loops, and independence of the batch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from encoders import write_encoder
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from refaug.core.errors import Usage
from refaug.core.vectors.encoders import TokenVectors, open_encoder
from refaug.metrics.embeddings.encoder_metrics import IdfWeights, Measure, bertscore, idf_weights, sentence_cosine

MEASURES: tuple[Measure, ...] = ("f", "precision", "recall")


def text_of(
    vectors: Sequence[Sequence[float]] | NDArray[Any], *, special: Sequence[int] = (), ids: Sequence[int] | None = None
) -> TokenVectors:
    """An encoded text with these vectors; the tokens at these places are special."""
    rows = np.array(vectors, np.float32)
    ids = range(len(rows)) if ids is None else ids
    marks = np.isin(np.arange(len(rows)), special)
    return TokenVectors(tuple(f"t{one}" for one in ids), np.array(ids, np.int64), marks, rows)


def one_score(reply: TokenVectors, reference: TokenVectors, measure: Measure = "f", idf: Any = None) -> float:
    score = bertscore([reply], [reference], np.array([0]), np.array([0]), measure=measure, idf=idf)
    assert score.dtype == np.dtype("float64")
    return float(score.item())


def plain_bertscore(reply: TokenVectors, reference: TokenVectors, idf: IdfWeights | None) -> dict[str, float]:
    """BERTScore by two loops in Python's floats."""

    def own(text: TokenVectors) -> list[tuple[int, list[float]]]:
        kept = zip(text.ids.tolist(), text.vectors.tolist(), text.special.tolist(), strict=True)
        return [(token, vector) for token, vector, special in kept if not special]

    def cosine(one: list[float], other: list[float]) -> float:
        product = math.sqrt(math.fsum(a * a for a in one)) * math.sqrt(math.fsum(b * b for b in other))
        return math.fsum(a * b for a, b in zip(one, other, strict=True)) / product if product else 0.0

    def side(ours: list[tuple[int, list[float]]], theirs: list[tuple[int, list[float]]]) -> float:
        weights = [1.0 if idf is None else idf.of_token.get(token, idf.unseen) for token, _ in ours]
        if not theirs or not sum(weights):
            return math.nan
        best = [max(cosine(vector, other) for _, other in theirs) for _, vector in ours]
        return sum(weight * value for weight, value in zip(weights, best, strict=True)) / sum(weights)

    precision, recall = side(own(reply), own(reference)), side(own(reference), own(reply))
    if math.isnan(precision) or math.isnan(recall):
        return dict.fromkeys(MEASURES, math.nan)
    harmonic = 2 * precision * recall / (precision + recall) if precision > 0 and recall > 0 else 0.0
    return {"f": harmonic, "precision": precision, "recall": recall}


# Worked by hand

REPLY = text_of([[9, 9], [1, 0], [3, 4], [9, 9]], special=[0, 3], ids=[101, 5, 6, 102])
REFERENCE = text_of([[9, 9], [2, 0], [0, 1], [-1, 0], [9, 9]], special=[0, 4], ids=[101, 5, 7, 8, 102])


def test_a_small_case_worked_by_hand() -> None:
    # Cosines: (1, 0) with 1, 0, -1; (3, 4)/5 with .6, .8, -.6.
    assert one_score(REPLY, REFERENCE, "precision") == pytest.approx((1 + 0.8) / 2, abs=1e-7)
    assert one_score(REPLY, REFERENCE, "recall") == pytest.approx((1 + 0.8 - 0.6) / 3, abs=1e-7)
    assert one_score(REPLY, REFERENCE) == pytest.approx(2 * 0.9 * 0.4 / 1.3, abs=1e-7)
    assert one_score(REFERENCE, REPLY, "precision") == one_score(REPLY, REFERENCE, "recall")


def test_weights_decide_how_much_each_token_counts() -> None:
    idf = IdfWeights({5: 1.0, 7: 3.0}, unseen=4.0)
    assert one_score(REPLY, REFERENCE, "precision", idf) == pytest.approx((1 * 1 + 4 * 0.8) / 5, abs=1e-7)
    assert one_score(REPLY, REFERENCE, "recall", idf) == pytest.approx((1 * 1 + 3 * 0.8 - 4 * 0.6) / 8, abs=1e-7)


def test_the_example_of_the_paper_has_its_recall() -> None:
    """Zhang et al. 2020, figure 1: the best similarities of "the weather is cold today", its idf weights, R = 0.753."""
    best, nearest = [0.713, 0.515, 0.858, 0.796, 0.913], [0, 2, 1, 2, 3]
    reference = np.zeros((5, 5))
    for row, (cosine, column) in enumerate(zip(best, nearest, strict=True)):
        reference[row, [column, 4]] = cosine, math.sqrt(1 - cosine**2)
    idf = IdfWeights(dict(enumerate([1.27, 7.94, 1.82, 7.90, 8.88])), unseen=0.0)
    reply = text_of(np.eye(4, 5), ids=range(4))
    assert round(one_score(reply, text_of(reference), "recall", idf), 3) == 0.753


def test_a_text_is_entirely_like_itself() -> None:
    text = text_of(np.random.default_rng(3).normal(size=(9, 33)) * 5)
    assert [one_score(text, text, measure) for measure in MEASURES] == pytest.approx([1, 1, 1], abs=1e-6)
    assert max(one_score(text, text, measure) for measure in MEASURES) <= 1


# Against plain loops

NUMBERS = st.integers(-4, 4).map(float)


@st.composite
def encoded_texts(draw: st.DrawFn) -> list[TokenVectors]:
    texts = []
    for _ in range(draw(st.integers(1, 4))):
        vectors = draw(st.lists(st.lists(NUMBERS, min_size=3, max_size=3), max_size=5))
        ids = draw(st.lists(st.integers(0, 5), min_size=len(vectors), max_size=len(vectors)))
        special = [place for place in range(len(vectors)) if draw(st.integers(0, 3)) == 0]
        texts.append(text_of(np.array(vectors).reshape(len(vectors), 3), special=special, ids=ids))
    return texts


@settings(max_examples=50, deadline=None)
@given(encoded_texts(), encoded_texts(), st.booleans())
def test_every_pair_has_the_score_of_two_plain_loops(
    replies: list[TokenVectors], references: list[TokenVectors], weighted: bool
) -> None:
    idf = idf_weights([text.ids[~text.special] for text in references]) if weighted else None
    reply_of, reference_of = (axis.ravel() for axis in np.indices((len(replies), len(references))))
    for measure in MEASURES:
        scores = bertscore(replies, references, reply_of, reference_of, measure=measure, idf=idf)
        expected = [
            plain_bertscore(replies[reply], references[reference], idf)[measure]
            for reply, reference in zip(reply_of, reference_of, strict=True)
        ]
        np.testing.assert_allclose(scores, expected, atol=1e-6)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(MEASURES), st.booleans())
def test_a_pair_has_the_same_score_to_the_last_bit_in_any_batch(seed: int, measure: Measure, weighted: bool) -> None:
    rng = np.random.default_rng(seed)
    texts = [
        text_of(rng.normal(size=(length, 37)), special=[0, length - 1], ids=rng.integers(0, 9, length).tolist())
        for length in rng.integers(1, 14, 8)
    ]
    idf = idf_weights([text.ids for text in texts]) if weighted else None
    reply_of, reference_of = rng.integers(0, 8, (2, 20))
    together = bertscore(texts, texts, reply_of, reference_of, measure=measure, idf=idf)
    copies = [
        text_of(text.vectors, special=np.flatnonzero(text.special).tolist(), ids=text.ids.tolist()) for text in texts
    ]
    alone = [
        bertscore([copies[a]], [copies[b]], np.array([0]), np.array([0]), measure=measure, idf=idf)[0]
        for a, b in zip(reply_of, reference_of, strict=True)
    ]
    np.testing.assert_array_equal(together, alone)


# What has no value


def test_a_text_without_tokens_of_its_own_has_no_score() -> None:
    only_special = text_of([[1, 0], [0, 1]], special=[0, 1])
    nothing = text_of(np.empty((0, 2)))
    for measure in MEASURES:
        assert math.isnan(one_score(only_special, REFERENCE, measure))
        assert math.isnan(one_score(REPLY, nothing, measure))


def test_a_text_whose_tokens_all_weigh_nothing_has_no_score() -> None:
    idf = idf_weights([[5, 6, 7, 8]])
    assert set(idf.of_token.values()) == {0.0}
    assert all(math.isnan(one_score(REPLY, REFERENCE, measure, idf)) for measure in MEASURES)


def test_vectors_that_are_not_numbers_give_no_score_instead_of_a_bad_one() -> None:
    broken = text_of([[math.nan, 1.0], [1.0, 0.0]])
    assert all(math.isnan(one_score(broken, REFERENCE, measure)) for measure in MEASURES)


def test_f_is_zero_where_precision_or_recall_is_not_positive() -> None:
    opposite = text_of([[-1, 0]])
    assert one_score(text_of([[1, 0]]), opposite, "precision") == -1
    assert one_score(text_of([[1, 0]]), opposite) == 0
    mixed = text_of([[1, 0], [-1, 0.1], [-1, 0]])  # recall is 1, precision below 0
    assert one_score(mixed, text_of([[1, 0]]), "precision") < 0 < one_score(mixed, text_of([[1, 0]]), "recall")
    assert one_score(mixed, text_of([[1, 0]])) == 0


def test_a_vector_of_zeros_is_like_nothing() -> None:
    assert one_score(text_of([[0, 0], [1, 0]]), text_of([[1, 0]]), "precision") == pytest.approx(0.5)


def test_no_pairs_have_no_scores() -> None:
    none = np.empty(0, np.int64)
    assert bertscore([REPLY], [REFERENCE], none, none).tolist() == []
    assert bertscore([], [], none, none).tolist() == []
    assert sentence_cosine(np.empty((0, 4), np.float32), none, none).tolist() == []


def test_an_unknown_measure_is_refused_with_those_there_are() -> None:
    measure: Any = "f1"
    with pytest.raises(Usage) as refused:
        one_score(REPLY, REFERENCE, measure)
    assert repr("f1") in refused.value.message
    assert refused.value.remedy == "one of: f, precision, recall"


# idf


def test_idf_counts_distinct_references_and_each_token_once_in_each() -> None:
    references = [[1, 2, 2], [1, 3], [1, 2, 2], [4]]
    idf = idf_weights(references)
    assert dict(idf.of_token) == {1: math.log(4 / 3), 2: math.log(4 / 2), 3: math.log(4 / 2), 4: math.log(4 / 2)}
    assert idf.unseen == math.log(4)
    assert idf.of([3, 9, 1]).tolist() == [math.log(2), math.log(4), math.log(4 / 3)]


def test_hash_of_idf_weights_covers_the_references_but_not_their_order() -> None:
    references = [[1, 2], [3], [3, 4]]
    assert idf_weights(references).sha256 == idf_weights([*references[::-1], [3]]).sha256
    assert idf_weights(references).sha256 == idf_weights([np.array(one) for one in references]).sha256
    different = {idf_weights(some).sha256 for some in ([], [[1]], [[2]], [[1], [2]], references)}
    assert len(different) == 5


# Sentences


def test_sentence_cosines_are_those_of_the_rows() -> None:
    vectors = np.array([[3, 4], [1, 0], [-2, 0], [0, 0], [np.nan, 1]], np.float32)
    scores = sentence_cosine(vectors, np.array([0, 1, 0, 1, 3, 1]), np.array([1, 2, 0, 0, 0, 4]))
    np.testing.assert_array_equal(scores, [0.6, -1.0, 1.0, 0.6, np.nan, np.nan])


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 300), st.sampled_from("CF"))
def test_a_sentence_cosine_is_the_same_to_the_last_bit_in_any_batch(seed: int, dimensions: int, order: Any) -> None:
    rng = np.random.default_rng(seed)
    vectors = np.array(rng.normal(size=(6, dimensions)), np.float32, order=order)
    reply_of, reference_of = rng.integers(0, 6, (2, 15))
    scores = sentence_cosine(vectors, reply_of, reference_of)
    alone = [sentence_cosine(vectors, reply_of[[one]], reference_of[[one]])[0] for one in range(15)]
    np.testing.assert_array_equal(scores, alone)
    exact = vectors.astype(np.float64)
    unit = exact / np.linalg.norm(exact, axis=1)[:, None]
    np.testing.assert_allclose(scores, (unit @ unit.T)[reply_of, reference_of], atol=1e-12)


def test_more_pairs_than_are_taken_at_once_keep_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = np.random.default_rng(1).normal(size=(9, 4))
    reply_of, reference_of = np.random.default_rng(2).integers(0, 9, (2, 50))
    whole = sentence_cosine(vectors, reply_of, reference_of)
    monkeypatch.setattr("refaug.metrics.embeddings.encoder_metrics._NUMBERS_AT_ONCE", 28)
    np.testing.assert_array_equal(sentence_cosine(vectors, reply_of, reference_of), whole)


# With an encoder


def test_the_encodings_of_an_encoder_are_scored_as_they_come(tmp_path: Path) -> None:
    encoder = open_encoder(write_encoder(tmp_path))
    texts = ["the cat", "i like tea !", "the cat", ""]
    encoded = encoder.token_vectors(texts)
    reply_of, reference_of = np.array([0, 0, 3]), np.array([2, 1, 1])
    scores = bertscore(encoded, encoded, reply_of, reference_of)
    assert scores[0] == pytest.approx(1, abs=1e-6)
    assert scores[1] == pytest.approx(plain_bertscore(encoded[0], encoded[1], None)["f"], abs=1e-6)
    assert scores[1] < 0.9
    assert math.isnan(scores[2])
    cosines = sentence_cosine(encoder.sentence_vectors(texts), reply_of, reference_of)
    assert cosines[0] == pytest.approx(1, abs=1e-6)
    assert math.isnan(cosines[2])
