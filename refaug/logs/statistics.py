"""Figures of a log, computed by the log engine over its parts: totals, duplicates, statistics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

from refaug.core.query_engine import QueryEngine, parquet
from refaug.logs.store import StoredLog


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


def known_pairs(engine: QueryEngine, stored: Sequence[Path], staged: Sequence[Path]) -> Iterator[tuple[int, list[int]]]:
    """Yield rows of staged parts whose pair id occurs earlier: (index of the part, row numbers), part by part."""
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
    ids = "dialogue, position, file_row_number AS row"
    union = f"SELECT file_index::BIGINT AS part, {ids}, {key} FROM {parquet(staged)}"
    if stored:
        union += f" UNION ALL SELECT -1 AS part, {ids}, {key} FROM {parquet(stored)}"
    sql = (
        "SELECT part, row FROM (SELECT part, row, "
        "row_number() OVER (PARTITION BY dialogue, position ORDER BY part, row) AS nth "
        f"FROM (SELECT * FROM ({union}) SEMI JOIN suspect USING (h))) WHERE nth > 1 AND part >= 0 ORDER BY part, row"
    )
    repeated = (
        pair for batch in engine.batches(sql) for pair in zip(*(batch[n].to_pylist() for n in (0, 1)), strict=True)
    )
    for part, rows in groupby(repeated, key=itemgetter(0)):
        yield part, [row for _, row in rows]
