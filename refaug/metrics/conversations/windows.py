"""Runs of utterances that conversations share: with each other, or with the dialogues that a bot was trained on.

A window is w utterances that follow each other, compared as exact strings. Two conversations overlap where some window
of one equals some window of the other, at any place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b


@dataclass(frozen=True, slots=True)
class Overlap:
    """How many of all possible cases overlap: pairs of conversations, or conversations."""

    window: int
    overlapping: int
    possible: int

    @property
    def percent(self) -> float:
        """The share of the cases, in per cent; 0 where there are none."""
        return 100 * self.overlapping / self.possible if self.possible else 0.0


def utterance_hashes(utterances: Sequence[str]) -> list[bytes]:
    """Return a hash of each utterance, so that a window of them keeps their borders."""
    return [blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest() for text in utterances]
