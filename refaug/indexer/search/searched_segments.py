"""The segments of an index as one search goes through them, wherever they lie: in this process or in others.

A search finds candidates (`refaug.indexer.search.candidate_pool`), ranks them, and at the end asks for the texts of
those that are shown. All of it is asked of all segments at once, so that segments in other processes work side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, Self

import numpy as np

from refaug.core.errors import Unavailable
from refaug.core.records import Item, Reference
from refaug.indexer.search.candidate_pool import CandidateSegments, Similarities
from refaug.indexer.search.ranking import (
    MILLION,
    NO_LEVEL,
    Events,
    all_events,
    events_of_pairs,
    events_of_utterances,
    pairs_of,
)
from refaug.indexer.search.search_settings import SearchSettings
from refaug.indexer.search.search_tables import Keys, QueryTables, Rows
from refaug.indexer.search.segments import Segment
from refaug.indexer.search.similarity import Levels, Likeness

# ── The candidates of segments that this process has opened ───────────────────────────────────────────────────────────


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


# ── The segments of an index as one search goes through them, wherever they lie: in this process or in others ─────────


class ShardsMissing(Unavailable):
    """Some shards of an index do not answer now; `shards` are their names."""

    code = "shards_missing"

    def __init__(
        self,
        message: str = "",
        *,
        remedy: str = "",
        retry_after_s: float = 1.0,
        shards: Sequence[str] = (),
    ) -> None:
        super().__init__(message, remedy=remedy, retry_after_s=retry_after_s)
        self.shards = tuple(shards)


# What is shown of some pairs, a column for each field: response, utterance, dialogue, position, speaker, number of the
# log, time, count of occurrences.
Columns = list[list[Any]]


class SearchedSegments(CandidateSegments, Protocol):
    """The segments of an index for one search."""

    def subset(self, numbers: Sequence[int]) -> Self:
        """Return some of the segments, for the same search."""
        ...

    def rank(self, query_numbers: Rows, tables: Sequence[Rows]) -> Sequence[tuple[Events, Rows]]:
        """Compare the candidates of each segment exactly, and return their pairs up to the k-th reference.

        With them comes the level of the least similar candidate of each query.
        """
        ...

    def levels(self, query_numbers: Rows, tables: Sequence[Rows]) -> Sequence[Levels]:
        """Return the exact similarities of candidates."""
        ...

    def pair_events(self, query_numbers: Rows, tables: Sequence[Rows], levels: Sequence[Levels]) -> Sequence[Events]:
        """Compare the responses of candidates with the gold, and return pairs up to the k-th reference."""
        ...

    def texts(self, rows: Sequence[Rows]) -> Sequence[Columns]:
        """Return what is shown of some pairs of each segment, whose rows `pair_rows` returns."""
        ...


class LocalSegments(LocalCandidates):
    """The segments of an index in this process."""

    def __init__(
        self, segments: Sequence[Segment], likeness: Likeness, tables: QueryTables, settings: SearchSettings
    ) -> None:
        super().__init__(segments, likeness)
        self._likeness, self._tables, self._settings = likeness, tables, settings

    def subset(self, numbers: Sequence[int]) -> LocalSegments:
        """Return some of the segments, for the same search."""
        segments = [self.segments[number] for number in numbers]
        return LocalSegments(segments, self._likeness, self._tables, self._settings)

    def rank(self, query_numbers: Rows, tables: Sequence[Rows]) -> list[tuple[Events, Rows]]:
        """Compare the candidates of each segment exactly, and return their pairs up to the k-th reference."""
        return [self._rank(*of_segment, query_numbers) for of_segment in zip(self.segments, tables, strict=True)]

    def _rank(self, segment: Segment, rows: Rows, query_numbers: Rows) -> tuple[Events, Rows]:
        levels = self._likeness.utterance_levels(segment, query_numbers, rows)
        most = self._settings.most_of_utterance
        events = events_of_utterances(segment.tables, self._tables, query_numbers, rows, levels, self.k, most)
        return events, least_of(levels)

    def levels(self, query_numbers: Rows, tables: Sequence[Rows]) -> list[Levels]:
        """Return the exact similarities of candidates."""
        return [
            self._likeness.utterance_levels(segment, query_numbers, rows)
            for segment, rows in zip(self.segments, tables, strict=True)
        ]

    def pair_events(self, query_numbers: Rows, tables: Sequence[Rows], levels: Sequence[Levels]) -> list[Events]:
        """Compare the responses of candidates with the gold, and return pairs up to the k-th reference."""
        return [
            self._pair_events(*of_segment, query_numbers)
            for of_segment in zip(self.segments, tables, levels, strict=True)
        ]

    def _pair_events(self, segment: Segment, rows: Rows, levels: Levels, query_numbers: Rows) -> Events:
        start, utterances, pairs, of_utterance = pairs_of(segment.tables, rows, levels)
        of_response = self._likeness.list_levels(segment, query_numbers, start, pairs, golds=True)
        both = pair_levels(of_utterance, of_response, self._settings)
        tables = (segment.tables, self._tables, query_numbers)
        return events_of_pairs(*tables, start, utterances, pairs, both, self.k)

    @property
    def k(self) -> int:
        """How many references are searched for."""
        return self._settings.k

    def all_events(self, query_numbers: Rows, rows: Rows, levels: Levels) -> Events:
        """Return the pairs of candidates of the first segment, as many as may be among k references."""
        most = self._settings.most_of_utterance
        return all_events(self.segments[0].tables, self._tables, query_numbers, rows, levels, self.k, most)

    def texts(self, rows: Sequence[Rows]) -> list[Columns]:
        """Return what is shown of some pairs of each segment."""
        return [texts_of(*of_segment) for of_segment in zip(self.segments, rows, strict=True)]


def least_of(levels: Levels) -> Rows:
    """Return the level of the least similar candidate of each query; the highest number where there is none."""
    return np.asarray(np.where(levels == NO_LEVEL, -NO_LEVEL, levels).min(axis=1, initial=-NO_LEVEL))


def pair_levels(of_utterance: Rows, of_response: Rows, settings: SearchSettings) -> Rows:
    """Compute sim(utterances) · (α · sim(responses) + (1 − α) · ε), the two clipped at 0 first."""
    rest = (1 - settings.alpha) * settings.epsilon
    inner = settings.alpha * (np.maximum(of_response, 0) / MILLION) + rest
    return np.rint(np.maximum(of_utterance, 0) * inner).astype(np.int64)


def first_pair_of(segment: Segment) -> Item:
    """Return the first pair of a segment; a greeting where it has none."""
    first = np.zeros(1, np.int64)
    utterance = segment.utterances.take(first)[0] if len(segment.utterances) else None
    response = segment.responses.take(first)[0] if len(segment.responses) else None
    return Item(id="warm", turns=(utterance or "hello",), references=(Reference(text=response or "hello"),))


def pair_rows(events: Events, places: Rows) -> Rows:
    """Return the rows (3, places) of some pairs: of the utterance, the pair, and the occurrence that is shown."""
    return np.stack([events.utterance[places], events.pair[places], events.occurrence[places]])


def texts_of(segment: Segment, rows: Rows) -> Columns:
    """Return what is shown of some pairs of a segment."""
    utterance, pair, occurrence = rows
    tables = segment.tables
    return [
        segment.responses.take(pair),
        segment.utterances.take(utterance),
        segment.dialogues.take(occurrence),
        segment.positions.take(occurrence),
        [None] * len(pair) if segment.speakers is None else segment.speakers.take(occurrence),
        tables.occurrence_log[occurrence].tolist(),
        tables.occurrence_time[occurrence].tolist(),
        (tables.occurrence_start[pair + 1] - tables.occurrence_start[pair]).tolist(),
    ]
