"""A version out of a store: files that are here already are linked, the rest is fetched and checked by hash.

A fetch that was interrupted continues: finished files lie in the cache, and each is hashed again before it is used.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from refaug.core.artefacts.build_stages import Stages
from refaug.core.artefacts.manifests import MANIFEST, NamedFile, content_id, named_files, require_files
from refaug.core.artefacts.store.objects import Store, VersionRecord
from refaug.core.artefacts.transfer import require_room
from refaug.core.artefacts.verified_files import verified_files
from refaug.core.artefacts.versions import Versions, Writer
from refaug.core.errors import Conflict, Corrupt, NotFound, Unavailable
from refaug.core.files import make_folder, read_json, storage_errors, sync_folder, unique_suffix
from refaug.core.progress import Progress


@dataclass(frozen=True, kw_only=True)
class FetchedVersion:
    """A version that is here now."""

    record: VersionRecord
    fetched_files: int
    fetched_bytes: int
    linked_files: int  # that another version here had
    was_there: bool
    published: bool


def _allow(_record: VersionRecord, _folder: Path) -> None:
    pass


def resolve(store: Store, kind: str, spec: str) -> VersionRecord:
    """Return the record that `name` or `name@version` means: without a version, the newest one."""
    name, at, version = spec.partition("@")
    versions = store.versions(kind, name)
    if not versions:
        names = sorted({record.name for record in store.records() if record.kind == kind})
        raise NotFound(
            f"the store {store.name} has no {kind} {name!r}", remedy=f"there are: {', '.join(names) or 'none yet'}"
        )
    return store.record(kind, name, version if at else versions[-1])


def fetch_version(
    store: Store,
    versions: Versions,
    record: VersionRecord,
    cache: Path,
    progress: Progress,
    *,
    publish: bool,
    before_adding: Callable[[VersionRecord, Path], None] = _allow,
    before_publishing: Callable[[VersionRecord], None] = lambda _record: None,
) -> FetchedVersion:
    """Bring a version here; publish it if requested, or if none is published.

    `before_adding` may raise an error about the folder with the files, whose hashes fit.
    """
    with versions.writing(record.name, f"fetching {record.kind} {record.spec}") as writer:
        was_there = _exists(writer, record)
        fetch = _Fetch(store, versions, record, progress)
        if not was_there:
            stages = Stages.of(cache, f"fetch-{record.kind}-{record.name}", {"manifest": record.manifest.sha256})
            fetch.run(stages.folder)
            before_adding(record, stages.folder)
            writer.add(stages.folder, record.version)
        if publish or versions.current(record.name) is None:
            before_publishing(record)
            writer.publish(record.version)
        published = versions.current(record.name) == record.version
    return FetchedVersion(
        record=record,
        fetched_files=fetch.files,
        fetched_bytes=fetch.bytes,
        linked_files=fetch.linked,
        was_there=was_there,
        published=published,
    )


def _exists(writer: Writer, record: VersionRecord) -> bool:
    """Return whether this very version is here; raise Conflict for another one under its name."""
    folder = writer.folder / record.version
    if not (folder / MANIFEST).exists():
        return False
    manifest = read_json(folder / MANIFEST)
    here = {(file.name, file.sha256) for file in named_files(manifest, folder / MANIFEST)}
    if here != {(file.name, file.sha256) for file in record.files}:
        raise Conflict(
            f"{record.kind} {record.spec} is here already, with other content ({content_id(manifest)[:12]})",
            remedy="remove that version first, or fetch into another REFAUG_HOME",
        )
    require_files(folder, manifest)
    return True


class _Fetch:
    """The files of a version on their way."""

    def __init__(self, store: Store, versions: Versions, record: VersionRecord, progress: Progress) -> None:
        self._store, self._versions, self._record, self._progress = store, versions, record, progress
        self.files = self.bytes = self.linked = 0

    def run(self, folder: Path) -> None:
        """Fill a folder with all files; the manifest comes last."""
        missing = [file for file in self._record.files if not _is_whole(folder / file.name, file)]
        local = self._local_files({file.sha256 for file in missing})
        absent = [file for file in missing if file.sha256 not in local]
        require_room(folder, sum(file.size for file in absent))
        self._progress.stage(f"fetching {self._record.spec}", sum(file.size for file in absent), "B")
        for file in missing:
            make_folder((folder / file.name).parent)
            source = local.get(file.sha256)
            if source is None or not _link_whole(source, folder / file.name, file):
                self._download(file, folder / file.name)
            else:
                self.linked += 1
        self._download(self._record.manifest, folder / MANIFEST)
        manifest = read_json(folder / MANIFEST)
        named = {(file.name, file.size, file.sha256) for file in named_files(manifest, folder / MANIFEST)}
        if named != {(file.name, file.size, file.sha256) for file in self._record.files}:
            (folder / MANIFEST).unlink()
            raise Corrupt(
                f"the record of {self._record.spec} in the store {self._store.name} does not name the files of its "
                "manifest",
                remedy="remove the version from the store, and push it again",
            )

    def _local_files(self, hashes: set[str]) -> dict[str, Path]:
        """Return files of other versions of this artefact, by hash."""
        paths = dict[str, Path]()
        for version in self._versions.versions(self._record.name):
            folder = self._versions.folder(self._record.name, version)
            with suppress(Corrupt, FileNotFoundError):
                for file in named_files(read_json(folder / MANIFEST), folder / MANIFEST):
                    if file.sha256 in hashes:
                        paths[file.sha256] = folder / file.name
        return paths

    def _download(self, file: NamedFile, target: Path) -> None:
        """Fetch a file aside, compare size and hash, and give it its name; a file with other bytes is fetched twice."""
        for is_last in (False, True):
            problem = self._try_download(file, target)
            if problem is None:
                self.files, self.bytes = self.files + 1, self.bytes + file.size
                return
            if is_last:
                raise Corrupt(
                    f"the store {self._store.name} has a damaged file for {self._record.spec}: {file.name} {problem}",
                    remedy=f"repair it from a machine that has the version: refaug artefacts push {self._record.kind} "
                    f"{self._record.spec} --verify",
                )
            self._progress.warn(f"{file.name} from the store {problem}; it is fetched again")

    def _try_download(self, file: NamedFile, target: Path) -> str | None:
        """Return what is wrong with the bytes that came."""
        aside = target.with_name(f".{target.name}.{unique_suffix()}.aside")
        digest, size = hashlib.sha256(), 0
        try:
            with storage_errors(target), aside.open("xb") as out:
                for piece in self._pieces(file):
                    size += len(piece)
                    if size > file.size:
                        break
                    out.write(piece)
                    digest.update(piece)
                    self._progress.advance(len(piece))
                out.flush()
                os.fsync(out.fileno())
            if size != file.size:
                return f"has {'more than ' if size > file.size else ''}{size:,} bytes instead of {file.size:,}"
            if digest.hexdigest() != file.sha256:
                return f"has SHA-256 {digest.hexdigest()[:12]}… instead of {file.sha256[:12]}…"
            aside.replace(target)
            sync_folder(target.parent)
            return None
        finally:
            aside.unlink(missing_ok=True)

    def _pieces(self, file: NamedFile) -> Iterator[bytes]:
        try:
            yield from self._store.object_pieces(file.sha256)
        except NotFound:
            raise Unavailable(
                f"the store {self._store.name} lacks {file.name} of {self._record.spec}",
                remedy="was it removed meanwhile? If not: refaug artefacts push from a machine that has it",
            ) from None


def _is_whole(path: Path, file: NamedFile) -> bool:
    try:
        return path.stat().st_size == file.size and verified_files.sha256(path) == file.sha256
    except OSError:
        return False


def _link_whole(source: Path, target: Path, file: NamedFile) -> bool:
    """Link a file of another version after reading it; return whether it was whole and could be linked or copied."""
    if not _is_whole(source, file):
        return False
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError:
        aside = target.with_name(f".{target.name}.aside")
        shutil.copyfile(source, aside)
        aside.replace(target)
    sync_folder(target.parent)
    return True
