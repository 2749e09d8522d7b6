"""From logs to a corpus: shared utterances found out of core, a tokenizer trained on the logs, texts as piece ids."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from refaug.core.array_files import write_array
from refaug.core.errors import BadInput, Corrupt, NotFound, Usage
from refaug.core.files import storage_errors, sync_file
from refaug.core.progress import Progress
from refaug.core.query_engine import QueryEngine, scratch_in
from refaug.core.records import Item, Reference
from refaug.core.text.normalisation import normalise
from refaug.core.text.sentencepiece_tokenizer import SentencePieceTokenizer
from refaug.logs.pairs import SharedSettings, shared_utterances, text_key
from refaug.logs.store import StoredLog
from refaug.rater.language_coverage import Coverage
from refaug.rater.training.examples import ExampleCorpus, ExampleSettings, hash_share

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
            remedy="give more logs, best ones in which many answer the same (reply trees), a lower --min-words (or "
            "--min-chars where there are no spaces), or --network cross or dual, which learn from every pair; the "
            "metric refaug-1 needs no rater",
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


# ── Test pairs from the logs that a rater was trained on: utterances that were held out for validation ────────────────
#
# A rater's folder holds no text, so that erasing a speaker leaves none of theirs in it. The utterances are found in
# the logs again, with the settings of the training, and held-out ones are recognised by the same hash.

HELD_OUT: Final = 50
_REMEDY: Final = "give test pairs of your own: --items FILE"


@dataclass(frozen=True, slots=True, kw_only=True)
class _HeldOut:
    """A held-out utterance, with the number that selects it: the least numbers are chosen."""

    number: float
    key: int
    utterance: str
    gold: str


def held_out(
    logs: Path,
    cache: Path,
    details: Mapping[str, Any],
    progress: Progress,
    *,
    count: int = HELD_OUT,
    memory: int = 2 << 30,
    threads: int | None = None,
) -> list[Item]:
    """Return up to `count` held-out utterances, each with one of its responses as gold.

    `details` are those of the rater's manifest. The utterances are chosen by hash: the same ones for the same
    rater, whatever was added to its logs since.
    """
    shared, examples = _settings(details)
    of_training = [_open_trained_parts(logs, name, parts) for name, parts in _parts(details).items()]
    scratch = scratch_in(cache)
    with QueryEngine(scratch, memory=memory, threads=threads) as engine:
        mine(engine, of_training, shared, scratch, progress)  # the texts are deleted with the engine's folder
        chosen = heapq.nsmallest(
            count, _held_out_rows(scratch, examples), key=lambda candidate: (candidate.number, candidate.key)
        )
    return [_to_item(utterance) for utterance in chosen]


def _settings(details: Mapping[str, Any]) -> tuple[SharedSettings, ExampleSettings]:
    """Return the settings with which the training found and split utterances."""
    try:
        examples = details["examples"]
        split = {name: examples[name] for name in ("validation_share", "seed")}  # all that kinds of raters share
        return SharedSettings(**details["shared"]), ExampleSettings(**split)
    except (KeyError, TypeError, Usage) as error:
        raise Corrupt(
            f"the manifest does not say which utterances the rater was trained on: {error}", remedy=_REMEDY
        ) from error


def _parts(details: Mapping[str, Any]) -> Mapping[str, Sequence[str]]:
    logs: Mapping[str, Sequence[str]] = details.get("logs") or {}
    if not logs:
        raise Corrupt("the manifest does not say which logs the rater was trained on", remedy=_REMEDY)
    return logs


def _open_trained_parts(logs: Path, name: str, parts: Sequence[str]) -> StoredLog:
    """Open a log with just the parts it had at training."""
    try:
        log = StoredLog.open(logs, name)
    except NotFound as error:
        raise NotFound(f"the rater was trained on log {name!r}, which is not here", remedy=_REMEDY) from error
    parts_by_hash = {part.sha256: part for part in log.manifest.parts}
    if gone := [sha256 for sha256 in parts if sha256 not in parts_by_hash]:
        raise NotFound(
            f"log {name!r} has lost {len(gone):,} of the {len(parts):,} parts that the rater was trained on, or they "
            f"have changed: {gone[0][:12]} first",
            remedy=_REMEDY,
        )
    return StoredLog(log.folder, replace(log.manifest, parts=tuple(parts_by_hash[sha256] for sha256 in parts)))


def _held_out_rows(folder: Path, examples: ExampleSettings) -> Iterator[_HeldOut]:
    """Yield the utterances held out for validation; their responses are in random order already."""
    for row in shared_rows(folder):
        key = text_key(normalise(row["utterance"]))
        number = hash_share(key, examples.seed)
        if number < examples.validation_share:
            yield _HeldOut(number=number, key=key, utterance=row["utterance"], gold=row["responses"][0])


def _to_item(utterance: _HeldOut) -> Item:
    gold = Reference(text=utterance.gold)
    return Item(id=f"held-out-{utterance.key:016x}", turns=(utterance.utterance,), references=(gold,))
