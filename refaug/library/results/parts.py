"""What several results have: versions, and items that could not be used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from refaug.evaluation.scoring.items import BadItem


@dataclass(frozen=True, kw_only=True)
class ArtefactVersions:
    """The artefacts behind a result, such as `chat@2026-11-20.1#9f2c41d07e12`; None where there is none."""

    index: str | None = None
    rater: str | None = None

    @classmethod
    def of(cls, names: Mapping[str, str]) -> Self:
        """Read them from the provenance of references."""
        return cls(index=names.get("index"), rater=names.get("rater"))


@dataclass(frozen=True, kw_only=True)
class ItemProblem:
    """An item that could not be used."""

    message: str  # what is wrong, and what would be right
    field: str = ""  # such as `items[3].references[0].weight`
    item: str | None = None  # the id of the item, where it has one
    place: int | None = None  # of the item in the list, from 0

    @classmethod
    def of(cls, bad: BadItem) -> Self:
        """Describe a bad item; its line is its place, counted from 1."""
        at = f"{bad.file}[{bad.line - 1}]"
        field = f"{at}.{bad.field}" if bad.field else at
        return cls(message=bad.message, field=field, item=bad.item, place=bad.line - 1)

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


def shorten(text: str, most: int = 60) -> str:
    """Return a text for a repr."""
    return repr(text) if len(text) <= most else f"{text[:most]!r}…"


def format_score(score: float | None, interval: tuple[float, float] | None = None) -> str:
    """Return a score for people, with its interval."""
    number = "none" if score is None else f"{score:.4f}"
    return number if interval is None else f"{number} [{interval[0]:.4f}, {interval[1]:.4f}]"
