"""The tasks of an ingest on a cluster; each reads the sources and the log's folder, which all machines mount.

Every task may run twice, on two machines at once: what it writes depends on its arguments alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count, groupby
from pathlib import Path
from typing import Final

import pyarrow as pa

from refaug.core.cluster.calls import machine_name
from refaug.core.errors import Conflict, NoSource, RefaugError
from refaug.core.files import unique_suffix, write_aside
from refaug.core.query_engine import QueryEngine
from refaug.logs.ingest.on_cluster.block_files import write_block_results
from refaug.logs.ingest.order import Unit
from refaug.logs.ingest.pairing import ReadSettings, block_worker
from refaug.logs.ingest.reply_trees import TREE_PAIR_SCHEMA, pairs_of_trees, sort_by_tree
from refaug.logs.reading.containers import Block
from refaug.logs.reading.sources import LineBlock, LineCut, Source, line_cuts

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
