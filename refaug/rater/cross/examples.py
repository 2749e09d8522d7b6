"""Training data of the cross rater: every pair of the logs with its dialogue, and replies that are wrong there.

The reply of a pair is right. Beside it stand wrong replies to the same turns, of three kinds:

- random: the reply of another pair of the same log
- dialogue: another turn of the same dialogue, or the utterance itself: it has the right topic at the wrong place
- hard: a reply that shares rare words with the right one, and answers another kind of utterance

or, with negatives `noise`, random ones and the reply itself with its words dropped, shuffled or repeated
(refaug.rater.cross.noise).

In half of the examples whose utterance got several replies in the logs, one of the other replies is given as known to
fit: so the network learns to judge with a gold and without one.

All places of a batch are hidden with the same probability, whether the reply is right or wrong: otherwise the hidden
pieces would give the answer away.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from refaug.core.errors import Usage
from refaug.rater.cross.noise import NOISES, Begins, with_noise
from refaug.rater.cross.sequences import FIRST_PIECE, MASK, TURNS, Ids, Pieces, SequenceBatch, SequenceShape
from refaug.rater.training.pair_corpus import LEAST_LIMIT, PairCorpus, PairSettings, ReplyDraws, Rows, Side, Texts

Kinds = Literal["random", "mixed", "noise"]
RANDOM, DIALOGUE, HARD, NOISY = range(4)  # the noises are numbered from the last one on
KIND_NAMES: Final = ("random", "dialogue", "hard", *NOISES)
_MIX: Final = (0.5, 0.25, 0.25)  # of the kinds of wrong replies, where there are some of each
_NOISY_SHARE: Final = 0.5  # of wrong replies with negatives `noise`; the others are random
_CHUNK: Final = 64  # batches made from one run of examples sorted by length
_MOST_VALIDATED: Final = 2_000  # right replies


@dataclass(frozen=True, kw_only=True)
class CrossExampleSettings:
    """Which examples are used, and in what order."""

    batch: int = 64  # right replies; each brings its wrong ones
    wrong: int = 2  # wrong replies beside a right one
    negatives: Kinds = "mixed"
    known: float = 0.5  # share of the examples with a response that is known to fit, where there is one
    hidden: float = 0.15  # share of the pieces that are hidden and predicted
    validation_share: float = 0.05  # of the utterances
    limit: int | None = None  # right replies an epoch, drawn again each time; None: all
    seed: int = 1

    def __post_init__(self) -> None:
        if self.batch < 1 or self.wrong < 1:
            raise Usage(f"batches of {self.batch} replies with {self.wrong} wrong ones each", remedy="at least 1")
        if self.negatives not in get_args(Kinds):
            raise Usage(f"negatives {self.negatives!r}", remedy=f"one of: {', '.join(get_args(Kinds))}")
        if not (0 <= self.known <= 1 and 0 <= self.hidden < 1):
            raise Usage(f"shares of {self.known} and {self.hidden}", remedy="from 0 to 1")
        if self.limit is not None and self.limit < LEAST_LIMIT:
            raise Usage(f"{self.limit} replies an epoch", remedy=f"at least {LEAST_LIMIT}, or all")
        if not 0 < self.validation_share < 1:
            raise Usage(f"a validation share of {self.validation_share}", remedy="give one between 0 and 1")

    @property
    def sides(self) -> PairSettings:
        """The same choice of utterances to validate on as for pairs."""
        return PairSettings(batch=self.batch, validation_share=self.validation_share, limit=self.limit, seed=self.seed)


class CrossBatch(NamedTuple):
    """Some sequences: the right replies first, then the wrong ones of each in turn."""

    sequences: SequenceBatch
    labels: NDArray[np.float32]
    kinds: Ids  # of wrong replies; -1 for right ones
    hidden_rows: Ids  # of the pieces to predict, in sequences with a right reply
    hidden_places: Ids
    hidden_pieces: Ids
    examples: int  # right replies


class _Drawn(NamedTuple):
    """The examples of a batch: pairs, a known response as a text or -1, wrong replies as texts, and their kinds."""

    rows: Rows
    known: Texts
    wrong: Texts  # (pairs, wrong)
    kinds: Ids
    noisy: Mapping[int, Sequence[int]]  # pieces of wrong replies that are no texts, by their places among all


class CrossExamples:
    """The pairs of one side in batches; an epoch's number and the settings determine its batches.

    `partners` has hard negatives, as texts, of the reply of each pair; -1 fills the rest. `begins` says which pieces
    begin a word, for noise.
    """

    def __init__(
        self,
        corpus: PairCorpus,
        side: Side,
        settings: CrossExampleSettings,
        shape: SequenceShape,
        partners: Texts | None = None,
        begins: Begins | None = None,
    ) -> None:
        self._corpus, self._settings, self._shape, self._partners = corpus, settings, shape, partners
        self._begins = begins
        self._is_training = side == "train"
        self.rows = corpus.of_side(side, settings.sides)
        self._draws = ReplyDraws(corpus, self.rows)
        self._lengths = np.diff(corpus.start)

    @property
    def epoch_size(self) -> int:
        """The number of right replies in one epoch."""
        limit = self._settings.limit if self._is_training else _MOST_VALIDATED
        return len(self.rows) if limit is None else min(limit, len(self.rows))

    def batch_count(self) -> int:
        """Return the number of batches in an epoch."""
        return max(1, self.epoch_size // self._settings.batch)

    def batches(self, number: int, *, skip: int = 0) -> Iterator[CrossBatch]:
        """Yield the batches of an epoch after the first `skip`; examples of similar length come together."""
        for place, rows in enumerate(self._split_into_batches(number)):
            if place >= skip:
                rng = np.random.default_rng([self._settings.seed, number, 1 + place])
                yield self._batch(self._draw(rows, rng), rng)

    def _split_into_batches(self, number: int) -> list[Rows]:
        rng = np.random.default_rng([self._settings.seed, number])
        chosen = self.rows[rng.permutation(len(self.rows))[: self.epoch_size]]
        lengths = self._lengths[self._corpus.utterance[chosen]] + self._lengths[self._corpus.reply[chosen]]
        order = np.lexsort((np.arange(len(chosen)), lengths, np.arange(len(chosen)) // (self._settings.batch * _CHUNK)))
        cuts = np.array_split(chosen[order], self.batch_count())
        return [cuts[place] for place in rng.permutation(len(cuts)).tolist()]

    # ── wrong replies ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _draw(self, rows: Rows, rng: np.random.Generator) -> _Drawn:
        known = self._draws.known(rows, self._settings.known, rng)
        count = self._settings.wrong
        repeated = np.repeat(rows, count)
        wrong, kinds = self._draw_wrong(repeated, rng)
        noisy = self._make_noise(repeated, kinds, rng)
        return _Drawn(rows, known, wrong.reshape(-1, count), kinds.reshape(-1, count), noisy)

    def _make_noise(self, rows: Rows, kinds: Ids, rng: np.random.Generator) -> Mapping[int, Sequence[int]]:
        """Return half of the wrong replies as the right ones with noise, where there can be some; note their kinds."""
        noisy = dict[int, Sequence[int]]()
        if self._begins is None:
            return noisy
        for place in np.flatnonzero(rng.random(len(rows)) < _NOISY_SHARE).tolist():
            number = int(rng.integers(len(NOISES)))
            reply = self._text(int(self._corpus.reply[rows[place]]))
            if (pieces := with_noise(reply, NOISES[number], self._begins, rng)) is not None:
                noisy[place], kinds[place] = pieces, NOISY + number
        return noisy

    def _draw_wrong(self, rows: Rows, rng: np.random.Generator) -> tuple[Texts, Ids]:
        """Return a wrong reply for each pair, as a text, and its kind."""
        texts = self._draws.random(rows, rng)
        kinds = np.full(len(rows), RANDOM, np.int64)
        if self._settings.negatives != "mixed":
            return texts, kinds
        wanted = rng.choice(len(_MIX), len(rows), p=_MIX)
        for kind, draw in ((DIALOGUE, self._draws.from_dialogue), (HARD, self._draw_hard)):
            of_kind = np.flatnonzero(wanted == kind)
            drawn = draw(rows[of_kind], rng)
            fits = drawn >= 0
            texts[of_kind[fits]], kinds[of_kind[fits]] = drawn[fits], kind
        return texts, kinds

    def _draw_hard(self, rows: Rows, rng: np.random.Generator) -> Texts:
        """Draw a hard negative of each pair; -1 where there is none."""
        if self._partners is None:
            return np.full(len(rows), -1, np.int64)
        candidates = self._partners[rows]
        choices = (candidates >= 0).sum(axis=1)
        drawn: Texts = candidates[np.arange(len(rows)), rng.integers(0, np.maximum(choices, 1))]
        return drawn

    # ── sequences ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _batch(self, drawn: _Drawn, rng: np.random.Generator) -> CrossBatch:
        count = len(drawn.rows)
        turns = [self._turns(row) for row in drawn.rows.tolist()]
        known = [None if text < 0 else self._text(text) for text in drawn.known.tolist()]
        right = [
            Pieces(of_turns, fits, self._text(reply))
            for of_turns, fits, reply in zip(turns, known, self._corpus.reply[drawn.rows].tolist(), strict=True)
        ]
        wrong = [
            right[place // self._settings.wrong]._replace(reply=drawn.noisy.get(place) or self._text(text))
            for place, text in enumerate(drawn.wrong.ravel().tolist())
        ]
        sequences = self._shape.batch([*right, *wrong])
        rows, places = self._hide(sequences, rng)
        of_right = rows < count
        pieces = sequences.tokens[rows, places]
        sequences.tokens[rows, places] = self._shape.vocabulary + MASK
        return CrossBatch(
            sequences=sequences,
            labels=(np.arange(len(sequences.lengths)) < count).astype(np.float32),
            kinds=np.concatenate([np.full(count, -1), drawn.kinds.ravel()]),
            hidden_rows=rows[of_right],
            hidden_places=places[of_right],
            hidden_pieces=pieces[of_right],
            examples=count,
        )

    def _hide(self, sequences: SequenceBatch, rng: np.random.Generator) -> tuple[Ids, Ids]:
        """Return rows and places of the pieces to hide: none in validation."""
        if not self._is_training:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        is_piece = (sequences.tokens >= FIRST_PIECE) & (sequences.tokens < self._shape.vocabulary)
        rows, places = np.nonzero(is_piece & (rng.random(is_piece.shape) < self._settings.hidden))
        return rows, places

    def _turns(self, row: int) -> Sequence[Sequence[int]]:
        """Return the last turns before a reply: pairs of one dialogue follow each other, each from the reply before."""
        corpus, texts = self._corpus, list[int]()
        while True:
            texts.append(int(corpus.utterance[row]))
            is_first = row == self._draws.begin[row] or corpus.reply[row - 1] != corpus.utterance[row]
            if is_first or len(texts) == TURNS:
                return [self._text(text) for text in reversed(texts)]
            row -= 1

    def _text(self, text: int) -> Sequence[int]:
        pieces: Any = self._corpus.pieces[self._corpus.start[text] : self._corpus.start[text + 1]].tolist()
        return list(pieces)
