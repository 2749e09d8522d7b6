"""What every manifest shares: the files it names, with size and SHA-256, its kind and its format."""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

import orjson

from core.errors import Corrupt
from core.files import sha256_of

MANIFEST: Final = "manifest.json"
LONGEST_NAME: Final = 100  # bytes: what the header of a tar member holds

_REMEDY: Final = "restore it from a backup, or make it again"


@dataclass(frozen=True, kw_only=True)
class NamedFile:
    """A file as a manifest describes it."""

    name: str
    size: int
    sha256: str


def describe_files(folder: Path, names: Iterable[str]) -> dict[str, dict[str, int | str]]:
    """The `files` of a manifest: each file's size and hash, by its name relative to the folder."""
    described = dict[str, dict[str, int | str]]()
    for name in sorted(set(names)):
        trouble = _trouble_with_name(name)
        assert trouble is None, f"{name!r} {trouble}"
        described[name] = {"size": (folder / name).stat().st_size, "sha256": sha256_of(folder / name)}
    return described


def named_files(manifest: Mapping[str, Any], where: Path) -> list[NamedFile]:
    """The files that a manifest names, sorted by name; Corrupt, with `where` it lies, if a name or a fact is none."""
    files = manifest.get("files")
    if not isinstance(files, Mapping):
        raise Corrupt(f"{where} names no files", remedy=_REMEDY)
    named = [_named_file(name, facts, where) for name, facts in sorted(files.items())]
    folders = {str(folder) for file in named for folder in PurePosixPath(file.name).parents}
    twice = next((file.name for file in named if file.name in folders), None)
    if twice is not None:
        raise Corrupt(f"{where} names {twice!r} as a file and as a folder", remedy=_REMEDY)
    return named


def _named_file(name: str, facts: object, where: Path) -> NamedFile:
    trouble = _trouble_with_name(name)
    if trouble is not None:
        raise Corrupt(f"{where} names a file {name!r}, which {trouble}", remedy=_REMEDY)
    size = facts.get("size") if isinstance(facts, Mapping) else None
    sha256 = facts.get("sha256") if isinstance(facts, Mapping) else None
    if not isinstance(size, int) or isinstance(size, bool) or size < 0 or not isinstance(sha256, str):
        raise Corrupt(f"{where} has no size and hash for {name!r}", remedy=_REMEDY)
    return NamedFile(name=name, size=size, sha256=sha256)


def _trouble_with_name(name: str) -> str | None:
    """Why a name may not stand in a manifest: it becomes a path, here and wherever the artefact is taken."""
    if name == MANIFEST:
        return "is the manifest itself"
    if not name or any(part in {"", ".", ".."} for part in name.split("/")):
        return "is not a path inside the folder"
    if "\\" in name or not name.isprintable():
        return "has a character that not every system takes"
    if len(name.encode()) > LONGEST_NAME:
        return f"is longer than {LONGEST_NAME} bytes"
    return None


def require_files(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Every file that the manifest names is there with its size: what is looked at whenever an artefact is opened."""
    _refuse_first(file_troubles(folder, manifest, hashes=False))


def verify_files(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Read every file, and compare its hash too."""
    _refuse_first(file_troubles(folder, manifest, hashes=True))


def _refuse_first(troubles: Iterator[str]) -> None:
    trouble = next(troubles, None)
    if trouble is not None:
        raise Corrupt(trouble, remedy=_REMEDY)


def file_troubles(folder: Path, manifest: Mapping[str, Any], *, hashes: bool) -> Iterator[str]:
    """What is wrong with the files, one sentence each; hashes only on demand, for they take a read of everything."""
    for file in named_files(manifest, folder / MANIFEST):
        trouble = _size_trouble(folder, file)
        if trouble is None and hashes:
            trouble = _hash_trouble(folder, file)
        if trouble is not None:
            yield trouble


def _size_trouble(folder: Path, file: NamedFile) -> str | None:
    path = folder / file.name
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return f"{path} is missing"
    if not path.resolve().is_relative_to(folder.resolve()):
        return f"{path} is a link that leads out of its folder"
    if not stat.S_ISREG(status.st_mode):
        return f"{path} is not a file"
    if status.st_size != file.size:
        return f"{path} has {status.st_size:,} bytes; the manifest says {file.size:,}"
    return None


def _hash_trouble(folder: Path, file: NamedFile) -> str | None:
    path = folder / file.name
    found = sha256_of(path)
    if found != file.sha256:
        return f"{path} has SHA-256 {found[:12]}…; the manifest says {file.sha256[:12]}…"
    return None


def content_id(manifest: Mapping[str, Any], settings: Mapping[str, Any] | None = None) -> str:
    """A SHA-256 over the files' names and hashes and over settings; signatures show its first twelve digits.

    Sizes, times and versions of software are left out: what is made again, byte for byte, is the same.
    """
    files = sorted((name, facts["sha256"]) for name, facts in manifest["files"].items())
    return hashlib.sha256(orjson.dumps([files, settings or {}], option=orjson.OPT_SORT_KEYS)).hexdigest()


def require_format(path: Path, manifest: Mapping[str, Any], kind: str, newest: int) -> None:
    """Refuse what is no manifest of this kind, or of a format that only a later refaug reads."""
    found_kind, found = manifest.get("kind"), manifest.get("format_version")
    if found_kind != kind or not isinstance(found, int) or isinstance(found, bool) or found < 1:
        other = f"; its kind is {found_kind!r}" if isinstance(found_kind, str) and found_kind != kind else ""
        raise Corrupt(f"{path} is not a manifest of the kind {kind!r}{other}", remedy=_REMEDY)
    if found > newest:
        raise Corrupt(f"{path} has format {found}; this refaug reads up to {newest}", remedy="upgrade refaug")
