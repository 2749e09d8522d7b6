"""A table as features make it, and its forms as text; a terminal and a page write it as they can.

In CSV there are quotes where needed, and no text that computes. A description is a table, facts or a line.
"""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Final, Self

from refaug.core.text.normalisation import make_printable

_FIGURES: Final = re.compile(r"(?:[-+−–.,:;·%<>()\[\]\s\d]|e[-+]|nan|to|of)*")
_BAR: Final = re.compile(r"(?<!\\)\|")  # that is not escaped yet


@dataclass(frozen=True)
class Table:
    """Columns and rows under a title; the first column names the rows, and `notes` say why something is missing."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    _: KW_ONLY
    notes: Sequence[str] = ()
    text: bool = False  # whether cells are sentences rather than figures
    apart: frozenset[int] = frozenset()  # rows with a line above

    @classmethod
    def of_json(cls, stored: Mapping[str, Any]) -> Self:
        """Return the table that `as_json` wrote."""
        return cls(**{**stored, "apart": frozenset(stored["apart"])})

    @property
    def number_columns(self) -> frozenset[int]:
        """The places of columns whose cells are all figures, intervals or dashes."""
        return frozenset(
            place
            for place in range(1, len(self.columns))
            if self.rows and all(_FIGURES.fullmatch(str(row[place])) for row in self.rows)
        )

    def as_json(self) -> dict[str, object]:
        """Return the table as JSON."""
        return {
            "title": self.title,
            "columns": list(self.columns),
            "rows": [list(row) for row in self.rows],
            "notes": list(self.notes),
            "text": self.text,
            "apart": sorted(self.apart),
        }

    def as_csv(self) -> str:
        """Return columns and rows as CSV."""
        return csv_text(self.columns, self.rows)

    def as_tsv(self) -> str:
        """Return columns and rows with tabs between them, at full precision; a tab inside a cell is escaped."""
        rows = (
            ("" if cell is None else make_printable(str(cell)) for cell in row) for row in (self.columns, *self.rows)
        )
        return "".join("\t".join(row) + "\n" for row in rows)

    def as_markdown(self, escape: Callable[[str], str]) -> list[str]:
        """Return lines of columns, rows and notes, each text escaped; a bar inside a cell is, too."""
        names, *rows = ([_BAR.sub(r"\\|", escape(text)) for text in row] for row in (self.columns, *self.rows))
        lines = ["| " + " | ".join(row) + " |" for row in (names, ["---"] * len(names), *rows)]
        return [*lines, *(["", *(f"- {escape(note)}" for note in self.notes)] if self.notes else [])]

    def as_latex(self, alignment: str, label: str | None = None, *, is_tight: bool = False) -> str:
        """Return a table, which needs booktabs, with its title as caption; without a label, its rows alone.

        Title, columns and cells are LaTeX; a tight table has little room between its columns.
        """
        lines = [rf"\begin{{tabular}}{{@{{}}{alignment}@{{}}}}", r"\toprule", _latex_row(self.columns), r"\midrule"]
        for place, row in enumerate(self.rows):
            lines += [*([r"\midrule"] if place in self.apart else []), _latex_row(row)]
        lines += [r"\bottomrule", r"\end{tabular}"]
        if label is not None:
            lines = [
                r"\begin{table}",
                r"\centering\footnotesize" + (r"\setlength{\tabcolsep}{3pt}" if is_tight else ""),
                rf"\caption{{{self.title}}}\medskip",
                rf"\label{{tab:{label}}}",
                *lines,
                r"\end{table}",
            ]
        return "\n".join([*lines, ""])


def _latex_row(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \tabularnewline"


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


@dataclass(frozen=True)
class FactList:
    """Names with values, under a title."""

    title: str
    facts: Mapping[str, Any]


Description = FactList | Table | str  # a text is a line of its own
