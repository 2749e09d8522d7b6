"""From logs to a corpus: shared utterances found out of core, a tokenizer trained on the logs, texts as piece ids."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from refaug.core.array_files import write_array
from refaug.core.errors import BadInput, Corrupt
from refaug.core.files import sync_file
from refaug.core.full_disk import storage_errors
from refaug.core.progress import Progress
from refaug.core.query_engine import QueryEngine
from refaug.core.text.normalisation import normalise
from refaug.core.text.sentencepiece_tokenizer import SentencePieceTokenizer
from refaug.logs.pairs import SharedSettings, shared_utterances
from refaug.logs.store import StoredLog
from refaug.logs.text_keys import text_key
from refaug.rater.language_coverage import Coverage
from refaug.rater.training.examples import ExampleCorpus

SHARED: Final = "shared.arrow"
_ARRAYS: Final = ("pieces", "start", "first", "names")
_SCHEMA: Final = pa.schema([("utterance", pa.string()), ("responses", pa.list_(pa.string()))])
_ROWS_A_BATCH: Final = 10_000
LEAST_UTTERANCES: Final = 200  # with fewer, a network learns nothing that generalises


def mine(
    engine: QueryEngine, logs: Sequence[StoredLog], settings: SharedSettings, folder: Path, progress: Progress
) -> Mapping[str, Any]:
    """Write the utterances with several responses in these logs; return their counts, or raise BadInput for too few."""
    progress.stage("finding shared utterances", None, "utterances")
    counts = write_shared(engine, logs, settings, folder, progress)
    if counts["utterances"] < LEAST_UTTERANCES:
        length = f"{settings.min_chars} characters" if settings.min_chars > 1 else f"{settings.min_words} words"
        raise BadInput(
            f"{counts['utterances']:,} utterances of {length} or more have several different responses in "
            f"{', '.join(log.manifest.name for log in logs)}; at least {LEAST_UTTERANCES} are needed",
            remedy="give more logs, best ones in which many answer the same (reply trees), or a lower --min-words, or "
            "--min-chars where there are no spaces",
        )
    return counts


def write_shared(
    engine: QueryEngine,
    logs: Sequence[StoredLog],
    settings: SharedSettings,
    folder: Path,
    progress: Progress,
    *,
    most: int | None = None,
) -> dict[str, int]:
    """Write shared utterances, at most `most`, however few are found; return their counts."""
    utterances, pairs, path = 0, 0, folder / SHARED
    utterance_rows = shared_utterances(engine, [path for log in logs for path in log.paths], settings)
    with storage_errors(path), pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, _SCHEMA) as writer:
        for batch in _batches(islice(utterance_rows, most)):
            writer.write_batch(pa.RecordBatch.from_pylist(batch, schema=_SCHEMA))
            utterances += len(batch)
            pairs += sum(len(row["responses"]) * (len(row["responses"]) - 1) // 2 for row in batch)
            progress.advance(len(batch))
    sync_file(path)
    return {"utterances": utterances, "positive_pairs": pairs}


def _batches(shared: Iterator[Any]) -> Iterator[list[dict[str, Any]]]:
    batch = list[dict[str, Any]]()
    for utterance in shared:
        batch.append({"utterance": utterance.utterance, "responses": list(utterance.responses)})
        if len(batch) == _ROWS_A_BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def turns_of(logs: Sequence[StoredLog], progress: Progress) -> Iterator[str]:
    """Yield every turn of the logs, for training the tokenizer."""
    progress.stage("reading turns", sum(part.pairs for log in logs for part in log.manifest.parts), "pairs")
    for log in logs:
        for turns in log.turns(progress):
            yield from turns.to_pylist()


def code_texts(
    tokenizer: SentencePieceTokenizer, folder: Path, max_tokens: int, progress: Progress
) -> Mapping[str, Any]:
    """Write the texts of the shared utterances as piece ids."""
    if tokenizer.vocab_size > np.iinfo(np.uint16).max:
        raise BadInput(f"{tokenizer.path} has {tokenizer.vocab_size:,} pieces", remedy="at most 65,535")
    pieces, lengths, counts, names = list[np.ndarray](), list[int](), list[int](), list[int]()
    coverage, cut_count = Coverage(), 0
    with pa.memory_map(str(folder / SHARED)) as file, pa.ipc.open_file(file) as reader:
        progress.stage("reading pieces", sum(reader.get_batch(at).num_rows for at in range(reader.num_record_batches)))
        for at in range(reader.num_record_batches):
            rows = reader.get_batch(at).to_pylist()
            texts = [text for row in rows for text in (row["utterance"], *row["responses"])]
            coded = tokenizer.encode_ids_batch(texts)
            coverage += Coverage.of_pieces(tokenizer, texts, coded)
            cut_count += sum(len(ids) > max_tokens for ids in coded)
            coded = [ids[:max_tokens] for ids in coded]
            pieces.append(np.fromiter((piece for ids in coded for piece in ids), np.uint16))
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
    return {"texts": len(lengths), "pieces": len(arrays["pieces"]), "cut": cut_count, "coverage": coverage.as_json()}


def open_corpus(folder: Path) -> ExampleCorpus:
    """Map the files that `code_texts` wrote."""
    try:
        arrays = {name: np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in _ARRAYS}
    except (OSError, ValueError, EOFError) as error:
        raise Corrupt(f"{folder}: {error}", remedy="remove the folder and train again") from error
    return ExampleCorpus(**arrays)


def shared_rows(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the shared utterances with their responses, as texts, in the corpus's order."""
    with pa.memory_map(str(folder / SHARED)) as file, pa.ipc.open_file(file) as reader:
        for at in range(reader.num_record_batches):
            yield from reader.get_batch(at).to_pylist()
