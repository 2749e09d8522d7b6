"""Files that are either whole or absent: written aside, synced, renamed; and the lock that separates writers."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import BinaryIO, Final

import orjson

from refaug.core.errors import Corrupt, Locked, StorageFull, Usage

try:
    import fcntl
except ImportError:  # as on Windows
    fcntl = None  # type: ignore[assignment]

# ── What happens when the disk is full: every write ends in StorageFull, which names the file and says what to do ─────
#
# Nothing is lost by it: files are written aside and renamed when they are whole, so the version before stays the
# published one, and the same command goes on where it stopped.

# EFBIG reports a file-size limit of the process; for the user it is the same problem
_REMOVALS = 1_000  # of one folder: each time there is less that another process could still write into
_FULL = {errno.ENOSPC: "the disk is full", errno.EDQUOT: "the quota is used up", errno.EFBIG: "the file may not grow"}


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Turn 'no space left' in the block into StorageFull naming the path; other errors pass."""
    try:
        yield
    except OSError as error:
        if (full := storage_full(error, str(path))) is not None:
            raise full from error
        raise


def storage_full(error: OSError, where: str) -> StorageFull | None:
    """Return the error that says what is full where; None where something else is wrong."""
    if error.errno not in _FULL:
        return None
    return StorageFull(f"{where}: {_FULL[error.errno]}", remedy="free some room and run the same command again")


# ── Files that are either whole or absent: written aside, synced, renamed; and the lock that separates writers ────────

CHECKSUM = "checksum"  # the field with the SHA-256 of everything else in a manifest
_RESTORE = "restore it from a backup, or make it again"
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


def require_name(kind: str, name: str) -> str:
    """Return the name, or raise Usage: names become folders, so only NAME may reach a path."""
    if NAME.fullmatch(name) is None:
        raise Usage(
            f"{name!r} is not a name for {'an' if kind[0] in 'aeiou' else 'a'} {kind}",
            remedy="use lower-case letters, digits, '.', '_' and '-', a letter or digit first, at most 64 characters",
        )
    return name


def sync_folder(folder: Path) -> None:
    """Make renames in a folder survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_file(path: Path) -> None:
    """Make a file that a library has written survive a power cut."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def unique_suffix() -> str:
    """Return a name that no other process uses; process ids are not enough where containers share a volume."""
    return f"{os.getpid()}-{secrets.token_hex(4)}"


@contextmanager
def write_aside(path: Path) -> Iterator[BinaryIO]:
    """Write a file that appears under its name only when the block ends without error; readers never see half of it."""
    aside = path.with_name(f".{path.name}.{unique_suffix()}.aside")
    with storage_errors(path):
        try:
            with aside.open("wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            aside.replace(path)
        except BaseException:
            with suppress(FileNotFoundError):
                aside.unlink()
            raise
        sync_folder(path.parent)


def write_json(path: Path, content: object) -> None:
    """Write a manifest or a state file, whole or not at all."""
    with write_aside(path) as file:
        file.write(orjson.dumps(content, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))


def read_json(path: Path) -> dict[str, object]:
    """Read what write_json wrote; raise Corrupt for anything else, and where a checksum in it does not fit.

    The checksum itself is left out of what is returned.
    """
    try:
        content = orjson.loads(path.read_bytes())
    except orjson.JSONDecodeError as error:
        raise Corrupt(f"{path}: not JSON: {error}") from error
    if not isinstance(content, dict):
        raise Corrupt(f"{path}: a JSON object was expected, a {type(content).__name__} was found")
    require_checksum(path, content)
    content.pop(CHECKSUM, None)
    return content


def with_checksum(manifest: Mapping[str, object]) -> dict[str, object]:
    """Return a manifest with the checksum of everything in it, settings included."""
    return {**manifest, CHECKSUM: _checksum_of(manifest)}


def require_checksum(path: Path, manifest: Mapping[str, object]) -> None:
    """Refuse a manifest that is not as it was written; files that are written without a checksum pass."""
    if CHECKSUM in manifest and manifest[CHECKSUM] != (actual := _checksum_of(manifest)):
        recorded = str(manifest[CHECKSUM])[:12]
        raise Corrupt(
            f"{path} was altered: it says {recorded}…, and what is in it makes {actual[:12]}…", remedy=_RESTORE
        )


def _checksum_of(manifest: Mapping[str, object]) -> str:
    content = {name: field for name, field in manifest.items() if name != CHECKSUM}
    return hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()


_HASHED_PIECE = 4 * 2**20  # bytes: some milliseconds of hashing


def sha256_of(path: Path, check: Callable[[], None] | None = None) -> str:
    """SHA-256 of a file's bytes, read in pieces; `check` is called before each, and ends the reading by an error."""
    with path.open("rb") as file:
        if check is None:
            return hashlib.file_digest(file, "sha256").hexdigest()
        digest = hashlib.sha256()
        check()
        while piece := file.read(_HASHED_PIECE):
            digest.update(piece)
            check()
        return digest.hexdigest()


def cut_half_line(path: Path) -> int:
    """Cut what a kill left behind the last whole line of a file; return how many whole lines there are."""
    if not path.exists():
        return 0
    count = end = 0
    with path.open("r+b") as file:
        for line in file:
            if line.endswith(b"\n"):
                count, end = count + 1, end + len(line)
        file.truncate(end)
    return count


def remove_tree(folder: Path) -> None:
    """Delete one of our folders, also while another process writes into it or deletes it; none is no error."""
    for left in reversed(range(_REMOVALS)):
        try:
            shutil.rmtree(folder)
        except FileNotFoundError:
            if not folder.exists():
                return
        except OSError as error:
            if error.errno != errno.ENOTEMPTY or not left:
                raise
        else:
            return


def is_private(folder: Path) -> bool:
    """Whether only this user or root may write here; what lies in such a folder is code, and is loaded as such.

    A group of the process itself may write too, since many systems give each user one; and a folder may belong to whom
    the folder around it belongs, which is that of the code itself where loops are compiled beside it. A system
    without owners, such as Windows, keeps the folders of a user private itself.
    """
    if not hasattr(os, "geteuid"):
        return True
    try:
        status = folder.stat()
    except FileNotFoundError:
        return True
    writable_by_group = bool(status.st_mode & stat.S_IWGRP) and status.st_gid not in (os.getegid(), 0)
    owners = (os.geteuid(), 0, folder.parent.stat().st_uid)
    return status.st_uid in owners and not status.st_mode & stat.S_IWOTH and not writable_by_group


LOCK: Final = ".lock"  # the file in a folder that its writer locks


@contextmanager
def exclusive(folder: Path, purpose: str) -> Iterator[None]:
    """Lock a folder against other writers; the lock ends with the process."""
    with _lock_folder(folder) as lock:
        with storage_errors(folder):
            lock.truncate(0)
            lock.write(f"{purpose}, process {os.getpid()}\n".encode())
        yield


def _lock_folder(folder: Path) -> FileIO:
    """Return the open, locked lock file; lock again if the folder was deleted between opening and locking."""
    while True:
        make_folder(folder)
        try:
            lock = FileIO(folder / LOCK, "a+")
        except FileNotFoundError:
            continue
        try:
            flock(lock, waits=False)
        except BlockingIOError as error:
            lock.seek(0)
            holder = lock.read(200).decode(errors="replace").strip() or "another process"
            lock.close()
            raise Locked(f"{folder} is in use: {holder}", remedy="wait for it to end, or stop it") from error
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(lock.fileno()), (folder / LOCK).stat()):
                return lock
        lock.close()


def make_folder(folder: Path) -> None:
    """Create a folder and its parents so that they survive a power cut."""
    if not folder.is_dir():
        with storage_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            sync_folder(folder.parent)


def require_folder(folder: Path) -> None:
    """Refuse a path where no folder for a report can be made; commands check this before they do the work."""
    existing = next(path for path in (folder, *folder.absolute().parents) if os.path.lexists(path))
    if not existing.is_dir():
        raise Usage(f"{existing} is not a folder", remedy="name another folder for the report, or move what is there")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise Usage(f"you may not write into {existing}", remedy="name another folder for the report")


def remove_asides(folder: Path) -> None:
    """Delete what `write_aside` left half-written when its process was killed.

    The caller must hold the folder's lock.
    """
    for path in folder.glob(".*.aside"):
        path.unlink(missing_ok=True)


def lock_file(path: Path) -> BinaryIO:
    """Lock one of our files as long as it is open; the lock ends with the process."""
    file = path.open("ab")
    flock(file)
    return file


def flock(file: BinaryIO | FileIO, *, is_shared: bool = False, waits: bool = True) -> None:
    """Lock an open file until it is closed; without waiting, BlockingIOError says that another process has locked it.

    Where the system has no such locks nothing is locked, and a home is for one process at a time.
    """
    if fcntl is not None:
        fcntl.flock(file, (fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX) | (0 if waits else fcntl.LOCK_NB))
