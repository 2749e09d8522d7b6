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
from refaug.core.errors import BadInput, Corrupt
from refaug.core.progress import Progress
from refaug.core.records import Item
from refaug.core.text.normalisation import normalise
from refaug.core.text.sentencepiece_tokenizer import SentencePieceTokenizer
from refaug.logs.pairs import text_key
from refaug.rater.language_coverage import Coverage
from refaug.rater.training.examples import hash_share
from refaug.rater.training.order import TrainingLogs

# ── Texts that a pre-training must not see: the contexts, references and replies on which a judge is to be measured ───
#
# A dialogue is left out if it holds an evaluated context's last turn right before one of its references or replies,
# or a turn of four words or more that is an evaluated context's last turn. Texts are compared after normalisation, by
# hash.

_LONG: Final = 4  # words; shorter turns ("why not?") stand in many dialogues
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
            if len(last.split()) >= _LONG:
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


def open_dialogues(folder: Path) -> CodedDialogues:
    """Map the files that `code_dialogues` wrote."""
    try:
        arrays = {name: np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in _ARRAYS}
    except (OSError, ValueError, EOFError) as error:
        raise Corrupt(f"{folder}: {error}", remedy="remove the folder and train again") from error
    return CodedDialogues(**arrays)
