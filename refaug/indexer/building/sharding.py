"""Building the main segments of an index as shards, one after the other, so that the memory of one shard is enough.

A shard has the utterances whose keys lie in its range. All shards share what decides answers: the vocabulary, one
trained quantizer and projection, the utterances that recall is measured on, and BM25's statistics. Samples are drawn
from the order that all utterances would have in one segment, so the quantizer is the one of an index without shards.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import ceil
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from refaug.core.files import make_folder, remove_tree
from refaug.indexer.bm25.scores import Bm25Statistics
from refaug.indexer.building import segment_files, segment_stages
from refaug.indexer.building.material import Material
from refaug.indexer.building.recall import ExactSearch
from refaug.indexer.columns import NpyWriter, map_array
from refaug.indexer.manifest import SHARDS, SegmentInfo
from refaug.indexer.pair_table import KeyRange, no_pairs
from refaug.indexer.search.search_tables import Rows
from refaug.indexer.search.segments import EXTRA_WORDS, QUICK, QUICK_STEPS
from refaug.indexer.search.similarity import COARSE

TRAINED_FOLDER: Final = "trained"  # exists until the vectors are added
_ROWS_AT_ONCE: Final = 1_000_000  # whose common order is computed at once


class Shard(NamedTuple):
    """The work on a shard that has utterances, and the sizes of its table."""

    number: int
    work: segment_stages.SegmentWork
    table: Mapping[str, Any]

    @property
    def rows(self) -> int:
        """How many utterances it has."""
        return int(self.table["utterances"])


def make_shards(work: segment_stages.SegmentWork, shards: int, write: segment_stages.TableStage) -> list[SegmentInfo]:
    """Build the main segments of a version, those of shards with utterances; finished stages are not repeated."""
    filled = _tables(work, shards, write)
    table = sums_of([shard.table for shard in filled])
    words = _words(filled)
    if (encoder := work.material.encoder) is not None:
        for shard in filled:
            work.stages.run(
                f"encode-{shard.number}", partial(segment_files.encode, shard.work.path, encoder, work.progress)
            )
    plan = work.stages.run("plan", lambda: segment_stages.plan_storage(work, table, sums_of(words)))
    with_vector = _vectors(work, filled, plan)
    _bm25(work, filled)
    return infos_of(filled, plan, [of_shard["extra_words"] for of_shard in words], with_vector)


def infos_of(
    filled: Sequence[Shard], plan: Mapping[str, Any], extra_words: Sequence[int], with_vector: Sequence[int]
) -> list[SegmentInfo]:
    """Return what the manifest says of each shard."""
    return [
        segment_stages.segment_info(shard.work.folder, plan, shard.table, with_vector=vectors, extra_words=words)
        for shard, words, vectors in zip(filled, extra_words, with_vector, strict=True)
    ]


def seconds_by_stage(seconds: Mapping[str, float]) -> dict[str, float]:
    """Return how long each stage took, in all shards together."""
    sums = dict[str, float]()
    for stage, duration in seconds.items():
        name = stage.partition("-")[0]
        sums[name] = round(sums.get(name, 0.0) + duration, 3)
    return sums


def _tables(work: segment_stages.SegmentWork, shards: int, write: segment_stages.TableStage) -> list[Shard]:
    """Write the tables of all shards; one without utterances is left out."""
    filled = list[Shard]()
    for number in range(shards):
        shard = work_on_shard(work, number, shards)
        make_folder(shard.path)
        table = work.stages.run(f"table-{number}", partial(write, shard))
        if table["utterances"]:
            filled.append(Shard(number, shard, table))
        else:
            remove_tree(shard.path)
    require_any(filled, work.material)
    return filled


def work_on_shard(work: segment_stages.SegmentWork, number: int, shards: int) -> segment_stages.SegmentWork:
    """Return the work on one of so many shards."""
    return replace(work, folder=f"{SHARDS}/{number}", key_range=KeyRange.of_shard(number, shards))


def require_any(filled: Sequence[Shard], material: Material) -> None:
    """Refuse an index without any utterance."""
    if not filled:
        any_rows = any(part.pairs for log in material.logs for part in log.manifest.parts)
        raise no_pairs([log.manifest.name for log in material.logs], any_erased=any_rows)


def _words(filled: Sequence[Shard]) -> list[Mapping[str, Any]]:
    """Code the texts of all shards with one vocabulary, and refuse vectors that do not know enough of their words."""
    words = list[Mapping[str, Any]]()
    for number, shard, table in filled:
        texts = table["utterances"] + table["pairs"]
        words.append(shard.stages.run(f"words-{number}", partial(segment_stages.code_words, shard, texts)))
        shard.vocabulary.extend(map_array(shard.path / EXTRA_WORDS, np.uint64))  # of an earlier run's stage
    segment_stages.require_coverage(filled[0].work, sums_of(words))
    return words


def sums_of(facts: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the sums of the counts of all shards."""
    return {name: sum(of_shard[name] for of_shard in facts) for name in facts[0] if name != "seconds"}


# Vectors


def _vectors(work: segment_stages.SegmentWork, filled: Sequence[Shard], plan: Mapping[str, Any]) -> list[int]:
    """Train one index, and add the vectors of each shard to a copy; return how many utterances have a vector."""
    stages, material = work.stages, work.material
    make_folder(stages.folder / TRAINED_FOLDER)
    stages.run("train", lambda: train_for_all(work, filled, plan["factory"]))
    if work.check_queries:
        stages.run("queries", lambda: draw_queries(work, filled))
    counts = [
        stages.run(f"vectors-{shard.number}", partial(_add_and_compare, shard, filled))["with_vector"]
        for shard in filled
    ]
    weights = material.weights
    for shard in filled:
        if weights is not None and plan["depth"] > COARSE and not (shard.work.path / QUICK).exists():
            stages.run(f"lengths-{shard.number}", partial(segment_files.measure_lengths, shard.work.path, weights))
    remove_tree(stages.folder / TRAINED_FOLDER)
    return counts


def train_for_all(work: segment_stages.SegmentWork, filled: Sequence[Shard], factory: str) -> Mapping[str, int]:
    """Train the index that all shards copy, on utterances of all of them."""
    return segment_files.train(
        work.stages.folder / TRAINED_FOLDER,
        _InCommonOrder(_joined(filled), _CommonOrder.of(filled)),
        sum(shard.rows for shard in filled),
        factory,
        seed=work.seed,
        threads=work.material.threads,
        progress=work.progress,
    )


def draw_queries(work: segment_stages.SegmentWork, filled: Sequence[Shard]) -> Mapping[str, int]:
    """Draw the utterances that recall is measured on, and store their positions."""
    rows, order = sum(shard.rows for shard in filled), _CommonOrder.of(filled)
    return {"queries": len(segment_stages.draw_check_queries(work, rows, _joined(filled), order.positions))}


def _add_and_compare(shard: Shard, filled: Sequence[Shard]) -> Mapping[str, Any]:
    """Add the vectors of a shard; the check's exact neighbours come out of the same pass."""
    return add_to_trained(shard, _exact_search(filled))


def compare_with_queries(shard: Shard, filled: Sequence[Shard]) -> None:
    """Store the exact neighbours of the check's queries in a shard whose vectors are not added now."""
    if (exact := _exact_search(filled)) is not None:
        segment_stages.find_neighbours(shard.work, shard.work.material.blocks(shard.work.path), exact)


def add_to_trained(shard: Shard, exact: ExactSearch | None = None) -> Mapping[str, Any]:
    """Add the vectors of a shard to a copy of the trained index; an exact search reads them as well."""
    work = shard.work
    trained = work.stages.folder / TRAINED_FOLDER
    if (trained / QUICK_STEPS).exists():
        with NpyWriter(work.path / QUICK_STEPS, np.float32) as steps:
            steps.append(map_array(trained / QUICK_STEPS, np.float32))
    return segment_stages.add_vectors(
        work, trained / segment_files.TRAINED, work.material.blocks(work.path), shard.rows, exact
    )


def _exact_search(filled: Sequence[Shard]) -> ExactSearch | None:
    """Return a search for the neighbours of the check's queries, if there is a check."""
    queries = filled[0].work.stages.folder / segment_stages.CHECK_QUERIES
    return ExactSearch(_joined(filled).rows(map_array(queries, np.int64))[0]) if queries.exists() else None


def _joined(filled: Sequence[Shard]) -> segment_files.JoinedBlocks:
    blocks = [shard.work.material.blocks(shard.work.path) for shard in filled]
    return segment_files.JoinedBlocks(blocks, [shard.rows for shard in filled])


class _CommonOrder:
    """The order that the utterances of all shards would have in one segment: by their hashes, then by their keys."""

    def __init__(self, shas: Sequence[NDArray[np.uint64]], keys: Sequence[NDArray[np.uint64]]) -> None:
        self._shas, self._keys = shas, keys
        self._firsts = np.cumsum([0, *(len(sha) for sha in shas)])

    @classmethod
    def of(cls, filled: Sequence[Shard]) -> _CommonOrder:
        """Map the hashes and keys of all shards."""
        paths = [shard.work.path for shard in filled]
        return cls(
            [map_array(path / "utterance_sha.npy", np.uint64) for path in paths],
            [map_array(path / "utterance_key.npy", np.uint64) for path in paths],
        )

    def positions(self, ranks: Rows) -> Rows:
        """Return the positions, numbered through all shards, of the utterances with these ranks."""
        order = np.argsort(ranks)
        positions, sorted_ranks, first = np.empty(len(ranks), np.int64), ranks[order], 0
        for block in self._blocks():
            begin, end = np.searchsorted(sorted_ranks, [first, first + len(block)])
            positions[order[begin:end]] = block[sorted_ranks[begin:end] - first]
            first += len(block)
        return positions

    def _blocks(self) -> Iterator[Rows]:
        """Yield the positions of all utterances in their common order, those with hashes of one range at a time."""
        ranges = ceil(int(self._firsts[-1]) / _ROWS_AT_ONCE)
        borders = np.array([number * 2**64 // ranges for number in range(1, ranges)], np.uint64)
        cuts = [[0, *np.searchsorted(sha, borders).tolist(), len(sha)] for sha in self._shas]
        for number in range(ranges):
            slices = [slice(of_shard[number], of_shard[number + 1]) for of_shard in cuts]
            sha = np.concatenate([array[part] for array, part in zip(self._shas, slices, strict=True)])
            key = np.concatenate([array[part] for array, part in zip(self._keys, slices, strict=True)])
            rows = [np.arange(part.start, part.stop) + first for part, first in zip(slices, self._firsts, strict=False)]
            yield np.concatenate(rows)[np.lexsort((key, sha))]


class _InCommonOrder:
    """The vectors of all shards by the ranks of their utterances."""

    def __init__(self, joined: segment_files.JoinedBlocks, order: _CommonOrder) -> None:
        self._joined, self._order = joined, order

    @property
    def dimensions(self) -> int:
        """The length of a vector."""
        return self._joined.dimensions

    def rows(self, rows: Rows) -> tuple[segment_files.Vectors, NDArray[np.bool_]]:
        """Return the vectors of the utterances with these ranks, and which have one."""
        return self._joined.rows(self._order.positions(rows))


# BM25


def _bm25(work: segment_stages.SegmentWork, filled: Sequence[Shard]) -> None:
    """Build the postings of each shard with the statistics of all."""
    settings, words = work.bm25, len(work.vocabulary)
    if settings is None:
        return
    of_all = tuple(
        Bm25Statistics.summed(
            (segment_files.map_words(shard.work.path, responses=responses) for shard in filled), words
        )
        for responses in (False, True)
    )
    for shard in filled:
        work.stages.run(
            f"bm25-{shard.number}",
            partial(segment_files.add_bm25, shard.work.path, words, settings, work.progress, (of_all[0], of_all[1])),
        )
