"""The step of an ingest that joins staged messages to trees and makes pairs of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute

from refaug.core.progress import Progress
from refaug.core.query_engine import QueryEngine
from refaug.logs.ingest.rejects import reject_pair, reject_unplaced
from refaug.logs.ingest.reply_trees import TreeCounts, Trees
from refaug.logs.ingest.stage import Stage
from refaug.logs.pairs import PAIR_SCHEMA, erasure_key

if TYPE_CHECKING:
    from refaug.logs.ingest.on_cluster.ingest_cluster import IngestCluster


def join_trees(stage: Stage, progress: Progress, cluster: IngestCluster | None = None) -> None:
    """Turn staged messages into staged pairs; on a cluster, texts are sorted and joined by tasks."""
    state = stage.state
    if state.phase != "messages":
        return
    progress.stage("joining message trees" if cluster is None else "linking messages", state.messages, "messages")
    staged = [stage.folder / part["file"] for part in state.message_parts]
    with QueryEngine(stage.folder / "engine", memory=stage.order.memory) as engine:
        trees = Trees(engine, staged, stage.folder)
        counts = trees.link()
        state.tree_counts = asdict(counts)
        if stage.order.rejects is not None:
            stage.write_rejects((stage.units[m.source].name, reject_unplaced(m)) for m in trees.unplaced())
        pairs = trees.pairs() if cluster is None else cluster.tree_pairs(stage, trees)
        _stage_pairs(stage, pairs, progress)
    _report_trees(stage, counts, progress)
    state.phase = "joined"
    stage.save()


def _stage_pairs(stage: Stage, batches: Iterable[pa.RecordBatch], progress: Progress) -> None:
    """Write joined pairs as further parts; the state names none of them before all are written."""
    parts = stage.parts_writer("pairs")
    try:
        for batch in batches:
            parts.add(_drop_erased(stage, batch).select(PAIR_SCHEMA.names))
            progress.advance(batch.num_rows)
        stage.state.parts += map(asdict, parts.close())
    except BaseException:
        parts.abandon()
        raise


def _drop_erased(stage: Stage, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Drop messages of erased dialogues, since the dialogue of a message is known only here."""
    erased = frozenset(stage.manifest.erased.dialogues)
    if not erased:
        return batch
    is_erased = {
        name: erasure_key(name, stage.manifest.name) in erased for name in batch["dialogue"].unique().to_pylist()
    }
    hits = pa.array([is_erased[name] for name in batch["dialogue"].to_pylist()], pa.bool_())
    if hits.true_count:
        stage.state.tree_counts["erased"] = stage.state.tree_counts.get("erased", 0) + hits.true_count
        if stage.order.rejects is not None:
            rows = batch.filter(hits).to_pylist()
            stage.write_rejects(
                (stage.units[row["source"]].name, reject_pair(row, "erased", row["line"])) for row in rows
            )
    return batch.filter(pa.compute.invert(hits))


def _report_trees(stage: Stage, counts: TreeCounts, progress: Progress) -> None:
    if counts.in_cycles:
        stage.warn(f"{counts.in_cycles:,} messages answer each other in a circle and were left out", progress)
    if counts.duplicate_ids:
        stage.warn(f"{counts.duplicate_ids:,} messages have the id of an earlier one and were left out", progress)
    if counts.orphans > counts.messages // 2:
        stage.warn(
            f"{counts.orphans:,} of {counts.messages:,} messages answer one that no source holds; name the files "
            "that hold them too, or give them with --context",
            progress,
        )
