"""Building an index version: log → table → codes → vectors → FAISS and BM25 → measured recall → manifest → published.

Each finished stage lies in the cache under a hash of its inputs, so the same command continues an interrupted build.
Readers see nothing until the finished folder is renamed into place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from refaug.core.artefacts.build_stages import MARK, Stages, hash_of_inputs
from refaug.core.artefacts.manifests import describe_files, require_files
from refaug.core.artefacts.versions import Writer
from refaug.core.clusters import ConnectedCluster
from refaug.core.errors import CheckFailed, Corrupt, SourceChanged, Usage
from refaug.core.files import make_folder
from refaug.core.installation import EXECUTORS, find
from refaug.core.progress import Progress
from refaug.core.query_engine import QueryEngine, scratch_in
from refaug.indexer.building import segment_stages
from refaug.indexer.building.material import Material, open_material
from refaug.indexer.building.order import IndexOrder, remove_scratch, scratch_of
from refaug.indexer.building.sharding import make_shards, seconds_by_stage
from refaug.indexer.index_folders import Places
from refaug.indexer.manifest import (
    COMMON_ORDER,
    FORMAT_VERSION,
    MAIN,
    MANIFEST,
    ErasedKeys,
    IndexManifest,
    LogState,
    RecallCheck,
    SegmentInfo,
    software,
)
from refaug.indexer.nearest.index_kinds import AnnKind
from refaug.indexer.pair_table import ErasedKeySets
from refaug.indexer.tokens import save_tokenizer
from refaug.logs.manifest import now
from refaug.logs.store import list_logs


@dataclass(frozen=True, kw_only=True)
class IndexBuild:
    """A finished version of an index."""

    name: str
    version: str
    manifest: IndexManifest
    published: bool
    is_new: bool = True


def build_index(
    places: Places,
    order: IndexOrder,
    progress: Progress,
    *,
    again: bool = False,
    of_existing: bool = False,
    cluster: ConnectedCluster | None = None,
) -> IndexBuild:
    """Build a version from the logs as they are now, and publish it if it reaches the requested recall.

    If the published version was built from exactly these inputs, it is returned as it is, unless `again` is set. A log
    that is gone or has no pairs is refused, unless the order is that of an existing version. On a cluster the shards
    are built side by side, into the same files.
    """
    with (
        places.indexes.writing(order.name, f"building index {order.name}") as writer,
        open_material(places, order, of_existing=of_existing) as material,
    ):
        before = newest_manifest(places, order.name, progress)
        erased = before.erased if before is not None else ErasedKeys()
        inputs = {**material.fingerprint(), **order.settings(), **asdict(erased), "format": FORMAT_VERSION}
        inputs |= {"software": software()}
        if order.limits.factory is not None:
            _require_kind(order, material.source.dimensions)  # refused before any work starts
        if not again and (published := _published_build(places, order.name, hash_of_inputs(inputs))) is not None:
            return published
        stages = Stages.of(places.cache, f"index-{order.name}", inputs)
        work = _work(order, material, stages, erased, progress)
        remove_scratch(places.cache, order.name, but=scratch_of(places.cache, stages) if cluster is not None else None)
        if cluster is None:
            infos, check = _main_segments(places, order, work)
            described: Mapping[str, Mapping[str, Any]] = {}
        else:
            infos, check, described = find(EXECUTORS, "index-build")(cluster, places, order, work)
        plan = stages.facts("plan")
        manifest = IndexManifest(
            name=order.name,
            created=now(),
            logs=material.states(),
            vectors=material.source,
            sentence=order.sentence,
            tokenizer=material.tokenizer.name,
            tokenizer_version=material.tokenizer.version,
            bm25=None if order.bm25 is None else asdict(order.bm25),
            seed=order.seed,
            check_queries=order.check_queries,
            segments=infos,
            check=check,
            plan={name: value for name, value in plan.items() if name != "seconds"},
            limits=asdict(order.limits),
            seconds=seconds_by_stage(stages.seconds),
            software=software(),
            files={},
            erased=erased,
            inputs=hash_of_inputs(inputs),
            erasures=erasures_after(places, before, material.states()),
            shards=order.shards,
            sampling=COMMON_ORDER if order.shards > 1 else 1,
        )
        require_unchanged(places, material, stages)
        return finish_build(writer, stages, manifest, material, publish=order.publish, described=described)


def _published_build(places: Places, name: str, inputs: str) -> IndexBuild | None:
    """Return the published version if it was built from exactly these inputs and has no added segments."""
    if places.indexes.current(name) is None:
        return None
    try:
        _, version = places.indexes.resolve(name)
        folder = places.indexes.folder(name, version)
        manifest = IndexManifest.read(folder)
        require_files(folder, {"files": manifest.files})
    except Corrupt:  # then build it again
        return None
    if manifest.inputs != inputs:
        return None
    return IndexBuild(name=name, version=version, manifest=manifest, published=True, is_new=False)


def _require_kind(order: IndexOrder, dimensions: int) -> None:
    """Refuse a kind of index that is not supported, or that cannot be cut into shards."""
    assert order.limits.factory is not None
    if AnnKind.of(order.limits.factory, dimensions).kind == "hnsw" and order.shards > 1:
        raise Usage(
            f"{order.limits.factory} is a graph, which cannot be cut into {order.shards} shards that answer as one",
            remedy="use another --factory, or one shard",
        )


def _work(
    order: IndexOrder, material: Material, stages: Stages, erased: ErasedKeys, progress: Progress
) -> segment_stages.SegmentWork:
    return segment_stages.SegmentWork(
        stages=stages,
        folder=MAIN,
        material=material,
        vocabulary=material.vocabulary(),
        limits=order.limits,
        erased=key_sets_of(erased),
        bm25=order.bm25,
        least_coverage=order.least_coverage,
        check_queries=order.check_queries,
        seed=order.seed,
        progress=progress,
    )


def _main_segments(
    places: Places, order: IndexOrder, work: segment_stages.SegmentWork
) -> tuple[tuple[SegmentInfo, ...], RecallCheck | None]:
    """Build the only segment of a new index, or its shards, and measure its recall."""

    def write(part: segment_stages.SegmentWork) -> Mapping[str, Any]:
        with QueryEngine(scratch_in(places.cache), memory=order.memory, threads=order.threads) as engine:
            return segment_stages.write_table(engine, part)

    if order.shards > 1:
        infos = make_shards(work, order.shards, write)
    else:
        make_folder(work.path)
        infos = [segment_stages.make_segment(work, write)]
    efforts, check = segment_stages.measure_recall(work.stages, infos, len(infos), work)
    return tuple(replace(info, effort=effort) for info, effort in zip(infos, efforts, strict=True)), check


def require_unchanged(places: Places, material: Material, stages: Stages) -> None:
    """Refuse to publish, and delete the build, if a log has lost pairs meanwhile."""
    try:
        material.require_unchanged(places)
    except SourceChanged:
        stages.drop()
        raise


def erasures_after(places: Places, before: IndexManifest | None, logs: Sequence[LogState]) -> int:
    """Return the version's count of deletions: one more if a log has lost pairs, or is gone, since the version before.

    Versions with a smaller count must not be published again.
    """
    if before is None:
        return 0
    states, existing = {log.name: log for log in logs}, list_logs(places.logs)
    return before.erasures + any(
        bool(log.parts) if log.name not in existing else log.name in states and _has_lost(log, states[log.name])
        for log in before.logs
    )


def _has_lost(before: LogState, after: LogState) -> bool:
    """Return whether a log has lost pairs, or was deleted whole and made again."""
    return after.removed > before.removed or not set(before.parts.values()) <= set(after.parts.values())


def finish_build(
    writer: Writer,
    stages: Stages,
    manifest: IndexManifest,
    material: Material,
    *,
    publish: bool,
    ignore_failed_check: bool = False,
    described: Mapping[str, Mapping[str, Any]] | None = None,
) -> IndexBuild:
    """Write the manifest, move the folder into place and publish it; a version that failed its check stays unpublished.

    With `ignore_failed_check` it is published all the same, since deleted pairs must go. `described` are files that
    another version's manifest already describes.
    """
    save_tokenizer(material.tokenizer, stages.folder)
    names = files_in(stages.folder)
    files = describe_files(stages.folder, [name for name in names if name not in (described or {})])
    files |= {name: dict(facts) for name, facts in (described or {}).items() if name in names}
    described_manifest = replace(manifest, files=dict(sorted(files.items())))
    described_manifest.write(stages.folder)
    stages.finish()
    version = writer.add(stages.folder)
    built = IndexBuild(name=manifest.name, version=version, manifest=described_manifest, published=False)
    check = described_manifest.check
    if check is not None and not check.passed and not ignore_failed_check:
        writer.refuse(version, refusal_of(check))
        raise CheckFailed(
            f"index {built.name}@{version} was built but not published: it finds {100 * check.recall:.1f} % of what "
            f"exact search finds, {100 * check.target:.1f} % were required, and searching all of it does not help",
            remedy="build with another --factory or --recall, or "
            f"refaug artefacts publish index {built.name}@{version} --even-refused",
        )
    if not publish:
        return built
    writer.publish(version)
    return replace(built, published=True)


def refusal_of(check: RecallCheck) -> str:
    """Return in words why a version whose recall is too low was refused."""
    return f"recall is {check.recall:.3f}, at least {check.target:.3f} is required"


def files_in(folder: Path) -> list[str]:
    """Return all files of a version but its manifest."""
    paths = (path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file())
    return [str(path) for path in paths if str(path) not in (MANIFEST, MARK)]


def newest_manifest(places: Places, name: str, progress: Progress) -> IndexManifest | None:
    """Return the newest manifest that can be read; it lists everything that was deleted."""
    for version in reversed(places.indexes.versions(name)):
        try:
            return IndexManifest.read(places.indexes.folder(name, version))
        except Corrupt as error:
            progress.warn(f"{error.message}; what was deleted from that version alone is not known to this build")
    return None


def key_sets_of(keys: ErasedKeys) -> ErasedKeySets:
    """Return the keys that a table leaves out, as sets."""
    return ErasedKeySets(
        pairs=frozenset(keys.pairs), dialogues=frozenset(keys.dialogues), speakers=frozenset(keys.speakers)
    )
