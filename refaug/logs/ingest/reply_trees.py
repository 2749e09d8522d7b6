"""Message trees → pairs, out of core: find each message's parent and root among billions, then put texts side by side.

Only numbers are joined against each other (hashes of ids, row numbers); texts are sorted by tree once and then read
tree by tree. A parent may come later than its reply, or in another file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa

from refaug.core.query_engine import QueryEngine, parquet, quote_path
from refaug.logs.pairs import PAIR_SCHEMA

TREE_PAIR_SCHEMA: Final = pa.schema([*PAIR_SCHEMA, ("source", pa.int32()), ("line", pa.int64())])
MESSAGES_A_CHUNK: Final = 200_000  # joined at once; a larger tree is a chunk by itself


@dataclass(frozen=True, kw_only=True)
class TreeCounts:
    """Counts of the messages by their place in the trees."""

    messages: int
    roots: int  # of trees, including orphans
    orphans: int  # name a parent that no source holds
    in_cycles: int  # answer themselves, directly or indirectly, or hang from such a message
    duplicate_ids: int
    replies: int


@dataclass(frozen=True, kw_only=True)
class UnplacedMessage:
    """A message without a place in a tree."""

    source: int
    line: int
    id: str
    reason: str


class Trees:
    """The join over staged messages, step by step, each bounded by the engine's memory."""

    def __init__(self, engine: QueryEngine, staged: Sequence[Path], folder: Path) -> None:
        self._engine = engine
        self._messages = parquet(staged)
        self._sorted = folder / "messages-by-tree.parquet"

    def link(self) -> TreeCounts:
        """Find the row numbers of parent and root for every message."""
        run, number = self._engine.run, self._engine.number
        run(
            "CREATE TABLE node AS SELECT seq, hash(id) AS me, hash(parent) AS up, parent IS NULL AS first "
            f"FROM {self._messages} WHERE NOT chain"
        )
        # A turn answers the one before it in its conversation; its id need be unique only there.
        run(
            "CREATE TABLE turn AS SELECT seq, me, talk, row_number() OVER (PARTITION BY me ORDER BY seq) = 1 AS once "
            f"FROM (SELECT seq, hash(root, id) AS me, hash(root) AS talk FROM {self._messages} WHERE chain)"
        )
        run(
            "INSERT INTO node SELECT seq, me, coalesce(up, 0) AS up, up IS NULL AS first FROM (SELECT seq, me, "
            "lag(me) OVER (PARTITION BY talk, once ORDER BY seq) AS up FROM turn)"
        )
        run("DROP TABLE turn")
        run("CREATE TABLE kept AS SELECT me, min(seq) AS seq FROM node GROUP BY me")
        messages, distinct = number("SELECT count(*) FROM node"), number("SELECT count(*) FROM kept")
        if messages > distinct:
            run("CREATE TABLE once AS SELECT node.* FROM node SEMI JOIN kept USING (seq)")
            run("DROP TABLE node")
            run("ALTER TABLE once RENAME TO node")
        run(
            "CREATE TABLE link AS SELECT n.seq, k.seq AS parent, n.first FROM node n "
            "LEFT JOIN kept k ON n.up = k.me AND NOT n.first"
        )
        run("DROP TABLE node")
        run("DROP TABLE kept")
        orphans = number("SELECT count(*) FROM link WHERE parent IS NULL AND NOT first")
        roots = number("SELECT count(*) FROM link WHERE parent IS NULL")
        in_cycles = self._find_roots()
        run("CREATE TABLE place AS SELECT link.seq, link.parent, rooted.root FROM link JOIN rooted USING (seq)")
        run("DROP TABLE rooted")
        return TreeCounts(
            messages=messages,
            roots=roots,
            orphans=orphans,
            in_cycles=in_cycles,
            duplicate_ids=messages - distinct,
            replies=distinct - roots - in_cycles,
        )

    def _find_roots(self) -> int:
        """Find roots by pointer jumping: after round i all within 2^i steps of their root are done.

        The rest are cycles.
        """
        run, number = self._engine.run, self._engine.number
        run("CREATE TABLE rooted AS SELECT seq, seq AS root FROM link WHERE parent IS NULL")
        run("CREATE TABLE jump AS SELECT seq, parent AS up FROM link WHERE parent IS NOT NULL")
        remaining, before = number("SELECT count(*) FROM jump"), -1
        while remaining not in (0, before):
            before = remaining
            run("INSERT INTO rooted SELECT jump.seq, rooted.root FROM jump JOIN rooted ON jump.up = rooted.seq")
            # Rows whose next stop is rooted have just been done; the others skip over it.
            run("CREATE TABLE next AS SELECT a.seq, b.up FROM jump a JOIN jump b ON a.up = b.seq")
            run("DROP TABLE jump")
            run("ALTER TABLE next RENAME TO jump")
            remaining = number("SELECT count(*) FROM jump")
        run("DROP TABLE jump")
        return remaining

    def unplaced(self) -> Iterator[UnplacedMessage]:
        """Yield messages that gave no pair because of their place, in source order: for --rejects."""
        sql = (
            "SELECT source, line, id, "
            "CASE WHEN link.seq IS NULL THEN 'duplicate-id' WHEN place.seq IS NULL THEN 'cycle' "
            "ELSE 'orphan' END AS reason "
            f"FROM {self._messages} m LEFT JOIN link ON m.seq = link.seq LEFT JOIN place ON m.seq = place.seq "
            "WHERE NOT m.context "
            "AND (link.seq IS NULL OR place.seq IS NULL OR (link.parent IS NULL AND NOT link.first)) "
            "ORDER BY m.seq"
        )
        for batch in self._engine.batches(sql):
            yield from (UnplacedMessage(**row) for row in batch.to_pylist())

    def pairs(self) -> Iterator[pa.RecordBatch]:
        """Yield pairs with the origin of each response.

        Trees in the order of their roots, replies in that of the sources.
        """
        self._engine.run("DROP TABLE link")
        _sort(self._engine, self._messages, "place", self._sorted)
        for first, last in self.ranges():
            yield from pairs_of_trees(self._engine, [self._sorted], first, last)
        self._sorted.unlink()

    def ranges(self) -> list[tuple[int, int]]:
        """Return ranges of trees with about as many messages each; a giant tree is a range by itself."""
        return list(self._chunks())

    def write_places(self, path: Path, first: int, last: int) -> None:
        """Write parent and tree of neighbouring messages into a file, for `sort_by_tree`."""
        self._engine.run(
            f"COPY (SELECT * FROM place WHERE seq BETWEEN {first} AND {last}) TO {quote_path(path)} "
            "(FORMAT parquet, COMPRESSION zstd)"
        )

    def _chunks(self) -> Iterator[tuple[int, int]]:
        first, last, message_count = 0, -1, 0
        sizes = "SELECT root, count(*) AS messages FROM place GROUP BY root ORDER BY root"
        for batch in self._engine.batches(sql=sizes):
            for root, messages in zip(batch["root"].to_pylist(), batch["messages"].to_pylist(), strict=True):
                last, message_count = root, message_count + messages
                if message_count >= MESSAGES_A_CHUNK:
                    yield first, last
                    first, message_count = last + 1, 0
        if message_count:
            yield first, last


def sort_by_tree(engine: QueryEngine, staged: Sequence[Path], places: Path, target: Path) -> None:
    """Write neighbouring messages with their parent and tree into a file, sorted by tree."""
    _sort(engine, parquet(staged), parquet([places]), target)


def _sort(engine: QueryEngine, messages: str, places: str, target: Path) -> None:
    engine.run(
        f"COPY (SELECT m.*, place.parent AS up, place.root AS tree FROM {messages} m "
        f"JOIN {places} place USING (seq) ORDER BY tree, seq) TO {quote_path(target)} "
        "(FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 20000)"
    )


def pairs_of_trees(
    engine: QueryEngine, sorted_files: Sequence[Path], first: int, last: int
) -> Iterator[pa.RecordBatch]:
    """Yield the replies of some trees beside their parents.

    Ids are compared once more, since hashes may collide.
    """
    source = f"(SELECT * FROM {parquet(sorted_files)} WHERE tree BETWEEN {first} AND {last})"
    sql = f"""
        SELECT coalesce(r.root, r.id) AS dialogue, m.id AS position, p.text AS utterance, m.text AS response,
               p.speaker AS utterance_speaker, m.speaker AS response_speaker, m.time AS time, m.tags AS tags,
               p.key AS utterance_key, m.key AS response_key, m.source AS source, m.line AS line
        FROM {source} m JOIN {source} p ON p.seq = m.up AND (m.chain OR p.id = m.parent)
        JOIN {source} r ON r.seq = m.tree
        WHERE m.text IS NOT NULL AND p.text IS NOT NULL AND NOT m.context
        ORDER BY m.tree, m.seq"""
    for batch in engine.batches(sql):
        yield batch.cast(TREE_PAIR_SCHEMA)
