"""The parts that all manifests share: the files with size and SHA-256, the kind and the format."""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

import orjson

from refaug.core.errors import Corrupt
from refaug.core.files import sha256_of, with_checksum, write_json
from refaug.core.version import VERSION

MANIFEST: Final = "manifest.json"
LONGEST_NAME: Final = 100  # bytes: the limit of a tar member's header

REMEDY: Final = "restore it from a backup, or make it again"


@dataclass(frozen=True, kw_only=True)
class NamedFile:
    """A file as a manifest describes it."""

    name: str
    size: int
    sha256: str


def checked_pieces(
    path: Path, named: NamedFile, advance: Callable[[int], None], *, piece_bytes: int = 1 << 20
) -> Iterator[bytes]:
    """Yield the bytes of a file; raise Corrupt at the end if their hash is not the manifest's."""
    digest, remaining = hashlib.sha256(), named.size
    with path.open("rb") as file:
        while remaining and (piece := file.read(min(piece_bytes, remaining))):
            digest.update(piece)
            remaining -= len(piece)
            yield piece
            advance(len(piece))
    if digest.hexdigest() != named.sha256:
        raise Corrupt(
            f"{path} has SHA-256 {digest.hexdigest()[:12]}…; the manifest says {named.sha256[:12]}…", remedy=REMEDY
        )


def describe_files(folder: Path, names: Iterable[str]) -> dict[str, dict[str, int | str]]:
    """Return the `files` of a manifest: each file's size and hash, by its name relative to the folder."""
    described = dict[str, dict[str, int | str]]()
    for name in sorted(set(names)):
        problem = _name_problem(name)
        assert problem is None, f"{name!r} {problem}"
        described[name] = {"size": (folder / name).stat().st_size, "sha256": sha256_of(folder / name)}
    return described


def write_manifest(
    folder: Path,
    kind: str,
    format_version: int,
    files: Iterable[str],
    settings: Mapping[str, Any],
    *,
    content: Collection[str] = (),
    id_of: Callable[[Mapping[str, Any]], str] | None = None,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
) -> str:
    """Write the manifest of a folder that holds all of its files, and return the id of their content.

    The id is that of the files, or of those in `content`, with the settings, unless `id_of` says another one. What
    stands `before` the files and `after` them is no part of it.
    """
    described = describe_files(folder, files)
    decisive = {name: facts for name, facts in described.items() if not content or name in content}
    name = content_id({"files": decisive}, settings) if id_of is None else id_of(described)
    manifest = {
        "format_version": format_version,
        "kind": kind,
        "id": name,
        **settings,
        **(before or {}),
        "files": described,
        "refaug": VERSION,
        **(after or {}),
    }
    write_json(folder / MANIFEST, with_checksum(manifest))
    return name


def named_files(manifest: Mapping[str, Any], where: Path) -> list[NamedFile]:
    """Return the files that a manifest names, sorted by name; Corrupt names `where` a name or a fact is invalid."""
    files = manifest.get("files")
    if not isinstance(files, Mapping):
        raise Corrupt(f"{where} names no files", remedy=REMEDY)
    named = [_named_file(name, facts, where) for name, facts in sorted(files.items())]
    folders = {str(folder) for file in named for folder in PurePosixPath(file.name).parents}
    twice = next((file.name for file in named if file.name in folders), None)
    if twice is not None:
        raise Corrupt(f"{where} names {twice!r} as a file and as a folder", remedy=REMEDY)
    return named


def _named_file(name: str, facts: object, where: Path) -> NamedFile:
    problem = _name_problem(name)
    if problem is not None:
        raise Corrupt(f"{where} names a file {name!r}, which {problem}", remedy=REMEDY)
    size = facts.get("size") if isinstance(facts, Mapping) else None
    sha256 = facts.get("sha256") if isinstance(facts, Mapping) else None
    if not isinstance(size, int) or isinstance(size, bool) or size < 0 or not isinstance(sha256, str):
        raise Corrupt(f"{where} has no size and hash for {name!r}", remedy=REMEDY)
    return NamedFile(name=name, size=size, sha256=sha256)


def _name_problem(name: str) -> str | None:
    """Return why a name is not allowed in a manifest: it becomes a path on every machine that gets the artefact."""
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
    """Require that every file of the manifest exists with its size; checked whenever an artefact is opened."""
    _refuse_first(file_problems(folder, manifest, hashes=False))


def verify_files(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Read every file and compare its hash too."""
    _refuse_first(file_problems(folder, manifest, hashes=True))


def _refuse_first(problems: Iterator[str]) -> None:
    problem = next(problems, None)
    if problem is not None:
        raise Corrupt(problem, remedy=REMEDY)


def file_problems(folder: Path, manifest: Mapping[str, Any], *, hashes: bool) -> Iterator[str]:
    """Yield what is wrong with the files, one sentence each; hashes only on demand, since they read everything."""
    for file in named_files(manifest, folder / MANIFEST):
        problem = _size_problem(folder, file)
        if problem is None and hashes:
            problem = _hash_problem(folder, file)
        if problem is not None:
            yield problem


def _size_problem(folder: Path, file: NamedFile) -> str | None:
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


def _hash_problem(folder: Path, file: NamedFile) -> str | None:
    path = folder / file.name
    actual = sha256_of(path)
    if actual != file.sha256:
        return f"{path} has SHA-256 {actual[:12]}…; the manifest says {file.sha256[:12]}…"
    return None


def content_id(manifest: Mapping[str, Any], settings: Mapping[str, Any] | None = None) -> str:
    """Return a SHA-256 over the files' names and hashes and over settings; signatures show its first twelve digits.

    Sizes, times and versions of software are left out: an artefact made again, byte for byte, has the same id.
    """
    files = sorted((name, facts["sha256"]) for name, facts in manifest["files"].items())
    return hashlib.sha256(orjson.dumps([files, settings or {}], option=orjson.OPT_SORT_KEYS)).hexdigest()


def require_format(path: Path, manifest: Mapping[str, Any], kind: str, newest: int) -> None:
    """Refuse a manifest of another kind, or of a format that only a later refaug reads."""
    found_kind, version = manifest.get("kind"), manifest.get("format_version")
    if found_kind != kind or not isinstance(version, int) or isinstance(version, bool) or version < 1:
        other = f"; its kind is {found_kind!r}" if isinstance(found_kind, str) and found_kind != kind else ""
        raise Corrupt(f"{path} is not a manifest of the kind {kind!r}{other}", remedy=REMEDY)
    if version > newest:
        raise Corrupt(f"{path} has format {version}; this refaug reads up to {newest}", remedy="upgrade refaug")
