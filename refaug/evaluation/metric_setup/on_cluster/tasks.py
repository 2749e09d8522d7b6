"""What tasks of a cluster do for references: find and rate those of a block of items, and write the block."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from refaug.core.cluster.connection import joined_cluster
from refaug.core.errors import Unavailable
from refaug.core.home import Settings
from refaug.core.records import Item
from refaug.evaluation.home.indexes import places_of
from refaug.evaluation.home.raters import open_rater
from refaug.evaluation.metric_setup.on_cluster.blocks import BlockFacts, BlockFolder
from refaug.evaluation.scoring.augment_settings import AugmentSettings
from refaug.evaluation.scoring.augmentation import augmented_batches
from refaug.evaluation.scoring.items import BadItem
from refaug.indexer.installed_software import PACKAGES as INDEX_PACKAGES
from refaug.indexer.search.candidates.searched_segments import ShardsMissing
from refaug.indexer.search.index import ReferenceIndex
from refaug.indexer.search.on_cluster.fleet import SharedShard, SharedShards
from refaug.rater.language_coverage import Coverage
from refaug.rater.rating import Rater

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
    for batch, of_batch in augmented_batches(items, opened.index, opened.rater, work.settings):
        augmented += batch
        coverage += of_batch
    return augmented, coverage
