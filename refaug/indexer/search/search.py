"""Searching an opened index: test pairs in, references with similarity and provenance out."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from refaug.core.records import Item, Origin, Reference
from refaug.core.text.normalisation import normalise
from refaug.indexer.search.candidate_pool import collect
from refaug.indexer.search.ranking import EVENT_COLUMNS, MILLION, NO_LEVEL, Events, ExclusionReason, first_k
from refaug.indexer.search.search_settings import SearchSettings
from refaug.indexer.search.search_tables import NO_TIME, Rows
from refaug.indexer.search.searched_segments import Columns, SearchedSegments, pair_rows
from refaug.indexer.search.similarity import CANDIDATES, Likeness

_REFERENCES: Final = 15  # that CANDIDATES is meant for
_GROWTH: Final = 4  # each round compares so many times the candidates of the one before
_DEEPEST: Final = 4_096  # of an approximate index, whose next candidates are a matter of chance anyway
_DIALOG_DEPTH: Final = 1_000
_SPARE: Final = 16  # utterances beyond an eighth more, to include those equal to the last one
_AT_ONCE: Final = 1_000  # queries; more need more memory and are not quicker


class RankedPairs(NamedTuple):
    """The references of some queries (queries, k) as places in the events of all segments, and exclusion counts."""

    chosen: Rows
    excluded: Rows  # (queries, reasons)
    segment: NDArray[np.int64]
    events: Events
    start: Rows  # (queries + 1,): where each query's events begin in `order`
    order: Rows  # places in the events


def first_depth(settings: SearchSettings) -> int:
    """Return how many candidate utterances, of all segments together, are compared exactly at first."""
    if settings.depth is not None:
        return settings.depth
    if settings.is_dialog:
        return _DIALOG_DEPTH
    return max(CANDIDATES, -(-CANDIDATES * settings.k // _REFERENCES))


def find(segments: SearchedSegments, likeness: Likeness, query_count: int, settings: SearchSettings) -> RankedPairs:
    """Return the best k pairs for each query over all segments."""
    search = _Search(segments, likeness.margin, settings)
    query_numbers = np.flatnonzero(likeness.able)
    parts = [list[tuple[Rows, Events]]() for _ in segments.facts]
    for first in range(0, len(query_numbers), _AT_ONCE):
        for number, further in enumerate(search.events(query_numbers[first : first + _AT_ONCE])):
            parts[number] += further
    return merge(parts, query_count, settings.k)


class _Search:
    """One search through some segments, whose candidates are merged to one depth before they are compared exactly."""

    def __init__(self, segments: SearchedSegments, margin: int, settings: SearchSettings) -> None:
        self._segments, self._margin, self._settings = segments, margin, settings
        self._is_complete = [settings.is_bm25 or facts.is_exact for facts in segments.facts]

    def events(self, query_numbers: Rows) -> list[list[tuple[Rows, Events]]]:
        """Return for each segment parts with events of some queries; every query is in one part of each segment."""
        if self._settings.is_dialog:
            return self._events_by_pairs(query_numbers)
        return self._events_by_utterances(query_numbers)

    def _events_by_utterances(self, query_numbers: Rows) -> list[list[tuple[Rows, Events]]]:
        """Search deeper until the k-th reference of every query is certain, or there is nothing more to find."""
        parts = [list[tuple[Rows, Events]]() for _ in self._is_complete]
        complete, total = all(self._is_complete), sum(facts.utterance_count for facts in self._segments.facts)
        limit = total if complete else min(_DEEPEST, total)
        depth, efforts, most_efforts = first_depth(self._settings), self._first_efforts(), self._most_efforts()
        while len(query_numbers):
            depth = max(1, min(depth, limit))
            rows, is_short = collect(self._segments, query_numbers, depth, efforts, resolves_ties=not complete)
            ranked = self._segments.rank(query_numbers, rows)
            settled = _are_settled(ranked, query_numbers, self._margin, self._settings.k)
            done = settled | np.where(is_short, complete or efforts == most_efforts, depth >= limit)
            events = [_select_rows(of_segment, done) for of_segment, _ in ranked]
            further = self._completed(query_numbers[done & ~settled & ~is_short]) if not complete else {}
            for number, of_segment in enumerate(events):
                parts[number] += _replaced((query_numbers[done], of_segment), further.get(number, []))
            query_numbers = query_numbers[~done]
            if is_short[~done].any():
                efforts = [min(effort * _GROWTH, most) for effort, most in zip(efforts, most_efforts, strict=True)]
            depth *= _GROWTH
        return parts

    def _first_efforts(self) -> list[int]:
        return [facts.info.effort for facts in self._segments.facts]

    def _most_efforts(self) -> list[int]:
        """Return the efforts that find as much as an approximate index can find."""
        return [
            facts.info.effort if complete else facts.most_effort
            for facts, complete in zip(self._segments.facts, self._is_complete, strict=True)
        ]

    def _completed(self, query_numbers: Rows) -> Mapping[int, list[tuple[Rows, Events]]]:
        """Return parts of the exact segments alone, whose depth has no limit, for queries that reached the limit."""
        numbers = [number for number, complete in enumerate(self._is_complete) if complete]
        if not len(query_numbers) or not numbers:
            return {}
        exact = _Search(self._segments.subset(numbers), self._margin, self._settings)
        return dict(zip(numbers, exact.events(query_numbers), strict=True))

    def _events_by_pairs(self, query_numbers: Rows) -> list[list[tuple[Rows, Events]]]:
        """Compare all responses of the candidates with the gold: sim(u) · (α · sim(r) + (1 − α) · ε)."""
        first = first_depth(self._settings)
        count = first + first // 8 + _SPARE  # somewhat more, to include utterances equal to the last one
        rows, _ = collect(self._segments, query_numbers, count, self._first_efforts())
        levels = self._segments.levels(query_numbers, rows)
        least = _least_of_the_best(levels, first)
        best = [np.where(of >= least, of, NO_LEVEL) for of in levels]
        return [[(query_numbers, events)] for events in self._segments.pair_events(query_numbers, rows, best)]


def _are_settled(ranked: Sequence[tuple[Events, Rows]], query_numbers: Rows, margin: int, k: int) -> NDArray[np.bool_]:
    """Return for each query whether no utterance beyond the candidates could come before the k-th reference.

    It could not if the least similar candidate of all segments is less similar by more than the margin.
    """
    order = np.arange(len(query_numbers))
    merged = merge([[(order, events)] for events, _ in ranked], len(query_numbers), k)
    least = np.min([levels for _, levels in ranked], axis=0)
    last = merged.chosen[:, -1]
    levels = merged.events.level[np.maximum(last, 0)] if len(merged.order) else np.zeros(len(last), np.int64)
    return np.asarray((last >= 0) & (levels > least + margin))


def _replaced(part: tuple[Rows, Events], further: Sequence[tuple[Rows, Events]]) -> list[tuple[Rows, Events]]:
    """Return a part without the queries of further parts, and these."""
    if not further:
        return [part]
    queries, events = part
    stays = ~np.isin(queries, np.concatenate([which for which, _ in further]))
    return [(queries[stays], _select_rows(events, stays)), *further]


def _least_of_the_best(tables: Sequence[Rows], depth: int) -> Rows:
    """Return the level (queries, 1) of the last utterance compared, the `depth`-th of all segments."""
    levels = np.concatenate(tables, axis=1)
    if levels.shape[1] <= depth:
        return np.full((len(levels), 1), NO_LEVEL)
    return -np.partition(-levels, depth - 1, axis=1)[:, depth - 1 : depth]


def _concatenate(parts: Sequence[Events]) -> Events:
    """Concatenate the events of the queries of all parts."""
    if len(parts) == 1:
        return parts[0]
    ends = np.cumsum([part.start[-1] for part in parts])
    start = np.concatenate(
        [parts[0].start, *(part.start[1:] + end for part, end in zip(parts[1:], ends[:-1], strict=True))]
    )
    columns = {
        name: np.concatenate([getattr(part, name)[: part.start[-1]] for part in parts]) for name in EVENT_COLUMNS
    }
    return Events(start=start, **columns)


def _select_rows(events: Events, rows: NDArray[np.bool_]) -> Events:
    """Return the events of some queries."""
    if rows.all():
        return events
    lengths = np.diff(events.start)
    is_selected = np.repeat(rows, lengths)
    start = np.concatenate([[0], np.cumsum(lengths[rows])]).astype(np.int64)
    return Events(
        start=start, **{name: getattr(events, name)[: events.start[-1]][is_selected] for name in EVENT_COLUMNS}
    )


def merge(segments: Sequence[Sequence[tuple[Rows, Events]]], queries: int, k: int) -> RankedPairs:
    """Merge the events of all segments and take the first k references of each query."""
    parts = [(number, which, events) for number, of_segment in enumerate(segments) for which, events in of_segment]
    if not parts:
        nothing = np.empty(0, np.int64)
        parts = [(0, nothing, _EMPTY)]
    events = _concatenate([part for _, _, part in parts])
    if len(parts) == 1 and len(parts[0][1]) == queries:
        places = np.arange(events.start[-1])
        chosen, excluded = first_k(events.start, events.response_key, events.reason, places, k, len(ExclusionReason))
        return RankedPairs(chosen, excluded, np.full(len(places), parts[0][0]), events, events.start, places)
    query = np.repeat(np.concatenate([which for _, which, _ in parts]), np.diff(events.start))
    segment = np.repeat([number for number, _, _ in parts], [part.start[-1] for _, _, part in parts]).astype(np.int64)
    if len(parts) == 1:
        order = np.arange(len(query))
    else:
        order = np.lexsort((events.utterance_sha, events.response_sha, -events.level, query))
    start = np.searchsorted(query[order], np.arange(queries + 1)).astype(np.int64)
    chosen, excluded = first_k(start, events.response_key, events.reason, order, k, len(ExclusionReason))
    return RankedPairs(chosen, excluded, segment, events, start, order)


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NAMES: Final = [reason.name.lower() for reason in ExclusionReason]
_NONE: Final = np.empty(0, np.int64)
_NO_KEYS: Final = np.empty(0, np.uint64)
_EMPTY: Final = Events(
    np.zeros(1, np.int64), _NONE, _NO_KEYS, _NO_KEYS, _NO_KEYS, _NONE, _NONE, _NONE, np.empty(0, np.int8)
)


# ── Records ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def references_of(
    segments: SearchedSegments, ranked: RankedPairs, logs: Sequence[str], index: str
) -> list[tuple[Reference, ...]]:
    """Return the references of each query as records, with their origin."""
    queries, k = ranked.chosen.shape
    flat = ranked.chosen.ravel()
    records = _records_of(segments, ranked, flat, np.arange(len(flat)) % k, logs, index)
    return [
        tuple(reference for reference in records[query * k : (query + 1) * k] if reference is not None)
        for query in range(queries)
    ]


def excluded_of(
    segments: SearchedSegments, ranked: RankedPairs, logs: Sequence[str], index: str, most: int
) -> list[tuple[Reference, ...]]:
    """Return at most so many excluded pairs of each query as records, with the reason in place of the rank."""
    listed = [_excluded_events(ranked, query, most) for query in range(len(ranked.chosen))]
    events = np.array([event for of_query in listed for event, _ in of_query], np.int64)
    records = iter(_records_of(segments, ranked, events, np.zeros(len(events), np.int64), logs, index))
    return [tuple(_with_reason(next(records), reason) for _, reason in of_query) for of_query in listed]


def exclusion_counts(ranked: RankedPairs, query: int) -> Mapping[str, int]:
    """Count the pairs excluded before the last reference, by reason."""
    counts = ranked.excluded[query].tolist()
    return {_NAMES[reason]: count for reason, count in enumerate(counts) if count}


def _excluded_events(ranked: RankedPairs, query: int, most: int) -> list[tuple[int, int]]:
    """Return the first excluded events of a query with their reasons, in order, up to the last reference."""
    events, keys, listed = ranked.events, set[int](), list[tuple[int, int]]()
    last = int(ranked.chosen[query, -1])
    for event in ranked.order[ranked.start[query] : ranked.start[query + 1]].tolist():
        key, reason = int(events.response_key[event]), int(events.reason[event])
        if reason == 0 and key in keys:
            reason = int(ExclusionReason.DUPLICATE)
        if reason == 0:
            keys.add(key)
        else:
            listed.append((event, reason))
        if event == last or len(listed) == most:
            break
    return listed


def _with_reason(record: Reference | None, reason: int) -> Reference:
    assert record is not None, "excluded events are in a segment"
    more = {name: value for name, value in record.more.items() if name != "rank"}
    return replace(record, more={"reason": _NAMES[reason], **more})


def _records_of(
    segments: SearchedSegments, ranked: RankedPairs, chosen: Rows, ranks: Rows, logs: Sequence[str], index: str
) -> list[Reference | None]:
    """Return the records of events in their order; None in the place of a negative number."""
    places, events = np.flatnonzero(chosen >= 0), ranked.events
    segment = ranked.segment[chosen[places]]
    of_segments = [places[segment == number] for number in range(len(segments.facts))]
    rows = [pair_rows(events, chosen[of]) for of in of_segments]
    records: list[Reference | None] = [None] * len(chosen)
    for of_segment, texts in zip(of_segments, segments.texts(rows) if len(places) else (), strict=False):
        shown = _records(texts, events.level[chosen[of_segment]], ranks[of_segment], logs, index)
        for place, reference in zip(of_segment.tolist(), shown, strict=True):
            records[place] = reference
    return records


def _records(texts: Columns, levels: Rows, ranks: Rows, logs: Sequence[str], index: str) -> list[Reference]:
    return [
        Reference(
            text=text,
            source=Origin.RETRIEVED,
            similarity=similarity,
            utterance=utterance,
            more={
                "rank": rank,
                "log": logs[log],
                "index": index,
                "pair": f"{logs[log]}/{dialogue}#{position}",
                "dialogue": dialogue,
                **({"speaker": speaker} if speaker else {}),
                **_time_field(time),
                "count": count,
            },
        )
        for text, utterance, dialogue, position, speaker, log, time, count, similarity, rank in zip(
            *texts, (levels / MILLION).tolist(), (ranks + 1).tolist(), strict=True
        )
    ]


def _time_field(microseconds: int) -> dict[str, str]:
    """Return a time as references have it; nothing where the log has none, or the number is no time."""
    try:
        return {} if microseconds == NO_TIME else {"time": (_EPOCH + timedelta(0, 0, microseconds)).isoformat()}
    except OverflowError:
        return {}


# ── Two modes as one ──────────────────────────────────────────────────────────────────────────────────────────────────

_BEFORE: Final = 60  # of Cormack, Clarke and Büttcher (2009): first ranks weigh, and do not decide alone
_DIGITS: Final = 6  # as other similarities


def fuse(one: Item, other: Item, k: int) -> Item:
    """Return the k references of two modes with the highest sums of reciprocal ranks; ties by the hash of the text.

    A reference that both modes find is shown as by the mode with the better rank, or else as by the first.
    """
    shown, sums = dict[str, tuple[int, Reference]](), dict[str, float]()
    for found in (one, other):
        for rank, reference in enumerate(found.references, 1):
            key = normalise(reference.text)
            sums[key] = sums.get(key, 0.0) + 1 / (_BEFORE + rank)
            if key not in shown or rank < shown[key][0]:
                shown[key] = rank, reference
    levels = {key: round(total, _DIGITS) for key, total in sums.items()}
    best = sorted(levels, key=lambda key: (-levels[key], _hash_of(shown[key][1].text)))[:k]
    references = tuple(
        replace(shown[key][1], similarity=levels[key], more={**shown[key][1].more, "rank": rank})
        for rank, key in enumerate(best, 1)
    )
    return replace(one, references=references, search_notes=_notes_of_both(one.search_notes, other.search_notes))


def _notes_of_both(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return what two searches for an item noted: the larger counts, and a note if neither could be made."""
    counts, others = one.get("excluded", {}), other.get("excluded", {})
    notes = {
        "excluded": {reason: max(counts.get(reason, 0), others.get(reason, 0)) for reason in {**counts, **others}},
        "note": one.get("note") if "note" in other else None,
        "excluded_references": one.get("excluded_references") or other.get("excluded_references"),
        "missing_shards": sorted({*one.get("missing_shards", ()), *other.get("missing_shards", ())}),
    }
    return {name: note for name, note in notes.items() if note}


def _hash_of(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
