"""Removing old versions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from refaug.core.artefacts.kinds import ArtefactKind
from refaug.core.options.declaring import Argument, Doc, Ge, Le
from refaug.operations.operation import Name, Operation


@dataclass(frozen=True, kw_only=True)
class RemoveVersions(Operation):
    """Remove old versions; those stay that are published, in use, or needed by an index or a frozen set."""

    operation: ClassVar[str] = "gc"
    runs: ClassVar[str] = "refaug.service.jobs.kinds.indexing:gc_job"

    artefact: Annotated[ArtefactKind, Doc("What kind of artefact.")]
    name: Annotated[Name, Argument("NAME"), Doc("Which one.")]
    keep: Annotated[int, Ge(0), Le(100_000), Doc("So many of the newest versions stay.")] = 3
    even_pinned: Annotated[bool, Doc("Also remove versions that frozen sets name.")] = False

    def resources(self) -> tuple[str, ...]:
        """Return the artefact."""
        return (f"{self.artefact}/{self.name}",)
