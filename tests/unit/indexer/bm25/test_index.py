"""BM25: against its definition in plain Python, and against bm25s itself."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import bm25s
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_bm25 import PlainBm25
from refusals import refusing

from refaug.core.errors import Corrupt, Usage
from refaug.core.kernels.kernel import frozen
from refaug.core.progress import Silent
from refaug.indexer.bm25.index import Bm25Index, build_bm25
from refaug.indexer.bm25.scores import (
    Bm25Settings,
    Bm25Statistics,
    bm25_row_score,
    brute_force,
    select_queries,
    self_scores,
    weigh_queries,
)

VOCABULARY = 8
Texts = Sequence[Sequence[int]]

texts = st.lists(st.lists(st.integers(0, VOCABULARY - 1), max_size=8), min_size=1, max_size=25)
# -1 is a word that nobody knows; beyond the vocabulary are words that came after the index
queries = st.lists(st.lists(st.integers(-1, VOCABULARY + 2), max_size=8), min_size=1, max_size=4)
parameters = st.builds(Bm25Settings, k1=st.sampled_from([0.0, 0.9, 1.2, 2.5]), b=st.sampled_from([0.0, 0.4, 0.75, 1.0]))


@pytest.fixture(autouse=True)
def _quiet_bm25s(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "bm25s")


def coded(some: Texts) -> tuple[np.ndarray, np.ndarray]:
    codes = np.array([code for text in some for code in text], np.int32)
    return frozen(codes), frozen(np.cumsum([0, *map(len, some)]).astype(np.int64))


@contextmanager
def built(some: Texts, chosen: Bm25Settings | None = None, responses: Texts | None = None) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        build_bm25(
            *coded(some), VOCABULARY, chosen or Bm25Settings(), Path(folder) / "bm25", Silent(),
            responses=None if responses is None else coded(responses),
        )  # fmt: skip
        yield Path(folder) / "bm25"


def by_bm25s(some: Texts, chosen: Bm25Settings) -> bm25s.BM25:
    """bm25s's own index of the texts, from numbers."""
    index = bm25s.BM25(k1=chosen.k1, b=chosen.b, method="lucene")
    vocabulary = {str(word): word for word in range(VOCABULARY)}
    index.index(([list(text) for text in some], vocabulary), show_progress=False, create_empty_token=False)
    return index


# Scores


@given(texts, queries, parameters)
@settings(deadline=None, max_examples=50)
def test_every_text_has_the_score_of_the_definition(some: Texts, asked: Texts, chosen: Bm25Settings) -> None:
    plain = PlainBm25(some, k1=chosen.k1, b=chosen.b)
    codes, offsets = coded(some)
    prepared = weigh_queries(*coded(asked), statistics=Bm25Statistics.of(codes, offsets, VOCABULARY), settings=chosen)
    for query, words in enumerate(asked):
        expected = [plain.score(words, text) for text in some]
        assert brute_force(prepared, query, codes, offsets).tolist() == expected
        rows = [bm25_row_score(prepared, query, codes, offsets[i], offsets[i + 1]) for i in range(len(some))]
        assert rows == expected


@given(texts, texts, queries)
@settings(deadline=None, max_examples=50)
def test_other_texts_are_scored_by_the_statistics_of_the_index(main: Texts, later: Texts, asked: Texts) -> None:
    new_word = [[*text, VOCABULARY + 1] for text in later]
    prepared = weigh_queries(
        *coded(asked), statistics=Bm25Statistics.of(*coded(main), VOCABULARY), settings=Bm25Settings()
    )
    for query, words in enumerate(asked):
        expected = [PlainBm25(main).score(words, text) for text in new_word]
        assert brute_force(prepared, query, *coded(new_word)).tolist() == expected


@given(texts, queries, parameters)
@settings(deadline=None, max_examples=50)
def test_a_text_scores_itself_with_all_its_words_known_or_not(some: Texts, asked: Texts, chosen: Bm25Settings) -> None:
    plain = PlainBm25(some, k1=chosen.k1, b=chosen.b)
    as_new = [[word if word >= 0 else VOCABULARY + 9 for word in words] for words in asked]  # nobody else has it
    expected = [max(plain.score(words, words), 1e-6) if words else 0 for words in as_new]
    statistics = Bm25Statistics.of(*coded(some), VOCABULARY)
    assert own_scores(asked, statistics, chosen) == pytest.approx(expected, abs=1.1e-6)


def own_scores(asked: Texts, statistics: Bm25Statistics, chosen: Bm25Settings) -> list[float]:
    """The words of a text are told apart by their numbers, those without a code too."""
    codes, offsets = coded(asked)
    hashes = codes.astype(np.int64).view(np.uint64)
    known = np.where(codes < VOCABULARY, codes, -1).astype(np.int32)
    scores: list[float] = self_scores(known, hashes, offsets, statistics=statistics, settings=chosen).tolist()
    return scores


def test_unknown_words_are_told_apart_and_lower_the_share_of_a_match() -> None:
    statistics, chosen = Bm25Statistics.of(*coded([[0, 1], [1, 2, 2]]), VOCABULARY), Bm25Settings()
    known, one, twice, two = own_scores([[0], [0, -1], [0, -1, -1], [0, -1, -2]], statistics, chosen)
    assert known < one < two < twice  # a word counts as often as the query has it
    prepared = weigh_queries(*coded([[0, -1, -2]]), statistics=statistics, settings=chosen)
    match = brute_force(prepared, 0, *coded([[0]]))[0]
    assert match / two < match / known == 1.0


def test_statistics_count_texts_not_occurrences() -> None:
    statistics = Bm25Statistics.of(*coded([[0, 0, 1], [], [1]]), 3)
    assert (statistics.document_count, statistics.average_length, statistics.df.tolist()) == (3, 4 / 3, [1, 2, 0])
    known = statistics.idf(np.array([0, 1, 2, 7], np.int32))
    assert known == pytest.approx([np.log(1 + 2.5 / 1.5), np.log(1 + 1.5 / 2.5), np.log(8), np.log(8)], abs=1e-15)


@pytest.mark.parametrize("some", [[], [[]], [[], []]], ids=["no texts", "one empty", "two empty"])
def test_texts_without_words_match_nothing(some: Texts) -> None:
    with built(some) as folder:
        index = Bm25Index.open(folder)
        rows, scores = index.search(index.queries(*coded([[0, 1], []])), 3)
    assert rows.tolist() == [[-1] * 3] * 2
    assert scores.tolist() == [[0.0] * 3] * 2


# Search


@given(texts, queries, parameters)
@settings(deadline=None, max_examples=50)
def test_candidates_are_those_of_the_definition_and_reranked_in_its_order(
    some: Texts, asked: Texts, chosen: Bm25Settings
) -> None:
    plain = PlainBm25(some, k1=chosen.k1, b=chosen.b)
    codes, offsets = coded(some)
    with built(some, chosen) as folder:
        index = Bm25Index.open(folder)
        prepared = index.queries(*coded(asked))
        rows, scores = index.search(prepared, len(some) + 3)
    for query, words in enumerate(asked):
        expected, found = plain.ranking(words), rows[query][rows[query] >= 0]
        assert sorted(found) == sorted(row for row, _ in expected)
        assert scores[query][: len(found)] == pytest.approx([plain.score(words, some[row]) for row in found], abs=1e-5)
        assert (rows[query][len(found) :] == -1).all()
        assert not scores[query][len(found) :].any()
        assert found.tolist() == found[np.lexsort((found, -scores[query][: len(found)]))].tolist()
        exact = np.array([bm25_row_score(prepared, query, codes, offsets[row], offsets[row + 1]) for row in found])
        again = np.lexsort((found, -exact))
        assert list(zip(found[again].tolist(), exact[again].tolist(), strict=True)) == expected


@given(texts, queries, st.integers(1, 6))
@settings(deadline=None, max_examples=50)
def test_less_depth_gives_the_first_of_more(some: Texts, asked: Texts, depth: int) -> None:
    with built(some) as folder:
        index = Bm25Index.open(folder)
        prepared = index.queries(*coded(asked))
        all_rows, all_scores = index.search(prepared, len(some) + depth)
        rows, scores = index.search(prepared, depth)
    assert rows.tolist() == all_rows[:, :depth].tolist()
    assert scores.tolist() == all_scores[:, :depth].tolist()


def test_equal_texts_come_in_their_order_whatever_the_depth() -> None:
    some = [[0, 1]] * 5 + [[0]] * 3 + [[0, 1]] * 5
    with built(some) as folder:
        index = Bm25Index.open(folder)
        prepared = index.queries(*coded([[0]]))
        found = [index.search(prepared, depth)[0][0].tolist() for depth in (2, 4, 9, 13)]
    order = [5, 6, 7, 0, 1, 2, 3, 4, 8, 9, 10, 11, 12]
    assert found == [order[:2], order[:4], order[:9], order]


def test_a_repeated_word_of_the_query_counts_as_often_as_it_occurs() -> None:
    with built([[0], [1], [2]]) as folder:
        index = Bm25Index.open(folder)
        rows, scores = index.search(index.queries(*coded([[1, 0, 1]])), 3)
    assert rows.tolist() == [[1, 0, -1]]
    assert scores[0, 0] == 2 * scores[0, 1]


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> tuple[Bm25Index, np.ndarray, np.ndarray]:
    """More texts than a block of the search and a piece of the build have; with empty ones."""
    rng = np.random.default_rng(3)
    lengths = rng.integers(0, 6, 70_000)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    codes = rng.choice(50, offsets[-1], p=np.arange(50, 0, -1) / 1275).astype(np.int32)
    folder = tmp_path_factory.mktemp("large") / "bm25"
    build_bm25(codes, offsets, 50, Bm25Settings(), folder, Silent())
    return Bm25Index.open(folder), codes, offsets


def test_many_texts_are_ranked_as_numpy_ranks_them(large: tuple[Bm25Index, np.ndarray, np.ndarray]) -> None:
    index, codes, offsets = large
    texts_of_codes = np.repeat(np.arange(70_000), np.diff(offsets))
    expected = np.zeros(70_000)
    for word in (3, 40, 49):
        tf = np.bincount(texts_of_codes[codes == word], minlength=70_000)
        df = np.count_nonzero(tf)
        norm = 1.2 * (0.25 + 0.75 * np.diff(offsets) / (len(codes) / 70_000))
        expected += np.log(1 + (70_000 - df + 0.5) / (df + 0.5)) * tf / (tf + norm)
    rows, scores = index.search(index.queries(*coded([[40, 3, 49]])), 70_000)
    found = rows[0][rows[0] >= 0]
    assert np.array_equal(np.sort(found), np.flatnonzero(expected))
    assert np.abs(scores[0][: len(found)] - expected[found]).max() < 1e-5
    assert (np.diff(expected[found]) < 1e-5).all()


def test_neither_threads_nor_the_batch_change_a_bit(large: tuple[Bm25Index, np.ndarray, np.ndarray]) -> None:
    index, _, _ = large
    asked = np.random.default_rng(4).integers(-1, 50, (37, 6)).tolist()
    prepared = index.queries(*coded(asked))
    rows, scores = index.search(prepared, 40)
    for threads in (2, 3):
        others = index.search(prepared, 40, threads)
        assert rows.tobytes() == others[0].tobytes()
        assert scores.tobytes() == others[1].tobytes()
    for query, words in enumerate(asked):
        alone = index.search(index.queries(*coded([words])), 40)
        assert rows[query].tobytes() == alone[0].tobytes()
        assert scores[query].tobytes() == alone[1].tobytes()


@given(queries, st.data())
@settings(deadline=None, max_examples=50)
def test_some_of_the_queries_are_what_they_were(asked: Texts, data: st.DataObject) -> None:
    which = data.draw(st.lists(st.integers(0, len(asked) - 1), max_size=6))
    statistics, chosen = Bm25Statistics.of(*coded([[0, 1], [1, 2, 2]]), VOCABULARY), Bm25Settings()
    prepared = weigh_queries(*coded(asked), statistics=statistics, settings=chosen)
    again = weigh_queries(*coded([asked[query] for query in which]), statistics=statistics, settings=chosen)
    some = select_queries(prepared, np.array(which, np.int64))
    assert [np.array(part).tolist() for part in some] == [np.array(part).tolist() for part in again]


def test_a_word_of_nearly_no_weight_still_divides() -> None:
    statistics = Bm25Statistics(document_count=10_000_000, average_length=1.0, df=np.array([10_000_000], np.int32))
    assert own_scores([[0], []], statistics, Bm25Settings()) == [1e-6, 0.0]


def test_no_queries_find_nothing(large: tuple[Bm25Index, np.ndarray, np.ndarray]) -> None:
    index, _, _ = large
    rows, scores = index.search(index.queries(*coded([])), 5)
    assert rows.shape == scores.shape == (0, 5)


def test_no_depth_is_refused(large: tuple[Bm25Index, np.ndarray, np.ndarray]) -> None:
    with refusing(Usage):
        large[0].search(large[0].queries(*coded([[1]])), 0)


# bm25s


@given(texts.filter(any), parameters)
@settings(deadline=None, max_examples=50)
def test_the_files_hold_what_bm25s_itself_builds(some: Texts, chosen: Bm25Settings) -> None:
    expected = by_bm25s(some, chosen).scores
    with built(some, chosen) as folder:
        ours = bm25s.BM25.load(folder, mmap=True, load_vocab=False).scores
        assert ours["num_docs"] == expected["num_docs"]
        for name in ("data", "indices", "indptr"):
            assert ours[name].dtype == expected[name].dtype
            assert ours[name].tobytes() == expected[name].tobytes()


@given(texts.filter(any), st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=6), parameters)
@settings(deadline=None, max_examples=50)
def test_bm25s_gives_the_same_scores(some: Texts, words: list[int], chosen: Bm25Settings) -> None:
    expected = by_bm25s(some, chosen).get_scores(words)
    with built(some, chosen) as folder:
        assert bm25s.BM25.load(folder, mmap=True, load_vocab=False).get_scores(words).tolist() == expected.tolist()
        index = Bm25Index.open(folder)
        rows, scores = index.search(index.queries(*coded([words])), len(some))
    found = rows[0] >= 0
    assert sorted(rows[0][found]) == np.flatnonzero(expected).tolist()
    assert scores[0][found] == pytest.approx(expected[rows[0][found]], abs=1e-5)


# Files


def test_a_folder_gives_back_what_was_built_and_holds_no_pickle() -> None:
    chosen = Bm25Settings(k1=0.9, b=0.4)
    with built([[0, 1], [1, 2, 2]], chosen, responses=[[3], [3, 4], []]) as folder:
        index = Bm25Index.open(folder)
        assert index.settings == chosen
        assert index.statistics.df.tolist() == [1, 2, 1, 0, 0, 0, 0, 0]
        assert index.statistics.average_length == 2.5
        assert index.responses is not None
        assert index.responses.df.tolist() == [0, 0, 0, 2, 1, 0, 0, 0]
        assert (index.responses.document_count, index.responses.average_length) == (3, 1.0)
        plain = PlainBm25([[3], [3, 4], []], k1=0.9, b=0.4)
        prepared = index.response_queries(*coded([[4, 3]]))
        assert brute_force(prepared, 0, *coded([[4], [3, 3]])).tolist() == [
            plain.score([4, 3], [4]), plain.score([4, 3], [3, 3])
        ]  # fmt: skip
        assert {path.suffix for path in folder.iterdir()} == {".npy", ".json"}
        for path in folder.glob("*.npy"):
            np.load(path, allow_pickle=False)


def test_an_index_without_responses_cannot_compare_them() -> None:
    with built([[0]]) as folder:
        index = Bm25Index.open(folder)
        assert index.responses is None
        with refusing(Corrupt):
            index.response_queries(*coded([[0]]))


@pytest.mark.parametrize(
    "name", ["data.csc.index.npy", "indices.csc.index.npy", "indptr.csc.index.npy", "texts.df.npy"]
)
def test_files_that_do_not_belong_together_are_refused(name: str) -> None:
    with built([[0, 1], [1]]) as folder:
        values = np.load(folder / name)
        np.save(folder / name, values[:-1])
        with pytest.raises(Corrupt):
            Bm25Index.open(folder)
        np.save(folder / name, values.astype(np.float64))
        with pytest.raises(Corrupt):
            Bm25Index.open(folder)
        (folder / name).write_bytes(b"no numbers")
        with pytest.raises(Corrupt):
            Bm25Index.open(folder)


@pytest.mark.parametrize("name", ["params.index.json", "texts.json"])
def test_descriptions_that_say_nothing_are_refused(name: str) -> None:
    with built([[0, 1], [1]]) as folder:
        (folder / name).write_text("{}")
        with pytest.raises(Corrupt):
            Bm25Index.open(folder)


@pytest.mark.parametrize(
    ("codes", "offsets"), [([0, 8], [0, 2]), ([0, -1], [0, 2]), ([0, 1], [0, 3]), ([0, 1], [0, 2, 1, 2]), ([], [])]
)
def test_texts_that_lead_out_of_the_arrays_are_refused(codes: list[int], offsets: list[int], tmp_path: Path) -> None:
    with refusing(Corrupt):
        build_bm25(
            np.array(codes, np.int32), np.array(offsets, np.int64), VOCABULARY, Bm25Settings(), tmp_path, Silent()
        )


@pytest.mark.parametrize("wrong", [{"k1": -0.1}, {"k1": float("nan")}, {"k1": float("inf")}, {"b": -0.1}, {"b": 1.1}])
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with refusing(Usage, next(iter(wrong))):
        Bm25Settings(**wrong)
