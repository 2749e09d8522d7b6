"""A cluster as the steps of an ingest use it: what its machines see, read and join, gathered here in order.

This process reads no source. It counts floods, writes the parts of the log in the order of the sources, and finds each
message's place in its tree, for which it reads ids alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import pyarrow as pa

from refaug.core.cluster.alike import require_alike
from refaug.core.cluster.connection import Cluster
from refaug.core.errors import NoSource
from refaug.core.progress import Progress
from refaug.logs.ingest.on_cluster import tasks
from refaug.logs.ingest.on_cluster.block_files import read_block_results
from refaug.logs.ingest.on_cluster.tasks import Piece, ReadOrder, piece_file, with_absolute_paths
from refaug.logs.ingest.order import IngestOrder, Unit
from refaug.logs.ingest.pairing import BlockResult, ReadSettings
from refaug.logs.ingest.reply_trees import Trees
from refaug.logs.ingest.stage import Stage
from refaug.logs.manifest import PACKAGES
from refaug.logs.reading.formats import Container
from refaug.logs.reading.sources import LineCut, Source

PROCESS: Final = 300 << 20  # bytes of a task's process that has read its modules
_TIMES_A_BLOCK: Final = 30  # bytes of work for each byte of a block
_MESSAGES_A_SLICE: Final = 1_000_000
_RANGES_A_TASK: Final = 5
_CUT: Final = (Container.JSON, Container.TSV)  # their blocks are lines of the file, which stand by themselves
_SHOWN: Final = 5


class IngestCluster:
    """The cluster that an ingest runs on."""

    def __init__(self, cluster: Cluster, order: IngestOrder, progress: Progress) -> None:
        self._cluster, self._order, self._progress = cluster, order, progress
        self._cuts: dict[Path, Sequence[LineCut] | None] = {}

    @property
    def _on_machines(self) -> str:
        return f"on {len(self._cluster.nodes())} machines"

    @property
    def read_memory(self) -> int:
        """The memory of a task that reads."""
        return PROCESS + _TIMES_A_BLOCK * self._order.block_bytes

    @property
    def tree_memory(self) -> int:
        """The memory of a task that sorts or joins messages."""
        return PROCESS + self._order.memory

    def require_alike(self, log: Path, files: Sequence[Path]) -> None:
        """Refuse a cluster with a machine that does not see the log or a source, or has other software."""
        self._cluster.require_room(1, self.read_memory)
        paths = [file.resolve() for file in files]
        for node, seen in require_alike(self._cluster, log.resolve(), PACKAGES, self._progress, files=paths):
            if seen.unreadable:
                raise NoSource(
                    f"the machine {node.address} of the cluster cannot read {_shown(seen.unreadable)}",
                    remedy="mount the sources' folder under the same path on all machines",
                )

    def fingerprints(self, files: Sequence[Path]) -> list[Source]:
        """Compute the fingerprints of sources, a task each, and where those that are plain text can be cut."""
        sizes = [file.stat().st_size for file in files]
        self._progress.stage(f"fingerprints {self._on_machines}", sum(sizes), "B")
        calls = [
            {
                "path": file.resolve(),
                "name": str(file),
                "encoding": self._order.encoding,
                "block_bytes": self._order.block_bytes,
            }
            for file in files
        ]
        sources = dict[int, Source]()
        for number, examined in self._run(tasks.examine, calls):
            source = replace(examined.source, path=files[number])
            source.require_unchanged()  # as this machine sees it
            sources[number], self._cuts[files[number]] = source, examined.cuts
            self._progress.advance(sizes[number])
        return [sources[number] for number in range(len(files))]

    def reading(self, stage: Stage, settings: Sequence[ReadSettings]) -> ClusterReading:
        """Begin to read all that is not yet gathered."""
        order = ReadOrder(
            units=[with_absolute_paths(unit) for unit in stage.units],
            settings=settings,
            encoding=self._order.encoding,
            block_bytes=self._order.block_bytes,
            blocks_a_piece=tasks.BLOCKS_A_PIECE,
        )
        return ClusterReading(stage, order, [self._cuts_of(unit) for unit in stage.units], self._read)

    def stage_name(self, what: str) -> str:
        """Return the name of a stage for the progress."""
        return f"{what} {self._on_machines}"

    def _cuts_of(self, unit: Unit) -> Sequence[LineCut] | None:
        return self._cuts.get(unit.sources[0].path) if unit.format.container in _CUT else None

    def _read(self, folder: Path, pieces: Sequence[Piece], order: ReadOrder) -> Iterator[tuple[int, int]]:
        calls = [{"folder": folder, "piece": piece} for piece in pieces]
        return self._run(tasks.read_piece, calls, memory=self.read_memory, shared=order)

    def tree_pairs(self, stage: Stage, trees: Trees) -> Iterator[pa.RecordBatch]:
        """Yield the pairs of linked messages: their texts are sorted by tree in slices, then joined tree by tree."""
        folder = stage.folder.resolve()
        slices = _slices(stage.state.message_parts)
        self._progress.stage(self.stage_name("sorting messages by tree"), len(slices), "tasks")
        sort_calls, first = list[dict[str, Any]](), 0
        for number, parts in enumerate(slices):
            rows = sum(part["pairs"] for part in parts)
            place, target = folder / f"place-{number:05}.parquet", f"by-tree-{number:05}.parquet"
            if not (folder / target).exists():
                trees.write_places(place, first, first + rows - 1)
                paths = [folder / part["file"] for part in parts]
                sort_calls.append({"parts": paths, "place": place, "target": target})
            first += rows
        self._progress.advance(len(slices) - len(sort_calls))
        self._finish(tasks.sort_slice, folder, sort_calls)
        ranges = trees.ranges()
        join_calls: list[dict[str, Any]] = [
            {
                "slices": [folder / f"by-tree-{number:05}.parquet" for number in range(len(slices))],
                "ranges": ranges[begin : begin + _RANGES_A_TASK],
                "target": f"tree-pairs-{begin:06}.arrow",
            }
            for begin in range(0, len(ranges), _RANGES_A_TASK)
        ]
        lacking = [call for call in join_calls if not (folder / call["target"]).exists()]
        self._progress.stage(self.stage_name("joining message trees"), len(join_calls), "tasks")
        self._progress.advance(len(join_calls) - len(lacking))
        self._finish(tasks.pair_trees, folder, lacking)
        self._progress.stage("writing pairs", unit="pairs")
        for call in join_calls:
            with pa.memory_map(str(folder / call["target"])) as file, pa.ipc.open_file(file) as reader:
                yield from (reader.get_batch(number) for number in range(reader.num_record_batches))

    def _finish(self, task: Callable[..., Any], folder: Path, calls: Sequence[Mapping[str, Any]]) -> None:
        whole = [{**call, "folder": folder, "memory": self._order.memory} for call in calls]
        for _ in self._run(task, whole, memory=self.tree_memory):
            self._progress.advance(1)

    def _run(
        self, task: Callable[..., Any], calls: Sequence[Mapping[str, Any]], *, memory: int = 0, shared: Any = None
    ) -> Iterator[tuple[int, Any]]:
        value = None if shared is None or not calls else self._cluster.share(shared)
        return self._cluster.run(task, calls, memory=memory, shared=value, look=lambda: self._progress.advance(0))


def _slices(parts: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """Return neighbouring parts together, about as many messages each."""
    slices, messages = list[list[Mapping[str, Any]]]([[]]), 0
    for part in parts:
        if messages >= _MESSAGES_A_SLICE:
            slices.append([])
            messages = 0
        slices[-1].append(part)
        messages += part["pairs"]
    return slices


def _shown(unreadable: Sequence[tuple[Path, str]]) -> str:
    shown = ", ".join(f"{path} ({reason})" for path, reason in unreadable[:_SHOWN])
    further = len(unreadable) - _SHOWN
    return f"{shown} and {further:,} further sources" if further > 0 else shown


@dataclass
class ClusterReading:
    """The results of all blocks in order, read by tasks that run ahead and leave them in files of the stage."""

    stage: Stage
    order: ReadOrder
    cuts: Sequence[Sequence[LineCut] | None]  # one a unit
    read: Callable[[Path, Sequence[Piece], ReadOrder], Iterator[tuple[int, int]]]

    def __post_init__(self) -> None:
        self._folder = self.stage.folder.resolve()
        self._gathered = list[tuple[int, int, Path]]()  # unit, blocks of it until the end of a piece, and its file
        self._pieces_of: dict[int, int] = {}  # units that are read to their end without cuts
        self._running: Iterator[tuple[int, int]] = iter(())

    def __enter__(self) -> Self:
        self._running = self._begin()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        self._running.close()  # type: ignore[attr-defined]  # a generator: it stops its tasks

    def _begin(self) -> Iterator[tuple[int, int]]:
        state, lacking = self.stage.state, list[Piece]()
        for unit in range(state.unit, len(self.stage.units)):
            first = state.blocks // self.order.blocks_a_piece if unit == state.unit else 0
            lacking += [piece for piece in self._pieces(unit, first) if self._lacks(piece)]
        for place, pieces in self.read(self._folder, lacking, self.order):
            if lacking[place].cuts is None:
                self._pieces_of[lacking[place].unit] = pieces
            yield place, pieces

    def _pieces(self, unit: int, first: int) -> Iterator[Piece]:
        cuts, size = self.cuts[unit], self.order.blocks_a_piece
        if cuts is None:
            yield Piece(unit=unit, number=first, cuts=None)
            return
        for number in range(first, -(-len(cuts) // size)):
            yield Piece(unit=unit, number=number, cuts=cuts[number * size : (number + 1) * size])

    def _lacks(self, piece: Piece) -> bool:
        """Whether a task has to run; one without cuts says how many pieces there are."""
        return piece.cuts is None or not (self._folder / piece_file(piece.unit, piece.number)).exists()

    def results(self, unit: int, first: int) -> Iterator[tuple[BlockResult, int]]:
        """Yield the results of a unit's blocks from one on, each with the position of its end in the source."""
        size, cuts = self.order.blocks_a_piece, self.cuts[unit]
        number = first // size
        while number < self._wait_for_count(unit, cuts):
            path = self._folder / piece_file(unit, number)
            while not path.exists():
                next(self._running)
            begin = number * size
            yield from islice(read_block_results(path), max(0, first - begin), None)
            number += 1
            self._gathered.append((unit, number * size, path))
            self._remove_saved()

    def _wait_for_count(self, unit: int, cuts: Sequence[LineCut] | None) -> int:
        if cuts is not None:
            return -(-len(cuts) // self.order.blocks_a_piece)
        while unit not in self._pieces_of:
            next(self._running)
        return self._pieces_of[unit]

    def _remove_saved(self) -> None:
        """Remove the files of what the state of the stage has saved."""
        state, waiting = self.stage.state, list[tuple[int, int, Path]]()
        for unit, blocks, path in self._gathered:
            if (unit, blocks) <= (state.unit, state.blocks):
                with suppress(FileNotFoundError):
                    path.unlink()
            else:
                waiting.append((unit, blocks, path))
        self._gathered = waiting
