"""Sentence vectors of an encoder, stored because they cannot be computed again from the stored codes of words.

Encoding a log takes hours, so the matrix is written in pieces that survive an interruption; the next run with the same
encoder on the same texts continues after the last finished piece.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from refaug.core.errors import Conflict, Corrupt, Usage
from refaug.core.files import read_json, storage_errors, sync_folder, write_json
from refaug.core.kernels.kernel import compiled
from refaug.core.progress import Progress
from refaug.core.vectors.encoders import Encoder, of_unit_length
from refaug.indexer.columns import TextColumn, map_array
from refaug.indexer.index_folders import Places, encoder_source, hold_encoder
from refaug.indexer.manifest import IndexManifest, VectorSource
from refaug.indexer.search.segments import PAIRS, SUPERSEDED, UTTERANCES
from refaug.indexer.vectors.sentence_vectors import dot

Vectors = NDArray[np.float32]
Known = NDArray[np.bool_]

_TEXTS_A_PIECE: Final = 4_096  # take an encoder seconds to minutes; recording that they are done takes milliseconds
_HEADER_BYTES: Final = 128  # of a .npy file, for any number of rows
_STEPS: Final = 1e6  # similarities are distinguished to 1e-6


# Writing


@dataclass(frozen=True, kw_only=True)
class _EncodingState:
    """How many vectors are safe on disk, and of which encoder; its name contains a hash of what decides them."""

    encoder: str
    dimensions: int
    rows: int = 0

    @property
    def size(self) -> int:
        """The bytes of these rows, with the header."""
        return _HEADER_BYTES + self.rows * self.dimensions * np.dtype(np.float32).itemsize


def encode_utterances(encoder: Encoder, texts: Iterable[pa.StringArray], path: Path, progress: Progress) -> Known:
    """Write a unit vector for each text, (texts, dimensions), as a .npy file; return which texts have one.

    The rows of the others are 0. After an interrupted run, the texts must be the same.
    """
    part, mark = path.with_name(f"{path.name}.part"), path.with_name(f"{path.name}.part.json")
    before = _read_state(part, mark, encoder)
    with storage_errors(part), part.open("r+b" if before.rows else "w+b") as file:
        _write_header(file, before)
        file.truncate(before.size)
        file.seek(before.size)
        for finished in _encode_pieces(encoder, texts, file, before, progress):
            write_json(mark, asdict(finished))
            before = finished
        _write_header(file, before)
        _sync(file)
    part.replace(path)
    mark.unlink(missing_ok=True)
    sync_folder(path.parent)
    return np.asarray(map_array(path, np.float32).any(axis=1))


def _read_state(part: Path, mark: Path, encoder: Encoder) -> _EncodingState:
    """Return how far an interrupted run with this very encoder came; no rows if there was none."""
    nothing = _EncodingState(encoder=encoder.name, dimensions=encoder.sentence_vectors([]).shape[1])
    try:
        state = _EncodingState(**read_json(mark))  # type: ignore[arg-type]  # a value of another type is not equal below
        size = part.stat().st_size
    except (FileNotFoundError, Corrupt, TypeError):
        return nothing
    return state if replace(state, rows=0) == nothing and size >= state.size else nothing


def _encode_pieces(
    encoder: Encoder, texts: Iterable[pa.StringArray], file: BinaryIO, finished: _EncodingState, progress: Progress
) -> Iterator[_EncodingState]:
    """Append the vectors of the texts that have none yet, piece by piece; yield the state after each."""
    seen = 0
    for piece in _pieces(texts):
        new = piece[max(0, finished.rows - seen) :]
        seen += len(piece)
        if len(new):
            vectors = of_unit_length(encoder.sentence_vectors(new.to_pylist()))
            vectors[~np.isfinite(vectors).all(axis=1)] = 0.0  # texts without tokens
            file.write(np.ascontiguousarray(vectors, "<f4").data)
            _sync(file)
            finished = replace(finished, rows=seen)
            yield finished
        progress.advance(len(piece))
    if seen < finished.rows:
        raise Conflict(
            f"a stopped run has encoded {finished.rows:,} texts, but there are only {seen:,}",
            remedy="delete what it has left, and begin anew",
        )


def _pieces(texts: Iterable[pa.StringArray]) -> Iterator[pa.StringArray]:
    for batch in texts:
        for first in range(0, len(batch), _TEXTS_A_PIECE):
            yield batch[first : first + _TEXTS_A_PIECE]


def _write_header(file: BinaryIO, finished: _EncodingState) -> None:
    """Write the number of rows into the file's header."""
    file.seek(0)
    shape = (finished.rows, finished.dimensions)
    np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
    assert file.tell() == _HEADER_BYTES, file.tell()


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


# Comparing


@compiled
def stored_similarity(matrix: Vectors, row: int, query: NDArray[np.float64]) -> float:
    """Return the cosine of a stored vector and a query of unit length, in float64, rounded to a millionth."""
    return np.rint(dot(matrix[row], query) * _STEPS) / _STEPS  # type: ignore[no-any-return]


# ── Encoding the texts of an index ahead of time, into the sentence vectors that a home keeps ─────────────────────────


@dataclass(frozen=True, kw_only=True)
class IndexEncodings:
    """The outcome of encoding an index."""

    index: str
    encoder: str
    texts: int  # of the index, repeats included
    encoded: int  # those that were not kept before
    truncated: int  # longer than the encoder reads, repeats included
    not_kept: int  # encoded, but the disk or its limit did not let us keep them


def encode_index(
    places: Places, spec: str, encoder: str | None, progress: Progress, *, threads: int = 1
) -> IndexEncodings:
    """Encode all utterances and responses that can be found in an index; a stopped run goes on where it was."""
    with places.indexes.open(spec) as held:
        manifest = IndexManifest.read(held.folder)
        source = _source(places, manifest, encoder, threads)
        held_encoder, opened = hold_encoder(places, source, threads=threads)
        with held_encoder or nullcontext():
            assert opened.kept is not None
            before = opened.encoded, opened.truncated, opened.kept.not_kept.total()
            texts = sum(segment.utterances + segment.pairs for segment in manifest.segments)
            progress.stage("encoding", texts, "texts")
            for _, piece in stored_pieces(held.folder, manifest):
                opened.sentence_vectors(piece)
                progress.advance(len(piece))
            after = opened.encoded, opened.truncated, opened.kept.not_kept.total()
            for reason, count in opened.kept.not_kept.items():
                progress.warn(f"{count:,} vectors were not kept: {reason}")
        encoded, truncated, not_kept = (now - then for now, then in zip(after, before, strict=True))
        return IndexEncodings(
            index=f"{held.name}@{held.version}",
            encoder=opened.name,
            texts=texts,
            encoded=encoded,
            truncated=truncated,
            not_kept=not_kept,
        )


def _source(places: Places, manifest: IndexManifest, encoder: str | None, threads: int) -> VectorSource:
    """Return the encoder that is named, or that of the index, if the home has it."""
    if encoder is not None:
        return encoder_source(places, encoder, threads=threads)
    if manifest.vectors.kind != "encoder":
        raise Usage(
            f"index {manifest.name} was built with word vectors, and no encoder is named",
            remedy="--encoder NAME, one of refaug artefacts list encoder",
            field="encoder",
        )
    if manifest.vectors.path:
        raise Usage(
            f"index {manifest.name} was built with an encoder in a folder, {manifest.vectors.path}",
            remedy="vectors are kept of encoders of the home: refaug index encoder add NAME FOLDER, --encoder NAME",
            field="encoder",
        )
    return manifest.vectors


def stored_pieces(version: Path, manifest: IndexManifest) -> Iterator[tuple[str, list[str]]]:
    """Yield the texts of all segments, with their column, but for those that updates have masked."""
    for number, info in enumerate(manifest.segments):
        folder, mask = version / info.folder, version / SUPERSEDED.format(number)
        starts = map_array(folder / "pair_start.npy", np.int64)
        is_live = np.ones(len(starts) - 1, np.bool_)
        if mask.exists():
            is_live &= ~map_array(mask, np.bool_)
        live_pairs = np.flatnonzero(np.repeat(is_live, np.diff(starts)))
        for column, rows in ((UTTERANCES, np.flatnonzero(is_live)), (PAIRS, live_pairs)):
            texts = TextColumn.open(folder / column)
            for first in range(0, len(rows), _TEXTS_A_PIECE):
                yield column, texts.take_ascending(rows[first : first + _TEXTS_A_PIECE]).to_pylist()
