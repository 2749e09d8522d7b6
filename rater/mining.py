"""From logs to a corpus: shared utterances found out of core, a tokenizer trained on the logs, texts as piece ids."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from core.array_files import write_array
from core.engine import Engine
from core.errors import BadInput, Corrupt
from core.files import storage_errors, sync_file
from core.log_store import StoredLog
from core.pairs import SharedSettings, shared_utterances, text_key
from core.progress import Progress
from core.text import SentencePieceTokenizer, normalise
from rater.coverage import Coverage
from rater.examples import Corpus

SHARED: Final = "shared.arrow"
_ARRAYS: Final = ("pieces", "start", "first", "names")
_SCHEMA: Final = pa.schema([("utterance", pa.string()), ("responses", pa.list_(pa.string()))])
_ROWS_A_BATCH: Final = 10_000
LEAST_UTTERANCES: Final = 200  # below, nothing can be learnt that holds for others


def mine(
    engine: Engine, logs: Sequence[StoredLog], settings: SharedSettings, folder: Path, progress: Progress
) -> Mapping[str, Any]:
    """Write the utterances that got several responses in these logs; what was found, if it is enough."""
    progress.stage("finding shared utterances", None, "utterances")
    found = write_shared(engine, logs, settings, folder, progress)
    if found["utterances"] < LEAST_UTTERANCES:
        length = f"{settings.min_chars} characters" if settings.min_chars > 1 else f"{settings.min_words} words"
        raise BadInput(
            f"{found['utterances']:,} utterances of {length} or more have several different responses in "
            f"{', '.join(log.manifest.name for log in logs)}; at least {LEAST_UTTERANCES} are needed",
            remedy="give more logs, best ones in which many answer the same (reply trees), or a lower --min-words, or "
            "--min-chars where there are no spaces",
        )
    return found


def write_shared(
    engine: Engine,
    logs: Sequence[StoredLog],
    settings: SharedSettings,
    folder: Path,
    progress: Progress,
    *,
    most: int | None = None,
) -> dict[str, int]:
    """The same, however many are found; at most so many."""
    found, pairs, path = 0, 0, folder / SHARED
    shared = shared_utterances(engine, [one for log in logs for one in log.paths], settings)
    with storage_errors(path), pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, _SCHEMA) as writer:
        for batch in _batched(islice(shared, most)):
            writer.write_batch(pa.RecordBatch.from_pylist(batch, schema=_SCHEMA))
            found += len(batch)
            pairs += sum(len(row["responses"]) * (len(row["responses"]) - 1) // 2 for row in batch)
            progress.advance(len(batch))
    sync_file(path)
    return {"utterances": found, "positive_pairs": pairs}


def _batched(found: Iterator[Any]) -> Iterator[list[dict[str, Any]]]:
    batch = list[dict[str, Any]]()
    for one in found:
        batch.append({"utterance": one.utterance, "responses": list(one.responses)})
        if len(batch) == _ROWS_A_BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def turns_of(logs: Sequence[StoredLog], progress: Progress) -> Iterator[str]:
    """Every turn of the logs, for training the tokenizer."""
    progress.stage("reading turns", sum(part.pairs for log in logs for part in log.manifest.parts), "pairs")
    for log in logs:
        for turns in log.turns(progress):
            yield from turns.to_pylist()


def code(tokenizer: SentencePieceTokenizer, folder: Path, max_tokens: int, progress: Progress) -> Mapping[str, Any]:
    """Write the texts of the shared utterances as piece ids."""
    if tokenizer.vocab_size > np.iinfo(np.uint16).max:
        raise BadInput(f"{tokenizer.path} has {tokenizer.vocab_size:,} pieces", remedy="at most 65,535")
    pieces, lengths, counts, names = list[np.ndarray](), list[int](), list[int](), list[int]()
    coverage, cut = Coverage(), 0
    with pa.memory_map(str(folder / SHARED)) as file, pa.ipc.open_file(file) as reader:
        progress.stage("reading pieces", sum(reader.get_batch(at).num_rows for at in range(reader.num_record_batches)))
        for at in range(reader.num_record_batches):
            rows = reader.get_batch(at).to_pylist()
            texts = [text for row in rows for text in (row["utterance"], *row["responses"])]
            coded = tokenizer.encode_ids_batch(texts)
            coverage += Coverage.of_pieces(tokenizer, texts, coded)
            cut += sum(len(one) > max_tokens for one in coded)
            coded = [one[:max_tokens] for one in coded]
            pieces.append(np.fromiter((piece for one in coded for piece in one), np.uint16))
            lengths += map(len, coded)
            counts += [1 + len(row["responses"]) for row in rows]
            names += [text_key(normalise(row["utterance"])) for row in rows]
            progress.advance(len(rows))
    arrays = {
        "pieces": np.concatenate(pieces),
        "start": np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        "first": np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        "names": np.array(names, np.uint64),
    }
    for name, array in arrays.items():
        write_array(folder / f"{name}.npy", array)
    return {"texts": len(lengths), "pieces": len(arrays["pieces"]), "cut": cut, "coverage": coverage.written()}


def open_corpus(folder: Path) -> Corpus:
    """What `code` has written, mapped."""
    try:
        arrays = {name: np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in _ARRAYS}
    except (OSError, ValueError, EOFError) as error:
        raise Corrupt(f"{folder}: {error}", remedy="remove the folder and train again") from error
    return Corpus(**arrays)


def shared_rows(folder: Path) -> Iterator[dict[str, Any]]:
    """The shared utterances with their responses, as texts, in the corpus's order."""
    with pa.memory_map(str(folder / SHARED)) as file, pa.ipc.open_file(file) as reader:
        for at in range(reader.num_record_batches):
            yield from reader.get_batch(at).to_pylist()
