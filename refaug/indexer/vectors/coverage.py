"""How much of the texts of logs word vectors know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from refaug.indexer.tokens import WordTable


@dataclass(frozen=True, kw_only=True)
class VectorCoverage:
    """How many tokens and texts the vectors cover."""

    tokens: int
    known_tokens: int
    texts: int
    without_vector: int  # texts with no known word, which cannot be found by their vector

    @property
    def share(self) -> float:
        """The covered share of the tokens."""
        return self.known_tokens / self.tokens if self.tokens else 0.0


class CoverageCounter:
    """Turns words into codes and counts how many of them are known."""

    def __init__(self, words: int) -> None:
        self._words = words
        self.coverage = VectorCoverage(tokens=0, known_tokens=0, texts=0, without_vector=0)

    def codes(
        self, table: WordTable, hashes: NDArray[np.uint64], offsets: NDArray[np.int64]
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the codes of a batch, −1 for an unknown word."""
        codes = table.codes(hashes)
        known_before = np.concatenate([[0], np.cumsum(codes >= 0)])
        before = self.coverage
        self.coverage = VectorCoverage(
            tokens=before.tokens + len(codes),
            known_tokens=before.known_tokens + int(known_before[-1]),
            texts=before.texts + len(offsets) - 1,
            without_vector=before.without_vector + int(np.count_nonzero(np.diff(known_before[offsets]) == 0)),
        )
        return codes, offsets

    def as_facts(self) -> dict[str, int]:
        """Return the counts as plain numbers."""
        return asdict(self.coverage)

    def add_facts(self, facts: Mapping[str, int]) -> None:
        """Add the counts of other texts."""
        self.coverage = VectorCoverage(**{name: count + facts[name] for name, count in self.as_facts().items()})
