"""Small tables for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

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
