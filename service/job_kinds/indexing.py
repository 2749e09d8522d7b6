"""Jobs on indexes: building, updating, compacting, and removing old versions of any kind of artefact."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, Final

from core.errors import CheckFailed, Corrupt
from core.files import read_json
from core.log_store import StoredLog
from core.versions import Versions
from indexer.bm25 import Bm25Settings
from indexer.build import Built, build_index
from indexer.check import check_index
from indexer.index import ReferenceIndex
from indexer.manifest import IndexManifest
from indexer.order import IndexOrder
from indexer.places import Places
from indexer.plan import Limits
from indexer.queries import SearchSettings
from indexer.sentence_vectors import SentenceSettings
from indexer.update import compact_index, publish_version, update_index
from service.artefacts import stored
from service.job_kinds.orders import GcJob, IndexBuildJob, IndexCompactJob, IndexUpdateJob
from service.job_kinds.sources import require_source, tokenizer_within
from service.job_kinds.work import NotPublished, Work
from service.retrieval import cores, places_of, vectors_in_use


def build_job(order: IndexBuildJob, work: Work) -> Mapping[str, Any]:
    """Build from the logs as they are now, and publish if it finds what was asked for."""
    places = places_of(work.home)
    name = order.index or order.logs[0]
    asked = IndexOrder(
        name=name,
        logs=tuple(order.logs),
        vectors=order.vectors or (order.logs[0] if order.encoder is None else None),
        encoder=None if order.encoder is None else require_source(order.encoder, work.home, work.serve),
        tokenizer=tokenizer_within(order.tokenizer, work.home, work.serve),
        sentence=SentenceSettings(norm_words=order.norm_words, oov=order.oov, weighting=order.weighting),
        bm25=Bm25Settings() if order.bm25 else None,
        limits=Limits(
            memory=None if order.fit_mib is None else order.fit_mib << 20,
            recall=order.recall,
            latency_ms=order.latency_ms,
            factory=order.factory,
        ),
        check_queries=order.check_queries,
        least_coverage=order.least_coverage,
        seed=order.seed,
        threads=order.threads or cores(),
        memory=order.memory,
        publish=order.publish,
    )
    found = made_since_begun(places.indexes, name, work)
    built = _finished(places, name, found, publish=order.publish) if found is not None else None
    return built_facts(built or build_index(places, asked, work.progress))


def compact_job(order: IndexCompactJob, work: Work) -> Mapping[str, Any]:
    """Build anew with its own settings."""
    places = places_of(work.home)
    found = made_since_begun(places.indexes, order.index, work)
    built = _finished(places, order.index, found, publish=order.publish) if found is not None else None
    return built_facts(
        built
        or compact_index(
            places,
            order.index,
            work.progress,
            threads=order.threads or cores(),
            memory=order.memory,
            publish=order.publish,
        )
    )


def made_since_begun(versions: Versions, name: str, work: Work) -> str | None:
    """The version that an earlier run of this job has made, if it came so far.

    Those that there are when a job begins are written down then: a version is added by one step and published or told
    of by the next, and a kill between the two must not lead to the same work again.
    """
    begun = work.stages.run("begun", lambda: {"versions": versions.versions(name)})
    new = [version for version in versions.versions(name) if version not in begun["versions"]]
    return new[-1] if new else None


def _finished(places: Places, name: str, version: str, *, publish: bool) -> Built:
    """A version that is there, published if it is to be and may be."""
    manifest = IndexManifest.read(places.indexes.folder(name, version))
    is_published = places.indexes.current(name) == version
    check = manifest.check
    if check is not None and not check.passed and not is_published:
        raise CheckFailed(
            f"index {name}@{version} was built but not published: it finds {100 * check.recall:.1f} % of what exact "
            f"search finds, {100 * check.target:.1f} % were asked for"
        )
    if publish and not is_published:
        publish_version(places, name, version)
    return Built(name=name, version=version, manifest=manifest, published=publish or is_published)


def update_job(order: IndexUpdateJob, work: Work) -> Mapping[str, Any]:
    """Bring an index up to its logs, look at what it finds where that is asked for, and publish it."""
    places = places_of(work.home)
    facts = work.stages.run("update", lambda: updated(order.index, order, work, publish=order.least_recall is None))
    if facts["version"] is None:
        return {"index": order.index, "version": None, "changed": 0, "gone": 0, "published": False}
    if order.least_recall is None:
        return {**facts, "published": _published(places, facts, publish=order.publish)}
    recall = work.stages.run("recall", lambda: recall_of(order.index, facts["version"], order, work))
    found = {**facts, "recall": recall}
    if recall["recall"] < order.least_recall and not facts["must_go"]:
        raise NotPublished(
            f"index {order.index}@{facts['version']} was built but not published: recall@15 is "
            f"{recall['recall']:.3f}, {order.least_recall:.3f} were asked for",
            remedy=f"build the index anew, or publish {order.index}@{facts['version']} all the same",
            result={**found, "published": False},
        )
    if recall["recall"] < order.least_recall:
        work.progress.warn(f"recall@15 is {recall['recall']:.3f}; published all the same, since something was deleted")
    return {**found, "published": _published(places, facts, publish=order.publish)}


def _published(places: Places, facts: Mapping[str, Any], *, publish: bool) -> bool:
    """Whether the version serves now, published if it is to be and is not yet."""
    name, version = facts["index"], facts["version"]
    if publish and places.indexes.current(name) != version:
        publish_version(places, name, version)
    return publish


def updated(name: str, order: Any, work: Work, *, publish: bool) -> dict[str, Any]:
    """Update, without publishing unless told; the version, or None where the index is as its logs are.

    `changed` and `gone` are null where an earlier run has made the version, or `before` did not serve it.
    """
    places = places_of(work.home)
    before = places.indexes.resolve(name)[1]
    base = IndexManifest.read(places.indexes.folder(name, before))
    publish = publish and getattr(order, "publish", False)
    waiting = _waiting(places, name, before, base)
    if waiting is not None:
        built, changed, gone = waiting, None, None
    else:
        found = update_index(
            places,
            name,
            work.progress,
            threads=order.threads or cores(),
            memory=order.memory,
            publish=publish,
        )
        if found.built is None:
            return {"index": name, "before": before, "version": None, "changed": 0, "gone": 0, "must_go": False}
        built, changed, gone = found.built, found.changed, found.gone
    return {
        **built_facts(built),
        "before": before,
        "changed": changed,
        "gone": gone,
        "must_go": built.manifest.erasures > base.erasures,
    }


def _waiting(places: Places, name: str, before: str, base: IndexManifest) -> Built | None:
    """An update of the published version to the logs as they are, which was made and never published."""
    for version in reversed(places.indexes.versions(name)):
        if version == before:
            return None
        try:
            manifest = IndexManifest.read(places.indexes.folder(name, version))
        except Corrupt:
            continue
        if _is_update_of(manifest, base) and _is_of_logs_now(manifest, places):
            check = manifest.check
            if check is not None and not check.passed:
                return None  # the update says so again, in its own words
            return Built(name=name, version=version, manifest=manifest, published=False, is_new=False)
    return None


def _is_update_of(manifest: IndexManifest, base: IndexManifest) -> bool:
    """Whether all but what an update changes is as in the base, and it has the base's segments and at most one more."""
    kept = {**asdict(manifest), **dict.fromkeys(_CHANGED)}
    same = {**asdict(base), **dict.fromkeys(_CHANGED)}
    shared = {file: facts for file, facts in base.files.items() if file.startswith(f"{base.segments[0].folder}/")}
    return (
        kept == same
        and manifest.inputs == ""
        and all(manifest.files.get(file) == facts for file, facts in shared.items())
        and len(manifest.segments) <= len(base.segments) + 1
    )


_CHANGED: Final = ("created", "logs", "segments", "check", "seconds", "inputs", "erasures", "files")


def _is_of_logs_now(manifest: IndexManifest, places: Places) -> bool:
    """Whether nothing was added to its logs, or deleted from them, since."""
    for log in manifest.logs:
        now = StoredLog.open(places.logs, log.name).manifest
        parts = {part.file: part.sha256 for part in now.parts}
        if parts != dict(log.parts) or now.removed.get("pairs", 0) != log.removed:
            return False
    return True


def recall_of(name: str, version: str, order: Any, work: Work) -> dict[str, Any]:
    """What a version finds, beside a search through all of it."""
    settings = SearchSettings(mode=order.mode)
    with opened_version(work, name, version, order.threads) as index:
        measured = check_index(index, settings, queries=order.check_queries, seed=order.seed, progress=work.progress)
    return {"mode": order.mode, **asdict(measured)}


@contextmanager
def opened_version(work: Work, name: str, version: str, threads: int | None) -> Iterator[ReferenceIndex]:
    """An index version, held until the block ends."""
    with ReferenceIndex.open(places_of(work.home), f"{name}@{version}", threads=threads or cores()) as index:
        yield index


def built_facts(built: Built) -> dict[str, Any]:
    """What is worth telling of a version."""
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


# ── old versions ──────────────────────────────────────────────────────────────────────────────────────────────────


def gc_job(order: GcJob, work: Work) -> Mapping[str, Any]:
    """Remove old versions of an artefact; word vectors that an index needs stay."""
    versions = stored(work.home)[order.artefact]
    if order.artefact == "vectors":
        needed = vectors_in_use(places_of(work.home))

        def is_needed(name: str, version: str) -> bool:
            return read_json(versions.folder(name, version) / "manifest.json").get("sha256") in needed

        removed = versions.gc(order.name, order.keep, is_needed)
    else:
        removed = versions.gc(order.name, order.keep)
    return {"artefact": order.artefact, "name": order.name, "removed": removed}


WORK: Final = {"index-build": build_job, "index-update": update_job, "index-compact": compact_job, "gc": gc_job}
