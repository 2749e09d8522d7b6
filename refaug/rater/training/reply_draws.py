"""Drawing replies for the pairs of logs: wrong ones from elsewhere or from the same dialogue, and others that fit."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from refaug.rater.training.pair_corpus import LogPairs, Rows

Texts = NDArray[np.int64]
_DRAWS: Final = 20  # for a reply from elsewhere
_UTTERANCE: Final = 0.2  # share of the wrong replies from a dialogue that are the utterance itself


class ReplyDraws:
    """Draws replies, as texts, for pairs of one side; `rows` are the pairs of that side."""

    def __init__(self, pairs: LogPairs, rows: Rows) -> None:
        self._pairs, self._rows = pairs, rows
        self.bounds = np.searchsorted(rows, pairs.first)  # of the logs in it
        self._order = np.lexsort((np.arange(len(pairs)), pairs.asked))  # pairs of one utterance together
        self._sorted_asked = pairs.asked[self._order]
        self.begin, self.end = dialogue_runs(pairs.dialogue)

    def random(self, rows: Rows, rng: np.random.Generator) -> Texts:
        """Draw replies of the same log and side that never answered the utterance; the last draw stays if none fits."""
        log = np.searchsorted(self._pairs.first, rows, side="right") - 1
        drawn = np.zeros(len(rows), np.int64)
        waiting = np.arange(len(rows))
        for _ in range(_DRAWS):
            drawn[waiting] = self._rows[rng.integers(self.bounds[log[waiting]], self.bounds[log[waiting] + 1])]
            waiting = waiting[~self._pairs.fits_elsewhere(rows[waiting], drawn[waiting])]
            if not len(waiting):
                break
        return self._pairs.reply[drawn].astype(np.int64)

    def from_dialogue(self, rows: Rows, rng: np.random.Generator, utterances: float = _UTTERANCE) -> Texts:
        """Draw another turn of the dialogue, or the utterance itself; -1 where it says what the right reply says."""
        pairs = self._pairs
        drawn = rng.integers(self.begin[rows], self.end[rows])
        is_utterance = (drawn == rows) | (rng.random(len(rows)) < utterances)
        texts = np.where(is_utterance, pairs.utterance[rows], pairs.reply[drawn]).astype(np.int64)
        says = np.where(is_utterance, pairs.asked[rows], pairs.said[drawn])
        return np.where(says == pairs.said[rows], -1, texts)

    def known(self, rows: Rows, share: float, rng: np.random.Generator) -> Texts:
        """Draw another reply to the same utterance for a share of the pairs; -1 for the rest."""
        pairs = self._pairs
        begins = np.searchsorted(self._sorted_asked, pairs.asked[rows], side="left")
        ends = np.searchsorted(self._sorted_asked, pairs.asked[rows], side="right")
        drawn = self._order[rng.integers(begins, ends)]
        fits = (pairs.said[drawn] != pairs.said[rows]) & (rng.random(len(rows)) < share)
        return np.where(fits, pairs.reply[drawn], -1)


def dialogue_runs(dialogues: NDArray[np.uint64]) -> tuple[Rows, Rows]:
    """Return where the run of pairs of the same dialogue around each pair begins and ends."""
    starts = np.flatnonzero(np.concatenate([[True], dialogues[1:] != dialogues[:-1]]))
    lengths = np.diff(np.concatenate([starts, [len(dialogues)]]))
    return np.repeat(starts, lengths), np.repeat(starts + lengths, lengths)
