"""Tables as CSV that pandas, R and spreadsheets read: quotes where needed, and no text that computes."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Final

from refaug.core.text.characters import make_printable

# What begins a text that a spreadsheet would compute; the last four are the same signs in full width.
FORMULA_SIGNS: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def csv_text(columns: Sequence[str] | None, rows: Iterable[Sequence[object]]) -> str:
    r"""Return a header and rows, with commas and `\n`; a text that a spreadsheet takes for a formula has a ' first.

    Without columns there is no header: the rows go on where others ended.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if columns is not None:
        writer.writerow(columns)
    writer.writerows([_cell(content) for content in row] for row in rows)
    return text.getvalue()


def _cell(content: object) -> object:
    if isinstance(content, str):
        text = make_printable(content)
        return f"'{text}" if content.startswith(FORMULA_SIGNS) else text
    return float(content) if isinstance(content, float) else content  # numpy's floats would be written otherwise
