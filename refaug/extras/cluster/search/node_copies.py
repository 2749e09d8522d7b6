"""Copies of the files of shards on the machine that searches them, fetched from the home or a store, checked by hash.

    files/<sha-256>      each content once
    held/<id>-<unit>/    the files of one shard of one version under their names: links to the above
    .lock                shared while files are fetched, exclusive while unused ones are removed

A process holds the folder that it has mapped with a lock that ends with it. A folder that no process holds, and then
a content that no folder links, are removed. Copies hold texts that the home may show to its user alone, so `files` and
`held` are open to this user only, whatever the mode of the folder around them.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import stat
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from refaug.core.artefacts.manifests import NamedFile
from refaug.core.artefacts.mapped_files import FileStamp
from refaug.core.artefacts.mapped_files import stamp_of as stamp_of_handle
from refaug.core.artefacts.store.locations import StoreSettings, open_store
from refaug.core.artefacts.store.objects import Store
from refaug.core.artefacts.transfer import require_room
from refaug.core.artefacts.verified_files import Stamp, stamp_of, verified_files
from refaug.core.errors import Corrupt, NoAccess, NotFound, RefaugError, Unavailable
from refaug.core.files import make_folder, read_json, remove_tree, storage_errors, unique_suffix, write_json

VARIABLE: Final = "REFAUG_NODE_CACHE"

VECTORS: Final = "vectors-"  # begins the names of copies of word vectors
_FILES: Final = "files"
_HELD: Final = "held"
_LOCK: Final = ".lock"
_STAMPS: Final = "verified.json"
_PIECE: Final = 4 << 20


@dataclass(frozen=True, kw_only=True)
class CopySource:
    """Where the files of one version lie: in a folder that this machine may see, or in a store."""

    folder: Path
    store: StoreSettings | None


@dataclass(eq=False)
class _OpenFile:
    """A file of a copy, and how it was when its hash was compared."""

    path: Path
    sha256: str
    verified: Stamp
    handle: int
    last: FileStamp | None = None  # of its inode, which is asked for more quickly

    def is_unchanged(self) -> bool:
        """Compare the hash again if the file was written to; a further link is no change, another file is one."""
        try:
            now, stamp, status = stamp_of_handle(self.handle), stamp_of(self.path), os.fstat(self.handle)
            if (status.st_dev, status.st_ino) != stamp[:2]:
                return False
            if stamp != self.verified and verified_files.sha256(self.path) != self.sha256:
                return False
        except OSError:
            return False
        self.last, self.verified = now, stamp
        return True


class HeldCopy:
    """The files of a shard on this machine, held against removal."""

    def __init__(self, folder: Path, fetched: int, files: Sequence[_OpenFile], lock: BinaryIO) -> None:
        self.folder, self.fetched = folder, fetched  # of the files, those that were not there, or not whole
        self._files, self._lock = list(files), lock
        self._is_closed = False

    def is_unchanged(self) -> bool:
        """Return whether no file was cut, written to or replaced; this takes about a microsecond a file."""
        try:
            changed = [file for file in tuple(self._files) if stamp_of_handle(file.handle) != file.last]
        except OSError:
            return False
        return all(file.is_unchanged() for file in changed) and not self._is_closed

    def close(self) -> None:
        """Release the folder; from then on it does not count as unchanged."""
        self._is_closed = True
        while self._files:
            os.close(self._files.pop().handle)
        self._lock.close()


def cache_folder() -> Path:
    """Return the folder of this machine's copies, which need not be there yet."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named else Path(tempfile.gettempdir()) / f"refaug-shards-{os.getuid()}"


def hold_copy(cache: Path, name: str, files: Sequence[NamedFile], source: CopySource) -> HeldCopy:
    """Hold the files of a shard on this machine; those that are missing or damaged are fetched."""
    folder = cache / _HELD / name
    _make_private(cache)
    with _locked(cache, fcntl.LOCK_SH), ExitStack() as failing:
        make_folder(folder)
        lock = failing.enter_context((folder / _LOCK).open("ab"))
        fcntl.flock(lock, fcntl.LOCK_SH)
        with _locked(folder, fcntl.LOCK_EX, ".fetching"):  # two processes of one machine fetch a shard once
            known = _known_stamps(folder)
            lacking = [file for file in files if not _is_whole(folder / file.name, file, known.get(file.name))]
            require_room(cache, sum(file.size for file in lacking if not (cache / _FILES / file.sha256).exists()))
            fetch = _CopyFetch(cache, source)
            for file in lacking:
                fetch.bring(file, folder / file.name)
            stamps = {file.name: stamp_of(folder / file.name) for file in files}
            write_json(folder / _STAMPS, {name: list(stamp) for name, stamp in stamps.items()})
            opened = [_opened(folder / file.name, file, stamps[file.name], failing) for file in files]
        failing.pop_all()
    return HeldCopy(folder, fetch.fetched, opened, lock)


def _make_private(cache: Path) -> None:
    """Create what is missing, for this user alone; NoAccess where another user could put or read something there."""
    make_folder(cache.parent)
    own = os.geteuid()
    for folder, owners in ((cache, (own, 0)), (cache / _FILES, (own,)), (cache / _HELD, (own,))):
        with suppress(FileExistsError), storage_errors(folder):
            folder.mkdir(mode=0o700)
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode):
            kind = "a link" if stat.S_ISLNK(status.st_mode) else "a file"
            raise NoAccess(
                f"{folder} is {kind}; copies of shards want a folder", remedy=f"{VARIABLE} names another one"
            )
        if status.st_uid not in owners:
            raise NoAccess(
                f"{folder} belongs to the user {status.st_uid}, and copies of shards are made by the user {own}",
                remedy=f"{VARIABLE} names a folder of that user",
            )
        if folder != cache and status.st_mode & 0o077:
            folder.chmod(0o700)


def _opened(path: Path, file: NamedFile, verified: Stamp, failing: ExitStack) -> _OpenFile:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    failing.callback(os.close, handle)
    return _OpenFile(path, file.sha256, verified, handle)


def collect_copies(cache: Path, keep: Collection[str]) -> list[str]:
    """Remove the folders that no process holds and that are not to be kept; return the others not to be kept.

    Where files are being fetched, nothing is removed: the next collection does it.
    """
    if not (cache / _HELD).is_dir():
        return []
    held = list[str]()
    with _locked(cache, fcntl.LOCK_EX | fcntl.LOCK_NB) as is_locked:
        unwanted = sorted(folder.name for folder in (cache / _HELD).iterdir() if folder.name not in keep)
        if not is_locked:
            return unwanted
        for name in unwanted:
            if _is_free(cache / _HELD / name):
                remove_tree(cache / _HELD / name)
            else:
                held.append(name)
        for path in (cache / _FILES).iterdir():
            if path.stat().st_nlink == 1:
                path.unlink()
    return held


@dataclass(frozen=True, kw_only=True)
class CopyState:
    """A copy on this machine: its name, its bytes, and whether a process has it open."""

    name: str
    size: int
    is_open: bool


def copies_here() -> list[CopyState]:
    """Return the copies on this machine; one that goes meanwhile is left out."""
    held, states = cache_folder() / _HELD, list[CopyState]()
    for folder in sorted(held.iterdir()) if held.is_dir() else ():
        with suppress(FileNotFoundError):
            sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
            states.append(CopyState(name=folder.name, size=sum(sizes), is_open=not _is_free(folder)))
    return states


def collect_here(keep: Sequence[str]) -> list[str]:
    """Remove what nothing needs from this machine, as `collect_copies` does."""
    return collect_copies(cache_folder(), keep)


def is_of_vectors(name: str) -> bool:
    """Return whether a copy is of word vectors, which hold no text of a log."""
    return name.startswith(VECTORS)


class _CopyFetch:
    """Files on their way to this machine."""

    def __init__(self, cache: Path, source: CopySource) -> None:
        self._cache, self._source, self.fetched = cache, source, 0

    def bring(self, file: NamedFile, target: Path) -> None:
        """Bring a file here under its name."""
        content = self._cache / _FILES / file.sha256
        if not _is_whole(content, file, None):
            self._fetch(file, content)
            self.fetched += 1
        make_folder(target.parent)
        aside = target.with_name(f".{target.name}.{unique_suffix()}.aside")
        os.link(content, aside)
        aside.replace(target)

    def _fetch(self, file: NamedFile, content: Path) -> None:
        """Fetch a content from the first place that has it whole."""
        problems, is_damaged = list[str](), False
        for where, read in self._places(file):
            try:
                problem = _write_checked(file, content, read)
            except Corrupt as error:
                problem, is_damaged = error.message, True
            if problem is None:
                return
            problems.append(f"{where} {problem}")
        if is_damaged:
            raise Corrupt(
                f"{file.name} is damaged: {'; '.join(problems)}",
                remedy="restore it from a backup, or: refaug artefacts push --verify from a machine that has it",
            )
        raise Unavailable(
            f"{file.name} is nowhere to be fetched from: {'; '.join(problems)}",
            remedy="mount REFAUG_HOME under the same path on all machines, or set REFAUG_STORE to a store that has "
            "the version",
        )

    def _places(self, file: NamedFile) -> Iterator[tuple[str, Callable[[], Iterator[bytes]]]]:
        yield "the home", lambda: _pieces_of(self._source.folder / file.name)
        settings = self._source.store
        if settings is not None:
            yield f"the store {settings.location}", lambda: _pieces_of_store(settings, file.sha256)


def _pieces_of(path: Path) -> Iterator[bytes]:
    with path.open("rb") as opened:
        while piece := opened.read(_PIECE):
            yield piece


def _pieces_of_store(settings: StoreSettings, sha256: str) -> Iterator[bytes]:
    with open_store(settings) as files:
        yield from Store(files).object_pieces(sha256)


def _write_checked(file: NamedFile, target: Path, read: Callable[[], Iterator[bytes]]) -> str | None:
    """Write a file under its name; return why it cannot be read, and raise Corrupt where its bytes are other ones."""
    aside = target.with_name(f".{target.name}.{unique_suffix()}.aside")
    digest, size = hashlib.sha256(), 0
    try:
        pieces = read()
        with storage_errors(target), aside.open("xb") as out:
            while (piece := _next_piece(pieces)) is not None:
                if isinstance(piece, str):
                    return piece
                size += len(piece)
                if size > file.size:
                    break
                out.write(piece)
                digest.update(piece)
            out.flush()
            os.fsync(out.fileno())
        if size != file.size:
            raise Corrupt(f"has other than {file.size:,} bytes")
        if digest.hexdigest() != file.sha256:
            raise Corrupt(f"has SHA-256 {digest.hexdigest()[:12]}… instead of {file.sha256[:12]}…")
        aside.replace(target)
        return None
    finally:
        aside.unlink(missing_ok=True)


def _next_piece(pieces: Iterator[bytes]) -> bytes | str | None:
    """Return the next bytes, None at the end, or why they cannot be read."""
    try:
        return next(pieces, None)
    except NotFound:
        return "does not have it"
    except RefaugError as error:
        return f"cannot be read: {error.message}"
    except OSError as error:
        return "does not have it" if isinstance(error, FileNotFoundError) else f"cannot be read: {error.strerror}"


def _known_stamps(folder: Path) -> Mapping[str, Stamp]:
    """Return the stamps of the files whose hashes were compared by an earlier process."""
    try:
        return {name: tuple(stamp) for name, stamp in read_json(folder / _STAMPS).items()}  # type: ignore[arg-type, misc]
    except (FileNotFoundError, Corrupt, TypeError):
        return {}


def _is_whole(path: Path, file: NamedFile, known: Stamp | None) -> bool:
    """Return whether a file has its hash; an unchanged file is not read again."""
    try:
        if known is not None and stamp_of(path) == known:
            return True
        return path.stat().st_size == file.size and verified_files.sha256(path) == file.sha256
    except OSError:
        return False


def _is_free(folder: Path) -> bool:
    """Return whether no process holds a folder."""
    try:
        with (folder / _LOCK).open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def _locked(folder: Path, how: int, name: str = _LOCK) -> Iterator[bool]:
    """Lock a folder for this block; with LOCK_NB, yield whether that was possible."""
    with (folder / name).open("ab") as lock:
        try:
            fcntl.flock(lock, how)
        except BlockingIOError:
            yield False
            return
        yield True
