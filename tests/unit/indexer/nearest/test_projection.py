"""Projections: the variance they keep, queries that are the same in any batch, and products by bytes."""

from __future__ import annotations

import numpy as np
import pytest

from refaug.indexer.nearest.index_kinds import Projection, quantisation_steps, quantise
from refaug.indexer.search.similarity import _by_bytes


def lengthy(count, dimensions, seed=0):
    """Unit vectors around a mean, with ever less variance in each direction of a turned space."""
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(np.random.default_rng(99).standard_normal((dimensions, dimensions)))[0]
    scales = 0.9 ** np.arange(dimensions)
    rows = (1.0 + scales * rng.standard_normal((count, dimensions))) @ turn
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def test_what_is_left_is_the_variance_of_the_main_components_evenly_spread():
    vectors = lengthy(4_000, 40)
    projection = Projection.learn(vectors, 16, seed=3)
    left = projection.project_stored(vectors).astype(np.float64)
    axes = np.linalg.eigvalsh(np.cov(vectors.T.astype(np.float64)))[::-1]
    assert left.var(axis=0, ddof=1).sum() == pytest.approx(axes[:16].sum(), rel=1e-4)
    assert np.abs(left.mean(axis=0)).max() < 1e-5
    assert left.var(axis=0).max() < 4 * left.var(axis=0).min()  # of the axes themselves, 23 times
    assert axes[0] > 20 * axes[15]
    matrix = projection.matrix.astype(np.float64)
    assert np.allclose(matrix.T @ matrix, np.eye(16), atol=1e-6)


def test_the_same_seed_gives_the_same_projection_and_another_one_another():
    vectors = lengthy(500, 24)
    once, again, other = (Projection.learn(vectors, 8, seed) for seed in (1, 1, 2))
    assert once.matrix.tobytes() == again.matrix.tobytes()
    assert once.matrix.tobytes() != other.matrix.tobytes()


def test_queries_are_projected_like_stored_vectors_alone_and_in_batches():
    vectors = lengthy(700, 200)
    projection = Projection.learn(vectors, 128, seed=0)
    together = projection.project_queries(vectors)
    assert np.allclose(together, projection.project_stored(vectors), atol=1e-6)
    alone = np.concatenate([projection.project_queries(vectors[row : row + 1]) for row in range(700)])
    assert alone.tobytes() == together.tobytes()


def test_byte_product_with_base_is_the_cosine_up_to_a_query_constant():
    vectors, queries = lengthy(3_000, 48), lengthy(20, 48, seed=1)
    projection = Projection.learn(vectors, 48, seed=0)  # nothing is lost but by rounding
    stored = projection.project_stored(vectors)
    steps, bases = quantisation_steps(stored), projection.bases(stored)
    rows = np.tile(np.arange(3_000), (20, 1))
    found = _by_bytes(quantise(stored, steps), bases, projection.project_queries(queries) * steps, rows)
    cosines = queries.astype(np.float64) @ vectors.T.astype(np.float64)
    error = found - cosines
    assert np.abs(error - error.mean(axis=1, keepdims=True)).max() < 0.003
    assert error.std(axis=1).max() < 0.001


def test_a_row_that_is_none_is_worse_than_any():
    bytes_of, bases = np.ones((3, 8), np.int8), np.array([-5.0, 0.0, 5.0], np.float32)
    found = _by_bytes(bytes_of, bases, np.ones((1, 8), np.float32), np.array([[2, -1, 0]]))
    assert found.tolist() == [[13.0, -np.inf, 3.0]]


def test_outlying_components_are_clipped_and_constant_ones_are_zero():
    steps = quantisation_steps(np.array([[0.1, 0.0], [-0.2, 0.0]], np.float32))
    assert steps == pytest.approx([0.2 * 1.1 / 127, 1.1 / 127])
    assert quantise(np.array([[9.0, 0.0], [-9.0, 0.0], [0.1, 0.0]], np.float32), steps).tolist() == [
        [127, 0],
        [-127, 0],
        [58, 0],
    ]


def test_a_query_base_and_a_row_base_make_the_product_whole():
    """What the bytes leave out: the product of a query with the mean, up to what the projection loses."""
    vectors = lengthy(2_000, 16, seed=5)
    projection = Projection.learn(vectors, 16, seed=1)
    queries, stored = projection.project_queries(vectors[:20]), projection.project_stored(vectors)
    found = projection.query_bases(queries)[:, None] + projection.bases(stored) + queries @ stored.T
    assert np.abs(found - vectors[:20] @ vectors.T).max() < 1e-5


def test_a_row_has_the_same_base_among_any_others():
    vectors = lengthy(20_000, 40)
    projection = Projection.learn(vectors, 16, seed=3)
    stored = projection.project_stored(vectors)
    together = projection.bases(stored)
    parts = [projection.bases(part) for part in np.array_split(stored, [1, 2, 5, 4_096, 12_345])]
    assert np.concatenate(parts).tobytes() == together.tobytes()
    assert np.allclose(together, -(stored.astype(np.float64) @ projection.shift), atol=1e-6)
