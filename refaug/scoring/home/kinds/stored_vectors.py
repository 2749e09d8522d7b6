"""Word vectors of a home: the facts of a version, and which versions an index needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.artefacts.manifests import MANIFEST
from refaug.core.artefacts.version_locks import HeldVersion
from refaug.core.files import read_json
from refaug.core.options.declaring import Doc
from refaug.scoring.home.descriptions import FactList
from refaug.scoring.home.stored_artefacts import ShownVersion, StoredArtefacts, VersionFacts


@dataclass(frozen=True, kw_only=True)
class VectorFacts(VersionFacts):
    """The facts of a version of word vectors."""

    words: Annotated[int | None, Doc("words that have a vector")] = None
    dimensions: Annotated[int | None, Doc("numbers of a vector")] = None
    made: Annotated[str | None, Doc("trained or imported")] = None


def training_facts(details: Any) -> dict[str, Any]:
    """Return the main facts of how vectors were made."""
    coverage = details.get("coverage")
    losses = details.get("losses")
    return {
        "made": details.get("made", "-"),
        "tokenizer": details.get("tokenizer", "not known"),
        **({} if not losses else {"epochs": len(losses), "loss": f"{losses[-1]:.6f}"}),
        **({} if not coverage else coverage_facts(coverage)),
    }


def coverage_facts(coverage: dict[str, int]) -> dict[str, Any]:
    """Return what vectors know of texts, in words."""
    return {
        "known_tokens": _share(coverage["known_tokens"], coverage["tokens"]),
        "texts_without_vector": _share(coverage["without_vector"], coverage["texts"]),
    }


def _share(part: int, whole: int) -> str:
    return f"{part:,} of {whole:,} ({100 * part / max(1, whole):.2f} %)"


class StoredWordVectors(StoredArtefacts):
    """Word vectors: an index opens those that it was built with."""

    columns = ("words", "dimensions", "made", "id")
    fact_type = VectorFacts
    user = "an index was built with"

    def read_facts(self, folder: Path, manifest: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG002
        """Return the size of the vectors and how they were made."""
        sizes = {name: manifest[name] for name in ("words", "dimensions")}
        return {**sizes, "id": manifest["sha256"][:12], "made": manifest.get("details", {}).get("made")}

    def shown(self, held: HeldVersion, manifest: dict[str, Any], title: str) -> ShownVersion:
        """Return what vectors hold and how they were made."""
        from refaug.indexer.index_folders import open_vectors_version  # noqa: PLC0415  compiles

        open_vectors_version(held)

        def facts() -> dict[str, Any]:
            sizes = {"words": manifest["words"], "dimensions": manifest["dimensions"]}
            return {**sizes, "sha256": manifest["sha256"][:12], **training_facts(manifest.get("details", {}))}

        return self.described(held, manifest, {}, lambda: [FactList(title, facts())])

    def user_needs(self) -> Callable[[str, str], bool]:
        """Return a function that says whether some index needs a version."""
        from refaug.scoring.home.indexes import needed_by_indexes  # noqa: PLC0415

        return needed_by_indexes(self.settings, self.versions, "sha256")


# ── Encoders of texts in a home: the facts of a version, and which versions an index needs ────────────────────────────


@dataclass(frozen=True, kw_only=True)
class EncoderFacts(VersionFacts):
    """The facts of a version of an encoder."""

    dimensions: Annotated[int | None, Doc("numbers of a text's vector")] = None
    file: Annotated[str | None, Doc("the folder or the file that it was copied from")] = None


class StoredEncoders(StoredArtefacts):
    """Encoders of texts: an index or a rater opens the one that it was made with."""

    columns = ("dimensions", "file", "id")
    fact_type = EncoderFacts
    user = "an index or a rater was made with"

    def read_facts(self, folder: Path, manifest: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG002
        """Return the size of the vectors, and where the encoder came from."""
        return {"dimensions": manifest["dimensions"], "file": manifest["file"]}

    def user_needs(self) -> Callable[[str, str], bool]:
        """Return a function that says whether some index or rater needs a version."""
        from refaug.scoring.home.indexes import needed_by_indexes  # noqa: PLC0415

        by_indexes, raters = (
            needed_by_indexes(self.settings, self.versions, "id"),
            artefact_stores(self.settings)["rater"],
        )
        configs: list[Any] = [
            read_json(raters.folder(name, version) / MANIFEST).get("config", {})
            for name in raters.names()
            for version in raters.versions(name)
        ]
        by_raters = {config.get("encoder") for config in configs}

        def is_needed(name: str, version: str) -> bool:
            manifest = read_json(self.versions.folder(name, version) / MANIFEST)
            return by_indexes(name, version) or manifest.get("id") in by_raters

        return is_needed
