"""Turns in the form that the decoder writes them: packed step by step, each with the place of what it follows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from refaug.rater.adem.vhred.packing import Numbers, pack

FIRST_INPUT = 0  # place of the zeros that a turn begins with


@dataclass(frozen=True, eq=False)
class DecodedTurns:
    """Turns, the longest first, with the inputs and the targets of every step."""

    pieces: Numbers  # distinct pieces that are inputs, which are looked up once
    inputs: Numbers  # packed: FIRST_INPUT, or one more than a place in `pieces`
    targets: Numbers  # packed: the pieces of each turn, and the piece that ends it
    rows: Numbers  # packed: the turn of each step
    counts: tuple[int, ...]
    order: Numbers  # which of the given turns stands in each row

    @property
    def lengths(self) -> Numbers:
        """The steps of each row: its pieces, and its end."""
        return np.bincount(self.rows, minlength=len(self.order))


def pack_turns(
    turns: Sequence[Numbers], end: int, *, unknown: int = 1, dropped: Sequence[NDArray[np.bool_]] | None = None
) -> DecodedTurns:
    """Return turns for the decoder; inputs that are `dropped` become the unknown piece, targets do not change."""
    last = np.array([end], np.int64)
    targets = pack([np.concatenate([turn, last]) for turn in turns])
    places = [turn if dropped is None else np.where(dropped[at], unknown, turn) for at, turn in enumerate(turns)]
    inputs = pack([np.concatenate([last, turn]) for turn in places]).numbers  # `end` stands for the zeros
    pieces = np.unique(inputs)
    pieces = pieces[pieces != end]
    return DecodedTurns(
        pieces=pieces,
        inputs=np.where(inputs == end, FIRST_INPUT, np.searchsorted(pieces, inputs) + 1),
        targets=targets.numbers,
        rows=targets.row_of_number,
        counts=targets.counts,
        order=targets.order,
    )
