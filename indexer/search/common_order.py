"""The order that the utterances of several segments would have in one: by their hashes, then by their keys.

What is drawn by number in this order is the same for the same pairs, however many shards and updates an index has.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from refaug.indexer.search.search_tables import Rows
from refaug.indexer.search.segments import Segment


def common_order(segments: Sequence[Segment], rows: Sequence[Rows] | None = None) -> tuple[Rows, Rows]:
    """Return the place of the segment, and the row in it, of all utterances or of these, in the order of one segment.

    The order of equal utterances of two segments, of which one is masked, is that of the segments.
    """
    if rows is None:
        rows = [np.arange(len(segment.tables.utterance_key)) for segment in segments]
    places = np.repeat(np.arange(len(rows)), [len(of_segment) for of_segment in rows])
    shas = [segment.tables.utterance_sha[of_segment] for segment, of_segment in zip(segments, rows, strict=True)]
    keys = [segment.tables.utterance_key[of_segment] for segment, of_segment in zip(segments, rows, strict=True)]
    order = np.lexsort((np.concatenate(keys), np.concatenate(shas)))
    return places[order], np.concatenate(rows)[order]
