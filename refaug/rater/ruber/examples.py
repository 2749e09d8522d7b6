"""Training data of RUBER's unreferenced part: all pairs of logs as arrays, each with a random negative reply.

Every consecutive pair of a log is a positive. Its negative is the reply of another pair of the same log and on the same
side of the split, drawn again in every epoch. It comes from another dialogue, and the same utterance gets this reply
nowhere in the logs: so it is neither the good reply in another spelling ("OK." and "ok") nor another response to the
utterance.

A batch is a random part of the pairs, and its negatives are drawn from its own replies if one of them fits: reading
texts takes most of the time, and this saves reading a third of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from refaug.rater.training.examples import pad
from refaug.rater.training.pair_corpus import PairCorpus, PairSettings, Rows, Side

Triples = NDArray[np.int32]  # (pairs, 3): utterance, reply, negative reply, as texts
_DRAWS: Final = 20  # for a reply from elsewhere, before it is looked for in all the log, or is the one of before
_DRAWS_AT_FIRST: Final = 100  # before a pair is left out


class PairBatch(NamedTuple):
    """Some pairs with a negative reply each: texts without repetition, the longest first."""

    utterances: NDArray[np.int64]  # (texts, time), 0 beyond a text's end
    utterance_lengths: NDArray[np.int64]
    replies: NDArray[np.int64]  # good and negative ones
    reply_lengths: NDArray[np.int64]
    rows: NDArray[np.int64]  # (pairs, 3): row of the utterance, row of the good reply, row of the negative reply


class PairExamples:
    """The pairs of one side in batches; an epoch's number and the settings determine its batches.

    Pairs for which a hundred draws find no negative reply are left out; `unmatched_count` counts them.
    """

    def __init__(self, corpus: PairCorpus, side: Side, settings: PairSettings, max_tokens: int) -> None:
        self._corpus, self._settings, self._max_tokens = corpus, settings, max_tokens
        self._pool = corpus.of_side(side, settings)
        self._bounds = np.searchsorted(self._pool, corpus.first)  # of the logs in it
        negatives = self._draw_negatives(self._pool, np.random.default_rng([settings.seed, 0, 1]), _DRAWS_AT_FIRST)
        self.rows, self._first_negatives = self._pool[negatives >= 0], negatives[negatives >= 0]
        self.unmatched_count = len(self._pool) - len(self.rows)

    @property
    def epoch_size(self) -> int:
        """The number of pairs in one epoch."""
        limit = self._settings.limit
        return len(self.rows) if limit is None else min(limit, len(self.rows))

    def batch_count(self) -> int:
        """Return the number of batches in an epoch."""
        return max(1, self.epoch_size // self._settings.batch)

    def batches(self, number: int, *, skip: int = 0) -> Iterator[PairBatch]:
        """Yield the batches of an epoch after the first `skip`."""
        for place, triples in enumerate(self.draw(number)):
            if place >= skip:
                yield self.batch(triples)

    def draw(self, number: int) -> list[Triples]:
        """Return the pairs of each batch as texts; the remainder is spread over the batches."""
        rng = np.random.default_rng([self._settings.seed, number])
        chosen = rng.permutation(len(self.rows))[: self.epoch_size]
        place = np.arange(len(chosen)) * self.batch_count() // len(chosen)  # the batch of each
        order = np.lexsort((self._log_of(self.rows[chosen]), place))
        chosen, rows = chosen[order], self.rows[chosen[order]]
        begins, ends = _runs(place * len(self._corpus.first) + self._log_of(rows))  # of a log in a batch
        negatives = self._draw_fitting(rows, rows, begins, ends, rng)
        missing = negatives < 0
        negatives[missing] = self._draw_negatives(rows[missing], rng)
        missing = negatives < 0
        negatives[missing] = self._first_negatives[chosen[missing]]
        reply, utterance = self._corpus.reply, self._corpus.utterance
        triples = np.stack([utterance[rows], reply[rows], reply[negatives]], axis=1)
        return np.split(triples, np.flatnonzero(np.diff(place)) + 1)

    def batch(self, triples: Triples) -> PairBatch:
        """Return pairs in the form that a network reads."""
        utterances, utterance_lengths, utterance_rows = self._read(triples[:, :1])
        replies, reply_lengths, reply_rows = self._read(triples[:, 1:])
        return PairBatch(
            utterances, utterance_lengths, replies, reply_lengths, np.concatenate([utterance_rows, reply_rows], axis=1)
        )

    def _read(self, texts_wanted: Triples) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return tokens and lengths of some texts, the longest first, and the row of each."""
        texts, places = np.unique(texts_wanted, return_inverse=True)
        tokens, lengths, order = pad(self._corpus, texts.astype(np.int64), self._max_tokens)
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        return tokens, lengths, rank[places.reshape(texts_wanted.shape)]

    def _draw_negatives(self, rows: Rows, rng: np.random.Generator, draws: int = _DRAWS) -> Rows:
        """Draw for each pair another one of the same log and side whose reply is a negative; -1 if none is found."""
        log = self._log_of(rows)
        return self._draw_fitting(rows, self._pool, self._bounds[log], self._bounds[log + 1], rng, draws)

    def _draw_fitting(
        self, rows: Rows, pool: Rows, begins: Rows, ends: Rows, rng: np.random.Generator, draws: int = _DRAWS
    ) -> Rows:
        """Draw for each pair one that fits, from a part of a pool."""
        drawn_rows = np.full(len(rows), -1, np.int64)
        waiting = np.arange(len(rows))
        for _ in range(draws):
            candidates = pool[rng.integers(begins[waiting], ends[waiting])]
            fits = self._corpus.fits_elsewhere(rows[waiting], candidates)
            drawn_rows[waiting[fits]] = candidates[fits]
            waiting = waiting[~fits]
            if not len(waiting):
                break
        return drawn_rows

    def _log_of(self, rows: Rows) -> Rows:
        return np.searchsorted(self._corpus.first, rows, side="right") - 1


def _runs(groups: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where the run of equal numbers around each of some sorted numbers begins and ends."""
    return np.searchsorted(groups, groups, side="left"), np.searchsorted(groups, groups, side="right")
