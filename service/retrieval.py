"""Opening what a search needs, from the settings: the one place where folders become an index."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

from core.records import Reference
from indexer.index import ReferenceIndex
from indexer.manifest import IndexManifest
from indexer.places import Places
from indexer.queries import SearchSettings
from service.artefacts import stored
from service.settings import Settings


def places_of(settings: Settings) -> Places:
    """Where logs, vectors and indexes lie."""
    kinds = stored(settings)
    return Places(
        logs=settings.logs,
        vectors=kinds["vectors"],
        indexes=kinds["index"],
        cache=settings.cache,
    )


def cores() -> int:
    """As many threads as cores that we may use."""
    return len(os.sched_getaffinity(0))


def open_index(settings: Settings, spec: str, *, threads: int | None = None) -> ReferenceIndex:
    """An index by `name` or `name@version`, held until it is closed."""
    return ReferenceIndex.open(places_of(settings), spec, threads=threads or cores())


def hard_negatives(
    index: ReferenceIndex, utterance: str, *, not_above: float = 0.95, settings: SearchSettings | None = None
) -> Iterator[Reference]:
    """Responses to utterances like this one, the most alike first, without those to nearly the same one.

    For training a rater: they look right and mostly are not. The answer has no end of its own until the index is
    through, so take what is needed.
    """
    wanted = replace(settings or SearchSettings(), mode="embedding-utterance")
    found = index.neighbours(utterance, wanted)
    return (one for one in found if one.similarity is not None and one.similarity <= not_above)


def vectors_in_use(places: Places) -> set[str]:
    """Hashes of the word vectors that some index needs: they are not to be removed, whatever they are called."""
    return {
        IndexManifest.read(places.indexes.folder(name, version)).vectors.sha256
        for name in places.indexes.names()
        for version in places.indexes.versions(name)
    }
