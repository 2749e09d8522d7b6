"""The files of a backup, and copying with a hash.

backup.json       the format, the version of refaug, and every other file with its size and SHA-256; written last
database.jsonl    the rows of our tables: one object a line, {"table": …, "row": …}
home/             files of the home under their paths
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any, Final

from refaug.core.errors import Corrupt, NotFound, UnknownFormat
from refaug.core.files import make_folder, read_json, sha256_of, storage_errors, write_json
from refaug.core.progress import Progress
from refaug.core.version import VERSION

FORMAT_VERSION: Final = 1
MANIFEST: Final = "backup.json"
ROWS: Final = "database.jsonl"
HOME: Final = "home"

_PIECE: Final = 1 << 20
_REMEDY: Final = "use another backup"


@dataclass(frozen=True, kw_only=True)
class BackedUpFile:
    """A file as the manifest of a backup describes it."""

    size: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class BackupManifest:
    """What a backup holds."""

    refaug: str  # the version that wrote it
    tables: Mapping[str, int]  # the step of each set of tables whose rows it holds
    files: Mapping[str, BackedUpFile]

    @classmethod
    def read(cls, backup: Path) -> BackupManifest:
        """Read the manifest, checked as far as that is possible without reading the files."""
        path = backup / MANIFEST
        if not path.is_file():
            raise NotFound(
                f"{backup} is not a complete backup: it has no {MANIFEST}",
                remedy="name a folder of refaug admin backup",
            )
        manifest = read_json(path)
        if manifest.get("format_version") != FORMAT_VERSION:
            raise UnknownFormat(
                f"{path} has format {manifest.get('format_version')!r}; this refaug reads {FORMAT_VERSION}",
                remedy="restore it with the version of refaug that wrote it",
            )
        named = manifest.get("files")
        if not isinstance(named, dict) or ROWS not in named:
            raise Corrupt(f"{path}: files: an object with {ROWS} was expected", remedy=_REMEDY)
        tables = manifest.get("tables")
        if not isinstance(tables, dict) or not all(type(step) is int for step in tables.values()):
            raise Corrupt(f"{path}: tables: an object of steps was expected", remedy=_REMEDY)
        files = {name: _described(path, name, facts) for name, facts in named.items()}
        return cls(refaug=str(manifest.get("refaug")), tables=tables, files=files)

    def write(self, backup: Path) -> None:
        """Write the manifest: from then on the folder is a backup."""
        write_json(
            backup / MANIFEST,
            {
                "format_version": FORMAT_VERSION,
                "refaug": self.refaug,
                "created": datetime.now(UTC).isoformat(timespec="seconds"),
                "tables": dict(self.tables),
                "files": {name: asdict(file) for name, file in sorted(self.files.items())},
            },
        )

    @classmethod
    def of(cls, tables: Mapping[str, int], files: Mapping[str, BackedUpFile]) -> BackupManifest:
        """Return the manifest of a backup by this version."""
        return cls(refaug=VERSION, tables=tables, files=files)


def _described(path: Path, name: str, facts: Any) -> BackedUpFile:
    parts = PurePosixPath(name).parts
    is_safe = name == ROWS or (parts[:1] == (HOME,) and len(parts) > 1 and ".." not in parts and "\0" not in name)
    if not is_safe or str(PurePosixPath(name)) != name:
        raise Corrupt(f"{path}: {name!r} is not a path of a file in a home", remedy=_REMEDY)
    size, sha256 = (facts.get("size"), facts.get("sha256")) if isinstance(facts, dict) else (None, None)
    if not isinstance(size, int) or isinstance(size, bool) or not isinstance(sha256, str):
        raise Corrupt(f"{path}: {name!r} has no size and SHA-256", remedy=_REMEDY)
    return BackedUpFile(size=size, sha256=sha256)


def copy_file(source: Path, target: Path, progress: Progress) -> BackedUpFile:
    """Copy a file, synced, and return the size and hash of what was copied."""
    digest, size = hashlib.sha256(), 0
    with source.open("rb") as read:
        make_folder(target.parent)
        with storage_errors(target), target.open("wb") as written:
            while piece := read.read(_PIECE):
                digest.update(piece)
                size += len(piece)
                written.write(piece)
                progress.advance(len(piece))
            written.flush()
            os.fsync(written.fileno())
    return BackedUpFile(size=size, sha256=digest.hexdigest())


def describe_file(path: Path) -> BackedUpFile:
    """Return the size and hash of a file that does not change."""
    return BackedUpFile(size=path.stat().st_size, sha256=sha256_of(path))


def link_file(source: Path, target: Path) -> bool:
    """Give a file a second name; return whether the file system can do that."""
    make_folder(target.parent)
    with suppress(OSError):
        os.link(source, target)
        return True
    return False


def require_same(path: Path, named: BackedUpFile, actual: BackedUpFile) -> None:
    """Refuse a file whose content is not what the manifest says."""
    if actual != named:
        raise Corrupt(
            f"{path} has {actual.size:,} bytes and SHA-256 {actual.sha256[:12]}…; "
            f"the manifest says {named.size:,} and {named.sha256[:12]}…",
            remedy=_REMEDY,
        )
