"""The step of an ingest that drops pairs whose id exists already."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from refaug.core.progress import Progress
from refaug.core.query_engine import QueryEngine
from refaug.logs.ingest.rejects import reject_pair
from refaug.logs.ingest.stage import Stage
from refaug.logs.part_files import ROWS_A_GROUP, PartWriter
from refaug.logs.statistics import known_pairs

_DUPLICATE_IDS: Final = "duplicate pair ids"


def drop_known_pairs(stage: Stage, progress: Progress) -> None:
    """Drop pairs whose id exists already: an id names one pair for ever, and the first one stays."""
    state = stage.state
    if state.phase == "distinct" or not state.parts:
        return
    progress.stage("checking ids")
    staged = [stage.folder / part["file"] for part in state.parts]
    starts = np.cumsum([0, *(part["pairs"] for part in state.parts)])
    duplicates = 0
    with QueryEngine(stage.folder / "engine", memory=stage.order.memory) as engine:
        stored = [stage.log / part.file for part in stage.manifest.parts]
        for index, rows in known_pairs(engine, stored, staged):
            units = [state.unit_of(int(starts[index]) + row) for row in rows]
            _count_duplicates(stage, units)
            state.parts[index] = _rewrite_part(stage, index, rows, units)
            duplicates += len(rows)
    if duplicates:
        stage.warn(
            f"{duplicates:,} pairs have the id (dialogue and position) of an earlier pair and were left out, as "
            "they should be when an export repeats dialogues; only where ids are not unique, --no-ids numbers by "
            "line",
            progress,
        )
    state.phase = "distinct"
    stage.save()


def _count_duplicates(stage: Stage, units: Iterable[int | None]) -> None:
    for unit, count in Counter(units).items():
        counts = stage.state.tree_counts if unit is None else stage.state.counts[unit]
        counts[_DUPLICATE_IDS] = counts.get(_DUPLICATE_IDS, 0) + count


def _rewrite_part(stage: Stage, index: int, rows: Sequence[int], units: Sequence[int | None]) -> dict[str, object]:
    """Write a staged part without some of its rows."""
    old = stage.folder / str(stage.state.parts[index]["file"])
    writer = PartWriter(old.with_name(f"distinct-{index:05}.parquet"))
    dropped, start = np.array(rows), 0
    rejected: list[dict[str, object]] = []
    with pq.ParquetFile(old) as file:
        for batch in file.iter_batches(batch_size=ROWS_A_GROUP, use_threads=False):
            inside = dropped[(dropped >= start) & (dropped < start + batch.num_rows)] - start
            is_kept = np.ones(batch.num_rows, dtype=bool)
            is_kept[inside] = False
            writer.add(batch.filter(pa.array(is_kept)))
            if stage.order.rejects is not None:
                rejected += batch.take(pa.array(inside)).to_pylist()
            start += batch.num_rows
    if rejected:
        names = ("" if unit is None else stage.units[unit].name for unit in units)
        reasons = (reject_pair(row, "duplicate-id") for row in rejected)
        stage.write_rejects(zip(names, reasons, strict=True))
    return asdict(writer.close())
