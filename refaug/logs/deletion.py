"""Deleting dialogues, speakers or a whole log, for good."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from refaug.core.errors import Corrupt, RefaugError
from refaug.core.files import exclusive, remove_tree, require_name, sync_folder, unique_suffix
from refaug.core.query_engine import QueryEngine
from refaug.logs.manifest import MANIFEST, Erasure, LogManifest, LogPart, next_revision, now
from refaug.logs.pairs import erasure_key
from refaug.logs.part_files import ROWS_A_GROUP, PartWriter
from refaug.logs.store import ENGINE, StoredLog, remove_leftovers, remove_unnamed, require_log, totals_of

Forget = Callable[[Sequence[str]], object]


def _ignore(_texts: Sequence[str]) -> None:
    """Forget nothing: nothing but the log has the texts."""


@dataclass(frozen=True, kw_only=True)
class LogDeletion:
    """The outcome of a deletion."""

    pairs: int
    dialogues: Mapping[str, int]  # name → pairs removed
    speakers: Mapping[str, int]
    pairs_left: int


def delete(
    logs: Path,
    name: str,
    *,
    dialogues: Iterable[str] = (),
    speakers: Iterable[str] = (),
    memory: int = 2 << 30,
    forget: Forget = _ignore,
) -> LogDeletion:
    """Remove every pair of these dialogues and every pair with one of these speakers, and keep them out for good.

    `forget` is called with their texts, before they are removed.
    """
    folder = StoredLog.open(logs, name).folder
    with exclusive(folder, f"deleting from log {name}"):
        log = StoredLog.open(logs, name)  # as it is under the lock
        old = log.manifest
        remove_leftovers(folder, old, stages=True)  # a staged ingest may hold what is to be deleted
        wanted_dialogues, wanted_speakers = sorted(set(dialogues)), sorted(set(speakers))
        by_dialogue, by_speaker = (
            Counter(dict.fromkeys(wanted_dialogues, 0)),
            Counter(dict.fromkeys(wanted_speakers, 0)),
        )
        try:
            parts = [_rewrite_part(log, part, by_dialogue, by_speaker, forget) for part in old.parts]
            remaining = tuple(part for part in parts if part.pairs)
            with QueryEngine(folder / ENGINE, memory=memory) as engine:
                totals = totals_of(engine, [folder / part.file for part in remaining])
            removed = sum(part.pairs for part in old.parts) - totals["pairs"]
            manifest = replace(
                old,
                parts=remaining,
                updated=now(),
                totals=totals,
                removed={**old.removed, "pairs": old.removed.get("pairs", 0) + removed},
                erased=Erasure(
                    speakers=_add_keys(old.erased.speakers, wanted_speakers, old.name),
                    dialogues=_add_keys(old.erased.dialogues, wanted_dialogues, old.name),
                ),
            )
            manifest.write(folder)
        finally:
            remove_unnamed(folder, LogManifest.read(folder))
    return LogDeletion(
        pairs=removed, dialogues=dict(by_dialogue), speakers=dict(by_speaker), pairs_left=totals["pairs"]
    )


def _add_keys(keys: Iterable[str], names: Iterable[str], salt: str) -> tuple[str, ...]:
    return tuple(sorted({*keys, *(erasure_key(name, salt) for name in names)}))


def _rewrite_part(
    log: StoredLog, part: LogPart, dialogues: Counter[str], speakers: Counter[str], forget: Forget
) -> LogPart:
    """Return the part if nothing in it is to be deleted, else a new part without those pairs."""
    path = log.folder / part.file
    columns = ["dialogue", "utterance_speaker", "response_speaker"]
    with pq.ParquetFile(path) as file:
        has_hits = any(
            _find_hits(batch, dialogues, speakers).true_count
            for batch in file.iter_batches(batch_size=ROWS_A_GROUP, columns=columns, use_threads=False)
        )
    if not has_hits:
        return part
    writer = PartWriter(log.folder / next_revision(part.file))
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=ROWS_A_GROUP, use_threads=False):
                hits = _find_hits(batch, dialogues, speakers)
                removed = batch.filter(hits)
                _count_hits(removed, dialogues, speakers)
                forget([*removed["utterance"].to_pylist(), *removed["response"].to_pylist()])
                writer.add(batch.filter(pa.compute.invert(hits)))
        return writer.close()
    except BaseException:
        writer.abandon()
        raise


def _find_hits(batch: pa.RecordBatch, dialogues: Counter[str], speakers: Counter[str]) -> pa.BooleanArray:
    names = pa.array(list(speakers), pa.string())
    hits = pa.compute.is_in(batch["dialogue"], pa.array(list(dialogues), pa.string()))
    for side in ("utterance_speaker", "response_speaker"):
        hits = pa.compute.or_(hits, pa.compute.is_in(batch[side], names))
    return hits


def _count_hits(hit: pa.RecordBatch, dialogues: Counter[str], speakers: Counter[str]) -> None:
    for row in hit.select(["dialogue", "utterance_speaker", "response_speaker"]).to_pylist():
        if row["dialogue"] in dialogues:
            dialogues[row["dialogue"]] += 1
        for speaker in {row["utterance_speaker"], row["response_speaker"]} & speakers.keys():
            speakers[speaker] += 1


def delete_log(logs: Path, name: str, *, forget: Forget = _ignore) -> int:
    """Remove a whole log, damaged or not; return the number of pairs that its manifest names.

    `forget` is called with its texts, before they are removed, as far as they can be read.
    """
    folder = logs / require_name("log", name)
    if not folder.is_dir():  # a folder without a manifest may hold what a first ingest staged
        require_log(logs, name)
    with exclusive(folder, f"deleting log {name}"):
        pairs = _pairs_named(folder)
        with suppress(RefaugError, OSError, pa.ArrowException):
            for batch in StoredLog.open(logs, name).batches(["utterance", "response"]):
                forget([*batch["utterance"].to_pylist(), *batch["response"].to_pylist()])
        (folder / MANIFEST).unlink(missing_ok=True)  # first, since a folder without it is no log
        sync_folder(folder)
        removed_folder = logs / f".deleted-{name}-{unique_suffix()}"  # aside: a new log of this name must not meet it
        folder.rename(removed_folder)
        sync_folder(logs)
        remove_tree(removed_folder)
    return pairs


def _pairs_named(folder: Path) -> int:
    try:
        return sum(part.pairs for part in LogManifest.read(folder).parts)
    except (Corrupt, FileNotFoundError):
        return 0
