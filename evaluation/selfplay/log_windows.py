"""Runs of replies that stand in a log word for word: w turns that follow each other in one of its dialogues.

A log stores pairs, so a window of w turns is a chain of w − 1 pairs of one dialogue, each of which begins with the turn
that the one before ends with. Where positions are turn numbers, they must follow each other, too; in message trees,
whose positions are names, the text is what joins two pairs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from refaug.core.progress import Progress, Silent
from refaug.logs.store import StoredLog

Numbers = NDArray[np.int64]

_COLUMNS: Final = ("dialogue", "position", "utterance", "response")
_ABSENT: Final = -1
_LONGEST_NUMBER: Final = 6  # digits of a turn number; longer positions are names of messages


@dataclass(frozen=True, slots=True)
class _LoggedPair:
    position: str
    key: int


def conversations_in_log(
    log: StoredLog, conversations: Sequence[Sequence[str]], windows: Sequence[int], progress: Progress | None = None
) -> dict[int, set[int]]:
    """Return for each window length of 2 or more which conversations, by number, have a window that the log has."""
    progress = progress or Silent()
    texts = list(dict.fromkeys(text for replies in conversations for text in replies))
    code_of = {text: code for code, text in enumerate(texts)}
    chains = [
        [code_of[left] * len(texts) + code_of[right] for left, right in pairwise(replies)] for replies in conversations
    ]
    sought = np.unique(np.array([key for chain in chains for key in chain], np.int64))
    holders = {window: _holders(chains, window - 1) for window in windows}
    present: dict[int, set[int]] = {window: set() for window in windows}
    by_dialogue: dict[str, list[_LoggedPair]] = defaultdict(list)
    is_chained = any(window > 2 for window in windows)
    if not len(sought):
        return present
    progress.stage("log", sum(part.pairs for part in log.manifest.parts), "pairs")
    for batch in log.batches(_COLUMNS):
        for dialogue, pair in _sought_pairs(batch, pa.array(texts, pa.string()), sought):
            for window in windows:
                if window == 2:
                    present[window].update(holders[window].get((pair.key,), ()))
            if is_chained:
                by_dialogue[dialogue].append(pair)
        progress.advance(batch.num_rows)
    for window in windows:
        if window > 2:
            _add_chained(present[window], holders[window], by_dialogue)
    return present


def _holders(chains: Sequence[Sequence[int]], pairs: int) -> dict[tuple[int, ...], set[int]]:
    """Return the conversations that have each chain of so many pairs."""
    holders: dict[tuple[int, ...], set[int]] = defaultdict(set)
    for number, chain in enumerate(chains):
        for first in range(len(chain) - pairs + 1):
            holders[tuple(chain[first : first + pairs])].add(number)
    return holders


def _sought_pairs(batch: pa.RecordBatch, texts: pa.Array, sought: Numbers) -> Iterator[tuple[str, _LoggedPair]]:
    """Yield the pairs of a batch whose utterance and response follow each other in a conversation."""
    codes = [
        pa.compute.fill_null(pa.compute.index_in(batch[name], texts), _ABSENT).to_numpy(zero_copy_only=False)
        for name in ("utterance", "response")
    ]
    utterances, responses = (column.astype(np.int64) for column in codes)
    keys = utterances * len(texts) + responses
    places = np.flatnonzero((utterances >= 0) & (responses >= 0) & np.isin(keys, sought))
    rows = batch.select(["dialogue", "position"]).take(pa.array(places)).to_pylist()
    for place, row in zip(places.tolist(), rows, strict=True):
        yield row["dialogue"], _LoggedPair(row["position"], int(keys[place]))


def _add_chained(
    present: set[int], holders: dict[tuple[int, ...], set[int]], by_dialogue: dict[str, list[_LoggedPair]]
) -> None:
    by_first: dict[int, list[tuple[int, ...]]] = defaultdict(list)
    for chain in holders:
        by_first[chain[0]].append(chain)
    for pairs in by_dialogue.values():
        of_key: dict[int, list[_LoggedPair]] = defaultdict(list)
        for pair in pairs:
            of_key[pair.key].append(pair)
        for first in of_key:
            for chain in by_first.get(first, ()):
                if not holders[chain] <= present and _is_chained(chain, of_key):
                    present.update(holders[chain])


def _is_chained(chain: tuple[int, ...], of_key: dict[int, list[_LoggedPair]]) -> bool:
    """Return whether a dialogue has the pairs of a chain one behind the other."""
    ends = of_key[chain[0]]
    for key in chain[1:]:
        ends = [pair for pair in of_key.get(key, ()) if any(_follows(end.position, pair.position) for end in ends)]
    return bool(ends)


def _follows(before: str, after: str) -> bool:
    if before.isdigit() and after.isdigit() and max(len(before), len(after)) <= _LONGEST_NUMBER:
        return int(after) == int(before) + 1
    return True
