"""The tables of an index, from logs: distinct utterances, their distinct responses, and all occurrences.

The log engine writes them out of core. Their content depends on the pairs alone, not on how the logs are stored: the
order is by hashes of the texts, so a pair keeps its place relative to others when logs grow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from refaug.core.errors import BadInput
from refaug.core.progress import Progress
from refaug.core.query_engine import QueryEngine
from refaug.indexer.columns import NpyWriter, TextWriter
from refaug.indexer.pair_table_sql import (
    NO_TIME,
    ErasedKeySets,
    KeyRange,
    Keys,
    LogRows,
    drop_tables,
    erased_key,
    fill_erased_keys,
    fill_fingerprints,
    fill_occurrences,
    fill_wanted,
    group_occurrences,
)
from refaug.logs.store import StoredLog

__all__ = [
    "NO_TIME",
    "SPEAKERS",
    "ChangedKeys",
    "ErasedKeySets",
    "TableCounts",
    "build_table",
    "changed_keys",
    "erased_key",
    "fingerprints",
    "no_pairs",
]

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
