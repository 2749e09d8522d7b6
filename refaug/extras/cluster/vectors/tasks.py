"""The tasks that count words and co-occurrences of pieces of logs, and add up the counts.

Every task may run twice, on two machines at once: what it writes depends on its arguments alone. Sums are integers, so
neither the number of pieces nor the order in which they come changes a bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from refaug.core.errors import Conflict, NotFound, SourceChanged
from refaug.core.files import make_folder, read_json, remove_tree, unique_suffix, write_aside, write_json
from refaug.core.progress import Silent
from refaug.core.text.tokenizer_base import Tokenizer
from refaug.extras.cluster.calls import machine_name
from refaug.extras.cluster.node_requirements import require_versions
from refaug.indexer.columns import NpyWriter, map_array
from refaug.indexer.manifest import software
from refaug.indexer.tokens.tokens import Splitter, Tokens, WordCounts, WordTable
from refaug.indexer.tokens.vocabulary import load_tokenizer
from refaug.indexer.vectors import cooccurrence
from refaug.indexer.vectors.coverage import CoverageCounter
from refaug.logs.store import StoredLog

_COVERAGE: Final = "coverage.json"
MERGED: Final = {"rows": np.int32, "columns": np.int32, "sums": np.uint64}


@dataclass(frozen=True, kw_only=True)
class LogTurns:
    """Neighbouring row groups of a part of a log."""

    log: str
    part: int
    sha256: str  # of the part
    first: int
    last: int


@dataclass(frozen=True, kw_only=True)
class CountOrder:
    """What every task needs to know."""

    logs: Path
    scratch: Path
    tokenizer: str
    tokenizer_version: str
    settings: cooccurrence.CooccurrenceSettings
    software: Mapping[str, str]


def pieces_of(logs: Sequence[StoredLog], rows: int) -> list[LogTurns]:
    """Cut logs into pieces of about so many rows."""
    pieces = list[LogTurns]()
    for log in logs:
        for number, part in enumerate(log.manifest.parts):
            with pq.ParquetFile(log.folder / part.file) as file:
                sizes = [file.metadata.row_group(group).num_rows for group in range(file.metadata.num_row_groups)]
            first, gathered = 0, 0
            for group, size in enumerate(sizes):
                gathered += size
                if gathered >= rows or group == len(sizes) - 1:
                    name = log.manifest.name
                    pieces.append(LogTurns(log=name, part=number, sha256=part.sha256, first=first, last=group + 1))
                    first, gathered = group + 1, 0
    return pieces


def _tokens(order: CountOrder, piece: LogTurns) -> Iterator[Tokens]:
    """Yield the words of a piece's turns, as they are counted in the whole log."""
    log = StoredLog.open(order.logs, piece.log)
    parts = log.manifest.parts
    if piece.part >= len(parts) or parts[piece.part].sha256 != piece.sha256:
        raise SourceChanged(
            f"log {piece.log} has changed while it was counted", remedy="run the same command again: it reads it anew"
        )
    splitter = Splitter(_tokenizer(order))
    for turns in log.turns_of(piece.part, piece.first, piece.last):
        yield splitter.split(turns)


def _tokenizer(order: CountOrder) -> Tokenizer:
    if not order.scratch.is_dir():
        raise NotFound(
            f"the machine {machine_name()} of the cluster does not see {order.scratch}",
            remedy="mount REFAUG_HOME under the same path on all machines",
        )
    require_versions(order.software, software(), machine_name())
    tokenizer = load_tokenizer(order.tokenizer, order.scratch)
    if tokenizer.version != order.tokenizer_version:
        raise Conflict(
            f"the machine {machine_name()} of the cluster has {tokenizer.version} of the tokenizer {tokenizer.name}; "
            f"{order.tokenizer_version} is used here",
            remedy="install the versions of requirements.lock on all machines",
        )
    return tokenizer


# Words


def count_words(order: CountOrder, piece: LogTurns, target: str) -> int:
    """Write the words of a piece and how often they occur into a file; return how many there are, with repetitions."""
    counts = WordCounts()
    for tokens in _tokens(order, piece):
        counts.add(tokens)
    spelled, numbers = counts.spelled()
    table = pa.table({"word": spelled, "count": pa.array(numbers)})
    with write_aside(order.scratch / target) as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    return counts.total


# Co-occurrences


def count_neighbours(order: CountOrder, piece: LogTurns, target: str, shared: NDArray[np.uint64]) -> int:
    """Write the sums of a piece into a folder, row after row, with the coverage of its turns; return the turns.

    `shared` has the hashes of the words in the order of their codes.
    """
    table, coverage = WordTable.of_hashes(shared), CoverageCounter(len(shared))
    batches = (coverage.codes(table, tokens.hashes, tokens.offsets) for tokens in _tokens(order, piece))
    with _folder(order.scratch, target) as folder:
        cooccurrence.count_into_run(batches, len(shared), order.settings, folder, Silent())
        write_json(folder / _COVERAGE, coverage.as_facts())
    return coverage.coverage.texts


def coverage_of_run(folder: Path) -> Mapping[str, int]:
    """Return the coverage that `count_neighbours` wrote."""
    return read_json(folder / _COVERAGE)  # type: ignore[return-value]


def add_up(order: CountOrder, runs: Sequence[str], first: int, last: int, target: str) -> int:
    """Write the sums of all pieces for a range of rows; return how many entries they are."""
    entries = 0
    with _folder(order.scratch, target) as folder, ExitStack() as files:
        writers = {
            name: files.enter_context(NpyWriter(folder / f"{name}.npy", dtype)) for name, dtype in MERGED.items()
        }
        for piece in cooccurrence.add_runs([order.scratch / run for run in runs], first, last):
            arrays: tuple[NDArray[Any], ...] = (piece.rows, piece.columns, piece.sums)
            for writer, array in zip(writers.values(), arrays, strict=True):
                writer.append(array)
            entries += len(piece.rows)
    return entries


def merged_entries(folder: Path, most: int) -> Iterator[cooccurrence.Entries]:
    """Yield what `add_up` wrote, in pieces."""
    rows, columns, sums = (map_array(folder / f"{name}.npy", dtype) for name, dtype in MERGED.items())
    for begin in range(0, len(rows), most):
        yield cooccurrence.Entries(
            *(np.ascontiguousarray(array[begin : begin + most]) for array in (rows, columns, sums))
        )


def row_ranges(runs: Sequence[Path], words: int, most: int) -> list[tuple[int, int]]:
    """Return ranges of rows with about so many entries of all runs together; a row is at least a range."""
    lengths = np.zeros(words, np.int64)
    for run in runs:
        lengths += cooccurrence.run_lengths(run)
    ends, ranges, first = np.cumsum(lengths), list[tuple[int, int]](), 0
    while first < words:
        before = int(ends[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(ends, before + most, side="right")))
        ranges.append((first, last))
        first = last
    return ranges


@contextmanager
def _folder(scratch: Path, target: str) -> Iterator[Path]:
    """Yield an empty folder that gets its name when the block ends; another attempt may have been faster."""
    aside = scratch / f"{target}-{unique_suffix()}"
    make_folder(aside)
    try:
        yield aside
        aside.rename(scratch / target)
    except OSError:
        if not (scratch / target).is_dir():
            raise
    finally:
        remove_tree(aside)
