"""What several results have: versions, and items that could not be used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from refaug.core.errors import MissingPart, Usage

if TYPE_CHECKING:
    from refaug.scoring.items import BadItem


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


# ── Small tables for notebooks ────────────────────────────────────────────────────────────────────────────────────────

_MOST_ROWS: Final = 20


def html_table(
    caption: str, columns: Sequence[str], rows: Sequence[Sequence[object]], notes: Iterable[str] = ()
) -> str:
    """Return a table with its first rows, and notes below it; every text is escaped."""
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(f'<td>{_cell(cell)}</td>' for cell in row)}</tr>" for row in rows[:_MOST_ROWS])
    more = [f"and {len(rows) - _MOST_ROWS:,} more rows"] if len(rows) > _MOST_ROWS else []
    below = "".join(f"<div><small>{escape(note)}</small></div>" for note in [*more, *notes])
    return f"<table><caption>{escape(caption)}</caption><tr>{head}</tr>{body}</table>{below}"


def _cell(cell: object) -> str:
    if cell is None:
        return ""
    return f"{cell:.4f}" if isinstance(cell, float) else escape(str(cell))


# ── Rows as frames of pandas or polars, or a dataset of Hugging Face; each library is imported when it is asked for ───

FrameKind = Literal["pandas", "polars", "datasets"]
_KINDS: Final = ("pandas", "polars", "datasets")


def make_frame(rows: Sequence[Mapping[str, Any]], kind: str = "pandas", *, columns: Sequence[str] = ()) -> Any:
    """Return a frame with these rows; `columns` come first, and exist even without rows."""
    if kind not in _KINDS:
        raise Usage(f"{kind!r} makes no frames", remedy=f"one of: {', '.join(_KINDS)}")
    try:
        library = import_module(kind)
    except ImportError as error:
        raise MissingPart(
            f"{kind} is not installed here: {error}", remedy=f"pip install {kind}, or to_dict()"
        ) from error
    names = list(dict.fromkeys([*columns, *(name for row in rows for name in row)]))
    table = {name: [row.get(name) for row in rows] for name in names}
    if kind == "polars":
        return library.DataFrame(table, strict=False)  # whole numbers among floats become floats
    if kind == "datasets":
        return library.Dataset.from_dict(table)
    return library.DataFrame(table, columns=names)
