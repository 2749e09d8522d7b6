"""Vectors of texts that were computed once, kept for every command, service and job of a home.

Each encoder has a SQLite file for vectors of sentences and one for those of tokens, named by the hash of what decides
them; a rater that reads texts one by one has its own. What was computed lies under the hash of its text, with the bits
that it had: sentence vectors as halves, to which they are rounded, the others in single precision. The text itself is
not stored. The files can be made again: what cannot be kept is only counted, and a damaged file is replaced by an empty
one.
"""

from __future__ import annotations

import hashlib
import logging
import os
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from refaug.core.errors import Locked
from refaug.core.files import make_folder
from refaug.core.processes.forking import held_over_fork

log = logging.getLogger(__name__)
T = TypeVar("T")

_KEY_BYTES: Final = 16
_SUFFIX: Final = ".sqlite"
_TOKENS: Final = ".tokens"  # before the suffix, after the hash of the encoder
_STATES: Final = ".states"  # likewise, after the hash of a rater
_TOKEN_SHARE: Final = 2  # token vectors, which take thirty times as much, have at most one part in so many
_TOKENS_A_TEXT: Final = 16  # a common length, for the size of pages
_AT_ONCE: Final = 500  # keys in one question
_WAIT_S: Final = 1.0  # for another process that writes: a vector that is not kept costs less than waiting
_ERASURE_WAIT_S: Final = 60.0
_PAGE_SIZES: Final = (4096, 8192, 16384, 32768, 65536)
_ROW_BYTES: Final = 9  # beside the vector: lengths, number and pointer of a row
_PAGE_HEADER: Final = 8
_TEXTS_A_PAGE: Final = 500  # over which the pages beside those of vectors are spread
_CUT: Final = b"\1"  # after the vector of a text that was longer than the encoder reads

# Two tables, so that vectors fill pages in the order in which they come: a table in the order of hashes would be a
# third empty, and with the key in both table and index, 50,000 texts of 384 numbers took 27 bytes more each.
_SCHEMA: Final = (
    "create table if not exists vectors (place integer primary key, vector blob not null)",
    "create table if not exists keys (key blob primary key, place integer not null) without rowid",
)


class SentenceVector(NamedTuple):
    """A text's vector, rounded to halves, and whether the text was longer than the encoder reads."""

    vector: NDArray[np.float32]
    truncated: bool

    @property
    def nbytes(self) -> int:
        """The approximate memory it takes."""
        return self.vector.nbytes


def key_of(text: str) -> bytes:
    """Return the key of a text: half of its SHA-256."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:_KEY_BYTES]


TokenRows = NDArray[np.float32]  # (tokens, dimensions), of one text
TextState = NDArray[np.float32]  # (size,), what a rater's network reads of one text
Kept = TypeVar("Kept")


@dataclass(frozen=True)
class StoredForm(Generic[Kept]):
    """How the vectors of a text become bytes, and how many these commonly are."""

    write: Callable[[Kept], bytes]
    read: Callable[[bytes], Kept | None]  # None for other bytes than were written: the text is encoded again
    bytes: int


class KeptVectors(Generic[Kept]):
    """The kept vectors of one encoder; several processes and threads may use them at once.

    `not_kept` counts the vectors that were computed and not kept, by the reason.
    """

    def __init__(self, path: Path, form: StoredForm[Kept], may_grow: Callable[[int], bool]) -> None:
        self._path, self._form, self._may_grow = path, form, may_grow
        self._lock = held_over_fork(threading.RLock())
        self._connection: sqlite3.Connection | None = None
        self._owner = 0  # the process that opened it: SQLite's files must not be used over a fork
        self.not_kept = Counter[str]()

    def get(self, texts: Sequence[str]) -> dict[str, Kept]:
        """Return the vectors of those texts that have one."""
        text_of = {key_of(text): text for text in texts}
        found = dict[str, Kept]()
        if not text_of or not self._path.exists():
            return found
        with self._lock, self._not_kept(0):
            for keys in _batches(text_of):
                rows = self._run(lambda connection, keys=keys: _rows_of(connection, keys))  # type: ignore[misc]
                for key, blob in rows:
                    if (kept := self._form.read(blob)) is not None:
                        found[text_of[key]] = kept
        return found

    def put(self, vectors: Mapping[str, Kept]) -> None:
        """Keep vectors; what cannot be kept is counted."""
        if not vectors:
            return
        rows = {key_of(text): self._form.write(kept) for text, kept in vectors.items()}
        if not self._may_grow(sum(map(len, rows.values()))):
            self.not_kept["the limit on disk is reached"] += len(rows)
            return
        with self._lock, self._not_kept(len(rows)):
            self._run(lambda connection: _insert(connection, rows))

    def _run(self, act: Callable[[sqlite3.Connection], T]) -> T:
        """Act on the file; a damaged one is replaced by an empty one, once."""
        try:
            return act(self._opened())
        except sqlite3.DatabaseError as error:
            if not _is_damage(error):
                raise
            log.warning(
                "kept vectors were damaged, and are computed again",
                extra={"file": str(self._path), "why": str(error)},
            )
            self._close()
            remove_store(self._path)
            return act(self._opened())

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None or self._owner != os.getpid():
            make_folder(self._path.parent)
            self._connection, self._owner = _connect(self._path, self._form.bytes), os.getpid()
        return self._connection

    def _close(self) -> None:
        if self._connection is not None and self._owner == os.getpid():
            self._connection.close()
        self._connection = None

    @contextmanager
    def _not_kept(self, count: int) -> Iterator[None]:
        """Count vectors that a locked, read-only or full disk does not let us keep; nothing else is wrong."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            if not self.not_kept:
                log.warning("vectors of texts are not kept", extra={"file": str(self._path), "why": str(error)})
            self.not_kept[str(error)] += count


def _sentence_form(dimensions: int) -> StoredForm[SentenceVector]:
    """Return a vector as halves, with a mark where the text was cut."""
    size = 2 * dimensions

    def write(kept: SentenceVector) -> bytes:
        return kept.vector.astype("<f2").tobytes() + (_CUT if kept.truncated else b"")

    def read(blob: bytes) -> SentenceVector | None:
        if len(blob) not in (size, size + 1):
            return None
        vector = np.frombuffer(blob, "<f2", dimensions).astype(np.float32)
        return SentenceVector(vector, len(blob) > size) if np.isfinite(vector).all() else None

    return StoredForm(write, read, size)


def _token_form(dimensions: int) -> StoredForm[TokenRows]:
    """Return the rows of a text one behind the other."""

    def write(kept: TokenRows) -> bytes:
        return np.ascontiguousarray(kept, "<f4").tobytes()

    def read(blob: bytes) -> TokenRows | None:
        if len(blob) % (4 * dimensions):
            return None
        rows = np.frombuffer(blob, "<f4").astype(np.float32).reshape(-1, dimensions)
        return rows if np.isfinite(rows).all() else None

    return StoredForm(write, read, 4 * dimensions * _TOKENS_A_TEXT)


def _state_form(size: int) -> StoredForm[TextState]:
    """Return a vector in single precision."""

    def write(kept: TextState) -> bytes:
        return np.ascontiguousarray(kept, "<f4").tobytes()

    def read(blob: bytes) -> TextState | None:
        if len(blob) != 4 * size:
            return None
        vector = np.frombuffer(blob, "<f4").astype(np.float32)
        return vector if np.isfinite(vector).all() else None

    return StoredForm(write, read, 4 * size)


@dataclass(frozen=True, kw_only=True)
class StoreSize:
    """How much is kept of one encoder, of sentences or of tokens."""

    encoder: str  # the hash of what decides its vectors; of token vectors, with `.tokens`, of a rater's, `.states`
    texts: int
    bytes: int

    @property
    def content(self) -> str:
        """The hash of the encoder alone."""
        return self.encoder.partition(".")[0]


@dataclass(frozen=True)
class Encodings:
    """The kept vectors of a home, two files for each encoder; together they take at most so many bytes."""

    folder: Path
    most_bytes: int

    def open(self, content: str, dimensions: int) -> KeptVectors[SentenceVector]:
        """Return the sentence vectors of the encoder with this hash."""
        return KeptVectors(self.folder / f"{content}{_SUFFIX}", _sentence_form(dimensions), self._may_grow)

    def open_tokens(self, content: str, dimensions: int) -> KeptVectors[TokenRows]:
        """Return the token vectors of the encoder with this hash."""
        path = self.folder / f"{content}{_TOKENS}{_SUFFIX}"
        return KeptVectors(path, _token_form(dimensions), self._may_grow_by_tokens)

    def open_states(self, content: str, size: int) -> KeptVectors[TextState]:
        """Return what the network of the rater with this hash reads of texts."""
        return KeptVectors(self.folder / f"{content}{_STATES}{_SUFFIX}", _state_form(size), self._may_grow)

    def _may_grow(self, size: int) -> bool:
        return size + sum(map(_bytes_of, self._paths())) <= self.most_bytes

    def _may_grow_by_tokens(self, size: int) -> bool:
        of_tokens = sum(_bytes_of(path) for path in self._paths() if path.stem.endswith(_TOKENS))
        return size + of_tokens <= self.most_bytes // _TOKEN_SHARE and self._may_grow(size)

    def _paths(self) -> list[Path]:
        return sorted(self.folder.glob(f"*{_SUFFIX}"))

    def forget(self, texts: Iterable[str]) -> int:
        """Delete the vectors of texts under every encoder, and overwrite them on disk; return how many there were.

        Locked says that another process is in the way for long.
        """
        keys = [key_of(text) for text in dict.fromkeys(texts)]
        return sum(_forget(path, keys) for path in self._paths()) if keys else 0

    def sizes(self) -> list[StoreSize]:
        """Return the size of each encoder's file; a damaged one has no texts."""
        return [StoreSize(encoder=path.stem, texts=_count_texts(path), bytes=_bytes_of(path)) for path in self._paths()]

    def clear(self, encoder: str | None = None) -> int:
        """Remove all files, or those of the encoder with this hash; return the bytes that are free now."""
        paths = [path for path in self._paths() if encoder in (None, path.stem.partition(".")[0])]
        freed = sum(map(_bytes_of, paths))
        for path in paths:
            remove_store(path)
        return freed


def _batches(keys: Iterable[bytes]) -> Iterator[list[bytes]]:
    rest = iter(keys)
    while batch := list(islice(rest, _AT_ONCE)):
        yield batch


def remove_store(path: Path) -> None:
    """Remove the file of an encoder with those that SQLite has beside it."""
    for part in _parts(path):
        part.unlink(missing_ok=True)


def _parts(path: Path) -> list[Path]:
    return [path, *(path.with_name(path.name + end) for end in ("-wal", "-shm"))]


def _bytes_of(path: Path) -> int:
    total = 0
    for part in _parts(path):
        with suppress(FileNotFoundError):
            total += part.stat().st_size
    return total


def _page_size(size: int) -> int:
    """Return the page with which some thousands of entries of this size take the least."""
    row = size + _ROW_BYTES
    return min(_PAGE_SIZES, key=lambda size: size / max(0.5, (size - _PAGE_HEADER) // row) + size / _TEXTS_A_PAGE)


def _connect(path: Path, size: int, wait_s: float = _WAIT_S) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=wait_s, isolation_level=None, check_same_thread=False)
    try:
        connection.execute(f"pragma page_size = {_page_size(size)}")
        connection.execute("pragma journal_mode = wal")
        connection.execute("pragma synchronous = normal")  # a kill loses nothing; a crash of the machine, a little
        for table in _SCHEMA:
            connection.execute(table)
    except BaseException:
        connection.close()
        raise
    return connection


def _is_damage(error: sqlite3.DatabaseError) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _marks(keys: Sequence[bytes]) -> str:
    return ",".join("?" * len(keys))


def _rows_of(connection: sqlite3.Connection, keys: Sequence[bytes]) -> list[tuple[bytes, bytes]]:
    question = f"select key, vector from keys join vectors using (place) where key in ({_marks(keys)})"
    return connection.execute(question, keys).fetchall()


def _insert(connection: sqlite3.Connection, rows: Mapping[bytes, bytes]) -> None:
    """Insert the rows that are not there yet, in one transaction."""
    connection.execute("begin immediate")
    try:
        present = set[bytes]()
        for keys in _batches(rows):
            question = f"select key from keys where key in ({_marks(keys)})"
            present.update(key for (key,) in connection.execute(question, keys))
        ((last,),) = connection.execute("select coalesce(max(place), 0) from vectors").fetchall()
        numbered = list(enumerate(sorted(rows.keys() - present), last + 1))
        connection.executemany("insert into vectors values (?, ?)", [(place, rows[key]) for place, key in numbered])
        connection.executemany("insert into keys values (?, ?)", [(key, place) for place, key in numbered])
        connection.execute("commit")
    except BaseException:
        with suppress(sqlite3.Error):
            connection.execute("rollback")
        raise


def _forget(path: Path, keys: Sequence[bytes]) -> int:
    """Delete keys with their vectors from a file, and overwrite where they were; a damaged file is removed."""
    try:
        with closing(sqlite3.connect(path, timeout=_ERASURE_WAIT_S, isolation_level=None)) as connection:
            connection.execute("pragma secure_delete = on")
            connection.execute("begin immediate")
            before = connection.total_changes
            for some in _batches(keys):
                places = f"select place from keys where key in ({_marks(some)})"
                connection.execute(f"delete from vectors where place in ({places})", some)
                connection.execute(f"delete from keys where key in ({_marks(some)})", some)
            connection.execute("commit")
            connection.execute("pragma wal_checkpoint(truncate)")
            return (connection.total_changes - before) // 2
    except sqlite3.DatabaseError as error:
        if _is_damage(error):
            remove_store(path)
            return 0
        raise Locked(
            f"{path}: the vectors of erased texts cannot be deleted: {error}",
            remedy="run the same command again when nothing else writes there, or remove the file",
        ) from error


def _count_texts(path: Path) -> int:
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=_WAIT_S)) as connection:
            ((count,),) = connection.execute("select count(*) from keys").fetchall()
            return int(count)
    except sqlite3.Error:
        return 0
