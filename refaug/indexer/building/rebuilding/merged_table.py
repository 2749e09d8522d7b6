"""The table of utterances, pairs and occurrences of a shard, taken from the segments of a version without its logs.

Every segment has its utterances in the order of their hashes, so the wanted ones of each are read once, from front to
back, and a row's place in the new table follows from the hashes alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike, NDArray

from refaug.core.progress import Progress
from refaug.indexer.columns import ROWS_A_BATCH, NpyWriter, TextColumn, TextWriter, map_array
from refaug.indexer.manifest import IndexManifest
from refaug.indexer.pair_table import SPEAKERS, TableCounts
from refaug.indexer.pair_table_sql import KeyRange, Keys
from refaug.indexer.search.search_tables import Rows
from refaug.indexer.search.segments import EXACT, PAIRS, SUPERSEDED, UTTERANCES

_UTTERANCE_NUMBERS: Final = {"utterance_key": np.uint64, "utterance_sha": np.uint64, "fingerprint": np.uint64}
_PAIR_NUMBERS: Final = {"response_key": np.uint64, "response_sha": np.uint64}
_OCCURRENCE_NUMBERS: Final = {
    "occurrence_log": np.uint16,
    "occurrence_dialogue": np.uint64,
    "occurrence_time": np.int64,
}


@dataclass(frozen=True, eq=False)
class _Places:
    """Rows of several segments in the order of a new table: which segment, and which row of it."""

    numbers: NDArray[np.int64]
    rows: Rows

    def pieces(self) -> Iterator[Self]:
        """Yield the rows, at most a batch of a text file at a time."""
        for first in range(0, len(self.rows), ROWS_A_BATCH):
            piece = slice(first, first + ROWS_A_BATCH)
            yield type(self)(self.numbers[piece], self.rows[piece])

    def owned(self, starts: Sequence[NDArray[np.int64]]) -> tuple[Self, NDArray[np.int64]]:
        """Return the rows that belong to these, in order, and how many belong to each."""
        begins = _gather_numbers(starts, self.numbers, self.rows)
        counts = _gather_numbers(starts, self.numbers, self.rows + 1) - begins
        first_places = np.cumsum(counts) - counts
        rows = np.repeat(begins - first_places, counts) + np.arange(int(counts.sum()))
        return type(self)(np.repeat(self.numbers, counts), rows), counts


class StoredTables:
    """The tables of a version's segments, with what updates have masked in them."""

    def __init__(self, version: Path, manifest: IndexManifest) -> None:
        self._folders = [version / info.folder for info in manifest.segments]
        self._masks = [version / SUPERSEDED.format(number) for number in range(len(self._folders))]
        self._keys = self._map("utterance_key", np.uint64)
        self._has_vectors = manifest.vectors.kind == "encoder"

    def write(self, folder: Path, key_range: KeyRange, progress: Progress) -> TableCounts:
        """Write the table of the utterances with keys in a range, as the log engine would write it from the logs."""
        utterances = self._places(key_range)
        progress.stage("writing utterances", len(utterances.rows), "utterances")
        with ExitStack() as stack:
            writers = _TableWriters(stack, folder, self._folders)
            for piece in utterances.pieces():
                writers.append(piece)
                progress.advance(len(piece.rows))
        if not writers.has_speakers:  # as in indexes of before there was this file
            (folder / SPEAKERS).unlink()
        if self._has_vectors:
            self._write_vectors(folder, utterances)
        return writers.counts()

    def _places(self, key_range: KeyRange) -> _Places:
        """Return the live utterances with keys in a range, in the order of their hashes, then of their keys."""
        bounds: Keys = np.array([key_range.lowest, key_range.highest], np.uint64)
        rows = list[Rows]()
        for keys, mask in zip(self._keys, self._masks, strict=True):
            chosen = (keys >= bounds[0]) & (keys <= bounds[1])
            if mask.exists():
                chosen &= ~map_array(mask, np.bool_)
            rows.append(np.flatnonzero(chosen))
        numbers = np.repeat(np.arange(len(rows)), [len(of_segment) for of_segment in rows])
        all_rows = np.concatenate(rows)
        hashes = self._map("utterance_sha", np.uint64)
        order = np.lexsort((_gather_numbers(self._keys, numbers, all_rows), _gather_numbers(hashes, numbers, all_rows)))
        return _Places(numbers[order], all_rows[order])

    def _write_vectors(self, folder: Path, utterances: _Places) -> None:
        """Write the encoder's vectors of the utterances: they cost more than anything else to make again."""
        vectors = self._map(EXACT.removesuffix(".npy"), np.float32)
        with NpyWriter(folder / EXACT, np.float32, width=vectors[0].shape[1]) as writer:
            for piece in utterances.pieces():
                writer.append(_gather_numbers(vectors, piece.numbers, piece.rows))

    def _map(self, name: str, dtype: DTypeLike) -> list[NDArray[Any]]:
        return [map_array(folder / f"{name}.npy", dtype) for folder in self._folders]


class _TableWriters:
    """Writes the files of a table side by side: utterances, the pairs of each, and the occurrences of each pair."""

    def __init__(self, stack: ExitStack, folder: Path, sources: Sequence[Path]) -> None:
        self._utterances = _LevelWriter(stack, folder, sources, UTTERANCES, ("text",), _UTTERANCE_NUMBERS)
        self._pairs = _LevelWriter(stack, folder, sources, PAIRS, ("text",), _PAIR_NUMBERS)
        self._occurrences = _LevelWriter(
            stack, folder, sources, "occurrences.arrow", ("dialogue", "position"), _OCCURRENCE_NUMBERS
        )
        self._speakers = _LevelWriter(stack, folder, sources, SPEAKERS, ("speaker",), {})
        self._pair_starts = _StartCopies(stack, folder, sources, "pair_start.npy")
        self._occurrence_starts = _StartCopies(stack, folder, sources, "occurrence_start.npy")

    @property
    def has_speakers(self) -> bool:
        """Whether any occurrence names a speaker."""
        return self._speakers.text_bytes > 0

    def append(self, utterances: _Places) -> None:
        """Append utterances with everything that belongs to them."""
        self._utterances.append(utterances)
        for pairs in self._pair_starts.append(utterances).pieces():
            self._pairs.append(pairs)
            for occurrences in self._occurrence_starts.append(pairs).pieces():
                self._occurrences.append(occurrences)
                self._speakers.append(occurrences)

    def counts(self) -> TableCounts:
        """Return the sizes of the table."""
        return TableCounts(
            utterances=self._utterances.rows,
            pairs=self._pairs.rows,
            occurrences=self._occurrences.rows,
            utterance_bytes=self._utterances.text_bytes,
            response_bytes=self._pairs.text_bytes,
        )


class _LevelWriter:
    """Writes the texts and numbers of one kind of rows."""

    def __init__(
        self,
        stack: ExitStack,
        folder: Path,
        sources: Sequence[Path],
        texts: str,
        columns: Sequence[str],
        numbers: dict[str, Any],
    ) -> None:
        self._texts = stack.enter_context(TextWriter(folder / texts, columns))
        self._columns = [
            [TextColumn.open(source / texts, column) if (source / texts).exists() else None for source in sources]
            for column in columns
        ]
        self._numbers = [
            (
                stack.enter_context(NpyWriter(folder / f"{name}.npy", dtype)),
                [map_array(source / f"{name}.npy", dtype) for source in sources],
            )
            for name, dtype in numbers.items()
        ]

    @property
    def rows(self) -> int:
        """How many rows were written."""
        return self._texts.rows

    @property
    def text_bytes(self) -> int:
        """The bytes of all texts that were written."""
        return self._texts.text_bytes

    def append(self, places: _Places) -> None:
        """Append rows of the segments."""
        self._texts.append(*(_gather_texts(column, places) for column in self._columns))
        for writer, sources in self._numbers:
            writer.append(_gather_numbers(sources, places.numbers, places.rows))


class _StartCopies:
    """Writes where the rows of each owner begin, and finds them in the segments."""

    def __init__(self, stack: ExitStack, folder: Path, sources: Sequence[Path], name: str) -> None:
        self._writer = stack.enter_context(NpyWriter(folder / name, np.int64))
        self._starts = [map_array(source / name, np.int64) for source in sources]
        self._end = 0
        self._writer.append(np.zeros(1, np.int64))

    def append(self, owners: _Places) -> _Places:
        """Append the ends of these owners' rows, and return their rows."""
        owned, counts = owners.owned(self._starts)
        self._writer.append(self._end + np.cumsum(counts))
        self._end += len(owned.rows)
        return owned


def _gather_numbers(sources: Sequence[NDArray[Any]], numbers: NDArray[np.int64], rows: Rows) -> NDArray[Any]:
    """Return the numbers of rows of several segments, in this order."""
    gathered = np.empty((len(rows), *sources[0].shape[1:]), sources[0].dtype)
    for number, source in enumerate(sources):
        here = numbers == number
        if here.any():
            gathered[here] = source[rows[here]]
    return gathered


def _gather_texts(sources: Sequence[TextColumn | None], places: _Places) -> pa.StringArray:
    """Return the texts of rows of several segments, in this order; empty ones where a segment has no such file."""
    texts, order = list[pa.StringArray](), list[NDArray[np.int64]]()
    for number, source in enumerate(sources):
        here = np.flatnonzero(places.numbers == number)
        if len(here):
            rows = places.rows[here]
            texts.append(pa.array([""] * len(rows), pa.string()) if source is None else source.take_ascending(rows))
            order.append(here)
    if not texts:
        return pa.array([], pa.string())
    return pa.concat_arrays(texts).take(pa.array(np.argsort(np.concatenate(order))))
