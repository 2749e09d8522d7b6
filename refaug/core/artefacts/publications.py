"""Which versions of an artefact were ever published, and which ones a check refused: what rolling back may return to.

<root>/<name>/.publications.json    {"published": [version, …], "refused": {version: reason}}

The file is written after `CURRENT`, so that the published version always counts as published, whatever the file says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Self

from refaug.core.errors import Corrupt
from refaug.core.files import read_json, write_json

PUBLICATIONS: Final = ".publications.json"


@dataclass(frozen=True, kw_only=True)
class Publications:
    """The versions that were published at some time, and the refused ones, each with the reason."""

    published: frozenset[str] = frozenset()
    refused: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Return what the folder of an artefact says: nothing, where nothing was published or refused yet."""
        path = folder / PUBLICATIONS
        if not path.exists():
            return cls()
        document = read_json(path)
        published, refused = document.get("published"), document.get("refused")
        if not isinstance(published, list) or not isinstance(refused, dict) or not _are_texts(published, refused):
            raise Corrupt(
                f"{path} does not list versions",
                remedy="delete it, or publish a version: no other counts as published then",
            )
        return cls(published=frozenset(published), refused=dict(refused))

    def with_published(self, version: str) -> Self:
        """Return them with a version that is published now, and therefore no longer refused."""
        refused = {name: reason for name, reason in self.refused.items() if name != version}
        return replace(self, published=self.published | {version}, refused=refused)

    def with_refused(self, version: str, reason: str) -> Self:
        """Return them with a version that a check refused."""
        return replace(self, refused={**self.refused, version: reason})

    def only(self, is_stored: Callable[[str], bool]) -> Self:
        """Return them without the versions that were removed."""
        refused = {name: reason for name, reason in self.refused.items() if is_stored(name)}
        return replace(self, published=frozenset(filter(is_stored, self.published)), refused=refused)

    def write(self, folder: Path) -> None:
        """Write the file of an artefact; the caller holds its lock."""
        write_json(folder / PUBLICATIONS, {"published": sorted(self.published), "refused": dict(self.refused)})


def _are_texts(published: list[Any], refused: dict[str, object]) -> bool:
    return all(isinstance(text, str) for text in (*published, *refused.values()))
