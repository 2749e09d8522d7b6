"""Embedding metrics: examples by hand, a plain loop as oracle, and one value for a pair whatever is around it."""

from __future__ import annotations

import math
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refaug.core.vectors.word_vectors import WordVectors
from refaug.metrics.embeddings import embedding
from refaug.metrics.embeddings.embedding import EmbeddingSpace, Measure, Similarity, Weighting

# The plain form, a pair at a time, in float64


def known_vectors(tokens, vectors):
    return [vectors.matrix[vectors.index[token]].astype(np.float64) for token in tokens if token in vectors.index]


def cosine_plain(a, b):
    norms = np.linalg.norm(a) * np.linalg.norm(b)
    return float(a @ b / norms) if norms else 0.0


def weights_plain(tokens, vectors, weighting):
    known = [token for token in tokens if token in vectors.index]
    if weighting is Weighting.NONE:
        return [1.0] * len(known)
    return [1e-3 / (1e-3 + vectors.frequency(token)) for token in known]


def one_way_plain(tokens, others, vectors, weighting):
    best = [
        max(cosine_plain(vector, other) for other in known_vectors(others, vectors))
        for vector in known_vectors(tokens, vectors)
    ]
    return float(np.average(best, weights=weights_plain(tokens, vectors, weighting)))


def greedy_plain(reply, reference, vectors, measure=Measure.MEAN, weighting=Weighting.NONE):
    if not known_vectors(reply, vectors) or not known_vectors(reference, vectors):
        return math.nan
    precision = one_way_plain(reply, reference, vectors, weighting)
    recall = one_way_plain(reference, reply, vectors, weighting)
    harmonic = 2 * precision * recall / (precision + recall) if precision > 0 and recall > 0 else 0.0
    mean = (precision + recall) / 2
    return {Measure.PRECISION: precision, Measure.RECALL: recall, Measure.F: harmonic, Measure.MEAN: mean}[measure]


def average_plain(reply, reference, vectors, weighting=Weighting.NONE):
    texts = [(known_vectors(text, vectors), weights_plain(text, vectors, weighting)) for text in (reply, reference)]
    if not all(vectors_of for vectors_of, _ in texts):
        return math.nan
    return cosine_plain(*(np.average(vectors_of, axis=0, weights=weights) for vectors_of, weights in texts))


def extrema_plain(reply, reference, vectors):
    extremes = []
    for text in (reply, reference):
        if not (found := known_vectors(text, vectors)):
            return math.nan
        high, low = np.max(found, axis=0), np.min(found, axis=0)
        extremes.append(np.where(high > np.abs(low), high, low))
    return cosine_plain(*extremes)


def pooled_plain(reply, reference, vectors):
    pooled = []
    for text in (reply, reference):
        if not (found := known_vectors(text, vectors)):
            return math.nan
        pooled.append(np.concatenate([np.max(found, axis=0), np.min(found, axis=0)]))
    return cosine_plain(*pooled)


def plain(reply, reference, vectors, similarity, measure, weighting):
    if similarity is Similarity.GREEDY:
        return greedy_plain(reply, reference, vectors, measure, weighting)
    if similarity is Similarity.AVERAGE:
        return average_plain(reply, reference, vectors, weighting)
    if similarity is Similarity.POOLED:
        return pooled_plain(reply, reference, vectors)
    return extrema_plain(reply, reference, vectors)


# Small vectors, texts and ways to ask


def space_of(rows, weighting=Weighting.NONE, counts=None):
    matrix = np.array(list(rows.values()), np.float32)
    return EmbeddingSpace(WordVectors(list(rows), matrix, None if counts is None else np.array(counts)), weighting)


def score(space, reply, reference, **how):
    replies, references = space.pack([reply.split()]), space.pack([reference.split()])
    return float(space.pair_scores(replies, references, np.array([0]), np.array([0]), **how)[0])


VOCABULARY = [f"w{number}" for number in range(40)]
WAYS = [
    (Similarity.AVERAGE, Measure.MEAN),
    (Similarity.EXTREMA, Measure.MEAN),
    (Similarity.POOLED, Measure.MEAN),
    *((Similarity.GREEDY, measure) for measure in Measure),
]


def random_vectors(dimensions, seed=0):
    random = np.random.default_rng(seed)
    matrix = random.standard_normal((len(VOCABULARY), dimensions)).astype(np.float32)
    matrix[7] = 0.0
    return WordVectors(VOCABULARY, matrix, np.sort(random.integers(1, 10_000, len(VOCABULARY)))[::-1].copy())


def random_texts(random, number, longest=9):
    """Texts with repeated and unknown words; one in ten has no known word."""
    words = [*VOCABULARY, "unknown", "strange"]
    texts = [[words[i] for i in random.integers(0, len(words), random.integers(1, longest))] for _ in range(number)]
    for text in texts[::10]:
        text[:] = text[:0] if random.random() < 0.5 else ["unknown"]
    return texts


# Examples by hand


COMPASS = {"east": [1, 0], "north": [0, 2], "west": [-3, 0], "northeast": [1, 1], "nowhere": [0, 0]}


@pytest.mark.parametrize(
    ("reply", "reference", "expected"),
    [
        ("east", "north", 0.0),
        ("east", "west", -1.0),
        ("east east", "east", 1.0),
        ("east north", "east", 1 / math.sqrt(5)),  # (1, 2): vectors as published, not scaled to unit length
        ("east west", "west", 1.0),
        ("east and north", "east", 1 / math.sqrt(5)),
        ("nowhere", "east", 0.0),
        ("nowhere", "nowhere", 0.0),
    ],
)
def test_average_is_the_cosine_of_sums(reply, reference, expected):
    assert score(space_of(COMPASS), reply, reference, similarity=Similarity.AVERAGE) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("reply", "reference", "expected"),
    [
        ("a b", "first", 1.0),  # highs (5, 2, 1), lows (-4, -3, 0): 5 > 4 but 2 < 3
        ("b a", "first", 1.0),
        ("a b b a b", "first", 1.0),
        ("a", "b", (-20 - 6 + 0) / math.sqrt((25 + 4 + 1) * (16 + 9))),
        ("up down", "down", 1.0),  # of two equal magnitudes the negative one
        ("down up", "up", -1.0),
    ],
)
def test_extrema_keep_the_value_farthest_from_zero(reply, reference, expected):
    space = space_of(
        {"a": [5, 2, 1], "b": [-4, -3, 0], "first": [5, -3, 1], "up": [1, 1, 1], "down": [-1, -1, -1]}
    )  # fmt: skip
    assert score(space, reply, reference, similarity=Similarity.EXTREMA) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("reply", "reference", "expected"),
    [
        ("a b", "b a a", 1.0),
        # a: (1, 2; 1, 2); a b: (3, 2; 1, -4)
        ("a", "a b", (3 + 4 + 1 - 8) / math.sqrt(10 * 30)),
        # (3, -4; 3, -4) and (1, 2; 1, 2)
        ("b", "a", (3 - 8 + 3 - 8) / math.sqrt(50 * 10)),
        ("a zero", "b zero", (3 + 0 + 0 + 0) / math.sqrt(5 * 25)),  # (1, 2; 0, 0) and (3, 0; 0, -4)
        ("zero", "a", 0.0),
    ],
)
def test_pooling_keeps_the_largest_and_the_smallest_value(reply, reference, expected):
    space = space_of({"a": [1, 2], "b": [3, -4], "zero": [0, 0]})
    assert score(space, reply, reference, similarity=Similarity.POOLED) == pytest.approx(expected)


HALF = math.sqrt(0.5)


@pytest.mark.parametrize(
    ("reply", "reference", "precision", "recall"),
    [
        ("east", "east north", 1.0, 0.5),
        ("east north", "northeast", HALF, HALF),
        ("east east north", "east", 2 / 3, 1.0),  # every occurrence counts
        ("east unknown", "east strange strange", 1.0, 1.0),  # words without a vector do not
        ("east west", "northeast", 0.0, HALF),
        ("west", "east northeast", -HALF, (-1 - HALF) / 2),
        ("nowhere east", "east nowhere", 0.5, 0.5),
    ],
)
def test_greedy_matching_in_both_directions_and_their_means(reply, reference, precision, recall):
    space = space_of(COMPASS)
    harmonic = 2 * precision * recall / (precision + recall) if min(precision, recall) > 0 else 0.0
    expected = [precision, recall, harmonic, (precision + recall) / 2]
    found = [score(space, reply, reference, similarity=Similarity.GREEDY, measure=measure) for measure in Measure]
    assert found == pytest.approx(expected, abs=1e-7)


def test_sif_weights_are_a_over_a_plus_p():
    counts = [997, 2, 1]  # p = 0.997, 0.002, 0.001: weights 1/998, 1/3, 1/2
    space = space_of({"the": [1, 0], "cat": [0, 1], "sat": [1, 1]}, Weighting.SIF, counts)
    recall = (1 / 998 * HALF + 1 / 2) / (1 / 998 + 1 / 2)
    assert score(space, "sat", "the sat", measure=Measure.RECALL) == pytest.approx(recall, rel=1e-6)
    mean = np.array([1 / 998, 1 / 3])
    expected = mean[0] / np.linalg.norm(mean)
    assert score(space, "the cat", "the", similarity=Similarity.AVERAGE) == pytest.approx(expected)


@pytest.mark.parametrize("similarity", [Similarity.EXTREMA, Similarity.POOLED])
def test_extrema_and_pooling_know_no_weights(similarity):
    vectors = random_vectors(5)
    texts = [" ".join(VOCABULARY[:5]), " ".join(VOCABULARY[10:13])]
    scores = [score(EmbeddingSpace(vectors, weighting), *texts, similarity=similarity) for weighting in Weighting]
    assert scores[0] == scores[1]


# Agreement with the plain form


@pytest.mark.parametrize("weighting", list(Weighting))
@pytest.mark.parametrize("dimensions", [1, 3, 25, 67])
def test_batches_agree_with_the_plain_loop(dimensions, weighting):
    vectors, random = random_vectors(dimensions), np.random.default_rng(dimensions)
    replies, references = random_texts(random, 30), random_texts(random, 60)
    reply_of = np.sort(random.integers(0, len(replies), 200))
    reference_of = random.integers(0, len(references), 200)
    space = EmbeddingSpace(vectors, weighting)
    packed = space.pack(replies), space.pack(references)
    for similarity, measure in WAYS:
        found = space.pair_scores(*packed, reply_of, reference_of, similarity=similarity, measure=measure)
        expected = [
            plain(replies[i], references[j], vectors, similarity, measure, weighting)
            for i, j in zip(reply_of, reference_of, strict=True)
        ]
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_any_texts_over_any_vectors_agree_with_the_plain_loop(data):
    number = st.floats(-100, 100, width=32).map(lambda value: value if abs(value) > 1e-3 else 0.0)
    row = st.lists(number, min_size=3, max_size=3)
    matrix = np.array(data.draw(st.lists(row, min_size=4, max_size=4)), np.float32)
    vectors = WordVectors(list("abcd"), matrix)
    text = st.lists(st.sampled_from("abcdx"), max_size=7)
    reply, references = data.draw(text), data.draw(st.lists(text, min_size=1, max_size=4))
    similarity, measure = data.draw(st.sampled_from(WAYS))
    weighting = data.draw(st.sampled_from(list(Weighting)))
    space = EmbeddingSpace(vectors, weighting)
    found = space.pair_scores(
        space.pack([reply]),
        space.pack(references),
        np.zeros(len(references), np.int64),
        np.arange(len(references)),
        similarity=similarity,
        measure=measure,
    )
    expected = [plain(reply, reference, vectors, similarity, measure, weighting) for reference in references]
    if similarity is not Similarity.AVERAGE or not any(abs(value) < 1e-9 for value in expected):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
    assert np.all(np.isnan(found) | ((found >= -1.0) & (found <= 1.0)))


# The same value for a pair, to the last bit


@pytest.fixture(scope="module")
def big():
    """Texts, pairs of them, and all their values from one call."""
    vectors, random = random_vectors(33, seed=5), np.random.default_rng(11)
    replies, references = random_texts(random, 50, longest=14), random_texts(random, 120, longest=14)
    reply_of, reference_of = np.repeat(np.arange(50), 12), random.integers(0, 120, 600)
    space = EmbeddingSpace(vectors, Weighting.SIF)
    packed = space.pack(replies), space.pack(references)
    values = {way: values_of(space, *packed, reply_of, reference_of, way) for way in WAYS}
    return vectors, replies, references, reply_of, reference_of, values


def values_of(space, replies, references, reply_of, reference_of, way):
    return space.pair_scores(replies, references, reply_of, reference_of, similarity=way[0], measure=way[1])


@pytest.mark.parametrize("way", WAYS)
def test_the_order_of_pairs_does_not_change_a_bit(big, way):
    vectors, replies, references, reply_of, reference_of, values = big
    space = EmbeddingSpace(vectors, Weighting.SIF)
    packed = space.pack(replies), space.pack(references)
    for order in (np.arange(600)[::-1], np.random.default_rng(2).permutation(600)):
        found = values_of(space, *packed, reply_of[order], reference_of[order], way)
        np.testing.assert_array_equal(found, values[way][order])


@pytest.mark.parametrize("way", WAYS)
def test_batch_size_and_earlier_packing_do_not_change_a_bit(big, way):
    vectors, replies, references, reply_of, reference_of, values = big
    space = EmbeddingSpace(vectors, Weighting.SIF)
    found = []
    for start, stop in pairwise([0, 1, 2, 40, 41, 300, 305, 600]):
        packed = space.pack([replies[i] for i in reply_of[start:stop]])
        others = space.pack([references[i] for i in reference_of[start:stop][::-1]])  # other numbers for the words
        pairs = np.arange(stop - start)
        found.append(values_of(space, packed, others, pairs, pairs[::-1], way))
    np.testing.assert_array_equal(np.concatenate(found), values[way])


@pytest.mark.parametrize("way", WAYS)
def test_a_pair_alone_in_a_new_space_has_the_same_value(big, way):
    vectors, replies, references, reply_of, reference_of, values = big
    for pair in range(0, 600, 23):
        space = EmbeddingSpace(vectors, Weighting.SIF)
        packed = space.pack([replies[reply_of[pair]]]), space.pack([references[reference_of[pair]]])
        found = values_of(space, *packed, np.array([0]), np.array([0]), way)
        np.testing.assert_array_equal(found, values[way][pair : pair + 1])


def test_threads_that_share_a_space_get_the_same_values(big):
    vectors, replies, references, reply_of, reference_of, values = big
    space = EmbeddingSpace(vectors, Weighting.SIF)
    way = WAYS[-1]

    def work(start):
        chosen = slice(start, start + 60)
        packed = (
            space.pack([replies[i] for i in reply_of[chosen]]),
            space.pack([references[i] for i in reference_of[chosen]]),
        )
        return values_of(space, *packed, np.arange(60), np.arange(60), way)

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(work, range(0, 600, 60)))
    np.testing.assert_array_equal(np.concatenate(found), values[way])


def test_more_references_than_a_table_holds_change_nothing():
    vectors, random = random_vectors(4), np.random.default_rng(1)
    references = random_texts(random, 1500)
    long_one = [VOCABULARY[i] for i in random.integers(0, 40, 5000)]
    references.insert(700, long_one)
    assert sum(map(len, references)) > 2 * embedding._MOST_COLUMNS
    space = EmbeddingSpace(vectors)
    reply, packed = space.pack([VOCABULARY[:6]]), space.pack(references)
    together = space.pair_scores(reply, packed, np.zeros(1501, np.int64), np.arange(1501))
    alone = [space.pair_scores(reply, packed, np.array([0]), np.array([i]))[0] for i in range(0, 1501, 50)]
    np.testing.assert_array_equal(together[::50], alone)
    assert together[700] == pytest.approx(greedy_plain(VOCABULARY[:6], long_one, vectors), abs=1e-5)


@pytest.mark.parametrize("way", WAYS)
def test_a_text_has_exactly_one_with_itself_and_greedy_f_is_symmetric(way):
    random, space = np.random.default_rng(4), EmbeddingSpace(random_vectors(29))
    texts = [[word for word in text if word != "w7"] for text in random_texts(random, 40)]  # w7 is the zero vector
    packed = space.pack([text for text in texts if set(text) & set(VOCABULARY)])
    same = np.arange(len(packed))
    np.testing.assert_array_equal(values_of(space, packed, packed, same, same, way), 1.0)
    if way[1] in (Measure.F, Measure.MEAN):
        there = values_of(space, packed, packed, same, same[::-1], way)
        back = values_of(space, packed, packed, same[::-1], same, way)
        np.testing.assert_allclose(there, back, rtol=0, atol=1e-6)


# Long texts


@pytest.mark.parametrize(("rows", "columns"), [(4, 1), (4, 7), (8, 4096), (2048, 1), (12, 15)])
def test_table_too_small_for_a_pair_is_filled_in_parts_with_equal_bits(monkeypatch, big, rows, columns):
    vectors, replies, references, reply_of, reference_of, values = big
    monkeypatch.setattr("refaug.metrics.embeddings.embedding._MOST_ROWS", rows)
    monkeypatch.setattr("refaug.metrics.embeddings.embedding._MOST_COLUMNS", columns)
    space = EmbeddingSpace(vectors, Weighting.SIF)
    packed = space.pack(replies), space.pack(references)
    for way in WAYS:
        np.testing.assert_array_equal(values_of(space, *packed, reply_of, reference_of, way), values[way])


def test_texts_with_more_words_than_the_table_holds_agree_with_numpy():
    random = np.random.default_rng(9)
    matrix = random.standard_normal((5000, 3)).astype(np.float32)
    space = EmbeddingSpace(WordVectors([str(number) for number in range(5000)], matrix))
    texts = [random.permutation(5000)[:count] for count in (2100, 30, 4300)]  # 2048 words of a reply, 4096 of others
    packed = space.pack([[str(number) for number in text] for text in texts])
    reply_of, reference_of = np.repeat(np.arange(3), 3), np.tile(np.arange(3), 3)
    unit = matrix / np.linalg.norm(matrix, axis=1, keepdims=True)
    for measure, axis in ((Measure.PRECISION, 1), (Measure.RECALL, 0)):
        found = space.pair_scores(packed, packed, reply_of, reference_of, measure=measure)
        expected = [
            (unit[texts[i]] @ unit[texts[j]].T).max(axis=axis).mean()
            for i, j in zip(reply_of, reference_of, strict=True)
        ]
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


MEMORY = """
import resource
import numpy as np
from refaug.core.vectors.word_vectors import WordVectors
from refaug.metrics.embeddings.embedding import EmbeddingSpace

def grown_by(texts):
    packed, before = space.pack(texts), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    value = space.pair_scores(packed, packed, np.array([0]), np.array([1]))[0]
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024, value

random = np.random.default_rng(3)
words = [str(number) for number in range(20_000)]
space = EmbeddingSpace(WordVectors(words, random.standard_normal((20_000, 2)).astype(np.float32)))
grown_by([["1"], ["2"]])
print(*grown_by([words[:700] * 143, words[699::-1] * 143]))
print(*grown_by([words[:10_000], words[10_000:]]))
"""


@pytest.mark.slow
def test_memory_stays_small_however_long_the_texts_are():
    done = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True)
    (repeated, value), (different, _) = (map(float, line.split()) for line in done.stdout.splitlines())
    assert value == 1.0  # each word has itself on the other side
    assert repeated < 20  # megabytes; a row and a column for each of 100 000 tokens would be 40 000
    assert different < 60  # all cosines of 10 000 × 10 000 words would be 400


# What has no value


def test_a_pair_without_known_words_on_one_side_is_nan():
    space = space_of(COMPASS)
    replies, references = space.pack([["east"], [], ["?"]]), space.pack([["north"], ["?", "!"]])
    reply_of, reference_of = np.repeat(np.arange(3), 2), np.tile(np.arange(2), 3)
    for way in WAYS:
        found = values_of(space, replies, references, reply_of, reference_of, way)
        assert np.isnan(found).tolist() == [False, True, True, True, True, True]


def test_nothing_at_all_is_scored_as_nothing():
    space = space_of(COMPASS)
    empty, pairs = space.pack([]), np.empty(0, np.int64)
    for way in WAYS:
        assert values_of(space, empty, empty, pairs, pairs, way).shape == (0,)
    only_unknown = space.pack([["?"]])
    assert np.isnan(space.pair_scores(only_unknown, only_unknown, np.array([0]), np.array([0]))).all()


def test_packing_keeps_known_words_in_order_and_counts_the_others():
    space = space_of(COMPASS)
    packed = space.pack([["west", "?", "east", "west"], [], ["?", "?"], ["north"]])
    assert len(packed) == 4
    assert packed.words.tolist() == [0, 1, 0, 2]
    assert packed.starts.tolist() == [0, 3, 3, 3, 4]
    assert packed.known.tolist() == [3, 0, 0, 1]
    assert packed.unknown.tolist() == [1, 0, 2, 0]


@pytest.mark.parametrize(("reply", "reference"), [(1, 0), (0, 1), (-1, 0), (0, -1)])
def test_an_index_outside_the_texts_never_reaches_a_loop(reply, reference):
    space = space_of(COMPASS)
    packed = space.pack([["east"]])
    with pytest.raises(AssertionError):
        space.pair_scores(packed, packed, np.array([reply]), np.array([reference]))


def test_texts_packed_by_another_space_are_refused():
    space, other = space_of(COMPASS), space_of(COMPASS)
    with pytest.raises(AssertionError, match="another space"):
        space.pair_scores(space.pack([["east"]]), other.pack([["east"]]), np.array([0]), np.array([0]))


def test_only_words_that_were_met_are_made_ready(tmp_path):
    matrix = np.memmap(tmp_path / "rows", np.float32, "w+", shape=(100_000, 8))
    matrix[:] = np.nan  # any row that is touched would show
    matrix[[5, 70_000]] = np.eye(2, 8)
    vectors = WordVectors([str(number) for number in range(100_000)], matrix)
    space = EmbeddingSpace(vectors)
    assert score(space, "5 70000", "70000") == 0.75
    assert score(space, "5", "5 70000", similarity=Similarity.AVERAGE) == pytest.approx(HALF)
