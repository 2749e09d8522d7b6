"""Uploaded files: each in a folder that its id names, complete or absent; a name from outside is never a path.

uploads/<id>/upload.json     name, format, size, hash, owner and times
uploads/<id>/content.csv     the bytes as they came; the ending is that of the format
uploads/.<id>.part/          a file that is still coming
uploads/<id>.live            locked by the process that receives it: a part whose process has died is removed
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any, BinaryIO, Final, Generic, Protocol, Self, TypeVar

from refaug.core.errors import BadInput, Corrupt, NotFound, RefaugError, StorageFull, TooLarge, UnknownFormat, Usage
from refaug.core.files import (
    make_folder,
    read_json,
    remove_tree,
    sha256_of,
    storage_errors,
    sync_folder,
    with_checksum,
    write_json,
)
from refaug.core.home import Settings
from refaug.core.memory import BoundedCache
from refaug.core.processes.live_file import LiveFile
from refaug.service.database.database import time_text
from refaug.service.database.row_ids import is_row_id, new_row_id
from refaug.service.server_settings import MIB, ServeSettings

log = logging.getLogger(__name__)

PREFIX: Final = "upload:"  # of an upload where an order names files
MAX_NAME_CHARS: Final = 200
MAX_UPLOADS: Final = 10_000
MANIFEST: Final = "upload.json"
DAMAGED: Final = "remove it, or restore the folder from a backup"
_PART: Final = ".part"
_LIVE: Final = ".live"
_CHECKED_BYTES: Final = 4 * MIB  # between two looks at how much all uploads take


class UploadFormat(StrEnum):
    """What an uploaded file holds; `auto`: by the end of its name, else by its content."""

    AUTO = "auto"
    JSONL = "jsonl"
    JSON = "json"
    CSV = "csv"
    TSV = "tsv"
    LINES = "lines"
    PARQUET = "parquet"
    ARROW = "arrow"


_ENDINGS: Final = {
    UploadFormat.JSONL: ".jsonl",
    UploadFormat.JSON: ".json",
    UploadFormat.CSV: ".csv",
    UploadFormat.TSV: ".tsv",
    UploadFormat.LINES: ".txt",
    UploadFormat.PARQUET: ".parquet",
    UploadFormat.ARROW: ".arrow",
}
_RECOGNISED: Final = {
    **{ending: fmt for fmt, ending in _ENDINGS.items()},
    ".tab": UploadFormat.TSV,
    ".ndjson": UploadFormat.JSONL,
}
_WORKBOOKS: Final = (".xlsx", ".xlsm", ".xls", ".ods", ".numbers")
_PACKED: Final = (".gz", ".zst", ".bz2", ".xz")


@dataclass(frozen=True, kw_only=True)
class Upload:
    """An uploaded file."""

    id: str
    name: str
    format: str
    bytes: int
    sha256: str
    created: str
    expires: str
    owner: str  # the name of the key

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Self:
        """Return the upload of a manifest."""
        return cls(**{name: fields[name] for name in cls.__dataclass_fields__})

    def as_json(self) -> dict[str, Any]:
        """Return the upload as answers have it."""
        return asdict(self)


@dataclass
class IncomingFile:
    """A file that is coming in: pieces are written and counted until it is complete."""

    store: UploadStore
    folder: Path
    file: BinaryIO
    size: int = 0
    digest: Any = field(default_factory=hashlib.sha256)
    _unchecked: int = _CHECKED_BYTES

    def write(self, piece: bytes) -> None:
        """Write the next piece; TooLarge or StorageFull where it is too much."""
        self.size += len(piece)
        self._unchecked += len(piece)
        self.store.require_size(self.size)
        if self._unchecked >= _CHECKED_BYTES:
            self.store.require_room(len(piece))
            self._unchecked = 0
        with storage_errors(self.folder):
            self.file.write(piece)
        self.digest.update(piece)


class Expiring(Protocol):
    """What a manifest describes, until it expires."""

    @property
    def expires(self) -> str:
        """When it is removed."""


Described = TypeVar("Described", bound=Expiring)


class ExpiringFolders(Generic[Described]):
    """Folders of a home that row ids name, each complete or absent, with a manifest of what is in it."""

    def __init__(
        self, folder: Path, noun: str, manifest: str, describe: Callable[[Mapping[str, Any]], Described]
    ) -> None:
        self._folder, self._noun, self._manifest, self._describe = folder, noun, manifest, describe

    def ids(self) -> list[str]:
        """Return the ids of all folders, newest first; some may have expired."""
        return sorted(filter(is_row_id, names_in(self._folder)), reverse=True)

    def find(self, row_id: str) -> Described | None:
        """Return what is in a folder, or None where there is none, or none any more."""
        described = self._read(row_id) if is_row_id(row_id) else None
        return None if described is None or _is_expired(described) else described

    def folder(self, row_id: str) -> Path:
        """Return the folder of an id."""
        return self._folder / row_id

    def unreadable(self) -> list[Path]:
        """Return the manifests that are there and damaged."""
        paths = [self._folder / name / self._manifest for name in self.ids() if self._read(name) is None]
        return [path for path in sorted(paths) if path.is_file()]

    def count(self) -> int:
        """Return how many there are."""
        return sum(self.find(name) is not None for name in self.ids())

    def used_bytes(self) -> int:
        """Return how much all of them take, those that are still coming included."""
        return size_of(self._folder)

    def _read(self, row_id: str) -> Described | None:
        try:
            return self._describe(read_json(self._folder / row_id / self._manifest))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (RefaugError, KeyError, TypeError) as error:
            log.warning(f"damaged {self._noun}", extra={self._noun: row_id, "why": str(error)})
            return None

    def _expired(self) -> list[str]:
        """Return the ids of those that have expired."""
        read = ((name, self._read(name)) for name in sorted(self.ids()))
        return [name for name, described in read if described is not None and _is_expired(described)]

    def _discard(self, row_id: str) -> None:
        """Take a folder away in one step, then remove it; none is no error."""
        aside = self._part(f"{row_id}.removed")
        with suppress(FileNotFoundError):
            (self._folder / row_id).rename(aside)
        remove_tree(aside)

    def _part(self, name: str) -> Path:
        return self._folder / f".{name}{_PART}"


class UploadStore(ExpiringFolders[Upload]):
    """The uploads of a home."""

    def __init__(self, home: Settings, serve: ServeSettings) -> None:
        super().__init__(home.home / "uploads", "upload", MANIFEST, Upload.of)
        self._serve = serve

    # ── writing ───────────────────────────────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def incoming(self, upload_id: str, name: str, upload_format: UploadFormat) -> Iterator[IncomingFile]:
        """Yield a file to write to; unless `finish` is called in the block, nothing of it stays."""
        _require_name(name)
        self.require_room(0)
        folder = self._part(upload_id)
        make_folder(self._folder)
        with LiveFile(self._folder / f"{upload_id}{_LIVE}"):  # before the part, and until after it
            try:
                make_folder(folder)
                with storage_errors(folder), (folder / f"content{_ending(name, upload_format)}").open("xb") as file:
                    yield IncomingFile(store=self, folder=folder, file=file)
            finally:
                remove_tree(folder)  # renamed by then, where it was finished

    def finish(self, incoming: IncomingFile, name: str, upload_format: UploadFormat, owner: str) -> Upload:
        """Make a written file an upload, whole; BadInput where it is empty, StorageFull where there is no room."""
        if not incoming.size:
            raise BadInput(f"{name}: the file is empty (0 bytes)", remedy="upload a file with a row in it")
        self.require_room(0)
        upload_id = incoming.folder.name.removeprefix(".").removesuffix(_PART)
        now = datetime.now(UTC)
        upload = Upload(
            id=upload_id,
            name=name,
            format=_format_of(name, upload_format).value,
            bytes=incoming.size,
            sha256=incoming.digest.hexdigest(),
            created=time_text(now),
            expires=time_text(now + timedelta(days=self._serve.keep_uploads_days)),
            owner=owner,
        )
        with storage_errors(incoming.folder):
            incoming.file.flush()
            os.fsync(incoming.file.fileno())
            write_json(incoming.folder / MANIFEST, with_checksum(upload.as_json()))
            incoming.folder.rename(self._folder / upload_id)
            sync_folder(self._folder)
        return upload

    def add(
        self, upload_id: str, name: str, upload_format: UploadFormat, owner: str, pieces: Iterable[bytes]
    ) -> Upload:
        """Store what a job has written, whole or not at all; one of this id that is there already stays."""
        if (upload := self.find(upload_id)) is not None:
            return upload
        remove_tree(self._part(upload_id))  # of a job that was killed
        with self.incoming(upload_id, name, upload_format) as incoming:
            for piece in pieces:
                incoming.write(piece)
            return self.finish(incoming, name, upload_format, owner)

    def require_size(self, size: int) -> None:
        """Raise TooLarge for a file above the limit of one."""
        if size > self.largest_bytes:
            raise TooLarge(
                f"the file is larger than {self._serve.upload_mib:,} MiB",
                remedy="pack it with gzip, or upload it in parts; the setting upload_mib is the limit",
            )

    def require_room(self, more: int) -> None:
        """Raise StorageFull where all uploads together, with those still coming, would take too much."""
        count = sum(map(is_row_id, names_in(self._folder)))
        if count >= MAX_UPLOADS:
            raise StorageFull(f"{count:,} files were uploaded already", remedy="remove some that are not needed")
        if self.used_bytes() + more > self.limit_bytes:
            raise StorageFull(
                f"uploads take more than {self._serve.uploads_mib:,} MiB together",
                remedy="remove some that are not needed, or raise the setting uploads_mib",
            )

    def remove(self, upload_id: str) -> Upload:
        """Remove an upload and return what it was; NotFound where there is none."""
        upload = self.get(upload_id)
        self._discard(upload_id)
        return upload

    def remove_expired(self) -> int:
        """Remove expired uploads and what was left of interrupted ones; return how many files went."""
        for name in sorted(names_in(self._folder)):
            if name.endswith(_PART):
                upload_id = name.removeprefix(".").removesuffix(_PART)
                if not LiveFile.is_live(self._folder / f"{upload_id}{_LIVE}"):  # its process is gone
                    remove_tree(self._folder / name)
        expired = self._expired()
        for upload_id in expired:
            self._discard(upload_id)
        for _ in LiveFile.read_all(self._folder, _LIVE):  # removes those of dead processes
            pass
        return len(expired)

    # ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def all(self) -> list[Upload]:
        """Return the uploads, newest first."""
        return [upload for upload in map(self.find, self.ids()) if upload is not None]

    def get(self, upload_id: str) -> Upload:
        """Return an upload; NotFound where there is none, or none any more."""
        if (upload := self.find(upload_id)) is None:
            raise not_found(upload_id)
        return upload

    def path(self, upload_id: str) -> Path:
        """Return the file of an upload; NotFound where there is none."""
        upload = self.get(upload_id)
        return self._folder / upload_id / f"content{_ending(upload.name, UploadFormat(upload.format))}"

    def unaltered_path(self, upload_id: str) -> Path:
        """Return the file of an upload as it came; NotFound where there is none, Corrupt where it is altered."""
        return unaltered(self.path(upload_id), self.get(upload_id).sha256)

    def altered_files(self) -> list[str]:
        """Return a sentence for each file that is not as its manifest says; this reads all."""
        files = [(self.path(upload.id), upload.sha256) for upload in self.all()]
        return [
            f"{path} is not as its manifest says"
            for path, sha256 in files
            if not path.is_file() or sha256_of(path) != sha256
        ]

    @property
    def limit_bytes(self) -> int:
        """The most that all uploads together may take."""
        return self._serve.uploads_mib * MIB

    @property
    def largest_bytes(self) -> int:
        """The most that one upload may take."""
        return self._serve.upload_mib * MIB


def new_upload_id() -> str:
    """Return an id for the next upload."""
    return new_row_id()


def names_in(folder: Path) -> list[str]:
    """Return the names in a folder; none where it is not there."""
    try:
        return [path.name for path in folder.iterdir()]
    except FileNotFoundError:
        return []


def size_of(folder: Path) -> int:
    """Return the bytes of all files below a folder; files that are removed meanwhile do not count."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                total += os.stat(os.path.join(parent, name)).st_size  # noqa: PTH116, PTH118  of many files
    return total


_UNALTERED: Final = BoundedCache[tuple[str, ...], str](10_000)


def unaltered(path: Path, sha256: str) -> Path:
    """Return the path of a file that is as its manifest says; Corrupt where it is not, NotFound with its folder gone.

    A file is read once, and again after its size, its time of change or its inode is another.
    """
    try:
        facts = path.stat()
        seen = (str(path), sha256, f"{facts.st_ino}/{facts.st_size}/{facts.st_mtime_ns}")
        if _UNALTERED.get(seen) is None:
            if sha256_of(path) != sha256:
                raise Corrupt(f"{path} is not as its manifest says", remedy=DAMAGED)
            _UNALTERED.put(seen, sha256)
    except FileNotFoundError:
        if path.parent.is_dir():
            raise Corrupt(f"{path} is gone", remedy=DAMAGED) from None
        raise NotFound(f"{path.parent.name} was removed meanwhile", remedy="send the file again") from None
    return path


def upload_in(text: str) -> str | None:
    """Return the id of the upload that a source of an order names, or None where it names another file."""
    return text.removeprefix(PREFIX) if text.startswith(PREFIX) else None


def not_found(upload_id: str) -> NotFound:
    """Return the error for an upload that is not there, or is of another key."""
    return NotFound(f"there is no upload {upload_id[:40]!r}", remedy="upload the file again: uploads expire")


def _require_name(name: str) -> None:
    if not name.strip() or len(name) > MAX_NAME_CHARS or not name.isprintable():
        raise Usage(
            f"{name[:60]!r} is not a name for an upload", remedy=f"printable, from 1 to {MAX_NAME_CHARS} characters"
        )
    if Path(name.lower()).suffix in _WORKBOOKS:
        raise UnknownFormat(f"{name}: a workbook", remedy="save the sheet as CSV (UTF-8), and upload that")


def _format_of(name: str, upload_format: UploadFormat) -> UploadFormat:
    """Return the format as it is named, else by the end of the name."""
    if upload_format is not UploadFormat.AUTO:
        return upload_format
    lowered = name.lower()
    for packed in _PACKED:
        lowered = lowered.removesuffix(packed)
    return _RECOGNISED.get(Path(lowered).suffix, UploadFormat.AUTO)


def _ending(name: str, upload_format: UploadFormat) -> str:
    """Return the ending of the stored file, of a fixed list: readers know tables by it."""
    return _ENDINGS.get(_format_of(name, upload_format), "")


def _is_expired(described: Expiring) -> bool:
    return described.expires < time_text()
