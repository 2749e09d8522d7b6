"""How large an index of some logs will be, told from their manifests and files alone: for planning before building."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq

from core.encoders import open_encoder
from core.log_store import StoredLog
from indexer.places import Places, open_held
from indexer.plan import Demand

_LENGTH_BYTES: Final = 4  # before each text of a Parquet column
_BYTES_A_TOKEN: Final = 4.7  # of dialogue in English, spaces included
# Heaps' law through two logs of 2.5 and 77 million words (35 and 262 thousand distinct): 6.1 · words ** 0.587
_HEAPS: Final = (6.1, 0.587)


def demand_of(places: Places, logs: Sequence[str], *, vectors: str | None, encoder: Path | None) -> Demand:
    """Utterances that several logs share are counted twice: a build counts them once."""
    opened = [StoredLog.open(places.logs, name) for name in logs]
    totals = {
        name: sum(log.manifest.totals.get(name, 0) for log in opened)
        for name in ("pairs", "distinct_pairs", "distinct_utterances")
    }
    bytes_read = sum(_text_bytes(log) for log in opened)
    # Texts are stored once for each distinct utterance and pair.
    text_bytes = round(
        bytes_read * (totals["distinct_utterances"] + totals["distinct_pairs"]) / max(1, 2 * totals["pairs"])
    )
    tokens = round(text_bytes / _BYTES_A_TOKEN)
    words, dimensions = _of_vectors(places, vectors, encoder)
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


def _of_vectors(places: Places, vectors: str | None, encoder: Path | None) -> tuple[int, int]:
    """How many words have a vector, and of how many dimensions."""
    if encoder is not None:
        return 0, int(open_encoder(encoder).sentence_vectors(["a"]).shape[1])
    assert vectors is not None
    with places.vectors.open(vectors) as held:
        opened = open_held(held)
        return len(opened.words), opened.dimensions


def _text_bytes(log: StoredLog) -> int:
    """The bytes of all utterances and responses, as the files' footers tell."""
    total = 0
    for path in log.paths:
        footer = pq.read_metadata(path)
        names = [footer.schema.column(place).name for place in range(footer.num_columns)]
        wanted = [place for place, name in enumerate(names) if name in ("utterance", "response")]
        for group in range(footer.num_row_groups):
            rows = footer.row_group(group)
            total += sum(rows.column(place).total_uncompressed_size - _LENGTH_BYTES * rows.num_rows for place in wanted)
    return total
