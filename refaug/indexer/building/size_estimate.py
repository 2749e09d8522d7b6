"""Estimates of an index's size from the manifests and files of its logs, for planning before building."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq

from refaug.indexer.building.plan import Demand
from refaug.indexer.index_folders import Places, encoder_source, open_vectors_version
from refaug.logs.store import StoredLog

_LENGTH_BYTES: Final = 4  # before each text of a Parquet column
_BYTES_A_TOKEN: Final = 4.7  # of dialogue in English, spaces included
# Heaps' law through two logs of 2.5 and 77 million words (35 and 262 thousand distinct): 6.1 · words ** 0.587
_HEAPS: Final = (6.1, 0.587)


def demand_of(places: Places, logs: Sequence[str], *, vectors: str | None, encoder: Path | str | None) -> Demand:
    """Estimate the contents of an index; utterances that several logs share count twice here, but once in a build."""
    opened = [StoredLog.open(places.logs, name) for name in logs]
    totals = {
        name: sum(log.manifest.totals.get(name, 0) for log in opened)
        for name in ("pairs", "distinct_pairs", "distinct_utterances")
    }
    bytes_read = sum(_text_bytes(log) for log in opened)
    # An index stores each distinct utterance and each distinct pair once.
    text_bytes = round(
        bytes_read * (totals["distinct_utterances"] + totals["distinct_pairs"]) / max(1, 2 * totals["pairs"])
    )
    tokens = round(text_bytes / _BYTES_A_TOKEN)
    words, dimensions = _vector_shape(places, vectors, encoder)
    return Demand(
        rows=totals["distinct_utterances"],
        dimensions=dimensions,
        words=words,
        extra_words=max(0, round(_HEAPS[0] * tokens ** _HEAPS[1]) - words),
        pairs=totals["distinct_pairs"],
        occurrences=totals["pairs"],
        text_bytes=text_bytes,
        tokens=tokens,
        keeps_vectors=encoder is not None,
    )


def _vector_shape(places: Places, vectors: str | None, encoder: Path | str | None) -> tuple[int, int]:
    """Return how many words have a vector, and the number of dimensions."""
    if encoder is not None:
        return 0, encoder_source(places, encoder).dimensions
    assert vectors is not None
    with places.vectors.open(vectors) as held:
        opened = open_vectors_version(held)
        return len(opened.words), opened.dimensions


def _text_bytes(log: StoredLog) -> int:
    """Return the bytes of all utterances and responses, from the files' footers."""
    total = 0
    for path in log.paths:
        footer = pq.read_metadata(path)
        names = [footer.schema.column(place).name for place in range(footer.num_columns)]
        text_columns = [place for place, name in enumerate(names) if name in ("utterance", "response")]
        for group in range(footer.num_row_groups):
            rows = footer.row_group(group)
            total += sum(
                rows.column(place).total_uncompressed_size - _LENGTH_BYTES * rows.num_rows for place in text_columns
            )
    return total
