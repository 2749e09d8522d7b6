"""Co-occurrence counts of a log's words, exact within a memory budget.

Two words of one text, d apart and d at most the window, add 1/d to the sum of their pair (Pennington et al. 2014). The
matrix of these sums is symmetric, so only the half with row ≤ column is counted. A row is summed from the places where
its word occurs, not pair by pair: the sums of one row fit into a cache, those of all rows would not, and rows come out
in order without sorting. Texts are processed in chunks that fit the budget together with their places. When there are
several chunks, each writes a run of sorted rows to disk, and the runs are added up row by row at the end.

Sums are integers, in units of 2^-32, so neither budget nor batches change the result by a bit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from refaug.core.errors import BadInput, Corrupt, NotFound, Usage
from refaug.core.files import make_folder, read_json, remove_tree, write_json
from refaug.core.kernels.compiler import fetch_ahead
from refaug.core.kernels.kernel import compiled, frozen
from refaug.core.progress import Progress
from refaug.indexer.columns import NpyWriter, map_array

# ── Compiled loops of `cooccurrence.py`: packing texts, listing each word's places, summing rows, merging runs ────────
#
# A place is one number: the word's position in the packed texts, then how many words of its text are at most a window
# away to the left and to the right, 8 bits each. Indexes are unsigned where this spares the loops a test for negative
# ones.

COLUMNS_A_MARK = 16  # two cache lines of sums
COLUMNS_A_STEP = 8 * COLUMNS_A_MARK  # the loops check eight marks together; sums have a multiple of so many
_MARK_SHIFT = np.uint64(4)
_PLACE_SHIFT, _REACH_BITS, _REACH = np.uint64(16), np.uint64(8), np.uint64(255)
_PLACES_AHEAD = 8
_ONE = np.uint64(1)


@compiled
def pack(
    codes: NDArray[np.int32],
    start: int,
    end: int,
    window: int,
    packed: NDArray[np.uint32],
    used: int,
    reaches: NDArray[np.uint16],
    counts: NDArray[np.int64],
) -> int:
    """Append the known words of the text `codes[start:end]` with their reaches, and count them.

    Return the new length.
    """
    first, appended = np.uint64(used), 0
    for k in range(start, end):
        if codes[k] >= 0:
            packed[used + appended] = codes[k]
            counts[codes[k]] += 1
            appended += 1
    last = np.uint64(used + appended)
    for place in range(first, last):
        left_reach, right_reach = min(place - first, np.uint64(window)), min(last - _ONE - place, np.uint64(window))
        reaches[place] = left_reach << _REACH_BITS | right_reach
    return used + appended


@compiled
def pack_texts(
    codes: NDArray[np.int32],
    offsets: NDArray[np.int64],
    text: int,
    window: int,
    packed: NDArray[np.uint32],
    used: int,
    reaches: NDArray[np.uint16],
    counts: NDArray[np.int64],
) -> tuple[int, int]:
    """Append texts from the given one on until one might not fit; return the next text and the new length."""
    while text + 1 < len(offsets) and used + offsets[text + 1] - offsets[text] <= len(packed):
        used = pack(codes, offsets[text], offsets[text + 1], window, packed, used, reaches, counts)
        text += 1
    return text, used


@compiled
def list_places(
    packed: NDArray[np.uint32],
    reaches: NDArray[np.uint16],
    first: int,
    last: int,
    ends: NDArray[np.int64],
    places: NDArray[np.uint64],
) -> None:
    """Write each of the places first … last − 1 to its word's list and advance `ends`, where the lists end so far."""
    for place in range(np.uint64(first), np.uint64(last)):
        word = packed[place]
        places[ends[word]] = place << _PLACE_SHIFT | np.uint64(reaches[place])
        ends[word] += 1


@compiled
def sum_rows(
    packed: NDArray[np.uint32],
    places: NDArray[np.uint64],
    starts: NDArray[np.int64],  # (words + 1): where each word's places begin
    weights: NDArray[np.uint64],  # by distance from −window to window
    most_places: int,
    at: NDArray[np.int64],  # the row and the place to continue from; advanced
    sums: NDArray[np.uint64],
    marks: NDArray[np.uint8],
    rows_out: NDArray[np.int32],
    columns_out: NDArray[np.int32],
    sums_out: NDArray[np.uint64],
) -> int:
    """Sum rows until so many places were read or the output may lack room for a row; return how much was written."""
    written, remaining = 0, most_places
    while at[0] + 1 < len(starts) and remaining > 0 and written + len(sums) <= len(rows_out):
        row = at[0]
        until = min(starts[row + 1], at[1] + remaining)
        _gather(packed, places[at[1] : until], np.uint64(row), weights, sums, marks)
        remaining -= until - at[1]
        at[1] = until
        if until == starts[row + 1]:
            written = _flush_row(row, sums, marks, written, rows_out, columns_out, sums_out)
            at[0] += 1
    return written


@compiled
def _gather(
    packed: NDArray[np.uint32],
    places: NDArray[np.uint64],
    row: np.uint64,
    weights: NDArray[np.uint64],
    sums: NDArray[np.uint64],
    marks: NDArray[np.uint8],
) -> None:
    """Add the words around these places of a word to its row; smaller codes have the pair in their own rows.

    The place itself is included with the weight 0, which leaves no entry.
    """
    last = len(places) - 1
    for k in range(len(places)):
        first, after = _surroundings(places[min(k + _PLACES_AHEAD, last)])
        fetch_ahead(packed, first)
        fetch_ahead(packed, after - _ONE)
        first, after = _surroundings(places[k])
        to_weight = np.uint64(len(weights) // 2) - (places[k] >> _PLACE_SHIFT)
        for near in range(first, after):
            column = np.uint64(packed[near])
            if column >= row:
                sums[column] += weights[to_weight + near]
                marks[column >> _MARK_SHIFT] = 1


@compiled
def _surroundings(place: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Return the words around a place, itself included: the first of them, and the first after them."""
    at = place >> _PLACE_SHIFT
    return at - (place >> _REACH_BITS & _REACH), at + (place & _REACH) + _ONE


@compiled
def _flush_row(
    row: int,
    sums: NDArray[np.uint64],
    marks: NDArray[np.uint8],
    written: int,
    rows_out: NDArray[np.int32],
    columns_out: NDArray[np.int32],
    sums_out: NDArray[np.uint64],
) -> int:
    """Move a row's sums to the output, in order of columns, and reset them to zero."""
    steps = marks.view(np.uint64)
    for step in range(row // COLUMNS_A_STEP, len(steps)):
        if steps[step] == 0:
            continue
        for mark in range(8 * step, 8 * step + 8):
            if marks[mark] == 0:
                continue
            marks[mark] = 0
            for column in range(COLUMNS_A_MARK * mark, COLUMNS_A_MARK * (mark + 1)):
                rows_out[written], columns_out[written], sums_out[written] = row, column, sums[column]
                written += sums[column] != 0
                sums[column] = 0
    return written


@compiled
def merge_rows(
    columns: NDArray[np.int32],
    spilled: NDArray[np.uint64],
    starts: NDArray[np.int64],  # (runs, words + 1): where each run's rows begin
    most_entries: int,
    row: int,
    sums: NDArray[np.uint64],
    marks: NDArray[np.uint8],
    rows_out: NDArray[np.int32],
    columns_out: NDArray[np.int32],
    sums_out: NDArray[np.uint64],
) -> tuple[int, int, int]:
    """Add up the same rows of all runs until so many entries were read.

    Return the next row, entries written, and read.
    """
    written, read = 0, 0
    while row + 1 < starts.shape[1] and read < most_entries and written + len(sums) <= len(rows_out):
        for run in range(starts.shape[0]):
            for entry in range(starts[run, row], starts[run, row + 1]):
                column = np.uint64(columns[entry])
                sums[column] += spilled[entry]
                marks[column >> _MARK_SHIFT] = 1
            read += starts[run, row + 1] - starts[run, row]
        written = _flush_row(row, sums, marks, written, rows_out, columns_out, sums_out)
        row += 1
    return row, written, read


# ── Co-occurrence counts of a log's words, exact within a memory budget ───────────────────────────────────────────────

UNIT: Final = 2.0**-32  # of the integer sums
_MANIFEST: Final = "cooccurrences.json"
_RUN: Final = "run"
_FILES: Final = {"rows": np.int32, "columns": np.int32, "values": np.float32}
_BYTES_A_PLACE: Final = 4 + 2 + 8  # packed, its reach, its place in the list of its word
_FEWEST_PLACES: Final = 64  # a chunk holds at least so many, however small the budget
_PLACES_A_CALL: Final = 1 << 22  # about 0.2 s between two checks for Ctrl-C
_ENTRIES_A_CALL: Final = 1 << 20


@dataclass(frozen=True, kw_only=True)
class CooccurrenceSettings:
    """How far apart words may be, and how much memory counting may take."""

    window: int = 15  # words to each side, as in the original
    # For texts and their places; on top of it, counting takes some 50 bytes for each word of the vocabulary.
    memory_bytes: int = 1 << 30

    def __post_init__(self) -> None:
        if not 1 <= self.window <= 255:
            raise Usage(f"a window of {self.window} words", remedy="give a number from 1 to 255")
        if self.memory_bytes < 1:
            raise Usage(f"a memory budget of {self.memory_bytes} bytes", remedy="give at least 1")


@dataclass(frozen=True, kw_only=True, eq=False)
class Cooccurrences:
    """The nonzero sums of pairs with row ≤ column, in order of (row, column); mapped from disk."""

    words: int
    fingerprint: str  # the hash of the three arrays
    rows: NDArray[np.int32]
    columns: NDArray[np.int32]
    values: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.values)

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Open what `count_cooccurrences` wrote into a folder."""
        if not (folder / _MANIFEST).exists():
            raise NotFound(f"{folder} holds no finished count of co-occurrences", remedy="count them")
        manifest = read_json(folder / _MANIFEST)
        arrays = {name: map_array(folder / f"{name}.npy", dtype) for name, dtype in _FILES.items()}
        words, entries = manifest.get("words"), manifest.get("entries")
        if not isinstance(words, int) or any(len(array) != entries for array in arrays.values()):
            raise Corrupt(f"{folder}: its files do not hold the {entries} entries of {_MANIFEST}")
        return cls(words=words, fingerprint=str(manifest.get("fingerprint")), **arrays)


class Entries(NamedTuple):
    """Some of the matrix's entries, in order."""

    rows: NDArray[np.int32]
    columns: NDArray[np.int32]
    sums: NDArray[np.uint64]  # in units


Batch = tuple[NDArray[np.int32], NDArray[np.int64]]  # codes of many texts, and where each text begins


def count_cooccurrences(
    batches: Iterable[Batch], words: int, settings: CooccurrenceSettings, folder: Path, progress: Progress
) -> Cooccurrences:
    """Count the words 0 … words − 1 in texts of codes; unknown words, which have negative codes, are removed first."""
    begin_counts(words, folder)
    with ExitStack() as files:
        pieces = _matrix(batches, words, settings, _Runs(folder / "runs", words, files), progress)
        _write(pieces, words, settings, folder, files)
    remove_tree(folder / "runs")
    return Cooccurrences.open(folder)


def begin_counts(words: int, folder: Path) -> None:
    """Make a folder ready for the counts of a vocabulary."""
    if words < 2:
        raise BadInput(f"a vocabulary of {words} words has no pairs", remedy="lower the count that a word must reach")
    make_folder(folder)
    (folder / _MANIFEST).unlink(missing_ok=True)


def write_cooccurrences(
    pieces: Iterable[Entries], words: int, settings: CooccurrenceSettings, folder: Path
) -> Cooccurrences:
    """Write sums that were counted elsewhere, all of them and in order."""
    begin_counts(words, folder)
    with ExitStack() as files:
        _write(pieces, words, settings, folder, files)
    return Cooccurrences.open(folder)


def count_into_run(
    batches: Iterable[Batch], words: int, settings: CooccurrenceSettings, folder: Path, progress: Progress
) -> None:
    """Count some of all texts into a run, which `add_runs` adds to the runs of other texts."""
    with ExitStack() as files:
        pieces = _matrix(batches, words, settings, _Runs(folder / "runs", words, files), progress)
        _Runs(folder / _RUN, words, files).add(pieces)
    remove_tree(folder / "runs")


def run_lengths(folder: Path) -> NDArray[np.int64]:
    """Return the number of entries of each row of a run."""
    lengths: NDArray[np.int64] = np.diff(map_array(folder / _RUN / "starts.npy", np.int64)[0])
    return lengths


def add_runs(folders: Sequence[Path], first: int, last: int) -> Iterator[Entries]:
    """Yield the sum of rows first … last − 1 of all runs, in pieces that are valid until the next one."""
    columns, sums, starts = list[NDArray[np.int32]](), list[NDArray[np.uint64]](), list[NDArray[np.int64]]()
    words, before = 0, 0
    for folder in folders:
        of_run = map_array(folder / _RUN / "starts.npy", np.int64)[0]
        words, (begin, end) = len(of_run) - 1, of_run[[first, last]].tolist()
        columns.append(map_array(folder / _RUN / "columns.npy", np.int32)[begin:end])
        sums.append(map_array(folder / _RUN / "sums.npy", np.uint64)[begin:end])
        starts.append(of_run[first : last + 1] - begin + before)
        before += end - begin
    runs = (frozen(np.concatenate(columns)), frozen(np.concatenate(sums)), frozen(np.stack(starts)))
    merged_row, row = _MatrixRow(words), 0
    while row < last - first:
        row, written, _ = merge_rows(*runs, _ENTRIES_A_CALL, row, merged_row.sums, merged_row.marks, *merged_row.out)
        entries = merged_row.written_entries(written)
        yield entries._replace(rows=entries.rows + np.int32(first))


def _matrix(
    batches: Iterable[Batch], words: int, settings: CooccurrenceSettings, runs: _Runs, progress: Progress
) -> Iterator[Entries]:
    """Yield all entries in order, in pieces that are valid until the next one."""
    progress.stage("co-occurrences", unit="words")
    chunk = _Chunk(words, settings)
    for codes, offsets in batches:
        assert codes.max(initial=-1) < words, "codes must be those of the vocabulary"
        text = 0
        while (text := chunk.add(codes, offsets, text)) + 1 < len(offsets):
            runs.add(chunk.entries(progress))
            chunk.clear()
    if not runs.count:
        yield from chunk.entries(progress)
        return
    runs.add(chunk.entries(progress))
    del chunk  # frees the memory of the budget
    progress.stage("adding up co-occurrences", runs.entries, "entries")
    yield from runs.merge(progress)


def _write(
    pieces: Iterable[Entries], words: int, settings: CooccurrenceSettings, folder: Path, files: ExitStack
) -> None:
    """Write the matrix, and its manifest last."""
    hashes = {name: hashlib.sha256() for name in _FILES}
    writers = {name: files.enter_context(NpyWriter(folder / f"{name}.npy", dtype)) for name, dtype in _FILES.items()}
    for piece in pieces:
        values = (piece.sums * UNIT).astype(np.float32)
        for name, array in (("rows", piece.rows), ("columns", piece.columns), ("values", values)):
            writers[name].append(array)
            hashes[name].update(array.data)
    entries = {writer.close() for writer in writers.values()}.pop()
    if not entries:
        raise BadInput("no two known words stand in one text", remedy="give more texts, or a larger vocabulary")
    whole = hashlib.sha256("".join([str(words), *(digest.hexdigest() for digest in hashes.values())]).encode())
    facts = {"words": words, "window": settings.window, "entries": entries, "fingerprint": whole.hexdigest()}
    write_json(folder / _MANIFEST, facts)


class _MatrixRow:
    """The sums of the row being computed, all zero between two rows, and a buffer for finished rows."""

    def __init__(self, words: int) -> None:
        size = -(-words // COLUMNS_A_STEP) * COLUMNS_A_STEP
        room = max(_ENTRIES_A_CALL, size)
        self.sums = np.zeros(size, np.uint64)
        self.marks = np.zeros(size // COLUMNS_A_MARK, np.uint8)
        self.out = Entries(np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room, np.uint64))

    def written_entries(self, count: int) -> Entries:
        """Return the entries that a kernel wrote; valid until the next call."""
        return Entries(self.out.rows[:count], self.out.columns[:count], self.out.sums[:count])


class _Chunk:
    """Texts that fit into the budget, and their matrix."""

    def __init__(self, words: int, settings: CooccurrenceSettings) -> None:
        weights = [round(1 / (distance * UNIT)) for distance in range(1, settings.window + 1)]
        self._weights = np.array([*reversed(weights), 0, *weights], np.uint64)
        self._row = _MatrixRow(words)
        self._counts = np.zeros(words, np.int64)
        self._allocate(max(_FEWEST_PLACES, settings.memory_bytes // _BYTES_A_PLACE))

    def _allocate(self, places: int) -> None:
        """Allocate empty arrays: memory that is never written to is never used."""
        self._packed, self._reaches = np.empty(places, np.uint32), np.empty(places, np.uint16)
        self._used = 0

    def add(self, codes: NDArray[np.int32], offsets: NDArray[np.int64], text: int) -> int:
        """Append texts from the given one on while there is room; return the first text that does not fit."""
        if self._used == 0 and text + 1 < len(offsets) and offsets[text + 1] - offsets[text] > len(self._packed):
            self._allocate(int(offsets[text + 1] - offsets[text]))  # the caller holds this text in memory as well
        window = len(self._weights) // 2
        text, self._used = pack_texts(
            codes, offsets, text, window, self._packed, self._used, self._reaches, self._counts
        )
        return text

    def clear(self) -> None:
        """Remove all texts."""
        self._used = 0
        self._counts[:] = 0

    def entries(self, progress: Progress) -> Iterator[Entries]:
        """Yield the matrix of the texts, in pieces that are valid until the next one."""
        starts = np.concatenate(([0], np.cumsum(self._counts)))
        places, at = self._list_places(starts), np.zeros(2, np.int64)
        while at[0] + 1 < len(starts):
            before = int(at[1])
            written = sum_rows(
                self._packed,
                places,
                starts,
                self._weights,
                _PLACES_A_CALL,
                at,
                self._row.sums,
                self._row.marks,
                *self._row.out,
            )
            progress.advance(int(at[1]) - before)
            yield self._row.written_entries(written)

    def _list_places(self, starts: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Return the places of each word, word after word."""
        places, ends = np.empty(starts[-1], np.uint64), starts[:-1].copy()
        for first in range(0, self._used, _PLACES_A_CALL):
            last = min(first + _PLACES_A_CALL, self._used)
            list_places(self._packed, self._reaches, first, last, ends, places)
        return places


class _Runs:
    """The matrices of earlier chunks, one after the other in the same files."""

    def __init__(self, folder: Path, words: int, files: ExitStack) -> None:
        self._folder, self._words, self._files = folder, words, files
        self.count, self.entries = 0, 0

    def add(self, pieces: Iterable[Entries]) -> None:
        """Append a matrix on disk."""
        if self.count == 0:
            self._start()
        lengths = np.zeros(self._words, np.int64)
        for piece in pieces:
            self._columns.append(piece.columns)
            self._sums.append(piece.sums)
            lengths += np.bincount(piece.rows, minlength=self._words)
        starts = self.entries + np.concatenate(([0], np.cumsum(lengths)))
        self._starts.append(starts[None])
        self.entries = int(starts[-1])
        self.count += 1

    def _start(self) -> None:
        remove_tree(self._folder)  # of an interrupted run
        make_folder(self._folder)
        self._columns = self._writer("columns", np.int32)
        self._sums = self._writer("sums", np.uint64)
        self._starts = self._writer("starts", np.int64, width=self._words + 1)

    def _writer(self, name: str, dtype: DTypeLike, *, width: int | None = None) -> NpyWriter:
        return self._files.enter_context(NpyWriter(self._folder / f"{name}.npy", dtype, width=width))

    def merge(self, progress: Progress) -> Iterator[Entries]:
        """Yield the sum of all matrices, in pieces that are valid until the next one."""
        columns, sums, starts = (_close_and_map(writer) for writer in (self._columns, self._sums, self._starts))
        merged_row, row = _MatrixRow(self._words), 0
        while row < self._words:
            row, written, read = merge_rows(
                columns, sums, starts, _ENTRIES_A_CALL, row, merged_row.sums, merged_row.marks, *merged_row.out
            )
            progress.advance(read)
            yield merged_row.written_entries(written)


def _close_and_map(writer: NpyWriter) -> NDArray[Any]:
    """Close a writer and map what it wrote."""
    writer.close()
    return map_array(writer.path, writer.dtype)
