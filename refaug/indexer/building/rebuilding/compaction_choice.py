"""Which shards of an index compacting concerns, and whether taking over the others would do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from refaug.indexer.building.plan import EXACT_BELOW
from refaug.indexer.building.segment_stages import CHECK_QUERIES
from refaug.indexer.building.update import live_keys
from refaug.indexer.columns import map_array
from refaug.indexer.manifest import SHARDS, IndexManifest, SegmentInfo
from refaug.indexer.pair_table import ChangedKeys
from refaug.indexer.pair_table_sql import KeyRange, Keys
from refaug.indexer.search.segments import VECTORS, word_hashes

_MOST_GROWTH: Final = 2.0  # since training: then lists are too long or too short, and all shards are built anew
_MANY_DEAD_WORDS: Final = 1 << 16  # more than these, and than words that are left, are too many
_DEAD_BELOW: Final = np.uint64(1 << 32)  # a number in place of the hash of a word
_LEAST_QUERIES: Final = 0.5  # of the check's utterances must still be there


@dataclass(frozen=True)
class CompactionChoice:
    """Which shards are concerned, and whether taking over the others would do."""

    before: IndexManifest
    folder: Path
    changes: ChangedKeys

    @cached_property
    def concerned(self) -> tuple[int, ...]:
        """The numbers of the shards to build anew."""
        mains = self.before.main_segments
        numbers = {shard_number(info) for info in mains if info.superseded}
        later = [map_array(self.folder / info.folder / "utterance_key.npy", np.uint64) for info in self._later]
        for keys in (*later, self.changes.changed, self.changes.gone):
            numbers |= set(self._shards_of(keys).tolist())
        return tuple(sorted(numbers))

    @cached_property
    def needs_all(self) -> bool:
        """Whether every shard has to be built: each is concerned, one loses all it has, or training is out of date."""
        filled = {shard_number(info) for info in self.before.main_segments}
        return (
            filled <= set(self.concerned)
            or bool((filled | set(self.concerned)) - set(np.flatnonzero(self._rows_after).tolist()))
            or not self._has_trained
            or self._outgrown
            or self._lacks_queries
            or self._has_many_dead_words
        )

    @property
    def rows(self) -> int:
        """How many utterances there will be."""
        return int(self._rows_after.sum())

    @property
    def trained_on(self) -> int:
        """How many utterances there were at the training."""
        return self.before.trained_utterances or sum(info.utterances for info in self.before.main_segments)

    @property
    def _later(self) -> Sequence[SegmentInfo]:
        return self.before.segments[len(self.before.main_segments) :]

    def _shards_of(self, keys: Keys) -> NDArray[np.int64]:
        """Return the shard of each key."""
        lowest = [KeyRange.of_shard(number, self.before.shards).lowest for number in range(self.before.shards)]
        return np.searchsorted(np.array(lowest, np.uint64), keys, side="right") - 1

    @cached_property
    def _rows_after(self) -> NDArray[np.int64]:
        """The utterances that each shard will have."""
        touched = np.concatenate([self.changes.changed, self.changes.gone])
        stay = [keys[~np.isin(keys, touched)] for keys, _ in live_keys(self.before, self.folder)]
        shards = self._shards_of(np.concatenate([*stay, self.changes.changed]))
        return np.bincount(shards, minlength=self.before.shards)

    @property
    def _has_trained(self) -> bool:
        return any((self.folder / info.folder / VECTORS).exists() for info in self.before.main_segments)

    @property
    def _outgrown(self) -> bool:
        exact = self.before.main_segments[0].factory == "Flat"
        if exact:
            return self.before.limits["factory"] is None and self.rows >= EXACT_BELOW
        return not 1 / _MOST_GROWTH <= self.rows / self.trained_on <= _MOST_GROWTH

    @property
    def _has_many_dead_words(self) -> bool:
        """Whether more numbers are of words that no text has any more than of others beside those with vectors."""
        parts = list(word_hashes(self.folder, self.before, later=False))
        dead = sum(int(np.count_nonzero(words < _DEAD_BELOW)) for words in parts)
        return dead > max(_MANY_DEAD_WORDS, sum(map(len, parts)) - dead)

    @property
    def _lacks_queries(self) -> bool:
        """Whether too few of the utterances are left that recall is measured on."""
        if not (self.folder / CHECK_QUERIES).exists():
            return False
        _, keys = query_hashes(self.folder, self.before)
        live = np.concatenate([keys for keys, _ in live_keys(self.before, self.folder)])
        touched = np.concatenate([self.changes.changed, self.changes.gone])
        remaining = np.isin(keys, live) & ~np.isin(keys, touched)
        return int(np.count_nonzero(remaining)) < _LEAST_QUERIES * len(keys)


def shard_number(info: SegmentInfo) -> int:
    """Return the number of the shard that a main segment is."""
    return int(info.folder.removeprefix(f"{SHARDS}/"))


def query_hashes(folder: Path, manifest: IndexManifest) -> tuple[NDArray[np.uint64], Keys]:
    """Return hash and key of each utterance that recall is measured on; zeros where it is gone."""
    positions = map_array(folder / CHECK_QUERIES, np.int64)
    hashes = []
    for name in ("utterance_sha", "utterance_key"):
        parts = [map_array(folder / info.folder / f"{name}.npy", np.uint64) for info in manifest.main_segments]
        hashes.append(np.where(positions >= 0, np.concatenate(parts)[positions], 0).astype(np.uint64))
    return hashes[0], hashes[1]
