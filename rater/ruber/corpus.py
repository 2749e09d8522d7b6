"""From logs to pairs as piece ids: texts are read piece by piece, arrays are in memory twice."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from refaug.core.array_files import write_array
from refaug.core.errors import BadInput, Corrupt
from refaug.core.progress import Progress
from refaug.core.text.sentencepiece_tokenizer import SentencePieceTokenizer
from refaug.logs.text_keys import text_key
from refaug.rater.language_coverage import Coverage
from refaug.rater.ruber.examples import PairCorpus
from refaug.rater.training.order import TrainingLogs

_ARRAYS: Final = ("pieces", "start", "utterance", "reply", "asked", "said", "dialogue", "first")
_COLUMNS: Final = ("dialogue", "utterance", "response", "utterance_key", "response_key")
_EMPTY: Final = text_key("")  # of a text without visible characters
LEAST_PAIRS: Final = 200  # with fewer, a network learns nothing that generalises


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
