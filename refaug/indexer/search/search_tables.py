"""The arrays that compiled loops of a search read: those of a segment, and what is excluded for the test pairs."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]
Keys = NDArray[np.uint64]

NO_TIME: Final = np.iinfo(np.int64).min


class SegmentTables(NamedTuple):
    """The arrays of a segment that decide order and exclusion; see `refaug.indexer.search.segments`."""

    utterance_key: Keys
    utterance_sha: Keys
    pair_start: Rows
    response_key: Keys
    response_sha: Keys
    occurrence_start: Rows
    occurrence_log: NDArray[np.uint16]
    occurrence_dialogue: Keys
    occurrence_time: Rows
    response_tokens: NDArray[np.int32]
    response_token_start: Rows
    superseded: NDArray[np.bool_]  # one per utterance, or none at all


class QueryTables(NamedTuple):
    """What is excluded for each test pair, or all; lists of lists are one list with the place where each begins."""

    utterance_key: Keys
    gold_start: Rows
    gold_key: Keys
    set_start: Rows  # the sets of distinct tokens of query i: those of its golds, and of its utterance
    set_code_start: Rows
    set_code: NDArray[np.int32]  # ascending in each set; words that the index does not know are only counted
    set_size: Rows  # how many distinct tokens the text has, unknown ones included
    set_tokens: Rows  # how many tokens the text has, repeats included
    set_is_parrot: NDArray[np.bool_]
    own_dialogue: Keys
    has_dialogue: NDArray[np.bool_]
    blocked_start: Rows
    blocked: Keys  # ascending for each query
    timed: bool  # this and the following are the same for all test pairs
    after: int  # microseconds since 1970; a pair at this very time is in
    before: int  # and one at this is not
    blocked_log: NDArray[np.bool_]  # one per log of the segment
    near: float  # token Jaccard from which texts count as equal …
    near_tokens: int  # … if both have so many tokens
