"""What RUBER's unreferenced part learns from: all pairs of logs as arrays, and for each a reply from elsewhere.

Every consecutive pair of a log is a positive. Its negative is the reply of another pair of the same log and on the same
side of the split, drawn anew in every epoch. It comes from another dialogue, and nowhere in the logs does the same
utterance get this reply: so it neither is the good reply in another spelling ("OK." and "ok"), nor one that somebody
else has given.

A batch is a random part of the pairs, and its negatives are drawn from its own replies where it has one that fits: most
of the time goes into reading texts, and so a third of them need not be read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from core.errors import Usage
from rater.examples import drawn_share, padded

Rows = NDArray[np.int64]  # of pairs
Triples = NDArray[np.int32]  # (pairs, 3): utterance, reply, reply from elsewhere, as texts
Side = Literal["train", "validation"]

LEAST_LIMIT: Final = 20  # pairs an epoch
_DRAWS: Final = 20  # for a reply from elsewhere, before it is looked for in all the log, or is the one of before
_DRAWS_AT_FIRST: Final = 100  # before there is said to be none
_AT_ONCE: Final = 100_000  # hashes that are numbers of Python's for a while
_MIXED: Final = np.uint64(0x9E3779B97F4A7C15)  # 2**64 over the golden ratio: spreads what it multiplies


@dataclass(frozen=True, kw_only=True)
class PairSettings:
    """Which pairs, and in what order."""

    batch: int = 256  # pairs
    validation_share: float = 0.05  # of the utterances
    limit: int | None = None  # pairs of an epoch, drawn anew each time; None: all
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
    """The pairs of logs: texts as piece ids, and what tells pairs from each other.

    Text t is `pieces[start[t]:start[t + 1]]`; texts that stand near each other in a log and are equal are one. Pair p
    is of the texts `utterance[p]` and `reply[p]`. The pairs of log l are those from `first[l]` to `first[l + 1]`.
    """

    pieces: NDArray[np.uint16]
    start: NDArray[np.int64]
    utterance: NDArray[np.int32]
    reply: NDArray[np.int32]
    asked: NDArray[np.uint64]  # hashes of the normalised utterances
    said: NDArray[np.uint64]  # the same of the replies
    dialogue: NDArray[np.uint64]  # hashes of the dialogues' names
    first: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.utterance)

    @cached_property
    def known(self) -> NDArray[np.uint64]:
        """Which reply was given to which utterance, as sorted hashes."""
        return np.unique(_together(self.asked, self.said))

    def fits_elsewhere(self, rows: Rows, others: Rows) -> NDArray[np.bool_]:
        """Whether the reply of each other pair comes from another dialogue, and never answered the pair's utterance."""
        wanted = _together(self.asked[rows], self.said[others])
        places = np.minimum(np.searchsorted(self.known, wanted), len(self.known) - 1)
        fits: NDArray[np.bool_] = (self.known[places] != wanted) & (self.dialogue[rows] != self.dialogue[others])
        return fits

    def of_side(self, side: Side, settings: PairSettings) -> Rows:
        """The pairs of a side: those of the same utterance are always on the same one, whatever else is in the log."""
        keys, of_pair = np.unique(self.asked, return_inverse=True)
        below = np.concatenate(
            [
                [drawn_share(key, settings.seed) < settings.validation_share for key in some.tolist()]
                for some in (keys[at : at + _AT_ONCE] for at in range(0, max(1, len(keys)), _AT_ONCE))
            ]
        ).astype(np.bool_)
        wanted = below[of_pair]
        return np.flatnonzero(wanted if side == "validation" else ~wanted)


def _together(asked: NDArray[np.uint64], said: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """One hash of two, in which they have different parts."""
    mixed: NDArray[np.uint64] = (asked * _MIXED) ^ said
    return mixed


class PairBatch(NamedTuple):
    """Some pairs with a reply from elsewhere each: texts without repetition, the longest first."""

    utterances: NDArray[np.int64]  # (texts, time), 0 beyond a text's end
    utterance_lengths: NDArray[np.int64]
    replies: NDArray[np.int64]  # good ones and others
    reply_lengths: NDArray[np.int64]
    rows: NDArray[np.int64]  # (pairs, 3): of utterances, of replies the good one, of replies the other


class PairExamples:
    """The pairs of one side: batches of an epoch, the same ones for the same settings and number.

    Pairs for which a hundred draws find no reply from elsewhere are left out; `without` tells how many.
    """

    def __init__(self, corpus: PairCorpus, side: Side, settings: PairSettings, max_tokens: int) -> None:
        self._corpus, self._settings, self._max_tokens = corpus, settings, max_tokens
        self._pool = corpus.of_side(side, settings)
        self._bounds = np.searchsorted(self._pool, corpus.first)  # of the logs in it
        found = self._elsewhere(self._pool, np.random.default_rng([settings.seed, 0, 1]), _DRAWS_AT_FIRST)
        self.rows, self._found_first = self._pool[found >= 0], found[found >= 0]
        self.without = len(self._pool) - len(self.rows)

    @property
    def of_an_epoch(self) -> int:
        """Pairs that one epoch has."""
        limit = self._settings.limit
        return len(self.rows) if limit is None else min(limit, len(self.rows))

    def batch_count(self) -> int:
        """How many batches an epoch has."""
        return max(1, self.of_an_epoch // self._settings.batch)

    def batches(self, number: int, *, skip: int = 0) -> Iterator[PairBatch]:
        """The batches of an epoch, those after the first `skip`."""
        for place, triples in enumerate(self.drawn(number)):
            if place >= skip:
                yield self.batch(triples)

    def drawn(self, number: int) -> list[Triples]:
        """The same, as texts; what is left over goes into some of them."""
        rng = np.random.default_rng([self._settings.seed, number])
        chosen = rng.permutation(len(self.rows))[: self.of_an_epoch]
        place = np.arange(len(chosen)) * self.batch_count() // len(chosen)  # the batch of each
        order = np.lexsort((self._log_of(self.rows[chosen]), place))
        chosen, rows = chosen[order], self.rows[chosen[order]]
        begins, ends = _runs(place * len(self._corpus.first) + self._log_of(rows))  # of a log in a batch
        others = self._fitting(rows, rows, begins, ends, rng)
        missing = others < 0
        others[missing] = self._elsewhere(rows[missing], rng)
        missing = others < 0
        others[missing] = self._found_first[chosen[missing]]
        reply, utterance = self._corpus.reply, self._corpus.utterance
        triples = np.stack([utterance[rows], reply[rows], reply[others]], axis=1)
        return np.split(triples, np.flatnonzero(np.diff(place)) + 1)

    def batch(self, triples: Triples) -> PairBatch:
        """Pairs as a network reads them."""
        utterances, utterance_lengths, asked = self._read(triples[:, :1])
        replies, reply_lengths, said = self._read(triples[:, 1:])
        return PairBatch(utterances, utterance_lengths, replies, reply_lengths, np.concatenate([asked, said], axis=1))

    def _read(self, wanted: Triples) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Tokens and lengths of some texts, the longest first, and the row of each."""
        texts, places = np.unique(wanted, return_inverse=True)
        tokens, lengths, order = padded(self._corpus, texts.astype(np.int64), self._max_tokens)
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        return tokens, lengths, rank[places.reshape(wanted.shape)]

    def _elsewhere(self, rows: Rows, rng: np.random.Generator, draws: int = _DRAWS) -> Rows:
        """For each pair a drawn one of the same log and side whose reply is from elsewhere; -1 where none was met."""
        log = self._log_of(rows)
        return self._fitting(rows, self._pool, self._bounds[log], self._bounds[log + 1], rng, draws)

    def _fitting(
        self, rows: Rows, pool: Rows, begins: Rows, ends: Rows, rng: np.random.Generator, draws: int = _DRAWS
    ) -> Rows:
        """For each pair one that fits, drawn from its own part of a pool."""
        found = np.full(len(rows), -1, np.int64)
        waiting = np.arange(len(rows))
        for _ in range(draws):
            drawn = pool[rng.integers(begins[waiting], ends[waiting])]
            fits = self._corpus.fits_elsewhere(rows[waiting], drawn)
            found[waiting[fits]] = drawn[fits]
            waiting = waiting[~fits]
            if not len(waiting):
                break
        return found

    def _log_of(self, rows: Rows) -> Rows:
        return np.searchsorted(self._corpus.first, rows, side="right") - 1


def _runs(groups: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where the run of equal numbers begins and ends that each is in, of sorted ones."""
    return np.searchsorted(groups, groups, side="left"), np.searchsorted(groups, groups, side="right")
