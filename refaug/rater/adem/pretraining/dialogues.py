"""From logs to dialogues as piece ids: chains of pairs in which each utterance is the response of the pair before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from refaug.core.array_files import write_array
from refaug.core.errors import BadInput, Corrupt, Usage
from refaug.core.progress import Progress
from refaug.core.records import Item
from refaug.core.text.normalisation import is_distinctive, normalise
from refaug.core.text.sentencepiece_tokenizer import SentencePieceTokenizer
from refaug.logs.pairs import text_key
from refaug.rater.adem.vhred.conversation import DropBy, draw_dropped
from refaug.rater.adem.vhred.encoder import DialogueBatch, Numbers, batch_dialogues
from refaug.rater.adem.vhred.network import DecodedTurns, pack_turns
from refaug.rater.language_coverage import Coverage
from refaug.rater.training.examples import hash_share
from refaug.rater.training.loop import VALIDATION_EPOCH
from refaug.rater.training.order import TrainingLogs

# ── Texts that a pre-training must not see: the contexts, references and replies on which a judge is to be measured ───
#
# A dialogue is left out if it holds an evaluated context's last turn right before one of its references or replies,
# or a turn that is an evaluated context's last turn and long enough to say which dialogue it is of. Texts are compared
# after normalisation, by hash.

_MIXED: Final = np.uint64(0x9E3779B97F4A7C15)  # 2**64 over the golden ratio: spreads the numbers it multiplies

Keys = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class ExcludedTexts:
    """Sorted hashes of long last turns of contexts, and of pairs of a last turn and a text after it."""

    turns: Keys
    pairs: Keys

    @classmethod
    def of(cls, items: Iterable[Item]) -> Self:
        """Return what items hold."""
        turns, pairs = set[int](), set[tuple[int, int]]()
        for test_item in items:
            utterance = test_item.utterance
            if not utterance:
                continue
            last = normalise(utterance)
            if is_distinctive(last):
                turns.add(text_key(last))
            texts = (*(reference.text for reference in test_item.references), *test_item.replies.values())
            pairs |= {(text_key(last), text_key(normalise(text))) for text in texts}
        rows = np.array(sorted(pairs), np.uint64).reshape(-1, 2)
        return cls(np.array(sorted(turns), np.uint64), np.unique(_combine(rows[:, 0], rows[:, 1])))

    @classmethod
    def none(cls) -> Self:
        """Return no texts."""
        return cls.of(())

    def holds_turns(self, keys: Keys) -> NDArray[np.bool_]:
        """Say for each turn whether it is a long last turn of a context."""
        return np.isin(keys, self.turns)

    def holds_pairs(self, keys: Keys, next_keys: Keys) -> NDArray[np.bool_]:
        """Say for each pair of turns whether it is evaluated, or its second turn is a long last turn of a context."""
        return np.isin(_combine(keys, next_keys), self.pairs) | np.isin(next_keys, self.turns)


def _combine(keys: Keys, next_keys: Keys) -> Keys:
    """Return one hash of two; their order matters."""
    mixed: Keys = (keys.astype(np.uint64) * _MIXED) ^ next_keys.astype(np.uint64)
    return mixed


# ── From logs to dialogues as piece ids: chains of pairs in which each utterance is the response of the pair before ───

_ARRAYS: Final = ("pieces", "start", "first", "keys")
_COLUMNS: Final = ("dialogue", "utterance", "response", "utterance_key", "response_key")
LEAST_DIALOGUES: Final = 200  # with fewer, a network learns nothing that generalises


@dataclass(frozen=True, eq=False, kw_only=True)
class CodedDialogues:
    """Dialogues of two turns or more, as piece ids.

    Turn t is `pieces[start[t]:start[t + 1]]`; dialogue d has the turns from `first[d]` to `first[d + 1]`.
    """

    pieces: NDArray[np.uint16]
    start: NDArray[np.int64]
    first: NDArray[np.int64]
    keys: NDArray[np.uint64]  # hash of each dialogue's first turn: dialogues that begin alike are on one side

    def __len__(self) -> int:
        return len(self.keys)

    def turn(self, turn: int) -> NDArray[np.int64]:
        """Return the pieces of one turn."""
        return self.pieces[self.start[turn] : self.start[turn + 1]].astype(np.int64)

    def held_out(self, share: float, seed: int) -> NDArray[np.bool_]:
        """Say for each dialogue whether it is held out for validation."""
        keys, of_dialogue = np.unique(self.keys, return_inverse=True)
        is_below = np.fromiter((hash_share(int(key), seed) < share for key in keys), np.bool_, len(keys))
        return np.asarray(is_below[of_dialogue.reshape(-1)])


class _TurnPiece(NamedTuple):
    """The turns of some pairs of a log, in order."""

    texts: list[str]
    begins: NDArray[np.bool_]  # whether a dialogue begins with the turn
    is_excluded: NDArray[np.bool_]
    keys: NDArray[np.uint64]


def code_dialogues(
    tokenizer: SentencePieceTokenizer,
    sources: TrainingLogs,
    excluded: ExcludedTexts,
    folder: Path,
    max_tokens: int,
    progress: Progress,
) -> Mapping[str, Any]:
    """Write the dialogues of the logs as piece ids; return their counts."""
    progress.stage("reading dialogues", sum(part.pairs for log in sources.logs for part in log.manifest.parts), "pairs")
    coverage, cut_count = Coverage(), 0
    pieces, lengths, turn_pieces = list[NDArray[np.uint16]](), list[int](), list[_TurnPiece]()
    for piece, pair_count in _turn_pieces(sources, excluded):
        coded = tokenizer.encode_ids_batch(piece.texts)
        coverage += Coverage.of_pieces(tokenizer, piece.texts, coded)
        cut_count += sum(len(ids) > max_tokens for ids in coded)
        cut = [ids[:max_tokens] or [tokenizer.unk_id] for ids in coded]
        lengths += map(len, cut)
        pieces.append(np.fromiter(chain.from_iterable(cut), np.uint16))
        turn_pieces.append(piece._replace(texts=[]))
        progress.advance(pair_count)
    all_turns = _join(turn_pieces)
    dialogues = _without_excluded(all_turns, np.concatenate([*pieces, np.empty(0, np.uint16)]), lengths)
    for name in _ARRAYS:
        write_array(folder / f"{name}.npy", getattr(dialogues, name))
    return {
        "dialogues": len(dialogues),
        "turns": len(dialogues.start) - 1,
        "pieces": len(dialogues.pieces),
        "longest": int(np.diff(dialogues.first).max(initial=0)),
        "excluded": int(all_turns.begins.sum()) - len(dialogues),
        "cut": cut_count,
        "coverage": coverage.as_json(),
    }


def _turn_pieces(sources: TrainingLogs, excluded: ExcludedTexts) -> Iterator[tuple[_TurnPiece, int]]:
    """Yield the turns of the logs batch by batch, with the number of pairs they are from."""
    for log in sources.logs:
        before: tuple[Any, Any] = (None, None)  # dialogue and response of the last pair
        for batch in log.batches(_COLUMNS):
            yield _turns_of(batch, before, excluded), batch.num_rows
            before = (batch["dialogue"][-1].as_py(), batch["response"][-1].as_py())


def _turns_of(batch: pa.RecordBatch, before: tuple[Any, Any], excluded: ExcludedTexts) -> _TurnPiece:
    """Return the turns of some pairs: of a pair that goes on with the one before, only the response."""
    names, utterances, responses = (batch[name].to_pylist() for name in _COLUMNS[:3])
    utterance_keys, response_keys = (batch[name].to_numpy(zero_copy_only=False) for name in _COLUMNS[3:])
    last = zip([before[0], *names], [before[1], *responses], strict=False)
    begins = np.array(
        [(name, text) != ending for name, text, ending in zip(names, utterances, last, strict=False)], np.bool_
    )
    is_turn = np.stack([begins, np.ones(len(begins), np.bool_)], axis=1).reshape(-1)  # utterance, response, …
    texts = [text for pair in zip(utterances, responses, strict=True) for text in pair]
    of_pair = np.stack([excluded.holds_turns(utterance_keys), excluded.holds_pairs(utterance_keys, response_keys)])
    return _TurnPiece(
        [text for text, is_new in zip(texts, is_turn.tolist(), strict=True) if is_new],
        np.stack([begins, np.zeros(len(begins), np.bool_)], axis=1).reshape(-1)[is_turn],
        of_pair.T.reshape(-1)[is_turn],
        np.stack([utterance_keys, response_keys], axis=1).reshape(-1)[is_turn],
    )


def _join(turn_pieces: list[_TurnPiece]) -> _TurnPiece:
    return _TurnPiece(
        [],
        *(
            np.concatenate([np.empty(0, kind), *(piece[place] for piece in turn_pieces)])
            for place, kind in ((1, np.bool_), (2, np.bool_), (3, np.uint64))
        ),
    )


def _without_excluded(turns: _TurnPiece, pieces: NDArray[np.uint16], lengths: list[int]) -> CodedDialogues:
    """Return the dialogues of which no turn is excluded."""
    of_dialogue = np.cumsum(turns.begins) - 1
    is_excluded = np.zeros(int(turns.begins.sum()), np.bool_)
    is_excluded[of_dialogue[turns.is_excluded]] = True
    stays = ~is_excluded[of_dialogue]
    sizes = np.array(lengths, np.int64)
    turn_counts = np.bincount(of_dialogue, minlength=len(is_excluded))[~is_excluded]
    return CodedDialogues(
        pieces=pieces[np.repeat(stays, sizes)],
        start=np.concatenate([[0], np.cumsum(sizes[stays])]).astype(np.int64),
        first=np.concatenate([[0], np.cumsum(turn_counts)]).astype(np.int64),
        keys=turns.keys[turns.begins & stays],
    )


def require_dialogues(counts: Mapping[str, Any], logs: str, turns: int) -> None:
    """Raise BadInput for too few dialogues, and for contexts of several turns in a log of single pairs."""
    if counts["dialogues"] < LEAST_DIALOGUES:
        raise BadInput(
            f"{logs}: {counts['dialogues']:,} dialogues ({counts['excluded']:,} are excluded); at least "
            f"{LEAST_DIALOGUES} are needed",
            remedy="give more logs",
        )
    if turns > 1 and counts["longest"] <= 2:
        raise BadInput(
            f"{logs}: no dialogue has more than two turns, so no context has the {turns} turns of --turns",
            remedy="give a log with longer dialogues too, or --turns 1",
        )


def require_both_sides(dialogues: CodedDialogues, windows: WindowSettings) -> None:
    """Raise BadInput where no dialogue of enough turns is held out, or none is left to train on."""
    held_out = dialogues.held_out(windows.validation_share, windows.seed)
    is_held_out = held_out[np.diff(dialogues.first) >= windows.least_turns]
    if not is_held_out.any() or is_held_out.all():
        raise BadInput(
            f"{is_held_out.sum():,} of {len(is_held_out):,} dialogues of {windows.least_turns} turns or more are held "
            f"out: the validation share is {windows.validation_share:g}, and the seed {windows.seed}",
            remedy="more dialogues, or another --validation-share",
        )


def open_dialogues(folder: Path) -> CodedDialogues:
    """Map the files that `code_dialogues` wrote."""
    try:
        arrays = {name: np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in _ARRAYS}
    except (OSError, ValueError, EOFError) as error:
        raise Corrupt(f"{folder}: {error}", remedy="remove the folder and train again") from error
    return CodedDialogues(**arrays)


# ── Training examples: windows of dialogues, in batches of like length that the number of a step determines ───────────
#
# A window has as many turns as a context, and one more. A longer dialogue is cut into windows that share one turn, so
# that every turn but the first follows a context; where the cuts lie is drawn again in every pass over the dialogues.


_POOL: Final = 50  # batches of windows that are sorted by length together


@dataclass(frozen=True, kw_only=True)
class WindowSettings:
    """Which windows a training reads, and in what order."""

    turns: int = 3  # of a context
    batch: int = 64  # windows
    steps: int = 20_000  # batches of the whole training
    round_steps: int = 1_000  # batches between two validations
    word_drop: float = 0.25  # share of the decoder's inputs that are replaced by the unknown piece
    sentence_drop: float = 0.0  # share of turns that the reader of turns of a VHCR does not hear
    drop_by: DropBy = "turn"
    least_turns: int = 2  # of a dialogue
    validation_share: float = 0.02  # of the dialogues, never trained on
    validation_limit: int = 2_000  # windows that validate
    seed: int = 1

    def __post_init__(self) -> None:
        if min(self.turns, self.batch, self.steps, self.round_steps, self.validation_limit) < 1:
            raise Usage("turns, windows a batch, steps and windows that validate are 1 or more")
        for name, share in (("word", self.word_drop), ("sentence", self.sentence_drop)):
            if not 0 <= share < 1:
                raise Usage(f"a {name} drop of {share}", remedy="from 0 on, below 1")
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
    inputs: Numbers  # (turns that are not first,): the turn before each, among all turns of the corpus
    dropped: NDArray[np.bool_] | None = None  # (dialogues, ends): turns that the reader of turns does not hear

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
        chosen = np.flatnonzero((is_held_out == is_validation) & (np.diff(dialogues.first) >= settings.least_turns))
        self.dialogue_count = len(chosen)
        self.skipped_count = int((is_held_out == is_validation).sum()) - len(chosen)  # of too few turns
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

    def input_turns(self) -> Numbers:
        """Return all turns of the side that another turn follows."""
        return np.concatenate([np.empty(0, np.int64), *(np.arange(*each) for each in (self._bounds - [[0], [1]]).T)])

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
        read = batch_dialogues(dialogues, self._end)
        ends = int(windows.turns.max()) + 1
        place = np.concatenate([row * ends + np.arange(count) for row, count in enumerate(windows.turns)])
        is_first = (place % ends == 0)[decoded.order]
        global_turns = np.repeat(windows.first, windows.turns) + place % ends
        return WindowBatch(
            number=number,
            dialogues=read,
            turns=decoded,
            before=place[decoded.order],
            is_first=is_first,
            inputs=global_turns[decoded.order][~is_first] - 1,
            dropped=None if self._is_validation else draw_dropped(read.end_counts, self.settings, number),
        )
