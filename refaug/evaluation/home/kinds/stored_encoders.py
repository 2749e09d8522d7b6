"""Encoders of texts in a home: the facts of a version, and which versions an index needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
    """Encoders of texts: an index opens the one that it was built with."""

    columns = ("dimensions", "file", "id")
    fact_type = EncoderFacts
    user = "an index was built with"

    def read_facts(self, folder: Path, manifest: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG002
        """Return the size of the vectors, and where the encoder came from."""
        return {"dimensions": manifest["dimensions"], "file": manifest["file"]}

    def user_needs(self) -> Callable[[str, str], bool]:
        """Return a function that says whether some index needs a version."""
        from refaug.evaluation.home.indexes import needed_by_indexes  # noqa: PLC0415

        return needed_by_indexes(self.settings, self.versions, "id")
