"""Updating an index: what has changed in its logs becomes a further segment, what is no more is masked.

An utterance lives in one segment only. When anything about it changes (a new response, one deleted, another surface
form), its rows in older segments are superseded, and the new segment has all that there is of it now. So an updated
flat index answers as one built anew. What did not change is linked, not copied: it is the same file on the disk.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from core.artefacts import require_files
from core.engine import Engine, scratch_in
from core.errors import Conflict, Corrupt, NotFound
from core.files import make_folder, read_json, sync_folder
from core.holding import Held
from core.log_store import StoredLog, now
from core.progress import Progress
from core.stages import Stages
from indexer.arrays import NpyWriter, map_array
from indexer.bm25 import Bm25Settings
from indexer.build import (
    Built,
    build_index,
    erased_of,
    erasures_after,
    finish,
    require_unchanged,
    software,
)
from indexer.manifest import MANIFEST, ErasedKeys, IndexManifest, SegmentInfo
from indexer.material import Material, of_version
from indexer.order import IndexOrder
from indexer.places import Places
from indexer.plan import Limits
from indexer.segment_work import CHECK_QUERIES, SegmentWork, make_segment, measure_recall
from indexer.segments import EXTRA_WORDS, SUPERSEDED
from indexer.table import ChangedKeys, changed_keys, erased_key
from indexer.table_sql import Keys
from indexer.tokenizers import FOLDER as TOKENIZER_FOLDER

Mask = NDArray[np.bool_]

_MANY: Final = 0.25  # of the utterances superseded or in later segments: compacting pays


@dataclass(frozen=True, kw_only=True)
class Updated:
    """What an update did; without a version, there was nothing to do."""

    built: Built | None
    changed: int  # utterances that are new or not as they were
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
) -> Updated:
    """Bring the published version up to its logs as they are now, and leave out what is to be erased."""
    with (
        places.indexes.writing(name, f"updating index {name}") as writer,
        places.indexes.open(name) as base,
    ):
        before = IndexManifest.read(base.folder)
        require_files(base.folder, {"files": before.files})  # most of them become part of the new version
        erased = _union(before.erased, erase)
        with of_version(places, before, base.folder, threads) as material:
            with Engine(scratch_in(places.cache), memory=memory, threads=threads) as engine:
                progress.stage("comparing with the logs")
                changes = changed_keys(engine, material.logs, erased_of(erased), _alive(before, base.folder))
                if not len(changes.changed) and not len(changes.gone) and erased == before.erased:
                    return _nothing_to_do(before)
                stages = _stages(places, base, material, erased)
                infos = _with_masks(stages.folder, base, before, changes)
                work = _work(stages, base, before, material, erased, changes, progress)
                if len(changes.changed):
                    infos.append(make_segment(work, engine))
            efforts, check = measure_recall(stages, infos, work)
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
                erasures=erasures_after(before, material.states()) + (erased != before.erased),
            )
            must_go = manifest.erasures > before.erasures
            if must_go and check is not None and not check.passed:
                progress.warn(f"recall@15 is {check.recall:.3f}; published all the same, since something was deleted")
            require_unchanged(places, material, stages)
            linked = {file: facts for file, facts in before.files.items() if _is_linked(file)}
            built = finish(writer, stages, manifest, material, publish=publish, come_what_may=must_go, known=linked)
    return Updated(
        built=built,
        changed=len(changes.changed),
        gone=len(changes.gone),
        utterances=built.manifest.utterances,
        worth_compacting=_share_outside(built.manifest) > _MANY,
    )


def erased_keys(pairs: Iterable[str] = (), dialogues: Iterable[str] = (), speakers: Iterable[str] = ()) -> ErasedKeys:
    """What is remembered of things that are to be left out for good: hashes."""
    return ErasedKeys(
        pairs=tuple(sorted(erased_key("pair", one) for one in set(pairs))),
        dialogues=tuple(sorted(erased_key("dialogue", one) for one in set(dialogues))),
        speakers=tuple(sorted(erased_key("speaker", one) for one in set(speakers))),
    )


def compact_index(
    places: Places, name: str, progress: Progress, *, threads: int = 1, memory: int = 2 << 30, publish: bool = True
) -> Built:
    """Build the published version anew with its own settings: one segment, and nothing in it of what was erased."""
    with places.indexes.open(name) as held:
        manifest = IndexManifest.read(held.folder)
        order = order_of(manifest, held.folder, threads=threads, memory=memory, publish=publish)
        return build_index(places, order, progress)


def order_of(manifest: IndexManifest, folder: Path, *, threads: int, memory: int, publish: bool) -> IndexOrder:
    """The order that a version was built by."""
    kept = next(iter(sorted((folder / TOKENIZER_FOLDER).glob("*.model"))), None)
    words = manifest.vectors.kind == "words"
    return IndexOrder(
        name=manifest.name,
        logs=tuple(log.name for log in manifest.logs),
        vectors=manifest.vectors.name if words else None,
        encoder=None if words else Path(manifest.vectors.path),
        tokenizer=f"sentencepiece:{kept}" if kept is not None else manifest.tokenizer,
        sentence=manifest.sentence,
        bm25=None if manifest.bm25 is None else Bm25Settings(**manifest.bm25),
        limits=Limits(**manifest.limits),
        check_queries=manifest.check_queries,
        least_coverage=0.0,  # it was good enough before
        seed=manifest.seed,
        threads=threads,
        memory=memory,
        publish=publish,
    )


def _union(known: ErasedKeys, further: ErasedKeys | None) -> ErasedKeys:
    if further is None:
        return known
    return ErasedKeys(**{kind: tuple(sorted({*keys, *getattr(further, kind)})) for kind, keys in asdict(known).items()})


def _nothing_to_do(manifest: IndexManifest) -> Updated:
    return Updated(
        built=None,
        changed=0,
        gone=0,
        utterances=manifest.utterances,
        worth_compacting=_share_outside(manifest) > _MANY,
    )


def _share_outside(manifest: IndexManifest) -> float:
    """How much of the index lies in later segments or is masked: both cost time in every search."""
    main, *later = manifest.segments
    return (main.superseded + sum(one.utterances for one in later)) / max(1, main.utterances)


def _alive(manifest: IndexManifest, folder: Path) -> list[tuple[Keys, Keys]]:
    """Keys and fingerprints of the utterances that can be found, segment by segment."""
    found = list[tuple[Keys, Keys]]()
    for number, info in enumerate(manifest.segments):
        keys = map_array(folder / info.folder / "utterance_key.npy", np.uint64)
        prints = map_array(folder / info.folder / "fingerprint.npy", np.uint64)
        mask = folder / SUPERSEDED.format(number)
        if mask.exists():
            alive = ~map_array(mask, np.bool_)
            keys, prints = keys[alive], prints[alive]
        found.append((keys, prints))
    return found


def _stages(places: Places, base: Held, material: Material, erased: ErasedKeys) -> Stages:
    """The folder of this update: everything of the base that does not change is linked into it."""
    inputs = {**material.fingerprint(), **asdict(erased), "base": base.version, "software": software()}
    stages = Stages.of(places.cache, f"update-{base.name}", inputs)
    for path in sorted(base.folder.rglob("*")):
        name = str(path.relative_to(base.folder))
        target = stages.folder / name
        if path.is_file() and _is_linked(name) and not target.exists():
            make_folder(target.parent)
            _link(path, target)
    return stages


def _is_linked(name: str) -> bool:
    """Whether a file is the same in the next version."""
    return name != MANIFEST and not name.startswith(SUPERSEDED.split("{", maxsplit=1)[0])


def _link(path: Path, target: Path) -> None:
    """The same file under another name; a copy where the disk knows no links."""
    try:
        os.link(path, target)
    except OSError:
        aside = target.with_name(f".{target.name}.aside")
        shutil.copyfile(path, aside)
        aside.replace(target)
    sync_folder(target.parent)


def _with_masks(folder: Path, base: Held, before: IndexManifest, changes: ChangedKeys) -> list[SegmentInfo]:
    """Mask what has changed or gone in every segment there is."""
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


def _work(
    stages: Stages,
    base: Held,
    before: IndexManifest,
    material: Material,
    erased: ErasedKeys,
    changes: ChangedKeys,
    progress: Progress,
) -> SegmentWork:
    """The further segment: only of what has changed, its words numbered after those there are."""
    vocabulary = material.vocabulary()
    for info in before.segments:
        vocabulary.extend(map_array(base.folder / info.folder / EXTRA_WORDS, np.uint64))
    folder = f"segments/{len(before.segments)}"
    make_folder(stages.folder / folder)
    queries = base.folder / CHECK_QUERIES
    main = material.blocks(base.folder / before.segments[0].folder)
    return SegmentWork(
        stages=stages,
        folder=folder,
        material=material,
        vocabulary=vocabulary,
        limits=replace(Limits(**before.limits), factory=None),
        erased=erased_of(erased),
        bm25=None,  # what the main segment knows of words serves for this one too
        least_coverage=0.0,
        check_queries=0,
        seed=before.seed,
        progress=progress,
        keys=changes.changed,
        queries=main.rows(map_array(queries, np.int64))[0] if queries.exists() else None,
    )


# Publishing another version


def publish_version(places: Places, name: str, version: str) -> None:
    """Make a version the one that serves, unless it holds what was deleted since."""
    with places.indexes.writing(name, f"publishing index {name}@{version}") as writer:
        require_nothing_erased(places, name, version)
        IndexManifest.read(places.indexes.folder(name, version))  # Corrupt, if it is
        writer.publish(version)


def rollback(places: Places, name: str, to: str | None = None) -> str:
    """Publish the version before the current one, or the one named."""
    with places.indexes.writing(name, f"rolling back index {name}") as writer:
        version = to or version_before(places, name)
        require_nothing_erased(places, name, version)
        return writer.rollback(version)


def version_before(places: Places, name: str) -> str:
    """The newest version older than the current one."""
    versions, current = places.indexes.versions(name), places.indexes.resolve(name)[1]
    older = [version for version in versions[: versions.index(current)] if _passed(places, name, version)]
    if not older:
        raise Conflict(
            f"there is no version of index {name} before {current} that passed its check",
            remedy=f"name another one with --to: {', '.join(versions)}",
        )
    return older[-1]


def _has_lost_parts(places: Places, version: Path) -> bool:
    """Whether a log that is here does not hold any more what a version was built of; an imported one may have none."""
    try:
        manifest = IndexManifest.read(version)
    except Corrupt:
        return False
    for log in manifest.logs:
        try:
            there = {part.sha256 for part in StoredLog.open_unchecked(places.logs, log.name).manifest.parts}
        except NotFound:
            continue
        if not set(log.parts.values()) <= there:
            return True
    return False


def _erasures(version: Path) -> int:
    """How many deletions a version knows of; of a damaged one nobody knows."""
    try:
        found = read_json(version / MANIFEST).get("erasures", 0)
    except Corrupt:
        return 0
    return found if isinstance(found, int) else 0


def _passed(places: Places, name: str, version: str) -> bool:
    try:
        check = IndexManifest.read(places.indexes.folder(name, version)).check
    except Corrupt:
        return False
    return check is None or check.passed


def require_nothing_erased(places: Places, name: str, version: str) -> None:
    """Refuse a version that still shows what was deleted from a later one."""
    places.indexes.resolve(f"{name}@{version}")
    known = {one: _erasures(places.indexes.folder(name, one)) for one in places.indexes.versions(name)}
    if known[version] < max(known.values()) or _has_lost_parts(places, places.indexes.folder(name, version)):
        raise Conflict(
            f"index {name}@{version} holds pairs that have been deleted since",
            remedy=f"build it anew from the logs: refaug index compact {name}",
        )
