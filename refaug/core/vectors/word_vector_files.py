"""Reading the word vectors of other tools: GloVe text, word2vec text and binary, each also as .gz.

gensim reads the files, but silently accepts ragged lines, short files and numbers beyond float32. So the file is
checked first, and errors name their line.
"""

from __future__ import annotations

import gzip
import re
import traceback
import warnings
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from refaug.core.errors import BadInput, DamagedSource, UnknownFormat

REMEDY: Final = "give GloVe or word2vec vectors, text or binary, plain or .gz, or a folder that was saved from them"
_LONGEST_LINE: Final = 1 << 20
_SAMPLE: Final = 4096
_ROWS_A_BLOCK: Final = 1 << 14
_DAMAGE: Final = (EOFError, zlib.error, gzip.BadGzipFile)


@dataclass(frozen=True, eq=False, kw_only=True)
class VectorFile:
    """The content of a file: its words, a row for each, and how many repeated words were skipped."""

    words: list[str]
    matrix: NDArray[np.float32]  # (words, dimensions)
    duplicates: int


def read_vector_file(path: Path) -> VectorFile:
    """Read a file in any of the formats; every number is finite."""
    try:
        with _stream(path) as file:
            layout = _layout(path, file)
        words = _require_bytes(path, layout) if layout.binary else _require_lines(path, layout)
        vectors = _read_with_gensim(path, layout, words)
    except _DAMAGE as error:
        raise DamagedSource(f"{path} breaks off or is damaged: {error}", remedy="copy it again") from error
    if (row := first_not_finite(vectors.matrix)) is not None:
        _name_bad_number(path, layout)
        raise BadInput(f"{path}: the vector of {vectors.words[row]!r} is not finite", remedy="leave the word out")
    # word2vec cuts long words in the middle of a character; more than a few such words mean another encoding.
    if 100 * sum("\ufffd" in word for word in vectors.words) > len(vectors.words):
        raise BadInput(f"{path}: the words are not UTF-8", remedy="convert the file to UTF-8")
    return vectors


# The format


@dataclass(frozen=True, kw_only=True)
class _Layout:
    """What the beginning of a file says about the rest."""

    binary: bool
    header: bool
    words: int  # 0 if only counting the lines can tell
    dimensions: int


def _stream(path: Path) -> BinaryIO:
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")  # type: ignore[return-value]


def _layout(path: Path, file: BinaryIO) -> _Layout:
    """Tell the three formats apart: a header is two whole numbers, and text has no control characters."""
    first = file.readline(_LONGEST_LINE)
    if header := re.fullmatch(rb"(\d{1,18})[ \t]+(\d{1,18})\s*", first):
        words, dimensions = int(header[1]), int(header[2])
        if words == 0 or dimensions == 0:
            raise BadInput(f"{path}, line 1: {words} words of {dimensions} dimensions are none", remedy=REMEDY)
        return _Layout(binary=_looks_binary(file.read(_SAMPLE)), header=True, words=words, dimensions=dimensions)
    if not first.strip():
        raise BadInput(f"{path} is empty, or begins with an empty line", remedy=REMEDY)
    fields = first.rstrip().split(b" ")
    if _looks_binary(first) or len(fields) < 2 or _number(fields[-1]) is None:
        shown = first[:40].decode(errors="replace")
        raise UnknownFormat(f"{path}, line 1: no word with its vector, but {shown!r}", remedy=REMEDY)
    return _Layout(binary=False, header=False, words=0, dimensions=len(fields) - 1)


def _looks_binary(sample: bytes) -> bool:
    """Return whether more than a tenth is no text: floats rarely are text, and words are few beside digits."""
    text = sample.decode("utf-8", "replace")
    odd = sum(character == "\ufffd" or (character < " " and character not in "\t\n\r") for character in text)
    return 10 * odd > len(text)


# Completeness


def _require_lines(path: Path, layout: _Layout) -> int:
    """Return the number of vectors; refuse ragged and surplus lines, which gensim silently accepts."""
    vector_count = 0
    for line, text in _lines(path, layout):
        numbers = text.count(b" ")
        if numbers != layout.dimensions:
            word, *rest = text.split(b" ")
            if len(rest) > layout.dimensions and _number(rest[0]) is None:
                raise BadInput(
                    f"{path}, line {line}: a word with a space in it, {word.decode(errors='replace')!r} and on",
                    remedy=f"leave out such lines: awk 'NF == {layout.dimensions + 1}'",
                )
            raise BadInput(
                f"{path}, line {line}: {numbers} numbers where {layout.dimensions} belong", remedy="correct that line"
            )
        vector_count += 1
    if layout.header and vector_count != layout.words:
        raise DamagedSource(
            f"{path}: the header says {layout.words} words, there are {vector_count}", remedy="copy it again"
        )
    return vector_count


def _require_bytes(path: Path, layout: _Layout) -> int:
    """Refuse a header that promises more than the file can hold, before memory is allocated for it."""
    size = 0
    with _stream(path) as file:
        while piece := file.read(1 << 20):
            size += len(piece)
    least = layout.words * (4 * layout.dimensions + 1)
    if size < least:
        raise DamagedSource(
            f"{path}: {layout.words} binary vectors of {layout.dimensions} dimensions need {least} bytes or more, "
            f"there are {size}",
            remedy="copy it again",
        )
    return layout.words


# Words and rows


def _read_with_gensim(path: Path, layout: _Layout, words: int) -> VectorFile:
    from gensim.models import KeyedVectors  # noqa: PLC0415  takes a second to import, and only for files of other tools

    with warnings.catch_warnings(), np.errstate(over="ignore"):
        warnings.simplefilter("ignore", ResourceWarning)  # gensim does not close a file without a header
        try:
            keyed = KeyedVectors.load_word2vec_format(
                str(path), binary=layout.binary, no_header=not layout.header, unicode_errors="replace"
            )
        except ValueError as error:
            traceback.clear_frames(error.__traceback__)  # they hold that file open
            _name_bad_number(path, layout)
            raise BadInput(f"{path}: not word vectors: {error}", remedy=REMEDY) from error
    words_read = [word for word in keyed.index_to_key if word is not None]  # a repeated word leaves a None
    matrix = np.ascontiguousarray(keyed.vectors[: len(words_read)], np.float32)
    return VectorFile(words=words_read, matrix=matrix, duplicates=words - len(words_read))


def _name_bad_number(path: Path, layout: _Layout) -> None:
    """Find the line with something other than float32 numbers, which gensim does not name."""
    if layout.binary:
        return
    for line, text in _lines(path, layout):
        for field in text.split(b" ")[1:]:
            number = _number(field)
            if number is None or not abs(number) <= float(np.finfo(np.float32).max):
                shown = field.decode(errors="replace")
                raise BadInput(f"{path}, line {line}: {shown!r} is not a finite number", remedy="correct that line")


def _lines(path: Path, layout: _Layout) -> Iterator[tuple[int, bytes]]:
    """Yield the lines with vectors and their numbers."""
    with _stream(path) as file:
        for line, text in enumerate(file, start=1):
            if line > layout.header:
                yield line, text.rstrip()


def _number(field: bytes) -> float | None:
    try:
        return float(field)
    except ValueError:
        return None


# Rows, a block at a time


def row_blocks(matrix: NDArray[np.float32]) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """Yield blocks of rows with the place of the first: the matrix may be larger than memory."""
    return ((at, matrix[at : at + _ROWS_A_BLOCK]) for at in range(0, len(matrix), _ROWS_A_BLOCK))


def first_not_finite(matrix: NDArray[np.float32]) -> int | None:
    """Return the first row with a number that is not finite."""
    for at, rows in row_blocks(matrix):
        bad = ~np.isfinite(rows).all(axis=1)
        if bad.any():
            return at + int(bad.argmax())
    return None
