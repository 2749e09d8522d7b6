"""Jobs on indexes: building, updating, compacting, and removing old versions of any kind of artefact."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from refaug.core.artefacts.versions import Versions
from refaug.core.errors import CheckFailed, Corrupt
from refaug.indexer.building.build import IndexBuild, build_index, refusal_of
from refaug.indexer.building.compaction import compact_index
from refaug.indexer.building.material import open_log
from refaug.indexer.building.update import publish_new, publish_version, require_recall, update_index
from refaug.indexer.index_folders import Places
from refaug.indexer.manifest import IndexManifest
from refaug.indexer.search.exact_check import check_index
from refaug.indexer.search.index import ReferenceIndex
from refaug.indexer.search.search_settings import SearchSettings
from refaug.operations.indexes import BuildIndex, CompactIndex, EncodeIndex, RemoveVersions, UpdateIndex
from refaug.scoring.home.indexes import places_of
from refaug.scoring.home.kept_states import keep_vectors
from refaug.scoring.home.stored_artefacts import stored_artefacts
from refaug.scoring.reference_sets.set_store import pinned_versions
from refaug.service.jobs.clusters import connected
from refaug.service.jobs.kinds.job_context import JobContext, NotPublished
from refaug.service.jobs.kinds.sources import require_source, resolve_tokenizer


def build_job(order: BuildIndex, context: JobContext) -> Mapping[str, Any]:
    """Build an index from the logs, and publish it if its recall suffices."""
    places = places_of(context.home)
    name = order.index_name
    index_order = order.order(
        threads=context.threads(order.threads) if order.on is None else order.threads or 1,
        encoder=_find_encoder(order.encoder, context),
        tokenizer=resolve_tokenizer(order.tokenizer, context.home, context.serve),
    )
    version = find_earlier_version(places.indexes, name, context)
    if version is not None:
        return built_facts(_publish_if_passed(places, name, version, publish=order.publish))
    with connected(order.on, context.serve) as cluster:
        return built_facts(build_index(places, index_order, context.progress, again=order.again, cluster=cluster))


def _find_encoder(encoder: str | None, context: JobContext) -> Path | str | None:
    """Return the folder among those that jobs may read, or the name of an encoder of the home."""
    return require_source(encoder, context.home, context.serve) if encoder and "/" in encoder else encoder


def compact_job(order: CompactIndex, context: JobContext) -> Mapping[str, Any]:
    """Build the index again with its settings."""
    places = places_of(context.home)
    version = find_earlier_version(places.indexes, order.index, context)
    built = _publish_if_passed(places, order.index, version, publish=order.publish) if version is not None else None
    return built_facts(
        built
        or compact_index(
            places,
            order.index,
            context.progress,
            whole=order.whole,
            threads=context.threads(order.threads),
            memory=order.memory,
            publish=order.publish,
        )
    )


def find_earlier_version(versions: Versions, name: str, context: JobContext) -> str | None:
    """Return the version that an earlier run of this job has built, if there is one.

    The existing versions are recorded when a job begins. A version is built in one step and published in the next, and
    a kill between the two must not repeat the work.
    """
    begun = context.stages.run("begun", lambda: {"versions": versions.versions(name)})
    new = [version for version in versions.versions(name) if version not in begun["versions"]]
    return new[-1] if new else None


def _publish_if_passed(places: Places, name: str, version: str, *, publish: bool) -> IndexBuild:
    """Publish an existing version, if the order says so and its check has passed."""
    manifest = IndexManifest.read(places.indexes.folder(name, version))
    is_published = places.indexes.current(name) == version
    check = manifest.check
    if check is not None and not check.passed and not is_published:
        places.indexes.refuse(name, version, refusal_of(check))
        raise CheckFailed(
            f"index {name}@{version} was built but not published: it finds {100 * check.recall:.1f} % of what exact "
            f"search finds, {100 * check.target:.1f} % were required"
        )
    if publish and not is_published:
        publish_version(places, name, version)
    return IndexBuild(name=name, version=version, manifest=manifest, published=publish or is_published)


def update_job(order: UpdateIndex, context: JobContext) -> Mapping[str, Any]:
    """Update an index to its logs, measure its recall if the order sets a limit, and publish it."""
    places = places_of(context.home)
    facts = context.stages.run(
        "update", lambda: update_version(order.index, order, context, publish=order.least_recall is None)
    )
    if facts["version"] is None:
        return {"index": order.index, "version": None, "changed": 0, "gone": 0, "published": False}
    if order.least_recall is None:
        return {**facts, "published": _publish(places, facts, publish=order.publish)}
    recall = context.stages.run("recall", lambda: measure_recall(order.index, facts["version"], order, context))
    facts_with_recall = {**facts, "recall": recall}
    try:
        require_recall(
            places,
            order.index,
            facts["version"],
            recall["recall"],
            order.least_recall,
            context.progress,
            must_go=facts["must_go"],
        )
    except CheckFailed as error:
        raise NotPublished(
            error.message, remedy=error.remedy, facts={**facts_with_recall, "published": False}
        ) from error
    return {**facts_with_recall, "published": _publish(places, facts, publish=order.publish)}


def _publish(places: Places, facts: Mapping[str, Any], *, publish: bool) -> bool:
    """Publish the version if the order says so, and return whether it does."""
    if publish:
        publish_new(places, facts["index"], facts["version"], before=facts["before"], must_go=facts["must_go"])
    return publish


def update_version(name: str, order: Any, context: JobContext, *, publish: bool) -> dict[str, Any]:
    """Update an index; publish it only if told to. The version is None if the index is up to date.

    `changed` and `gone` are None if an earlier run built the version, or `before` was not published.
    """
    places = places_of(context.home)
    before = places.indexes.resolve(name)[1]
    base = IndexManifest.read(places.indexes.folder(name, before))
    publish = publish and getattr(order, "publish", False)
    waiting = _find_unpublished_update(places, name, before, base)
    if waiting is not None:
        built, changed, gone = waiting, None, None
    else:
        update = update_index(
            places,
            name,
            context.progress,
            threads=context.threads(order.threads),
            memory=order.memory,
            publish=publish,
        )
        if update.built is None:
            return {"index": name, "before": before, "version": None, "changed": 0, "gone": 0, "must_go": False}
        built, changed, gone = update.built, update.changed, update.gone
    return {
        **built_facts(built),
        "before": before,
        "changed": changed,
        "gone": gone,
        "must_go": built.manifest.erasures > base.erasures,
    }


def _find_unpublished_update(places: Places, name: str, before: str, base: IndexManifest) -> IndexBuild | None:
    """Return an update of the published version to the current logs that was built and never published."""
    for version in reversed(places.indexes.versions(name)):
        if version == before:
            return None
        try:
            manifest = IndexManifest.read(places.indexes.folder(name, version))
        except Corrupt:
            continue
        if _is_update_of(manifest, base) and _covers_current_logs(manifest, places):
            check = manifest.check
            if check is not None and not check.passed:
                return None  # the update reports the failed check again
            return IndexBuild(name=name, version=version, manifest=manifest, published=False, is_new=False)
    return None


def _is_update_of(manifest: IndexManifest, base: IndexManifest) -> bool:
    """Return whether the manifest differs from the base only as an update does: at most by one more segment."""
    own = {**asdict(manifest), **dict.fromkeys(_CHANGED)}
    expected = {**asdict(base), **dict.fromkeys(_CHANGED)}
    shared = {file: facts for file, facts in base.files.items() if file.startswith(f"{base.segments[0].folder}/")}
    return (
        own == expected
        and manifest.inputs == ""
        and all(manifest.files.get(file) == facts for file, facts in shared.items())
        and len(manifest.segments) <= len(base.segments) + 1
    )


_CHANGED: Final = ("created", "logs", "segments", "check", "seconds", "inputs", "erasures", "files", "sampling")


def _covers_current_logs(manifest: IndexManifest, places: Places) -> bool:
    """Return whether its logs have not changed since."""
    for log in manifest.logs:
        now = open_log(places, log.name).manifest
        parts = {part.file: part.sha256 for part in now.parts}
        if parts != dict(log.parts) or now.removed.get("pairs", 0) != log.removed:
            return False
    return True


def measure_recall(name: str, version: str, order: Any, context: JobContext) -> dict[str, Any]:
    """Return the recall of a version beside an exhaustive search."""
    settings = SearchSettings(mode=order.mode)
    with open_version(context, name, version, context.threads(order.threads)) as index:
        measured = check_index(index, settings, queries=order.check_queries, seed=order.seed, progress=context.progress)
    return {"mode": order.mode, **asdict(measured)}


@contextmanager
def open_version(context: JobContext, name: str, version: str, threads: int) -> Iterator[ReferenceIndex]:
    """Open an index version until the block ends."""
    with ReferenceIndex.open(places_of(context.home), f"{name}@{version}", threads=threads) as index:
        yield index


def built_facts(built: IndexBuild) -> dict[str, Any]:
    """Return the facts of a version for a result."""
    manifest, check = built.manifest, built.manifest.check
    return {
        "index": built.name,
        "version": built.version,
        "id": manifest.id[:12],
        "published": built.published,
        "new": built.is_new,
        "logs": [log.name for log in manifest.logs],
        "pairs": manifest.pairs,
        "utterances": manifest.utterances,
        "segments": len(manifest.segments),
        "recall_at_15": None if check is None else check.recall,
        "recall_target": None if check is None else check.target,
        "bytes": sum(facts["size"] for facts in manifest.files.values()),
    }


def encode_job(order: EncodeIndex, context: JobContext) -> Mapping[str, Any]:
    """Encode the texts of an index, and keep their vectors."""
    threads, progress = context.threads(order.threads), context.progress
    return asdict(keep_vectors(context.home, order.index, order.encoder, order.rater, progress, threads=threads))


# ── Old versions ──────────────────────────────────────────────────────────────────────────────────────────────────────


def gc_job(order: RemoveVersions, context: JobContext) -> Mapping[str, Any]:
    """Remove old versions of an artefact; word vectors that an index needs stay, and what frozen sets name."""
    pins = {} if order.even_pinned else pinned_versions(context.home, order.artefact, order.name)
    old = stored_artefacts(context.home, order.artefact).gc(order.name, order.keep, pins)
    return {"artefact": order.artefact, "name": order.name, **old.as_json()}
