"""Runs of utterances that conversations share: with each other, or with the dialogues that a bot was trained on.

A window is w utterances that follow each other, compared as exact strings. Two conversations overlap where some window
of one equals some window of the other, at any place.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import combinations


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


def overlap_among(conversations: Sequence[Sequence[str]], window: int) -> Overlap:
    """Count the pairs of conversations that share a window."""
    holders: dict[bytes, set[int]] = defaultdict(set)
    for number, utterances in enumerate(conversations):
        for digest in _digests(utterances, window):
            holders[digest].add(number)
    pairs = {pair for numbers in holders.values() if len(numbers) > 1 for pair in combinations(sorted(numbers), 2)}
    return Overlap(window, len(pairs), len(conversations) * (len(conversations) - 1) // 2)


class WindowSet:
    """The windows of the conversations that are looked for in a log, which is read once and need not fit in memory."""

    def __init__(self, conversations: Sequence[Sequence[str]], window: int) -> None:
        self.window = window
        self._count = len(conversations)
        self._holders: dict[bytes, list[int]] = defaultdict(list)
        self._overlapping: set[int] = set()
        for number, utterances in enumerate(conversations):
            for digest in set(_digests(utterances, window)):
                self._holders[digest].append(number)

    def read(self, dialogue: Sequence[str]) -> None:
        """Look for the windows in one dialogue of the log."""
        if len(dialogue) < self.window:
            return
        for digest in _digests(dialogue, self.window):
            self._overlapping.update(self._holders.get(digest, ()))

    def overlap(self) -> Overlap:
        """Return how many conversations have a window that some dialogue has had so far."""
        return Overlap(self.window, len(self._overlapping), self._count)

    def overlapping(self) -> list[int]:
        """Return the numbers of these conversations, in order."""
        return sorted(self._overlapping)


def utterance_hashes(utterances: Sequence[str]) -> list[bytes]:
    """Return a hash of each utterance, so that a window of them keeps their borders."""
    return [blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest() for text in utterances]


def _digests(utterances: Sequence[str], window: int) -> Iterable[bytes]:
    """Hash each window; utterances are hashed by themselves first, so that their borders count."""
    hashes = utterance_hashes(utterances)
    for start in range(len(hashes) - window + 1):
        yield blake2b(b"".join(hashes[start : start + window]), digest_size=16).digest()
