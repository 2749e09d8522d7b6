"""The entries of a co-occurrence matrix on disk, divided into blocks that fit into a core's cache.

Words are assigned to ranges at random, which spreads the frequent ones. The entries between two ranges are a block: it
lies together on disk in random order and is trained with both ranges in the cache. As the matrix is symmetric, one
block serves both orientations of its entries.
"""

from __future__ import annotations

import functools
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import orjson
from numpy.typing import DTypeLike, NDArray

from refaug.core.array_files import write_array
from refaug.core.errors import Corrupt
from refaug.core.files import make_folder, read_json, remove_tree, sync_file, write_json
from refaug.core.full_disk import storage_errors
from refaug.core.progress import Progress
from refaug.indexer.columns import map_array
from refaug.indexer.vectors import glove_kernels as kernels
from refaug.indexer.vectors.cooccurrence import Cooccurrences

_MANIFEST: Final = "blocks.json"
_FORMAT: Final = 1
_CACHE_BYTES: Final = 800 << 10  # of a core's cache that two ranges may take
_FEWEST_RANGES: Final = 16  # gives so many threads work, however small the vocabulary
_LARGEST_RANGE: Final = 1 << 16  # places are written as 16 bits
_ENTRIES_A_CALL: Final = 1 << 21


@dataclass(frozen=True, kw_only=True)
class BlockSettings:
    """The settings that determine the blocks and the order in them."""

    ranges: int
    x_max: float
    alpha: float
    seed: int

    @property
    def blocks(self) -> int:
        """One block for each pair of ranges."""
        return self.ranges * (self.ranges + 1) // 2


def ranges_for(words: int, entries: int, bytes_a_word: int) -> int:
    """Return into how many ranges to divide the words.

    Two ranges should fit into the cache, but loading the ranges must not cost more than training their block: a
    word should be used a dozen times when its range is loaded.
    """
    for_cache = -(-words * 2 * bytes_a_word // _CACHE_BYTES)
    worth_loading = entries // (12 * words)
    ranges = max(_FEWEST_RANGES, min(for_cache, worth_loading), -(-words // _LARGEST_RANGE))
    return min(words, ranges)


@dataclass(frozen=True, kw_only=True, eq=False)
class Blocks:
    """All entries with row ≤ column, by block; mapped from disk."""

    settings: BlockSettings
    size: int  # positions in a range
    positions: NDArray[np.int64]  # of each word: range · size + place in the range
    starts: NDArray[np.int64]  # (blocks + 1): where each block begins
    pairs: NDArray[np.uint16]  # (entries, 2): places in the lower and the higher range
    targets: NDArray[np.float32]  # (entries, 2): log x, and the weight f(x)

    @functools.cached_property
    def visits(self) -> NDArray[np.int64]:
        """How many entries are trained when a range of words meets a range of contexts (ranges, ranges).

        A pair of a word with itself is trained once, all others in both orientations.
        """
        visits = np.empty((self.settings.ranges, self.settings.ranges), np.int64)
        for higher in range(self.settings.ranges):
            for lower in range(higher + 1):
                block = kernels.block_number(lower, higher)
                visits[lower, higher] = visits[higher, lower] = self.starts[block + 1] - self.starts[block]
            own = self.pairs[self.starts[block] : self.starts[block + 1]]
            visits[higher, higher] += int((own[:, 0] != own[:, 1]).sum())
        return visits

    def order(self, row: int, column: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
        """Return the words, contexts and targets trained, in order, when these ranges meet."""
        block, words = kernels.block_number(row, column), np.argsort(self.positions)
        entries = slice(self.starts[block], self.starts[block + 1])
        places, targets = self.pairs[entries].astype(np.int64), self.targets[entries]
        lower = words[np.searchsorted(self.positions[words], min(row, column) * self.size + places[:, 0])]
        higher = words[np.searchsorted(self.positions[words], max(row, column) * self.size + places[:, 1])]
        if row < column:
            return lower, higher, targets
        if row > column:
            return higher, lower, targets
        apart = lower != higher  # left out the second time
        both = np.concatenate((lower, higher[apart])), np.concatenate((higher, lower[apart]))
        return *both, np.concatenate((targets, targets[apart]))

    @classmethod
    def lay_out(cls, cooccurrences: Cooccurrences, settings: BlockSettings, folder: Path, progress: Progress) -> Self:
        """Divide the entries into blocks in a folder, or open those of an earlier run."""
        dealt = hashlib.sha256(
            orjson.dumps([_FORMAT, cooccurrences.fingerprint, vars(settings)], option=orjson.OPT_SORT_KEYS)
        ).hexdigest()
        if not (folder / _MANIFEST).exists() or read_json(folder / _MANIFEST).get("dealt") != dealt:
            remove_tree(folder)
            make_folder(folder)
            _BlockWriter(cooccurrences, settings, folder).run(progress)
            write_json(folder / _MANIFEST, {"dealt": dealt})
        blocks = cls(
            settings=settings,
            size=-(-cooccurrences.words // settings.ranges),
            positions=_positions(cooccurrences.words, settings),
            starts=np.array(map_array(folder / "starts.npy", np.int64)),
            pairs=map_array(folder / "pairs.npy", np.uint16),
            targets=map_array(folder / "targets.npy", np.float32),
        )
        if (
            len(blocks.starts) != settings.blocks + 1
            or not len(blocks.pairs) == len(blocks.targets) == blocks.starts[-1]
        ):
            raise Corrupt(f"{folder}: its files do not fit together", remedy="delete it: it is made anew")
        return blocks


def _positions(words: int, settings: BlockSettings) -> NDArray[np.int64]:
    """Return each word's position: words in random order are assigned to the ranges in turn."""
    order, size = np.random.default_rng([settings.seed, words]).permutation(words), -(-words // settings.ranges)
    return order % settings.ranges * size + order // settings.ranges


class _BlockWriter:
    """Writes the blocks in three passes: count them, write their entries, shuffle them."""

    def __init__(self, cooccurrences: Cooccurrences, settings: BlockSettings, folder: Path) -> None:
        self._all, self._settings, self._folder = cooccurrences, settings, folder
        self._positions = _positions(cooccurrences.words, settings)
        self._size = -(-cooccurrences.words // settings.ranges)

    def run(self, progress: Progress) -> None:
        """Write all files."""
        progress.stage("dealing co-occurrences into blocks", 3 * len(self._all), "entries")
        counts = np.zeros(self._settings.blocks, np.int64)
        for piece in self._pieces():
            kernels.count_blocks(self._all.rows[piece], self._all.columns[piece], self._positions, self._size, counts)
            progress.advance(piece.stop - piece.start)
        starts = np.concatenate(([0], np.cumsum(counts)))
        pairs = _new_array(self._folder / "pairs.npy", np.uint16, len(self._all))
        targets = _new_array(self._folder / "targets.npy", np.float32, len(self._all))
        self._deal(starts[:-1].copy(), pairs, targets, progress)
        self._shuffle(starts, pairs, targets, progress)
        for array in (pairs, targets):
            array.flush()
            sync_file(Path(str(array.filename)))
        write_array(self._folder / "starts.npy", starts)

    def _pieces(self) -> list[slice]:
        firsts = range(0, len(self._all), _ENTRIES_A_CALL)
        return [slice(first, min(first + _ENTRIES_A_CALL, len(self._all))) for first in firsts]

    def _deal(self, ends: NDArray[np.int64], pairs: Any, targets: Any, progress: Progress) -> None:
        for piece in self._pieces():
            kernels.deal(
                self._all.rows[piece],
                self._all.columns[piece],
                self._all.values[piece],
                self._positions,
                self._size,
                self._settings.x_max,
                self._settings.alpha,
                ends,
                np.asarray(pairs),
                np.asarray(targets),
            )
            progress.advance(piece.stop - piece.start)

    def _shuffle(self, starts: NDArray[np.int64], pairs: Any, targets: Any, progress: Progress) -> None:
        seed = np.random.default_rng([self._settings.seed, 1]).integers(0, 1 << 62, dtype=np.uint64)
        for higher in range(self._settings.ranges):
            first, last = kernels.block_number(0, higher), kernels.block_number(0, higher + 1)
            kernels.shuffle_blocks(first, last, starts, seed, np.asarray(pairs), np.asarray(targets))
            progress.advance(int(starts[last] - starts[first]))


def _new_array(path: Path, dtype: DTypeLike, rows: int) -> np.memmap[Any, Any]:
    """Create a .npy file of pairs with all its space allocated: a memory map cannot report a full disk."""
    with storage_errors(path):
        array = np.lib.format.open_memmap(path, "w+", dtype, (rows, 2))
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    return array
