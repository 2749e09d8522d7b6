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
from core.files import exclusive, remove_tree, require_name, sync_folder
from core.log_figures import totals_of
from core.log_store import MANIFEST, Erasure, LogPart, PartWriter, StoredLog, now, remove_unnamed
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
        wanted_dialogues, wanted_speakers = sorted(set(dialogues)), sorted(set(speakers))
        by_dialogue, by_speaker = (
            Counter(dict.fromkeys(wanted_dialogues, 0)),
            Counter(dict.fromkeys(wanted_speakers, 0)),
        )
        parts, removed = [], 0
        for part in log.manifest.parts:
            kept = _without(log, part, by_dialogue, by_speaker)
            removed += part.pairs - (kept.pairs if kept else 0)
            if kept is not None:
                parts.append(kept)
        old = log.manifest
        with Engine(folder / ".engine", memory=memory) as engine:
            totals = totals_of(engine, [folder / part.file for part in parts])
        manifest = replace(
            old,
            parts=tuple(parts),
            updated=now(),
            totals=totals,
            removed={**old.removed, "pairs": old.removed.get("pairs", 0) + removed},
            erased=Erasure(
                speakers=tuple(sorted({*old.erased.speakers, *(erasure_key(s, name) for s in wanted_speakers)})),
                dialogues=tuple(sorted({*old.erased.dialogues, *(erasure_key(d, name) for d in wanted_dialogues)})),
            ),
        )
        manifest.write(folder)
        remove_unnamed(folder, manifest)
    return Removed(pairs=removed, dialogues=dict(by_dialogue), speakers=dict(by_speaker), pairs_left=totals["pairs"])


def _without(log: StoredLog, part: LogPart, dialogues: Counter[str], speakers: Counter[str]) -> LogPart | None:
    """The part itself when nothing in it is to go; else a new one without those pairs, or None when nothing is left."""
    path = log.folder / part.file
    columns = ["dialogue", "utterance_speaker", "response_speaker"]
    with pq.ParquetFile(path) as file:
        touched = any(
            _hits(batch, dialogues, speakers).true_count
            for batch in file.iter_batches(batch_size=20_000, columns=columns, use_threads=False)
        )
    if not touched:
        return part
    writer = PartWriter(log.folder / next_revision(part.file))
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=20_000, use_threads=False):
            hits = _hits(batch, dialogues, speakers)
            _count_hits(batch.filter(hits), dialogues, speakers)
            rest = batch.filter(pa.compute.invert(hits))
            if rest.num_rows:
                writer.add(rest)
    kept = writer.close()
    if kept.pairs:
        return kept
    (log.folder / kept.file).unlink()
    return None


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


def next_revision(file: str) -> str:
    """part-00003.parquet → part-00003.r1.parquet → part-00003.r2.parquet."""
    stem, revision = file.removesuffix(".parquet"), 0
    if ".r" in stem:
        stem, _, number = stem.rpartition(".r")
        revision = int(number)
    return f"{stem}.r{revision + 1}.parquet"


def delete_log(logs: Path, name: str) -> int:
    """Remove a whole log; its pairs' number is the answer."""
    folder = logs / require_name("log", name)
    log = StoredLog.open(logs, name)
    with exclusive(folder, f"deleting log {name}"):
        (folder / MANIFEST).unlink()  # first: without it the folder is no log
        sync_folder(folder)
        remove_tree(folder)
    return sum(part.pairs for part in log.manifest.parts)
