"""Scores that are known already, by what they are scores of: in memory, and in a file that several processes share.

A score against a frozen set never changes, so what is kept needs no date of expiry. It is found by a hash of everything
that it depends on: the set, the metric with its signature, the item, and the reply to the last byte.
"""

from __future__ import annotations

import logging
import os
import struct
import threading
import time
import weakref
import zlib
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, Generic, Optional, Protocol, TypeVar, Union

from . import _errors as errors

K = TypeVar("K", bound=Hashable)
Scores = Mapping[bytes, Optional[float]]  # None: it is known that there is no score
logger = logging.getLogger(__name__)

_KEY_BYTES = 16
_NUMBER = struct.Struct("<dI")  # a score to the last bit, and a checksum
_NOTHING = struct.Struct("<I")
_AT_ONCE = 500  # keys in one question: SQLite may be built for no more than 999
_BUSY_S = 2.0  # that another process may hold the file; then a score is asked for again, or not kept
_OURS = 0x5EFA06C1  # written into the file, so that no other program's database is taken for a cache
_LOOK_AFTER = 500  # scores that are written until the file's size is looked at again
_MIB = 2**20


def space(*parts: object) -> bytes:
    """Names what scores have in common: set, metric, signature and the like."""
    return blake2b("\0".join(map(repr, parts)).encode("utf-8", "surrogatepass"), digest_size=_KEY_BYTES).digest()


def key_of(space: bytes, item: str, reply: str) -> bytes:
    """Names one score in it."""
    what = f"{len(item)}:{item}{reply}".encode()
    return blake2b(what, digest_size=_KEY_BYTES, key=space).digest()


class Cache(Protocol):
    """Where scores are kept."""

    def get(self, keys: Iterable[bytes]) -> dict[bytes, Optional[float]]:
        """Those that are known."""

    def put(self, scores: Scores) -> None:
        """Keep these, as long as there is room."""

    def close(self) -> None:
        """Let go of files."""


class Recent(Generic[K]):
    """Numbers that were used lately, at most so many of them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[K, Optional[float]] = OrderedDict()
        self._lock = threading.Lock()
        _ALIVE.add(self)

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, keys: Iterable[K]) -> dict[K, Optional[float]]:
        """Those that are known."""
        with self._lock:
            found = {key: self._kept[key] for key in keys if key in self._kept}
            for key in found:
                self._kept.move_to_end(key)
        return found

    def put(self, scores: Mapping[K, Optional[float]]) -> None:
        """Keep these; what was not used for longest goes."""
        with self._lock:
            for key, score in scores.items():
                self._kept[key] = score
                self._kept.move_to_end(key)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)

    def emptied(self) -> Recent[K]:
        """Another one of the same size, in which nothing is."""
        return Recent(self._most)

    def close(self) -> None:
        """Nothing is open."""

    def forked(self) -> None:
        """In a child: what is known stays so, and no other thread holds the lock."""
        self._lock = threading.Lock()


class Kept:
    """Scores in a file, which survive the process and are shared with others of this machine.

    The file is a cache and nothing more: where it is damaged it is set aside and begun anew; where it cannot be
    written, or another process holds it too long, scores come from the server. The oldest ones go when it is full.
    It has to lie on a disk of this machine, since processes share parts of its memory.
    """

    def __init__(self, path: Union[str, os.PathLike[str]], most_mib: float = 256) -> None:
        self.path = Path(path)
        self._most_bytes = int(most_mib * _MIB)
        self._connection: Any = None
        self._file: Optional[tuple[int, int]] = None  # which file is open: another process may have set it aside
        self._written = _LOOK_AFTER
        self._off = False
        self._lock = threading.Lock()
        self._pid = os.getpid()
        _ALIVE.add(self)
        with self._lock:
            self._open()

    def __len__(self) -> int:
        found = self._tried(lambda: self._connection.execute("SELECT count(*) FROM scores_1").fetchone()[0])
        return int(found or 0)

    def get(self, keys: Iterable[bytes]) -> dict[bytes, Optional[float]]:
        """Those that are known."""
        wanted = list(keys)
        found: Optional[dict[bytes, Optional[float]]] = self._tried(lambda: self._read(wanted))
        return found or {}

    def put(self, scores: Scores) -> None:
        """Keep these."""
        if scores:
            rows = [(key, _packed(key, score)) for key, score in scores.items()]
            self._tried(lambda: self._write(rows))

    def close(self) -> None:
        """Close the file; it is opened again when it is asked for."""
        with self._lock:
            self._close()

    def forked(self) -> None:
        """In a child: the parent's connection is left as it is, since closing it would disturb the parent's."""
        if self._connection is not None:
            _OF_PARENTS.append(self._connection)
        self._lock, self._connection, self._pid = threading.Lock(), None, os.getpid()

    # ── the file ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _tried(self, do: Any) -> Any:
        """What it gives; nothing where the file does not let us, which costs a request and no more."""
        import sqlite3  # noqa: PLC0415  only for caches in files

        with self._lock:
            if self._off:
                return None
            try:
                if self._connection is None:
                    self._open()
                return do()
            except sqlite3.OperationalError as error:
                self._rolled_back()
                if not _is_busy(error):
                    self._turned_off(error)
            except (sqlite3.DatabaseError, _Damaged) as error:
                self._mended(error)
            except (errors.Usage, OSError) as error:
                self._turned_off(error)
        return None

    def _mended(self, error: Exception) -> None:
        try:
            self._set_aside(error)
        except OSError as stuck:
            self._turned_off(stuck)

    def _turned_off(self, error: Exception) -> None:
        self._off = True
        self._close()
        logger.warning("%s is not used any more, and scores come from the server: %s", self.path, error)

    def _read(self, keys: Sequence[bytes]) -> dict[bytes, Optional[float]]:
        found: dict[bytes, Optional[float]] = {}
        for first in range(0, len(keys), _AT_ONCE):
            some = keys[first : first + _AT_ONCE]
            marks = ",".join("?" * len(some))
            question = f"SELECT key, score FROM scores_1 WHERE key IN ({marks})"
            for key, packed in self._connection.execute(question, some):
                found[key] = _unpacked(key, packed)
        return found

    def _write(self, rows: Sequence[tuple[bytes, bytes]]) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany("INSERT OR IGNORE INTO scores_1 (key, score) VALUES (?, ?)", rows)
        self._connection.execute("COMMIT")
        self._written += len(rows)
        if self._written >= _LOOK_AFTER:
            self._written = 0
            self._make_room()

    def _make_room(self) -> None:
        """Let the oldest quarter go where the file is too large; its room is used again."""
        ask = self._connection.execute
        pages, free, size = (
            ask(f"PRAGMA {what}").fetchone()[0] for what in ("page_count", "freelist_count", "page_size")
        )
        if (pages - free) * size > self._most_bytes:
            ask("DELETE FROM scores_1 WHERE n <= (SELECT min(n) + (max(n) - min(n)) / 4 FROM scores_1)")

    def _open(self) -> None:
        """Open the file, as a new one if there is none; Usage where that cannot be done."""
        import sqlite3  # noqa: PLC0415  only for caches in files

        try:
            try:
                self._connect()
            except (sqlite3.DatabaseError, _Damaged) as error:
                if isinstance(error, sqlite3.OperationalError):
                    raise
                self._set_aside(error)
                self._connect()
        except (sqlite3.DatabaseError, OSError) as error:
            self._close()
            raise errors.Usage(
                f"{self.path} cannot be used to keep scores in: {error}", remedy="a path on a disk of this machine"
            ) from error

    def _connect(self) -> None:
        import sqlite3  # noqa: PLC0415  only for caches in files

        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._connection = sqlite3.connect(
            str(self.path), timeout=_BUSY_S, isolation_level=None, check_same_thread=False
        )
        self._file = _which(self.path)
        for left in range(50, -1, -1):  # when several processes begin a file, the waiting of SQLite does not help
            try:
                self._prepare()
            except sqlite3.OperationalError as error:
                self._rolled_back()
                if not left or not _is_busy(error):
                    raise
                time.sleep(0.02)
            else:
                return

    def _prepare(self) -> None:
        ask = self._connection.execute
        whose = ask("PRAGMA application_id").fetchone()[0]
        tables = ask("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if whose != _OURS and (whose or tables):
            self._close()
            raise errors.Usage(f"{self.path} is the database of another program", remedy="another path for the cache")
        ask("PRAGMA journal_mode = WAL").fetchone()
        ask("PRAGMA synchronous = NORMAL")
        if whose == _OURS:
            return
        ask("BEGIN IMMEDIATE")
        ask(f"PRAGMA application_id = {_OURS}")
        ask(
            "CREATE TABLE IF NOT EXISTS scores_1 (n INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, score BLOB NOT NULL)"
        )
        ask("COMMIT")

    def _rolled_back(self) -> None:
        if self._connection is not None and self._connection.in_transaction:
            self._connection.rollback()

    def _set_aside(self, error: Exception) -> None:
        """Rename a damaged file, so that it can be looked at, and say so; a new one is begun."""
        same = self._file is None or self._file == _which(self.path)
        self._close()
        if not same:  # another process has done it
            return
        aside = _free_name(self.path)
        for ending in ("-wal", "-shm"):
            Path(f"{self.path}{ending}").unlink(missing_ok=True)
        self.path.rename(aside)
        logger.warning("%s is damaged (%s): it is now %s, and a new one is begun", self.path, error, aside)

    def _close(self) -> None:
        connection, self._connection, self._file = self._connection, None, None
        if connection is not None:
            connection.close()

    def __del__(self) -> None:
        if getattr(self, "_connection", None) is not None and self._pid == os.getpid():
            self._close()

    def __reduce__(self) -> Any:
        return type(self), (self.path, self._most_bytes / _MIB)


class Both:
    """Memory in front of a file."""

    def __init__(self, near: Cache, far: Cache) -> None:
        self._near, self._far = near, far

    def get(self, keys: Iterable[bytes]) -> dict[bytes, Optional[float]]:
        """Those that are known to one of the two."""
        wanted = list(keys)
        found = self._near.get(wanted)
        if missing := [key for key in wanted if key not in found]:
            more = self._far.get(missing)
            self._near.put(more)
            found.update(more)
        return found

    def put(self, scores: Scores) -> None:
        """Keep these in both."""
        self._near.put(scores)
        self._far.put(scores)

    def close(self) -> None:
        """Close the file."""
        self._near.close()
        self._far.close()


class _Damaged(Exception):
    """What is in the file is not what was written."""


def _packed(key: bytes, score: Optional[float]) -> bytes:
    if score is None:
        return _NOTHING.pack(zlib.crc32(key))
    number = struct.pack("<d", score)
    return number + _NOTHING.pack(zlib.crc32(key + number))


def _unpacked(key: bytes, packed: bytes) -> Optional[float]:
    """The score, which SQLite itself does not check."""
    if not isinstance(packed, bytes) or len(packed) not in (_NOTHING.size, _NUMBER.size):
        raise _Damaged("a score of another length")
    if packed[-_NOTHING.size :] != _NOTHING.pack(zlib.crc32(key + packed[: -_NOTHING.size])):
        raise _Damaged("a score that was changed")
    return None if len(packed) == _NOTHING.size else float(_NUMBER.unpack(packed)[0])


def _is_busy(error: Exception) -> bool:
    return "locked" in str(error) or "busy" in str(error)


def _which(path: Path) -> Optional[tuple[int, int]]:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _free_name(path: Path) -> Path:
    number = 1
    while (found := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    return found


_OF_PARENTS: list[Any] = []  # kept for ever, since a connection that is let go of is closed
_ALIVE: weakref.WeakSet[Any] = weakref.WeakSet()


def _after_fork() -> None:
    for cache in list(_ALIVE):
        cache.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
