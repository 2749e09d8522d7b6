"""Where logs, vectors, indexes and work in progress lie; and how an index finds the vectors that it was built with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from core.artefacts import require_files, require_format
from core.errors import Conflict, NotFound
from core.files import read_json
from core.holding import Held
from core.versions import Versions
from core.word_vectors import FORMAT_VERSION, MANIFEST, WordVectors, open_word_vectors
from indexer.manifest import VectorSource


@dataclass(frozen=True, kw_only=True)
class Places:
    """The folders of a home that building and searching need."""

    logs: Path
    vectors: Versions
    indexes: Versions
    cache: Path

    @classmethod
    def under(cls, home: Path) -> Places:
        """Those of a home folder, as DESIGN names them."""
        return cls(
            logs=home / "logs",
            vectors=Versions(home / "vectors", "vectors"),
            indexes=Versions(home / "indexes", "index"),
            cache=home / "cache",
        )


def open_held(held: Held) -> WordVectors:
    """Word vectors of a version, with every file as long as its manifest says."""
    manifest = read_json(held.folder / MANIFEST)
    require_format(held.folder / MANIFEST, {"kind": "vectors", **manifest}, "vectors", FORMAT_VERSION)
    require_files(held.folder, manifest)
    return open_word_vectors(held.folder)


def hold_vectors(vectors: Versions, source: VectorSource) -> tuple[Held, WordVectors]:
    """The vectors of that hash, by their name, or wherever else they are: they may have been imported under another."""
    specs = [source.name, *(f"{name}@{version}" for name in vectors.names() for version in vectors.versions(name))]
    found = ""
    for spec in dict.fromkeys(specs):
        try:
            held = vectors.open(spec)
        except NotFound:
            continue
        try:
            opened = open_held(held)
        except BaseException:
            held.close()
            raise
        if opened.sha256 == source.sha256:
            return held, opened
        found = found or f"{spec} has the hash {opened.sha256[:12]} and {opened.dimensions} dimensions"
        held.close()
    what = f"word vectors {source.name} with the hash {source.sha256[:12]} and {source.dimensions} dimensions"
    if found:
        raise Conflict(
            f"the index needs {what}; {found}", remedy="import the vectors it was built with, or build it again"
        )
    raise NotFound(f"the index needs {what}, which are not here", remedy="refaug import them beside it")
