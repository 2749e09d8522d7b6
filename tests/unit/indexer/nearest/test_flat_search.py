"""Exact search for several queries at once: the vectors, order and bits of a search for each alone."""

from __future__ import annotations

import faiss
import numpy as np
import pytest
from numpy.typing import NDArray

from refaug.indexer.nearest.flat_search import ONE_PATH, FlatSearch

Floats = NDArray[np.float32]


def unit_rows(count: int, dimensions: int, seed: int = 5) -> Floats:
    rows = np.random.default_rng(seed).standard_normal((count, dimensions)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def index_of(vectors: Floats) -> faiss.IndexFlatIP:
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    return index


@pytest.mark.parametrize(("count", "dimensions", "width"), [(9_000, 200, 35), (8_193, 40, 100), (20_011, 104, 1)])
@pytest.mark.parametrize("queries", [1, 2, 3, 16, 70])
def test_a_batch_has_the_bits_of_faiss_and_the_nearest_by_brute_force(
    count: int, dimensions: int, width: int, queries: int
) -> None:
    vectors, asked = unit_rows(count, dimensions), unit_rows(queries, dimensions, seed=6)
    index = index_of(vectors)
    where, near = FlatSearch(index).search(asked, width)
    theirs, ids = index.search(asked, width, params=ONE_PATH)
    assert np.array_equal(where, ids)
    assert np.array_equal(near, theirs)
    exact = asked.astype(np.float64) @ vectors.astype(np.float64).T
    assert np.array_equal(where, np.argsort(-exact, axis=1)[:, :width])


def test_equal_vectors_come_in_their_order_whatever_the_batch() -> None:
    vectors = unit_rows(6_000, 16)
    vectors[[40, 41, 4_000, 5_999]] = vectors[7]  # five at the front
    vectors[5_000:5_900] = vectors[12]  # and more than are asked for, so that some of equal ones are left out
    queries = np.concatenate([vectors[[7, 12, 12]], unit_rows(13, 16, seed=2)])
    search = FlatSearch(index_of(vectors))
    where, near = search.search(queries, 30)
    assert where[0, :5].tolist() == [7, 40, 41, 4_000, 5_999]
    assert where[1].tolist() == where[2].tolist() == [12, *range(5_000, 5_029)]
    for batch in (1, 2, 5):
        parts = [search.search(queries[first : first + batch], 30) for first in range(0, len(queries), batch)]
        assert np.array_equal(np.concatenate([ids for ids, _ in parts]), where)
        assert np.array_equal(np.concatenate([similarities for _, similarities in parts]), near)


def test_a_query_that_is_equally_far_from_all_gets_the_first() -> None:
    vectors = unit_rows(5_000, 8)
    queries = np.concatenate([np.zeros((70, 8), np.float32), vectors[:1]])
    where, near = FlatSearch(index_of(vectors)).search(queries, 10)
    assert where[:70].tolist() == [list(range(10))] * 70
    assert not near[:70].any()
    assert where[70, 0] == 0


def test_a_query_without_a_direction_has_no_neighbour_and_takes_none_from_others() -> None:
    vectors = unit_rows(5_000, 8)
    queries = vectors[:4].copy()
    search = FlatSearch(index_of(vectors))
    where, near = search.search(queries, 10)
    queries[2] = np.nan
    beside, near_beside = search.search(queries, 10)
    others = [0, 1, 3]
    assert np.array_equal(beside[others], where[others])
    assert np.array_equal(near_beside[others], near[others])
    assert beside[2].tolist() == [-1] * 10
    assert near_beside[2].tolist() == [-np.inf] * 10


def test_all_vectors_can_be_asked_for() -> None:
    vectors = unit_rows(50, 8)
    where, near = FlatSearch(index_of(vectors)).search(vectors[:6], 50)
    assert np.array_equal(where, np.argsort(-(vectors[:6].astype(np.float64) @ vectors.T), axis=1))
    assert np.array_equal(near, -np.sort(-near, axis=1))
