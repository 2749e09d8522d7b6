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
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from refaug.core.errors import Usage
from refaug.rater.training.examples import hash_share, pad

Rows = NDArray[np.int64]  # of pairs
Triples = NDArray[np.int32]  # (pairs, 3): utterance, reply, negative reply, as texts
Side = Literal["train", "validation"]

LEAST_LIMIT: Final = 20  # pairs an epoch
_DRAWS: Final = 20  # for a reply from elsewhere, before it is looked for in all the log, or is the one of before
_DRAWS_AT_FIRST: Final = 100  # before a pair is left out
_AT_ONCE: Final = 100_000  # hashes that are Python integers at the same time
_MIXED: Final = np.uint64(0x9E3779B97F4A7C15)  # 2**64 over the golden ratio: spreads the numbers it multiplies


@dataclass(frozen=True, kw_only=True)
class PairSettings:
    """Which pairs are used, and in what order."""

    batch: int = 256  # pairs
    validation_share: float = 0.05  # of the utterances
    limit: int | None = None  # pairs an epoch, drawn again each time; None: all
    seed: int = 1

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise Usage(f"batches of {self.batch} pairs", remedy="at least 1")
        if self.limit is not None and self.limit < LEAST_LIMIT:
            raise Usage(f"{self.limit} pairs an epoch", remedy=f"at least {LEAST_LIMIT}, or all")
        if not 0 < self.validation_share < 1:
            raise Usage(f"a validation share of {self.validation_share}", remedy="give one between 0 and 1")


@dataclass(frozen=True, eq=False, kw_only=True)
class PairCorpus:
    """The pairs of logs: texts as piece ids, and hashes that identify utterances, replies and dialogues.

    Text t is `pieces[start[t]:start[t + 1]]`; equal texts near each other in a log are one text. Pair p has the
    texts `utterance[p]` and `reply[p]`. The pairs of log l are those from `first[l]` to `first[l + 1]`.
    """

    pieces: NDArray[np.uint16]
    start: NDArray[np.int64]
    utterance: NDArray[np.int32]
    reply: NDArray[np.int32]
    asked: NDArray[np.uint64]  # hashes of the normalised utterances
    said: NDArray[np.uint64]  # hashes of the normalised replies
    dialogue: NDArray[np.uint64]  # hashes of the dialogues' names
    first: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.utterance)

    @cached_property
    def answered_pairs(self) -> NDArray[np.uint64]:
        """Sorted hashes of all pairs of an utterance and its reply."""
        return np.unique(_combine_hashes(self.asked, self.said))

    def fits_elsewhere(self, rows: Rows, other_rows: Rows) -> NDArray[np.bool_]:
        """Whether the reply of each other pair comes from another dialogue, and never answered the pair's utterance."""
        candidates = _combine_hashes(self.asked[rows], self.said[other_rows])
        places = np.minimum(np.searchsorted(self.answered_pairs, candidates), len(self.answered_pairs) - 1)
        fits: NDArray[np.bool_] = (self.answered_pairs[places] != candidates) & (
            self.dialogue[rows] != self.dialogue[other_rows]
        )
        return fits

    def of_side(self, side: Side, settings: PairSettings) -> Rows:
        """Return the pairs of a side; pairs of the same utterance are on the same side, whatever else the log holds."""
        keys, of_pair = np.unique(self.asked, return_inverse=True)
        below = np.concatenate(
            [
                [hash_share(key, settings.seed) < settings.validation_share for key in batch.tolist()]
                for batch in (keys[at : at + _AT_ONCE] for at in range(0, max(1, len(keys)), _AT_ONCE))
            ]
        ).astype(np.bool_)
        is_validation = below[of_pair]
        return np.flatnonzero(is_validation if side == "validation" else ~is_validation)


def _combine_hashes(utterance_hashes: NDArray[np.uint64], reply_hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return one hash of each utterance and reply; their order matters."""
    mixed: NDArray[np.uint64] = (utterance_hashes * _MIXED) ^ reply_hashes
    return mixed


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
