"""Choosing and ordering references among the pairs of the candidates, and counting exclusions.

The order is by similarity, rounded to a millionth; ties are broken by the SHA-256 of the response, then of the
utterance, so that neither a pair's age nor its segment matters. A *level* is a similarity in whole millionths.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from refaug.core.kernels.compiler import fetch_ahead
from refaug.core.kernels.kernel import compiled
from refaug.indexer.search.search_tables import NO_TIME, Keys, QueryTables, Rows, SegmentTables

# ── ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────
#
# Which pairs are excluded as references: leaks of the test pair, its own dialogue, times and logs that are left out.
#
# A pair that says what the test pair says, or nearly, would give its answer away. Duplicates are excluded in
# `refaug.indexer.search.ranking`, where the order of the references is known.


class ExclusionReason(IntEnum):
    """Why a pair that came up is not among the references."""

    NONE = 0
    TEST_PAIR = 1  # utterance and response are those of the test pair
    GOLD = 2  # the response is a gold
    NEAR_GOLD = 3
    PARROT = 4  # the response is the test utterance
    NEAR_PARROT = 5
    OWN_DIALOGUE = 6
    DIALOGUE = 7  # one that the caller listed
    TIME = 8
    LOG = 9
    DUPLICATE = 10  # its text is among the references already


_TEST_PAIR: Final = int(ExclusionReason.TEST_PAIR)
_GOLD: Final = int(ExclusionReason.GOLD)
_NEAR_GOLD: Final = int(ExclusionReason.NEAR_GOLD)
_PARROT: Final = int(ExclusionReason.PARROT)
_NEAR_PARROT: Final = int(ExclusionReason.NEAR_PARROT)
_OWN_DIALOGUE: Final = int(ExclusionReason.OWN_DIALOGUE)
_DIALOGUE: Final = int(ExclusionReason.DIALOGUE)
_TIME: Final = int(ExclusionReason.TIME)
_LOG: Final = int(ExclusionReason.LOG)


@compiled
def _is_near(segment: SegmentTables, queries: QueryTables, query: int, pair: int) -> int:
    """Return NEAR_GOLD, NEAR_PARROT or 0: whether the response says nearly the same as a text of the test pair."""
    begin, end = segment.response_token_start[pair], segment.response_token_start[pair + 1]
    if end - begin < queries.near_tokens:
        return 0
    distinct = np.empty(0, np.int32)
    for at_set in range(queries.set_start[query], queries.set_start[query + 1]):
        first, last, size = (
            queries.set_code_start[at_set],
            queries.set_code_start[at_set + 1],
            queries.set_size[at_set],
        )
        if queries.set_tokens[at_set] < queries.near_tokens or end - begin < queries.near * size:
            continue
        if len(distinct) == 0:
            distinct = np.unique(segment.response_tokens[begin:end])
        if len(distinct) * queries.near > size:
            continue
        shared, at = 0, first
        for code in distinct:
            while at < last and queries.set_code[at] < code:
                at += 1
            if at < last and queries.set_code[at] == code:
                shared += 1
        if shared >= queries.near * (size + len(distinct) - shared):
            return _NEAR_PARROT if queries.set_is_parrot[at_set] else _NEAR_GOLD
    return 0


@compiled
def _occurrence_reason(segment: SegmentTables, queries: QueryTables, query: int, at: int) -> int:
    """Return why this occurrence of a pair is excluded, or 0."""
    dialogue = segment.occurrence_dialogue[at]
    if queries.has_dialogue[query] and dialogue == queries.own_dialogue[query]:
        return _OWN_DIALOGUE
    first, last = queries.blocked_start[query], queries.blocked_start[query + 1]
    if first < last:
        place = first + np.searchsorted(queries.blocked[first:last], dialogue)
        if place < last and queries.blocked[place] == dialogue:
            return _DIALOGUE
    if queries.timed:
        time = segment.occurrence_time[at]
        if time == NO_TIME or time < queries.after or time >= queries.before:
            return _TIME
    if queries.blocked_log[segment.occurrence_log[at]]:
        return _LOG
    return 0


@compiled
def exclusion_of(
    segment: SegmentTables, queries: QueryTables, query: int, utterance: int, pair: int
) -> tuple[int, int]:
    """Return why a pair is excluded, or 0, and the occurrence shown as its origin.

    A pair is excluded for its origin only if all its occurrences are; the reason is then that of the first.
    """
    first = segment.occurrence_start[pair]
    key = segment.response_key[pair]
    for gold in range(queries.gold_start[query], queries.gold_start[query + 1]):
        if queries.gold_key[gold] == key:
            same_utterance = segment.utterance_key[utterance] == queries.utterance_key[query]
            return (_TEST_PAIR if same_utterance else _GOLD), first
    if key == queries.utterance_key[query]:
        return _PARROT, first
    near = _is_near(segment, queries, query, pair)
    if near:
        return near, first
    reason = 0
    for at in range(first, segment.occurrence_start[pair + 1]):
        occurrence_reason = _occurrence_reason(segment, queries, query, at)
        if occurrence_reason == 0:
            return 0, at
        if reason == 0:
            reason = occurrence_reason
    return reason, first


# ── Choosing and ordering references among the pairs of the candidates, and counting exclusions ───────────────────────

NO_LEVEL: Final = -(1 << 62)  # of an empty place in a table of candidates; its negative is a valid number too
MILLION: Final = 1_000_000
_FETCHED: Final = 20  # candidates whose responses are prefetched
_DUPLICATE: Final = int(ExclusionReason.DUPLICATE)


class Events(NamedTuple):
    """Pairs in the order in which they came up, for each of some queries, including excluded ones."""

    start: Rows
    level: Rows
    response_sha: Keys
    utterance_sha: Keys
    response_key: Keys
    utterance: Rows
    pair: Rows
    occurrence: Rows  # the first that is not excluded, shown as the pair's origin
    reason: NDArray[np.int8]


EVENT_COLUMNS: Final = tuple(name for name in Events._fields if name != "start")


def chosen_events(events: Events, start: Rows, places: Rows | slice) -> Events:
    """Return some events, of which those of each query begin at `start`."""
    columns: dict[str, Any] = {name: getattr(events, name)[places] for name in EVENT_COLUMNS}
    return Events(start=start, **columns)


@compiled
def _grow(events: Events, used: int) -> Events:
    """Return the same events with space for more than twice as many."""
    size = 2 * used + 64
    level, utterance = np.empty(size, np.int64), np.empty(size, np.int64)
    pair, occurrence = np.empty(size, np.int64), np.empty(size, np.int64)
    response_sha, utterance_sha = np.empty(size, np.uint64), np.empty(size, np.uint64)
    response_key, reason = np.empty(size, np.uint64), np.empty(size, np.int8)
    level[:used], utterance[:used] = events.level[:used], events.utterance[:used]
    pair[:used], occurrence[:used] = events.pair[:used], events.occurrence[:used]
    response_sha[:used], utterance_sha[:used] = events.response_sha[:used], events.utterance_sha[:used]
    response_key[:used], reason[:used] = events.response_key[:used], events.reason[:used]
    return Events(events.start, level, response_sha, utterance_sha, response_key, utterance, pair, occurrence, reason)


@compiled
def _no_events(queries: int) -> Events:
    return Events(
        np.zeros(queries + 1, np.int64),
        np.empty(0, np.int64),
        np.empty(0, np.uint64),
        np.empty(0, np.uint64),
        np.empty(0, np.uint64),
        np.empty(0, np.int64),
        np.empty(0, np.int64),
        np.empty(0, np.int64),
        np.empty(0, np.int8),
    )


@compiled
def _contains(events: Events, begin: int, end: int, key: int) -> bool:
    """Return whether a text is among the references from `begin` on."""
    for at in range(begin, end):  # noqa: SIM110  loops are compiled, generators are not
        if events.reason[at] == 0 and events.response_key[at] == key:
            return True
    return False


@compiled
def _store_event(
    events: Events, at: int, segment: SegmentTables, level: int, utterance: int, pair: int, occurrence: int, reason: int
) -> None:
    events.level[at] = level
    events.response_sha[at] = segment.response_sha[pair]
    events.utterance_sha[at] = segment.utterance_sha[utterance]
    events.response_key[at] = segment.response_key[pair]
    events.utterance[at] = utterance
    events.pair[at] = pair
    events.occurrence[at] = occurrence
    events.reason[at] = reason


@compiled
def _display_order(response_sha: Keys, utterance_sha: Keys) -> Rows:
    """Return the places of pairs of one level in the order in which they are shown."""
    order = np.argsort(response_sha, kind="mergesort")
    for at in range(1, len(order)):  # equal texts, which are few, by their utterances
        place, back = order[at], at
        while (
            back
            and response_sha[order[back - 1]] == response_sha[place]
            and utterance_sha[order[back - 1]] > utterance_sha[place]
        ):
            order[back] = order[back - 1]
            back -= 1
        order[back] = place
    return order


@compiled
def _finish_level(
    events: Events, begin: int, group: int, used: int, reference_count: int, k: int
) -> tuple[Events, int, int]:
    """Sort the pairs of one level, `group` to `used`, and keep them up to the k-th reference."""
    if used == group + 1:  # mostly
        if events.reason[group] == 0:
            if _contains(events, begin, group, events.response_key[group]):
                events.reason[group] = _DUPLICATE
            else:
                reference_count += 1
        return events, used, reference_count
    order = _display_order(events.response_sha[group:used], events.utterance_sha[group:used])
    utterance, pair = events.utterance[group:used][order], events.pair[group:used][order]
    occurrence, reason = events.occurrence[group:used][order], events.reason[group:used][order]
    response_sha, utterance_sha = events.response_sha[group:used][order], events.utterance_sha[group:used][order]
    response_key = events.response_key[group:used][order]
    at = group
    for place in range(len(order)):
        if reference_count == k:
            break
        events.utterance[at], events.pair[at], events.occurrence[at] = utterance[place], pair[place], occurrence[place]
        events.response_sha[at], events.utterance_sha[at] = response_sha[place], utterance_sha[place]
        events.response_key[at] = response_key[place]
        final_reason = reason[place]
        if final_reason == 0:
            if _contains(events, begin, at, response_key[place]):
                final_reason = _DUPLICATE
            else:
                reference_count += 1
        events.reason[at] = final_reason
        at += 1
    return events, at, reference_count


@compiled
def _prefetch(segment: SegmentTables, candidates: Rows) -> None:
    """Prefetch the table rows, scattered over memory, that some utterances need."""
    for utterance in candidates:
        fetch_ahead(segment.pair_start, utterance)
        fetch_ahead(segment.utterance_key, utterance)
        fetch_ahead(segment.utterance_sha, utterance)
    for utterance in candidates:
        pair = segment.pair_start[max(0, utterance)]
        fetch_ahead(segment.response_key, pair)
        fetch_ahead(segment.response_sha, pair)
        fetch_ahead(segment.occurrence_start, pair)
        fetch_ahead(segment.response_token_start, pair)
    for utterance in candidates:
        pair = segment.pair_start[max(0, utterance)]
        fetch_ahead(segment.occurrence_dialogue, segment.occurrence_start[pair])
        fetch_ahead(segment.occurrence_log, segment.occurrence_start[pair])
        fetch_ahead(segment.response_tokens, segment.response_token_start[pair])


@compiled
def _events_of_frequent(
    events: Events,
    used: int,
    segment: SegmentTables,
    queries: QueryTables,
    query: int,
    utterance: int,
    level: int,
    most: int,
) -> tuple[Events, int]:
    """Add the excluded pairs of an utterance, and those `most` of the others that occur most often.

    Among equally frequent ones the order is by the hash of the response.
    """
    begin, end = segment.pair_start[utterance], segment.pair_start[utterance + 1]
    reasons, occurrences = np.empty(end - begin, np.int8), np.empty(end - begin, np.int64)
    best = np.full(most, -1, np.int64)  # the most frequent first
    for pair in range(begin, end):
        reasons[pair - begin], occurrences[pair - begin] = exclusion_of(segment, queries, query, utterance, pair)
        if reasons[pair - begin] == 0:
            place, moved = most, pair
            while place and (best[place - 1] < 0 or _is_more_frequent(segment, moved, best[place - 1])):
                place -= 1
            for at in range(place, most):
                best[at], moved = moved, best[at]
    for pair in range(begin, end):
        if reasons[pair - begin] == 0 and not _is_among(best, pair):
            continue
        if used == len(events.level):
            events = _grow(events, used)
        occurrence, reason = occurrences[pair - begin], reasons[pair - begin]
        _store_event(events, used, segment, level, utterance, pair, occurrence, reason)
        used += 1
    return events, used


@compiled
def _is_more_frequent(segment: SegmentTables, pair: int, other: int) -> bool:
    count = segment.occurrence_start[pair + 1] - segment.occurrence_start[pair]
    others = segment.occurrence_start[other + 1] - segment.occurrence_start[other]
    is_first: bool = segment.response_sha[pair] < segment.response_sha[other]
    return count > others or (count == others and is_first)


@compiled
def _is_among(pairs: Rows, pair: int) -> bool:
    for at in range(len(pairs)):  # noqa: SIM110  loops are compiled, generators are not
        if pairs[at] == pair:
            return True
    return False


@compiled
def events_of_utterances(
    segment: SegmentTables,
    queries: QueryTables,
    query_numbers: Rows,
    candidates: Rows,
    levels: Rows,
    k: int,
    most: int,
) -> Events:
    """Go through the candidate utterances (queries, depth) and their responses until k references are found.

    Of each utterance the `most` most frequent responses count; 0 is no limit.
    """
    events, used = _no_events(len(query_numbers)), 0
    for row in range(len(query_numbers)):
        query, begin, reference_count = query_numbers[row], used, 0
        order = np.argsort(-levels[row], kind="mergesort")
        _prefetch(segment, candidates[row][order[:_FETCHED]])
        candidate_count = 0
        while candidate_count < len(order) and levels[row, order[candidate_count]] != NO_LEVEL:
            candidate_count += 1
        at = 0
        while at < candidate_count and reference_count < k:
            level, group = levels[row, order[at]], used
            while at < candidate_count and levels[row, order[at]] == level:
                utterance = candidates[row, order[at]]
                at += 1
                if len(segment.superseded) and segment.superseded[utterance]:
                    continue
                if most:
                    events, used = _events_of_frequent(events, used, segment, queries, query, utterance, level, most)
                    continue
                fresh = 0
                for pair in range(segment.pair_start[utterance], segment.pair_start[utterance + 1]):
                    reason, occurrence = exclusion_of(segment, queries, query, utterance, pair)
                    if used == len(events.level):
                        events = _grow(events, used)
                    _store_event(events, used, segment, level, utterance, pair, occurrence, reason)
                    if reason == 0 and not _contains(events, begin, group, segment.response_key[pair]):
                        fresh += 1
                    used += 1
                    if fresh == k - reference_count:  # further pairs of this utterance cannot come before these
                        break
            events, used, reference_count = _finish_level(events, begin, group, used, reference_count, k)
        events.start[row + 1] = used
    return events


@compiled
def all_events(
    segment: SegmentTables,
    queries: QueryTables,
    query_numbers: Rows,
    candidates: Rows,
    levels: Rows,
    k: int,
    most: int,
) -> Events:
    """Return the pairs of all candidate utterances (queries, depth), of each until k of them are not excluded.

    Beyond these no pair of the utterance can be among k references, whatever other candidates there are. Of each
    utterance the `most` most frequent responses count; 0 is no limit.
    """
    events, used = _no_events(len(query_numbers)), 0
    for row in range(len(query_numbers)):
        for place in range(candidates.shape[1]):
            utterance, level = candidates[row, place], levels[row, place]
            if level == NO_LEVEL or (len(segment.superseded) and segment.superseded[utterance]):
                continue
            if most:
                query = query_numbers[row]
                events, used = _events_of_frequent(events, used, segment, queries, query, utterance, level, most)
                continue
            fresh = 0
            for pair in range(segment.pair_start[utterance], segment.pair_start[utterance + 1]):
                reason, occurrence = exclusion_of(segment, queries, query_numbers[row], utterance, pair)
                if used == len(events.level):
                    events = _grow(events, used)
                _store_event(events, used, segment, level, utterance, pair, occurrence, reason)
                used += 1
                fresh += reason == 0
                if fresh == k:
                    break
        events.start[row + 1] = used
    return events


@compiled
def events_of_pairs(
    segment: SegmentTables,
    queries: QueryTables,
    query_numbers: Rows,
    start: Rows,
    utterances: Rows,
    pairs: Rows,
    levels: Rows,
    k: int,
) -> Events:
    """Return the events of candidates that are pairs with individual levels; those of row i begin at `start[i]`."""
    events, used = _no_events(len(query_numbers)), 0
    for row in range(len(query_numbers)):
        query, begin, reference_count = query_numbers[row], used, 0
        first = start[row]
        order = np.argsort(-levels[first : start[row + 1]], kind="mergesort") + first
        at = 0
        while at < len(order) and reference_count < k:
            level, group = levels[order[at]], used
            while at < len(order) and levels[order[at]] == level:
                utterance, pair = utterances[order[at]], pairs[order[at]]
                at += 1
                if len(segment.superseded) and segment.superseded[utterance]:
                    continue
                reason, occurrence = exclusion_of(segment, queries, query, utterance, pair)
                if used == len(events.level):
                    events = _grow(events, used)
                _store_event(events, used, segment, level, utterance, pair, occurrence, reason)
                used += 1
            events, used, reference_count = _finish_level(events, begin, group, used, reference_count, k)
        events.start[row + 1] = used
    return events


@compiled
def pairs_of(segment: SegmentTables, candidates: Rows, levels: Rows) -> tuple[Rows, Rows, Rows, Rows]:
    """Return all pairs of the candidate utterances (queries, depth).

    The arrays are: where each query's pairs begin, utterances, pairs, levels.
    """
    start = np.zeros(len(candidates) + 1, np.int64)
    for row in range(len(candidates)):
        count = 0
        for place in range(candidates.shape[1]):
            if levels[row, place] > 0:  # a similarity of 0 makes the product 0, whatever the responses are
                utterance = candidates[row, place]
                count += segment.pair_start[utterance + 1] - segment.pair_start[utterance]
        start[row + 1] = start[row] + count
    utterances, pairs = np.empty(start[-1], np.int64), np.empty(start[-1], np.int64)
    of_utterance = np.empty(start[-1], np.int64)
    at = 0
    for row in range(len(candidates)):
        for place in range(candidates.shape[1]):
            if levels[row, place] > 0:
                utterance = candidates[row, place]
                for pair in range(segment.pair_start[utterance], segment.pair_start[utterance + 1]):
                    utterances[at], pairs[at], of_utterance[at] = utterance, pair, levels[row, place]
                    at += 1
    return start, utterances, pairs, of_utterance


@compiled
def first_k(
    start: Rows, response_key: Keys, reason: NDArray[np.int8], order: Rows, k: int, reasons: int
) -> tuple[Rows, Rows]:
    """Return the places (queries, k) of the references among the ordered events of all segments; count exclusions."""
    chosen = np.full((len(start) - 1, k), -1, np.int64)
    counts = np.zeros((len(start) - 1, reasons), np.int64)
    for query in range(len(start) - 1):
        reference_count = 0
        for place in range(start[query], start[query + 1]):
            if reference_count == k:
                break
            event = order[place]
            final_reason = reason[event]
            if final_reason == 0:
                for rank in range(reference_count):
                    if response_key[chosen[query, rank]] == response_key[event]:
                        final_reason = _DUPLICATE
                        break
            if final_reason == 0:
                chosen[query, reference_count] = event
                reference_count += 1
            else:
                counts[query, final_reason] += 1
    return chosen, counts
