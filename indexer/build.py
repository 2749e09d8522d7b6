"""Building an index version: log → table → codes → vectors → FAISS and BM25 → recall measured → manifest → published.

Every stage is done once: what a killed build has finished lies in the cache under a name made of its inputs, and the
same command goes on from there. Readers see nothing of it until the finished folder is renamed into its place.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any, Final

from core.artefacts import describe_files, require_files
from core.engine import Engine, scratch_in
from core.errors import CheckFailed, Corrupt, SourceChanged
from core.files import make_folder
from core.log_store import now
from core.progress import Progress
from core.stages import MARK, Stages, hash_of_inputs
from core.version import VERSION
from core.versions import Writer
from indexer.ann import AnnKind
from indexer.manifest import FORMAT_VERSION, MANIFEST, ErasedKeys, IndexManifest, LogState, RecallCheck, SegmentInfo
from indexer.material import Material, ordered
from indexer.order import IndexOrder
from indexer.places import Places
from indexer.segment_work import SegmentWork, make_segment, measure_recall
from indexer.table import Erased
from indexer.tokenizers import keep_tokenizer

MAIN: Final = "segments/0"


@dataclass(frozen=True, kw_only=True)
class Built:
    """A finished version."""

    name: str
    version: str
    manifest: IndexManifest
    published: bool
    is_new: bool = True


def build_index(places: Places, order: IndexOrder, progress: Progress, *, again: bool = False) -> Built:
    """Build a version from the logs as they are now, and publish it if its recall is what was asked for.

    Nothing is done where the published version was made of exactly this, unless it is to be done `again`.
    """
    with (
        places.indexes.writing(order.name, f"building index {order.name}") as writer,
        ordered(places, order) as material,
    ):
        before = newest(places, order.name, progress)
        erased = before.erased if before is not None else ErasedKeys()
        inputs = {**material.fingerprint(), **order.settings(), **asdict(erased), "format": FORMAT_VERSION}
        inputs |= {"software": software()}
        if order.limits.factory is not None:
            AnnKind.of(order.limits.factory, material.source.dimensions)  # refused before anything is done
        if not again and (there := _published(places, order.name, hash_of_inputs(inputs))) is not None:
            return there
        stages = Stages.of(places.cache, f"index-{order.name}", inputs)
        info, check = _main_segment(places, order, material, stages, erased, progress)
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
            segments=(info,),
            check=check,
            plan={name: value for name, value in plan.items() if name != "seconds"},
            limits=asdict(order.limits),
            seconds=stages.seconds,
            software=software(),
            files={},
            erased=erased,
            inputs=hash_of_inputs(inputs),
            erasures=erasures_after(before, material.states()),
        )
        require_unchanged(places, material, stages)
        return finish(writer, stages, manifest, material, publish=order.publish)


def _published(places: Places, name: str, inputs: str) -> Built | None:
    """The published version, if it was made of exactly this and nothing was added since."""
    if places.indexes.current(name) is None:
        return None
    try:
        _, version = places.indexes.resolve(name)
        folder = places.indexes.folder(name, version)
        manifest = IndexManifest.read(folder)
        require_files(folder, {"files": manifest.files})
    except Corrupt:  # then it is to be mended
        return None
    if manifest.inputs != inputs:
        return None
    return Built(name=name, version=version, manifest=manifest, published=True, is_new=False)


def _main_segment(
    places: Places,
    order: IndexOrder,
    material: Material,
    stages: Stages,
    erased: ErasedKeys,
    progress: Progress,
) -> tuple[SegmentInfo, RecallCheck | None]:
    """The only segment of a new index, and how well it finds."""
    work = SegmentWork(
        stages=stages,
        folder=MAIN,
        material=material,
        vocabulary=material.vocabulary(),
        limits=order.limits,
        erased=erased_of(erased),
        bm25=order.bm25,
        least_coverage=order.least_coverage,
        check_queries=order.check_queries,
        seed=order.seed,
        progress=progress,
    )
    make_folder(stages.folder / MAIN)
    with Engine(scratch_in(places.cache), memory=order.memory, threads=order.threads) as engine:
        info = make_segment(work, engine)
    efforts, check = measure_recall(stages, (info,), work)
    return replace(info, effort=efforts[0]), check


def require_unchanged(places: Places, material: Material, stages: Stages) -> None:
    """Refuse to publish what a log has lost meanwhile, and keep nothing of it."""
    try:
        material.require_unchanged(places)
    except SourceChanged:
        stages.drop()
        raise


def erasures_after(before: IndexManifest | None, logs: Sequence[LogState]) -> int:
    """One more than before if a log has had something deleted since: then older versions must not come back."""
    if before is None:
        return 0
    removed = {log.name: log.removed for log in before.logs}
    return before.erasures + any(log.removed > removed.get(log.name, log.removed) for log in logs)


def finish(
    writer: Writer,
    stages: Stages,
    manifest: IndexManifest,
    material: Material,
    *,
    publish: bool,
    come_what_may: bool = False,
    known: Mapping[str, Mapping[str, Any]] | None = None,
) -> Built:
    """Write the manifest, move the folder into its place and publish it; one that failed its check stays unpublished.

    Something deleted must be gone `come_what_may`. `known` are files that another version describes already.
    """
    keep_tokenizer(material.tokenizer, stages.folder)
    names = files_in(stages.folder)
    files = describe_files(stages.folder, [name for name in names if name not in (known or {})])
    files |= {name: dict(facts) for name, facts in (known or {}).items() if name in names}
    found = replace(manifest, files=dict(sorted(files.items())))
    found.write(stages.folder)
    stages.finish()
    version = writer.add(stages.folder)
    built = Built(name=manifest.name, version=version, manifest=found, published=False)
    check = found.check
    if check is not None and not check.passed and not come_what_may:
        raise CheckFailed(
            f"index {built.name}@{version} was built but not published: it finds {100 * check.recall:.1f} % of what "
            f"exact search finds, {100 * check.target:.1f} % were asked for, and searching all of it does not help",
            remedy=f"build with another --index or --recall, or refaug index publish {built.name}@{version}",
        )
    if not publish:
        return built
    writer.publish(version)
    return replace(built, published=True)


def files_in(folder: Path) -> list[str]:
    """All files of a version but its manifest."""
    found = (path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file())
    return [str(path) for path in found if str(path) not in (MANIFEST, MARK)]


def newest(places: Places, name: str, progress: Progress) -> IndexManifest | None:
    """The manifest of the newest version that can be read, which knows of all that was deleted."""
    for version in reversed(places.indexes.versions(name)):
        try:
            return IndexManifest.read(places.indexes.folder(name, version))
        except Corrupt as error:
            progress.warn(f"{error.message}; what was deleted from that version alone is not known to this build")
    return None


def erased_of(keys: ErasedKeys) -> Erased:
    """What a table leaves out."""
    return Erased(pairs=frozenset(keys.pairs), dialogues=frozenset(keys.dialogues), speakers=frozenset(keys.speakers))


def software() -> Mapping[str, str]:
    """Versions of what can change an index or an answer."""
    packages = ("faiss-cpu", "bm25s", "numpy", "numba", "pyarrow", "duckdb")
    return {
        "refaug": VERSION,
        "python": platform.python_version(),
        **{package: version_of(package) for package in packages},
    }
