"""The folders of a home that building and searching need, and finding the vectors of an index."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from refaug.core.artefacts.kinds import encodings_in
from refaug.core.artefacts.manifests import require_files, require_format
from refaug.core.artefacts.verified_files import verified_files
from refaug.core.artefacts.version_locks import HeldVersion
from refaug.core.artefacts.versions import Versions
from refaug.core.errors import Conflict, Locked, NotFound
from refaug.core.files import exclusive, read_json, remove_tree
from refaug.core.vectors.kept_vectors import Encodings
from refaug.core.vectors.word_vectors import FORMAT_VERSION, MANIFEST, WordVectors, open_word_vectors
from refaug.indexer.manifest import VectorSource

_INPUTS: Final = 16  # digits of a hash


@dataclass(frozen=True, kw_only=True)
class Places:
    """The folders of a home that building and searching need."""

    logs: Path
    vectors: Versions
    indexes: Versions
    cache: Path

    @property
    def encodings(self) -> Encodings:
        """The sentence vectors that are kept of texts under encoders of the home."""
        return encodings_in(self.cache)

    @classmethod
    def under(cls, home: Path) -> Places:
        """Return the folders of a home folder."""
        return cls(
            logs=home / "logs",
            vectors=Versions(home / "vectors", "vectors"),
            indexes=Versions(home / "indexes", "index"),
            cache=home / "cache",
        )


def finished_references(cache: Path, index: str, inputs: str) -> Path:
    """Return the folder of the references that a command retrieves from an index, by the hash of its inputs."""
    return cache / f"references-{index}-{inputs[:_INPUTS]}"


def remove_finished_references(cache: Path, index: str) -> None:
    """Remove the references that stopped commands retrieved from an index: they may hold texts deleted from it.

    A command that runs now keeps its references, and removes them at its end.
    """
    for folder in cache.glob(f"references-{index}-{'?' * _INPUTS}"):
        with suppress(FileNotFoundError, Locked), exclusive(folder, f"removing references from index {index}"):
            remove_tree(folder)


def open_vectors_version(held: HeldVersion, *, hashed: bool = False) -> WordVectors:
    """Open the word vectors of a version after checking the length, or the hash, of every file of its manifest."""
    manifest = read_json(held.folder / MANIFEST)
    require_format(held.folder / MANIFEST, {"kind": "vectors", **manifest}, "vectors", FORMAT_VERSION)
    require_files(held.folder, manifest)
    if hashed:
        verified_files.require(held.folder, manifest)
    return open_word_vectors(held.folder)


def hold_vectors(vectors: Versions, source: VectorSource, *, hashed: bool = False) -> tuple[HeldVersion, WordVectors]:
    """Open and hold the vectors with the hash that an index names, under that name or any other.

    The vectors may have been imported under another name.
    """
    specs = [source.name, *(f"{name}@{version}" for name in vectors.names() for version in vectors.versions(name))]
    mismatch = ""
    for spec in dict.fromkeys(specs):
        try:
            held = vectors.open(spec)
        except NotFound:
            continue
        try:
            opened = open_vectors_version(held, hashed=hashed)
        except BaseException:
            held.close()
            raise
        if opened.sha256 == source.sha256:
            return held, opened
        mismatch = mismatch or f"{spec} has the hash {opened.sha256[:12]} and {opened.dimensions} dimensions"
        held.close()
    what = f"word vectors {source.name} with the hash {source.sha256[:12]} and {source.dimensions} dimensions"
    if mismatch:
        raise Conflict(
            f"the index needs {what}; {mismatch}", remedy="import the vectors it was built with, or build it again"
        )
    raise NotFound(f"the index needs {what}, which are not here", remedy="refaug artefacts import them beside it")
