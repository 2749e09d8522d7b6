"""Counting words and their neighbours on a cluster: the same bytes as on one machine, from tasks that are summed.

Counts of words are added here; co-occurrences are added by tasks, each for a range of rows, and only strung together
here. Results lie in files of a folder beside the stages, so that a stopped count goes on from finished tasks.

Every task may run twice, on two machines at once: what it writes depends on its arguments alone. Sums are integers, so
neither the number of pieces nor the order in which they come changes a bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from refaug.core.artefacts.build_stages import Stages
from refaug.core.errors import Conflict, NotFound, SourceChanged
from refaug.core.files import make_folder, read_json, remove_tree, unique_suffix, write_aside, write_json
from refaug.core.progress import Progress, Silent
from refaug.core.text.tokenizer_base import Tokenizer
from refaug.extras.cluster.calls import machine_name
from refaug.extras.cluster.connection import Cluster
from refaug.extras.cluster.node_requirements import require_alike, require_versions
from refaug.indexer.columns import NpyWriter, map_array
from refaug.indexer.manifest import PACKAGES, software
from refaug.indexer.tokens import Splitter, Tokens, WordCounts, WordTable, hash_words, load_tokenizer, save_tokenizer
from refaug.indexer.vectors import cooccurrence
from refaug.indexer.vectors.cooccurrence import Cooccurrences, CooccurrenceSettings, Entries, write_cooccurrences
from refaug.indexer.vectors.training import CoverageCounter
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


_ROWS_A_PIECE: Final = 1_000_000
_PROCESS: Final = 250 << 20  # bytes of a task's process with its modules and compiled kernels
_A_WORD: Final = 50  # bytes of a count for each word of the vocabulary
_BYTES_AN_ENTRY: Final = 32  # of adding up
_ENTRIES_AT_ONCE: Final = 1 << 20


@dataclass(frozen=True, kw_only=True)
class ClusterCounting:
    """Both counts of some logs, as tasks of a cluster."""

    cluster: Cluster
    order: CountOrder
    pieces: Sequence[LogTurns]
    progress: Progress

    @classmethod
    def begin(
        cls,
        cluster: Cluster,
        stages: Stages,
        logs: Sequence[StoredLog],
        tokenizer: Tokenizer,
        settings: CooccurrenceSettings,
        progress: Progress,
    ) -> ClusterCounting:
        """Make the folder of the tasks' results, and check that all machines see it and have the same software."""
        scratch = stages.folder.resolve() / "cluster"
        make_folder(scratch)
        save_tokenizer(tokenizer, scratch)
        order = CountOrder(
            logs=logs[0].folder.parent.resolve(),
            scratch=scratch,
            tokenizer=tokenizer.name,
            tokenizer_version=tokenizer.version,
            settings=settings,
            software=software(),
        )
        counting = cls(cluster=cluster, order=order, pieces=pieces_of(logs, _ROWS_A_PIECE), progress=progress)
        cluster.require_room(1, counting._memory(0))
        require_alike(cluster, scratch, PACKAGES, progress)
        return counting

    def count_words(self, counts: WordCounts) -> None:
        """Count the words of all pieces, and add them up."""
        targets = [f"words-{number:06}.arrow" for number in range(len(self.pieces))]
        calls = [{"piece": piece, "target": target} for piece, target in zip(self.pieces, targets, strict=True)]
        self._run("counting words", count_words, calls, memory=_PROCESS)
        for target in targets:
            with pa.memory_map(str(self.order.scratch / target)) as file, pa.ipc.open_file(file) as reader:
                table = reader.read_all().combine_chunks()
                if table.num_rows:
                    counts.add_counts(table["word"].chunk(0), table["count"].to_numpy())
            self.progress.advance(0)

    def count_neighbours(self, words: Sequence[str], coverage: CoverageCounter, folder: Path) -> Cooccurrences:
        """Count the co-occurrences of all pieces, add them up, and write them as one machine does."""
        runs = [f"neighbours-{number:06}" for number in range(len(self.pieces))]
        calls = [{"piece": piece, "target": run} for piece, run in zip(self.pieces, runs, strict=True)]
        memory, hashes = self._memory(len(words)), hash_words(words)
        self._run("co-occurrences", count_neighbours, calls, memory=memory, shared=hashes)
        paths = [self.order.scratch / run for run in runs]
        for path in paths:
            coverage.add_facts(coverage_of_run(path))
        ranges = row_ranges(paths, len(words), max(1, self.order.settings.memory_bytes // _BYTES_AN_ENTRY))
        sums = [f"sums-{first:09}-{last:09}" for first, last in ranges]
        calls = [
            {"runs": runs, "first": first, "last": last, "target": target}
            for (first, last), target in zip(ranges, sums, strict=True)
        ]
        self._run("adding up co-occurrences", add_up, calls, memory=memory)
        return write_cooccurrences(self._entries(sums), len(words), self.order.settings, folder)

    def clear(self) -> None:
        """Remove what the tasks have written."""
        remove_tree(self.order.scratch)

    def _memory(self, words: int) -> int:
        return _PROCESS + self.order.settings.memory_bytes + _A_WORD * words

    def _entries(self, sums: Sequence[str]) -> Iterator[Entries]:
        for target in sums:
            yield from merged_entries(self.order.scratch / target, _ENTRIES_AT_ONCE)
            self.progress.advance(0)

    def _run(
        self,
        what: str,
        task: Callable[..., Any],
        calls: Sequence[Mapping[str, Any]],
        *,
        memory: int,
        shared: Any = None,
    ) -> None:
        """Run the tasks whose result is not there yet."""
        lacking = [
            {"order": self.order, **call} for call in calls if not (self.order.scratch / call["target"]).exists()
        ]
        self.progress.stage(f"{what} on {len(self.cluster.nodes())} machines", len(calls), "tasks")
        self.progress.advance(len(calls) - len(lacking))
        value = None if shared is None or not lacking else self.cluster.share(shared)
        done = self.cluster.run(task, lacking, memory=memory, shared=value, look=lambda: self.progress.advance(0))
        for _ in done:
            self.progress.advance(1)
