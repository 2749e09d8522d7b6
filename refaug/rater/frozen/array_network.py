"""The networks over an encoder's vectors: their sizes, and numpy's form of `linear` and `towers` for inference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from refaug.core.errors import Usage
from refaug.rater.array_layers import Arrays, Floats, gelu, linear, logits_of, unit
from refaug.rater.text_encoding import Ids, require_sizes

JUDGED_AT_ONCE: Final = 4_096  # triplets
_MOST_DIMENSIONS: Final = 1 << 14
_MOST_HEADS: Final = 64


@dataclass(frozen=True, kw_only=True)
class LinearConfig:
    """The encoder by its hash, and the size of its vectors."""

    encoder: str
    dimensions: int

    def __post_init__(self) -> None:
        _require_dimensions(self.dimensions)


@dataclass(frozen=True, kw_only=True)
class TowerConfig:
    """The encoder by its hash, the size of its vectors, and the sizes of the network."""

    encoder: str
    dimensions: int
    hidden: int = 256
    heads: int = 5

    def __post_init__(self) -> None:
        _require_dimensions(self.dimensions)
        require_sizes("rater", {"hidden": self.hidden})
        if not isinstance(self.heads, int) or not 1 <= self.heads <= _MOST_HEADS:
            raise Usage(f"{self.heads} networks with a seed each", remedy=f"from 1 to {_MOST_HEADS}")


def _require_dimensions(dimensions: object) -> None:
    """Raise Usage for vectors that no encoder gives."""
    if not isinstance(dimensions, int) or not 1 <= dimensions <= _MOST_DIMENSIONS:
        raise Usage(f"vectors of {dimensions} numbers", remedy=f"from 1 to {_MOST_DIMENSIONS:,}")


class _Space(NamedTuple):
    """Texts as one network has read them, each once: vectors of unit length, (texts, width)."""

    turns: Floats
    replies: Floats
    alike: Floats  # by which replies are compared with known responses

    def similarities(self, rows: Ids) -> Floats:
        """Return both similarities, (rows, 2), of turns, known response and reply by their numbers."""
        turns, known, replies = rows.T
        return np.stack(
            [
                (self.turns[turns] * self.replies[replies]).sum(axis=1),
                (self.alike[known] * self.alike[replies]).sum(axis=1),
            ],
            axis=1,
        )


class ArrayLinear:
    """The two maps, and how cosines become logits."""

    runtime = "numpy"

    def __init__(self, config: LinearConfig, arrays: Arrays) -> None:
        self.config, self._arrays = config, arrays

    def logits(self, vectors: Floats, rows: Ids, has_known: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return the logit of each row, (rows, 3): turns, known response and reply by their numbers in vectors."""
        return _logits(
            self._arrays,
            [_Space(self._mapped("turn", vectors), self._mapped("reply", vectors), unit(vectors))],
            rows,
            has_known,
        )

    def _mapped(self, side: str, vectors: Floats) -> Floats:
        centred: Floats = vectors - self._arrays[f"{side}_mean"]
        return unit(centred @ self._arrays[f"{side}_map"].T)

    def heads_alone(self) -> list[ArrayLinear]:
        """Return the networks that its heads are by themselves: it has none."""
        return []


class ArrayTowers:
    """The heads, and how the mean of their similarities becomes a logit."""

    runtime = "numpy"

    def __init__(self, config: TowerConfig, arrays: Arrays, heads: Sequence[int] | None = None) -> None:
        self.config, self._arrays = config, arrays
        self._heads = range(config.heads) if heads is None else heads

    def logits(self, vectors: Floats, rows: Ids, has_known: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return the logit of each row, (rows, 3): turns, known response and reply by their numbers in vectors."""
        return _logits(self._arrays, list(self._spaces(vectors)), rows, has_known)

    def heads_alone(self) -> list[ArrayTowers]:
        """Return the network of each head, with the same weights of its similarities."""
        return [ArrayTowers(self.config, self._arrays, [head]) for head in self._heads]

    def _spaces(self, vectors: Floats) -> Iterator[_Space]:
        has_tokens = (vectors != 0).any(axis=1, keepdims=True)
        for head in self._heads:
            turns, replies = (
                self._tower(f"heads.{head}.{side}", vectors) * has_tokens for side in ("turns", "replies")
            )
            yield _Space(turns, replies, replies)

    def _tower(self, name: str, vectors: Floats) -> Floats:
        hidden = gelu(linear(vectors * np.float32(vectors.shape[1] ** 0.5), self._arrays, f"{name}.first"))
        return unit(vectors + linear(hidden, self._arrays, f"{name}.last"))


def _logits(arrays: Arrays, spaces: Sequence[_Space], rows: Ids, has_known: NDArray[np.bool_]) -> NDArray[np.float64]:
    total = np.zeros((len(rows), 2), np.float32)
    for space in spaces:
        for at in range(0, len(rows), JUDGED_AT_ONCE):
            total[at : at + JUDGED_AT_ONCE] += space.similarities(rows[at : at + JUDGED_AT_ONCE])
    return logits_of(arrays, total / np.float32(len(spaces)), has_known)
