"""One sequence of piece ids for everything that is judged together: earlier turns, a known response, the reply.

    [start] turn [turn] turn [turn] utterance [known] known response [reply] reply

The known response, with its mark, is left out where there is none. A mark is an id beyond the vocabulary, and begins a
segment. Of a text that is too long the last pieces are left out, and of a dialogue that is too long the first turns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from refaug.core.errors import Usage
from refaug.rater.text_encoding import require_sizes

BASE: Final = 10_000.0  # of the rotary angles (Su et al. 2021)
_LEAST_TOKENS: Final = 16  # of a sequence: start, marks, and a piece of each text


@dataclass(frozen=True, kw_only=True)
class CrossConfig:
    """The sizes of the network."""

    vocabulary: int = 8_002  # pieces, pad and unk
    embedding: int = 256  # numbers of a state
    hidden: int = 768  # of the feed-forward layers
    layers: int = 6
    heads: int = 4
    max_tokens: int = 128  # of a whole sequence

    def __post_init__(self) -> None:
        require_sizes("cross rater", asdict(self))
        if self.embedding % (2 * self.heads):
            raise Usage(
                f"{self.heads} heads of states of {self.embedding} numbers", remedy="an even number for each head"
            )
        if self.max_tokens < _LEAST_TOKENS:
            raise Usage(f"sequences of {self.max_tokens} pieces", remedy=f"at least {_LEAST_TOKENS}")


START, TURN, KNOWN, REPLY, MASK = range(5)  # added to the size of the vocabulary
MARKS: Final = 5
CONTEXT_SEGMENT, KNOWN_SEGMENT, REPLY_SEGMENT = range(3)
SEGMENTS: Final = 3
TURNS: Final = 3  # that are read before a reply, the utterance among them
UNKNOWN: Final = 1  # of the tokenizers trained here
FIRST_PIECE: Final = 2  # after pad and unk: marks and padding are never hidden

Ids = NDArray[np.int64]


class Pieces(NamedTuple):
    """The texts of one sequence as piece ids; `known` is None where no response is known to fit."""

    turns: Sequence[Sequence[int]]  # the last one is the utterance
    known: Sequence[int] | None
    reply: Sequence[int]


class SequenceBatch(NamedTuple):
    """Sequences, padded with 0 behind their ends."""

    tokens: Ids  # (sequences, time)
    segments: Ids
    lengths: Ids


class SequenceShape(NamedTuple):
    """The vocabulary that marks are counted from, and how long a sequence gets."""

    vocabulary: int
    max_tokens: int

    def sequence(self, pieces: Pieces) -> tuple[list[int], list[int]]:
        """Return the ids of a sequence, and the segment of each."""
        judged = [self.vocabulary + REPLY, *self._cut(pieces.reply)]
        known = [] if pieces.known is None else [self.vocabulary + KNOWN, *self._cut(pieces.known)]
        turns = self._context(pieces.turns, self.max_tokens - len(judged) - len(known))
        segments = [CONTEXT_SEGMENT] * len(turns) + [KNOWN_SEGMENT] * len(known) + [REPLY_SEGMENT] * len(judged)
        return [*turns, *known, *judged], segments

    def batch(self, rows: Sequence[Pieces]) -> SequenceBatch:
        """Return several sequences, padded to the longest."""
        sequences = [self.sequence(pieces) for pieces in rows]
        lengths = np.array([len(tokens) for tokens, _ in sequences], np.int64)
        tokens = np.zeros((len(rows), int(lengths.max(initial=1))), np.int64)
        segments = np.zeros_like(tokens)
        for row, (ids, of_segment) in enumerate(sequences):
            tokens[row, : len(ids)] = ids
            segments[row, : len(ids)] = of_segment
        return SequenceBatch(tokens, segments, lengths)

    def _cut(self, pieces: Sequence[int]) -> list[int]:
        """Return at most a quarter of a sequence's pieces; an empty text is one unknown piece."""
        return list(pieces[: self.max_tokens // 4]) or [UNKNOWN]

    def _context(self, turns: Sequence[Sequence[int]], room: int) -> list[int]:
        """Return the start and the last turns, as many as fit."""
        chosen = list[int]()
        for turn in reversed(turns[-TURNS:]):
            pieces = self._cut(turn)
            mark = [self.vocabulary + TURN] if chosen else []
            if len(pieces) + len(mark) + len(chosen) + 1 > room:
                break
            chosen = [*pieces, *mark, *chosen]
        return [self.vocabulary + START, *chosen]
