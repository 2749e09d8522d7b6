"""Tables as CSV and as LaTeX. In CSV there are quotes where needed, and no text that computes."""

from __future__ import annotations

import csv
import io
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Final

from refaug.core.text.normalisation import make_printable

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


# ── LaTeX tables of papers, and texts of users in them: what LaTeX would obey or could not set is escaped ─────────────

_LATEX_SIGNS: Final = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "{''}",
    "'": "{'}",  # in braces: signs that LaTeX would join with their neighbour
    "`": "{`}",
    "-": "{-}",
}
_OGONEK: Final = "\u0328"  # the only accent that the default encoding lacks
_BREAK_AFTER: Final = frozenset(",=|/;")


def escape_latex(text: str, *, breaks: bool = False) -> str:
    """Escape text for LaTeX; with `breaks`, lines may end after separators.

    Letters with accents stay; other signs that a plain pdfLaTeX cannot set are written as `[U+6771]`.
    """
    parts = []
    for character in make_printable(text):
        sign = _LATEX_SIGNS.get(character) or (character if _latex_knows(character) else f"[U+{ord(character):04X}]")
        parts.append(sign + (r"\allowbreak{}" if breaks and character in _BREAK_AFTER else ""))
    return "".join(parts)


def _latex_knows(character: str) -> bool:
    """Whether a character is ASCII, or an ASCII letter with an accent in Latin-1 or Latin Extended-A."""
    if character.isascii():
        return True
    parts = unicodedata.normalize("NFD", character)
    return "À" <= character <= "ſ" and parts[0].isascii() and _OGONEK not in parts


def latex_table(
    caption: str,
    label: str,
    columns: str,
    head: Sequence[str],
    groups: Iterable[Iterable[Sequence[str]]],
    *,
    is_tight: bool = False,
) -> str:
    """Return a table, which needs booktabs; its groups of rows are set apart by lines.

    Caption, head and cells are LaTeX; a tight table has little room between its columns.
    """
    lines = [
        r"\begin{table}",
        r"\centering\footnotesize" + (r"\setlength{\tabcolsep}{3pt}" if is_tight else ""),
        rf"\caption{{{caption}}}\medskip",
        rf"\label{{tab:{label}}}",
        rf"\begin{{tabular}}{{@{{}}{columns}@{{}}}}",
        r"\toprule",
        _latex_row(head),
    ]
    for rows in groups:
        lines += [r"\midrule", *map(_latex_row, rows)]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])


def _latex_row(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \tabularnewline"
