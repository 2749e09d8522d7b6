"""The folders of a home that building and searching need, and finding the vectors of an index."""

from __future__ import annotations

from contextlib import ExitStack, suppress
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
from refaug.core.vectors.encoders import EncoderConfig, OnnxEncoder, shared_encoder
from refaug.core.vectors.kept_vectors import Encodings
from refaug.core.vectors.word_vectors import FORMAT_VERSION, MANIFEST, WordVectors, open_word_vectors
from refaug.indexer.manifest import VectorSource

_INPUTS: Final = 16  # digits of a hash


@dataclass(frozen=True, kw_only=True)
class Places:
    """The folders of a home that building and searching need."""

    logs: Path
    vectors: Versions
    encoders: Versions
    indexes: Versions
    cache: Path
    keeps_encodings: bool = True  # False where several machines share the folders: SQLite's files are one machine's

    @property
    def encodings(self) -> Encodings | None:
        """The sentence vectors that are kept of texts under encoders of the home."""
        return encodings_in(self.cache) if self.keeps_encodings else None

    @classmethod
    def under(cls, home: Path) -> Places:
        """Return the folders of a home folder."""
        return cls(
            logs=home / "logs",
            vectors=Versions(home / "vectors", "vectors"),
            encoders=Versions(home / "encoders", "encoder"),
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
    mismatch = ""
    for spec in _specs(vectors, source):
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


def open_encoder_version(
    held: HeldVersion, encodings: Encodings | None, *, threads: int = 1, hashed: bool = False
) -> OnnxEncoder:
    """Open an encoder of a home, under its name and version, after checking the files of its manifest."""
    manifest = read_json(held.folder / MANIFEST)
    require_files(held.folder, manifest)
    if hashed:
        verified_files.require(held.folder, manifest)
    name = f"{held.name}@{held.version}"
    return shared_encoder(held.folder, EncoderConfig(threads=threads, encodings=encodings, name=name))


def encoder_source(places: Places, encoder: Path | str, *, threads: int = 1) -> VectorSource:
    """Return the source of vectors that an encoder is: one of the home by its name, or that of a folder."""
    if isinstance(encoder, Path):
        opened = shared_encoder(encoder, EncoderConfig(threads=threads))
        name, content, path = opened.name, opened.name, str(encoder.resolve())
    else:
        with _open_named(places, encoder) as held:
            opened = open_encoder_version(held, places.encodings, threads=threads)
            name, content, path = f"{held.name}@{held.version}", opened.name.partition("#")[2], ""
    dimensions = opened.sentence_vectors([]).shape[1]
    return VectorSource(kind="encoder", name=name, sha256=content, dimensions=dimensions, path=path)


def _open_named(places: Places, spec: str) -> HeldVersion:
    try:
        return places.encoders.open(spec)
    except NotFound as error:
        here = f"; ./{spec} for the folder" if Path(spec).exists() else ""
        raise NotFound(error.message, remedy=f"{error.remedy}{here}") from error


def hold_encoder(
    places: Places, source: VectorSource, *, threads: int = 1, hashed: bool = False, user: str = "the index"
) -> tuple[HeldVersion | None, OnnxEncoder]:
    """Open the encoder that its user names: in its folder, or of the home, under that name or any other."""
    if source.path:
        opened = shared_encoder(Path(source.path), EncoderConfig(threads=threads))
        if opened.name != source.name:
            raise Conflict(
                f"the index was built with the encoder {source.name}; {source.path} holds {opened.name}",
                remedy="put that encoder back, or build the index again",
            )
        return None, opened
    for spec in _specs(places.encoders, source):
        with ExitStack() as failing:
            try:
                held = failing.enter_context(places.encoders.open(spec))
            except NotFound:
                continue
            if read_json(held.folder / MANIFEST).get("id") == source.sha256:
                opened = open_encoder_version(held, places.encodings, threads=threads, hashed=hashed)
                failing.pop_all()
                return held, opened
    raise NotFound(
        f"{user} needs the encoder {source.name}#{source.sha256}, which is not in this home",
        remedy="refaug index encoder add NAME FOLDER, with the files that it was made with",
    )


def _specs(versions: Versions, source: VectorSource) -> list[str]:
    """Return the versions to look for a source's content in, that of its name first: it may have another name here."""
    others = (f"{name}@{version}" for name in versions.names() for version in versions.versions(name))
    return list(dict.fromkeys([source.name, *others]))
