"""The files of a store, behind one interface: a folder of this machine, or any file system of pyarrow.

A file appears under its name as a whole: it is written under another name first, and renamed. Both kinds raise the
same errors, which name the store and never a secret.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any, Final, Protocol, TypeVar

from pyarrow import fs

from refaug.core.errors import Conflict, Corrupt, NoAccess, NotFound, StorageFull, Unavailable
from refaug.core.files import make_folder, storage_errors, sync_folder, unique_suffix

T = TypeVar("T")


_Calls = SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None]


class TimedCalls:
    """Runs calls in a second thread, one after the other; a call that takes too long is given up, with its thread.

    Signals are heard while a call is waited for, which a library that is deep in a socket would not allow.
    """

    def __init__(self, seconds: float, name: str) -> None:
        self.seconds, self._name = seconds, name
        self._calls: _Calls | None = None

    def run(self, call: Callable[[], T]) -> T:
        """Return what the call returns; Unavailable when it takes longer than the limit."""
        if self._calls is None:
            self._calls = SimpleQueue()
            Thread(target=_work, args=(self._calls,), daemon=True, name=f"store {self._name}").start()
        outcome = Future[T]()
        self._calls.put((outcome, call))
        try:
            if wait([outcome], self.seconds).done:
                return outcome.result()
        except BaseException:
            self.close()
            raise
        self.close()  # the next call gets another thread
        raise Unavailable(
            f"the store {self._name} has not answered for {self.seconds:g} s",
            remedy="run the same command again, it goes on; REFAUG_STORE_TIMEOUT_S allows more time",
        )

    def close(self) -> None:
        """End the thread when its last call has ended."""
        if self._calls is not None:
            self._calls.put(None)
            self._calls = None


def _work(calls: _Calls) -> None:
    while (asked := calls.get()) is not None:
        outcome, call = asked
        try:
            outcome.set_result(call())
        except BaseException as error:  # noqa: BLE001  raised again by the thread that waits
            outcome.set_exception(error)


SECRET_VARIABLES: Final = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ACCESS_KEY_ID", "HF_TOKEN")
UPLOADS: Final = "uploads"  # files that are not complete yet

_PIECE: Final = 8 << 20
_LARGEST_S3_COPY: Final = 5 << 30  # bytes that S3 copies at once
_REFUSED: Final = ("ACCESS_DENIED", "INVALID_ACCESS_KEY", "SIGNATURE_DOES_NOT_MATCH", "INVALID_CLIENT_TOKEN", "403")
_MISSING_BUCKET: Final = ("NO_SUCH_BUCKET", "NoSuchBucket")


@dataclass(frozen=True, kw_only=True)
class StoreEntry:
    """A file of a store in a list."""

    path: str
    size: int
    modified: datetime


class StoreFiles(Protocol):
    """Files by paths relative to the store's root, with `/` between the parts."""

    name: str  # of the store, for messages
    largest_rename: int  # bytes: longer files are written under their own name at once

    def require_root(self) -> None:
        """Raise NotFound where the folder or the bucket of the store does not exist."""

    def size(self, path: str) -> int | None:
        """Return the size of a file; None where there is none."""

    def pieces(self, path: str) -> Iterator[bytes]:
        """Yield the bytes of a file; NotFound where there is none."""

    def list(self, folder: str) -> list[StoreEntry]:
        """Return all files under a folder, sorted by path; none where there is no such folder."""

    def write(self, path: str, pieces: Iterable[bytes]) -> None:
        """Write a file, replacing a file of this name; after an error there may be half of it."""

    def rename(self, path: str, target: str) -> None:
        """Give a whole file its name, replacing a file of this name."""

    def put_new(self, path: str, content: bytes) -> bool:
        """Write a small file that must not be there; return False where it is.

        A local folder decides this in one step. Elsewhere the caller holds the only claim to this name.
        """

    def delete(self, path: str) -> None:
        """Delete a file; a missing one is no error."""

    def close(self) -> None:
        """Let go of the store."""


def read_small(files: StoreFiles, path: str, most: int) -> bytes:
    """Return a small file as a whole; Corrupt where it is longer than `most` bytes."""
    content = bytearray()
    for piece in files.pieces(path):
        content += piece
        if len(content) > most:
            raise Corrupt(f"{files.name}: {path} has more than {most:,} bytes", remedy="push the version again")
    return bytes(content)


def write_whole(files: StoreFiles, path: str, content: bytes) -> None:
    """Write a small file that appears as a whole, replacing a file of this name."""
    aside = f"{UPLOADS}/{unique_suffix()}"
    files.write(aside, [content])
    files.rename(aside, path)


class LocalFiles:
    """A folder of this machine, or a mounted one."""

    largest_rename = 2**63

    def __init__(self, root: Path) -> None:
        self.root, self.name = root, str(root)

    def require_root(self) -> None:
        """Raise NotFound where there is no such folder."""
        with _local_errors(self.name):
            if not self.root.exists():
                raise NotFound(
                    f"there is no folder {self.name}", remedy="is it mounted? refaug artefacts push makes a new one"
                )
            next(self.root.iterdir(), None)  # refuses what is no folder, or may not be read

    def size(self, path: str) -> int | None:
        """Return the size of a file; None where there is none."""
        with _local_errors(self.name):
            try:
                return (self.root / path).stat().st_size
            except (FileNotFoundError, NotADirectoryError):
                return None

    def pieces(self, path: str) -> Iterator[bytes]:
        """Yield the bytes of a file; NotFound where there is none."""
        with _local_errors(self.name):
            try:
                file = (self.root / path).open("rb")
            except FileNotFoundError:
                raise _missing(self.name, path) from None
            with file:
                while piece := file.read(_PIECE):
                    yield piece

    def list(self, folder: str) -> list[StoreEntry]:
        """Return all files under a folder, sorted by path; none where there is no such folder."""
        entries = list[StoreEntry]()
        with _local_errors(self.name):
            for path in sorted((self.root / folder).rglob("*")):
                with suppress(FileNotFoundError):  # deleted meanwhile
                    status = path.stat()
                    if path.is_file() and not path.is_symlink():
                        modified = datetime.fromtimestamp(status.st_mtime, UTC)
                        name = path.relative_to(self.root).as_posix()
                        entries.append(StoreEntry(path=name, size=status.st_size, modified=modified))
        return entries

    def write(self, path: str, pieces: Iterable[bytes]) -> None:
        """Write and sync a file."""
        target = self.root / path
        with _local_errors(self.name), storage_errors(target):
            make_folder(target.parent)
            with target.open("wb") as file:
                for piece in pieces:
                    file.write(piece)
                file.flush()
                os.fsync(file.fileno())

    def rename(self, path: str, target: str) -> None:
        """Give a whole file its name."""
        final = self.root / target
        with _local_errors(self.name):
            make_folder(final.parent)
            (self.root / path).replace(final)
            sync_folder(final.parent)

    def put_new(self, path: str, content: bytes) -> bool:
        """Write a file that must not be there, decided in one step by a hard link."""
        aside, final = f"{UPLOADS}/{unique_suffix()}", self.root / path
        self.write(aside, [content])
        with _local_errors(self.name):
            make_folder(final.parent)
            try:
                os.link(self.root / aside, final)
            except FileExistsError:
                return False
            finally:
                (self.root / aside).unlink(missing_ok=True)
            sync_folder(final.parent)
        return True

    def delete(self, path: str) -> None:
        """Delete a file; a missing one is no error."""
        with _local_errors(self.name):
            (self.root / path).unlink(missing_ok=True)

    def close(self) -> None:
        """Do nothing."""


class ArrowFiles:
    """A file system of pyarrow; every call must end within a number of seconds."""

    def __init__(self, filesystem: fs.FileSystem, root: str, name: str, *, timeout_s: float) -> None:
        self._fs, self._root, self.name = filesystem, root.rstrip("/"), name
        self._calls = TimedCalls(timeout_s, name)
        self.largest_rename = _LARGEST_S3_COPY if filesystem.type_name == "s3" else 2**63

    def require_root(self) -> None:
        """Raise NotFound where there is no such bucket; who may not ask for the bucket itself is not refused."""
        bucket = self._root.partition("/")[0] or self._root
        with suppress(NoAccess):
            if self._run(lambda: self._fs.get_file_info(bucket)).type == fs.FileType.NotFound:
                raise _no_bucket(self.name)

    def size(self, path: str) -> int | None:
        """Return the size of a file; None where there is none."""
        info = self._run(lambda: self._fs.get_file_info(self._at(path)))
        return int(info.size) if info.type == fs.FileType.File else None

    def pieces(self, path: str) -> Iterator[bytes]:
        """Yield the bytes of a file; NotFound where there is none."""
        try:
            stream = self._run(lambda: self._fs.open_input_stream(self._at(path)))
        except FileNotFoundError:
            raise _missing(self.name, path) from None
        while piece := self._run(lambda: stream.read(_PIECE)):
            yield piece
        self._run(stream.close)

    def list(self, folder: str) -> list[StoreEntry]:
        """Return all files under a folder, sorted by path; none where there is no such folder."""
        selector = fs.FileSelector(self._at(folder), recursive=True, allow_not_found=True)
        infos = self._run(lambda: self._fs.get_file_info(selector))
        return sorted(
            (
                StoreEntry(path=info.path[len(self._root) + 1 :], size=info.size, modified=_utc(info.mtime))
                for info in infos
                if info.type == fs.FileType.File
            ),
            key=lambda entry: entry.path,
        )

    def write(self, path: str, pieces: Iterable[bytes]) -> None:
        """Write a file; pyarrow can end a write only by completing it, so an error may leave half of one."""
        stream = self._open_output(path)
        try:
            for piece in pieces:
                self._run(lambda piece=piece: stream.write(piece))  # type: ignore[misc]
        except BaseException:
            with suppress(Exception):
                self._run(stream.close)
            raise
        self._run(stream.close)

    def rename(self, path: str, target: str) -> None:
        """Give a whole file its name: a rename or, in an object store, a copy within the store."""
        try:
            self._run(lambda: self._fs.move(self._at(path), self._at(target)))
        except FileNotFoundError:
            self._make_parent(target)
            self._run(lambda: self._fs.move(self._at(path), self._at(target)))

    def put_new(self, path: str, content: bytes) -> bool:
        """Write a file unless it is there, and read it back: pyarrow passes no condition on to an object store."""
        if self.size(path) is not None:
            return False
        write_whole(self, path, content)
        return read_small(self, path, max(len(content), 1) * 2) == content

    def delete(self, path: str) -> None:
        """Delete a file; a missing one is no error."""
        with suppress(FileNotFoundError):
            self._run(lambda: self._fs.delete_file(self._at(path)))

    def close(self) -> None:
        """End the thread that calls the store."""
        self._calls.close()

    def _open_output(self, path: str) -> Any:
        try:
            return self._run(lambda: self._fs.open_output_stream(self._at(path)))
        except FileNotFoundError:  # a file system with real folders
            self._make_parent(path)
            return self._run(lambda: self._fs.open_output_stream(self._at(path)))

    def _make_parent(self, path: str) -> None:
        parent = self._at(path).rpartition("/")[0]
        self._run(lambda: self._fs.create_dir(parent, recursive=True))

    def _at(self, path: str) -> str:
        return f"{self._root}/{path}"

    def _run(self, call: Callable[[], T]) -> T:
        try:
            return self._calls.run(call)
        except OSError as error:
            raise self._translated(error) from None  # the cause may show what must not be shown

    def _translated(self, error: OSError) -> Exception:
        """Return an error of refaug for one of pyarrow's; FileNotFoundError stays, since it may be no error."""
        text = without_secrets(str(error), os.environ)
        if any(word in text for word in _MISSING_BUCKET):
            return _no_bucket(self.name)
        if isinstance(error, FileNotFoundError):
            return FileNotFoundError(error.errno, text)
        if isinstance(error, PermissionError) or any(word in text for word in _REFUSED):
            return NoAccess(
                f"the store {self.name} refuses this: {text}",
                remedy="check the credentials in the environment, and what they allow",
            )
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return StorageFull(
                f"the store {self.name} is full", remedy="free some room: refaug artefacts gc --store LOCATION"
            )
        return Unavailable(
            f"the store {self.name} cannot be reached or does not answer: {text}",
            remedy="run the same command again later, it goes on",
        )


def without_secrets(text: str, environment: Mapping[str, str]) -> str:
    """Return a message without the credentials that the environment holds."""
    for variable in SECRET_VARIABLES:
        secret = environment.get(variable, "")
        if len(secret) >= 4:  # anything shorter is no secret, and stands in many words
            text = text.replace(secret, f"<{variable}>")
    return text


def _utc(modified: datetime | None) -> datetime:
    return datetime.now(UTC) if modified is None else modified.astimezone(UTC)


def _no_bucket(store: str) -> NotFound:
    return NotFound(f"there is no bucket for {store}", remedy="create it, or name another store")


def _missing(store: str, path: str) -> NotFound:
    return NotFound(
        f"the store {store} has no {path}", remedy=f"refaug artefacts list --store {store} shows what it has"
    )


@contextmanager
def _local_errors(store: str) -> Iterator[None]:
    """Raise an error of refaug where the folder of a store cannot be used."""
    try:
        yield
    except PermissionError as error:
        raise NoAccess(f"the store {store} refuses this: {error}", remedy="check who owns the folder") from error
    except NotADirectoryError as error:
        raise Conflict(f"the store {store} is not a folder: {error}", remedy="name a folder") from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StorageFull(
                f"the store {store} is full", remedy="free some room: refaug artefacts gc --store LOCATION"
            ) from error
        raise Unavailable(f"the store {store} cannot be used: {error}", remedy="is the disk there?") from error
