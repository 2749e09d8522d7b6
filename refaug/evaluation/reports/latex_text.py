"""Texts of users in LaTeX tables: what LaTeX would obey or could not set is escaped."""

from __future__ import annotations

import unicodedata
from typing import Final

from refaug.core.text.characters import make_printable

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
