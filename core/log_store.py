"""The stored log: a folder of Parquet parts and a manifest that names them; what is not named does not exist.

Parts are never changed. Appending adds one, deleting replaces those that are touched, and in both cases the manifest
is renamed into place last, so that a reader sees the log before or after, never between.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from core.engine import Engine, parquet
from core.errors import Conflict, Corrupt, NotFound
from core.files import (
    NAME,
    read_json,
    remove_asides,
    remove_tree,
    require_name,
    sha256_of,
    storage_errors,
    sync_file,
    sync_folder,
    write_json,
)
from core.pairs import PAIR_SCHEMA
from core.progress import Progress
from core.records import Pair
from core.version import VERSION

FORMAT_VERSION: Final = 1
MANIFEST: Final = "manifest.json"
STAGE: Final = ".staging-"  # begins the name of a folder in which an ingest is prepared
ENGINE: Final = ".engine"
ROWS_A_GROUP: Final = 20_000  # in every row group but a part's last
_TEXT_COLUMNS: Final = ("dialogue", "position", "utterance", "response")
_TURN_COLUMNS: Final = ("utterance", "response")
_PART: Final = re.compile(r"part-(\d{5,})(?:\.r(\d+))?\.parquet")


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

    @property
    def language(self) -> str:
        """The one that was named when its texts were cleaned; where none was, English is taken for it."""
        cleaning = self.settings.get("cleaning")
        return str((cleaning.get("language") if isinstance(cleaning, Mapping) else None) or "en")


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
    next_part: int = 1  # numbers are never used again: a reader with an old manifest must not meet new pairs
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
                    **{name: _mapping(value, name) for name in ("totals", "removed", "software")},
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

    def source_fingerprints(self) -> dict[tuple[str, ...], LogIngest]:
        """SHA-256 of what is in the log (of line-aligned files, both), with the run that brought it."""
        known = dict[tuple[str, ...], LogIngest]()
        for ingest in self.ingests:
            hashes = [source.sha256 for source in ingest.sources]
            together = 2 if ingest.settings.get("format") == "aligned" else 1
            for first in range(0, len(hashes), together):
                known.setdefault(tuple(hashes[first : first + together]), ingest)
        return known

    def first_free_part(self) -> int:
        """The number for the next part."""
        numbers = (match[1] for part in self.parts if (match := _PART.fullmatch(part.file)))
        return max([self.next_part, *(int(number) + 1 for number in numbers)])


def _mapping(value: Mapping[str, object], name: str) -> dict[str, Any]:
    entries = value[name]
    if not isinstance(entries, dict):
        raise TypeError(f"{name} is not an object")
    return entries


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
        **{package: version(package) for package in ("pyarrow", "duckdb", "orjson", "xxhash", "regex")},
    }


def part_name(number: int, revision: int = 0) -> str:
    """part-00003.parquet; after deletions part-00003.r1.parquet, part-00003.r2.parquet."""
    return f"part-{number:05}{f'.r{revision}' if revision else ''}.parquet"


def next_revision(file: str) -> str:
    """The name for what is left of a part."""
    match = _PART.fullmatch(file)
    assert match is not None, file
    return part_name(int(match[1]), int(match[2] or 0) + 1)


class PartWriter:
    """Writes pairs into one Parquet file; what it wrote becomes part of a log only through a manifest."""

    def __init__(self, path: Path, schema: pa.Schema = PAIR_SCHEMA) -> None:
        self.path = path
        self.pairs = 0
        self.bytes = 0  # of text and numbers, before compression
        with storage_errors(path):
            self._file = pa.OSFile(str(path), "wb")
            try:
                self._writer = pq.ParquetWriter(
                    self._file,
                    schema,
                    compression="zstd",
                    compression_level=3,
                    use_dictionary=[name for name in schema.names if name.endswith("speaker")],
                    write_statistics=False,
                )
            except OSError:
                self._file.close()
                raise

    def add(self, rows: pa.RecordBatch | pa.Table) -> None:
        """One row group; its bytes depend on the rows alone, not on the pieces they come in."""
        if not rows.num_rows:
            return
        table = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
        with storage_errors(self.path):
            self._writer.write_table(table.combine_chunks(), row_group_size=table.num_rows)
        self.pairs += table.num_rows
        self.bytes += _bytes_of(table)

    def close(self) -> LogPart:
        """Finish the file and make it survive a power cut."""
        with storage_errors(self.path):
            self._writer.close()
            self._file.close()
            sync_file(self.path)
        return LogPart(
            file=self.path.name, size=self.path.stat().st_size, sha256=sha256_of(self.path), pairs=self.pairs
        )

    def abandon(self) -> None:
        """Let go of a file that nobody will name."""
        with suppress(OSError, pa.ArrowException):
            self._writer.close()
        self._writer.is_open = False  # else its destructor tries again
        with suppress(OSError):
            self._file.close()
        self.path.unlink(missing_ok=True)


def _bytes_of(table: pa.Table) -> int:
    """Like `nbytes`, but the same for the same rows, however they lie in memory."""
    texts = (column for column in table.columns if pa.types.is_string(column.type))
    text = sum(int(pa.compute.sum(pa.compute.binary_length(column)).as_py() or 0) for column in texts)
    return text + 8 * int(table.num_rows * table.num_columns)


class PartsWriter:
    """Rows as parts that are cut by the rows alone: the same rows give the same files, in whatever pieces they come."""

    def __init__(
        self, folder: Path, kind: str, *, first: int, part_bytes: int, schema: pa.Schema = PAIR_SCHEMA
    ) -> None:
        self.kind = kind
        self.finished: list[LogPart] = []
        self._folder, self._next, self._part_bytes, self._schema = folder, first, part_bytes, schema
        self._part: PartWriter | None = None
        self._held: list[pa.RecordBatch] = []  # less than a row group

    @property
    def unfinished(self) -> int:
        """Rows that are in no finished part: the last ones that were added."""
        return (self._part.pairs if self._part else 0) + self._held_rows

    @property
    def _held_rows(self) -> int:
        return sum(batch.num_rows for batch in self._held)

    def add(self, rows: pa.RecordBatch) -> None:
        """Further rows; whole row groups are written."""
        self._held.append(rows)
        held = self._held_rows
        if held < ROWS_A_GROUP:
            return
        table, whole = pa.Table.from_batches(self._held), held - held % ROWS_A_GROUP
        self._held = table.slice(whole).to_batches()
        for start in range(0, whole, ROWS_A_GROUP):
            self._write(table.slice(start, ROWS_A_GROUP))

    def take_finished(self) -> list[LogPart]:
        """Parts that were finished since this was last asked."""
        taken, self.finished = self.finished, []
        return taken

    def close(self) -> list[LogPart]:
        """The last part ends here, however small; all that were not taken yet."""
        if self._held_rows:
            self._write(pa.Table.from_batches(self._held))
            self._held = []
        if self._part is not None:
            self._finish(self._part)
        return self.take_finished()

    def abandon(self) -> None:
        """Let go of what is not finished."""
        if self._part is not None:
            self._part.abandon()

    def _write(self, group: pa.Table) -> None:
        if self._part is None:
            self._part = PartWriter(self._folder / f"{self.kind}-{self._next:05}.parquet", self._schema)
        self._part.add(group)
        if self._part.bytes >= self._part_bytes:
            self._finish(self._part)

    def _finish(self, part: PartWriter) -> None:
        self.finished.append(part.close())
        self._part, self._next = None, self._next + 1


class StoredLog:
    """A log opened for reading; it keeps the manifest it was opened with."""

    def __init__(self, folder: Path, manifest: LogManifest) -> None:
        self.folder = folder
        self.manifest = manifest

    @classmethod
    def open(cls, logs: Path, name: str) -> Self:
        """Open a log by name; sizes are checked, hashes only by `verify`."""
        log = cls.open_unchecked(logs, name)
        try:
            for part in log.manifest.parts:
                log.require_size(part)
        except Corrupt:
            if log.is_current():
                raise
            return cls.open(logs, name)  # a deletion was published in between
        return log

    @classmethod
    def open_unchecked(cls, logs: Path, name: str) -> Self:
        """Open a log that may be damaged, to find out what is wrong with it."""
        folder = require_log(logs, name)
        return cls(folder, LogManifest.read(folder))

    def require_size(self, part: LogPart) -> None:
        """Refuse a part that is missing or of another size than the manifest says."""
        path = self.folder / part.file
        if not path.exists():
            raise Corrupt(f"{path} is missing; the manifest names it with {part.size:,} bytes")
        found = path.stat().st_size
        if found != part.size:
            raise Corrupt(f"{path} has {found:,} bytes; the manifest says {part.size:,}")

    def is_current(self) -> bool:
        """Whether the log is still what it was when it was opened."""
        try:
            return LogManifest.read(self.folder) == self.manifest
        except (Corrupt, OSError):
            return False

    @property
    def paths(self) -> list[Path]:
        """The part files, oldest first."""
        return [self.folder / part.file for part in self.manifest.parts]

    def batches(self, columns: Sequence[str] | None = None, *, size: int = 20_000) -> Iterator[pa.RecordBatch]:
        """All pairs in stored order, piece by piece."""
        for part in self.manifest.parts:
            with self._open(part) as file:
                yield from file.iter_batches(batch_size=size, columns=columns, use_threads=False)

    def _open(self, part: LogPart) -> pq.ParquetFile:
        """A part's file, which a deletion may have replaced since the log was opened."""
        try:
            self.require_size(part)
            return pq.ParquetFile(self.folder / part.file)
        except (Corrupt, OSError) as error:
            if self.is_current():
                raise
            raise Conflict(
                f"log {self.manifest.name} was changed while it was read: {part.file} is gone", remedy="read it again"
            ) from error

    def pairs(self) -> Iterator[Pair]:
        """All pairs as records; for the many, `batches` is quicker."""
        for batch in self.batches():
            yield from (_pair(self.manifest.name, row) for row in batch.to_pylist())

    def turns(self, progress: Progress | None = None) -> Iterator[pa.StringArray]:
        """Every turn once and in order: an utterance is mostly the response of the pair before it, or its utterance."""
        before = pa.record_batch([pa.array([""]), pa.array([""])], _TURN_COLUMNS)  # the last pair that was seen
        for batch in self.batches(_TURN_COLUMNS):
            yield _new_turns(before, batch)
            before = batch.slice(batch.num_rows - 1)
            if progress is not None:
                progress.advance(batch.num_rows)

    def sample(self, count: int, seed: int, engine: Engine) -> list[Pair]:
        """A seeded sample without replacement: the same for the same log content."""
        if not self.paths:
            return []
        columns = ", ".join(name for name in PAIR_SCHEMA.names if not name.endswith("_key"))
        order = "md5_number_upper(concat(dialogue, chr(31), position, chr(31), ?::VARCHAR))"  # for ever the same
        sql = f"SELECT {columns} FROM {parquet(self.paths)} ORDER BY {order}, dialogue, position LIMIT ?"
        schema = pa.schema([column for column in PAIR_SCHEMA if not column.name.endswith("_key")])
        rows = [row for batch in engine.batches(sql, [seed, count]) for row in batch.cast(schema).to_pylist()]
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


def _new_turns(before: pa.RecordBatch, batch: pa.RecordBatch) -> pa.StringArray:
    """The turns of a batch that the pair before each did not bring already."""
    utterances, responses = batch.columns
    rows = batch.num_rows
    new = np.full((rows, 2), fill_value=True)  # utterance, response
    for last, column in zip(before.columns, (utterances, responses), strict=True):
        previous = pa.concat_arrays([last, column.slice(0, rows - 1)])
        new[:, 0] &= pa.compute.not_equal(utterances, previous).to_numpy(zero_copy_only=False)
    places = np.arange(2 * rows).reshape(2, rows).T  # of both among all texts, pair after pair
    return pa.concat_arrays([utterances, responses]).take(pa.array(places[new]))


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
    found = (manifest.parent.name for manifest in logs.glob(f"*/{MANIFEST}"))
    return sorted(name for name in found if NAME.fullmatch(name))


def require_log(logs: Path, name: str) -> Path:
    """The folder of a published log, or NotFound with the names that there are."""
    folder = logs / require_name("log", name)
    if not (folder / MANIFEST).exists():
        raise NotFound(f"no log {name!r} in {logs}", remedy=f"there are: {', '.join(list_logs(logs)) or 'none yet'}")
    return folder


def remove_unnamed(folder: Path, manifest: LogManifest) -> None:
    """Delete part files that the manifest does not name; readers that have them open keep them."""
    named = {part.file for part in manifest.parts}
    for path in folder.glob("part-*.parquet"):
        if path.name not in named:
            path.unlink()
    sync_folder(folder)


def remove_leftovers(folder: Path, manifest: LogManifest, *, stages: bool) -> None:
    """Delete what killed runs left behind; with `stages`, also an ingest that could still go on."""
    remove_asides(folder)
    remove_tree(folder / ENGINE)
    done = {f"{STAGE}{ingest.key}" for ingest in manifest.ingests}
    for stage in folder.glob(f"{STAGE}*"):
        if stages or stage.name in done:
            remove_tree(stage)
    if not any(folder.glob(f"{STAGE}*")):  # it may have begun to move its parts here
        remove_unnamed(folder, manifest)


def _differing(new: Mapping[str, Any], old: Mapping[str, Any]) -> list[str]:
    """Names of the settings that differ, those inside others with a dot."""
    names = list[str]()
    for key, value in new.items():
        before = old.get(key)
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            names += [f"{key}.{inner}" for inner in sorted({*value, *before}) if value.get(inner) != before.get(inner)]
        elif value != before:
            names.append(key)
    return names


def require_same_settings(ingest: LogIngest, settings: Mapping[str, Any], source: str) -> None:
    """The same file cleaned in two ways cannot both be in a log."""
    differing = _differing(settings, ingest.settings)
    if differing:
        raise Conflict(
            f"{source} is in the log already, ingested with another {', another '.join(differing)}",
            remedy="use another log name, or delete the log first",
        )
