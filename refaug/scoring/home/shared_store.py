"""A home and a store: an index travels with the word vectors that it cannot be opened without."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.artefacts.manifests import MANIFEST
from refaug.core.artefacts.store.fetching import FetchedVersion, fetch_version, resolve
from refaug.core.artefacts.store.objects import NeededVersion, Store, VersionRecord
from refaug.core.artefacts.store.pushing import PushedVersion, push_version
from refaug.core.artefacts.versions import Versions
from refaug.core.errors import Conflict, Corrupt, NotFound, Usage
from refaug.core.files import read_json
from refaug.core.home import Settings
from refaug.core.progress import Progress
from refaug.scoring.home.stored_artefacts import stored_artefacts

INDEX, VECTORS, ENCODER = "index", "vectors", "encoder"

Pins = Callable[[str], Mapping[str, list[str]]]


@dataclass(frozen=True, kw_only=True)
class FetchedHere:
    """The versions that were fetched, the requested one last, and the versions that had to go."""

    versions: Sequence[FetchedVersion]
    erased: Sequence[str] = ()  # versions of the name that held what was deleted since, and are removed now
    erased_later: Sequence[str] = ()  # such versions that a process reads, or that a frozen set or a judge needs


def push_from(
    settings: Settings, store: Store, kind: str, spec: str, progress: Progress, *, verify: bool = False
) -> list[PushedVersion]:
    """Put a version into a store, after what it needs."""
    kinds = _require_kind(settings, kind)
    with kinds[kind].open(spec) as held:
        exact = f"{held.name}@{held.version}"
        needs = _needs(settings, kind, held.folder)
        pushed = [
            push_version(store, kinds[needed.kind], f"{needed.name}@{needed.version}", progress, verify=verify)
            for needed in needs
        ]
        return [*pushed, push_version(store, kinds[kind], exact, progress, needs=needs, verify=verify)]


def fetch_into(
    settings: Settings,
    store: Store,
    kind: str,
    spec: str,
    progress: Progress,
    *,
    publish: bool,
    erasing: Pins | None = None,
) -> FetchedHere:
    """Bring a version of a store here, after what it needs.

    With `erasing`, versions here that hold what was deleted since are removed, unless they are in use; it returns the
    versions of a name that frozen sets pin, with these sets.
    """
    kinds = _require_kind(settings, kind)
    record = resolve(store, kind, spec)
    fetched = [_fetch(settings, store, resolve_needed(store, needed), progress) for needed in record.needs]
    fetched.append(_fetch(settings, store, record, progress, publish=publish))
    if erasing is None:
        return FetchedHere(versions=fetched)
    removed, remaining = _remove_outdated(settings, kinds[kind], record.name, erasing(record.name))
    return FetchedHere(versions=fetched, erased=removed, erased_later=remaining)


def resolve_needed(store: Store, needed: NeededVersion) -> VersionRecord:
    """Return the record of a version that another one needs."""
    if needed.kind not in (VECTORS, ENCODER):
        raise Corrupt(f"the store {store.name} has a record that needs a {needed.kind}", remedy="push it again")
    return store.record(needed.kind, needed.name, needed.version)


def _require_kind(settings: Settings, kind: str) -> dict[str, Versions]:
    kinds = artefact_stores(settings)
    if kind not in kinds:
        raise Usage(f"{kind!r} has no versions", remedy=f"name one of: {', '.join(kinds)}")
    return kinds


def _needs(settings: Settings, kind: str, folder: Path) -> tuple[NeededVersion, ...]:
    """Return the word vectors or the encoder of an index; an encoder in a folder lies on the disk of each machine."""
    if kind != INDEX:
        return ()
    from refaug.indexer.index_folders import hold_encoder, hold_vectors  # noqa: PLC0415  compiles
    from refaug.indexer.manifest import IndexManifest  # noqa: PLC0415
    from refaug.scoring.home.indexes import places_of  # noqa: PLC0415

    source = IndexManifest.read(folder).vectors
    if source.path:
        return ()
    kind, places = (ENCODER, places_of(settings)) if source.kind == "encoder" else (VECTORS, places_of(settings))
    held, _ = hold_encoder(places, source) if kind == ENCODER else hold_vectors(places.vectors, source)
    assert held is not None
    with held:
        return (NeededVersion(kind=kind, name=held.name, version=held.version),)


def _fetch(
    settings: Settings, store: Store, record: VersionRecord, progress: Progress, *, publish: bool = False
) -> FetchedVersion:
    stored = stored_artefacts(settings, record.kind)
    return fetch_version(
        store,
        stored.versions,
        record,
        settings.cache,
        progress,
        publish=publish,
        before_adding=lambda fetched, folder: stored.require_sound(fetched.name, fetched.version, folder),
        before_publishing=lambda fetched: stored.require_publishable(fetched.name, fetched.version),
    )


def _remove_outdated(
    settings: Settings, versions: Versions, name: str, pinned: Mapping[str, list[str]]
) -> tuple[list[str], list[str]]:
    """Remove the versions of a name whose count of deletions is smaller than that of another one."""
    counts = {version: _erasures(versions.folder(name, version)) for version in versions.versions(name)}
    outdated = {version for version, erasures in counts.items() if erasures < max(counts.values())}
    if not outdated:
        return [], []
    pins = dict(pinned) | {version: [] for version in counts if version not in outdated}
    removed = stored_artefacts(settings, versions.kind).gc(name, 0, pins).removed
    return removed, sorted(outdated - set(removed))


def _erasures(folder: Path) -> int:
    try:
        manifest: Any = read_json(folder / MANIFEST)
    except (Corrupt, FileNotFoundError):
        return 0
    erasures = manifest.get("erasures", 0)
    return erasures if isinstance(erasures, int) else 0


def outdated_in(store: Store, record: VersionRecord) -> list[VersionRecord]:
    """Return the versions in a store that still hold what was deleted from this one."""
    older = list[VersionRecord]()
    for version in store.versions(record.kind, record.name):
        try:
            other = store.record(record.kind, record.name, version)
        except (NotFound, Conflict):
            continue
        if other.erasures < record.erasures:
            older.append(other)
    return older
