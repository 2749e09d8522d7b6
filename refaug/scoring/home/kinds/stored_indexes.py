"""Indexes of a home: the facts of a version, and what keeps one from serving."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from refaug.core.artefacts.version_locks import HeldVersion
from refaug.core.errors import Conflict, NotFound
from refaug.core.options.declaring import Doc
from refaug.scoring.home.descriptions import FactList, Section, TitledTable
from refaug.scoring.home.stored_artefacts import ShownVersion, StoredArtefacts, VersionFacts

if TYPE_CHECKING:
    from refaug.indexer.manifest import IndexManifest

# Modules that compile loops are imported in methods: a list of raters needs none of them.


@dataclass(frozen=True, kw_only=True)
class IndexFacts(VersionFacts):
    """The facts of a version of an index."""

    vectors: Annotated[str | None, Doc("the word vectors, or the encoder, by which utterances are compared")] = None
    tokenizer: Annotated[str | None, Doc("what splits texts into words")] = None
    kind: Annotated[str | None, Doc("the kind of its main part, by FAISS's name")] = None
    utterances: Annotated[int | None, Doc("distinct utterances that can be found")] = None
    pairs: Annotated[int | None, Doc("distinct pairs that can be found")] = None
    segments: Annotated[int | None, Doc("its main part and what updates have added")] = None
    superseded: Annotated[int | None, Doc("utterances that a later part, or a deletion, has replaced")] = None
    recall_at_15: Annotated[
        float | None, Doc("the share of exact search's 15 best that it finds; null where it was not measured")
    ] = None
    recall_interval: Annotated[list[float] | None, Doc("the 95 % interval of that share")] = None
    recall_target: Annotated[float | None, Doc("the share that was asked for")] = None


def index_facts(manifest: IndexManifest) -> dict[str, Any]:
    """Return the main facts of a version."""
    check = manifest.check
    main = manifest.segments[0]
    return {
        "logs": [log.name for log in manifest.logs],
        "vectors": manifest.vectors.name,
        "dimensions": manifest.vectors.dimensions,
        "tokenizer": manifest.tokenizer,
        "kind": main.factory,
        "search_depth": [segment.effort for segment in manifest.segments],
        "utterances": manifest.utterances,
        "without_vector": sum(segment.utterances - segment.with_vector for segment in manifest.segments),
        "pairs": manifest.pairs,
        **({"shards": manifest.shards} if manifest.shards > 1 else {}),
        "segments": len(manifest.segments),
        "superseded": sum(segment.superseded for segment in manifest.segments),
        "recall_at_15": None if check is None else check.recall,
        "recall_interval": None if check is None else [check.low, check.high],
        "lost_similarity": None if check is None else check.lost_similarity,
        "recall_target": None if check is None else check.target,
        "recall_queries": None if check is None else check.queries,
        "bytes": sum(facts["size"] for facts in manifest.files.values()),
        "build_seconds": round(sum(manifest.seconds.values()), 1),
    }


def readable_facts(facts: dict[str, Any]) -> dict[str, Any]:
    """Round recall to its significant digits, and leave out the search depth of a flat index."""
    shown = {name: fact for name, fact in facts.items() if not (facts["kind"] == "Flat" and name == "search_depth")}
    for name in ("recall_at_15", "lost_similarity"):
        if shown.get(name) is not None:
            shown[name] = f"{shown[name]:.4f}"
    if shown.get("recall_interval"):
        shown["recall_interval"] = "[" + ", ".join(f"{end:.4f}" for end in shown["recall_interval"]) + "]"
    return shown


class StoredIndexes(StoredArtefacts):
    """Indexes: a version that holds what was deleted since cannot serve again."""

    columns = ("kind", "utterances", "pairs", "segments", "recall_at_15", "bytes")
    fact_type = IndexFacts

    def read_facts(self, folder: Path, manifest: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG002
        """Return what an index holds, and how much of exact search it finds."""
        from refaug.indexer.manifest import IndexManifest  # noqa: PLC0415  compiles

        facts = index_facts(index := IndexManifest.read(folder))
        names = {fact.name for fact in fields(IndexFacts)}
        own = {name: fact for name, fact in facts.items() if name in names}
        return {**own, "id": index.id[:12], "created": index.created}

    def shown(self, held: HeldVersion, manifest: dict[str, Any], title: str) -> ShownVersion:  # noqa: ARG002
        """Return what an index holds, how it was made, and its segments."""
        from refaug.indexer.manifest import IndexManifest  # noqa: PLC0415  compiles

        index = IndexManifest.read(held.folder)
        facts = {"id": index.id[:12], "created": index.created, **index_facts(index)}
        columns = ("folder", "kind", "search depth", "utterances", "superseded", "pairs")
        names = ("folder", "factory", "effort", "utterances", "superseded", "pairs")
        rows = [[getattr(segment, name) for name in names] for segment in index.segments]
        sections: list[Section] = [
            FactList(title, readable_facts(facts)),
            TitledTable("segments", columns, rows),
            FactList("seconds", index.seconds),
        ]
        return self.described(held, asdict(index), {"id": index.id}, lambda: sections)

    def require_publishable(self, name: str, version: str) -> None:
        """Raise Conflict if this version holds pairs that were deleted since."""
        from refaug.indexer.building.update import require_nothing_erased  # noqa: PLC0415
        from refaug.scoring.home.indexes import places_of  # noqa: PLC0415

        require_nothing_erased(places_of(self.settings), name, version)

    def require_sound(self, name: str, version: str, folder: Path) -> None:
        """Open the index in a folder; without its vectors this is checked when it is first opened with them."""
        from refaug.indexer.search.index import ReferenceIndex  # noqa: PLC0415
        from refaug.scoring.home.indexes import places_of  # noqa: PLC0415

        with suppress(NotFound, Conflict):
            ReferenceIndex.of_folder(places_of(self.settings), folder, name, version).close()

    def publish(self, name: str, version: str, *, even_refused: bool = False) -> None:
        """Let a name stand for this version, unless it holds deleted pairs or a check refused it."""
        from refaug.indexer.building.update import publish_version  # noqa: PLC0415
        from refaug.scoring.home.indexes import places_of  # noqa: PLC0415

        publish_version(places_of(self.settings), name, version, even_refused=even_refused)

    def rollback(self, name: str, to: str | None = None, *, even_refused: bool = False) -> str:
        """Let the name stand for `to`, or for the version published before, and return that version."""
        from refaug.indexer.building.update import rollback  # noqa: PLC0415
        from refaug.scoring.home.indexes import places_of  # noqa: PLC0415

        return rollback(places_of(self.settings), name, to, even_refused=even_refused)
