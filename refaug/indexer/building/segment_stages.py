"""The stages of one segment, from its table to its measured recall; for the main segment and for updates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from refaug.core.artefacts.build_stages import Stages
from refaug.core.errors import BadInput
from refaug.core.progress import Progress
from refaug.core.query_engine import QueryEngine
from refaug.indexer.bm25.scores import Bm25Settings
from refaug.indexer.building import segment_files
from refaug.indexer.building.material import Material
from refaug.indexer.building.plan import Demand, Limits, choose, options
from refaug.indexer.building.recall import AT, ExactSearch, GroundTruth, MeasuredRecall, RecallMeasure
from refaug.indexer.columns import NpyWriter, map_array
from refaug.indexer.manifest import RecallCheck, SegmentInfo
from refaug.indexer.pair_table import ErasedKeySets, KeyRange, Keys, build_table
from refaug.indexer.search.search_tables import Rows
from refaug.indexer.search.segments import EXTRA_WORDS, QUICK, UTTERANCE_TOKENS, Segment, open_segment
from refaug.indexer.search.similarity import COARSE
from refaug.indexer.tokens import Vocabulary

CHECK_QUERIES: Final = (
    "check_queries.npy"  # of the main segments: rows whose neighbours are stored, −1 for one that is gone
)
CHECK_ROWS: Final = "check_rows.npy"  # of every segment: the exact neighbours of these rows
_HALVINGS: Final = 2  # between the last effort that was too low and the first that was not
_UNLIKELY: Final = 4  # rows drawn for each query, since some have no vector


@dataclass(frozen=True, eq=False, kw_only=True)
class SegmentWork:
    """The inputs and settings of a segment."""

    stages: Stages
    folder: str  # in the version
    material: Material
    vocabulary: Vocabulary
    limits: Limits
    erased: ErasedKeySets
    bm25: Bm25Settings | None
    least_coverage: float
    check_queries: int
    seed: int
    progress: Progress
    keys: Keys | None = None  # of an update: the utterances that have changed
    key_range: KeyRange | None = None  # of a shard
    queries: np.ndarray[Any, np.dtype[np.float32]] | None = None  # of an update: the main segment's check

    @property
    def path(self) -> Path:
        """The folder of the segment in the stages."""
        return self.stages.folder / self.folder


TableStage = Callable[[SegmentWork], Mapping[str, Any]]  # writes the table of a segment, and returns its sizes


def make_segment(work: SegmentWork, write: TableStage) -> SegmentInfo:
    """Build table, words, vectors, FAISS and BM25; finished stages are not repeated."""
    stages, material, progress = work.stages, work.material, work.progress
    table = stages.run("table", lambda: write(work))
    rows, pairs = table["utterances"], table["pairs"]
    words = stages.run("words", lambda: _words(work, rows + pairs))
    work.vocabulary.extend(map_array(work.path / EXTRA_WORDS, np.uint64))  # of a stage that an earlier run finished
    if material.encoder is not None:
        encoder = material.encoder
        stages.run("encode", lambda: segment_files.encode(work.path, encoder, progress))
    vectors = material.blocks(work.path)
    plan = stages.run("plan", lambda: plan_storage(work, table, words))
    stages.run(
        "train",
        lambda: segment_files.train(
            work.path, vectors, rows, plan["factory"], seed=work.seed, threads=material.threads, progress=progress
        ),
    )
    added = stages.run("vectors", lambda: _vectors(work, rows))
    (work.path / segment_files.TRAINED).unlink(missing_ok=True)
    weights = material.weights
    if weights is not None and plan["depth"] > COARSE and not (work.path / QUICK).exists():
        stages.run("lengths", lambda: segment_files.measure_lengths(work.path, weights))
    if work.bm25 is not None:
        settings = work.bm25
        stages.run("bm25", lambda: segment_files.add_bm25(work.path, len(work.vocabulary), settings, progress))
    return segment_info(work.folder, plan, table, with_vector=added["with_vector"], extra_words=words["extra_words"])


def segment_info(
    folder: str, plan: Mapping[str, Any], table: Mapping[str, Any], *, with_vector: int, extra_words: int
) -> SegmentInfo:
    """Return what the manifest says of a segment with such a plan and table."""
    return SegmentInfo(
        folder=folder,
        factory=plan["factory"],
        effort=plan["effort"],
        depth=plan["depth"],
        utterances=table["utterances"],
        with_vector=with_vector,
        pairs=table["pairs"],
        occurrences=table["occurrences"],
        extra_words=extra_words,
    )


def write_table(engine: QueryEngine, work: SegmentWork) -> Mapping[str, Any]:
    """Write the table of a segment's utterances, pairs and occurrences from the logs."""
    counts = build_table(
        engine,
        work.material.logs,
        work.path,
        keys=work.keys,
        key_range=work.key_range,
        erased=work.erased,
        progress=work.progress,
    )
    return asdict(counts)


def _words(work: SegmentWork, texts: int) -> Mapping[str, Any]:
    """Code the texts, and refuse vectors that do not know enough of their words."""
    facts = code_words(work, texts)
    require_coverage(work, facts)
    return facts


def code_words(work: SegmentWork, texts: int) -> Mapping[str, Any]:
    """Code the texts, and count the words of utterances that have a vector."""
    work.progress.stage("reading words", texts, "texts")
    facts = segment_files.code_texts(work.path, work.vocabulary, work.progress)
    codes = map_array(work.path / UTTERANCE_TOKENS, np.int32)
    return {**facts, "known_tokens": int(np.count_nonzero(codes < work.vocabulary.with_vector))}


def require_coverage(work: SegmentWork, words: Mapping[str, Any]) -> None:
    """Refuse vectors that do not know enough of the words of the utterances."""
    known, tokens = words["known_tokens"], words["utterance_tokens"]
    if work.material.weights is not None and tokens and known < work.least_coverage * tokens:
        raise BadInput(
            f"only {100 * known / tokens:.1f} % of the words of the log have a vector in "
            f"{work.material.source.name}; at least {100 * work.least_coverage:.0f} % are wanted",
            remedy="use vectors of the log's language and tokenizer (refaug train vectors), or lower --least-coverage",
        )


def plan_storage(work: SegmentWork, table: Mapping[str, Any], words: Mapping[str, Any]) -> Mapping[str, Any]:
    """Choose how the vectors are stored and searched."""
    work.progress.stage("planning")
    demand = contents_of(work, table, words)
    return asdict(choose(options(demand, work.limits, threads=work.material.threads), work.limits))


def contents_of(work: SegmentWork, table: Mapping[str, Any], words: Mapping[str, Any]) -> Demand:
    """Return what the vectors and tables of an index hold, once its texts are read."""
    return Demand(
        rows=table["utterances"],
        dimensions=work.material.source.dimensions,
        words=len(work.material.words),
        extra_words=len(work.vocabulary) - len(work.material.words),
        pairs=table["pairs"],
        occurrences=table["occurrences"],
        text_bytes=table["utterance_bytes"] + table["response_bytes"],
        tokens=words["utterance_tokens"] + words["response_tokens"],
        keeps_vectors=work.material.weights is None,
    )


def _vectors(work: SegmentWork, rows: int) -> Mapping[str, Any]:
    """Add all vectors; the check's exact neighbours come out of the same pass."""
    vectors: segment_files.VectorBlocks = work.material.blocks(work.path)
    exact = None
    if work.queries is not None:
        exact = ExactSearch(work.queries)
    elif work.check_queries:
        exact = ExactSearch(draw_check_queries(work, rows, vectors))
    return add_vectors(work, work.path / segment_files.TRAINED, vectors, rows, exact)


def draw_check_queries(
    work: SegmentWork, rows: int, vectors: segment_files.VectorSample, positions_of: Callable[[Rows], Rows] = np.asarray
) -> NDArray[np.float32]:
    """Draw the utterances that recall is measured on, store their positions in the index, and return their vectors."""
    drawn = np.random.default_rng(work.seed).permutation(rows)[: _UNLIKELY * work.check_queries].astype(np.int64)
    positions = positions_of(drawn)
    vectors_drawn, has_vector = vectors.rows(positions)
    queries = np.flatnonzero(has_vector)[: work.check_queries]
    with NpyWriter(work.stages.folder / CHECK_QUERIES, np.int64) as writer:
        writer.append(positions[queries])
    return np.ascontiguousarray(vectors_drawn[queries])


def add_vectors(
    work: SegmentWork, trained: Path, vectors: segment_files.VectorBlocks, rows: int, exact: ExactSearch | None
) -> Mapping[str, Any]:
    """Add all vectors of a segment, and store the exact neighbours of the check's queries among them."""
    work.progress.stage("adding vectors", rows, "utterances")
    facts = segment_files.add(work.path, trained, vectors, exact, threads=work.material.threads, progress=work.progress)
    if exact is not None:
        _store_neighbours(work, exact)
    return facts


def find_neighbours(work: SegmentWork, vectors: segment_files.VectorBlocks, exact: ExactSearch) -> None:
    """Store the exact neighbours of the check's queries among a segment's vectors, which are not added now."""
    for first, block, has_vector in vectors.blocks():
        places = np.flatnonzero(has_vector)
        exact.add_block(first + places, np.ascontiguousarray(block[places]))
        work.progress.advance(len(block))
    _store_neighbours(work, exact)


def _store_neighbours(work: SegmentWork, exact: ExactSearch) -> None:
    with NpyWriter(work.path / CHECK_ROWS, np.int32, width=exact.rows.shape[1]) as nearest:
        nearest.append(exact.rows.astype(np.int32))


# Recall


def measure_recall(
    stages: Stages, infos: Sequence[SegmentInfo], mains: int, work: SegmentWork
) -> tuple[list[int], RecallCheck | None]:
    """Choose how deep each segment is searched so that the recall suffices, and measure it.

    The queries are utterances of the first segments, so many as `mains` says.
    """
    if not (stages.folder / CHECK_QUERIES).exists():
        return [info.effort for info in infos], None
    facts = stages.run("check", lambda: check_segments(stages.folder, infos, mains, work))
    return facts["efforts"], RecallCheck(**facts["check"])


def check_segments(folder: Path, infos: Sequence[SegmentInfo], mains: int, work: SegmentWork) -> Mapping[str, Any]:
    """Find the least efforts that reach the recall, with all segments open."""
    work.progress.stage("measuring recall")
    began = perf_counter()
    segments = [open_segment(folder, number, info) for number, info in enumerate(infos)]
    queries: Rows = map_array(folder / CHECK_QUERIES, np.int64)
    is_there = queries >= 0
    queries = queries[is_there]
    nearest = [map_array(folder / info.folder / CHECK_ROWS, np.int32)[is_there].astype(np.int64) for info in infos]
    numbers, rows = segment_files.places_of(queries, [info.utterances for info in infos[:mains]])
    truth = GroundTruth([np.where(numbers == number, rows, -1) for number in range(len(infos))], nearest)
    measure = RecallMeasure(segments, work.material.likeness(segments[:mains], queries), truth)
    efforts, recall = _least_efforts(measure.at_efforts, segments, [info.effort for info in infos], work.limits.recall)
    check = _check_of(recall, work.limits.recall, infos[0].depth, round(perf_counter() - began, 3))
    return {"efforts": efforts, "check": asdict(check)}


def _least_efforts(
    measure_at: Callable[[list[int]], MeasuredRecall], segments: Sequence[Segment], efforts: list[int], target: float
) -> tuple[list[int], MeasuredRecall]:
    """Find the least effort that reaches the target, roughly; the greatest, if none does."""
    recall, too_low = measure_at(efforts), None
    while recall.recall < target:
        higher = [_next_effort(segment, effort) for segment, effort in zip(segments, efforts, strict=True)]
        if higher == efforts:
            return efforts, recall
        too_low, efforts = efforts, higher
        recall = measure_at(efforts)
    for _ in range(_HALVINGS if too_low is not None else 0):
        middle = [(low + high) // 2 for low, high in zip(too_low or (), efforts, strict=True)]
        if (between := measure_at(middle)).recall >= target:
            efforts, recall = middle, between
        else:
            too_low = middle
    return efforts, recall


def _check_of(recall: MeasuredRecall, target: float, depth: int, seconds: float) -> RecallCheck:
    return RecallCheck(at=AT, **asdict(recall), target=target, depth=depth, seconds=seconds)


def _next_effort(segment: Segment, effort: int) -> int:
    """Return the next step of effort, or the same at the end."""
    ladder = segment.ann.efforts() if segment.ann is not None else ()
    return next((step for step in ladder if step > effort), effort)
