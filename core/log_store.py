"""The stored log: a folder of Parquet parts and a manifest that names them; what is not named does not exist.

Parts are never changed. Appending adds one, deleting replaces those that are touched, and in both cases the manifest
is renamed into place last, so that a reader sees the log before or after, never between.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, Self

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from core.engine import Engine, parquet
from core.errors import Conflict, Corrupt, NotFound
from core.files import exclusive, read_json, remove_tree, require_name, sha256_of, storage_errors, sync_file, sync_folder, write_json
from core.pairs import PAIR_SCHEMA, erasure_key
from core.records import Pair
from core.version import VERSION

FORMAT_VERSION: Final = 1
MANIFEST: Final = "manifest.json"
_TEXT_COLUMNS: Final = ("dialogue", "position", "utterance", "response")


@dataclass(frozen=True, kw_only=True)
class LogPart:
    """One Parquet file of a log."""

    file: str
    size: int
    sha256: str
    pairs: int


@dataclass(frozen=True, kw_only=True)
class LogSource:
    """One file that was ingested, and what became of its rows."""

    name: str
    size: int
    sha256: str
    format: str
    counts: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class LogIngest:
    """One run of `refaug ingest`."""

    key: str
    at: str
    settings: Mapping[str, Any]
    sources: tuple[LogSource, ...]
    counts: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class Erasure:
    """Speakers and dialogues that were deleted and stay out, as keys that do not tell who they were."""

    speakers: tuple[str, ...] = ()
    dialogues: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class LogManifest:
    """What a log folder holds and how it came about; written last, so no manifest means no log."""

    name: str
    created: str
    updated: str
    parts: tuple[LogPart, ...] = ()
    ingests: tuple[LogIngest, ...] = ()
    totals: Mapping[str, int] = field(default_factory=dict)
    erased: Erasure = Erasure()
    removed: Mapping[str, int] = field(default_factory=dict)
    software: Mapping[str, str] = field(default_factory=dict)
    format_version: int = FORMAT_VERSION
    kind: str = "log"

    @classmethod
    def new(cls, name: str) -> Self:
        """The manifest of a log without parts."""
        return cls(name=name, created=now(), updated=now(), software=software())

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read and check a manifest; Corrupt names the file and the field."""
        path = folder / MANIFEST
        value = read_json(path)
        found = value.get("format_version")
        if value.get("kind") != "log" or not isinstance(found, int):
            raise Corrupt(f"{path} is not the manifest of a log")
        if found > FORMAT_VERSION:
            raise Corrupt(f"{path} has format {found}; this refaug reads up to {FORMAT_VERSION}", remedy="upgrade refaug")
        try:
            return cls(
                **{
                    **value,
                    "parts": tuple(LogPart(**part) for part in _list(value, "parts")),
                    "ingests": tuple(_ingest(ingest) for ingest in _list(value, "ingests")),
                    "erased": Erasure(**{key: tuple(ids) for key, ids in dict(value["erased"]).items()}),  # type: ignore[call-overload]
                }  # type: ignore[arg-type]
            )
        except (KeyError, TypeError, ValueError) as error:
            raise Corrupt(f"{path}: {error}") from error

    def write(self, folder: Path) -> None:
        """Publish: from the moment this returns, the log is what this manifest says."""
        write_json(folder / MANIFEST, asdict(self))

    def source_fingerprints(self) -> dict[str, LogIngest]:
        """SHA-256 of every file that is in the log, with the run that brought it."""
        return {source.sha256: ingest for ingest in self.ingests for source in ingest.sources}


def _list(value: Mapping[str, object], name: str) -> list[dict[str, Any]]:
    entries = value[name]
    if not isinstance(entries, list):
        raise TypeError(f"{name} is not a list")
    return entries


def _ingest(value: Mapping[str, Any]) -> LogIngest:
    return LogIngest(**{**value, "sources": tuple(LogSource(**source) for source in value["sources"])})


def now() -> str:
    """This moment in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def software() -> dict[str, str]:
    """Versions of what can change a log's content."""
    return {
        "refaug": VERSION,
        "python": sys.version.split()[0],
        **{package: version(package) for package in ("pyarrow", "duckdb", "orjson", "xxhash")},
    }


class PartWriter:
    """Writes pairs into one Parquet file; what it wrote becomes part of a log only through a manifest."""

    def __init__(self, path: Path, schema: pa.Schema = PAIR_SCHEMA) -> None:
        self.path = path
        self.pairs = 0
        self.bytes = 0
        with storage_errors(path):
            self._writer = pq.ParquetWriter(
                path,
                schema,
                compression="zstd",
                compression_level=3,
                use_dictionary=[name for name in schema.names if name.endswith("speaker")],
                write_statistics=False,
            )

    def add(self, rows: pa.RecordBatch) -> None:
        """One row group."""
        with storage_errors(self.path):
            self._writer.write_batch(rows)
        self.pairs += rows.num_rows
        self.bytes += rows.nbytes

    def close(self) -> LogPart:
        """Finish the file and make it survive a power cut."""
        with storage_errors(self.path):
            self._writer.close()
            sync_file(self.path)
        return LogPart(file=self.path.name, size=self.path.stat().st_size, sha256=sha256_of(self.path), pairs=self.pairs)


class StoredLog:
    """A log opened for reading; it keeps the manifest it was opened with."""

    def __init__(self, folder: Path, manifest: LogManifest) -> None:
        self.folder = folder
        self.manifest = manifest

    @classmethod
    def open(cls, logs: Path, name: str) -> Self:
        """Open a log by name; sizes are checked, hashes only by `verify`."""
        folder = logs / require_name("log", name)
        if not (folder / MANIFEST).exists():
            there = ", ".join(list_logs(logs)) or "none yet"
            raise NotFound(f"no log {name!r} in {logs}", remedy=f"there are: {there}")
        log = cls(folder, LogManifest.read(folder))
        for part in log.manifest.parts:
            log._require_size(part)
        return log

    def _require_size(self, part: LogPart) -> None:
        path = self.folder / part.file
        if not path.exists():
            raise Corrupt(f"{path} is missing; the manifest names it with {part.size:,} bytes")
        found = path.stat().st_size
        if found != part.size:
            raise Corrupt(f"{path} has {found:,} bytes; the manifest says {part.size:,}")

    @property
    def paths(self) -> list[Path]:
        """The part files, oldest first."""
        return [self.folder / part.file for part in self.manifest.parts]

    def batches(self, columns: Sequence[str] | None = None, *, size: int = 20_000) -> Iterator[pa.RecordBatch]:
        """All pairs in stored order, piece by piece."""
        for path in self.paths:
            with pq.ParquetFile(path) as file:
                yield from file.iter_batches(batch_size=size, columns=columns, use_threads=False)

    def pairs(self) -> Iterator[Pair]:
        """All pairs as records; for the many, `batches` is quicker."""
        for batch in self.batches():
            yield from (_pair(self.manifest.name, row) for row in batch.to_pylist())

    def sample(self, count: int, seed: int, engine: Engine) -> list[Pair]:
        """A seeded sample without replacement: the same for the same log content."""
        if not self.paths:
            return []
        columns = ", ".join(name for name in PAIR_SCHEMA.names if not name.endswith("_key"))
        order = "hash(dialogue, position, ?)"
        sql = f"SELECT {columns} FROM {parquet(self.paths)} ORDER BY {order}, dialogue, position LIMIT ?"  # noqa: S608
        rows = [row for batch in engine.batches(sql, [seed, count]) for row in batch.to_pylist()]
        return [_pair(self.manifest.name, row) for row in rows]

    def verify(self) -> Iterator[tuple[LogPart, str | None]]:
        """Every part with what is wrong with it, or None: size, hash, readable to the end, number of pairs."""
        for part in self.manifest.parts:
            try:
                self._require_size(part)
                path = self.folder / part.file
                found = sha256_of(path)
                if found != part.sha256:
                    yield part, f"{path} has SHA-256 {found[:12]}…; the manifest says {part.sha256[:12]}…"
                    continue
                with pq.ParquetFile(path) as file:
                    rows = sum(batch.num_rows for batch in file.iter_batches(columns=list(_TEXT_COLUMNS)))
                yield part, None if rows == part.pairs else f"{path} holds {rows:,} pairs; the manifest says {part.pairs:,}"
            except (Corrupt, OSError, pa.ArrowException) as error:
                yield part, str(error)


def _pair(log: str, row: Mapping[str, Any]) -> Pair:
    return Pair(
        log=log,
        dialogue=row["dialogue"],
        position=row["position"],
        utterance=row["utterance"],
        response=row["response"],
        utterance_speaker=row["utterance_speaker"],
        response_speaker=row["response_speaker"],
        time=row["time"],
        tags=tuple(row["tags"] or ()),
    )


def list_logs(logs: Path) -> list[str]:
    """Names of the published logs."""
    return sorted(manifest.parent.name for manifest in logs.glob(f"*/{MANIFEST}"))


# ── totals ────────────────────────────────────────────────────────────────────────────────────────────────────────


def totals_of(engine: Engine, paths: Sequence[Path]) -> dict[str, int]:
    """Pairs, and how many of them are distinct: the exact duplicates are kept and counted."""
    if not paths:
        return dict.fromkeys(("pairs", "dialogues", "distinct_pairs", "distinct_utterances"), 0)
    return _totals(engine, parquet(paths), "")


def new_totals(engine: Engine, stored: Sequence[Path], added: Sequence[Path]) -> dict[str, int]:
    """What `added` brings beyond `stored`; adding it to the log's totals gives those of the whole.

    Only keys that occur in the new parts are held in memory, so a night's dialogues cost little on top of years of them.
    """
    if not stored or not added:
        return totals_of(engine, added)
    return _totals(engine, parquet(added), parquet(stored))


_DISTINCT: Final = {
    "dialogues": "hash(dialogue)",
    "distinct_pairs": "hash(utterance_key, response_key)",
    "distinct_utterances": "utterance_key",
}


def _totals(engine: Engine, added: str, stored: str) -> dict[str, int]:
    totals = {"pairs": engine.number(f"SELECT count(*) FROM {added}")}  # noqa: S608
    for name, key in _DISTINCT.items():
        engine.run(f"CREATE OR REPLACE TEMP TABLE keys AS SELECT DISTINCT {key} AS k FROM {added}")  # noqa: S608
        totals[name] = engine.number("SELECT count(*) FROM keys")
        if stored:
            known = f"SELECT count(DISTINCT k) FROM (SELECT {key} AS k FROM {stored}) JOIN keys USING (k)"  # noqa: S608
            totals[name] -= engine.number(known)
    engine.run("DROP TABLE IF EXISTS keys")
    return totals


def statistics(engine: Engine, log: StoredLog) -> dict[str, Any]:
    """The figures of `refaug log stats`, counted anew from the parts."""
    totals = totals_of(engine, log.paths)
    if not totals["pairs"]:
        return dict(totals)
    pairs = parquet(log.paths)
    words = "len(string_split(trim({0}), ' '))"
    quantiles = engine.rows(
        f"SELECT {', '.join(f'quantile_cont({words.format(side)}, [0.05, 0.5, 0.95])' for side in ('utterance', 'response'))}, "  # noqa: S608
        f"avg({words.format('response')}), min(time), max(time), count(time), "
        f"approx_count_distinct(response_speaker), count(response_speaker) FROM {pairs}"
    )[0]
    several = engine.rows(
        f"SELECT count(*) FILTER (n >= 2), count(*) FILTER (n >= 5), max(n) FROM "  # noqa: S608
        f"(SELECT utterance_key, count(DISTINCT response_key) AS n FROM {pairs} GROUP BY utterance_key)"
    )[0]
    common = engine.rows(
        f"SELECT any_value(utterance), count(*) AS n FROM {pairs} GROUP BY utterance_key "  # noqa: S608
        "ORDER BY n DESC, utterance_key LIMIT 5"
    )
    tags = engine.rows(
        f"SELECT tag, count(*) AS n FROM (SELECT unnest(tags) AS tag FROM {pairs}) GROUP BY tag ORDER BY n DESC, tag LIMIT 20"  # noqa: S608
    )
    return {
        **totals,
        "duplicate_pairs": totals["pairs"] - totals["distinct_pairs"],
        "utterances_with_2_responses": several[0],
        "utterances_with_5_responses": several[1],
        "most_responses": several[2],
        "utterance_words": dict(zip(("p05", "p50", "p95"), map(float, quantiles[0]), strict=True)),
        "response_words": dict(zip(("p05", "p50", "p95"), map(float, quantiles[1]), strict=True)),
        "mean_response_words": round(float(quantiles[2]), 3),
        "first_time": quantiles[3].isoformat() if quantiles[3] else None,
        "last_time": quantiles[4].isoformat() if quantiles[4] else None,
        "pairs_with_time": quantiles[5],
        "speakers_about": quantiles[6],
        "pairs_with_speaker": quantiles[7],
        "common_utterances": [{"utterance": text, "pairs": count} for text, count in common],
        "tags": dict(tags),
    }


# ── deletion ──────────────────────────────────────────────────────────────────────────────────────────────────────


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
    """Remove every pair of these dialogues and every pair in which one of these speakers speaks; keep them out for good."""
    folder = StoredLog.open(logs, name).folder
    with exclusive(folder, f"deleting from log {name}"):
        log = StoredLog.open(logs, name)  # as it is now that nobody else writes
        wanted_dialogues, wanted_speakers = sorted(set(dialogues)), sorted(set(speakers))
        by_dialogue, by_speaker = Counter(dict.fromkeys(wanted_dialogues, 0)), Counter(dict.fromkeys(wanted_speakers, 0))
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
    return Removed(pairs=removed, dialogues=by_dialogue, speakers=by_speaker, pairs_left=totals["pairs"])


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


def remove_unnamed(folder: Path, manifest: LogManifest) -> None:
    """Delete part files that the manifest no longer names; readers that have them open keep them."""
    named = {part.file for part in manifest.parts}
    for path in folder.glob("part-*.parquet"):
        if path.name not in named:
            path.unlink()
    sync_folder(folder)


def delete_log(logs: Path, name: str) -> int:
    """Remove a whole log; its pairs' number is the answer."""
    folder = logs / require_name("log", name)
    log = StoredLog.open(logs, name)
    with exclusive(folder, f"deleting log {name}"):
        (folder / MANIFEST).unlink()  # first: without it the folder is no log
        sync_folder(folder)
        remove_tree(folder)
    return sum(part.pairs for part in log.manifest.parts)


def require_same_settings(ingest: LogIngest, settings: Mapping[str, Any], source: str) -> None:
    """The same file cleaned in two ways cannot both be in a log."""
    differing = [key for key in settings if settings[key] != ingest.settings.get(key)]
    if differing:
        raise Conflict(
            f"{source} is in the log already, ingested with other settings ({', '.join(differing)})",
            remedy="use another log name, or delete the log first",
        )
