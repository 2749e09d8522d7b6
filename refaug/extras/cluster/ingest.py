"""A cluster as the steps of an ingest use it: what its machines see, read and join, gathered here in order.

This process reads no source. It counts floods, writes the parts of the log in the order of the sources, and finds each
message's place in its tree, for which it reads ids alone.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from itertools import count, groupby, islice
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from refaug.core.errors import Conflict, Corrupt, NoSource, RefaugError
from refaug.core.files import unique_suffix, write_aside
from refaug.core.progress import Progress
from refaug.core.query_engine import QueryEngine
from refaug.extras.cluster.calls import machine_name
from refaug.extras.cluster.connection import Cluster
from refaug.extras.cluster.node_requirements import require_alike
from refaug.logs.ingest.order import IngestOrder, Stage, Unit
from refaug.logs.ingest.pairing import BlockResult, ReadSettings, Reject, block_worker
from refaug.logs.ingest.reply_trees import TREE_PAIR_SCHEMA, Trees, pairs_of_trees, sort_by_tree
from refaug.logs.manifest import PACKAGES
from refaug.logs.reading.containers import Block, as_stream
from refaug.logs.reading.formats import Container
from refaug.logs.reading.sources import BadRow, LineBlock, LineCut, Source, line_cuts

# ── The tasks of an ingest on a cluster; each reads the sources and the log's folder, which all machines mount ────────
#
# Every task may run twice, on two machines at once: what it writes depends on its arguments alone.

# ── Results of blocks as files: tasks on many machines write them, and the process that gathers them reads them ───────

_SCHEMA: Final = pa.schema(
    [("rows", pa.large_binary()), ("turns", pa.large_binary()), ("flood_keys", pa.large_binary()), ("facts", "binary")]
)
_LZ4: Final = pa.ipc.IpcWriteOptions(compression="lz4")


def write_block_results(path: Path, results: Iterable[tuple[BlockResult, int]]) -> int:
    """Write the results of blocks, each with the position in its source where the block ends; return their number."""
    count = 0
    with write_aside(path) as file, pa.ipc.new_file(file, _SCHEMA, options=_LZ4) as writer:
        for block_result, position in results:
            columns = [as_stream(block_result.rows), *map(_bytes_of, (block_result.turns, block_result.flood_keys))]
            facts = {
                "position": position,
                "counts": block_result.counts,
                "bad": [asdict(bad) for bad in block_result.bad],
                "rejects": [asdict(reject) for reject in block_result.rejects],
            }
            columns.append(
                json.dumps(facts, default=int).encode()
            )  # escapes half characters, which UTF-8 does not have
            writer.write_batch(
                pa.record_batch(
                    [pa.array([c], type_) for c, type_ in zip(columns, _SCHEMA.types, strict=True)], _SCHEMA
                )
            )
            count += 1
    return count


def _bytes_of(numbers: NDArray[Any]) -> bytes:
    return np.ascontiguousarray(numbers).tobytes()


def read_block_results(path: Path) -> Iterator[tuple[BlockResult, int]]:
    """Yield what `write_block_results` wrote, one block after the other."""
    try:
        with pa.memory_map(str(path)) as source, pa.ipc.open_file(source) as file:
            for number in range(file.num_record_batches):
                yield _result_of(file.get_batch(number))
    except pa.ArrowException as error:
        raise Corrupt(f"{path} is damaged: {error}", remedy="delete it and run the same command again") from error


def _result_of(batch: pa.RecordBatch) -> tuple[BlockResult, int]:
    rows, turns, flood_keys, packed_facts = (column[0].as_py() for column in batch.columns)
    facts = json.loads(packed_facts)
    with pa.ipc.open_stream(rows) as reader:
        block_rows = next(iter(reader))
    block_result = BlockResult(
        rows=block_rows,
        turns=np.frombuffer(turns, np.int64),
        flood_keys=np.frombuffer(flood_keys, np.uint64),
        counts=Counter(facts["counts"]),
        bad=[BadRow(**bad) for bad in facts["bad"]],
        rejects=[Reject(**reject) for reject in facts["rejects"]],
    )
    return block_result, int(facts["position"])


# ── The tasks of an ingest on a cluster; each reads the sources and the log's folder, which all machines mount ────────

BLOCKS_A_PIECE: Final = 16  # of 4 MiB: some seconds of work


# Reading


@dataclass(frozen=True, kw_only=True)
class Examined:
    """A source's fingerprint, and where its blocks begin if each can be read by itself."""

    source: Source
    cuts: Sequence[LineCut] | None


def examine(path: Path, name: str, encoding: str, block_bytes: int) -> Examined:
    """Read a source once for its fingerprint, and again to cut it if it is plain text."""
    with _named(path, name):
        source = Source.of(path)
        cuts = line_cuts(source, encoding=encoding, block_bytes=block_bytes)
        source.require_unchanged()
    return Examined(source=source, cuts=cuts)


@dataclass(frozen=True, kw_only=True)
class Piece:
    """Neighbouring blocks of a unit that can be read by themselves; or all from one on, where there are no cuts."""

    unit: int
    number: int  # among the pieces of the unit, or the first that is not yet gathered
    cuts: Sequence[LineCut] | None


def piece_file(unit: int, number: int) -> str:
    """Return the name of the file with what a task has read of a piece."""
    return f"read-{unit:05}-{number:06}.arrow"


def read_piece(folder: Path, piece: Piece, shared: ReadOrder) -> int:
    """Read, clean and pair a piece into its file, or all pieces into files; return the number of the unit's pieces."""
    unit, settings = shared.units[piece.unit], shared.settings[piece.unit]
    with _named(unit.sources[0].path, unit.name, [source.path for source in unit.sources]):
        _require_same(unit)
        if piece.cuts is not None:
            blocks = _blocks_at(unit.sources[0].path, piece.cuts)
            run = block_worker(settings)
            write_block_results(folder / piece_file(piece.unit, piece.number), ((run(b), at) for b, at in blocks))
            pieces = piece.number + 1
        else:
            pieces = _read_all(folder, piece, unit, shared)
        unit.require_unchanged()
    return pieces


@dataclass(frozen=True, kw_only=True)
class ReadOrder:
    """What every reading task needs to know."""

    units: Sequence[Unit]  # with absolute paths
    settings: Sequence[ReadSettings]  # one a unit
    encoding: str
    block_bytes: int
    blocks_a_piece: int


def _read_all(folder: Path, piece: Piece, unit: Unit, order: ReadOrder) -> int:
    """Write piece after piece of a source that has no cuts; those that are there already are only passed over."""
    position, blocks = unit.reader(order.encoding, order.block_bytes)
    run, number = block_worker(order.settings[piece.unit]), -1
    numbered = groupby(zip(count(), blocks, strict=False), key=lambda block: block[0] // order.blocks_a_piece)
    for number, of_piece in numbered:
        path = folder / piece_file(piece.unit, number)
        if number >= piece.number and not path.exists():
            write_block_results(path, ((run(block), position()) for _, block in of_piece))
    return number + 1


def _blocks_at(path: Path, cuts: Sequence[LineCut]) -> Iterator[tuple[Block, int]]:
    """Yield the blocks at these cuts, each with the position of its end."""
    with path.open("rb") as file:
        for cut in cuts:
            file.seek(cut.start)
            yield LineBlock(first_line=cut.first_line, data=file.read(cut.size)), cut.start + cut.size


def _require_same(unit: Unit) -> None:
    """Refuse a machine on which another file lies under the path of a source."""
    for source in unit.sources:
        stat = source.path.stat()
        if (stat.st_size, stat.st_mtime_ns) != (source.size, source.modified_ns):
            raise Conflict(
                f"{source.name} has {stat.st_size:,} bytes on the machine {machine_name()} of the cluster, or was "
                f"written to; it had {source.size:,} when the work began",
                remedy="mount the sources' folder under the same path on all machines; else run the same command again",
            )


@contextmanager
def _named(path: Path, name: str, paths: Sequence[Path] = ()) -> Iterator[None]:
    """Name the machine where a source cannot be read; other errors name the source as the order does."""
    try:
        yield
    except RefaugError as error:
        names = name.split(" + ")
        for absolute, as_ordered in zip(paths or [path], names, strict=False):
            error.message = error.message.replace(str(absolute), as_ordered)
            error.args = (error.message,)
        raise
    except OSError as error:
        if error.filename is not None and str(error.filename) not in {str(path), *map(str, paths)}:
            raise
        raise NoSource(
            f"{name}: {error.strerror or error}, on the machine {machine_name()} of the cluster",
            remedy="mount the sources' folder under the same path on all machines",
        ) from error


# Message trees


def sort_slice(folder: Path, parts: Sequence[Path], place: Path, target: str, memory: int) -> int:
    """Sort neighbouring messages by their tree; `place` holds the tree and the parent of each."""
    with _engine(folder, memory) as engine:
        aside = folder / f"{target}.{unique_suffix()}.aside"
        sort_by_tree(engine, parts, place, aside)
    aside.replace(folder / target)
    return 0


def pair_trees(
    folder: Path, slices: Sequence[Path], ranges: Sequence[tuple[int, int]], target: str, memory: int
) -> int:
    """Write the pairs of some ranges of trees, in the order of the log."""
    rows = 0
    with (
        _engine(folder, memory) as engine,
        write_aside(folder / target) as file,
        pa.ipc.new_file(file, TREE_PAIR_SCHEMA, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer,
    ):
        for first, last in ranges:
            for batch in pairs_of_trees(engine, slices, first, last):
                writer.write_batch(batch)
                rows += batch.num_rows
    return rows


def _engine(folder: Path, memory: int) -> QueryEngine:
    return QueryEngine(folder / f"engine-{unique_suffix()}", memory=memory, threads=1)


def with_absolute_paths(unit: Unit) -> Unit:
    """Return a unit that can be read from any folder."""
    return replace(unit, sources=tuple(replace(source, path=source.path.resolve()) for source in unit.sources))


# ── A cluster as the steps of an ingest use it: what its machines see, read and join, gathered here in order ──────────

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
        for number, examined in self._run(examine, calls):
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
            blocks_a_piece=BLOCKS_A_PIECE,
        )
        return ClusterReading(stage, order, [self._cuts_of(unit) for unit in stage.units], self._read)

    def stage_name(self, what: str) -> str:
        """Return the name of a stage for the progress."""
        return f"{what} {self._on_machines}"

    def _cuts_of(self, unit: Unit) -> Sequence[LineCut] | None:
        return self._cuts.get(unit.sources[0].path) if unit.format.container in _CUT else None

    def _read(self, folder: Path, pieces: Sequence[Piece], order: ReadOrder) -> Iterator[tuple[int, int]]:
        calls = [{"folder": folder, "piece": piece} for piece in pieces]
        return self._run(read_piece, calls, memory=self.read_memory, shared=order)

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
        self._finish(sort_slice, folder, sort_calls)
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
        self._finish(pair_trees, folder, lacking)
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
