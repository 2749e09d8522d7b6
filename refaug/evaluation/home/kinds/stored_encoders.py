"""Encoders of texts in a home: the facts of a version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from refaug.core.options.declaring import Doc
from refaug.evaluation.home.stored_artefacts import StoredArtefacts, VersionFacts


@dataclass(frozen=True, kw_only=True)
class EncoderFacts(VersionFacts):
    """The facts of a version of an encoder."""

    dimensions: Annotated[int | None, Doc("numbers of a text's vector")] = None
    file: Annotated[str | None, Doc("the folder or the file that it was copied from")] = None


class StoredEncoders(StoredArtefacts):
    """Encoders of texts."""

    columns = ("dimensions", "file", "id")
    fact_type = EncoderFacts

    def read_facts(self, folder: Path, manifest: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG002
        """Return the size of the vectors, and where the encoder came from."""
        return {"dimensions": manifest["dimensions"], "file": manifest["file"]}
