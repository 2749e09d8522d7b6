"""Training examples: windows of dialogues, in batches of like length that the number of a step determines.

A window has as many turns as a context, and one more. A longer dialogue is cut into windows that share one turn, so
that every turn but the first follows a context; where the cuts lie is drawn again in every pass over the dialogues.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from refaug.core.errors import Usage
from refaug.rater.adem.pretraining.dialogues import CodedDialogues
from refaug.rater.adem.vhred.encoder import DialogueBatch, Numbers, batch_dialogues
from refaug.rater.adem.vhred.network import DecodedTurns, pack_turns
from refaug.rater.training.loop import VALIDATION_EPOCH

_POOL: Final = 50  # batches of windows that are sorted by length together


@dataclass(frozen=True, kw_only=True)
class WindowSettings:
    """Which windows a training reads, and in what order."""

    turns: int = 3  # of a context
    batch: int = 64  # windows
    steps: int = 20_000  # batches of the whole training
    round_steps: int = 1_000  # batches between two validations
    word_drop: float = 0.25  # share of the decoder's inputs that are replaced by the unknown piece
    validation_share: float = 0.02  # of the dialogues, never trained on
    validation_limit: int = 2_000  # windows that validate
    seed: int = 1

    def __post_init__(self) -> None:
        if min(self.turns, self.batch, self.steps, self.round_steps, self.validation_limit) < 1:
            raise Usage("turns, windows a batch, steps and windows that validate are 1 or more")
        if not 0 <= self.word_drop < 1:
            raise Usage(f"a word drop of {self.word_drop}", remedy="from 0 on, below 1")
        if not 0 < self.validation_share < 1:
            raise Usage(f"a validation share of {self.validation_share}", remedy="give one between 0 and 1")

    @property
    def rounds(self) -> int:
        """The number of validations, at most."""
        return -(-self.steps // self.round_steps)


class Windows(NamedTuple):
    """Windows by their first turn and their number of turns."""

    first: Numbers
    turns: Numbers

    def take(self, places: Numbers) -> Windows:
        """Return some of them."""
        return Windows(self.first[places], self.turns[places])


@dataclass(frozen=True, eq=False, kw_only=True)
class WindowBatch:
    """Some windows: dialogues to read, and all their turns to decode."""

    number: int  # of the step, from 0
    dialogues: DialogueBatch
    turns: DecodedTurns
    before: Numbers  # (turns,): the place of the states before each decoded turn, among dialogues × ends
    is_first: NDArray[np.bool_]  # (turns,): whether nothing comes before the turn

    @property
    def window_count(self) -> int:
        """The number of windows."""
        return len(self.dialogues.end_counts)


def cut_windows(first: Numbers, turns: int, rng: np.random.Generator | None) -> Windows:
    """Cut dialogues, by their bounds `first`, into windows; without a generator, every cut lies as late as it can."""
    counts = np.diff(first)
    is_long = counts > turns + 1
    size = np.full(len(counts), turns) if rng is None else rng.integers(1, turns + 1, len(counts))
    size = np.where(is_long, size, counts - 1)  # contexts of the first window
    windows = 1 + np.maximum(0, -(-(counts - 1 - size) // turns))
    of_dialogue = np.repeat(np.arange(len(counts)), windows)
    place = np.arange(len(of_dialogue)) - np.repeat(np.cumsum(windows) - windows, windows)
    begins = np.where(place == 0, 0, size[of_dialogue] + (place - 1) * turns)
    ends = np.minimum(size[of_dialogue] + place * turns, counts[of_dialogue] - 1)
    return Windows(np.asarray(first[of_dialogue] + begins), ends - begins + 1)


class DialogueWindows:
    """The windows of one side in batches; a round of batches between two validations is an epoch of the loop."""

    def __init__(self, dialogues: CodedDialogues, settings: WindowSettings, *, is_validation: bool, end: int) -> None:
        self.dialogues, self.settings, self._end = dialogues, settings, end
        is_held_out = dialogues.held_out(settings.validation_share, settings.seed)
        chosen = np.flatnonzero(is_held_out == is_validation)
        self.dialogue_count = len(chosen)
        self._bounds = np.stack([dialogues.first[chosen], dialogues.first[chosen + 1]])
        self._is_validation = is_validation
        windows = self._cut(None)
        self.window_count = min(len(windows.first), settings.validation_limit) if is_validation else len(windows.first)
        self._pass_steps = max(1, self.window_count // settings.batch)

    @property
    def epoch_size(self) -> int:
        """The number of windows in a round."""
        return self.window_count if self._is_validation else self.settings.round_steps * self.settings.batch

    def batch_count(self) -> int:
        """Return the number of batches in a round."""
        return self._pass_steps if self._is_validation else self.settings.round_steps

    def batches(self, number: int, *, skip: int = 0) -> Iterator[WindowBatch]:
        """Yield the batches of a round after the first `skip`."""
        if number == VALIDATION_EPOCH:
            yield from self._validation_batches()
            return
        step = (number - 1) * self.settings.round_steps + skip
        last = number * self.settings.round_steps
        while step < last:
            passed, place = divmod(step, self._pass_steps)
            for windows in self._draw(passed)[place : place + last - step]:
                yield self._batch(windows, step)
                step += 1

    @property
    def turn_count(self) -> int:
        """The number of turns in all dialogues of the side."""
        return int((self._bounds[1] - self._bounds[0]).sum())

    def piece_counts(self, vocabulary: int) -> Numbers:
        """Return how often each piece stands in the dialogues of the side."""
        counts = np.zeros(vocabulary, np.int64)
        begins, ends = self.dialogues.start[self._bounds]
        borders = np.flatnonzero(np.concatenate([[True], begins[1:] != ends[:-1], [True]]))  # of dialogues in a row
        for run in range(len(borders) - 1):
            pieces = self.dialogues.pieces[begins[borders[run]] : ends[borders[run + 1] - 1]]
            counts += np.bincount(pieces, minlength=vocabulary)
        return counts

    def sample(self, count: int) -> Windows:
        """Return windows of two turns or more, chosen by the seed: those that validate."""
        windows = self._cut(None)
        order = np.random.default_rng([self.settings.seed, 1]).permutation(len(windows.first))[:count]
        return windows.take(np.sort(order))

    def turns_of(self, first: int, count: int) -> list[Numbers]:
        """Return the pieces of some turns in a row."""
        return [self.dialogues.turn(turn) for turn in range(first, first + count)]

    def _cut(self, rng: np.random.Generator | None) -> Windows:
        sizes = self._bounds[1] - self._bounds[0]
        packed = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        windows = cut_windows(packed, self.settings.turns, rng)
        of_dialogue = np.searchsorted(packed, windows.first, side="right") - 1
        return Windows(windows.first - packed[of_dialogue] + self._bounds[0][of_dialogue], windows.turns)

    def _validation_batches(self) -> Iterator[WindowBatch]:
        windows = self.sample(self.settings.validation_limit)
        windows = windows.take(np.argsort(self._lengths(windows), kind="stable"))
        for number, places in enumerate(np.array_split(np.arange(len(windows.first)), self._pass_steps)):
            yield self._batch(windows.take(places), number)

    def _draw(self, passed: int) -> list[Windows]:
        """Return the batches of one pass over the dialogues."""
        rng = np.random.default_rng([self.settings.seed, 2, passed])
        windows = self._cut(rng)
        size = self.settings.batch
        drawn = windows.take(rng.permutation(len(windows.first))[: self._pass_steps * size])
        batches = list[Windows]()
        for begin in range(0, len(drawn.first), _POOL * size):
            pool = drawn.take(np.arange(begin, min(begin + _POOL * size, len(drawn.first))))
            order = np.argsort(self._lengths(pool), kind="stable")
            parts = [pool.take(order[at : at + size]) for at in range(0, len(order), size)]
            batches += [parts[at] for at in rng.permutation(len(parts))]
        return batches

    def _lengths(self, windows: Windows) -> Numbers:
        start = self.dialogues.start
        return np.asarray(start[windows.first + windows.turns] - start[windows.first])

    def _batch(self, windows: Windows, number: int) -> WindowBatch:
        dialogues = [self.turns_of(*window) for window in zip(*(part.tolist() for part in windows), strict=True)]
        turns = [turn for dialogue in dialogues for turn in dialogue]
        dropped = None
        if self.settings.word_drop and not self._is_validation:
            drawn = np.random.default_rng([self.settings.seed, 3, number]).random(sum(map(len, turns)))
            bounds = np.cumsum([len(turn) for turn in turns])[:-1]
            dropped = np.split(drawn < self.settings.word_drop, bounds)
        decoded = pack_turns(turns, self._end, dropped=dropped)
        ends = int(windows.turns.max()) + 1
        place = np.concatenate([row * ends + np.arange(count) for row, count in enumerate(windows.turns)])
        return WindowBatch(
            number=number,
            dialogues=batch_dialogues(dialogues, self._end),
            turns=decoded,
            before=place[decoded.order],
            is_first=(place % ends == 0)[decoded.order],
        )
