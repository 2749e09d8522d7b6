"""The shards of one version on a cluster: opened on its machines, asked by searches, and ended with the version.

Copies of their files stay on the machines: here are which there are, which a process has open, and removing others.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from refaug.core.artefacts.manifests import NamedFile, named_files
from refaug.core.artefacts.store.locations import StoreSettings
from refaug.core.clusters import ShardState
from refaug.core.errors import Conflict, Corrupt, Interrupted, RefaugError
from refaug.core.files import read_json
from refaug.core.options.decoding import made_of
from refaug.core.records import Item
from refaug.extras.cluster.actors import Actors, Observer
from refaug.extras.cluster.connection import Cluster, ClusterNode
from refaug.extras.cluster.replicas import ActorCall, NoReplica, Replicas, SharedReplicas
from refaug.extras.cluster.search import shard_server
from refaug.extras.cluster.search.node_copies import (
    VECTORS,
    CopySource,
    CopyState,
    collect_here,
    copies_here,
    is_of_vectors,
)
from refaug.extras.cluster.search.remote_segments import RemoteSegments, RemoteShard
from refaug.extras.cluster.startup import first_answers
from refaug.indexer.index_folders import Places
from refaug.indexer.manifest import MANIFEST, IndexManifest, software
from refaug.indexer.search.index import ShardSource
from refaug.indexer.search.search_settings import SearchSettings
from refaug.indexer.search.search_tables import QueryTables
from refaug.indexer.search.searched_segments import ShardsMissing
from refaug.indexer.search.segments import EXTRA_WORDS, SUPERSEDED, SegmentFacts
from refaug.indexer.search.similarity import Likeness

_ID_DIGITS: Final = 16
_COLLECTIONS: Final = 30  # attempts to remove what a process that ends still holds
_COLLECT_S: Final = 1.0
_JOIN_S: Final = 30.0  # for a thread whose processes have been ended; a cluster without a head does not answer it

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class SharedShard:
    """A shard that is open, as other processes of the cluster get it."""

    name: str
    replicas: SharedReplicas
    numbers: tuple[int, ...]
    facts: tuple[SegmentFacts, ...]


class OpenShards:
    """The shards of one version that are open on a cluster, as searches ask them."""

    def __init__(self, actors: Actors, cluster: Cluster, spec: str, shards: Sequence[RemoteShard]) -> None:
        self._actors, self._cluster, self._spec, self.shards = actors, cluster, spec, list(shards)

    def segments(
        self, likeness: Likeness, tables: QueryTables, settings: SearchSettings, without: Sequence[str] = ()
    ) -> RemoteSegments:
        """Return the shards for one search, without those of these names."""
        shards = [shard for shard in self.shards if shard.name not in without]
        if not shards:
            raise ShardsMissing(
                f"none of the {len(self.shards)} shards of {self._spec} answers",
                remedy="ask again in some seconds, since Ray starts them again",
                shards=[shard.name for shard in self.shards],
            )
        return RemoteSegments.of(self._actors, shards, likeness, tables, settings, self._cluster.share)

    def utterance(self, number: int) -> str | None:
        """Return the text of one of all utterances, numbered through the segments; None of a superseded one."""
        places = {number: (shard, at) for shard in self.shards for at, number in enumerate(shard.numbers)}
        for _, (shard, at) in sorted(places.items()):
            count = shard.facts[at].utterance_count
            if number < count:
                text: str | None = self._ask(shard, "utterance", at, number)
                return text
            number -= count
        raise LookupError("the index has no such utterance")

    def first_pair(self) -> Item:
        """Return a pair of the index, by which a search warms up."""
        pair: Item = self._ask(self.shards[0], "first_pair")
        return pair

    def shared(self) -> tuple[SharedShard, ...]:
        """Return the shards for other processes of the cluster."""
        return tuple(made_of(SharedShard, shard, replicas=SharedReplicas.of(shard.replicas)) for shard in self.shards)

    def _ask(self, shard: RemoteShard, method: str, *arguments: Any) -> Any:
        answer = self._actors.call([ActorCall(replicas=shard.replicas, method=method, arguments=arguments)])[0]
        if isinstance(answer, NoReplica):
            raise ShardsMissing(answer.message, remedy=answer.remedy, shards=[shard.name])
        return answer

    def close(self) -> None:
        """Leave them to the process that opened them."""


class SharedShards:
    """The shards that another process of the cluster has opened, for the searches of this one."""

    def __init__(self, cluster: Cluster, shards: Sequence[SharedShard], *, timeout_s: float) -> None:
        self._cluster, self._shards = cluster, shards
        self._actors = Actors(cluster, timeout_s=timeout_s)

    def open(self, source: ShardSource) -> OpenShards:
        """Return the shards, which are those of this version."""
        shards = [
            RemoteShard(name=one.name, replicas=one.replicas.opened(), numbers=one.numbers, facts=one.facts)
            for one in self._shards
        ]
        self._actors.watch([shard.replicas for shard in shards])
        return OpenShards(self._actors, self._cluster, source.spec, shards)

    def close(self) -> None:
        """Ask none of them any more."""
        self._actors.close()


class ShardHosts:
    """A cluster on which fleets open their shards."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        replicas: int,
        timeout_s: float,
        store: StoreSettings | None,
        observe: Observer = lambda _shard, _outcome, _seconds: None,
    ) -> None:
        self.cluster, self.replicas, self.store = cluster, replicas, store
        self.actors = Actors(cluster, timeout_s=timeout_s, observe=observe)
        self._fleets = list[ShardFleet]()
        self._collecting = list[threading.Thread]()
        self._is_over = threading.Event()

    def open(self, source: ShardSource) -> ShardFleet:
        """Open the shards of a version beside those of others; all of them are there when this returns."""
        nodes = self.cluster.nodes()
        if not nodes:
            raise Conflict(
                f"the cluster at {self.cluster.address} has no machine that takes work",
                remedy="start one with ray start --address",
            )
        fleet = ShardFleet(self, source, nodes)
        self._fleets.append(fleet)
        self._collect()
        return fleet

    def states(self) -> list[ShardState]:
        """Return how every shard is that is open now."""
        return [state for fleet in tuple(self._fleets) for state in fleet.states()]

    def forget(self, fleet: ShardFleet) -> None:
        """Leave a version that is closed, and have its copies removed from the machines of the others."""
        self._fleets.remove(fleet)
        self._collect(fleet.names)

    def _collect(self, names: Sequence[str] = ()) -> None:
        """Remove copies that no version needs; those of these names as soon as their processes have ended."""
        if self._fleets and not self._is_over.is_set():
            thread = threading.Thread(target=self._collect_patiently, args=(set(names),), name="collect", daemon=True)
            self._collecting = [*(other for other in self._collecting if other.is_alive()), thread]
            thread.start()

    def _collect_patiently(self, names: set[str]) -> None:
        for _ in range(_COLLECTIONS):
            if self._is_over.wait(_COLLECT_S):  # in which new processes say on which machine they are
                return
            if not (fleets := tuple(self._fleets)):
                return  # copies stay for the next start
            keep = sorted({name for other in fleets for name in other.names})
            held = self._collect_once(fleets, keep)
            if held is not None and not held & names:
                if names:
                    log.info("copies are gone from all machines", extra={"copies": sorted(names)})
                return
        log.warning(
            "copies are still on machines; refaug index copies --on %s --remove removes them later",
            self.cluster.address,
            extra={"copies": sorted(names)},
        )

    def _collect_once(self, fleets: Sequence[ShardFleet], keep: Sequence[str]) -> set[str] | None:
        """Remove copies from all machines; return those that a process has open, or None where a machine failed."""
        open_copies, collected = set[str](), set[str]()
        for replicas in [replicas for fleet in fleets for replicas in fleet.all_replicas]:
            try:
                open_copies.update(*self.actors.call_each(replicas, "collect", keep))
                collected |= replicas.machines
            except RefaugError:  # such as one whose disk is full: a task frees it
                log.info("copies are not collected by a shard", extra={"actor": replicas.name}, exc_info=True)
        machines = [node for node in self.cluster.nodes() if node.id not in collected]
        try:
            for _, open_there in self.cluster.on_every_node(collect_here, nodes=machines, look=self._look, keep=keep):
                open_copies.update(open_there)
        except RefaugError:
            log.info("copies of shards are not collected on one machine", exc_info=True)
            return None
        return open_copies

    def _look(self) -> None:
        if self._is_over.is_set():
            raise Interrupted("the server ends")

    def close(self) -> None:
        """End all processes, and wait for threads that ask them: Ray connects anew for a call after its end."""
        self._is_over.set()
        for fleet in tuple(self._fleets):
            self.actors.end(fleet.all_replicas)
        for thread in self._collecting:
            thread.join(_JOIN_S)
        self.actors.close()


class ShardFleet(OpenShards):
    """The shards of one version, open on a cluster as long as the fleet is."""

    def __init__(self, hosts: ShardHosts, source: ShardSource, nodes: Sequence[ClusterNode]) -> None:
        self._hosts, self._source = hosts, source
        self._sizes = shard_server.IndexSizes(
            words=source.words, logs=len(source.manifest.logs), dimensions=source.manifest.vectors.dimensions
        )
        vectors = _vector_files(source, hosts.store)
        shared = None  # held as long as the fleet, since a process that is started again needs it again
        if source.weights is not None and vectors is not None:
            shared = hosts.cluster.share(shard_server.WordScale(source.weights.scale, source.weights.unknown))
        self._shared = shared
        if hosts.replicas > len(nodes):
            log.warning(
                "more replicas than machines: some share one, and are lost with it",
                extra={"replicas": hosts.replicas, "machines": len(nodes)},
            )
        parts = _shard_files(source, hosts.store)
        self.names = [part.name for part in parts] + ([vectors.name] if vectors is not None else [])
        self._started = [
            hosts.actors.start(
                f"shard {place} of {source.spec}",
                shard_server.ShardServer,
                {"files": part, "vectors": vectors, "sizes": self._sizes, "expected": software()},
                _nodes_of(place, nodes, hosts.replicas),
                shared=shared,
            )
            for place, part in enumerate(parts)
        ]
        try:
            facts = first_answers(hosts.cluster, self._started, "facts")
        except BaseException:
            hosts.actors.end(self._started)
            raise
        shards = [
            RemoteShard(
                name=str(place),
                replicas=replicas,
                numbers=tuple(one.number for one in part.segments),
                facts=tuple(of_shard),
            )
            for place, (part, replicas, of_shard) in enumerate(zip(parts, self._started, facts, strict=True))
        ]
        super().__init__(hosts.actors, hosts.cluster, source.spec, shards)
        hosts.actors.watch(self._started)

    @property
    def all_replicas(self) -> list[Replicas]:
        """The processes of all shards."""
        return self._started

    def states(self) -> list[ShardState]:
        """Return how each shard is."""
        return [
            ShardState(
                index=self._source.spec,
                shard=shard.name,
                replicas=len(shard.replicas.members),
                alive=shard.replicas.alive,
                machines=len(shard.replicas.machines),
                silent=tuple(one.node.address for one in shard.replicas.members if not one.is_alive),
            )
            for shard in self.shards
        ]

    def close(self) -> None:
        """End the processes, and remove what no other version needs from the machines."""
        self._hosts.actors.end(self._started)
        self._hosts.forget(self)


def _nodes_of(place: int, nodes: Sequence[ClusterNode], replicas: int) -> list[ClusterNode]:
    """Return the machines of a shard's replicas: one after the other, no machine twice before all have one."""
    return [nodes[(place + replica) % len(nodes)] for replica in range(replicas)]


def copies_of(manifest: IndexManifest) -> list[str]:
    """Return the names that copies of the shards of a version have on machines."""
    return [f"{manifest.id[:_ID_DIGITS]}-{place}" for place in range(len(manifest.main_segments))]


def _shard_files(source: ShardSource, store: StoreSettings | None) -> list[shard_server.ShardFiles]:
    """Return the files of each shard; the segments of updates lie with the main ones, in turn."""
    manifest = source.manifest
    mains = len(manifest.main_segments)
    named = named_files(read_json(source.folder / MANIFEST), source.folder / MANIFEST)
    parts = list[shard_server.ShardFiles]()
    for place in range(mains):
        segments = [
            shard_server.NumberedSegment(number=number, info=info)
            for number, info in enumerate(manifest.segments)
            if number % mains == place
        ]
        folders = tuple(f"{one.info.folder}/" for one in segments)
        masks = {SUPERSEDED.format(one.number) for one in segments}
        files = [file for file in named if _is_searched(file) and (file.name.startswith(folders) or file.name in masks)]
        parts.append(
            shard_server.ShardFiles(
                name=copies_of(manifest)[place],
                segments=tuple(segments),
                files=tuple(files),
                source=CopySource(folder=source.folder, store=store),
            )
        )
    return parts


def _is_searched(file: NamedFile) -> bool:
    """Return whether a shard reads a file: words without a vector are known to the process that embeds alone."""
    return not file.name.endswith(f"/{EXTRA_WORDS}")


def _vector_files(source: ShardSource, store: StoreSettings | None) -> shard_server.VectorFiles | None:
    if source.vectors is None:
        return None
    manifest: Mapping[str, Any] = read_json(source.vectors / MANIFEST)
    rows = next(
        (file for file in named_files(manifest, source.vectors / MANIFEST) if file.name == shard_server.VECTORS_FILE),
        None,
    )
    if rows is None:
        raise Corrupt(
            f"{source.vectors / MANIFEST} names no {shard_server.VECTORS_FILE}", remedy="import the vectors again"
        )
    return shard_server.VectorFiles(
        name=f"{VECTORS}{rows.sha256[:_ID_DIGITS]}",
        file=rows,
        source=CopySource(folder=source.vectors, store=store),
    )


# ── The copies of shards on all machines ──────────────────────────────────────────────────────────────────────────────


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
