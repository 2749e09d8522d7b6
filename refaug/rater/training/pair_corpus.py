"""All pairs of logs as piece ids, with hashes that tell which utterance and dialogue each belongs to.

Texts are read piece by piece; the arrays are in memory twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from refaug.core.array_files import write_array
from refaug.core.errors import BadInput, Corrupt, Usage
from refaug.core.progress import Progress
from refaug.core.text.sentencepiece_tokenizer import SentencePieceTokenizer
from refaug.logs.pairs import text_key
from refaug.rater.language_coverage import Coverage
from refaug.rater.training.examples import hash_share
from refaug.rater.training.order import TrainingLogs

Rows = NDArray[np.int64]  # of pairs
Side = Literal["train", "validation"]

LEAST_LIMIT: Final = 20  # pairs an epoch
_AT_ONCE: Final = 100_000  # hashes that are Python integers at the same time
_MIXED: Final = np.uint64(0x9E3779B97F4A7C15)  # 2**64 over the golden ratio: spreads the numbers it multiplies
_ARRAYS: Final = ("pieces", "start", "utterance", "reply", "asked", "said", "dialogue", "first")
_COLUMNS: Final = ("dialogue", "utterance", "response", "utterance_key", "response_key")
_EMPTY: Final = text_key("")  # of a text without visible characters
LEAST_PAIRS: Final = 200  # with fewer, a network learns nothing that generalises


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


def require_pairs(sources: TrainingLogs) -> None:
    """Raise BadInput if the logs have too few pairs, before any work starts."""
    pair_count = sum(part.pairs for log in sources.logs for part in log.manifest.parts)
    if pair_count < LEAST_PAIRS:
        raise BadInput(
            f"{', '.join(log.manifest.name for log in sources.logs)}: {pair_count:,} pairs; at least {LEAST_PAIRS} are "
            "needed",
            remedy="give more logs",
        )


class _Piece(NamedTuple):
    """Some pairs of a log, without pairs that have an empty text."""

    lengths: NDArray[np.int64]  # of their distinct texts
    pieces: NDArray[np.uint16]
    utterance: NDArray[np.int32]  # which of these texts
    reply: NDArray[np.int32]
    asked: NDArray[np.uint64]
    said: NDArray[np.uint64]
    dialogue: NDArray[np.uint64]


def code_pairs(
    tokenizer: SentencePieceTokenizer, sources: TrainingLogs, folder: Path, max_tokens: int, progress: Progress
) -> Mapping[str, Any]:
    """Write the pairs of the logs as piece ids."""
    if tokenizer.vocab_size > np.iinfo(np.uint16).max:
        raise BadInput(f"{tokenizer.path} has {tokenizer.vocab_size:,} pieces", remedy="at most 65,535")
    pair_count = sum(part.pairs for log in sources.logs for part in log.manifest.parts)
    progress.stage("reading pairs", pair_count, "pairs")
    coverage, cut_count, parts, first = Coverage(), 0, list[_Piece](), [0]
    for log in sources.logs:
        for batch in log.batches(_COLUMNS):
            texts, piece = _without_empty(log.manifest.name, batch)
            coded = tokenizer.encode_ids_batch(texts)
            coverage += Coverage.of_pieces(tokenizer, texts, coded)
            cut_count += sum(len(ids) > max_tokens for ids in coded)
            coded = [ids[:max_tokens] for ids in coded]
            parts.append(
                piece._replace(
                    lengths=np.array([len(ids) for ids in coded], np.int64),
                    pieces=np.fromiter(chain.from_iterable(coded), np.uint16),
                )
            )
            progress.advance(batch.num_rows)
        first.append(sum(len(piece.asked) for piece in parts))
    before = np.cumsum([0, *(len(piece.lengths) for piece in parts)])
    arrays = {
        "pieces": _concatenate([piece.pieces for piece in parts], np.uint16),
        "start": np.concatenate([[0], np.cumsum(_concatenate([piece.lengths for piece in parts], np.int64))]),
        "utterance": _concatenate([piece.utterance + at for piece, at in zip(parts, before, strict=False)], np.int32),
        "reply": _concatenate([piece.reply + at for piece, at in zip(parts, before, strict=False)], np.int32),
        "asked": _concatenate([piece.asked for piece in parts], np.uint64),
        "said": _concatenate([piece.said for piece in parts], np.uint64),
        "dialogue": _concatenate([piece.dialogue for piece in parts], np.uint64),
        "first": np.array(first, np.int64),
    }
    for name, array in arrays.items():
        write_array(folder / f"{name}.npy", array)
    return {
        "pairs": first[-1],
        "empty": pair_count - first[-1],
        "dialogues": len(np.unique(arrays["dialogue"])),
        "texts": len(arrays["start"]) - 1,
        "pieces": len(arrays["pieces"]),
        "cut": cut_count,
        "coverage": coverage.as_json(),
    }


def _without_empty(log: str, batch: pa.RecordBatch) -> tuple[list[str], _Piece]:
    """Return the distinct texts of some rows, and the rows by their places among them, without empty texts."""
    utterance_keys, response_keys = (
        batch[name].to_numpy(zero_copy_only=False) for name in ("utterance_key", "response_key")
    )
    batch = batch.filter(pa.array((utterance_keys != _EMPTY) & (response_keys != _EMPTY)))
    coded = pa.concat_arrays([batch["utterance"], batch["response"]]).dictionary_encode()
    places = coded.indices.to_numpy(zero_copy_only=False).astype(np.int32)
    dialogues = batch["dialogue"].dictionary_encode()
    names = np.array([_hash(log, name) for name in dialogues.dictionary.to_pylist()], np.uint64)
    rows = batch.num_rows
    return coded.dictionary.to_pylist(), _Piece(
        lengths=np.empty(0, np.int64),
        pieces=np.empty(0, np.uint16),
        utterance=places[:rows],
        reply=places[rows:],
        asked=batch["utterance_key"].to_numpy(zero_copy_only=False),
        said=batch["response_key"].to_numpy(zero_copy_only=False),
        dialogue=names[dialogues.indices.to_numpy(zero_copy_only=False)],
    )


def _hash(log: str, dialogue: str) -> int:
    return xxh3_64_intdigest(f"{log}\0{dialogue}".encode())


def _concatenate(parts: list[NDArray[Any]], kind: type[np.generic]) -> NDArray[Any]:
    return np.concatenate([np.empty(0, kind), *parts]).astype(kind, copy=False)


def open_pairs(folder: Path) -> PairCorpus:
    """Map the files that `code_pairs` wrote."""
    try:
        arrays = {name: np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in _ARRAYS}
    except (OSError, ValueError, EOFError) as error:
        raise Corrupt(f"{folder}: {error}", remedy="remove the folder and train again") from error
    return PairCorpus(**arrays)
