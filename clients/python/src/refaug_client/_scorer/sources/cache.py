"""Caches of scores: in memory, and in a file that several processes share.

A score against a frozen set never changes, so a cache needs no expiry. The key is a hash of everything that the score
depends on: the set, the metric with its signature, the item, and the reply to the last byte.
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

from refaug_client._core import errors

K = TypeVar("K", bound=Hashable)
CachedScores = Mapping[bytes, Optional[float]]  # None: the server has said that there is no score
logger = logging.getLogger(__name__)

_KEY_BYTES = 16
_NUMBER = struct.Struct("<dI")  # a score to the last bit, and a checksum
_NOTHING = struct.Struct("<I")
_QUERY_KEYS = 500  # keys in one query: SQLite may be built for no more than 999
_BUSY_S = 2.0  # that another process may hold the file; then a score is asked for again, or not stored
_APPLICATION_ID = 0x5EFA06C1  # of the file, so that no other program's database is taken for a cache
_CHECK_AFTER = 500  # scores that are written between two checks of the file's size
_MIB = 2**20


def namespace_of(*parts: object) -> bytes:
    """Return a hash of what scores have in common: set, metric, signature and the like."""
    return blake2b("\0".join(map(repr, parts)).encode("utf-8", "surrogatepass"), digest_size=_KEY_BYTES).digest()


def key_of(namespace: bytes, item_id: str, reply: str) -> bytes:
    """Return the key of one score within a namespace."""
    text = f"{len(item_id)}:{item_id}{reply}".encode()
    return blake2b(text, digest_size=_KEY_BYTES, key=namespace).digest()


class Cache(Protocol):
    """A store of scores by key."""

    def get(self, keys: Iterable[bytes]) -> dict[bytes, Optional[float]]:
        """Return the stored scores among these."""

    def put(self, scores: CachedScores) -> None:
        """Store scores, as long as there is room."""

    def close(self) -> None:
        """Close files."""


class MemoryCache(Generic[K]):
    """An LRU cache of numbers."""

    def __init__(self, most: int) -> None:
        self._limit = most
        self._scores: OrderedDict[K, Optional[float]] = OrderedDict()
        self._lock = threading.Lock()
        _ALIVE.add(self)

    def __len__(self) -> int:
        return len(self._scores)

    def get(self, keys: Iterable[K]) -> dict[K, Optional[float]]:
        """Return the stored numbers among these."""
        with self._lock:
            cached = {key: self._scores[key] for key in keys if key in self._scores}
            for key in cached:
                self._scores.move_to_end(key)
        return cached

    def put(self, scores: Mapping[K, Optional[float]]) -> None:
        """Store numbers; the least recently used ones go."""
        with self._lock:
            for key, score in scores.items():
                self._scores[key] = score
                self._scores.move_to_end(key)
            while len(self._scores) > self._limit:
                self._scores.popitem(last=False)

    def clear(self) -> None:
        """Forget all numbers."""
        with self._lock:
            self._scores.clear()

    def close(self) -> None:
        """Do nothing: no file is open."""

    def forked(self) -> None:
        """In a forked process: keep the numbers, with a lock that no other thread holds."""
        self._lock = threading.Lock()


class FileCache:
    """Scores in a file, which outlive the process and are shared with other processes of this machine.

    Losing the file loses nothing else: where it is damaged it is renamed and begun anew; where it cannot be written, or
    another process holds it too long, scores come from the server. The oldest ones go when it is full. The file has to
    lie on a disk of this machine, since processes share parts of its memory.
    """

    def __init__(self, path: Union[str, os.PathLike[str]], most_mib: float = 256) -> None:
        self.path = Path(path)
        self._most_bytes = int(most_mib * _MIB)
        self._connection: Any = None
        self._file: Optional[tuple[int, int]] = (
            None  # device and inode of the open file: another process may have renamed it
        )
        self._written = _CHECK_AFTER
        self._is_off = False
        self._lock = threading.Lock()
        self._pid = os.getpid()
        _ALIVE.add(self)
        with self._lock:
            self._open()

    def __len__(self) -> int:
        count = self._attempt(lambda: self._connection.execute("SELECT count(*) FROM scores_1").fetchone()[0])
        return int(count or 0)

    def get(self, keys: Iterable[bytes]) -> dict[bytes, Optional[float]]:
        """Return the stored scores among these."""
        key_list = list(keys)
        cached: Optional[dict[bytes, Optional[float]]] = self._attempt(lambda: self._read(key_list))
        return cached or {}

    def put(self, scores: CachedScores) -> None:
        """Store scores."""
        if scores:
            rows = [(key, _pack(key, score)) for key, score in scores.items()]
            self._attempt(lambda: self._write(rows))

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with self._lock:
            self._close()

    def forked(self) -> None:
        """In a forked process: leave the parent's connection open, since closing it would disturb the parent's."""
        if self._connection is not None:
            _OF_PARENTS.append(self._connection)
        self._lock, self._connection, self._pid = threading.Lock(), None, os.getpid()

    # ── the file ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _attempt(self, do: Any) -> Any:
        """Return what an access to the file returns; None where the file fails, which costs a request and no more."""
        import sqlite3  # noqa: PLC0415  only for caches in files

        with self._lock:
            if self._is_off:
                return None
            try:
                if self._connection is None:
                    self._open()
                return do()
            except sqlite3.OperationalError as error:
                self._roll_back()
                if not _is_busy(error):
                    self._turn_off(error)
            except (sqlite3.DatabaseError, _Damaged) as error:
                self._repair(error)
            except (errors.Usage, OSError) as error:
                self._turn_off(error)
        return None

    def _repair(self, error: Exception) -> None:
        try:
            self._set_aside(error)
        except OSError as stuck:
            self._turn_off(stuck)

    def _turn_off(self, error: Exception) -> None:
        self._is_off = True
        self._close()
        logger.warning("%s is not used any more, and scores come from the server: %s", self.path, error)

    def _read(self, keys: Sequence[bytes]) -> dict[bytes, Optional[float]]:
        scores: dict[bytes, Optional[float]] = {}
        for first in range(0, len(keys), _QUERY_KEYS):
            chunk = keys[first : first + _QUERY_KEYS]
            marks = ",".join("?" * len(chunk))
            query = f"SELECT key, score FROM scores_1 WHERE key IN ({marks})"
            for key, packed in self._connection.execute(query, chunk):
                scores[key] = _unpack(key, packed)
        return scores

    def _write(self, rows: Sequence[tuple[bytes, bytes]]) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany("INSERT OR IGNORE INTO scores_1 (key, score) VALUES (?, ?)", rows)
        self._connection.execute("COMMIT")
        self._written += len(rows)
        if self._written >= _CHECK_AFTER:
            self._written = 0
            self._make_room()

    def _make_room(self) -> None:
        """Delete the oldest quarter where the file is too large; its room is used again."""
        ask = self._connection.execute
        pages, free, size = (
            ask(f"PRAGMA {what}").fetchone()[0] for what in ("page_count", "freelist_count", "page_size")
        )
        if (pages - free) * size > self._most_bytes:
            ask("DELETE FROM scores_1 WHERE n <= (SELECT min(n) + (max(n) - min(n)) / 4 FROM scores_1)")

    def _open(self) -> None:
        """Open the file, a new one if there is none; Usage where that fails."""
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
        self._file = _file_identity(self.path)
        for attempts_left in range(
            50, -1, -1
        ):  # when several processes begin a file, the waiting of SQLite does not help
            try:
                self._prepare()
            except sqlite3.OperationalError as error:
                self._roll_back()
                if not attempts_left or not _is_busy(error):
                    raise
                time.sleep(0.02)
            else:
                return

    def _prepare(self) -> None:
        """Refuse another program's database, and make an empty one a cache, in one transaction with its mark."""
        ask = self._connection.execute
        ask("BEGIN")  # mark and tables are read at one moment: another process may be making them
        is_cache = self._is_cache()
        ask("COMMIT")
        if not is_cache:
            ask("BEGIN IMMEDIATE")
            if not self._is_cache():  # no other process has made them before this one had the lock
                ask(f"PRAGMA application_id = {_APPLICATION_ID}")
                ask("CREATE TABLE scores_1 (n INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, score BLOB NOT NULL)")
            ask("COMMIT")
        ask("PRAGMA journal_mode = WAL").fetchone()
        ask("PRAGMA synchronous = NORMAL")

    def _is_cache(self) -> bool:
        """Return whether the file is marked as a cache; False for an empty one, Usage for any other."""
        application = self._connection.execute("PRAGMA application_id").fetchone()[0]
        tables = self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if application == _APPLICATION_ID:
            return True
        if application or tables:
            self._close()
            raise errors.Usage(f"{self.path} is the database of another program", remedy="another path for the cache")
        return False

    def _roll_back(self) -> None:
        if self._connection is not None and self._connection.in_transaction:
            self._connection.rollback()

    def _set_aside(self, error: Exception) -> None:
        """Rename a damaged file, so that it can be examined, and log that; a new one is begun."""
        same = self._file is None or self._file == _file_identity(self.path)
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


class LayeredCache:
    """A memory cache in front of a file cache."""

    def __init__(self, near: Cache, far: Cache) -> None:
        self._near, self._far = near, far

    def get(self, keys: Iterable[bytes]) -> dict[bytes, Optional[float]]:
        """Return the scores that one of the two has."""
        key_list = list(keys)
        cached = self._near.get(key_list)
        if missing := [key for key in key_list if key not in cached]:
            stored = self._far.get(missing)
            self._near.put(stored)
            cached.update(stored)
        return cached

    def put(self, scores: CachedScores) -> None:
        """Store scores in both."""
        self._near.put(scores)
        self._far.put(scores)

    def close(self) -> None:
        """Close both."""
        self._near.close()
        self._far.close()


def open_cache(location: Union[str, os.PathLike[str], None], entries: int, mib: float) -> Optional[Cache]:
    """Open the cache that a user names: "memory", the path of a file, or None for no cache."""
    if location is None:
        return None
    memory: MemoryCache[bytes] = MemoryCache(entries)
    return memory if location == "memory" else LayeredCache(memory, FileCache(location, mib))


class _Damaged(Exception):
    """The content of the file is not what was written."""


def _pack(key: bytes, score: Optional[float]) -> bytes:
    if score is None:
        return _NOTHING.pack(zlib.crc32(key))
    number = struct.pack("<d", score)
    return number + _NOTHING.pack(zlib.crc32(key + number))


def _unpack(key: bytes, packed: bytes) -> Optional[float]:
    """Return the score, or raise _Damaged where its checksum is wrong: SQLite itself checks nothing."""
    if not isinstance(packed, bytes) or len(packed) not in (_NOTHING.size, _NUMBER.size):
        raise _Damaged("a score of another length")
    if packed[-_NOTHING.size :] != _NOTHING.pack(zlib.crc32(key + packed[: -_NOTHING.size])):
        raise _Damaged("a score that was changed")
    return None if len(packed) == _NOTHING.size else float(_NUMBER.unpack(packed)[0])


def _is_busy(error: Exception) -> bool:
    return "locked" in str(error) or "busy" in str(error)


def _file_identity(path: Path) -> Optional[tuple[int, int]]:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _free_name(path: Path) -> Path:
    number = 1
    while (candidate := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    return candidate


_OF_PARENTS: list[Any] = []  # never freed, since a connection is closed when it is freed
_ALIVE: weakref.WeakSet[Any] = weakref.WeakSet()


def _after_fork() -> None:
    for cache in list(_ALIVE):
        cache.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
