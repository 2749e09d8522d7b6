"""The candidates of segments that this process has opened."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from refaug.indexer.search.candidates.choice import Similarities
from refaug.indexer.search.search_tables import Keys, Rows
from refaug.indexer.search.segments import Segment


class CandidateSource(Protocol):
    """What finds candidates in a segment; see `refaug.indexer.search.similarity.Likeness`."""

    def code_depth(self, most_depth: int, count: int) -> int:
        """Return how many candidates by codes include the best `count`; `most_depth` is that of the segments."""
        ...

    def code_candidates(
        self, segment: Segment, query_numbers: Rows, width: int, effort: int
    ) -> tuple[Rows, Similarities]:
        """Return the best utterances of a segment by its codes, best first; −1 and −∞ fill the rest."""
        ...

    def finer(self, segment: Segment, query_numbers: Rows, rows: Rows) -> Similarities | None:
        """Return finer similarities of candidates; None where those by codes are fine enough."""
        ...


class LocalCandidates:
    """The segments of an index in this process, as one search asks them for candidates."""

    def __init__(self, segments: Sequence[Segment], source: CandidateSource) -> None:
        self.segments, self._source = segments, source
        self.facts = [segment.facts for segment in segments]

    def code_depth(self, count: int) -> int:
        """Return how many candidates by codes include the best `count`."""
        return self._source.code_depth(max((facts.info.depth for facts in self.facts), default=1), count)

    def ask(
        self, numbers: Sequence[int], query_numbers: Sequence[Rows], widths: Sequence[int], efforts: Sequence[int]
    ) -> list[tuple[Rows, Similarities]]:
        """Return the best of some segments; −1 stands for outdated ones."""
        segments = [self.segments[number] for number in numbers]
        return [self._ask(*call) for call in zip(segments, query_numbers, widths, efforts, strict=True)]

    def _ask(self, segment: Segment, query_numbers: Rows, width: int, effort: int) -> tuple[Rows, Similarities]:
        width = min(width, segment.utterance_count + 1)  # one more than there are shows that nothing is left
        rows, similarities = self._source.code_candidates(segment, query_numbers, width, effort)
        if len(segment.tables.superseded):
            rows = np.where(segment.tables.superseded[np.maximum(rows, 0)], -1, rows)
        return rows, similarities

    def hashes(self, rows: Sequence[Rows]) -> list[tuple[Keys, Keys]]:
        """Return the hashes and the keys of these utterances of each segment."""
        return [
            (segment.tables.utterance_sha[of_segment], segment.tables.utterance_key[of_segment])
            for segment, of_segment in zip(self.segments, rows, strict=True)
        ]

    def finer(self, query_numbers: Rows, tables: Sequence[Rows]) -> list[Similarities | None]:
        """Return finer similarities of each segment's candidates; None where those by codes are fine enough."""
        return [
            self._source.finer(segment, query_numbers, rows) if rows.shape[1] else None
            for segment, rows in zip(self.segments, tables, strict=True)
        ]
