"""Searching an opened index: test pairs in, references with similarity and provenance out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from core.records import Origin, Reference
from indexer.likeness import CANDIDATES, Likeness
from indexer.queries import Queries, SearchSettings
from indexer.ranking import (
    MILLION,
    NO_LEVEL,
    Events,
    Reason,
    Rows,
    Rules,
    events_of_pairs,
    events_of_utterances,
    first_k,
    pairs_of,
)
from indexer.segments import Segment

_FOR: Final = 15  # references that so many candidates are meant for
_DEEPER: Final = 4  # each round looks at so many times the candidates of the one before
_DEEPEST: Final = 4_096  # of an approximate index, whose next candidates are a matter of chance anyway
_DIALOG_DEPTH: Final = 1_000
_SPARE: Final = 16  # utterances beyond an eighth more, so that those equal to the last one wanted are among them
_AT_ONCE: Final = 1_000  # queries; more need more memory and are not quicker
_EVENT_COLUMNS: Final = tuple(name for name in Events._fields if name != "start")


@dataclass(frozen=True, slots=True, kw_only=True)
class Retrieved:
    """The references found for one test pair, what was excluded before the last of them, and why there may be none."""

    references: tuple[Reference, ...]
    excluded: Mapping[str, int]
    note: str = ""


class Found(NamedTuple):
    """The references of some queries (queries, k) as places in the events of all segments, and counted exclusions."""

    chosen: Rows
    excluded: Rows  # (queries, reasons)
    segment: NDArray[np.int64]
    events: Events


def first_depth(settings: SearchSettings) -> int:
    """How many candidate utterances of a segment are compared exactly, at first."""
    if settings.depth is not None:
        return settings.depth
    if settings.is_dialog:
        return _DIALOG_DEPTH
    return max(CANDIDATES, -(-CANDIDATES * settings.k // _FOR))


def find(
    segments: Sequence[Segment],
    likeness: Likeness,
    queries: Queries,
    settings: SearchSettings,
    logs: Sequence[str],
) -> Found:
    """The best k pairs for each query over all segments."""
    search = _Search(likeness, queries, settings, settings.rules(logs))
    which = np.flatnonzero(likeness.able)
    if settings.is_dialog:
        return merged(search.of_pairs(segments, which), len(queries), settings.k)
    return merged([search.events(segment, which) for segment in segments], len(queries), settings.k)


class _Search:
    """One likeness, one set of queries: the events of one segment after the other."""

    def __init__(self, likeness: Likeness, queries: Queries, settings: SearchSettings, rules: Rules) -> None:
        self._likeness, self._queries, self._settings = likeness, queries, settings
        self._rules = rules

    def events(self, segment: Segment, which: Rows) -> list[tuple[Rows, Events]]:
        """Events of some queries each; every query is in one of them."""
        parts = list[tuple[Rows, Events]]()
        for first in range(0, len(which), _AT_ONCE):
            parts += self._by_utterances(segment, which[first : first + _AT_ONCE])
        return parts

    def _by_utterances(self, segment: Segment, which: Rows) -> list[tuple[Rows, Events]]:
        """Go deeper until the k-th reference of every query is safe, or there is nothing more to be had."""
        ann, parts = segment.ann, list[tuple[Rows, Events]]()
        complete = self._settings.is_bm25 or ann is None or ann.is_exact
        most_effort = segment.info.effort if complete or ann is None else max(ann.efforts(), default=1)
        limit = segment.utterance_count if complete else min(_DEEPEST, segment.utterance_count)
        depth, effort = first_depth(self._settings), segment.info.effort
        while len(which):
            depth = max(1, min(depth, limit))
            rows = self._likeness.candidates(segment, which, depth, effort)
            events, settled = self._walked(segment, which, rows)
            ran_out = rows[:, -1] < 0
            done = settled | np.where(ran_out, complete or effort >= most_effort, depth >= limit)
            parts.append((which[done], _of_rows(events, done)))
            which, lacking = which[~done], ran_out[~done]
            if lacking.any():
                effort = min(effort * _DEEPER, most_effort)
            depth *= _DEEPER
        return parts

    def _walked(self, segment: Segment, which: Rows, rows: Rows) -> tuple[Events, NDArray[np.bool_]]:
        levels = self._likeness.utterances(segment, which, rows)
        given = (segment.tables, self._queries.tables, self._rules)
        return events_of_utterances(*given, which, rows, levels, self._likeness.margin, self._settings.k)

    def of_pairs(self, segments: Sequence[Segment], which: Rows) -> list[list[tuple[Rows, Events]]]:
        """All responses of the candidates, compared with the gold: sim(u) · (α · sim(r) + (1 − α) · ε)."""
        parts = list[list[tuple[Rows, Events]]]([] for _ in segments)
        for first in range(0, len(which), _AT_ONCE):
            some = which[first : first + _AT_ONCE]
            tables = [self._utterances_in(segment, some) for segment in segments]
            least = _least_of_the_best(tables, first_depth(self._settings))
            for number, (segment, (rows, levels)) in enumerate(zip(segments, tables, strict=True)):
                better = np.where(levels >= least, levels, NO_LEVEL)
                parts[number].append((some, self._pair_events(segment, some, rows, better)))
        return parts

    def _utterances_in(self, segment: Segment, which: Rows) -> tuple[Rows, Rows]:
        """The candidates of one segment and their levels: somewhat more than are wanted of all segments together."""
        wanted = first_depth(self._settings)
        depth = wanted + wanted // 8 + _SPARE
        while True:
            depth = max(1, min(depth, segment.utterance_count))
            rows = self._likeness.candidates(segment, which, depth, segment.info.effort)
            levels = self._likeness.utterances(segment, which, rows)
            if len(segment.tables.superseded):
                levels[segment.tables.superseded[np.maximum(rows, 0)]] = NO_LEVEL
            crowded_out = (rows[:, -1] >= 0) & ((levels != NO_LEVEL).sum(axis=1) < wanted)
            if depth == segment.utterance_count or not crowded_out.any():
                return rows, levels
            depth *= _DEEPER

    def _pair_events(self, segment: Segment, which: Rows, rows: Rows, levels: Rows) -> Events:
        start, utterances, pairs, of_utterance = pairs_of(segment.tables, rows, levels)
        of_response = self._likeness.listed(segment, which, start, pairs, golds=True)
        both = pair_levels(of_utterance, of_response, self._settings)
        given = (segment.tables, self._queries.tables, self._rules, which)
        return events_of_pairs(*given, start, utterances, pairs, both, self._settings.k)


def _least_of_the_best(tables: Sequence[tuple[Rows, Rows]], depth: int) -> Rows:
    """The level (queries, 1) of the last utterance that is looked at, the `depth`-th of all segments."""
    levels = np.concatenate([levels for _, levels in tables], axis=1)
    if levels.shape[1] <= depth:
        return np.full((len(levels), 1), NO_LEVEL)
    return -np.partition(-levels, depth - 1, axis=1)[:, depth - 1 : depth]


def pair_levels(of_utterance: Rows, of_response: Rows, settings: SearchSettings) -> Rows:
    """sim(utterances) · (α · sim(responses) + (1 − α) · ε), the two clipped at 0 first."""
    rest = (1 - settings.alpha) * settings.epsilon
    inner = settings.alpha * (np.maximum(of_response, 0) / MILLION) + rest
    return np.rint(np.maximum(of_utterance, 0) * inner).astype(np.int64)


def _joined(parts: Sequence[Events]) -> Events:
    """Events of the queries of all parts, one after the other."""
    if len(parts) == 1:
        return parts[0]
    ends = np.cumsum([part.start[-1] for part in parts])
    start = np.concatenate(
        [parts[0].start, *(part.start[1:] + end for part, end in zip(parts[1:], ends[:-1], strict=True))]
    )
    columns = {
        name: np.concatenate([getattr(part, name)[: part.start[-1]] for part in parts]) for name in _EVENT_COLUMNS
    }
    return Events(start=start, **columns)


def _of_rows(events: Events, rows: NDArray[np.bool_]) -> Events:
    """The events of some queries."""
    if rows.all():
        return events
    lengths = np.diff(events.start)
    kept = np.repeat(rows, lengths)
    start = np.concatenate([[0], np.cumsum(lengths[rows])]).astype(np.int64)
    return Events(start=start, **{name: getattr(events, name)[: events.start[-1]][kept] for name in _EVENT_COLUMNS})


def merged(segments: Sequence[Sequence[tuple[Rows, Events]]], queries: int, k: int) -> Found:
    """The first k of the events of all segments together, for each query."""
    parts = [(number, which, events) for number, some in enumerate(segments) for which, events in some]
    if not parts:
        nothing = np.empty(0, np.int64)
        parts = [(0, nothing, _EMPTY)]
    events = _joined([part for _, _, part in parts])
    if len(parts) == 1 and len(parts[0][1]) == queries:
        places = np.arange(events.start[-1])
        chosen, excluded = first_k(events.start, events.response_key, events.reason, places, k, len(Reason))
        return Found(chosen, excluded, np.full(len(places), parts[0][0]), events)
    query = np.repeat(np.concatenate([which for _, which, _ in parts]), np.diff(events.start))
    segment = np.repeat([number for number, _, _ in parts], [part.start[-1] for _, _, part in parts]).astype(np.int64)
    if len(parts) == 1:
        order = np.arange(len(query))
    else:
        order = np.lexsort((events.utterance_sha, events.response_sha, -events.level, query))
    start = np.searchsorted(query[order], np.arange(queries + 1)).astype(np.int64)
    chosen, excluded = first_k(start, events.response_key, events.reason, order, k, len(Reason))
    return Found(chosen, excluded, segment, events)


_NAMES: Final = [reason.name.lower() for reason in Reason]
_NONE: Final = np.empty(0, np.int64)
_NO_KEYS: Final = np.empty(0, np.uint64)
_EMPTY: Final = Events(
    np.zeros(1, np.int64), _NONE, _NO_KEYS, _NO_KEYS, _NO_KEYS, _NONE, _NONE, _NONE, np.empty(0, np.int8)
)


# Records


def references_of(
    segments: Sequence[Segment], found: Found, logs: Sequence[str], index: str
) -> list[tuple[Reference, ...]]:
    """The references of each query as records, with what is known of where they come from."""
    queries, k = found.chosen.shape
    flat = found.chosen.ravel()
    places = np.flatnonzero(flat >= 0)
    made: list[Reference | None] = [None] * len(flat)
    for number, segment in enumerate(segments):
        here = places[found.segment[flat[places]] == number]
        for place, reference in zip(
            here.tolist(), _records(segment, found.events, flat[here], here % k, logs, index), strict=True
        ):
            made[place] = reference
    return [tuple(one for one in made[query * k : (query + 1) * k] if one is not None) for query in range(queries)]


def _records(
    segment: Segment, events: Events, chosen: Rows, ranks: Rows, logs: Sequence[str], index: str
) -> list[Reference]:
    pair, occurrence = events.pair[chosen], events.occurrence[chosen]
    tables = segment.tables
    counts = tables.occurrence_start[pair + 1] - tables.occurrence_start[pair]
    columns: list[Sequence[Any]] = [
        segment.responses.take(pair),
        segment.utterances.take(events.utterance[chosen]),
        segment.dialogues.take(occurrence),
        segment.positions.take(occurrence),
        tables.occurrence_log[occurrence].tolist(),
        counts.tolist(),
        (events.level[chosen] / MILLION).tolist(),
        (ranks + 1).tolist(),
    ]
    return [
        Reference(
            text=text,
            source=Origin.RETRIEVED,
            similarity=similarity,
            more={
                "rank": rank,
                "log": logs[log],
                "index": index,
                "pair": f"{logs[log]}/{dialogue}#{position}",
                "dialogue": dialogue,
                "utterance": utterance,
                "count": count,
            },
        )
        for text, utterance, dialogue, position, log, count, similarity, rank in zip(*columns, strict=True)
    ]


def excluded_of(found: Found, query: int) -> Mapping[str, int]:
    """How many pairs that would have come before the last reference were excluded, by reason."""
    counts = found.excluded[query].tolist()
    return {_NAMES[reason]: count for reason, count in enumerate(counts) if count}
