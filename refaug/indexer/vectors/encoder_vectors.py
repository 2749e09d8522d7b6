"""Sentence vectors of an encoder, stored because they cannot be computed again from the stored codes of words.

Encoding a log takes hours, so the matrix is written in pieces that survive an interruption; the next run with the same
encoder on the same texts continues after the last finished piece.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from refaug.core.errors import Conflict, Corrupt
from refaug.core.files import read_json, sync_folder, write_json
from refaug.core.full_disk import storage_errors
from refaug.core.kernels import compiled
from refaug.core.progress import Progress
from refaug.core.vectors.encoders import Encoder, of_unit_length
from refaug.indexer.columns import map_array
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
    progress.stage("encoding utterances", None, "utterances")
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
