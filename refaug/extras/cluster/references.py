"""Weighted references for many items from a cluster: the items in, the same with references out, in the same order.

Shards of the index are open in processes of the cluster, each on one of its machines; tasks embed, ask them, and rate.
This process reads items, hands blocks of them out, and reads finished blocks in the order of the items: it holds no
more of them than the cluster has at work. What is finished lies in the cache, and the same command goes on from it.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import orjson

from refaug.core.artefacts.build_stages import hash_of_inputs
from refaug.core.artefacts.store.locations import StoreSettings
from refaug.core.errors import Corrupt, Locked, RefaugError, Unavailable
from refaug.core.files import exclusive, make_folder, remove_asides, remove_tree, write_aside
from refaug.core.home import Settings
from refaug.core.progress import Progress
from refaug.core.records import Item
from refaug.extras.cluster.connection import Cluster, joined_cluster
from refaug.extras.cluster.node_requirements import require_alike, versions_of
from refaug.extras.cluster.search.fleet import OpenShards, ShardHosts, SharedShard, SharedShards
from refaug.indexer.index_folders import finished_references
from refaug.indexer.manifest import PACKAGES as INDEX_PACKAGES
from refaug.indexer.manifest import IndexManifest
from refaug.indexer.search.index import ReferenceIndex
from refaug.indexer.search.searched_segments import ShardsMissing
from refaug.rater.language_coverage import Coverage
from refaug.rater.rating import Rater
from refaug.scoring import augmentation
from refaug.scoring.augmentation import augmented_batches
from refaug.scoring.home.indexes import places_of
from refaug.scoring.home.networks import open_rater
from refaug.scoring.items import BadItem, item_json, item_of
from refaug.scoring.provenance import Provenance, references_provenance
from refaug.scoring.settings import AugmentSettings

# ── Blocks of items with their references on disk: one file each, under the hash of the items ─────────────────────────
#
#     <cache>/references-<index>-<inputs>/<hash>.jsonl    first counts and a hash of the rest, then the items
#
# A file appears when it is whole, so each block that is there is finished.


@dataclass(frozen=True, kw_only=True)
class BlockFacts:
    """What is counted of a block."""

    items: int
    coverage: Coverage


def block_key(items: Sequence[Item | BadItem]) -> str:
    """Return a hash of items, as their block is called."""
    digest = hashlib.sha256()
    for test_item in items:
        digest.update(orjson.dumps(_line_of(test_item), option=orjson.OPT_APPEND_NEWLINE))
    return digest.hexdigest()[:32]


@dataclass(frozen=True, kw_only=True)
class BlockFolder:
    """The finished blocks of one command."""

    path: Path

    def facts(self, key: str) -> BlockFacts | None:
        """Return what is counted of a block; None where it is not finished."""
        try:
            with self._file(key).open("rb") as file:
                head = _object(file.readline(), self._file(key))
        except FileNotFoundError:
            return None
        return _facts_of(head, self._file(key))

    def write(self, key: str, augmented: Sequence[Item | BadItem], coverage: Coverage) -> BlockFacts:
        """Write a finished block, whole or not at all."""
        content = b"".join(orjson.dumps(_line_of(one), option=orjson.OPT_APPEND_NEWLINE) for one in augmented)
        head = {"items": len(augmented), "coverage": coverage.as_json(), "sha256": hashlib.sha256(content).hexdigest()}
        with write_aside(self._file(key)) as file:
            file.write(orjson.dumps(head, option=orjson.OPT_APPEND_NEWLINE))
            file.write(content)
        return BlockFacts(items=len(augmented), coverage=coverage)

    def read(self, key: str) -> Iterator[Item | BadItem]:
        """Yield the items of a finished block; Corrupt where its file was altered."""
        path = self._file(key)
        with path.open("rb") as file:
            head, content = _object(file.readline(), path), file.read()
        if hashlib.sha256(content).hexdigest() != head.get("sha256"):
            raise _damaged(path)
        for line in content.splitlines():
            yield _item_of(orjson.loads(line))

    def _file(self, key: str) -> Path:
        return self.path / f"{key}.jsonl"


def _object(line: bytes, path: Path) -> Mapping[str, Any]:
    try:
        content = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise _damaged(path) from error
    if not isinstance(content, dict):
        raise _damaged(path)
    return content


def _facts_of(head: Mapping[str, Any], path: Path) -> BlockFacts:
    try:
        return BlockFacts(items=int(head["items"]), coverage=Coverage.read(head["coverage"]))
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(path) from error


def _damaged(path: Path) -> Corrupt:
    return Corrupt(f"{path} is damaged", remedy="remove the file: the same command finds its references again")


# Items as JSON, whole


def _line_of(test_item: Item | BadItem) -> dict[str, object]:
    if isinstance(test_item, BadItem):
        return {"bad": asdict(test_item)}
    return {"item": item_json(test_item), "scale": test_item.scale, "notes": dict(test_item.search_notes)}


def _item_of(line: Mapping[str, Any]) -> Item | BadItem:
    if "bad" in line:
        return BadItem(**line["bad"])
    values = {**line["item"], **({} if line["scale"] is None else {"scale": line["scale"]})}
    return replace(item_of(values, fallback_id=""), search_notes=line["notes"])


# ── What tasks of a cluster do for references: find and rate those of a block of items, and write the block ───────────

PACKAGES: Final = (*INDEX_PACKAGES, "torch", "sentencepiece")  # that can change references or ratings
TIMEOUT_S: Final = 120.0  # for one answer of a shard to a batch of items
_PATIENCE_S: Final = 180.0  # for shards whose machine has died: Ray starts them again
_AGAIN_S: Final = 0.5


@dataclass(frozen=True, kw_only=True)
class ReferenceWork:
    """What every task for the references of one command needs to know."""

    home: Settings
    index: str  # name@version
    rater: str | None  # the same
    settings: AugmentSettings
    threads: int
    folder: BlockFolder
    shards: tuple[SharedShard, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Opened:
    """The index and the rater of one command, open in this process."""

    folder: Path
    index: ReferenceIndex
    rater: Rater | None
    stack: ExitStack


class _WorkerState:
    """What a process of the cluster has open from task to task: that of the command it last worked for."""

    def __init__(self) -> None:
        self._opened: _Opened | None = None

    def opened(self, work: ReferenceWork) -> _Opened:
        """Return index and rater; those of another command are closed."""
        if self._opened is not None and self._opened.folder != work.folder.path:
            self._opened.stack.close()
            self._opened = None
        if self._opened is None:
            self._opened = _open(work)
        return self._opened


_state = _WorkerState()


def _open(work: ReferenceWork) -> _Opened:
    with ExitStack() as stack:
        rater = None if work.rater is None else open_rater(work.home, work.rater, threads=work.threads)
        shards = SharedShards(joined_cluster(), work.shards, timeout_s=TIMEOUT_S)
        stack.callback(shards.close)
        index = ReferenceIndex.open_on(places_of(work.home), work.index, shards, threads=work.threads)
        stack.callback(index.close)
        return _Opened(folder=work.folder.path, index=index, rater=rater, stack=stack.pop_all())


def augment_block(work: ReferenceWork, key: str, items: Sequence[Item | BadItem]) -> BlockFacts:
    """Find and rate the references of a block of items, and write it; a finished block is left as it is."""
    if (finished := work.folder.facts(key)) is not None:
        return finished
    opened, deadline = _state.opened(work), time.monotonic() + _PATIENCE_S
    while True:
        try:
            augmented, coverage = _augmented(opened, work, items)
        except ShardsMissing as missing:
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"shards of {work.index} have not answered for {_PATIENCE_S:.0f} s: {missing.message}",
                    remedy="ray status on the head says which machines there are; the same command goes on from "
                    "finished blocks",
                ) from missing
            time.sleep(_AGAIN_S)
        else:
            return work.folder.write(key, augmented, coverage)


def _augmented(
    opened: _Opened, work: ReferenceWork, items: Sequence[Item | BadItem]
) -> tuple[list[Item | BadItem], Coverage]:
    augmented, coverage = list[Item | BadItem](), Coverage()
    for batch, coverages in augmented_batches(items, opened.index, opened.rater, work.settings):
        augmented += batch
        coverage = sum(coverages, coverage)
    return augmented, coverage


# ── Weighted references for many items from a cluster: the items in, the same with references out, in the same order ──

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
    settings.require_rater(weigher)
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
        assert isinstance(opened.fleet, OpenShards)
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
                shards=opened.fleet.shared(),
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
            augment_block,
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
