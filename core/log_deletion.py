"""Taking dialogues, speakers or a whole log away, for good."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from core.engine import Engine
from core.errors import Corrupt
from core.files import exclusive, remove_tree, require_name, sync_folder, unique
from core.log_figures import totals_of
from core.log_store import (
    ENGINE,
    MANIFEST,
    ROWS_A_GROUP,
    Erasure,
    LogManifest,
    LogPart,
    PartWriter,
    StoredLog,
    next_revision,
    now,
    remove_leftovers,
    remove_unnamed,
    require_log,
)
from core.pairs import erasure_key


@dataclass(frozen=True, kw_only=True)
class Removed:
    """What a deletion took away."""

    pairs: int
    dialogues: Mapping[str, int]  # asked for → pairs removed
    speakers: Mapping[str, int]
    pairs_left: int


def delete(
    logs: Path, name: str, *, dialogues: Iterable[str] = (), speakers: Iterable[str] = (), memory: int = 2 << 30
) -> Removed:
    """Remove every pair of these dialogues and every pair with one of these speakers, and keep them out for good."""
    folder = StoredLog.open(logs, name).folder
    with exclusive(folder, f"deleting from log {name}"):
        log = StoredLog.open(logs, name)  # as it is now that nobody else writes
        old = log.manifest
        remove_leftovers(folder, old, stages=True)  # what is staged may hold those who are to go
        wanted_dialogues, wanted_speakers = sorted(set(dialogues)), sorted(set(speakers))
        by_dialogue, by_speaker = (
            Counter(dict.fromkeys(wanted_dialogues, 0)),
            Counter(dict.fromkeys(wanted_speakers, 0)),
        )
        try:
            parts = [_without(log, part, by_dialogue, by_speaker) for part in old.parts]
            kept = tuple(part for part in parts if part.pairs)
            with Engine(folder / ENGINE, memory=memory) as engine:
                totals = totals_of(engine, [folder / part.file for part in kept])
            removed = sum(part.pairs for part in old.parts) - totals["pairs"]
            manifest = replace(
                old,
                parts=kept,
                updated=now(),
                totals=totals,
                removed={**old.removed, "pairs": old.removed.get("pairs", 0) + removed},
                erased=Erasure(
                    speakers=_with_keys(old.erased.speakers, wanted_speakers, old.name),
                    dialogues=_with_keys(old.erased.dialogues, wanted_dialogues, old.name),
                ),
            )
            manifest.write(folder)
        finally:
            remove_unnamed(folder, LogManifest.read(folder))
    return Removed(pairs=removed, dialogues=dict(by_dialogue), speakers=dict(by_speaker), pairs_left=totals["pairs"])


def _with_keys(keys: Iterable[str], names: Iterable[str], salt: str) -> tuple[str, ...]:
    return tuple(sorted({*keys, *(erasure_key(name, salt) for name in names)}))


def _without(log: StoredLog, part: LogPart, dialogues: Counter[str], speakers: Counter[str]) -> LogPart:
    """The part itself when nothing in it is to go; else a new one without those pairs."""
    path = log.folder / part.file
    columns = ["dialogue", "utterance_speaker", "response_speaker"]
    with pq.ParquetFile(path) as file:
        touched = any(
            _hits(batch, dialogues, speakers).true_count
            for batch in file.iter_batches(batch_size=ROWS_A_GROUP, columns=columns, use_threads=False)
        )
    if not touched:
        return part
    writer = PartWriter(log.folder / next_revision(part.file))
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=ROWS_A_GROUP, use_threads=False):
                hits = _hits(batch, dialogues, speakers)
                _count_hits(batch.filter(hits), dialogues, speakers)
                writer.add(batch.filter(pa.compute.invert(hits)))
        return writer.close()
    except BaseException:
        writer.abandon()
        raise


def _hits(batch: pa.RecordBatch, dialogues: Counter[str], speakers: Counter[str]) -> pa.BooleanArray:
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


def delete_log(logs: Path, name: str) -> int:
    """Remove a whole log, damaged or not; the answer is the number of pairs that its manifest names."""
    folder = logs / require_name("log", name)
    if not folder.is_dir():  # one without a manifest may hold what a first ingest staged
        require_log(logs, name)
    with exclusive(folder, f"deleting log {name}"):
        pairs = _pairs_named(folder)
        (folder / MANIFEST).unlink(missing_ok=True)  # first: without it the folder is no log
        sync_folder(folder)
        gone = logs / f".deleted-{name}-{unique()}"  # aside, so that a new log of this name meets none of it
        folder.rename(gone)
        sync_folder(logs)
        remove_tree(gone)
    return pairs


def _pairs_named(folder: Path) -> int:
    try:
        return sum(part.pairs for part in LogManifest.read(folder).parts)
    except (Corrupt, FileNotFoundError):
        return 0
