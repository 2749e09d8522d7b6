"""Which pairs are excluded as references: leaks of the test pair, its own dialogue, times and logs that are left out.

A pair that says what the test pair says, or nearly, would give its answer away. Duplicates are excluded in
`refaug.indexer.search.ranking`, where the order of the references is known.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import numpy as np

from refaug.core.kernels import compiled
from refaug.indexer.search.search_tables import NO_TIME, QueryTables, SegmentTables


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
