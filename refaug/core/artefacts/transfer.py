"""Transferring a version of an artefact between machines as one file: a tar inside zstd.

Its members are `refaug.json`, which labels it, the manifest, and the files that the manifest names, sorted; times and
owners are zero, so that the same version gives the same file. The file read may come from anywhere: members must be
plain files, with names and sizes from the manifest, and become a version only if every hash is right.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from refaug.core.artefacts.archives import COPY_AGAIN, ArchiveReader, ArchiveWriter, Member
from refaug.core.artefacts.manifests import MANIFEST, NamedFile, checked_pieces, content_id, named_files, require_files
from refaug.core.artefacts.versions import IMPORTING, VersionName, Versions, Writer
from refaug.core.errors import Conflict, Corrupt, DamagedSource, NoSource, StorageFull, UnknownFormat
from refaug.core.files import (
    NAME,
    make_folder,
    read_json,
    remove_tree,
    require_checksum,
    storage_errors,
    unique_suffix,
    write_aside,
)
from refaug.core.progress import Progress

FORMAT_VERSION: Final = 1
LABEL: Final = "refaug.json"

_LARGEST_LABEL: Final = 1 << 16
_LARGEST_MANIFEST: Final = 1 << 26


@dataclass(frozen=True, kw_only=True)
class Label:
    """The label of an exported file."""

    kind: str
    name: str
    version: str
    format_version: int = FORMAT_VERSION

    @property
    def spec(self) -> str:
        """`name@version`."""
        return f"{self.name}@{self.version}"


@dataclass(frozen=True, kw_only=True)
class TransferredVersion:
    """An exported or imported version."""

    kind: str
    name: str
    version: str
    files: int
    bytes: int  # of the artefact's files, uncompressed


@dataclass(frozen=True, kw_only=True)
class ImportedVersion(TransferredVersion):
    """The outcome of an import."""

    was_there: bool  # the same version, with the same content, existed already
    published: bool  # it is the published version now


# ── Export ────────────────────────────────────────────────────────────────────────────────────────────────────────


def export_artefact(versions: Versions, spec: str, file: Path, progress: Progress) -> TransferredVersion:
    """Write one version into a file, which appears when it is complete; every hash is checked on the way."""
    with versions.open(spec) as held:
        manifest = read_json(held.folder / MANIFEST)
        require_files(held.folder, manifest)
        named = named_files(manifest, held.folder / MANIFEST)
        total = sum(named_file.size for named_file in named)
        progress.stage(f"exporting {held.name}@{held.version}", total, "B")
        label = Label(kind=versions.kind, name=held.name, version=held.version)
        with write_aside(file) as out, ArchiveWriter(out) as archive:
            for name, content in ((LABEL, _label_bytes(label)), (MANIFEST, (held.folder / MANIFEST).read_bytes())):
                archive.add(name, len(content), [content])
            for named_file in named:
                pieces = checked_pieces(held.folder / named_file.name, named_file, progress.advance)
                archive.add(named_file.name, named_file.size, pieces)
    return TransferredVersion(kind=label.kind, name=label.name, version=label.version, files=len(named), bytes=total)


def _label_bytes(label: Label) -> bytes:
    return orjson.dumps(asdict(label), option=orjson.OPT_APPEND_NEWLINE)


# ── Import ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _allow(_label: Label) -> None:
    pass


def _accept(_label: Label, _folder: Path) -> None:
    pass


def import_artefact(
    export: OpenedExport,
    roots: Mapping[str, Versions],
    progress: Progress,
    *,
    publish: bool = False,
    before_adding: Callable[[Label, Path], None] = _accept,
    before_publishing: Callable[[Label], None] = _allow,
) -> ImportedVersion:
    """Import an exported version under its name and version; publish it if requested, or if none is published.

    `before_adding` may raise an error about the folder with the files, whose hashes fit; nothing is stored then.
    `before_publishing` may raise an error to refuse publishing; the version is stored then, but not published.
    """
    archive, label = export.archive, _version_label(export, roots)
    versions = roots[label.kind]
    with versions.writing(label.name, f"importing {label.kind} {label.spec}") as writer:
        raw = archive.read_member(MANIFEST, _LARGEST_MANIFEST)
        manifest, named = _check_manifest(raw, label, archive.name)
        total = sum(named_file.size for named_file in named)
        was_there = _exists(writer, label, manifest)
        if not was_there:
            progress.stage(f"importing {label.spec}", total, "B")
            _import_files(archive, writer, label, raw, named, before_adding, progress)
        if publish or versions.current(label.name) is None:
            before_publishing(label)
            writer.publish(label.version)
        published = versions.current(label.name) == label.version
    return ImportedVersion(
        kind=label.kind,
        name=label.name,
        version=label.version,
        files=len(named),
        bytes=total,
        was_there=was_there,
        published=published,
    )


@dataclass(frozen=True, kw_only=True)
class OpenedExport:
    """An exported file that is read up to its label; a pipe can be read only once."""

    archive: ArchiveReader  # its next member follows the label
    label: Mapping[str, Any]  # what the file claims to be; nothing in it is trusted yet

    @property
    def kind(self) -> str:
        """The kind of what the file claims to hold."""
        return str(self.label.get("kind"))


@contextmanager
def open_export(file: Path) -> Iterator[OpenedExport]:
    """Open an exported file and read its label; NoSource where it cannot be read."""
    try:
        stream = file.open("rb")
    except OSError as error:
        raise NoSource(f"{file}: {(error.strerror or 'cannot be read').lower()}") from error
    with stream:
        archive = ArchiveReader(stream, str(file))
        yield OpenedExport(archive=archive, label=_read_label(archive))


def _read_label(archive: ArchiveReader) -> dict[str, object]:
    """Read what the file claims to be; nothing in it is trusted yet. UnknownFormat where a later refaug wrote it."""
    label = json_object(archive.read_member(LABEL, _LARGEST_LABEL), f"{archive.name}: {LABEL}")
    format_version = label.get("format_version")
    if isinstance(format_version, int) and format_version > FORMAT_VERSION:
        raise UnknownFormat(
            f"{archive.name} has format {format_version}; this refaug reads up to {FORMAT_VERSION}",
            remedy="upgrade refaug",
        )
    return label


def _version_label(export: OpenedExport, roots: Mapping[str, Versions]) -> Label:
    """Return the label of a version of one of these kinds."""
    archive, label = export.archive, export.label
    format_version = label.get("format_version")
    kind, name, version = (str(label.get(key)) for key in ("kind", "name", "version"))
    if kind not in roots:
        raise UnknownFormat(
            f"{archive.name} holds an artefact of the kind {kind!r}",
            remedy=f"this refaug imports: {', '.join(sorted(roots))}",
        )
    if format_version != FORMAT_VERSION or NAME.fullmatch(name) is None or VersionName.parse(version) is None:
        raise DamagedSource(f"{archive.name}: {LABEL} names no version: {name!r}, {version!r}", remedy=COPY_AGAIN)
    return Label(kind=kind, name=name, version=version)


def json_object(raw: bytes, description: str) -> dict[str, object]:
    """Return the object; DamagedSource where the bytes are none."""
    with suppress(orjson.JSONDecodeError):
        content = orjson.loads(raw)
        if isinstance(content, dict):
            return content
    raise DamagedSource(f"{description} is not a JSON object", remedy=COPY_AGAIN)


def _check_manifest(raw: bytes, label: Label, name: str) -> tuple[dict[str, object], list[NamedFile]]:
    manifest = json_object(raw, f"{name}: {MANIFEST}")
    if manifest.get("kind", label.kind) != label.kind:
        raise DamagedSource(
            f"{name}: {MANIFEST} is of the kind {manifest['kind']!r}, not {label.kind!r}", remedy=COPY_AGAIN
        )
    try:
        require_checksum(Path(name) / MANIFEST, manifest)
        return manifest, named_files(manifest, Path(name) / MANIFEST)
    except Corrupt as error:
        raise DamagedSource(error.message, remedy=COPY_AGAIN) from error


def _exists(writer: Writer, label: Label, manifest: Mapping[str, Any]) -> bool:
    """Return whether this very version exists; raise Conflict for another one under its name."""
    folder = writer.folder / label.version
    if not (folder / MANIFEST).exists():
        return False
    stored_manifest = read_json(folder / MANIFEST)
    named_files(stored_manifest, folder / MANIFEST)
    if _identity(stored_manifest) != _identity(manifest):
        raise Conflict(
            f"{label.kind} {label.spec} is there already, with other content",
            remedy="remove that version first, or import into another REFAUG_HOME",
        )
    require_files(folder, stored_manifest)
    return True


def _identity(manifest: Mapping[str, Any]) -> str:
    """Return an id that is equal for equal content; kinds with decisive settings record an id over both."""
    return content_id(manifest, {"id": manifest.get("id")})


def _import_files(
    archive: ArchiveReader,
    writer: Writer,
    label: Label,
    manifest: bytes,
    named: list[NamedFile],
    before_adding: Callable[[Label, Path], None],
    progress: Progress,
) -> None:
    """Fill a folder aside, and make it a version when everything is there."""
    require_room(writer.folder, sum(named_file.size for named_file in named))
    stage = writer.folder / f"{IMPORTING}{unique_suffix()}"
    try:
        make_folder(stage)
        _unpack(archive, stage, {named_file.name: named_file for named_file in named}, progress)
        with write_aside(stage / MANIFEST) as file:
            file.write(manifest)
        before_adding(label, stage)
        writer.add(stage, label.version)
    except BaseException:
        remove_tree(stage)
        raise


def require_room(folder: Path, needed: int) -> None:
    """Raise StorageFull where a folder's disk has less room."""
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise StorageFull(f"{folder}: {needed:,} bytes are needed, {free:,} are free", remedy="free some room")


def _unpack(archive: ArchiveReader, stage: Path, named: Mapping[str, NamedFile], progress: Progress) -> None:
    """Unpack every named file once, and no other."""
    missing = set(named)
    while (member := archive.next_member()) is not None:
        if member.name not in named:
            raise archive.damage_error(f"it holds {member.name!r}, which its manifest does not name")
        if member.name not in missing:
            raise archive.damage_error(f"it holds {member.name} twice")
        missing.remove(member.name)
        _unpack_file(archive, member, stage, named[member.name], progress)
    if missing:
        raise archive.damage_error(f"it lacks {', '.join(sorted(missing))}")


def _unpack_file(archive: ArchiveReader, member: Member, stage: Path, named: NamedFile, progress: Progress) -> None:
    if member.size != named.size:
        raise archive.damage_error(f"{named.name} has {member.size:,} bytes; the manifest says {named.size:,}")
    path, digest = stage / named.name, hashlib.sha256()
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            for piece in archive.content(member):
                file.write(piece)
                digest.update(piece)
                progress.advance(len(piece))
            file.flush()
            os.fsync(file.fileno())
    if digest.hexdigest() != named.sha256:
        raise archive.damage_error(
            f"{named.name} has SHA-256 {digest.hexdigest()[:12]}…; the manifest says {named.sha256[:12]}…"
        )
