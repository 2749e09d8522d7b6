"""Open what a search needs, from the settings of a home: the only place where folders become an index."""

from __future__ import annotations

from collections.abc import Callable

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.artefacts.versions import Versions
from refaug.core.files import read_json
from refaug.core.home import Settings
from refaug.core.processes.free_cores import available_cores
from refaug.indexer.index_folders import Places
from refaug.indexer.manifest import MANIFEST, IndexManifest
from refaug.indexer.search.index import ReferenceIndex


def places_of(settings: Settings) -> Places:
    """Return where logs, vectors and indexes lie."""
    kinds = artefact_stores(settings)
    return Places(
        logs=settings.logs,
        vectors=kinds["vectors"],
        encoders=kinds["encoder"],
        indexes=kinds["index"],
        cache=settings.cache,
    )


def cores() -> int:
    """Return the number of cores that this process may use, by its affinity and its container's limit."""
    return available_cores()


def open_index(settings: Settings, spec: str, *, threads: int | None = None, hashed: bool = False) -> ReferenceIndex:
    """Open an index by `name` or `name@version`, leased until it is closed; a server compares every file's hash."""
    return ReferenceIndex.open(places_of(settings), spec, threads=threads or cores(), hashed=hashed)


def needed_by_indexes(settings: Settings, versions: Versions, content: str) -> Callable[[str, str], bool]:
    """Return a function that says whether some index needs a version of word vectors or of an encoder.

    `content` is the field of their manifests with the hash by which indexes name them.
    """
    places = places_of(settings)
    needed = {
        IndexManifest.read(places.indexes.folder(name, version)).vectors.sha256
        for name in places.indexes.names()
        for version in places.indexes.versions(name)
    }

    def is_needed(name: str, version: str) -> bool:
        return read_json(versions.folder(name, version) / MANIFEST).get(content) in needed

    return is_needed
