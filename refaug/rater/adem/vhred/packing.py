"""Sequences of different lengths step by step: a step holds only those that are long enough, so nothing is padded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PackedSequences:
    """Sequences, the longest first: the numbers of step 0 of all of them, then those of step 1, and so on."""

    numbers: Numbers  # (all steps of all sequences,)
    counts: tuple[int, ...]  # sequences in each step, which never grow
    order: Numbers  # (sequences,): which of the given sequences stands in each row

    @property
    def starts(self) -> Numbers:
        """The place of each step's first number, and at the end their count."""
        return np.concatenate([[0], np.cumsum(self.counts)]).astype(np.int64)

    @property
    def rows(self) -> Numbers:
        """The row of each given sequence."""
        rows = np.empty(len(self.order), np.int64)
        rows[self.order] = np.arange(len(self.order))
        return rows

    @property
    def row_of_number(self) -> Numbers:
        """The row of each number."""
        return np.concatenate([np.arange(count) for count in (0, *self.counts)]).astype(np.int64)


def pack(sequences: Sequence[Numbers]) -> PackedSequences:
    """Return sequences, none of them empty, as packed ones; equal lengths stay in the order given."""
    lengths = np.array([len(sequence) for sequence in sequences], np.int64)
    order = np.argsort(-lengths, kind="stable")
    longest = int(lengths.max(initial=0))
    padded = np.zeros((longest, len(order)), np.int64)
    for row, at in enumerate(order):
        padded[: lengths[at], row] = sequences[at]
    is_filled = np.arange(longest)[:, None] < lengths[order][None, :]
    return PackedSequences(padded[is_filled], tuple(is_filled.sum(axis=1).tolist()), order)
