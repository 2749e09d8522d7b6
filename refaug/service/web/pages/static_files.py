"""The files of the pages: read once, and served under an address that changes with their content."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Self

_HERE: Final = Path(__file__).parent
_ROOT: Final = _HERE.parents[2]  # of the package
_MEDIA_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
}


def page_folders(name: str) -> tuple[Path, ...]:
    """Return the folders of this name, `static` or `templates`, of this room and of the extras that have pages."""
    return (_HERE / name, *sorted(_ROOT.glob(f"extras/*/pages/{name}")))


@dataclass(frozen=True, kw_only=True)
class StaticFile:
    """The content of a file, and how a browser reads it."""

    content: bytes
    media_type: str


@dataclass(frozen=True, kw_only=True)
class StaticFiles:
    """All files by name; `digest` names their content, so that a browser may keep them for ever."""

    files: Mapping[str, StaticFile]
    digest: str

    @classmethod
    def read(cls, *folders: Path) -> Self:
        """Read the folders and those below them."""
        paths = {path.relative_to(folder).as_posix(): path for folder in folders for path in folder.rglob("*")}
        files = {
            name: StaticFile(content=path.read_bytes(), media_type=_MEDIA_TYPES[path.suffix])
            for name, path in sorted(paths.items())
            if path.suffix in _MEDIA_TYPES
        }
        digest = hashlib.sha256()
        for name, file in files.items():
            digest.update(f"{name}\0{len(file.content)}\0".encode() + file.content)
        return cls(files=files, digest=digest.hexdigest()[:16])


@cache
def static_files() -> StaticFiles:
    """Return the files of this installation."""
    return StaticFiles.read(*page_folders("static"))
