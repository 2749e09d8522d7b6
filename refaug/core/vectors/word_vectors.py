"""Word vectors: words, the rows of a float32 matrix, and word frequencies if they are known.

`refaug.core.vectors.word_vectors` reads published files, which takes minutes for the large ones; a folder
written by `save` is memory-mapped and opens at once.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
import re
import traceback
import warnings
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from refaug.core.array_files import write_array
from refaug.core.errors import BadInput, Conflict, Corrupt, DamagedSource, NotFound, UnknownFormat
from refaug.core.files import make_folder, read_json, sha256_of, with_checksum, write_aside, write_json
from refaug.core.processes.kept import cached_property
from refaug.core.version import VERSION

# ── Reading the word vectors of other tools: GloVe text, word2vec text and binary, each also as .gz ───────────────────
#
# gensim reads the files, but silently accepts ragged lines, short files and numbers beyond float32. So the file is
# checked first, and errors name their line.

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


# ── Word vectors: words, the rows of a float32 matrix, and word frequencies if they are known ─────────────────────────

FORMAT_VERSION: Final = 1
MANIFEST: Final = "manifest.json"
_VECTORS: Final = "vectors.npy"
_WORDS: Final = "words.txt"
_COUNTS: Final = "counts.npy"
_Identity = tuple[str, int, int, int]  # name, inode, size, time of the last change


@dataclass(frozen=True, eq=False)
class WordVectors:
    """Words and their vectors; the more frequent words come first, as in every published file."""

    words: list[str]
    matrix: NDArray[np.float32]  # (words, dimensions)
    counts: NDArray[np.int64] | None = None  # how often each word occurred, if known
    stem: str = "vectors"
    duplicates: int = 0  # repeated words in the file, which were skipped
    recorded_sha256: str = ""  # the manifest's hash, so that opening need not read every row

    @property
    def dimensions(self) -> int:
        """The length of a vector."""
        return int(self.matrix.shape[1])

    @cached_property
    def index(self) -> dict[str, int]:
        """The row of each word."""
        return {word: row for row, word in enumerate(self.words)}

    @cached_property
    def sha256(self) -> str:
        """The hash of words and vectors: the same for the same content, whatever file it came from."""
        return self.recorded_sha256 or self._content_sha256()

    @property
    def name(self) -> str:
        """The name in signatures: a safe form of the file's name, and the hash."""
        return f"{re.sub(r'[^A-Za-z0-9._-]', '-', self.stem)[:64]}#{self.sha256[:12]}"

    @property
    def frequency_source(self) -> str:
        """The source of p(w), for signatures: the hash of vectors does not cover their counts."""
        if self.counts is None:
            return "zipf"
        return f"counts#{hashlib.sha256(np.asarray(self.counts, '<i8').tobytes()).hexdigest()[:12]}"

    def rows_of(self, tokens: Iterable[str]) -> NDArray[np.int64]:
        """Return the row of each token, -1 for words without one."""
        index = self.index
        return np.array([index.get(token, -1) for token in tokens], np.int64)

    def frequencies(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the probability p(w) of the words of these rows.

        With counts it is count / sum of counts. Without counts, Zipf's law over the order of the words: 1 /
        ((row + 1) · H_N) with H_N = 1 + 1/2 + … + 1/N over the N words, so that the probabilities sum to one
        either way.
        """
        if self.counts is not None:
            return np.asarray(self.counts[rows] / self._mass)
        return np.asarray(1.0 / ((rows + 1.0) * self._mass))

    def frequency(self, word: str) -> float:
        """Return the probability of a word; 0 for an unknown word."""
        row = self.index.get(word)
        return 0.0 if row is None else float(self.frequencies(np.array([row]))[0])

    @cached_property
    def _mass(self) -> float:
        if self.counts is not None:
            return float(self.counts.sum()) or 1.0
        return float((1.0 / np.arange(1, len(self.words) + 1)).sum())

    def _content_sha256(self) -> str:
        """Hash lengths and bytes of the words, then the rows, in pieces: the matrix may be larger than memory."""
        digest = hashlib.sha256(f"{len(self.words)} {self.dimensions}\n".encode())
        encoded = [word.encode("utf-8", "surrogatepass") for word in self.words]
        digest.update(np.array([len(word) for word in encoded], "<i8").tobytes())
        digest.update(b"".join(encoded))
        for _, rows in row_blocks(self.matrix):
            digest.update(np.ascontiguousarray(rows, "<f4").data)
        return digest.hexdigest()

    def verify(self) -> None:
        """Read everything, and refuse content whose hash is not the manifest's."""
        actual = self._content_sha256()
        if actual != self.sha256:
            raise Corrupt(
                f"word vectors {self.stem!r} should have the hash {self.sha256[:12]} but have {actual[:12]}",
                remedy="save them again",
            )

    def save(self, folder: Path, details: Mapping[str, Any] | None = None, *, beside: Sequence[str] = ()) -> None:
        """Write the folder that `open_word_vectors` maps; the manifest comes last, so without one there are no vectors.

        The details say how the vectors were made; they are stored in the manifest. `beside` are files that are
        in the folder already and belong to the vectors.
        """
        if (folder / MANIFEST).exists():
            raise Conflict(f"{folder} has word vectors already", remedy="save under another name")
        self._require_savable()
        make_folder(folder)
        with write_aside(folder / _WORDS) as file:
            file.writelines(f"{word}\n".encode() for word in self.words)
        write_array(folder / _VECTORS, np.asarray(self.matrix, "<f4"))
        names = [_WORDS, _VECTORS, *beside]
        if self.counts is not None:
            write_array(folder / _COUNTS, np.asarray(self.counts, "<i8"))
            names.append(_COUNTS)
        manifest = {**self._manifest(folder, names), "details": dict(details or {})}
        write_json(folder / MANIFEST, with_checksum(manifest))

    def _manifest(self, folder: Path, names: list[str]) -> dict[str, object]:
        files = {name: {"size": (folder / name).stat().st_size, "sha256": sha256_of(folder / name)} for name in names}
        return {
            "format_version": FORMAT_VERSION,
            "kind": "vectors",
            "stem": self.stem,
            "words": len(self.words),
            "dimensions": self.dimensions,
            "duplicates": self.duplicates,
            "sha256": self.sha256,
            "files": files,
            "refaug": VERSION,
        }

    def _require_savable(self) -> None:
        """Refuse words with a line's end or a lone surrogate, which cannot be a line of UTF-8, and infinite numbers."""
        bad = next((word for word in self.words if re.search("[\n\ud800-\udfff]", word)), None)
        if bad is not None:
            raise BadInput(f"the word {bad!r} cannot be a line of a file", remedy="leave it out")
        if (row := first_not_finite(self.matrix)) is not None:
            raise BadInput(f"the vector of {self.words[row]!r} is not finite", remedy="leave the word out")


def open_word_vectors(path: Path) -> WordVectors:
    """Open a file or a saved folder, or return the vectors opened before if it has not changed."""
    try:
        folder = path.is_dir()
        if folder and not (path / MANIFEST).exists():
            raise NotFound(
                f"the folder {str(path)!r} holds no saved word vectors: there is no {MANIFEST} in it",
                remedy="give a file of vectors: GloVe or word2vec, text or binary, plain or .gz",
            )
        load = _load_folder if folder else _load_file
        return load(path, tuple(map(_identity_of, sorted(path.iterdir()) if folder else [path])))
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or error
        raise NotFound(f"cannot read word vectors at {str(path)!r}: {reason}", remedy=REMEDY) from error


def _identity_of(path: Path) -> _Identity:
    """Return what a file has to keep for its vectors to be used again: a mapping is that of an inode, not of a name."""
    status = path.stat()
    return path.name, status.st_ino, status.st_size, status.st_mtime_ns


@functools.lru_cache(maxsize=4)
def _load_file(path: Path, _files: tuple[_Identity, ...]) -> WordVectors:
    vector_file = read_vector_file(path)
    vector_file.matrix.flags.writeable = False  # shared by all who open the file
    stem = re.sub(r"\.(txt|bin|vec)$", "", path.name.removesuffix(".gz"))
    return WordVectors(words=vector_file.words, matrix=vector_file.matrix, stem=stem, duplicates=vector_file.duplicates)


@functools.lru_cache(maxsize=4)
def _load_folder(folder: Path, _files: tuple[_Identity, ...]) -> WordVectors:
    manifest = read_json(folder / MANIFEST)
    if manifest.get("format_version") != FORMAT_VERSION:
        raise Corrupt(f"{folder / MANIFEST}: format {manifest.get('format_version')!r} is not {FORMAT_VERSION}")
    try:
        vectors = _map_folder(folder, manifest)
    except (ValueError, TypeError, KeyError, AttributeError, EOFError, FileNotFoundError) as error:
        raise Corrupt(f"{folder} is not what its manifest says: {error!r}", remedy="save it again") from error
    shape = (manifest.get("words"), manifest.get("dimensions"))
    if vectors.matrix.shape != shape or len(vectors.words) != shape[0] or vectors.matrix.dtype != np.float32:
        raise Corrupt(
            f"{folder} does not hold the words and dimensions {shape} of its manifest", remedy="save it again"
        )
    return vectors


def _map_folder(folder: Path, manifest: dict[str, Any]) -> WordVectors:
    """Map the folder's files after checking their sizes; `verify` checks the hashes."""
    for name, facts in manifest["files"].items():
        if Path(name).is_absolute() or ".." in name or (folder / name).stat().st_size != facts["size"]:
            raise ValueError(f"{name!r} does not have the size that was written")
    counts = np.load(folder / _COUNTS, allow_pickle=False) if _COUNTS in manifest["files"] else None
    if counts is not None and (counts.shape != (manifest["words"],) or counts.dtype != np.int64 or counts.min() < 0):
        raise ValueError(f"{_COUNTS} does not hold a count for each word")
    return WordVectors(
        words=(folder / _WORDS).read_bytes().decode().split("\n")[:-1],
        matrix=np.asarray(np.load(folder / _VECTORS, mmap_mode="r", allow_pickle=False)),
        counts=counts,
        stem=str(manifest["stem"]),
        duplicates=int(manifest["duplicates"]),
        recorded_sha256=str(manifest["sha256"]),
    )
