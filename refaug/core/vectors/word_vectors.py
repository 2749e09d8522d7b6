"""Word vectors: words, the rows of a float32 matrix, and word frequencies if they are known.

`refaug.core.vectors.word_vector_files` reads published files, which takes minutes for the large ones; a folder
written by `save` is memory-mapped and opens at once.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from refaug.core.array_files import write_array
from refaug.core.errors import BadInput, Conflict, Corrupt, NotFound
from refaug.core.files import (
    make_folder,
    read_json,
    sha256_of,
    with_checksum,
    write_aside,
    write_json,
)
from refaug.core.vectors.word_vector_files import REMEDY, first_not_finite, read_vector_file, row_blocks
from refaug.core.version import VERSION

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

    @functools.cached_property
    def index(self) -> dict[str, int]:
        """The row of each word."""
        return {word: row for row, word in enumerate(self.words)}

    @functools.cached_property
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

    @functools.cached_property
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
