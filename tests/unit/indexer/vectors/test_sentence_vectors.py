"""Sentence vectors against plain numpy from their definition; and the same bits whatever the batch or the threads."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as trying
from hypothesis import strategies as st
from refusals import refusing

from refaug.core.errors import Usage
from refaug.core.kernels.kernel import compiled, frozen
from refaug.core.text.tokenizers import get_tokenizer
from refaug.core.vectors.word_vectors import WordVectors, open_word_vectors
from refaug.indexer.tokens import Splitter, WordTable
from refaug.indexer.vectors.sentence_vectors import (
    SentenceSettings,
    WordWeights,
    embed,
    query_vectors,
    row_similarity,
)

SETTINGS = [
    SentenceSettings(norm_words=norm_words, oov=oov, weighting=weighting)
    for norm_words, oov, weighting in itertools.product([True, False], ["skip", "unk"], ["mean", "sif"])
]
WORDS = 150


def vectors_of(*, dimensions: int = 21, counts: bool = False, **changes: Any) -> WordVectors:
    generator = np.random.default_rng(7)
    matrix = generator.normal(size=(WORDS, dimensions)).astype(np.float32) * generator.uniform(0.1, 5, (WORDS, 1))
    matrix = matrix.astype(np.float32)
    matrix[3] = 0
    matrix[5] = -matrix[4]
    numbers = np.sort(generator.integers(1, 10_000, WORDS))[::-1].copy() if counts else None
    values = {"words": [f"w{row}" for row in range(WORDS)], "matrix": matrix, "counts": numbers}
    return WordVectors(**(values | changes))


def with_unk(**changes: Any) -> WordVectors:
    return vectors_of(words=[f"w{row}" if row != 60 else "<unk>" for row in range(WORDS)], **changes)


def packed(texts: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    codes = np.array([code for text in texts for code in text], np.int32)
    return codes, np.cumsum([0, *map(len, texts)]).astype(np.int64)


def row_similarities(weights, codes, offsets, query, rows) -> np.ndarray:
    """The similarity of each of these rows, texts of `offsets`, to a query of unit length."""
    scratch, arrays = np.empty(weights.dimensions), (frozen(codes), frozen(offsets), frozen(query))
    codes, offsets, query = arrays
    return np.array(
        [row_similarity(weights, codes, offsets[row], offsets[row + 1], query, scratch) for row in rows.tolist()]
    )


def by_definition(vectors: WordVectors, settings: SentenceSettings, text: list[int]) -> np.ndarray | None:
    """The unit vector of one text in float64; None where it has none."""
    rows = len(vectors.words)
    matrix = vectors.matrix.astype(np.float64)
    probability = vectors.frequencies(np.arange(rows))

    def weighed(vector: np.ndarray, p: float) -> np.ndarray:
        if settings.norm_words and np.linalg.norm(vector) > 0:
            vector = vector / np.linalg.norm(vector)
        return vector * (settings.sif_a / (settings.sif_a + p)) if settings.weighting == "sif" else vector

    rare = matrix[vectors.words.index("<unk>")] if "<unk>" in vectors.words else matrix[-100:].mean(axis=0)
    total = np.zeros(vectors.dimensions)
    for code in text:
        if 0 <= code < rows:
            total += weighed(matrix[code], probability[code])
        elif settings.oov == "unk":
            total += weighed(rare, probability[-1])
    if not any(0 <= code < rows for code in text) or not total.any():
        return None
    return total / np.linalg.norm(total)


texts_of_codes = st.lists(st.lists(st.integers(-1, WORDS + 5), max_size=9), max_size=6)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("make", [vectors_of, with_unk])
@pytest.mark.parametrize("counts", [True, False])
def test_every_setting_gives_the_vectors_of_its_definition(settings, make, counts):
    vectors = make(counts=counts)
    generator = np.random.default_rng(1)
    texts = [generator.integers(-1, WORDS + 9, size).tolist() for size in generator.integers(0, 15, 60)]
    texts += [[], [-1, WORDS], [3], [3, -1], [4, 5], [4, 5, -1]]
    rows, known = embed(WordWeights.of(vectors, settings), *packed(texts))
    assert (rows.dtype, rows.shape) == (np.float32, (len(texts), vectors.dimensions))
    for row, is_known, text in zip(rows, known.tolist(), texts, strict=True):
        expected = by_definition(vectors, settings, text)
        assert is_known == (expected is not None)
        np.testing.assert_allclose(row, 0 if expected is None else expected, rtol=0, atol=1e-7)


@given(texts=texts_of_codes, setting=st.sampled_from(SETTINGS))
@trying(deadline=None)
def test_any_texts_have_the_vectors_and_similarities_of_their_definition(texts, setting):
    vectors = vectors_of()
    weights = WordWeights.of(vectors, setting)
    codes, offsets = packed(texts)
    expected = [by_definition(vectors, setting, text) for text in texts]
    found, known = query_vectors(weights, codes, offsets)
    query = np.random.default_rng(2).normal(size=vectors.dimensions)
    query /= np.linalg.norm(query)
    similarities = row_similarities(weights, codes, offsets, query, np.arange(len(texts)))
    for row, is_known, similarity, vector in zip(found, known.tolist(), similarities, expected, strict=True):
        assert is_known == (vector is not None)
        np.testing.assert_allclose(row, 0 if vector is None else vector, rtol=0, atol=1e-12)
        assert similarity == pytest.approx(0 if vector is None else vector @ query, abs=0.51e-6)


def test_text_without_any_known_word_has_no_vector_even_with_unk():
    weights = WordWeights.of(vectors_of(), SentenceSettings(oov="unk"))
    rows, known = embed(weights, *packed([[-1, WORDS], [], [0, -1]]))
    assert known.tolist() == [False, False, True]
    assert not rows[:2].any()
    assert not np.signbit(rows[:2]).any()


def test_words_that_cancel_each_other_leave_no_vector():
    weights = WordWeights.of(vectors_of(), SentenceSettings())
    rows, known = embed(weights, *packed([[4, 5], [3], [4, 5, 4]]))
    assert known.tolist() == [False, False, True]
    assert not rows[:2].any()


def test_an_unknown_word_turns_the_vector_towards_that_of_unk():
    vectors = WordVectors(words=["right", "<unk>"], matrix=np.array([[2, 0], [0, 8]], np.float32))
    text = packed([[0, -1]])
    skipped, _ = embed(WordWeights.of(vectors, SentenceSettings()), *text)
    scaled, _ = embed(WordWeights.of(vectors, SentenceSettings(oov="unk")), *text)
    raw, _ = embed(WordWeights.of(vectors, SentenceSettings(oov="unk", norm_words=False)), *text)
    np.testing.assert_allclose(skipped, [[1, 0]])
    np.testing.assert_allclose(scaled, [[math.sqrt(0.5), math.sqrt(0.5)]], rtol=1e-7)
    np.testing.assert_allclose(raw, [[2 / math.sqrt(68), 8 / math.sqrt(68)]], rtol=1e-7)


def test_no_texts_have_no_vectors():
    weights = WordWeights.of(vectors_of(), SentenceSettings())
    rows, known = embed(weights, *packed([]), threads=2)
    assert (rows.shape, known.shape) == ((0, 21), (0,))
    assert row_similarities(weights, *packed([]), np.zeros(21), np.zeros(0, np.int64)).tolist() == []


# The same bits


@pytest.mark.parametrize("settings", SETTINGS[:4], ids=str)
@pytest.mark.parametrize("dimensions", [1, 8, 21, 200])
def test_neither_batch_nor_threads_change_a_bit(settings, dimensions):
    weights = WordWeights.of(vectors_of(dimensions=dimensions), settings)
    generator = np.random.default_rng(3)
    texts = [generator.integers(-1, WORDS, size).tolist() for size in generator.integers(0, 15, 101)]
    codes, offsets = packed(texts)
    whole, known = embed(weights, codes, offsets)
    for threads in (2, 3, 64, 200):
        rows, also_known = embed(weights, codes, offsets, threads)
        assert rows.tobytes() == whole.tobytes()
        assert also_known.tolist() == known.tolist()
    one_by_one = [embed(weights, *packed([text]))[0] for text in texts]
    assert np.concatenate(one_by_one).tobytes() == whole.tobytes()
    later, _ = embed(weights, codes, offsets[40:])
    assert later.tobytes() == whole[40:].tobytes()
    assert query_vectors(weights, codes, offsets)[0].astype(np.float32).tobytes() == whole.tobytes()


def in_eight_lanes(left: list[float], right: list[float]) -> float:
    lanes = [0.0] * 8
    whole = len(left) - len(left) % 8
    for place, (one, other) in enumerate(zip(left, right, strict=True)):
        lanes[place % 8 if place < whole else 0] += one * other
    a, b, c, d, e, f, g, h = lanes
    return ((a + b) + (c + d)) + ((e + f) + (g + h))


@pytest.mark.parametrize("dimensions", [3, 8, 21, 100])
def test_similarities_equal_plain_python_sums_to_the_last_bit(dimensions):
    vectors = vectors_of(dimensions=dimensions)
    weights = WordWeights.of(vectors, SentenceSettings(norm_words=True, weighting="sif"))
    matrix = [[float(number) for number in row] for row in vectors.matrix]
    probability = vectors.frequencies(np.arange(WORDS))
    generator = np.random.default_rng(4)
    texts = [generator.integers(0, WORDS, size).tolist() for size in generator.integers(1, 15, 50)]
    query = generator.normal(size=dimensions)
    query /= np.linalg.norm(query)
    expected = []
    for text in texts:
        sums = [0.0] * dimensions
        for code in text:
            length = math.sqrt(in_eight_lanes(matrix[code], matrix[code]))
            scale = (1 / length if length else 0.0) * (1e-3 / (1e-3 + probability[code]))
            sums = [total + scale * number for total, number in zip(sums, matrix[code], strict=True)]
        length = math.sqrt(in_eight_lanes(sums, sums))
        similarity = in_eight_lanes(sums, query.tolist()) / length if length else 0.0
        expected.append(float(np.round(similarity, 6)))
    assert row_similarities(weights, *packed(texts), query, np.arange(50)).tolist() == expected


def test_rows_are_answered_in_the_order_asked():
    weights = WordWeights.of(vectors_of(), SentenceSettings())
    codes, offsets = packed([[1, 2], [-1], [7], [2, 1]])
    query = query_vectors(weights, *packed([[1, 2]]))[0][0]
    similarities = row_similarities(weights, codes, offsets, query, np.array([1, 3, 0, 0, 2]))
    assert similarities[:4].tolist() == [0.0, 1.0, 1.0, 1.0]
    assert similarities[4] < 1


@compiled
def best_row(weights, codes, offsets, query, scratch):
    best, highest = -1, -np.inf
    for row in range(offsets.size - 1):
        similarity = row_similarity(weights, codes, offsets[row], offsets[row + 1], query, scratch)
        if similarity > highest:
            best, highest = row, similarity
    return best, highest


def test_another_compiled_loop_can_ask_for_a_similarity():
    weights = WordWeights.of(vectors_of(), SentenceSettings(oov="unk"))
    texts = packed([[9, 8], [11, -1, 13], [13, 11, -1], [2]])
    query = query_vectors(weights, *packed([[-1, 13, 11]]))[0][0]
    assert best_row(weights, *texts, query, np.empty(21)) == (1, 1.0)


# Words to vectors


def test_mapped_vectors_are_used_where_they_lie(tmp_path):
    vectors_of().save(tmp_path / "vectors")
    vectors = open_word_vectors(tmp_path / "vectors")
    weights = WordWeights.of(vectors, SentenceSettings())
    assert np.shares_memory(weights.matrix, vectors.matrix)
    texts = packed([[0, 1], [4]])
    in_memory = WordWeights.of(vectors_of(), SentenceSettings())
    assert embed(weights, *texts)[0].tobytes() == embed(in_memory, *texts)[0].tobytes()


def test_japanese_sentences_are_the_means_of_their_mecab_words():
    words = ["猫", "が", "好き", "です", "。", "犬"]
    matrix = np.random.default_rng(5).normal(size=(6, 10)).astype(np.float32)
    vectors = WordVectors(words=words, matrix=matrix)
    tokens = Splitter(get_tokenizer("mecab")).split(["猫が好きです。", "犬です", "", "空は青い", "猫は犬が好き"])
    codes = WordTable.of(words).codes(tokens.hashes)
    rows, known = embed(WordWeights.of(vectors, SentenceSettings()), codes, tokens.offsets)
    unit = matrix / np.linalg.norm(matrix.astype(np.float64), axis=1, keepdims=True)
    means = [unit[[0, 1, 2, 3, 4]].mean(0), unit[[5, 3]].mean(0), unit[[0, 5, 1, 2]].mean(0)]
    assert known.tolist() == [True, True, False, False, True]
    np.testing.assert_allclose(rows[[0, 1, 4]], [mean / np.linalg.norm(mean) for mean in means], atol=1e-7)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [({"oov": "mean"}, "oov='mean'"), ({"weighting": "idf"}, "'idf'"), ({"sif_a": 0.0}, "sif_a=0.0")]
    + [({"sif_a": value}, "sif_a") for value in (-1.0, math.nan, math.inf)],
)
def test_settings_that_mean_nothing_are_refused(wrong, named):
    with refusing(Usage, named):
        SentenceSettings(**wrong)
