"""The log engine's SQL statements: rows of logs without erased ones, grouped into utterances and pairs.

Only keys, hashes and row numbers are grouped and joined; texts are fetched only for the rows chosen to show them. A
row's number combines the number of its part and its place there, so it is valid for one state of the logs only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from refaug.core.errors import Usage
from refaug.core.files import require_name
from refaug.core.progress import Progress
from refaug.core.query_engine import QueryEngine, parquet
from refaug.indexer.columns import ROWS_A_BATCH
from refaug.logs.store import StoredLog

NO_TIME: Final = int(np.iinfo(np.int64).min)
_KEYS_AT_ONCE: Final = 100_000  # handed to the engine in one statement
_ALL_BITS: Final = "18446744073709551615::HUGEINT"  # sums of hashes are taken modulo 2 ** 64

Keys = NDArray[np.uint64]


class KeyRange(NamedTuple):
    """The utterances of a shard: those whose keys lie between these two, both included."""

    lowest: int
    highest: int

    @classmethod
    def of_shard(cls, number: int, shards: int) -> Self:
        """Return the range of one of so many shards, which share all keys evenly."""
        return cls(number * 2**64 // shards, (number + 1) * 2**64 // shards - 1)


@dataclass(frozen=True, kw_only=True)
class ErasedKeySets:
    """Pairs, dialogues and speakers that must not be shown any more, as `erased_key`s; a pair is named by its id."""

    pairs: frozenset[str] = frozenset()
    dialogues: frozenset[str] = frozenset()
    speakers: frozenset[str] = frozenset()


def erased_key(kind: str, id_text: str) -> str:
    """Return the hash that an index stores of an erased `pair`, `dialogue` or `speaker`: enough to leave it out.

    It cannot be read back.
    """
    return hashlib.sha256(f"{kind}\x1f{id_text}".encode()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class _LogPart:
    path: Path
    number: int  # among the parts of all logs
    log: int  # among the logs by name
    pairs: int


@dataclass(frozen=True, kw_only=True)
class LogRows:
    """The rows of several logs, without erased ones; logs come in the order of their names."""

    names: tuple[str, ...]
    places: NDArray[np.uint16]  # position of each log in the order of the arguments
    parts: tuple[_LogPart, ...]
    erased: ErasedKeySets

    @classmethod
    def of(cls, logs: Sequence[StoredLog], erased: ErasedKeySets) -> Self:
        """Take the logs as they were opened."""
        names_given = [require_name("log", log.manifest.name) for log in logs]
        if twice := [name for name in names_given if names_given.count(name) > 1]:
            raise Usage(f"log {twice[0]} is named twice", remedy="name every log once")
        order = sorted(range(len(logs)), key=lambda place: names_given[place])
        named = [
            (number, part, path)
            for number, place in enumerate(order)
            for part, path in zip(logs[place].manifest.parts, logs[place].paths, strict=True)
        ]
        parts = (
            _LogPart(path=path, number=place, log=number, pairs=part.pairs)
            for place, (number, part, path) in enumerate(named)
        )
        names = tuple(names_given[place] for place in order)
        return cls(names=names, places=np.array(order, np.uint16), parts=tuple(parts), erased=erased)

    @property
    def pairs(self) -> int:
        """The number of rows before anything is left out."""
        return sum(part.pairs for part in self.parts)

    def stream(self, engine: QueryEngine, sql: str) -> Iterator[pa.RecordBatch]:
        """Yield the answer to a question about `{rows}`, all rows of the logs; without parts there is none."""
        if self.parts:
            yield from engine.batches(sql.format(rows=f"({self.sql(self.parts)})"), size=ROWS_A_BATCH)

    def sql(self, parts: Sequence[_LogPart]) -> str:
        """Return the SQL of all rows of neighbouring parts that are not erased, with the numbers of row and log."""
        ends = {part.log: place for place, part in enumerate(parts, start=1)}  # of each log's last part here
        log = f"CASE {' '.join(f'WHEN file_index < {end} THEN {log}' for log, end in ends.items())} END::USMALLINT"
        rows = (
            f"SELECT ((file_index::BIGINT + {parts[0].number}) << 40) + file_row_number AS row, {log} AS log, "
            "dialogue, position, utterance, response, utterance_speaker, response_speaker, epoch_us(time) AS time, "
            f"utterance_key, response_key FROM {parquet([part.path for part in parts])}"
        )
        conditions = self._conditions()
        return f"SELECT * FROM ({rows}) WHERE {' AND '.join(conditions)}" if conditions else rows

    def log_name(self) -> str:
        """Return the SQL of the name of a row's log."""
        return "CASE log " + " ".join(f"WHEN {log} THEN '{name}'" for log, name in enumerate(self.names)) + " END"

    def _conditions(self) -> list[str]:
        """Return the conditions for a row; a kind without erased keys is not hashed."""
        hashed = list[str]()
        if self.erased.dialogues:
            hashed.append("'dialogue', chr(31), dialogue")
        if self.erased.pairs:
            hashed.append(f"'pair', chr(31), {self.log_name()}, '/', dialogue, '#', position")
        conditions = [f"sha256(concat({value})) NOT IN (SELECT key FROM erased_key)" for value in hashed]
        if self.erased.speakers:
            conditions += [
                f"({speaker} IS NULL OR sha256(concat('speaker', chr(31), {speaker})) "
                "NOT IN (SELECT key FROM erased_key))"
                for speaker in ("utterance_speaker", "response_speaker")
            ]
        return conditions

    def fingerprint(self) -> str:
        """Return the SQL of a hash of everything an index takes from a row.

        It must never change, since indexes store sums of it.
        """
        fields = (self.log_name(), "dialogue", "position", "response", "utterance", "time")
        return f"md5_number_upper(concat({', chr(31), '.join(fields)}))"


def fill_erased_keys(engine: QueryEngine, erased: ErasedKeySets) -> None:
    """Fill the table `erased_key`, with which the rows of a log are compared."""
    engine.run("CREATE OR REPLACE TABLE erased_key (key VARCHAR)")
    keys = sorted(erased.pairs | erased.dialogues | erased.speakers)
    for first in range(0, len(keys), _KEYS_AT_ONCE):
        engine.run("INSERT INTO erased_key SELECT unnest(?::VARCHAR[])", [keys[first : first + _KEYS_AT_ONCE]])


def fill_wanted(engine: QueryEngine, keys: Keys) -> None:
    """Fill the table `wanted` with the keys of the requested utterances."""
    engine.run("CREATE OR REPLACE TABLE wanted (utterance_key UBIGINT)")
    for first in range(0, len(keys), _KEYS_AT_ONCE):
        batch = keys[first : first + _KEYS_AT_ONCE].tolist()
        engine.run("INSERT INTO wanted SELECT DISTINCT unnest(?::UBIGINT[])", [batch])


def fill_occurrences(
    engine: QueryEngine, rows: LogRows, *, only_wanted: bool, key_range: KeyRange | None, progress: Progress
) -> None:
    """Fill the table `occurrence` with keys and hashes of every row, in one pass over the texts."""
    engine.run(
        "CREATE OR REPLACE TABLE occurrence (row BIGINT, utterance_key UBIGINT, response_key UBIGINT, "
        "utterance_sha UBIGINT, response_sha UBIGINT, hash UBIGINT)"
    )
    among = "SEMI JOIN wanted USING (utterance_key)" if only_wanted else ""
    if key_range is not None:
        among += f" WHERE utterance_key BETWEEN {key_range.lowest}::UBIGINT AND {key_range.highest}::UBIGINT"
    for part in rows.parts:
        engine.run(
            f"INSERT INTO occurrence SELECT row, utterance_key, response_key, {_sha('utterance')}, {_sha('response')}, "
            f"{rows.fingerprint()} FROM ({rows.sql([part])}) {among}"
        )
        progress.advance(part.pairs)


def _sha(text: str) -> str:
    """Return the SQL of the first 8 bytes of a text's SHA-256 as a number."""
    return f"('0x' || left(sha256({text}), 16))::UBIGINT"


def group_occurrences(engine: QueryEngine) -> None:
    """Fill the tables `utterance` and `pair`, numbered in the order of the index, with a row that holds each text.

    Any row of equal hashes will do: their texts are the same.
    """
    engine.run(
        "CREATE OR REPLACE TABLE utterance AS SELECT *, row_number() OVER (ORDER BY sha, utterance_key) - 1 AS number "
        "FROM (SELECT utterance_key, min(utterance_sha) AS sha, arg_min(row, utterance_sha) AS row, "
        f"{_total('hash')} AS fingerprint FROM occurrence GROUP BY utterance_key)"
    )
    engine.run(
        "CREATE OR REPLACE TABLE pair AS SELECT p.*, u.number AS utterance, "
        "row_number() OVER (ORDER BY u.number, p.sha, p.response_key) - 1 AS number "
        "FROM (SELECT utterance_key, response_key, min(response_sha) AS sha, arg_min(row, response_sha) AS row "
        "FROM occurrence GROUP BY utterance_key, response_key) p JOIN utterance u USING (utterance_key)"
    )


def _total(hashes: str) -> str:
    return f"(sum({hashes}) & {_ALL_BITS})::UBIGINT"


def fill_fingerprints(engine: QueryEngine, rows: LogRows) -> None:
    """Fill the table `fingerprint` (utterance_key, fingerprint) with one row for every utterance."""
    engine.run("CREATE OR REPLACE TABLE fingerprint (utterance_key UBIGINT, fingerprint UBIGINT)")
    if rows.parts:
        engine.run(
            f"INSERT INTO fingerprint SELECT utterance_key, {_total('hash')} FROM (SELECT utterance_key, "
            f"{rows.fingerprint()} AS hash FROM ({rows.sql(rows.parts)})) GROUP BY utterance_key"
        )


def drop_tables(engine: QueryEngine, tables: Iterable[str]) -> None:
    """Drop tables to free their space."""
    for table in tables:
        engine.run(f"DROP TABLE IF EXISTS {table}")
