"""Building a segment from a table of utterances and pairs: word codes, vectors in FAISS, BM25's postings.

Everything is done in blocks of utterances, and a block's memory is freed before the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from refaug.core.files import make_folder, remove_tree
from refaug.core.progress import Progress
from refaug.core.vectors.encoders import Encoder
from refaug.indexer.bm25.index import build_bm25
from refaug.indexer.bm25.scores import Bm25Settings, Bm25Statistics
from refaug.indexer.building.recall import ExactSearch
from refaug.indexer.columns import ROWS_A_BATCH, NpyWriter, map_array, text_batches
from refaug.indexer.nearest.index_builder import AnnBuilder
from refaug.indexer.nearest.index_kinds import Projection, quantisation_steps, quantise
from refaug.indexer.search import segments
from refaug.indexer.tokens import Vocabulary
from refaug.indexer.vectors.encoder_vectors import encode_utterances
from refaug.indexer.vectors.sentence_vectors import WordWeights, embed, sentence_lengths

TRAINED: Final = "trained.faiss"  # exists until the vectors are added
_UTTERANCE_WORDS: Final = ((segments.UTTERANCE_TOKENS, np.int32), (segments.UTTERANCE_TOKEN_START, np.int64))

Vectors = NDArray[np.float32]
Known = NDArray[np.bool_]


def code_texts(folder: Path, vocabulary: Vocabulary, progress: Progress) -> Mapping[str, int]:
    """Write the words of utterances and responses as codes; new words get the next ones."""
    before = len(vocabulary)
    columns = (
        (segments.UTTERANCES, segments.UTTERANCE_TOKENS, segments.UTTERANCE_TOKEN_START),
        (segments.PAIRS, segments.RESPONSE_TOKENS, segments.RESPONSE_TOKEN_START),
    )
    tokens = {name: _code_column(folder, name, codes, starts, vocabulary, progress) for name, codes, starts in columns}
    with NpyWriter(folder / segments.EXTRA_WORDS, np.uint64) as extra:
        extra.append(vocabulary.extra_words(before))
    return {
        "utterance_tokens": tokens[segments.UTTERANCES],
        "response_tokens": tokens[segments.PAIRS],
        "extra_words": len(vocabulary) - before,
    }


def _code_column(folder: Path, texts: str, codes: str, starts: str, vocabulary: Vocabulary, progress: Progress) -> int:
    end = 0
    with NpyWriter(folder / codes, np.int32) as all_codes, NpyWriter(folder / starts, np.int64) as all_starts:
        all_starts.append(np.zeros(1, np.int64))
        for batch in text_batches(folder / texts, "text"):
            coded = vocabulary.code(batch, grow=True)
            all_codes.append(coded.codes)
            all_starts.append(coded.offsets[1:] + end)
            end += int(coded.offsets[-1])
            progress.advance(len(batch))
    return end


class VectorBlocks(Protocol):
    """The vectors of a segment's utterances, block by block or for some rows."""

    @property
    def dimensions(self) -> int:
        """The length of a vector."""
        ...

    def blocks(self) -> Iterator[tuple[int, Vectors, Known]]:
        """Yield blocks: the first row, a vector for each row, and which rows have one."""
        ...

    def rows(self, rows: NDArray[np.int64]) -> tuple[Vectors, Known]:
        """Return the vectors of these rows, and which rows have one."""
        ...


class VectorSample(Protocol):
    """The vectors of some of the utterances, for training and for the check."""

    @property
    def dimensions(self) -> int:
        """The length of a vector."""
        ...

    def rows(self, rows: NDArray[np.int64]) -> tuple[Vectors, Known]:
        """Return the vectors of these rows, and which rows have one."""
        ...


def places_of(positions: NDArray[np.int64], sizes: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the segment, and the row in it, of rows that are numbered through several segments of these sizes."""
    ends = np.cumsum(sizes, dtype=np.int64)
    numbers = np.searchsorted(ends, positions, side="right")
    return numbers, positions - (ends - np.asarray(sizes, np.int64))[numbers]


@dataclass(frozen=True, eq=False)
class JoinedBlocks:
    """The vectors of several segments, whose rows are numbered through."""

    parts: Sequence[VectorBlocks]
    sizes: Sequence[int]

    @property
    def dimensions(self) -> int:
        """The length of a vector."""
        return self.parts[0].dimensions

    def rows(self, rows: NDArray[np.int64]) -> tuple[Vectors, Known]:
        """Return the vectors of these rows, and which rows have one; −1 is a row without."""
        vectors, has_vector = np.zeros((len(rows), self.dimensions), np.float32), np.zeros(len(rows), np.bool_)
        numbers, inside = places_of(rows, self.sizes)
        for number, part in enumerate(self.parts):
            here = (numbers == number) & (rows >= 0)
            if here.any():
                vectors[here], has_vector[here] = part.rows(inside[here])
        return vectors, has_vector


@dataclass(frozen=True, eq=False)
class WordVectorBlocks:
    """Mean word vectors, computed from the coded utterances."""

    folder: Path
    weights: WordWeights
    threads: int

    @property
    def dimensions(self) -> int:
        """The length of a vector."""
        return self.weights.dimensions

    def blocks(self) -> Iterator[tuple[int, Vectors, Known]]:
        """Yield the vectors of all utterances."""
        codes, starts = self._map_arrays()
        for first in range(0, len(starts) - 1, ROWS_A_BATCH):
            offsets = starts[first : first + ROWS_A_BATCH + 1]
            yield first, *embed(self.weights, codes[offsets[0] : offsets[-1]], offsets - offsets[0], self.threads)

    def rows(self, rows: NDArray[np.int64]) -> tuple[Vectors, Known]:
        """Return the vectors of some utterances."""
        codes, starts = self._map_arrays()
        lengths = starts[rows + 1] - starts[rows]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        places = np.repeat(starts[rows] - offsets[:-1], lengths) + np.arange(offsets[-1])
        return embed(self.weights, codes[places], offsets, self.threads)

    def _map_arrays(self) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        return map_array(self.folder / segments.UTTERANCE_TOKENS, np.int32), map_array(
            self.folder / segments.UTTERANCE_TOKEN_START, np.int64
        )


@dataclass(frozen=True, eq=False)
class EncoderBlocks:
    """An encoder's vectors, read from the file they were written to."""

    folder: Path

    @property
    def dimensions(self) -> int:
        """The length of a vector."""
        return int(self._map_arrays().shape[1])

    def blocks(self) -> Iterator[tuple[int, Vectors, Known]]:
        """Yield the vectors of all utterances."""
        matrix = self._map_arrays()
        for first in range(0, len(matrix), ROWS_A_BATCH):
            block = matrix[first : first + ROWS_A_BATCH]
            yield first, block, np.asarray(block.any(axis=1))

    def rows(self, rows: NDArray[np.int64]) -> tuple[Vectors, Known]:
        """Return the vectors of some utterances."""
        vectors = self._map_arrays()[rows]
        return vectors, np.asarray(vectors.any(axis=1))

    def _map_arrays(self) -> Vectors:
        return map_array(self.folder / segments.EXACT, np.float32)


def encode(folder: Path, encoder: Encoder, progress: Progress) -> Mapping[str, int]:
    """Write the vectors of an encoder, which cannot be computed again from words."""
    texts = list(text_batches(folder / segments.UTTERANCES))  # read on access
    progress.stage("encoding utterances", sum(map(len, texts)), "utterances")
    has_vector = encode_utterances(encoder, texts, folder / segments.EXACT, progress)
    return {"with_vector": int(has_vector.sum())}


def measure_lengths(folder: Path, weights: WordWeights) -> Mapping[str, int]:
    """Write the lengths with which `indexer.search.similarity` quickly chooses the candidates worth ranking exactly."""
    codes, starts = (map_array(folder / name, kind) for name, kind in _UTTERANCE_WORDS)
    with NpyWriter(folder / segments.LENGTHS, np.float32) as lengths:
        for first in range(0, len(starts) - 1, ROWS_A_BATCH):
            offsets = starts[first : first + ROWS_A_BATCH + 1]
            lengths.append(sentence_lengths(weights, codes[offsets[0] : offsets[-1]], offsets - offsets[0]))
    return {}


def train(
    folder: Path, vectors: VectorSample, rows: int, factory: str, *, seed: int, threads: int, progress: Progress
) -> Mapping[str, int]:
    """Train the index that the factory string names on utterances drawn with the seed."""
    sample_size = AnnBuilder.training_rows(factory, rows)
    drawn = (
        np.sort(np.random.default_rng(seed).permutation(rows)[:sample_size]) if sample_size else np.empty(0, np.int64)
    )
    sample, has_vector = vectors.rows(drawn.astype(np.int64))
    builder = AnnBuilder.train(
        factory, vectors.dimensions, sample[has_vector], seed=seed, threads=threads, progress=progress
    )
    if builder.projection is not None:
        with NpyWriter(folder / segments.QUICK_STEPS, np.float32) as steps:
            steps.append(quantisation_steps(builder.project(sample[has_vector])))
    builder.write_trained(folder / TRAINED)
    return {"training_rows": int(has_vector.sum())}


def add(
    folder: Path, trained: Path, vectors: VectorBlocks, exact: ExactSearch | None, *, threads: int, progress: Progress
) -> Mapping[str, int]:
    """Add all vectors to a trained index; the check's exact search reads each block as well."""
    builder, with_vector = AnnBuilder.open_trained(trained, threads=threads), 0
    with NpyWriter(folder / segments.VECTOR_ROWS, np.int32) as vector_rows, _quick_writer(folder, builder) as quick:
        for first, block, has_vector in vectors.blocks():
            places = np.flatnonzero(has_vector)
            vectors_present = np.ascontiguousarray(block[places])
            stored = builder.add(vectors_present)
            if quick is not None:
                quick.append(stored, has_vector)
            if exact is not None:
                exact.add_block(first + places, vectors_present)
            vector_rows.append((first + places).astype(np.int32))
            with_vector += len(places)
            progress.advance(len(block))
    if with_vector:
        builder.write(folder / segments.VECTORS)
    return {"with_vector": with_vector}


class _QuickRowsWriter:
    """Writes one byte a component of the projected vectors, a row for every utterance, zeros where there is none."""

    def __init__(self, rows: NpyWriter, bases: NpyWriter, steps: Vectors, projection: Projection) -> None:
        self._rows, self._bases, self._steps, self._projection = rows, bases, steps, projection

    def append(self, stored: Vectors, has_vector: Known) -> None:
        """Append the rows of one block."""
        rows, bases = np.zeros((len(has_vector), stored.shape[1]), np.int8), np.zeros(len(has_vector), np.float32)
        rows[has_vector], bases[has_vector] = quantise(stored, self._steps), self._projection.bases(stored)
        self._rows.append(rows)
        self._bases.append(bases)


@contextmanager
def _quick_writer(folder: Path, builder: AnnBuilder) -> Iterator[_QuickRowsWriter | None]:
    projection = builder.projection
    if projection is None:
        yield None
        return
    with (
        NpyWriter(folder / segments.QUICK, np.int8, width=projection.components) as rows,
        NpyWriter(folder / segments.QUICK_BASES, np.float32) as bases,
    ):
        yield _QuickRowsWriter(rows, bases, map_array(folder / segments.QUICK_STEPS, np.float32), projection)


def add_bm25(
    folder: Path,
    words: int,
    settings: Bm25Settings,
    progress: Progress,
    of_all: tuple[Bm25Statistics, Bm25Statistics] | None = None,
) -> Mapping[str, Any]:
    """Build BM25's postings of the utterances, and the statistics of the words of responses; or those of all shards."""
    remove_tree(folder / segments.BM25)
    make_folder(folder / segments.BM25)
    utterances, responses = (map_words(folder, responses=responses) for responses in (False, True))
    build_bm25(*utterances, words, settings, folder / segments.BM25, progress, responses=responses, of_all=of_all)
    return {}


def map_words(folder: Path, *, responses: bool) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Map the codes of a segment's utterances or responses, and where each text's begin."""
    tokens = (
        (segments.RESPONSE_TOKENS, segments.RESPONSE_TOKEN_START)
        if responses
        else (segments.UTTERANCE_TOKENS, segments.UTTERANCE_TOKEN_START)
    )
    return map_array(folder / tokens[0], np.int32), map_array(folder / tokens[1], np.int64)
