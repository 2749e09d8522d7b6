"""What is left of removed versions: the manifest, when it was removed and why, so that a signature can be explained.

<root>/.removed/<name>@<version>.json
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from refaug.core.artefacts.manifests import MANIFEST
from refaug.core.errors import Corrupt, NoAccess, NotFound, StorageFull
from refaug.core.files import make_folder, read_json, write_json

REMOVED: Final = ".removed"  # among the artefacts of a kind; no artefact can have this name


@dataclass(frozen=True, kw_only=True)
class Removal:
    """A version that is gone."""

    at: str
    purpose: str
    manifest: Mapping[str, Any]


def note_removal(root: Path, name: str, version: str, purpose: str) -> None:
    """Write down that a version is about to be removed; its manifest is read now.

    Without room for the note, or with a damaged manifest, the version is removed without one: removing makes room.
    """
    path = _path(root, name, version)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    with suppress(StorageFull, NoAccess, Corrupt, NotFound, OSError):
        make_folder(path.parent)
        write_json(path, {"at": now, "purpose": purpose, "manifest": read_json(root / name / version / MANIFEST)})


def read_removal(root: Path, name: str, version: str) -> Removal | None:
    """Return what is left of a removed version, or None where nothing is known."""
    path = _path(root, name, version)
    if not path.exists():
        return None
    document = read_json(path)
    manifest = document.get("manifest")
    if not isinstance(manifest, dict):
        raise Corrupt(f"{path} has no manifest", remedy="delete it: it only tells of a version that is gone")
    return Removal(at=str(document.get("at", "")), purpose=str(document.get("purpose", "")), manifest=manifest)


def remove_half_notes(root: Path, name: str) -> None:
    """Delete what killed writers of an artefact left half-written; the caller must hold the lock of the artefact."""
    for path in (root / REMOVED).glob(f".{name}@*.aside"):
        path.unlink(missing_ok=True)


def _path(root: Path, name: str, version: str) -> Path:
    return root / REMOVED / f"{name}@{version}.json"
