"""Open what a search needs, from the settings of a home: the only place where folders become an index."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.home import Settings
from refaug.core.processes.free_cores import available_cores
from refaug.core.records import Reference
from refaug.indexer.index_folders import Places
from refaug.indexer.manifest import IndexManifest
from refaug.indexer.search.index import ReferenceIndex
from refaug.indexer.search.search_settings import SearchSettings


def places_of(settings: Settings) -> Places:
    """Return where logs, vectors and indexes lie."""
    kinds = artefact_stores(settings)
    return Places(
        logs=settings.logs,
        vectors=kinds["vectors"],
        indexes=kinds["index"],
        cache=settings.cache,
    )


def cores() -> int:
    """Return the number of cores that this process may use, by its affinity and its container's limit."""
    return available_cores()


def open_index(settings: Settings, spec: str, *, threads: int | None = None, hashed: bool = False) -> ReferenceIndex:
    """Open an index by `name` or `name@version`, leased until it is closed; a server compares every file's hash."""
    return ReferenceIndex.open(places_of(settings), spec, threads=threads or cores(), hashed=hashed)


def hard_negatives(
    index: ReferenceIndex, utterance: str, *, not_above: float = 0.95, settings: SearchSettings | None = None
) -> Iterator[Reference]:
    """Yield responses to utterances like this one, the most similar first, without those to nearly the same one.

    They serve to train a rater: they look right and mostly are not. The iterator ends only with the index, so take as
    many as are needed.
    """
    search = replace(settings or SearchSettings(), mode="embedding-utterance")
    neighbours = index.neighbours(utterance, search)
    return (
        reference for reference in neighbours if reference.similarity is not None and reference.similarity <= not_above
    )


def vectors_in_use(places: Places) -> set[str]:
    """Return the hashes of the word vectors that some index needs, which must not be removed."""
    return {
        IndexManifest.read(places.indexes.folder(name, version)).vectors.sha256
        for name in places.indexes.names()
        for version in places.indexes.versions(name)
    }
