"""Weighted references for many items from a cluster: the items in, the same with references out, in the same order.

Shards of the index are open in processes of the cluster, each on one of its machines; tasks embed, ask them, and rate.
This process reads items, hands blocks of them out, and reads finished blocks in the order of the items: it holds no
more of them than the cluster has at work. What is finished lies in the cache, and the same command goes on from it.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from refaug.core.artefacts.build_stages import hash_of_inputs
from refaug.core.artefacts.store.locations import StoreSettings
from refaug.core.cluster.alike import require_alike, versions_of
from refaug.core.cluster.connection import Cluster
from refaug.core.errors import Locked, RefaugError
from refaug.core.files import exclusive, make_folder, remove_asides, remove_tree
from refaug.core.home import Settings
from refaug.core.progress import Progress
from refaug.core.records import Item
from refaug.evaluation.home.indexes import places_of
from refaug.evaluation.home.raters import open_rater
from refaug.evaluation.metric_setup.on_cluster import tasks
from refaug.evaluation.metric_setup.on_cluster.blocks import BlockFolder, block_key
from refaug.evaluation.metric_setup.on_cluster.tasks import PACKAGES, TIMEOUT_S, ReferenceWork
from refaug.evaluation.scoring import augmentation
from refaug.evaluation.scoring.augment_settings import AugmentSettings
from refaug.evaluation.scoring.items import BadItem
from refaug.evaluation.scoring.provenance import Provenance, references_provenance
from refaug.indexer.index_folders import finished_references
from refaug.indexer.manifest import IndexManifest
from refaug.indexer.search.index import ReferenceIndex
from refaug.indexer.search.on_cluster.fleet import ShardHosts
from refaug.rater.language_coverage import Coverage
from refaug.rater.rating import Rater

_PREFIX: Final = "references-"
_LEFT_S: Final = 14 * 86_400  # after which what a stopped command has finished is removed by another one
_AT_ONCE: Final = 2  # blocks for each core


@contextmanager
def cluster_references(
    connection: AbstractContextManager[Cluster],
    home: Settings,
    index: str,
    rater: str | None,
    settings: AugmentSettings,
    threads: int | None,
    progress: Progress,
) -> Iterator[ClusterReferences]:
    """Open an index and a rater on a cluster; what is finished is removed when the block ends without an error.

    The connection, and all that is open on the cluster, ends with the block, or when the references are released.
    """
    home = Settings(home=home.home.resolve(), quiet=home.quiet)
    store = StoreSettings.from_env_or_none()
    weigher = None if rater is None else open_rater(home, rater)
    augmentation.require_rater(weigher, settings)
    with ExitStack() as on_cluster:
        cluster = on_cluster.enter_context(connection)
        cluster.require_room(threads or 1)
        places = places_of(home)
        make_folder(places.cache)
        _remove_old(places.cache)
        require_alike(cluster, places.cache, PACKAGES, progress)
        name, version = places.indexes.resolve(index)
        shards = len(IndexManifest.read(places.indexes.folder(name, version)).main_segments)
        replicas = max(1, len(cluster.nodes()) // shards)
        hosts = on_cluster.enter_context(
            closing(ShardHosts(cluster, replicas=replicas, timeout_s=TIMEOUT_S, store=store))
        )
        opened = on_cluster.enter_context(ReferenceIndex.open_on(places, f"{name}@{version}", hosts))
        augmentation.require_preset_index(opened, settings)
        provenance = references_provenance(opened, weigher, settings)
        folder = finished_references(places.cache, name, _inputs_hash(opened, weigher, settings))
        with exclusive(folder, f"references from {index}"):
            remove_asides(folder)
            work = ReferenceWork(
                home=home,
                index=f"{name}@{version}",
                rater=None if weigher is None else weigher.spec.partition("#")[0],
                settings=settings,
                threads=threads or 1,
                folder=BlockFolder(path=folder),
                shards=opened.fleet.shared() if opened.fleet is not None else (),
            )
            with closing(ClusterReferences(cluster, work, weigher, provenance, on_cluster)) as references:
                yield references
            remove_tree(folder)


def _inputs_hash(index: ReferenceIndex, rater: Rater | None, settings: AugmentSettings) -> str:
    """Return a hash of what the references of an item depend on, besides the item."""
    inputs: Mapping[str, Any] = {
        "index": index.spec,
        "rater": None if rater is None else rater.spec,
        "settings": asdict(settings),
        "software": versions_of(PACKAGES),
        "block": augmentation.BLOCK_SIZE,
    }
    return hash_of_inputs(inputs)


def _remove_old(cache: Path) -> None:
    """Remove what commands that were stopped long ago had finished."""
    for folder in cache.glob(f"{_PREFIX}*"):
        try:
            if time.time() - folder.stat().st_mtime < _LEFT_S:
                continue
            with exclusive(folder, "removing what is old"):
                remove_tree(folder)
        except (FileNotFoundError, Locked):
            continue


@dataclass(eq=False)
class _Blocks:
    """The blocks of a file of items, and which of them are finished."""

    keys: list[str] = field(default_factory=list)
    submitted: list[int] = field(default_factory=list)  # numbers of the blocks that became tasks
    finished: set[int] = field(default_factory=set)
    following: int = 0  # the next block in the order of the items
    error: RefaugError | None = None  # of a file that cannot be read on


class ClusterReferences:
    """An index and a rater, open on a cluster: weighted references for items."""

    def __init__(
        self,
        cluster: Cluster,
        work: ReferenceWork,
        rater: Rater | None,
        provenance: Provenance,
        on_cluster: ExitStack,
    ) -> None:
        self._cluster, self._work, self._rater, self.provenance = cluster, work, rater, provenance
        self._on_cluster = on_cluster  # the connection and what is open through it
        self._tasks: Generator[tuple[int, Any]] | None = None  # on the cluster now

    def close(self) -> None:
        """Stop the tasks that still run: an error has ended what read their results."""
        if self._tasks is not None:
            self._tasks.close()
            self._tasks = None

    def release(self) -> None:
        """Leave the cluster to others: no further references are found, and what is finished stays."""
        self.close()
        self._on_cluster.close()

    def augment(self, items: Iterable[Item | BadItem], progress: Progress) -> Iterator[Item | BadItem]:
        """Yield every item with further references, in the order given; to the last bit those of one process."""
        progress.stage(f"references on {len(self._cluster.nodes())} machines", None, "items")
        blocks, coverage = _Blocks(), Coverage()
        self.close()
        self._tasks = self._cluster.run(
            tasks.augment_block,
            self._calls(items, blocks, progress),
            threads=self._work.threads,
            look=lambda: progress.advance(0),
            at_once=_AT_ONCE,
        )
        for place, facts in self._tasks:
            progress.advance(facts.items)
            blocks.finished.add(blocks.submitted[place])
            yield from self._ready(blocks)
        yield from self._ready(blocks)
        if blocks.error is not None:
            raise blocks.error
        for key in blocks.keys:
            facts = self._work.folder.facts(key)
            coverage += Coverage() if facts is None else facts.coverage
        if self._rater is not None and (warning := self._rater.unfamiliar(coverage)) is not None:
            progress.warn(warning)

    def _calls(
        self, items: Iterable[Item | BadItem], blocks: _Blocks, progress: Progress
    ) -> Iterator[Mapping[str, Any]]:
        """Yield the arguments of a task for each block that is not finished."""
        for block in _cut(items, blocks):
            key, number = block_key(block), len(blocks.keys)
            blocks.keys.append(key)
            if (facts := self._work.folder.facts(key)) is not None:
                blocks.finished.add(number)
                progress.advance(facts.items)
                continue
            blocks.submitted.append(number)
            yield {"work": self._work, "key": key, "items": block}

    def _ready(self, blocks: _Blocks) -> Iterator[Item | BadItem]:
        """Yield the items of finished blocks, up to the first unfinished block."""
        while blocks.following in blocks.finished:
            yield from self._work.folder.read(blocks.keys[blocks.following])
            blocks.finished.remove(blocks.following)
            blocks.following += 1


def _cut(items: Iterable[Item | BadItem], blocks: _Blocks) -> Iterator[list[Item | BadItem]]:
    """Yield blocks of items; where the file cannot be read on, those before, as one process has them, and the error."""
    block = list[Item | BadItem]()
    try:
        for test_item in items:
            block.append(test_item)
            if len(block) == augmentation.BLOCK_SIZE:
                yield block
                block = []
    except RefaugError as error:
        blocks.error = error
        block = block[: len(block) // augmentation.BATCH_SIZE * augmentation.BATCH_SIZE]
    if block:
        yield block
