"""How many different n-grams there are among many, in bounded memory: sorted runs of hashes, merged at the end."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from refaug.core.files import make_folder, remove_tree, unique_suffix
from refaug.core.full_disk import storage_errors

_RUN: Final = 1 << 14  # hashes that are sorted at a time
_MOST_RUNS: Final = 16  # of a level, before they are merged into one of the next

Hashes = NDArray[np.uint64]


class DistinctCount:
    """Counts all n-grams and the different ones; a context manager, for its files."""

    def __init__(self, folder: Path, order: int) -> None:
        self.total = 0
        self._order, self._folder = order, folder / f"self-play-words-{unique_suffix()}"
        make_folder(folder)
        make_folder(self._folder)
        self._new, self._levels, self._written = array("Q"), list[list[Path]](), 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        remove_tree(self._folder)

    def add(self, texts: Iterable[Sequence[str]]) -> None:
        """Add the n-grams of texts, given as words; none crosses two texts."""
        for words in texts:
            count = len(words) - self._order + 1
            self.total += max(0, count)
            for first in range(count):
                gram = "\x1f".join(words[first : first + self._order]).encode("utf-8", "surrogatepass")
                self._new.append(int.from_bytes(blake2b(gram, digest_size=8).digest(), "little"))
            if len(self._new) >= _RUN:
                self._write(np.unique(np.array(self._new, np.uint64)))

    @property
    def share(self) -> float:
        """The different n-grams over all of them; 0 where there are none."""
        if not self.total:
            return 0.0
        newest = np.unique(np.array(self._new, np.uint64))
        if not self._levels:
            return len(newest) / self.total
        self._write(newest)
        return _merged_count([run for runs in self._levels for run in runs]) / self.total

    def _write(self, hashes: Hashes) -> None:
        self._new = array("Q")
        path = self._next_path()
        with storage_errors(path):
            hashes.tofile(path)
        self._add(path, 0)

    def _add(self, run: Path, level: int) -> None:
        """Add a run to a level; a level that is full becomes a run of the next, so that each hash moves few times."""
        if level == len(self._levels):
            self._levels.append([])
        runs = self._levels[level]
        runs.append(run)
        if len(runs) < _MOST_RUNS:
            return
        merged = self._next_path()
        with storage_errors(merged), merged.open("wb") as file:
            for block in _merged(runs):
                block.tofile(file)
        for merged_run in runs:
            merged_run.unlink()
        runs.clear()
        self._add(merged, level + 1)

    def _next_path(self) -> Path:
        self._written += 1
        return self._folder / str(self._written)


def _merged_count(runs: Sequence[Path]) -> int:
    return sum(map(len, _merged(runs)))


def _merged(runs: Sequence[Path]) -> Iterable[Hashes]:
    """Yield the different hashes of sorted runs in order, block after block."""
    mapped = [np.memmap(run, np.uint64, "r") if run.stat().st_size else np.zeros(0, np.uint64) for run in runs]
    at = [0] * len(mapped)
    step = max(1, _RUN // max(1, len(mapped)))
    while any(place < len(run) for place, run in zip(at, mapped, strict=True)):
        # All hashes up to the least of the blocks' ends are in these blocks.
        limit = min(
            run[min(place + step, len(run)) - 1] for place, run in zip(at, mapped, strict=True) if place < len(run)
        )
        pieces = list[Hashes]()
        for number, run in enumerate(mapped):
            piece = np.asarray(run[at[number] : at[number] + step])
            count = int(np.searchsorted(piece, limit, side="right"))
            pieces.append(piece[:count])
            at[number] += count
        yield np.unique(np.concatenate(pieces))
