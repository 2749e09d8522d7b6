"""The tables of an index, from logs: distinct utterances, their distinct responses, and all occurrences.

The log engine writes them out of core. Their content depends on the pairs alone, not on how the logs are stored: the
order is by hashes of the texts, so a pair keeps its place relative to others when logs grow.
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

from refaug.core.errors import BadInput, Usage
from refaug.core.files import require_name
from refaug.core.progress import Progress
from refaug.core.query_engine import QueryEngine, parquet
from refaug.indexer.columns import ROWS_A_BATCH, NpyWriter, TextWriter
from refaug.logs.store import StoredLog

# ── The log engine's SQL statements: rows of logs without erased ones, grouped into utterances and pairs ──────────────
#
# Only keys, hashes and row numbers are grouped and joined; texts are fetched only for the rows chosen to show them. A
# row's number combines the number of its part and its place there, so it is valid for one state of the logs only.

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

        It must never change, since indexes store sums of it. A row without a speaker has no field for one.
        """
        fields = (self.log_name(), "dialogue", "position", "response", "utterance", "time")
        return f"md5_number_upper(concat({', chr(31), '.join(fields)}, chr(31) || response_speaker))"


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


# ── The tables of an index, from logs: distinct utterances, their distinct responses, and all occurrences ─────────────

SPEAKERS: Final = "speakers.arrow"  # who gave the response; empty where the log does not say
_KEYS_IN_MEMORY: Final = 4_000_000  # compared at once


@dataclass(frozen=True, kw_only=True)
class TableCounts:
    """The sizes of a table."""

    utterances: int
    pairs: int
    occurrences: int
    utterance_bytes: int
    response_bytes: int


def build_table(
    engine: QueryEngine,
    logs: Sequence[StoredLog],
    folder: Path,
    *,
    keys: Keys | None = None,
    key_range: KeyRange | None = None,
    erased: ErasedKeySets | None = None,
    progress: Progress,
) -> TableCounts:
    """Write the tables of these logs into a folder; only of the utterances with these keys, or with keys in a range."""
    rows = LogRows.of(logs, erased or ErasedKeySets())
    progress.stage("reading the logs", rows.pairs, "pairs")
    fill_erased_keys(engine, rows.erased)
    if keys is not None:
        fill_wanted(engine, keys)
    fill_occurrences(engine, rows, only_wanted=keys is not None, key_range=key_range, progress=progress)
    if keys is None and key_range is None and not engine.number("SELECT count(*) FROM occurrence"):
        raise no_pairs(rows.names, any_erased=rows.pairs > 0)
    progress.stage("grouping equal texts")
    group_occurrences(engine)
    utterance_bytes = _write_utterances(engine, rows, folder, progress)
    response_bytes = _write_pairs(engine, rows, folder, progress)
    _write_occurrences(engine, rows, folder, progress)
    utterances, pairs, occurrences = (_count(engine, table) for table in ("utterance", "pair", "occurrence"))
    drop_tables(engine, ("utterance", "pair", "occurrence", "wanted", "erased_key"))
    return TableCounts(
        utterances=utterances,
        pairs=pairs,
        occurrences=occurrences,
        utterance_bytes=utterance_bytes,
        response_bytes=response_bytes,
    )


def no_pairs(logs: Sequence[str], *, any_erased: bool) -> BadInput:
    """Return the error about logs without anything to index."""
    return BadInput(
        f"log {', '.join(logs)} has no pairs{' that are not erased' if any_erased else ''}",
        remedy="ingest some dialogues first",
    )


def _count(engine: QueryEngine, table: str) -> int:
    return engine.number(f"SELECT count(*) FROM {table}")


def _write_utterances(engine: QueryEngine, rows: LogRows, folder: Path, progress: Progress) -> int:
    progress.stage("writing utterances", _count(engine, "utterance"), "utterances")
    answer = rows.stream(
        engine,
        "SELECT r.utterance, u.utterance_key, sha, fingerprint "
        "FROM {rows} r JOIN utterance u USING (row) ORDER BY number",
    )
    with (
        TextWriter(folder / "utterances.arrow") as texts,
        NpyWriter(folder / "utterance_key.npy", np.uint64) as keys,
        NpyWriter(folder / "utterance_sha.npy", np.uint64) as shas,
        NpyWriter(folder / "fingerprint.npy", np.uint64) as prints,
    ):
        for batch in answer:
            texts.append(batch["utterance"])
            keys.append(batch["utterance_key"].to_numpy())
            shas.append(batch["sha"].to_numpy())
            prints.append(batch["fingerprint"].to_numpy())
            progress.advance(batch.num_rows)
    return texts.text_bytes


def _write_pairs(engine: QueryEngine, rows: LogRows, folder: Path, progress: Progress) -> int:
    progress.stage("writing pairs", _count(engine, "pair"), "pairs")
    answer = rows.stream(
        engine,
        "SELECT r.response, p.response_key, p.sha, p.utterance FROM {rows} r JOIN pair p USING (row) ORDER BY number",
    )
    with (
        TextWriter(folder / "pairs.arrow") as texts,
        NpyWriter(folder / "response_key.npy", np.uint64) as keys,
        NpyWriter(folder / "response_sha.npy", np.uint64) as shas,
        _StartWriter(folder / "pair_start.npy") as starts,
    ):
        for batch in answer:
            texts.append(batch["response"])
            keys.append(batch["response_key"].to_numpy())
            shas.append(batch["sha"].to_numpy())
            starts.append_owners(batch["utterance"].to_numpy())
            progress.advance(batch.num_rows)
    return texts.text_bytes


def _write_occurrences(engine: QueryEngine, rows: LogRows, folder: Path, progress: Progress) -> None:
    progress.stage("writing occurrences", _count(engine, "occurrence"), "pairs")
    answer = rows.stream(
        engine,
        "SELECT p.number, log, dialogue, position, coalesce(response_speaker, '') AS speaker, "
        "coalesce(time, -9223372036854775808) AS time, "
        "md5_number_upper(dialogue) AS dialogue_key FROM {rows} r JOIN pair p USING (utterance_key, response_key) "
        "ORDER BY p.number, log, dialogue, position",
    )
    with (
        TextWriter(folder / "occurrences.arrow", ("dialogue", "position")) as texts,
        TextWriter(folder / SPEAKERS, ("speaker",)) as speakers,
        NpyWriter(folder / "occurrence_log.npy", np.uint16) as in_logs,
        NpyWriter(folder / "occurrence_dialogue.npy", np.uint64) as dialogues,
        NpyWriter(folder / "occurrence_time.npy", np.int64) as times,
        _StartWriter(folder / "occurrence_start.npy") as starts,
    ):
        for batch in answer:
            texts.append(batch["dialogue"], batch["position"])
            speakers.append(batch["speaker"])
            in_logs.append(rows.places[batch["log"].to_numpy()])
            dialogues.append(batch["dialogue_key"].to_numpy())
            times.append(batch["time"].to_numpy())
            starts.append_owners(batch["number"].to_numpy())
            progress.advance(batch.num_rows)
    if not speakers.text_bytes:  # no log names any
        (folder / SPEAKERS).unlink()


class _StartWriter(NpyWriter):
    """Writes where the rows of each owner begin, and at the end how many rows there are."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, np.int64)
        self._last_owner, self._seen = -1, 0

    def append_owners(self, owners: NDArray[np.int64]) -> None:
        """Append the owner of each further row; owners come in order, and each has rows."""
        self.append(np.flatnonzero(np.diff(owners, prepend=self._last_owner)) + self._seen)
        self._last_owner, self._seen = int(owners[-1]), self._seen + len(owners)

    def close(self) -> int:
        """Append the end of the last owner's rows as the last number."""
        self.append(np.array([self._seen]))
        return super().close()


@dataclass(frozen=True, kw_only=True)
class ChangedKeys:
    """Utterances that have changed, in the order of their keys."""

    changed: Keys  # new, or with other occurrences than before
    gone: Keys


def fingerprints(engine: QueryEngine, logs: Sequence[StoredLog], erased: ErasedKeySets | None = None) -> int:
    """Fill the engine's table `fingerprint` (utterance_key, fingerprint) for the current logs; return its row count."""
    rows = LogRows.of(logs, erased or ErasedKeySets())
    fill_erased_keys(engine, rows.erased)
    fill_fingerprints(engine, rows)
    drop_tables(engine, ("erased_key",))
    return _count(engine, "fingerprint")


def changed_keys(
    engine: QueryEngine, logs: Sequence[StoredLog], erased: ErasedKeySets | None, indexed: Sequence[tuple[Keys, Keys]]
) -> ChangedKeys:
    """Compare the logs with the keys and fingerprints of an index's live utterances, each of which occurs once.

    The comparison goes through ranges of keys, so that neither side is ever in memory as a whole.
    """
    count = max(fingerprints(engine, logs, erased), sum(len(keys) for keys, _ in indexed))
    ranges = -(-count // _KEYS_IN_MEMORY) or 1
    changes = list[ChangedKeys]()
    for number in range(ranges):
        lowest, highest = number * 2**64 // ranges, (number + 1) * 2**64 // ranges - 1
        changes.append(
            _compare(_fingerprints_between(engine, lowest, highest), _indexed_between(indexed, lowest, highest))
        )
    drop_tables(engine, ("fingerprint",))
    return ChangedKeys(
        changed=np.concatenate([change.changed for change in changes]),
        gone=np.concatenate([change.gone for change in changes]),
    )


def _compare(new: tuple[Keys, Keys], old: tuple[Keys, Keys]) -> ChangedKeys:
    (new_keys, new_prints), (old_keys, old_prints) = new, old  # both in the order of their keys
    places = np.searchsorted(old_keys, new_keys)
    inside = places < len(old_keys)
    places = places[inside]
    same = np.zeros(len(new_keys), np.bool_)
    same[inside] = (old_keys[places] == new_keys[inside]) & (old_prints[places] == new_prints[inside])
    return ChangedKeys(changed=new_keys[~same], gone=np.setdiff1d(old_keys, new_keys, assume_unique=True))


def _fingerprints_between(engine: QueryEngine, lowest: int, highest: int) -> tuple[Keys, Keys]:
    sql = (
        f"SELECT * FROM fingerprint WHERE utterance_key BETWEEN {lowest}::UBIGINT AND {highest}::UBIGINT "
        "ORDER BY utterance_key"
    )
    return _concatenate([(batch[0].to_numpy(), batch[1].to_numpy()) for batch in engine.batches(sql)])


def _indexed_between(indexed: Sequence[tuple[Keys, Keys]], lowest: int, highest: int) -> tuple[Keys, Keys]:
    bounds = np.array([lowest, highest], np.uint64)
    inside = ((keys, prints, (keys >= bounds[0]) & (keys <= bounds[1])) for keys, prints in indexed)
    keys, prints = _concatenate([(keys[chosen], prints[chosen]) for keys, prints, chosen in inside])
    order = np.argsort(keys)
    return keys[order], prints[order]


def _concatenate(pieces: Sequence[tuple[Keys, Keys]]) -> tuple[Keys, Keys]:
    empty = np.zeros(0, np.uint64)
    keys, prints = zip((empty, empty), *pieces, strict=True)
    return np.concatenate(keys), np.concatenate(prints)
