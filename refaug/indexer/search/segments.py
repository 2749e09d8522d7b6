"""One part of an index, opened: its arrays and texts memory-mapped, its vectors ready to be searched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from refaug.core.errors import Corrupt
from refaug.indexer.bm25.index import Bm25Index
from refaug.indexer.columns import TextColumn, map_array
from refaug.indexer.manifest import IndexManifest, SegmentInfo
from refaug.indexer.nearest.faiss_index import AnnIndex
from refaug.indexer.search.search_tables import Rows, SegmentTables

UTTERANCES: Final = "utterances.arrow"
PAIRS: Final = "pairs.arrow"
OCCURRENCES: Final = "occurrences.arrow"
SPEAKERS: Final = "speakers.arrow"  # of occurrences; only where a log names any
UTTERANCE_TOKENS: Final = "utterance_tokens.npy"
UTTERANCE_TOKEN_START: Final = "utterance_token_start.npy"  # noqa: S105  no secret
RESPONSE_TOKENS: Final = "response_tokens.npy"
RESPONSE_TOKEN_START: Final = "response_token_start.npy"  # noqa: S105
EXTRA_WORDS: Final = "extra_words.npy"  # of a segment, or of a version whose shards were compacted in part
VECTOR_ROWS: Final = "vector_rows.npy"
VECTORS: Final = "vectors.faiss"
LENGTHS: Final = "lengths.npy"  # of utterances' sums of words, where many candidates of coarse codes are compared
QUICK: Final = "quick.npy"  # a byte a component of the projected vectors, for the same purpose
QUICK_BASES: Final = "quick_bases.npy"  # added to a product with such a row
QUICK_STEPS: Final = "quick_steps.npy"  # what a step of such a byte stands for
EXACT: Final = "vectors.npy"  # of an encoder, whose vectors cannot be computed again from words
BM25: Final = "bm25"
SUPERSEDED: Final = "superseded-{}.npy"  # beside the segments, one for each that has lost utterances

_NONE_SUPERSEDED: Final = np.zeros(0, np.bool_)
_NONE_SUPERSEDED.flags.writeable = False  # read-only as mapped arrays are: loops are compiled for one kind


class QuickRows(NamedTuple):
    """Utterances' vectors, (utterances, components), a byte a component: enough to choose which to compare exactly."""

    rows: NDArray[np.int8]
    bases: NDArray[np.float32]
    steps: NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class SegmentFacts:
    """What a search needs to know of a segment before it asks it."""

    info: SegmentInfo
    utterance_count: int
    is_exact: bool  # a search among its vectors compares all of them as they are
    most_effort: int  # that is of any use
    has_superseded: bool


@dataclass(frozen=True, eq=False, kw_only=True)
class Segment:
    """A part of an index; row numbers of utterances, pairs and occurrences count within it."""

    info: SegmentInfo
    tables: SegmentTables
    utterance_tokens: NDArray[np.int32]
    utterance_token_start: Rows
    vector_rows: NDArray[np.int32]  # the utterance of each vector
    ann: AnnIndex | None  # None where no utterance has a vector
    exact: NDArray[np.float32] | None
    lengths: NDArray[np.float32] | None
    quick: QuickRows | None
    bm25: Bm25Index | None  # of the main segment alone
    utterances: TextColumn
    responses: TextColumn
    dialogues: TextColumn
    positions: TextColumn
    speakers: TextColumn | None

    @property
    def utterance_count(self) -> int:
        """The number of distinct utterances, including superseded ones."""
        return len(self.tables.utterance_key)

    @cached_property
    def facts(self) -> SegmentFacts:
        """What a search needs to know of it first."""
        return SegmentFacts(
            info=self.info,
            utterance_count=self.utterance_count,
            is_exact=self.ann is None or self.ann.is_exact,
            most_effort=self.info.effort if self.ann is None else max(self.ann.efforts(), default=1),
            has_superseded=len(self.tables.superseded) > 0,
        )

    def words(self, *, responses: bool) -> tuple[NDArray[np.int32], Rows]:
        """Return the codes of all utterances, or of all responses, and where each text's begin."""
        if responses:
            return self.tables.response_tokens, self.tables.response_token_start
        return self.utterance_tokens, self.utterance_token_start


def word_hashes(version: Path, manifest: IndexManifest, *, later: bool = True) -> Iterator[NDArray[np.uint64]]:
    """Yield the words without a vector in the order of their codes.

    Those of the main segments come first, then those that compacting some shards has added, and with `later` those of
    the segments of updates.
    """
    mains = len(manifest.main_segments)
    for info in manifest.segments[:mains]:
        yield map_array(version / info.folder / EXTRA_WORDS, np.uint64)
    if (version / EXTRA_WORDS).exists():
        yield map_array(version / EXTRA_WORDS, np.uint64)
    for info in manifest.segments[mains:] if later else ():
        yield map_array(version / info.folder / EXTRA_WORDS, np.uint64)


def open_segment(version: Path, number: int, info: SegmentInfo) -> Segment:
    """Map all files of a segment; nothing is read before it is needed."""
    folder = version / info.folder
    superseded = version / SUPERSEDED.format(number)
    tables = open_tables(folder, superseded)
    token_start = map_array(folder / UTTERANCE_TOKEN_START, np.int64)
    tokens = map_array(folder / UTTERANCE_TOKENS, np.int32)
    _require_agreement(folder, tables, token_start, tokens)
    exact, lengths, bm25 = folder / EXACT, folder / LENGTHS, folder / BM25
    ann = AnnIndex.open(folder / VECTORS) if (folder / VECTORS).exists() else None
    return Segment(
        info=info,
        tables=tables,
        utterance_tokens=tokens,
        utterance_token_start=token_start,
        vector_rows=map_array(folder / VECTOR_ROWS, np.int32),
        ann=ann,
        exact=map_array(exact, np.float32) if exact.exists() else None,
        lengths=map_array(lengths, np.float32) if lengths.exists() else None,
        quick=_quick_rows(folder, ann, len(tables.utterance_key)),
        bm25=Bm25Index.open(bm25) if bm25.exists() else None,
        utterances=TextColumn.open(folder / UTTERANCES, "text"),
        responses=TextColumn.open(folder / PAIRS, "text"),
        dialogues=TextColumn.open(folder / OCCURRENCES, "dialogue"),
        positions=TextColumn.open(folder / OCCURRENCES, "position"),
        speakers=TextColumn.open(folder / SPEAKERS, "speaker") if (folder / SPEAKERS).exists() else None,
    )


def _quick_rows(folder: Path, ann: AnnIndex | None, utterances: int) -> QuickRows | None:
    if ann is None or ann.projection is None:
        return None
    rows = map_array(folder / QUICK, np.int8)
    bases, steps = (map_array(folder / name, np.float32) for name in (QUICK_BASES, QUICK_STEPS))
    shape = (utterances, ann.projection.components)
    if rows.shape != shape or bases.shape != shape[:1] or steps.shape != shape[1:]:
        raise Corrupt(
            f"{folder / QUICK}: {shape} were expected; {rows.shape}, {len(bases)} bases and {len(steps)} steps were "
            "found",
            remedy="restore it from a backup, or build the index again",
        )
    return QuickRows(rows, bases, steps)


def _require_agreement(folder: Path, tables: SegmentTables, token_start: Rows, tokens: NDArray[np.int32]) -> None:
    """Refuse arrays that do not belong together before a compiled loop follows one into another."""
    ends = {
        "pair_start.npy": (tables.pair_start, len(tables.utterance_key), len(tables.response_key)),
        "occurrence_start.npy": (tables.occurrence_start, len(tables.response_key), len(tables.occurrence_log)),
        UTTERANCE_TOKEN_START: (token_start, len(tables.utterance_key), len(tokens)),
        RESPONSE_TOKEN_START: (tables.response_token_start, len(tables.response_key), len(tables.response_tokens)),
    }
    for name, (starts, rows, end) in ends.items():
        if len(starts) != rows + 1 or starts[0] != 0 or starts[-1] != end:
            raise Corrupt(
                f"{folder / name}: {rows:,} rows that end at {end:,} were expected, "
                f"{len(starts) - 1:,} that end at {int(starts[-1]) if len(starts) else 0:,} were found",
                remedy="restore it from a backup, or build the index again",
            )


def open_tables(folder: Path, superseded: Path) -> SegmentTables:
    """Map the arrays that decide order and exclusion."""
    return SegmentTables(
        utterance_key=map_array(folder / "utterance_key.npy", np.uint64),
        utterance_sha=map_array(folder / "utterance_sha.npy", np.uint64),
        pair_start=map_array(folder / "pair_start.npy", np.int64),
        response_key=map_array(folder / "response_key.npy", np.uint64),
        response_sha=map_array(folder / "response_sha.npy", np.uint64),
        occurrence_start=map_array(folder / "occurrence_start.npy", np.int64),
        occurrence_log=map_array(folder / "occurrence_log.npy", np.uint16),
        occurrence_dialogue=map_array(folder / "occurrence_dialogue.npy", np.uint64),
        occurrence_time=map_array(folder / "occurrence_time.npy", np.int64),
        response_tokens=map_array(folder / RESPONSE_TOKENS, np.int32),
        response_token_start=map_array(folder / RESPONSE_TOKEN_START, np.int64),
        superseded=map_array(superseded, np.bool_) if superseded.exists() else _NONE_SUPERSEDED,
    )


def common_order(segments: Sequence[Segment], rows: Sequence[Rows] | None = None) -> tuple[Rows, Rows]:
    """Return the place of the segment, and the row in it, of all utterances or of these, in the order of one segment.

    That is by their hashes, then by their keys. What is drawn by number in this order is the same for the same pairs,
    however many shards and updates an index has.
    The order of equal utterances of two segments, of which one is masked, is that of the segments.
    """
    if rows is None:
        rows = [np.arange(len(segment.tables.utterance_key)) for segment in segments]
    places = np.repeat(np.arange(len(rows)), [len(of_segment) for of_segment in rows])
    shas = [segment.tables.utterance_sha[of_segment] for segment, of_segment in zip(segments, rows, strict=True)]
    keys = [segment.tables.utterance_key[of_segment] for segment, of_segment in zip(segments, rows, strict=True)]
    order = np.lexsort((np.concatenate(keys), np.concatenate(shas)))
    return places[order], np.concatenate(rows)[order]
