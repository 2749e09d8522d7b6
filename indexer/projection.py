"""Fewer components than a vector has, turned so that each of them carries about as much.

The principal components of a sample come first, then a rotation drawn with a seed: codes that give each component as
many bits need components of about the same variance. Of mean word vectors of 200 components (GloVe, an English log of
two million utterances), 128 hold .994 of the variance; without the rotation, the same codes of these found .962 of the
right 15 among 512 candidates, with it .982.

Queries are projected by a loop of our own, one at a time: a product of matrices adds up in another order when there are
more of them, and a query's candidates would depend on its company.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from core.kernels import compiled, frozen

Vectors = NDArray[np.float32]

_SAMPLE: Final = 65_536  # vectors from which the components are found
_WIDEST: Final = 127  # of a byte with a sign
_ROOM: Final = 1.1  # beyond the largest component of the sample


@dataclass(frozen=True, eq=False)
class Projection:
    """`vector @ matrix + shift`, (dimensions, components) and (components,)."""

    matrix: Vectors
    shift: Vectors

    @classmethod
    def learn(cls, sample: Vectors, components: int, seed: int) -> Self:
        """The principal components of a sample, turned; its mean becomes the origin."""
        sample = sample[:_SAMPLE]
        mean = sample.mean(axis=0, dtype=np.float64) if len(sample) else np.zeros(sample.shape[1])
        _, axes = np.linalg.eigh(_products(frozen(sample), mean))
        drawn = np.random.default_rng(seed).standard_normal((components, components))
        turn, triangle = np.linalg.qr(drawn)
        main = axes[:, ::-1][:, :components]
        matrix = (main * _signs(main)) @ (turn * np.sign(np.diag(triangle)))
        return cls(frozen(matrix.astype(np.float32)), frozen((-mean @ matrix).astype(np.float32)))

    @property
    def components(self) -> int:
        """How many are left."""
        return int(self.matrix.shape[1])

    def all(self, vectors: Vectors) -> Vectors:
        """Many vectors that are to be stored."""
        return np.ascontiguousarray(vectors @ self.matrix + self.shift)

    def each(self, queries: Vectors) -> Vectors:
        """Queries, the same to the last bit in any batch."""
        return _projected(self.matrix, self.shift, frozen(queries))

    def bases(self, projected: Vectors) -> Vectors:
        """What each stored vector's cosine with any query has in common, but for what the projection has lost.

        Of a vector x = m + v and a query q = m + u, where m is the sample's mean: x·q is m·q, which is the query's
        alone, and v·m, which is this, and v·u, the product of the two as they are projected.
        """
        return np.asarray(-(projected @ self.shift), np.float32)


def _signs(axes: NDArray[np.float64]) -> NDArray[np.float64]:
    """An axis and its opposite are the same to whoever looks for them: the largest part is made positive."""
    largest: NDArray[np.float64] = axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])]
    return np.sign(largest)


@compiled
def _products(sample: Vectors, mean: NDArray[np.float64]) -> NDArray[np.float64]:
    """The sums of products of components, added up in one order whatever the machine does at once."""
    size = mean.size
    sums, row = np.zeros((size, size)), np.empty(size)
    for one in range(sample.shape[0]):
        for at in range(size):
            row[at] = sample[one, at] - mean[at]
        for left in range(size):
            factor = row[left]
            for right in range(left + 1):
                sums[left, right] += factor * row[right]
    for left in range(size):
        for right in range(left):
            sums[right, left] = sums[left, right]
    return sums


@compiled
def _projected(matrix: Vectors, shift: Vectors, queries: Vectors) -> Vectors:
    projected = np.empty((queries.shape[0], matrix.shape[1]), np.float32)
    for query in range(queries.shape[0]):
        projected[query] = shift
        for at in range(matrix.shape[0]):
            factor = queries[query, at]
            for component in range(matrix.shape[1]):
                projected[query, component] += factor * matrix[at, component]
    return projected


# A byte a component


def byte_steps(projected: Vectors) -> Vectors:
    """How much one step of a byte stands for in each component, (components,), so that a sample's values have room."""
    largest = np.abs(projected).max(axis=0, initial=0.0)
    return np.asarray(np.where(largest > 0, largest, 1.0) * (_ROOM / _WIDEST), np.float32)


def as_bytes(projected: Vectors, steps: Vectors) -> NDArray[np.int8]:
    """Stored vectors as one byte a component."""
    rounded: Vectors = np.rint(projected / steps)
    return np.asarray(np.clip(rounded, -_WIDEST, _WIDEST), np.int8)
