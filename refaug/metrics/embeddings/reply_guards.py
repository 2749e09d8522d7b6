"""What refaug-1 looks for in a reply besides likeness: runs of words of a turn, and words in an unlikely order."""

from __future__ import annotations

import base64
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from refaug.core.processes.kept import cached_property

RUN: Final = 3  # words; shorter runs are in many true replies
WORDS: Final = 300  # that are told apart; all others are one
_STEPS: Final = 4  # of a stored number, to one of the natural logarithm
_PRIOR: Final = 16  # pairs that are as likely as not, so that a short reply needs no proof of its order

Words = Sequence[str]


def copied_share(words: Words, turns: Sequence[Words]) -> float:
    """Return the largest share of words that stand in runs of three or more of a single turn."""
    runs = [tuple(words[at : at + RUN]) for at in range(len(words) - RUN + 1)]
    most = 0
    for turn in turns:
        of_turn = {tuple(turn[at : at + RUN]) for at in range(len(turn) - RUN + 1)}
        starts = [at for at, run in enumerate(runs) if run in of_turn]
        most = max(most, len({at + offset for at in starts for offset in range(RUN)}))
    return most / len(words) if words else 0.0


@dataclass(frozen=True, kw_only=True, eq=False)
class WordOrder:
    """How likely frequent words follow each other in the replies of a log, beside what their frequencies tell.

    `logs[i, j]` is log((n + 1) / (e + 1)) for n times that word j follows word i, and e times that it would by chance;
    the first row and column are those of all words that are not frequent.
    """

    words: tuple[str, ...]
    logs: NDArray[np.float64]  # (words + 1, words + 1), in quarters

    @classmethod
    def of(cls, replies: Sequence[Words]) -> WordOrder:
        """Count the pairs of replies."""
        counts = Counter(word for words in replies for word in words)
        frequent = sorted(counts, key=lambda word: (-counts[word], word))[:WORDS]
        order = cls(words=tuple(frequent), logs=np.zeros((len(frequent) + 1,) * 2))
        pairs = np.zeros_like(order.logs)
        for words in replies:
            numbers = order.numbers(words)
            np.add.at(pairs, (numbers[:-1], numbers[1:]), 1)
        by_chance = np.outer(pairs.sum(axis=1), pairs.sum(axis=0)) / max(pairs.sum(), 1)
        steps = np.rint(_STEPS * np.log((pairs + 1) / (by_chance + 1)))
        return cls(words=order.words, logs=np.clip(steps, -127, 127) / _STEPS)

    @classmethod
    def read(cls, words: str, logs: str) -> WordOrder:
        """Read what `stored` has written; ValueError where it is something else."""
        frequent = tuple(words.split())
        steps = np.frombuffer(zlib.decompress(base64.b64decode(logs, validate=True)), dtype=np.int8)
        return cls(words=frequent, logs=steps.reshape((len(frequent) + 1,) * 2) / _STEPS)

    def stored(self) -> dict[str, str]:
        """Return the words and the logarithms as text."""
        steps = np.rint(_STEPS * self.logs).astype(np.int8)
        return {
            "words": " ".join(self.words),
            "logs": base64.b64encode(zlib.compress(steps.tobytes(), 9)).decode("ascii"),
        }

    def likelihood(self, words: Words) -> float:
        """Return the mean logarithm over the pairs of a reply and some that are as likely as not; 0 without a pair."""
        numbers = self.numbers(words)
        return float(self.logs[numbers[:-1], numbers[1:]].sum() / (max(len(numbers) - 1, 0) + _PRIOR))

    def numbers(self, words: Words) -> NDArray[np.int64]:
        """Return the number of each word."""
        return np.array([self._number_of.get(word, 0) for word in words], dtype=np.int64)

    @cached_property
    def _number_of(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words, start=1)}


ANY_ORDER: Final = WordOrder(words=(), logs=np.zeros((1, 1)))  # which tells nothing


@dataclass(frozen=True, kw_only=True)
class ReplyGuard:
    """A measure beyond a limit counts against a reply, by so much for each unit."""

    limit: float
    slope: float


NO_GUARD: Final = ReplyGuard(limit=0.0, slope=0.0)


def excess(values: NDArray[np.float64], limit: float) -> NDArray[np.float64]:
    """Return by how much each value is above a limit."""
    return np.asarray(np.maximum(values - limit, 0))
