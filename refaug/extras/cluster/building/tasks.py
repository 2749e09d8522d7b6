"""The tasks of a build on a cluster; each reads the build's folder and the home, which all machines mount.

Every task may run twice, on two machines at once: what it writes depends on its arguments alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from refaug.core.artefacts.build_stages import MARK, Stages
from refaug.core.artefacts.manifests import describe_files
from refaug.core.errors import Conflict, NotFound, SourceChanged
from refaug.core.files import make_folder, remove_tree, storage_errors, sync_file, sync_folder, unique_suffix
from refaug.core.progress import Silent
from refaug.core.query_engine import QueryEngine, scratch_in
from refaug.extras.cluster.calls import machine_name
from refaug.extras.cluster.node_requirements import require_versions
from refaug.indexer.bm25.scores import Bm25Statistics
from refaug.indexer.building import sharding
from refaug.indexer.building.material import Material, open_material
from refaug.indexer.building.order import IndexOrder
from refaug.indexer.building.segment_files import add_bm25, encode, map_words, measure_lengths
from refaug.indexer.building.segment_stages import SegmentWork, check_segments, code_words
from refaug.indexer.columns import NpyWriter, map_array
from refaug.indexer.index_folders import Places
from refaug.indexer.manifest import MAIN, SHARDS, SegmentInfo, software
from refaug.indexer.pair_table import ErasedKeySets, build_table
from refaug.indexer.search import segments
from refaug.indexer.search.similarity import COARSE
from refaug.logs.manifest import LogManifest, LogPart
from refaug.logs.pairs import PAIR_SCHEMA
from refaug.logs.store import StoredLog

# ── A folder for one attempt at a task: links to the files of the build, and what the task writes beside them ─────────
#
# A process that was taken for dead may still write, while its task is done again elsewhere. Each attempt therefore
# writes into a separate folder, and its finished files are renamed into the build: two attempts at one task make the
# same bytes, so it does not matter whose rename comes last.


@contextmanager
def attempt(build: Path, attempts: Path, writes: Sequence[str]) -> Iterator[Path]:
    """Yield a folder that looks like the build's; what is written there moves into the build when the block ends.

    `writes` are the folders of the build in which there will be new files; the top always is one of them.
    """
    folder = attempts / unique_suffix()
    make_inside(attempts, folder)
    try:
        _link(build, folder, {Path(name) for name in writes})
        yield folder
        _move(folder, build)
    finally:
        remove_tree(folder)


def make_inside(scratch: Path, folder: Path) -> None:
    """Create a folder inside the scratch folder.

    The scratch folder is not made again: a task that outlives its build would leave it behind.
    """
    inner = folder.relative_to(scratch)
    for path in [*reversed(inner.parents), inner][1:]:
        try:
            with storage_errors(scratch):
                (scratch / path).mkdir(exist_ok=True)
        except FileNotFoundError as error:
            raise Conflict(f"the build has ended: {scratch} is gone", remedy="run the build again") from error
    sync_folder(folder.parent)


def _link(build: Path, folder: Path, writes: set[Path], at: Path = Path()) -> None:
    """Link everything, but make the folders that are written to, and those around them."""
    own = {parent for path in writes for parent in (path, *path.parents)} - {Path()}
    present = {path.name for path in (build / at).iterdir()} if (build / at).is_dir() else set()
    for name in sorted(present | {path.name for path in own if path.parent == at}):
        inner = at / name
        if inner in own:
            (folder / inner).mkdir()
            _link(build, folder, writes, inner)
        elif name != MARK and not name.endswith(".aside"):
            (folder / inner).symlink_to((build / inner).resolve())


def _move(folder: Path, target: Path) -> None:
    """Rename every new file into the build; a link is none."""
    for path in sorted(folder.iterdir()):
        if path.is_symlink():
            continue
        if path.is_dir():
            make_folder(target / path.name)
            _move(path, target / path.name)
        else:
            path.replace(target / path.name)
    sync_folder(target)


# ── The tasks of a build on a cluster; each reads the build's folder and the home, which all machines mount ───────────

CODED: Final = "coded"  # holds texts as codes of one shard's own words, until all words have one number
_CODES_AT_ONCE: Final = 1 << 20
_TOKEN_FILES: Final = (segments.UTTERANCE_TOKENS, segments.RESPONSE_TOKENS)


@dataclass(frozen=True, kw_only=True)
class ClusterBuild:
    """What every task of a build needs to know."""

    places: Places
    order: IndexOrder
    folder: Path  # of the finished stages
    scratch: Path  # of attempts and of what is not part of the index
    fingerprint: Mapping[str, Any]  # of the inputs
    software: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class LogPiece:
    """Neighbouring row groups of a part of a log."""

    log: str
    part: LogPart
    number: int  # of the piece, among all of the part
    first: int
    last: int

    @property
    def folder(self) -> Path:
        """Where its rows lie, a file for each shard."""
        return Path("grouped") / self.log / f"{self.part.sha256[:16]}-{self.number}"


@contextmanager
def _opened(build: ClusterBuild) -> Iterator[Material]:
    """Open the inputs as they were when the build began, on a machine like the one where it did."""
    if not build.folder.is_dir():
        raise NotFound(
            f"this machine of the cluster does not see {build.folder}", remedy="mount REFAUG_HOME on all machines"
        )
    require_versions(build.software, software(), machine_name())
    with open_material(replace(build.places, keeps_encodings=False), build.order) as material:
        if material.fingerprint() != build.fingerprint:
            raise SourceChanged(
                "the logs or vectors have changed while the index was built; nothing was published",
                remedy="run the same command again: it builds from them as they are now",
            )
        yield material


def _work(build: ClusterBuild, material: Material, folder: Path) -> SegmentWork:
    return SegmentWork(
        stages=Stages(folder),
        folder=MAIN,
        material=material,
        vocabulary=material.vocabulary(),
        limits=build.order.limits,
        erased=ErasedKeySets(),  # what is erased was left out of the tables
        bm25=build.order.bm25,
        least_coverage=build.order.least_coverage,
        check_queries=build.order.check_queries,
        seed=build.order.seed,
        progress=Silent(),
    )


def _shards(build: ClusterBuild, material: Material, folder: Path, tables: Mapping[int, Any]) -> list[sharding.Shard]:
    work = _work(build, material, folder)
    shards = build.order.shards
    return [
        sharding.Shard(number, sharding.work_on_shard(work, number, shards), table)
        for number, table in sorted(tables.items())
    ]


# Tables


def group_rows(build: ClusterBuild, piece: LogPiece) -> Mapping[str, Any]:
    """Write the rows of a piece of a log into a file for each shard; return how many rows each file has."""
    began, shards, target = perf_counter(), build.order.shards, build.scratch / piece.folder
    borders = np.array([number * 2**64 // shards for number in range(1, shards)], np.uint64)
    aside = build.scratch / f"grouping-{unique_suffix()}"
    make_inside(build.scratch, aside)
    counts = np.zeros(shards, np.int64)
    source = StoredLog.open(build.places.logs, piece.log)
    with storage_errors(aside), pq.ParquetFile(source.folder / piece.part.file) as file:
        writers = [
            pq.ParquetWriter(aside / f"{number}.parquet", PAIR_SCHEMA, compression="lz4", write_statistics=False)
            for number in range(shards)
        ]
        for batch in file.iter_batches(
            row_groups=range(piece.first, piece.last), columns=PAIR_SCHEMA.names, use_threads=False
        ):
            of_shard = np.searchsorted(borders, batch["utterance_key"].to_numpy(), side="right")
            for number in np.unique(of_shard).tolist():
                rows = np.flatnonzero(of_shard == number)
                writers[number].write_batch(batch.take(pa.array(rows)))
                counts[number] += len(rows)
        for writer in writers:
            writer.close()
    for path in aside.iterdir():
        sync_file(path)
    make_inside(build.scratch, target.parent)
    try:
        aside.rename(target)
    except OSError:  # another attempt was faster
        remove_tree(aside)
        if not target.is_dir():
            raise
    return {"rows": counts.tolist(), "seconds": perf_counter() - began}


def write_table(
    build: ClusterBuild, number: int, pieces: Sequence[tuple[LogPiece, int]], erased: ErasedKeySets
) -> Mapping[str, Any]:
    """Write the table of a shard from its rows of all pieces."""
    began, folder = perf_counter(), f"{SHARDS}/{number}"
    with _opened(build) as material, attempt(build.folder, build.scratch, [folder]) as own:
        logs = [_grouped(build, log, number, pieces) for log in material.logs]
        work = sharding.work_on_shard(_work(build, material, own), number, build.order.shards)
        with QueryEngine(
            scratch_in(build.places.cache), memory=build.order.memory, threads=build.order.threads
        ) as engine:
            counts = build_table(engine, logs, work.path, key_range=work.key_range, erased=erased, progress=Silent())
    return {**asdict(counts), "seconds": perf_counter() - began}


def _grouped(build: ClusterBuild, log: StoredLog, shard: int, pieces: Sequence[tuple[LogPiece, int]]) -> StoredLog:
    """Return a log of the rows of one shard alone."""
    parts = tuple(
        LogPart(file=str(piece.folder / f"{shard}.parquet"), size=0, sha256="", pairs=rows)
        for piece, rows in pieces
        if piece.log == log.manifest.name and rows
    )
    manifest: LogManifest = replace(log.manifest, parts=parts)
    return StoredLog(build.scratch, manifest)


# Words


def code_shard(build: ClusterBuild, number: int, texts: int) -> Mapping[str, Any]:
    """Code the texts of a shard, whose new words are numbered as if there were no other shard."""
    began, folder, coded = perf_counter(), f"{SHARDS}/{number}", f"{CODED}/{number}"
    with _opened(build) as material, attempt(build.folder, build.scratch, [folder]) as own:
        work = sharding.work_on_shard(_work(build, material, own), number, build.order.shards)
        facts = code_words(work, texts)
        make_inside(build.scratch, build.scratch / coded)
        for name in (*_TOKEN_FILES, segments.EXTRA_WORDS):
            (work.path / name).replace(build.scratch / coded / name)
    return {**facts, "seconds": perf_counter() - began}


def number_words(
    build: ClusterBuild, number: int, codes: NDArray[np.int32], new_words: NDArray[np.uint64]
) -> Mapping[str, Any]:
    """Number the new words of a shard as the index does; `new_words` are those that no shard before has."""
    began, folder, coded = perf_counter(), f"{SHARDS}/{number}", build.scratch / CODED / str(number)
    with _opened(build) as material, attempt(build.folder, build.scratch, [folder]) as own:
        first, numbered = len(material.words), codes if len(codes) else np.zeros(1, np.int32)
        for name in _TOKEN_FILES:
            local = map_array(coded / name, np.int32)
            with NpyWriter(own / folder / name, np.int32) as writer:
                for begin in range(0, len(local), _CODES_AT_ONCE):
                    piece = local[begin : begin + _CODES_AT_ONCE]
                    is_new = piece >= first
                    writer.append(np.where(is_new, numbered[np.where(is_new, piece - first, 0)], piece))
        with NpyWriter(own / folder / segments.EXTRA_WORDS, np.uint64) as extra:
            extra.append(new_words)
    return {"seconds": perf_counter() - began}


# Vectors


def encode_shard(build: ClusterBuild, number: int) -> Mapping[str, Any]:
    """Write the encoder's vectors of a shard."""
    began, folder = perf_counter(), f"{SHARDS}/{number}"
    with _opened(build) as material, attempt(build.folder, build.scratch, [folder]) as own:
        assert material.encoder is not None
        facts = encode(own / folder, material.encoder, Silent())
    return {**facts, "seconds": perf_counter() - began}


def train_index(build: ClusterBuild, tables: Mapping[int, Any], factory: str, threads: int) -> Mapping[str, Any]:
    """Train the index that all shards copy, with so many threads."""
    began, build = perf_counter(), replace(build, order=replace(build.order, threads=threads))
    with _opened(build) as material, attempt(build.folder, build.scratch, [sharding.TRAINED_FOLDER]) as own:
        filled = _shards(build, material, own, tables)
        facts = sharding.train_for_all(filled[0].work, filled, factory)
    return {**facts, "seconds": perf_counter() - began}


def draw_check(build: ClusterBuild, tables: Mapping[int, Any]) -> Mapping[str, Any]:
    """Draw the utterances that recall is measured on."""
    began = perf_counter()
    with _opened(build) as material, attempt(build.folder, build.scratch, []) as own:
        filled = _shards(build, material, own, tables)
        facts = sharding.draw_queries(filled[0].work, filled)
    return {**facts, "seconds": perf_counter() - began}


def compare_shard(build: ClusterBuild, number: int, tables: Mapping[int, Any]) -> Mapping[str, Any]:
    """Find the exact neighbours of the check's queries in a shard."""
    began, folder = perf_counter(), f"{SHARDS}/{number}"
    with _opened(build) as material, attempt(build.folder, build.scratch, [folder]) as own:
        filled = _shards(build, material, own, tables)
        sharding.compare_with_queries(next(shard for shard in filled if shard.number == number), filled)
    return {"seconds": perf_counter() - began}


def add_shard(build: ClusterBuild, number: int, tables: Mapping[int, Any], depth: int) -> Mapping[str, Any]:
    """Add the vectors of a shard, which were compared with the check's queries, to a copy of the trained index."""
    began, folder = perf_counter(), f"{SHARDS}/{number}"
    with _opened(build) as material, attempt(build.folder, build.scratch, [folder]) as own:
        filled = _shards(build, material, own, tables)
        shard = next(shard for shard in filled if shard.number == number)
        facts = sharding.add_to_trained(shard)
        if material.weights is not None and depth > COARSE and not (shard.work.path / segments.QUICK).exists():
            measure_lengths(shard.work.path, material.weights)
    return {**facts, "seconds": perf_counter() - began}


# BM25


@dataclass(frozen=True, eq=False, kw_only=True)
class WordStatistics:
    """The statistics of the utterances and of the responses of a shard, or of all of them."""

    utterances: Bm25Statistics
    responses: Bm25Statistics


def count_words(build: ClusterBuild, number: int, words: int) -> Mapping[str, Any]:
    """Count the words of a shard."""
    with _opened(build):
        folder = build.folder / SHARDS / str(number)
        codes = {responses: map_words(folder, responses=responses) for responses in (False, True)}
        counted = WordStatistics(
            utterances=Bm25Statistics.of(*codes[False], words), responses=Bm25Statistics.of(*codes[True], words)
        )
        return {"counted": counted, "tokens": [len(codes[responses][0]) for responses in (False, True)]}


def add_shard_bm25(build: ClusterBuild, number: int, words: int, shared: WordStatistics) -> Mapping[str, Any]:
    """Write the postings of a shard with the statistics of all."""
    began, folder = perf_counter(), f"{SHARDS}/{number}"
    assert build.order.bm25 is not None
    with _opened(build), attempt(build.folder, build.scratch, [folder, f"{folder}/bm25"]) as own:
        add_bm25(own / folder, words, build.order.bm25, Silent(), (shared.utterances, shared.responses))
    return {"seconds": perf_counter() - began}


# Recall and hashes


def check_recall(build: ClusterBuild, infos: Sequence[SegmentInfo]) -> Mapping[str, Any]:
    """Choose how deep the shards are searched, and measure the recall of all of them together."""
    began = perf_counter()
    with _opened(build) as material, attempt(build.folder, build.scratch, []) as own:
        facts = check_segments(build.folder, infos, len(infos), _work(build, material, own))
    return {**facts, "seconds": perf_counter() - began}


def describe_shard(build: ClusterBuild, number: int) -> Mapping[str, Any]:
    """Return size and hash of each file of a shard."""
    with _opened(build):
        paths = (build.folder / SHARDS / str(number)).rglob("*")
        return describe_files(build.folder, [str(path.relative_to(build.folder)) for path in paths if path.is_file()])


def pieces_of(logs: Sequence[StoredLog], rows: int) -> list[LogPiece]:
    """Cut logs into pieces of about so many rows."""
    pieces = list[LogPiece]()
    for log in logs:
        for part in log.manifest.parts:
            with pq.ParquetFile(log.folder / part.file) as file:
                sizes = [file.metadata.row_group(group).num_rows for group in range(file.metadata.num_row_groups)]
            ends = np.cumsum(sizes)
            cuts = [0, *(int(np.searchsorted(ends, at, side="left")) + 1 for at in range(rows, int(part.pairs), rows))]
            borders = sorted({*cuts, len(sizes)})
            pieces += [
                LogPiece(log=log.manifest.name, part=part, number=number, first=first, last=last)
                for number, (first, last) in enumerate(pairwise(borders))
            ]
    return pieces
