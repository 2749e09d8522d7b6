"""The manifest of a frozen reference set: what the set holds, how its references were made, and its id.

The id is a hash of the content, so the same content has the same id wherever it was frozen, and a manifest is checked
whenever it is read.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import orjson

from refaug.core.artefacts.manifests import require_format
from refaug.core.errors import Corrupt
from refaug.core.version import VERSION
from refaug.scoring.provenance import Provenance

KIND: Final = "reference-set"
FORMAT_VERSION: Final = 1
SET_SUFFIX: Final = ".jsonl.zst"
SET_ID: Final = re.compile(r"[0-9a-f]{16}")
_KEY: Final = re.compile(r"[a-z0-9+-]{1,40}")  # as in signatures
_NOT_HASHED: Final = ("id", "created", "refaug")  # not content: when and by which release the set was written
CORRUPT_SET_REMEDY: Final = "restore it from a backup, or delete the file and freeze the same items again"


class Purpose(StrEnum):
    """What a set is for; scores on one of another purpose than the rest mean something else."""

    TRAIN = "train"
    VALIDATION = "validation"
    TEST = "test"


@dataclass(frozen=True, kw_only=True)
class SetDescription:
    """How the references of a set were made, for its manifest and for signatures."""

    purpose: Purpose
    provenance: Mapping[str, str] = field(default_factory=dict)  # for both forms of a signature
    details: Mapping[str, str] = field(default_factory=dict)  # only for the full form
    parent: str | None = None
    how: Mapping[str, Any] = field(default_factory=dict)

    def with_provenance_of(self, provenance: Provenance) -> SetDescription:
        """Return the description; one without a provenance takes that of the items."""
        if self.provenance or self.details:
            return self
        return replace(self, provenance=provenance.settings, details=provenance.details)


@dataclass(frozen=True, kw_only=True)
class SetManifest:
    """The first line of a set."""

    id: str
    purpose: Purpose
    created: str
    items: int
    references: int
    provenance: Mapping[str, str]
    details: Mapping[str, str]
    parent: str | None
    how: Mapping[str, Any]
    content: str  # SHA-256 of the lines of the items
    refaug: str = VERSION
    kind: str = KIND
    format_version: int = FORMAT_VERSION

    @classmethod
    def of(cls, description: SetDescription, *, items: int, references: int, content: str) -> SetManifest:
        """Return the manifest of items just written, with the id that follows from its content."""
        unnamed = cls(
            id="",
            purpose=description.purpose,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            items=items,
            references=references,
            provenance=dict(description.provenance),
            details=dict(description.details),
            parent=description.parent,
            how=dict(description.how),
            content=content,
        )
        return replace(unnamed, id=_id_of(asdict(unnamed)))

    @classmethod
    def read(cls, path: Path, line: bytes) -> SetManifest:
        """Read the manifest from a line; Corrupt where it is not one, or its content does not match its id."""
        try:
            document = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise Corrupt(f"{path}: its first line is no manifest: {error}", remedy=CORRUPT_SET_REMEDY) from error
        if not isinstance(document, dict):
            raise Corrupt(
                f"{path}: its first line is no manifest, but a {type(document).__name__}", remedy=CORRUPT_SET_REMEDY
            )
        require_format(path, document, KIND, FORMAT_VERSION)
        if (name := _id_of(document)) != document.get("id"):
            says = document.get("id")
            message = f"{path}: its manifest was altered: it says {says!r}, and what is in it makes {name}"
            raise Corrupt(message, remedy=CORRUPT_SET_REMEDY)
        if path.name != f"{name}{SET_SUFFIX}":
            raise Corrupt(f"{path}: this is the set {name}", remedy="give the file its name again")
        try:
            manifest = cls(**{**document, "purpose": Purpose(document["purpose"])})
            manifest.require_types()
        except (KeyError, TypeError, ValueError) as error:
            raise Corrupt(f"{path}: its manifest lacks what a set needs: {error}", remedy=CORRUPT_SET_REMEDY) from error
        return manifest

    def require_types(self) -> None:
        """Raise ValueError where a field has a value that refaug never writes: the set may come from elsewhere."""
        for name in ("items", "references"):
            if type(getattr(self, name)) is not int:
                raise ValueError(f"{name} is no number")
        for name in ("created", "content", "refaug"):
            if not isinstance(getattr(self, name), str):
                raise ValueError(f"{name} is no text")  # noqa: TRY004  the caller expects one kind of error
        for name in ("provenance", "details", "how"):
            if not isinstance(getattr(self, name), dict):
                raise ValueError(f"{name} is no object")  # noqa: TRY004
        if self.parent is not None and not SET_ID.fullmatch(self.parent):
            raise ValueError("parent is no id")
        for key, text in (*self.provenance.items(), *self.details.items()):
            if not _KEY.fullmatch(key) or not isinstance(text, str):
                raise ValueError(f"{key!r} cannot be part of a signature")

    @property
    def references_provenance(self) -> Provenance:
        """How the references were made; the same signature stands beside scores that retrieve them anew."""
        return Provenance(settings=self.provenance, details=self.details)

    def as_json(self) -> dict[str, object]:
        """Return all fields."""
        return asdict(self)


def _id_of(manifest: Mapping[str, Any]) -> str:
    """Return the hash of the content of a manifest, which contains the hash of the items."""
    content = {name: field for name, field in manifest.items() if name not in _NOT_HASHED}
    return hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]
