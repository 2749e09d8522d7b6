"""Texts that a pre-training must not see: the contexts, references and replies on which a judge is to be measured.

A dialogue is left out if it holds an evaluated context's last turn right before one of its references or replies, or a
turn of four words or more that is an evaluated context's last turn. Texts are compared after normalisation, by hash.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from refaug.core.records import Item
from refaug.core.text.normalisation import normalise
from refaug.logs.text_keys import text_key

_LONG: Final = 4  # words; shorter turns ("why not?") stand in many dialogues
_MIXED: Final = np.uint64(0x9E3779B97F4A7C15)  # 2**64 over the golden ratio: spreads the numbers it multiplies

Keys = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class ExcludedTexts:
    """Sorted hashes of long last turns of contexts, and of pairs of a last turn and a text after it."""

    turns: Keys
    pairs: Keys

    @classmethod
    def of(cls, items: Iterable[Item]) -> Self:
        """Return what items hold."""
        turns, pairs = set[int](), set[tuple[int, int]]()
        for test_item in items:
            utterance = test_item.utterance
            if not utterance:
                continue
            last = normalise(utterance)
            if len(last.split()) >= _LONG:
                turns.add(text_key(last))
            texts = (*(reference.text for reference in test_item.references), *test_item.replies.values())
            pairs |= {(text_key(last), text_key(normalise(text))) for text in texts}
        rows = np.array(sorted(pairs), np.uint64).reshape(-1, 2)
        return cls(np.array(sorted(turns), np.uint64), np.unique(_combine(rows[:, 0], rows[:, 1])))

    @classmethod
    def none(cls) -> Self:
        """Return no texts."""
        return cls.of(())

    def holds_turns(self, keys: Keys) -> NDArray[np.bool_]:
        """Say for each turn whether it is a long last turn of a context."""
        return np.isin(keys, self.turns)

    def holds_pairs(self, keys: Keys, next_keys: Keys) -> NDArray[np.bool_]:
        """Say for each pair of turns whether it is evaluated, or its second turn is a long last turn of a context."""
        return np.isin(_combine(keys, next_keys), self.pairs) | np.isin(next_keys, self.turns)


def _combine(keys: Keys, next_keys: Keys) -> Keys:
    """Return one hash of two; their order matters."""
    mixed: Keys = (keys.astype(np.uint64) * _MIXED) ^ next_keys.astype(np.uint64)
    return mixed
