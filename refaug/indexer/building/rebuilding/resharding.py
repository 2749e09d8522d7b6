"""Cutting a version into another number of shards, from its own files: no log is read.

The new version has the files that a build with so many shards would have, of what the old one finds: masked rows and
the segments of updates are gone. It continues as a build does, so it is trained, measured and published alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from refaug.core.artefacts.build_stages import Stages, hash_of_inputs
from refaug.core.artefacts.manifests import require_files
from refaug.core.errors import Conflict, Usage
from refaug.core.progress import Progress
from refaug.indexer.bm25.index import Bm25Settings
from refaug.indexer.building.build import IndexBuild, finish_build, make_main_segments, require_kind
from refaug.indexer.building.material import Material, reopen_tables
from refaug.indexer.building.order import IndexOrder
from refaug.indexer.building.plan import Limits
from refaug.indexer.building.rebuilding.merged_table import StoredTables
from refaug.indexer.building.segment_stages import SegmentWork
from refaug.indexer.building.sharding import seconds_by_stage
from refaug.indexer.building.update import order_of, require_nothing_erased
from refaug.indexer.index_folders import Places
from refaug.indexer.installed_software import software
from refaug.indexer.manifest import COMMON_ORDER, FORMAT_VERSION, MAIN, IndexManifest
from refaug.indexer.pair_table import ErasedKeySets
from refaug.indexer.pair_table_sql import KeyRange
from refaug.logs.manifest import now


def reshard_index(
    places: Places, name: str, shards: int, progress: Progress, *, threads: int = 1, publish: bool = True
) -> IndexBuild:
    """Build a version of so many shards with all that the published one finds, and publish it."""
    with (
        places.indexes.writing(name, f"resharding index {name}") as writer,
        places.indexes.open(name) as base,
    ):
        before = IndexManifest.read(base.folder)
        order = _order(before, base.folder, shards, threads=threads, publish=publish)
        require_files(base.folder, {"files": before.files})
        require_nothing_erased(places, name, base.version)
        with reopen_tables(places, before, base.folder, threads) as material:
            stages = Stages.of(
                places.cache,
                f"reshard-{name}",
                {"base": base.version, "id": before.id, "shards": shards, "software": software()},
            )
            tables = StoredTables(base.folder, before)

            def write(part: SegmentWork) -> Mapping[str, Any]:
                key_range = part.key_range or KeyRange.of_shard(0, 1)
                return asdict(tables.write(part.path, key_range, progress))

            work = _work(before, stages, material, progress)
            infos, check = make_main_segments(work, shards, write)
            plan = stages.facts("plan")
            manifest = replace(
                before,
                created=now(),
                segments=infos,
                check=check,
                plan={fact: number for fact, number in plan.items() if fact != "seconds"},
                seconds=seconds_by_stage(stages.seconds),
                software=software(),
                inputs=_inputs(before, order),
                shards=shards,
                trained_utterances=0,
                sampling=COMMON_ORDER if shards > 1 else 1,
            )
            require_nothing_erased(places, name, base.version)  # something may have been deleted meanwhile
            return finish_build(writer, stages, manifest, material, publish=publish)


def _order(manifest: IndexManifest, folder: Path, shards: int, *, threads: int, publish: bool) -> IndexOrder:
    """Return the order of a build with so many shards; refuse what cannot be cut, and what has them already."""
    order = replace(order_of(manifest, folder, threads=threads, memory=2 << 30, publish=publish), shards=shards)
    if not manifest.utterances:
        raise Conflict(
            f"index {manifest.name} has no utterances that can be found, so there is nothing to divide",
            remedy=f"refaug index update {manifest.name}, when its logs have pairs again",
        )
    if manifest.shards == shards and len(manifest.segments) == len(manifest.main_segments):
        raise Usage(
            f"index {manifest.name} has {shards} shard{'' if shards == 1 else 's'} already",
            remedy="--shards with another number",
        )
    if order.limits.factory is not None:
        require_kind(order, manifest.vectors.dimensions)
    return order


def _work(before: IndexManifest, stages: Stages, material: Material, progress: Progress) -> SegmentWork:
    return SegmentWork(
        stages=stages,
        folder=MAIN,
        material=material,
        vocabulary=material.vocabulary(),
        limits=Limits(**before.limits),
        erased=ErasedKeySets(),  # what was erased is masked in the segments
        bm25=None if before.bm25 is None else Bm25Settings(**before.bm25),
        least_coverage=0.0,  # it was good enough before
        check_queries=before.check_queries,
        seed=before.seed,
        progress=progress,
    )


def _inputs(before: IndexManifest, order: IndexOrder) -> str:
    """Return the inputs that a build with these shards would have, if the version before was built in one go.

    Then the same command finds this version, and builds nothing.
    """

    def inputs(shards: int) -> str:
        fingerprint = {
            "logs": {log.name: list(log.parts.values()) for log in before.logs},
            "tokenizer": [before.tokenizer, before.tokenizer_version],
            "vectors": before.vectors.sha256,
        }
        settings = replace(order, shards=shards).settings()
        erased = asdict(before.erased)
        return hash_of_inputs({**fingerprint, **settings, **erased, "format": FORMAT_VERSION, "software": software()})

    return inputs(order.shards) if before.inputs == inputs(before.shards) else ""
