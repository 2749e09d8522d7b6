"""The stored log: a folder of Parquet parts and a manifest that names them; what is not named does not exist.

Parts are never changed. Appending adds one, deleting replaces those that are touched, and in both cases the manifest
is renamed into place last, so that a reader sees the log before or after, never between.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, Self

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from core.engine import Engine, parquet
from core.errors import Conflict, Corrupt, NotFound
from core.files import (
    read_json,
    require_name,
    sha256_of,
    storage_errors,
    sync_file,
    sync_folder,
    write_json,
)
from core.pairs import PAIR_SCHEMA
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
            raise Corrupt(
                f"{path} has format {found}; this refaug reads up to {FORMAT_VERSION}", remedy="upgrade refaug"
            )
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
        return LogPart(
            file=self.path.name, size=self.path.stat().st_size, sha256=sha256_of(self.path), pairs=self.pairs
        )


class StoredLog:
    """A log opened for reading; it keeps the manifest it was opened with."""

    def __init__(self, folder: Path, manifest: LogManifest) -> None:
        self.folder = folder
        self.manifest = manifest

    @classmethod
    def open(cls, logs: Path, name: str) -> Self:
        """Open a log by name; sizes are checked, hashes only by `verify`."""
        log = cls.open_unchecked(logs, name)
        for part in log.manifest.parts:
            log.require_size(part)
        return log

    @classmethod
    def open_unchecked(cls, logs: Path, name: str) -> Self:
        """Open a log that may be damaged, to find out what is wrong with it."""
        folder = logs / require_name("log", name)
        if not (folder / MANIFEST).exists():
            there = ", ".join(list_logs(logs)) or "none yet"
            raise NotFound(f"no log {name!r} in {logs}", remedy=f"there are: {there}")
        return cls(folder, LogManifest.read(folder))

    def require_size(self, part: LogPart) -> None:
        """Refuse a part that is missing or of another size than the manifest says."""
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
        sql = f"SELECT {columns} FROM {parquet(self.paths)} ORDER BY {order}, dialogue, position LIMIT ?"
        rows = [row for batch in engine.batches(sql, [seed, count]) for row in batch.to_pylist()]
        return [_pair(self.manifest.name, row) for row in rows]

    def verify(self) -> Iterator[tuple[LogPart, str | None]]:
        """Every part with what is wrong with it, or None: size, hash, readable to the end, number of pairs."""
        for part in self.manifest.parts:
            try:
                self.require_size(part)
                path = self.folder / part.file
                found = sha256_of(path)
                if found != part.sha256:
                    yield part, f"{path} has SHA-256 {found[:12]}…; the manifest says {part.sha256[:12]}…"
                    continue
                with pq.ParquetFile(path) as file:
                    rows = sum(batch.num_rows for batch in file.iter_batches(columns=list(_TEXT_COLUMNS)))
                yield (
                    part,
                    None if rows == part.pairs else f"{path} holds {rows:,} pairs; the manifest says {part.pairs:,}",
                )
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


def remove_unnamed(folder: Path, manifest: LogManifest) -> None:
    """Delete part files that the manifest no longer names; readers that have them open keep them."""
    named = {part.file for part in manifest.parts}
    for path in folder.glob("part-*.parquet"):
        if path.name not in named:
            path.unlink()
    sync_folder(folder)


def require_same_settings(ingest: LogIngest, settings: Mapping[str, Any], source: str) -> None:
    """The same file cleaned in two ways cannot both be in a log."""
    differing = [key for key in settings if settings[key] != ingest.settings.get(key)]
    if differing:
        raise Conflict(
            f"{source} is in the log already, ingested with other settings ({', '.join(differing)})",
            remedy="use another log name, or delete the log first",
        )
