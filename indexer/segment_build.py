"""From a table of utterances and pairs to a segment: words coded, vectors added to FAISS, BM25's postings.

Everything is done in blocks of utterances; what a block needs is forgotten before the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from core.encoders import Encoder
from core.files import make_folder, remove_tree
from core.progress import Progress
from indexer.ann import AnnBuilder
from indexer.arrays import ROWS_A_BATCH, NpyWriter, map_array, text_batches
from indexer.bm25 import Bm25Settings, build_bm25
from indexer.exact_vectors import encode_utterances
from indexer.projection import Projection, as_bytes, byte_steps
from indexer.recall import ExactSearch
from indexer.segments import (
    BM25,
    EXACT,
    EXTRA_WORDS,
    LENGTHS,
    PAIRS,
    QUICK,
    QUICK_BASES,
    QUICK_STEPS,
    RESPONSE_TOKEN_START,
    RESPONSE_TOKENS,
    UTTERANCE_TOKEN_START,
    UTTERANCE_TOKENS,
    UTTERANCES,
    VECTOR_ROWS,
    VECTORS,
)
from indexer.sentence_vectors import WordWeights, embed, sentence_lengths
from indexer.vocabulary import Vocabulary

TRAINED: Final = "trained.faiss"  # there until the vectors are added
_UTTERANCE_WORDS: Final = ((UTTERANCE_TOKENS, np.int32), (UTTERANCE_TOKEN_START, np.int64))

Vectors = NDArray[np.float32]
Known = NDArray[np.bool_]


def code_texts(folder: Path, vocabulary: Vocabulary, progress: Progress) -> Mapping[str, int]:
    """The words of utterances and responses as codes; words that are new get the next ones."""
    before = len(vocabulary)
    columns = ((UTTERANCES, UTTERANCE_TOKENS, UTTERANCE_TOKEN_START), (PAIRS, RESPONSE_TOKENS, RESPONSE_TOKEN_START))
    tokens = {name: _code_column(folder, name, codes, starts, vocabulary, progress) for name, codes, starts in columns}
    with NpyWriter(folder / EXTRA_WORDS, np.uint64) as extra:
        extra.append(vocabulary.extra_words(before))
    return {
        "utterance_tokens": tokens[UTTERANCES],
        "response_tokens": tokens[PAIRS],
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
    """The vectors of a segment's utterances, a block at a time, or of some of them."""

    @property
    def dimensions(self) -> int:
        """The length of a vector."""
        ...

    def blocks(self) -> Iterator[tuple[int, Vectors, Known]]:
        """The first row, a vector for each row, and which rows have one."""
        ...

    def rows(self, rows: NDArray[np.int64]) -> tuple[Vectors, Known]:
        """The vectors of these rows."""
        ...


@dataclass(frozen=True, eq=False)
class WordVectorBlocks:
    """Mean word vectors, made out of the coded utterances."""

    folder: Path
    weights: WordWeights
    threads: int

    @property
    def dimensions(self) -> int:
        """The length of a vector."""
        return self.weights.dimensions

    def blocks(self) -> Iterator[tuple[int, Vectors, Known]]:
        """All utterances."""
        codes, starts = self._mapped()
        for first in range(0, len(starts) - 1, ROWS_A_BATCH):
            some = starts[first : first + ROWS_A_BATCH + 1]
            yield first, *embed(self.weights, codes[some[0] : some[-1]], some - some[0], self.threads)

    def rows(self, rows: NDArray[np.int64]) -> tuple[Vectors, Known]:
        """Some utterances."""
        codes, starts = self._mapped()
        lengths = starts[rows + 1] - starts[rows]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        places = np.repeat(starts[rows] - offsets[:-1], lengths) + np.arange(offsets[-1])
        return embed(self.weights, codes[places], offsets, self.threads)

    def _mapped(self) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        return map_array(self.folder / UTTERANCE_TOKENS, np.int32), map_array(
            self.folder / UTTERANCE_TOKEN_START, np.int64
        )


@dataclass(frozen=True, eq=False)
class EncoderBlocks:
    """An encoder's vectors, which were written to a file before."""

    folder: Path

    @property
    def dimensions(self) -> int:
        """The length of a vector."""
        return int(self._mapped().shape[1])

    def blocks(self) -> Iterator[tuple[int, Vectors, Known]]:
        """All utterances."""
        matrix = self._mapped()
        for first in range(0, len(matrix), ROWS_A_BATCH):
            some = matrix[first : first + ROWS_A_BATCH]
            yield first, some, np.asarray(some.any(axis=1))

    def rows(self, rows: NDArray[np.int64]) -> tuple[Vectors, Known]:
        """Some utterances."""
        some = self._mapped()[rows]
        return some, np.asarray(some.any(axis=1))

    def _mapped(self) -> Vectors:
        return map_array(self.folder / EXACT, np.float32)


def encode(folder: Path, encoder: Encoder, progress: Progress) -> Mapping[str, int]:
    """The vectors of an encoder, kept: they cannot be made again out of words."""
    known = encode_utterances(encoder, text_batches(folder / UTTERANCES, "text"), folder / EXACT, progress)
    return {"with_vector": int(known.sum())}


def measure_lengths(folder: Path, weights: WordWeights) -> Mapping[str, int]:
    """What `indexer.likeness` needs to tell quickly which of many candidates are worth ranking exactly."""
    codes, starts = (map_array(folder / name, kind) for name, kind in _UTTERANCE_WORDS)
    with NpyWriter(folder / LENGTHS, np.float32) as lengths:
        for first in range(0, len(starts) - 1, ROWS_A_BATCH):
            some = starts[first : first + ROWS_A_BATCH + 1]
            lengths.append(sentence_lengths(weights, codes[some[0] : some[-1]], some - some[0]))
    return {}


def train(
    folder: Path, vectors: VectorBlocks, rows: int, factory: str, *, seed: int, threads: int, progress: Progress
) -> Mapping[str, int]:
    """Train what the factory names on utterances drawn with the seed."""
    wanted = AnnBuilder.training_rows(factory, rows)
    drawn = np.sort(np.random.default_rng(seed).permutation(rows)[:wanted]) if wanted else np.empty(0, np.int64)
    sample, known = vectors.rows(drawn.astype(np.int64))
    builder = AnnBuilder.train(
        factory, vectors.dimensions, sample[known], seed=seed, threads=threads, progress=progress
    )
    if builder.projection is not None:
        with NpyWriter(folder / QUICK_STEPS, np.float32) as steps:
            steps.append(byte_steps(builder.project(sample[known])))
    builder.write_trained(folder / TRAINED)
    return {"training_rows": int(known.sum())}


def add(
    folder: Path, vectors: VectorBlocks, exact: ExactSearch | None, *, threads: int, progress: Progress
) -> Mapping[str, int]:
    """Add all vectors; while a block is at hand, the check's exact search looks at it too."""
    builder, with_vector = AnnBuilder.open_trained(folder / TRAINED, threads=threads), 0
    with NpyWriter(folder / VECTOR_ROWS, np.int32) as vector_rows, _quick_writer(folder, builder) as quick:
        for first, block, known in vectors.blocks():
            here = np.flatnonzero(known)
            some = np.ascontiguousarray(block[here])
            stored = builder.add(some)
            if quick is not None:
                quick.append(stored, known)
            if exact is not None:
                exact.look_at(first + here, some)
            vector_rows.append((first + here).astype(np.int32))
            with_vector += len(here)
            progress.advance(len(block))
    if with_vector:
        builder.write(folder / VECTORS)
    return {"with_vector": with_vector}


class _QuickWriter:
    """Writes a byte a component of what a projection leaves, a row for every utterance, zeros where there is none."""

    def __init__(self, rows: NpyWriter, bases: NpyWriter, steps: Vectors, projection: Projection) -> None:
        self._rows, self._bases, self._steps, self._projection = rows, bases, steps, projection

    def append(self, stored: Vectors, known: Known) -> None:
        """The rows of one block."""
        rows, bases = np.zeros((len(known), stored.shape[1]), np.int8), np.zeros(len(known), np.float32)
        rows[known], bases[known] = as_bytes(stored, self._steps), self._projection.bases(stored)
        self._rows.append(rows)
        self._bases.append(bases)


@contextmanager
def _quick_writer(folder: Path, builder: AnnBuilder) -> Iterator[_QuickWriter | None]:
    projection = builder.projection
    if projection is None:
        yield None
        return
    with (
        NpyWriter(folder / QUICK, np.int8, width=projection.components) as rows,
        NpyWriter(folder / QUICK_BASES, np.float32) as bases,
    ):
        yield _QuickWriter(rows, bases, map_array(folder / QUICK_STEPS, np.float32), projection)


def add_bm25(folder: Path, words: int, settings: Bm25Settings, progress: Progress) -> Mapping[str, Any]:
    """BM25's postings of the utterances, and what it knows of the words of the responses."""
    remove_tree(folder / BM25)
    make_folder(folder / BM25)
    names = ((UTTERANCE_TOKENS, UTTERANCE_TOKEN_START), (RESPONSE_TOKENS, RESPONSE_TOKEN_START))
    (codes, starts), (response_codes, response_starts) = (
        (map_array(folder / tokens, np.int32), map_array(folder / start, np.int64)) for tokens, start in names
    )
    build_bm25(codes, starts, words, settings, folder / BM25, progress, responses=(response_codes, response_starts))
    return {}


Batches = Callable[[], Iterator[pa.StringArray]]
