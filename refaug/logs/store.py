"""The stored log: a folder of Parquet parts and a manifest that names them; files that it does not name do not count.

Parts are never changed. Appending adds one, deleting replaces the affected ones, and in both cases the manifest is
renamed into place last, so that a reader sees the log before or after, never between.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from refaug.core import files
from refaug.core.errors import Conflict, Corrupt, NotFound
from refaug.core.progress import Progress
from refaug.core.query_engine import QueryEngine, parquet
from refaug.core.records import Pair
from refaug.logs.manifest import MANIFEST, LogManifest, LogPart
from refaug.logs.pairs import PAIR_SCHEMA

STAGE: Final = ".staging-"  # begins the name of a folder in which an ingest is prepared
ENGINE: Final = ".engine"
_DRAWN: Final = "md5_number_upper(concat(dialogue, chr(31), position, chr(31), ?::VARCHAR))"  # must never change
_TEXT_COLUMNS: Final = ("dialogue", "position", "utterance", "response")
_TURN_COLUMNS: Final = ("utterance", "response")


class StoredLog:
    """A log opened for reading, with the manifest it was opened with."""

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
        """Refuse a part that is missing or whose size differs from the manifest's."""
        path = self.folder / part.file
        if not path.exists():
            raise Corrupt(f"{path} is missing; the manifest names it with {part.size:,} bytes")
        size = path.stat().st_size
        if size != part.size:
            raise Corrupt(f"{path} has {size:,} bytes; the manifest says {part.size:,}")

    def is_current(self) -> bool:
        """Return whether the log is still as it was when it was opened."""
        try:
            return LogManifest.read(self.folder) == self.manifest
        except (Corrupt, OSError):
            return False

    @property
    def paths(self) -> list[Path]:
        """The part files, oldest first."""
        return [self.folder / part.file for part in self.manifest.parts]

    def batches(self, columns: Sequence[str] | None = None, *, size: int = 20_000) -> Iterator[pa.RecordBatch]:
        """Yield all pairs in stored order, in pieces."""
        for part in self.manifest.parts:
            with self._open(part) as file, _damage_named(self.folder / part.file):
                for batch in file.iter_batches(batch_size=size, columns=columns, use_threads=False):
                    batch.validate(full=True)
                    yield batch

    def _open(self, part: LogPart) -> pq.ParquetFile:
        """Open a part's file; raise Conflict if a deletion has replaced it since the log was opened."""
        try:
            self.require_size(part)
            with _damage_named(self.folder / part.file):
                return _require_columns(pq.ParquetFile(self.folder / part.file))
        except (Corrupt, OSError) as error:
            if self.is_current():
                raise
            raise Conflict(
                f"log {self.manifest.name} was changed while it was read: {part.file} is gone", remedy="read it again"
            ) from error

    def pairs(self) -> Iterator[Pair]:
        """Yield all pairs as records; `batches` is faster for many."""
        for batch in self.batches():
            yield from (_pair(self.manifest.name, row) for row in batch.to_pylist())

    def turns(self, progress: Progress | None = None) -> Iterator[pa.StringArray]:
        """Yield every turn once and in order.

        Most utterances also occur in the pair before, as its response or its utterance; they are left out here.
        """
        before = self._last_pair_before(0, 0)
        for batch in self.batches(_TURN_COLUMNS):
            yield _new_turns(before, batch)
            before = batch.slice(batch.num_rows - 1)
            if progress is not None:
                progress.advance(batch.num_rows)

    def turns_of(self, part: int, first: int, last: int) -> Iterator[pa.StringArray]:
        """Yield the turns that `turns` yields for some row groups of a part, by its number."""
        before = self._last_pair_before(part, first)
        with self._open(self.manifest.parts[part]) as file, _damage_named(self.folder / self.manifest.parts[part].file):
            for batch in file.iter_batches(
                batch_size=20_000, row_groups=range(first, last), columns=_TURN_COLUMNS, use_threads=False
            ):
                batch.validate(full=True)
                yield _new_turns(before, batch)
                before = batch.slice(batch.num_rows - 1)

    def _last_pair_before(self, part: int, group: int) -> pa.RecordBatch:
        """Return the pair before a row group, as one row; empty texts where it is the first of the log."""
        while part >= 0:
            stored = self.manifest.parts[part]
            with self._open(stored) as file, _damage_named(self.folder / stored.file):
                for earlier in reversed(range(file.num_row_groups if group < 0 else group)):
                    table = file.read_row_group(earlier, columns=_TURN_COLUMNS, use_threads=False).combine_chunks()
                    if table.num_rows:
                        return table.slice(table.num_rows - 1).to_batches()[0]
            part, group = part - 1, -1
        return pa.record_batch([pa.array([""]), pa.array([""])], _TURN_COLUMNS)

    def sample(self, count: int, seed: int, engine: QueryEngine) -> list[Pair]:
        """Return a seeded sample without replacement: the same for the same log content."""
        if not self.paths:
            return []
        columns = ", ".join(name for name in PAIR_SCHEMA.names if not name.endswith("_key"))
        sql = f"SELECT {columns} FROM {parquet(self.paths)} ORDER BY {_DRAWN}, dialogue, position LIMIT ?"
        schema = pa.schema([column for column in PAIR_SCHEMA if not column.name.endswith("_key")])
        rows = [row for batch in engine.batches(sql, [seed, count]) for row in batch.cast(schema).to_pylist()]
        return [_pair(self.manifest.name, row) for row in rows]

    def sample_utterances(self, count: int, seed: int, engine: QueryEngine) -> Iterator[tuple[str, str]]:
        """Yield dialogue and utterance of the same sample, which need not fit in memory."""
        if self.paths:
            sql = f"SELECT dialogue, utterance FROM {parquet(self.paths)} ORDER BY {_DRAWN}, dialogue, position LIMIT ?"
            for batch in engine.batches(sql, [seed, count]):
                for row in batch.to_pylist():
                    yield row["dialogue"], row["utterance"]

    def verify(self) -> Iterator[tuple[LogPart, str | None]]:
        """Yield every part with what is wrong with it, or None: size, hash, readable to the end, number of pairs."""
        for part in self.manifest.parts:
            try:
                self.require_size(part)
                path = self.folder / part.file
                sha256 = files.sha256_of(path)
                if sha256 != part.sha256:
                    yield part, f"{path} has SHA-256 {sha256[:12]}…; the manifest says {part.sha256[:12]}…"
                    continue
                with pq.ParquetFile(path) as file:
                    rows = sum(batch.num_rows for batch in file.iter_batches(columns=list(_TEXT_COLUMNS)))
                yield (
                    part,
                    None if rows == part.pairs else f"{path} holds {rows:,} pairs; the manifest says {part.pairs:,}",
                )
            except (Corrupt, OSError, pa.ArrowException) as error:
                yield part, str(error)


@contextmanager
def _damage_named(path: Path) -> Iterator[None]:
    """Turn what Arrow says of a damaged part into Corrupt, which names it; the caller explains a file that is gone."""
    try:
        yield
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise Corrupt(f"{path} is damaged: {reason}", remedy="restore it from a backup, or ingest again") from error


def _require_columns(file: pq.ParquetFile) -> pq.ParquetFile:
    types = {column.name: column.type for column in file.schema_arrow}
    names = [column.name for column in PAIR_SCHEMA if types.get(column.name) != column.type]
    if names:
        file.close()
        raise pa.ArrowInvalid(f"it has no proper column {', '.join(names)}")
    return file


def _new_turns(before: pa.RecordBatch, batch: pa.RecordBatch) -> pa.StringArray:
    """Return the turns of a batch that the pair before each does not contain."""
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
    """Return the names of the published logs."""
    names = (manifest.parent.name for manifest in logs.glob(f"*/{MANIFEST}"))
    return sorted(name for name in names if files.NAME.fullmatch(name))


def require_log(logs: Path, name: str) -> Path:
    """Return the folder of a published log; NotFound lists the existing names."""
    folder = logs / files.require_name("log", name)
    if not (folder / MANIFEST).exists():
        raise NotFound(f"no log {name!r} in {logs}", remedy=f"there are: {', '.join(list_logs(logs)) or 'none yet'}")
    return folder


def remove_unnamed(folder: Path, manifest: LogManifest) -> None:
    """Delete part files that the manifest does not name; readers that have them open can still read them."""
    named = {part.file for part in manifest.parts}
    for path in folder.glob("part-*.parquet"):
        if path.name not in named:
            path.unlink()
    files.sync_folder(folder)


def remove_leftovers(folder: Path, manifest: LogManifest, *, stages: bool) -> None:
    """Delete what killed runs left behind; with `stages`, also an ingest that could still continue."""
    files.remove_asides(folder)
    files.remove_tree(folder / ENGINE)
    done = {f"{STAGE}{ingest.key}" for ingest in manifest.ingests}
    for stage in folder.glob(f"{STAGE}*"):
        if stages or stage.name in done:
            files.remove_tree(stage)
    if not any(folder.glob(f"{STAGE}*")):  # it may have begun to move its parts here
        remove_unnamed(folder, manifest)


# ── Figures of a log, computed by the log engine over its parts: totals, duplicates, statistics ───────────────────────


def totals_of(engine: QueryEngine, paths: Sequence[Path]) -> dict[str, int]:
    """Count pairs and distinct pairs; exact duplicates are stored and counted."""
    if not paths:
        return dict.fromkeys(("pairs", "dialogues", "distinct_pairs", "distinct_utterances"), 0)
    return _totals(engine, parquet(paths), "")


def new_totals(engine: QueryEngine, stored: Sequence[Path], added: Sequence[Path]) -> dict[str, int]:
    """Return what `added` adds to the totals of `stored`; the sum with the log's totals gives those of the whole.

    Only keys that occur in the new parts are in memory: a night's dialogues cost little on top of years of them.
    """
    if not stored or not added:
        return totals_of(engine, added)
    return _totals(engine, parquet(added), parquet(stored))


_DISTINCT: Final = {
    "dialogues": "hash(dialogue)",
    "distinct_pairs": "hash(utterance_key, response_key)",
    "distinct_utterances": "utterance_key",
}


def _totals(engine: QueryEngine, added: str, stored: str) -> dict[str, int]:
    totals = {"pairs": engine.number(f"SELECT count(*) FROM {added}")}
    for name, key in _DISTINCT.items():
        engine.run(f"CREATE OR REPLACE TABLE keys AS SELECT DISTINCT {key} AS k FROM {added}")
        totals[name] = engine.number("SELECT count(*) FROM keys")
        if stored:
            known_count_sql = f"SELECT count(DISTINCT k) FROM (SELECT {key} AS k FROM {stored}) JOIN keys USING (k)"
            totals[name] -= engine.number(known_count_sql)
    engine.run("DROP TABLE IF EXISTS keys")
    return totals


def _moment(micros: int | None) -> str | None:
    return None if micros is None else datetime.fromtimestamp(micros / 1_000_000, UTC).isoformat()


def statistics(engine: QueryEngine, log: StoredLog) -> dict[str, Any]:
    """Return the figures of `refaug log stats`, counted again from the parts."""
    totals = totals_of(engine, log.paths)
    if not totals["pairs"]:
        return dict(totals)
    pairs = parquet(log.paths)
    words = "len(string_split(trim({0}), ' '))"
    quantiles = engine.rows(
        f"SELECT quantile_cont({words.format('utterance')}, [0.05, 0.5, 0.95]), "
        f"quantile_cont({words.format('response')}, [0.05, 0.5, 0.95]), "
        f"avg({words.format('response')}), epoch_us(min(time)), epoch_us(max(time)), count(time), "
        f"approx_count_distinct(response_speaker), count(response_speaker) FROM {pairs}"
    )[0]
    several = engine.rows(
        f"SELECT count(*) FILTER (n >= 2), count(*) FILTER (n >= 5), max(n) FROM "
        f"(SELECT utterance_key, count(DISTINCT response_key) AS n FROM {pairs} GROUP BY utterance_key)"
    )[0]
    common = engine.rows(
        f"SELECT arg_min(utterance, md5_number_upper(utterance)), count(*) AS n FROM {pairs} GROUP BY utterance_key "
        "ORDER BY n DESC, utterance_key LIMIT 5"
    )
    tags = engine.rows(
        f"SELECT tag, count(*) AS n FROM (SELECT unnest(tags) AS tag FROM {pairs}) "
        "GROUP BY tag ORDER BY n DESC, tag LIMIT 20"
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
        "first_time": _moment(quantiles[3]),
        "last_time": _moment(quantiles[4]),
        "pairs_with_time": quantiles[5],
        "speakers_about": quantiles[6],
        "pairs_with_speaker": quantiles[7],
        "common_utterances": [{"utterance": text, "pairs": count} for text, count in common],
        "tags": dict(tags),
    }


def known_pairs(
    engine: QueryEngine, stored: Sequence[Path], staged: Sequence[Path], *, dialogue_parts: int = 0
) -> Iterator[tuple[int, list[int]]]:
    """Yield rows of staged parts to leave out: (index of the part, row numbers), part by part.

    These are the pairs whose id occurs earlier; and in the first `dialogue_parts` staged parts, which hold no trees,
    all others of a version of a dialogue with such a pair that differs: no dialogue has turns of two versions.
    """
    key = "hash(dialogue, position) AS h"
    engine.run(f"CREATE TABLE mine AS SELECT h, count(*) AS n FROM (SELECT {key} FROM {parquet(staged)}) GROUP BY h")
    engine.run("CREATE TABLE suspect AS SELECT h FROM mine WHERE n > 1")
    if stored:
        engine.run(
            f"INSERT INTO suspect SELECT DISTINCT h FROM (SELECT {key} FROM {parquet(stored)}) SEMI JOIN mine USING (h)"
        )
    engine.run("DROP TABLE mine")
    if not engine.number("SELECT count(*) FROM suspect"):
        return
    columns = f"dialogue, position, utterance_key AS u, response_key AS r, file_row_number AS row, {key}"
    union = f"SELECT file_index::BIGINT AS part, {columns} FROM {parquet(staged)}"
    if stored:
        union += f" UNION ALL SELECT -1 AS part, {columns} FROM {parquet(stored)}"
    engine.run(
        "CREATE TABLE repeated AS SELECT part, row, dialogue, "
        f"part < {dialogue_parts} AND (u, r) != (first_u, first_r) AS differs FROM "
        "(SELECT *, row_number() OVER w AS nth, first(u) OVER w AS first_u, first(r) OVER w AS first_r "
        f"FROM (SELECT * FROM ({union}) SEMI JOIN suspect USING (h)) "
        "WINDOW w AS (PARTITION BY dialogue, position ORDER BY part, row)) WHERE nth > 1 AND part >= 0"
    )
    sql = "SELECT part, row FROM repeated"
    if engine.number("SELECT count(*) FROM repeated WHERE differs"):
        sql += f" UNION {_rows_of_changed_versions(staged, dialogue_parts)}"
    repeated = (
        pair
        for batch in engine.batches(f"{sql} ORDER BY part, row")
        for pair in zip(*(batch[n].to_pylist() for n in (0, 1)), strict=True)
    )
    for part, rows in groupby(repeated, key=itemgetter(0)):
        yield part, [row for _, row in rows]


def _rows_of_changed_versions(staged: Sequence[Path], dialogue_parts: int) -> str:
    """Return SQL for all rows of the versions of dialogues that `repeated` has a differing row of.

    A version begins where positions do not rise.
    """
    in_order = "(PARTITION BY dialogue ORDER BY part, row)"
    return (
        "SELECT part, row FROM (SELECT part, row, bool_or(differs) OVER (PARTITION BY dialogue, version) AS differs "
        f"FROM (SELECT part, row, dialogue, coalesce(sum(begins::INT) OVER {in_order}, 0) AS version "
        f"FROM (SELECT part, row, dialogue, position::BIGINT <= lag(position::BIGINT) OVER {in_order} AS begins "
        "FROM (SELECT file_index::BIGINT AS part, file_row_number AS row, dialogue, position "
        f"FROM {parquet(staged)} WHERE file_index < {dialogue_parts}) "
        "SEMI JOIN (SELECT dialogue FROM repeated WHERE differs) USING (dialogue))) "
        "LEFT JOIN repeated USING (part, row, dialogue)) WHERE differs"
    )
