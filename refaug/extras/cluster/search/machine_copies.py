"""The copies of shards on all machines of a cluster: which there are, which a process has open, and removing others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from refaug.core.errors import Corrupt
from refaug.extras.cluster.connection import Cluster, ClusterNode
from refaug.extras.cluster.search.fleet import copies_of
from refaug.extras.cluster.search.node_copies import CopyState, collect_here, copies_here, is_of_vectors
from refaug.indexer.index_folders import Places
from refaug.indexer.manifest import IndexManifest


@dataclass(frozen=True, kw_only=True)
class MachineCopy:
    """A copy on a machine: the versions of the home that have its content, and whether it is gone now."""

    machine: ClusterNode
    versions: tuple[str, ...]
    state: CopyState
    is_published: bool
    is_removed: bool


def copies_on_machines(
    cluster: Cluster, places: Places, *, remove: bool, look: Callable[[], None] = lambda: None
) -> Iterator[MachineCopy]:
    """Yield the copies of every machine; with `remove`, those of no published version go unless a process has them."""
    versions, published = _versions_of(places)
    before = list(cluster.on_every_node(copies_here, look=look))
    keep = sorted(published | {of.name for _, states in before for of in states if is_of_vectors(of.name)})
    held = dict(cluster.on_every_node(collect_here, look=look, keep=keep)) if remove else {}
    for machine, states in sorted(before, key=lambda of: (of[0].address, of[0].id)):
        for state in states:
            is_kept = state.name in keep
            yield MachineCopy(
                machine=machine,
                versions=tuple(versions.get(state.name, ())),
                state=state,
                is_published=state.name in published,
                is_removed=machine in held and not is_kept and state.name not in held[machine],
            )


def _versions_of(places: Places) -> tuple[dict[str, list[str]], set[str]]:
    """Return the versions that each copy is of, and the names of copies of published versions."""
    versions, published = dict[str, list[str]](), set[str]()
    for name in places.indexes.names():
        for version in places.indexes.versions(name):
            try:
                names = copies_of(IndexManifest.read(places.indexes.folder(name, version)))
            except Corrupt:
                continue
            for copy in names:
                versions.setdefault(copy, []).append(f"{name}@{version}")
            if places.indexes.current(name) == version:
                published |= set(names)
    return versions, published
