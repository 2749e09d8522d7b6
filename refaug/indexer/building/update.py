"""Updating an index: changes of its logs become a further segment, and outdated rows are masked.

An utterance lives in one segment only. When anything about it changes (a new response, a deleted one, another surface
form), its rows in older segments are superseded, and the new segment has all of it. So an updated flat index answers
like one built anew. Unchanged files are hard links to the same file on disk.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from refaug.core.artefacts.build_stages import Stages
from refaug.core.artefacts.kinds import encodings_in
from refaug.core.artefacts.manifests import require_files
from refaug.core.artefacts.version_locks import HeldVersion
from refaug.core.errors import CheckFailed, Conflict, Corrupt, NotFound
from refaug.core.files import make_folder, read_json, sync_folder
from refaug.core.options.decoding import made_of
from refaug.core.progress import Progress
from refaug.core.query_engine import QueryEngine, scratch_in
from refaug.indexer.bm25.scores import Bm25Settings
from refaug.indexer.building import build
from refaug.indexer.building.material import Material, reopen_material, warn_of_gone_logs
from refaug.indexer.building.order import IndexOrder
from refaug.indexer.building.plan import Limits
from refaug.indexer.building.segment_files import JoinedBlocks
from refaug.indexer.building.segment_stages import CHECK_QUERIES, SegmentWork, make_segment, measure_recall, write_table
from refaug.indexer.columns import NpyWriter, TextColumn, map_array
from refaug.indexer.index_folders import Places
from refaug.indexer.manifest import COMMON_ORDER, MANIFEST, ErasedKeys, IndexManifest, SegmentInfo, software
from refaug.indexer.pair_table import ChangedKeys, Keys, changed_keys, erased_key
from refaug.indexer.search.segments import PAIRS, SUPERSEDED, UTTERANCES, word_hashes
from refaug.indexer.tokens import FOLDER as TOKENIZER_FOLDER
from refaug.logs.manifest import now
from refaug.logs.store import StoredLog

Mask = NDArray[np.bool_]

_MANY: Final = 0.25  # of the utterances superseded or in later segments: compacting pays


@dataclass(frozen=True, kw_only=True)
class IndexUpdate:
    """The outcome of an update; without a version, nothing had changed."""

    built: build.IndexBuild | None
    changed: int  # utterances that are new or have changed
    gone: int
    utterances: int  # that can be found now
    worth_compacting: bool


def update_index(
    places: Places,
    name: str,
    progress: Progress,
    *,
    erase: ErasedKeys | None = None,
    threads: int = 1,
    memory: int = 2 << 30,
    publish: bool = True,
) -> IndexUpdate:
    """Update the published version to its logs as they are now, and leave out what is to be erased."""
    with (
        places.indexes.writing(name, f"updating index {name}") as writer,
        places.indexes.open(name) as base,
    ):
        before = IndexManifest.read(base.folder)
        require_files(base.folder, {"files": before.files})  # most of them become part of the new version
        warn_of_gone_logs(places, before, progress)
        erased = _merge_erased(before.erased, erase)
        with reopen_material(places, before, base.folder, threads) as material:
            with QueryEngine(scratch_in(places.cache), memory=memory, threads=threads) as engine:
                progress.stage("comparing with the logs")
                changes = changed_keys(engine, material.logs, build.key_sets_of(erased), live_keys(before, base.folder))
                if not len(changes.changed) and not len(changes.gone) and erased == before.erased:
                    return _unchanged_index(before)
                stages = _open_stages(places, base, material, erased)
                infos = _write_masks(stages.folder, base, before, changes)
                work = _segment_work(stages, base, before, material, erased, changes, progress)
                if len(changes.changed):
                    infos.append(make_segment(work, partial(write_table, engine)))
            efforts, check = measure_recall(stages, infos, len(before.main_segments), work)
            manifest = replace(
                before,
                created=now(),
                logs=material.states(),
                segments=tuple(replace(info, effort=effort) for info, effort in zip(infos, efforts, strict=True)),
                check=check,
                seconds=stages.seconds,
                software=software(),
                erased=erased,
                inputs="",  # it was not built in one go
                sampling=COMMON_ORDER,
                erasures=build.erasures_after(places, before, material.states()) + (erased != before.erased),
            )
            must_go = manifest.erasures > before.erasures
            if must_go and check is not None and not check.passed:
                progress.warn(f"recall@15 is {check.recall:.3f}; published all the same, since something was deleted")
            build.require_unchanged(places, material, stages)
            if must_go:
                _forget_texts(places, base, before, changes)
            linked = {file: facts for file, facts in before.files.items() if _is_linked(file)}
            built = build.finish_build(
                writer, stages, manifest, material, publish=publish, ignore_failed_check=must_go, described=linked
            )
    return IndexUpdate(
        built=built,
        changed=len(changes.changed),
        gone=len(changes.gone),
        utterances=built.manifest.utterances,
        worth_compacting=_share_outside(built.manifest) > _MANY,
    )


def _forget_texts(places: Places, base: HeldVersion, before: IndexManifest, changes: ChangedKeys) -> None:
    """Delete the kept vectors of all texts that are masked; texts that a log still has are encoded again."""
    touched, encodings = np.concatenate([changes.changed, changes.gone]), encodings_in(places.cache)
    for info in before.segments:
        folder = base.folder / info.folder
        rows = np.flatnonzero(np.isin(map_array(folder / "utterance_key.npy", np.uint64), touched))
        starts = map_array(folder / "pair_start.npy", np.int64)
        pairs = np.concatenate([np.arange(starts[row], starts[row + 1]) for row in rows] or [rows])
        texts = [*TextColumn.open(folder / UTTERANCES).take(rows), *TextColumn.open(folder / PAIRS).take(pairs)]
        encodings.forget(text for text in texts if text is not None)


def erased_keys(pairs: Iterable[str] = (), dialogues: Iterable[str] = (), speakers: Iterable[str] = ()) -> ErasedKeys:
    """Return the hashes that an index stores of pairs, dialogues and speakers to leave out for good."""
    return ErasedKeys(
        pairs=tuple(sorted(erased_key("pair", pair) for pair in set(pairs))),
        dialogues=tuple(sorted(erased_key("dialogue", dialogue) for dialogue in set(dialogues))),
        speakers=tuple(sorted(erased_key("speaker", speaker) for speaker in set(speakers))),
    )


def order_of(manifest: IndexManifest, folder: Path, *, threads: int, memory: int, publish: bool) -> IndexOrder:
    """Return the order that a version was built by."""
    model_file = next(iter(sorted((folder / TOKENIZER_FOLDER).glob("*.model"))), None)
    words = manifest.vectors.kind == "words"
    return made_of(
        IndexOrder,
        manifest,
        logs=tuple(log.name for log in manifest.logs),
        vectors=manifest.vectors.name if words else None,
        encoder=None if words else manifest.vectors.encoder,
        tokenizer=f"sentencepiece:{model_file}" if model_file is not None else manifest.tokenizer,
        bm25=None if manifest.bm25 is None else Bm25Settings(**manifest.bm25),
        limits=Limits(**manifest.limits),
        least_coverage=0.0,  # it was good enough before
        threads=threads,
        memory=memory,
        publish=publish,
    )


def _merge_erased(earlier: ErasedKeys, further: ErasedKeys | None) -> ErasedKeys:
    if further is None:
        return earlier
    return ErasedKeys(
        **{kind: tuple(sorted({*keys, *getattr(further, kind)})) for kind, keys in asdict(earlier).items()}
    )


def _unchanged_index(manifest: IndexManifest) -> IndexUpdate:
    return IndexUpdate(
        built=None,
        changed=0,
        gone=0,
        utterances=manifest.utterances,
        worth_compacting=_share_outside(manifest) > _MANY,
    )


def _share_outside(manifest: IndexManifest) -> float:
    """Return how much of the index lies in later segments or is masked; both slow down every search."""
    mains = manifest.main_segments
    outdated = sum(segment.superseded for segment in mains)
    later = sum(segment.utterances for segment in manifest.segments[len(mains) :])
    return (outdated + later) / max(1, sum(segment.utterances for segment in mains))


def live_keys(manifest: IndexManifest, folder: Path) -> list[tuple[Keys, Keys]]:
    """Return keys and fingerprints of the utterances that can be found, segment by segment."""
    live = list[tuple[Keys, Keys]]()
    for number, info in enumerate(manifest.segments):
        keys = map_array(folder / info.folder / "utterance_key.npy", np.uint64)
        prints = map_array(folder / info.folder / "fingerprint.npy", np.uint64)
        mask = folder / SUPERSEDED.format(number)
        if mask.exists():
            is_live = ~map_array(mask, np.bool_)
            keys, prints = keys[is_live], prints[is_live]
        live.append((keys, prints))
    return live


def _open_stages(places: Places, base: HeldVersion, material: Material, erased: ErasedKeys) -> Stages:
    """Open the stages of this update, with everything of the base that does not change linked into their folder."""
    inputs = {**material.fingerprint(), **asdict(erased), "base": base.version, "software": software()}
    stages = Stages.of(places.cache, f"update-{base.name}", inputs)
    for path in sorted(base.folder.rglob("*")):
        name = str(path.relative_to(base.folder))
        target = stages.folder / name
        if path.is_file() and _is_linked(name) and not target.exists():
            make_folder(target.parent)
            link_file(path, target)
    return stages


def _is_linked(name: str) -> bool:
    """Return whether a file is the same in the next version."""
    return name != MANIFEST and not name.startswith(SUPERSEDED.split("{", maxsplit=1)[0])


def link_file(path: Path, target: Path) -> None:
    """Link a file under another name; copy it where the file system has no links."""
    try:
        os.link(path, target)
    except OSError:
        aside = target.with_name(f".{target.name}.aside")
        shutil.copyfile(path, aside)
        aside.replace(target)
    sync_folder(target.parent)


def _write_masks(folder: Path, base: HeldVersion, before: IndexManifest, changes: ChangedKeys) -> list[SegmentInfo]:
    """Mask the changed and deleted utterances in every existing segment."""
    touched, infos = np.concatenate([changes.changed, changes.gone]), list[SegmentInfo]()
    for number, info in enumerate(before.segments):
        keys = map_array(base.folder / info.folder / "utterance_key.npy", np.uint64)
        mask: Mask = np.isin(keys, touched)
        old = base.folder / SUPERSEDED.format(number)
        if old.exists():
            mask |= map_array(old, np.bool_)
        superseded = int(np.count_nonzero(mask))
        if superseded:
            with NpyWriter(folder / SUPERSEDED.format(number), np.bool_) as writer:
                writer.append(mask)
        starts = map_array(base.folder / info.folder / "pair_start.npy", np.int64)
        pairs = int(np.diff(starts)[mask].sum())
        infos.append(replace(info, superseded=superseded, superseded_pairs=pairs))
    return infos


def _segment_work(
    stages: Stages,
    base: HeldVersion,
    before: IndexManifest,
    material: Material,
    erased: ErasedKeys,
    changes: ChangedKeys,
    progress: Progress,
) -> SegmentWork:
    """Return the work on the further segment: only changed utterances, with words numbered after the existing ones."""
    vocabulary = material.vocabulary()
    for hashes in word_hashes(base.folder, before):
        vocabulary.extend(hashes)
    folder = f"segments/{len(before.segments)}"
    make_folder(stages.folder / folder)
    queries = base.folder / CHECK_QUERIES
    mains = before.main_segments
    main = JoinedBlocks(
        [material.blocks(base.folder / info.folder) for info in mains], [info.utterances for info in mains]
    )
    return SegmentWork(
        stages=stages,
        folder=folder,
        material=material,
        vocabulary=vocabulary,
        limits=replace(Limits(**before.limits), factory=None),
        erased=build.key_sets_of(erased),
        bm25=None,  # the main segment's word statistics serve for this one too
        least_coverage=0.0,
        check_queries=0,
        seed=before.seed,
        progress=progress,
        keys=changes.changed,
        queries=main.rows(map_array(queries, np.int64))[0] if queries.exists() else None,
    )


# Publishing another version


def publish_version(
    places: Places, name: str, version: str, *, even_refused: bool = False, before: str | None = None
) -> None:
    """Publish a version, unless it is damaged, holds pairs that have been deleted since, or was refused.

    Of an update, `before` is the version that it was made from: Overtaken if another one serves since.
    """

    def require_whole(name: str, version: str) -> None:
        require_nothing_erased(places, name, version)
        IndexManifest.read(places.indexes.folder(name, version))  # raises Corrupt if it is damaged
        if before is not None:
            _require_not_overtaken(places, name, version, before)

    places.indexes.publish(name, version, require_whole, even_refused=even_refused)


class Overtaken(Conflict):
    """An update that is not published, since another version was while it was checked."""


def _require_not_overtaken(places: Places, name: str, version: str, before: str) -> None:
    serving = places.indexes.current(name)
    if serving in (None, before, version):
        return
    try:
        require_nothing_erased(places, name, serving)
    except (Conflict, NotFound):
        return  # what was deleted must not go on being served
    raise Overtaken(
        f"index {name}@{version} was built but not published: it updates {before}, and {serving} was published since",
        remedy=f"update again, or publish it all the same: refaug artefacts publish index {name}@{version}",
    )


def rollback(places: Places, name: str, to: str | None = None, *, even_refused: bool = False) -> str:
    """Publish the version `to`, or the newest older version that was published before."""
    return places.indexes.rollback(
        name,
        to,
        partial(require_nothing_erased, places),
        choose=lambda: version_before(places, name),
        even_refused=even_refused,
    )


def version_before(places: Places, name: str) -> str:
    """Return the newest older version that was published before and passed its check."""
    versions, current = places.indexes.versions(name), places.indexes.resolve(name)[1]
    published = places.indexes.publications(name).published
    older = [version for version in versions[: versions.index(current)] if version in published]
    older = [version for version in older if _has_passed(places, name, version)]
    if not older:
        raise Conflict(
            f"there is no version of index {name} before {current} that was published and passed its check",
            remedy=f"name another one with --to: {', '.join(versions)}",
        )
    return older[-1]


def _has_lost_parts(places: Places, version: Path) -> bool:
    """Return whether an existing log has lost parts that a version was built from.

    An imported index may have no logs.
    """
    try:
        manifest = IndexManifest.read(version)
    except Corrupt:
        return False
    for log in manifest.logs:
        try:
            current_parts = {part.sha256 for part in StoredLog.open_unchecked(places.logs, log.name).manifest.parts}
        except NotFound:
            continue
        if not set(log.parts.values()) <= current_parts:
            return True
    return False


def _erasures(version: Path) -> int:
    """Return a version's count of deletions; 0 for a damaged version."""
    try:
        erasures = read_json(version / MANIFEST).get("erasures", 0)
    except Corrupt:
        return 0
    return erasures if isinstance(erasures, int) else 0


def _has_passed(places: Places, name: str, version: str) -> bool:
    try:
        check = IndexManifest.read(places.indexes.folder(name, version)).check
    except Corrupt:
        return False
    return check is None or check.passed


def require_nothing_erased(places: Places, name: str, version: str) -> None:
    """Refuse a version that still shows what was deleted from a later one."""
    places.indexes.resolve(f"{name}@{version}")
    erasures = {other: _erasures(places.indexes.folder(name, other)) for other in places.indexes.versions(name)}
    if erasures[version] < max(erasures.values()) or _has_lost_parts(places, places.indexes.folder(name, version)):
        raise Conflict(
            f"index {name}@{version} holds pairs that have been deleted since",
            remedy=f"build it anew from the logs: refaug index compact {name}",
        )


# ── Publishing a version that is compared with a search through all of it first ───────────────────────────────────────


def require_recall(
    places: Places, name: str, version: str, recall: float, least: float, progress: Progress, *, must_go: bool
) -> None:
    """Mark a version with less recall as refused, and raise CheckFailed; one that masks deleted text only warns."""
    if recall >= least:
        return
    if must_go:
        progress.warn(f"recall@15 is {recall:.3f}; published all the same, since something was deleted")
        return
    places.indexes.refuse(name, version, f"recall is {recall:.3f}, at least {least:.3f} is required")
    raise CheckFailed(
        f"index {name}@{version} was built but not published: "
        f"recall@15 is {recall:.3f}, at least {least:.3f} is required",
        remedy="build the index anew, or publish it all the same: "
        f"refaug artefacts publish index {name}@{version} --even-refused",
    )


def publish_new(places: Places, name: str, version: str, *, before: str, must_go: bool) -> None:
    """Let an update of `before` serve that does not yet; one that masks deleted text also after a failed check."""
    if places.indexes.current(name) != version:
        publish_version(places, name, version, even_refused=must_go, before=before)
