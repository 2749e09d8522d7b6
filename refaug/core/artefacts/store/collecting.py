"""Deleting what no version of a store names; what a record or a publisher's claim names stays, whatever its age."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from refaug.core.artefacts.store.objects import LEASE, OBJECTS, Store, VersionRecord
from refaug.core.artefacts.store.store_files import UPLOADS, StoreEntry
from refaug.core.errors import Conflict, NotFound
from refaug.core.progress import Progress


@dataclass(frozen=True, kw_only=True)
class CollectedFiles:
    """The outcome of a collection."""

    removed_versions: tuple[str, ...]  # kind and name@version
    deleted_files: int
    deleted_bytes: int
    waiting_files: int  # that nothing names, but younger than the grace time
    waiting_until: datetime | None  # when the last of them may go
    erased_until: datetime | None  # when the last file that only versions with erased text had may go; None: now


def remove_versions(store: Store, kind: str, name: str, version: str | None) -> list[VersionRecord]:
    """Remove a version, or all versions of a name, from a store; their files go when unused files are collected."""
    versions = [version] if version else store.versions(kind, name)
    if not versions:
        raise NotFound(
            f"the store {store.name} has no {kind} {name!r}", remedy=f"refaug artefacts list --store {store.name}"
        )
    records = [store.record(kind, name, each) for each in versions]
    _require_unneeded(store, records)
    for record in records:
        store.remove_record(record)
    return records


def _require_unneeded(store: Store, records: list[VersionRecord]) -> None:
    """Raise Conflict where another version of the store needs one of these."""
    gone = {(record.kind, record.name, record.version) for record in records}
    for record in store.records():
        for needed in record.needs:
            key = (needed.kind, needed.name, needed.version)
            if key in gone and (record.kind, record.name, record.version) not in gone:
                raise Conflict(
                    f"{record.kind} {record.spec} in the store {store.name} needs {needed.kind} "
                    f"{needed.name}@{needed.version}",
                    remedy=f"remove that first: refaug artefacts remove {record.kind} {record.spec} "
                    f"--store {store.name} --yes",
                )


def outdated_records(store: Store) -> list[VersionRecord]:
    """Return the versions that still hold what was deleted from a later version of the same name."""
    records = store.records()
    most = dict[tuple[str, str], int]()
    for record in records:
        key = (record.kind, record.name)
        most[key] = max(most.get(key, 0), record.erasures)
    return [record for record in records if record.erasures < most[record.kind, record.name]]


def collect_unused(store: Store, grace: timedelta, progress: Progress, *, erased: bool = False) -> CollectedFiles:
    """Delete the files that no record and no claim names and that are older than the grace time.

    With `erased`, versions that hold what was deleted from a later one are removed first, and their files have no
    grace time.
    """
    with store.collecting() as marker:
        outdated = outdated_records(store) if erased else []
        for record in outdated:
            store.remove_record(record)
        progress.stage("listing the store")
        entries = store.files.list(OBJECTS)
        uploads = store.files.list(UPLOADS)
        named = {sha256 for record in store.records() for sha256 in record.objects}
        claims = [store.read_record(entry.path) for entry in store.claims()]
        claimed = {sha256 for record in claims if record is not None for sha256 in record.objects}
        to_erase = {sha256 for record in outdated for sha256 in record.objects} - named
        now = store.clock()
        unused = [entry for entry in entries if _sha_of(entry) not in named | claimed]
        old = [entry for entry in unused if now - entry.modified >= grace or _sha_of(entry) in to_erase]
        old += [entry for entry in uploads if now - entry.modified >= max(grace, timedelta(hours=1))]
        progress.stage("deleting unused files", len(old), "files")
        for entry in old:
            marker.renew_if_old()
            store.files.delete(entry.path)
            progress.advance(1)
    waiting = [entry for entry in unused if entry not in old]
    return CollectedFiles(
        removed_versions=tuple(f"{record.kind} {record.spec}" for record in outdated),
        deleted_files=len(old),
        deleted_bytes=sum(entry.size for entry in old),
        waiting_files=len(waiting),
        waiting_until=max((entry.modified + grace for entry in waiting), default=None),
        erased_until=_claimed_until(store, to_erase & claimed),
    )


def damaged_objects(store: Store, record: VersionRecord, progress: Progress) -> list[str]:
    """Read every file of a version; return what is wrong, one sentence each."""
    problems, sizes = list[str](), store.object_sizes()
    progress.stage(f"reading {record.spec}", record.size + record.manifest.size, "B")
    for file in [*record.files, record.manifest]:
        size = sizes.get(file.sha256)
        if size is None:
            problems.append(f"{file.name} is missing")
        elif size != file.size:
            problems.append(f"{file.name} has {size:,} bytes instead of {file.size:,}")
        elif store.hash_of_object(file.sha256) != file.sha256:
            problems.append(f"{file.name} has other bytes than its hash says")
        progress.advance(file.size)
    return problems


def _claimed_until(store: Store, hashes: set[str]) -> datetime | None:
    return max((entry.modified + LEASE for entry in store.claims()), default=None) if hashes else None


def _sha_of(entry: StoreEntry) -> str:
    return entry.path.rpartition("/")[2]
