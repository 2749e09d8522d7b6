"""The record of a version in a store: which parts it has, with their hashes, and where they lie.

A record has no times and no secrets, so the same version gives the same record on every machine.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, Final, Self

import orjson

from refaug.core.artefacts.manifests import MANIFEST, NamedFile, named_files
from refaug.core.artefacts.versions import VersionName
from refaug.core.errors import Corrupt
from refaug.core.files import CHECKSUM, NAME, require_checksum, with_checksum

FORMAT_VERSION: Final = 1
LARGEST_RECORD: Final = 1 << 26

_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_REMEDY: Final = "remove it from the store, and push the version again"


@dataclass(frozen=True, kw_only=True)
class NeededVersion:
    """Another version that this one cannot be opened without, such as the word vectors of an index."""

    kind: str
    name: str
    version: str


@dataclass(frozen=True, kw_only=True)
class StoredPart:
    """A part of a version: a shard, a later segment, or the files beside them."""

    folder: str  # inside the version; "." for the files beside all parts
    bytes: int
    sha256: str  # over the names and hashes of its files
    files: Mapping[str, Mapping[str, int | str]]  # each with size, SHA-256, and where it lies in the store


@dataclass(frozen=True, kw_only=True)
class VersionRecord:
    """A version in a store; the file that holds this is written last."""

    kind: str
    name: str
    version: str
    manifest: NamedFile  # of the artefact, itself a file under its hash
    erasures: int  # counts deletions: what a version with a smaller count holds is to go
    needs: tuple[NeededVersion, ...]
    parts: tuple[StoredPart, ...]
    format_version: int = FORMAT_VERSION

    @property
    def spec(self) -> str:
        """`name@version`."""
        return f"{self.name}@{self.version}"

    @property
    def size(self) -> int:
        """The bytes of all files but the manifest."""
        return sum(part.bytes for part in self.parts)

    @cached_property
    def files(self) -> list[NamedFile]:
        """All files but the manifest."""
        return [
            NamedFile(name=name, size=int(facts["size"]), sha256=str(facts["sha256"]))
            for part in self.parts
            for name, facts in part.files.items()
        ]

    @property
    def objects(self) -> dict[str, int]:
        """The hash and size of everything that the record names, the manifest too."""
        return {file.sha256: file.size for file in [*self.files, self.manifest]}

    def as_bytes(self) -> bytes:
        """Return the record as it stands in the store."""
        content = {**asdict(self), "manifest": {"size": self.manifest.size, "sha256": self.manifest.sha256}}
        return orjson.dumps(with_checksum(content), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)

    @classmethod
    def of(
        cls, kind: str, name: str, version: str, manifest: bytes, needs: Sequence[NeededVersion], where: Path
    ) -> Self:
        """Return the record of a version with this manifest."""
        content = orjson.loads(manifest)
        erasures = content.get("erasures", 0)
        return cls(
            kind=kind,
            name=name,
            version=version,
            manifest=NamedFile(name=MANIFEST, size=len(manifest), sha256=hashlib.sha256(manifest).hexdigest()),
            erasures=erasures if isinstance(erasures, int) else 0,
            needs=tuple(needs),
            parts=_parts(named_files(content, where)),
        )

    @classmethod
    def read(cls, raw: bytes, where: Path) -> Self:
        """Return the record that these bytes hold; Corrupt for anything else, since they come from another machine."""
        try:
            content: Any = orjson.loads(raw)
        except orjson.JSONDecodeError as error:
            raise Corrupt(f"{where} is not JSON: {error}", remedy=_REMEDY) from error
        if not isinstance(content, dict):
            raise Corrupt(f"{where} is no record of a version", remedy=_REMEDY)
        require_checksum(where, content)
        newest = content.get("format_version")
        if isinstance(newest, int) and newest > FORMAT_VERSION:
            raise Corrupt(f"{where} has format {newest}; this refaug reads {FORMAT_VERSION}", remedy="upgrade refaug")
        try:
            record = cls(
                **{
                    **{field: entry for field, entry in content.items() if field != CHECKSUM},
                    "manifest": NamedFile(name=MANIFEST, **content["manifest"]),
                    "needs": tuple(NeededVersion(**needed) for needed in content["needs"]),
                    "parts": tuple(StoredPart(**part) for part in content["parts"]),
                }
            )
            record._check(where)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise Corrupt(f"{where} is no record of a version: {error!r}", remedy=_REMEDY) from error
        return record

    def _check(self, where: Path) -> None:
        """Require names that may become paths, and hashes that may become names of objects."""
        versions = [(self.kind, self.name, self.version), *((n.kind, n.name, n.version) for n in self.needs)]
        for kind, name, version in versions:
            if NAME.fullmatch(kind) is None or NAME.fullmatch(name) is None or VersionName.parse(version) is None:
                raise Corrupt(f"{where} names {kind!r} {name!r}@{version!r}, which is no version", remedy=_REMEDY)
        named_files({"files": {file.name: asdict(file) for file in self.files}}, where)
        odd = next((file for file in [*self.files, self.manifest] if _SHA256.fullmatch(file.sha256) is None), None)
        if odd is not None or isinstance(self.erasures, bool) or self.erasures < 0 or self.manifest.size < 0:
            raise Corrupt(f"{where} has no hash for {odd.name if odd else 'its manifest'!r}", remedy=_REMEDY)


def object_path(sha256: str) -> str:
    """Return where a file with this hash lies in a store."""
    return f"objects/{sha256[:2]}/{sha256}"


def _parts(files: Sequence[NamedFile]) -> tuple[StoredPart, ...]:
    """Return the files of a version by the folder that they form a part in."""
    by_folder = dict[str, list[NamedFile]]()
    for file in files:
        by_folder.setdefault(_part_folder(file.name), []).append(file)
    return tuple(
        StoredPart(
            folder=folder,
            bytes=sum(file.size for file in inside),
            sha256=_hash_of(inside),
            files={
                file.name: {"size": file.size, "sha256": file.sha256, "at": object_path(file.sha256)} for file in inside
            },
        )
        for folder, inside in sorted(by_folder.items())
    )


def _part_folder(name: str) -> str:
    """Return the numbered folder that a file lies in, such as `shards/3`; else "."."""
    top, *inner = PurePosixPath(name).parts
    return f"{top}/{inner[0]}" if len(inner) > 1 and inner[0].isdecimal() else "."


def _hash_of(files: Sequence[NamedFile]) -> str:
    return hashlib.sha256(orjson.dumps([[file.name, file.sha256] for file in files])).hexdigest()
