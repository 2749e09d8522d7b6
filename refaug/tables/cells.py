"""What cells hold: texts, lists, numbers with a point or a comma, times."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import date, datetime
from typing import Any, Final

import orjson

from refaug.core.text.content_shapes import MAX_DEPTH, has_surrogate, is_nested_too_deep, short_repr
from refaug.logs.reading.shapes import KNOWN_NAMES, chat_turns

# ── ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────
#
# Lists as Python prints them, such as pandas writes into CSV: read in one pass, in time that grows with the length.
#
# `ast.literal_eval` reads more, and takes seconds and hundreds of megabytes for a cell of some hundred KiB, during
# which no other thread runs.

MAX_CHARS: Final = 1 << 18
_MOST_DIGITS: Final = 18  # all such numbers fit into 64 bits, as JSON is written
_MARKS: Final = {"[": "]", "(": ")", "{": "}"}
_TOKEN: Final = re.compile(
    r"""[ \t\r\n\f]*+(?:
      (?P<mark>[\[\](){},:])
    | (?P<text>'(?:[^'\\\r\n\0]++|\\.)*+' | "(?:[^"\\\r\n\0]++|\\.)*+")
    | (?P<number>-?(?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(?:[eE][-+]?[0-9]++)?+)
    | (?P<word>None|True|False|nan)
    )""",
    re.VERBOSE,
)
_WHOLE: Final = re.compile(r"-?(?:0|[1-9][0-9]*+)")
_DIGITS: Final = re.compile(r"-?[0-9]++")
_ESCAPE: Final = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))")
_ESCAPED: Final = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\", "'": "'", '"': '"'}
_WORDS: Final = {"None": None, "True": True, "False": False, "nan": float("nan")}


class BadCell(Exception):
    """A cell that does not hold what its column should."""


class _NotPrinted(Exception):
    """Text that Python prints for no list."""


def read_printed_list(text: str) -> list[Any] | tuple[Any, ...] | None:
    """Return the list or tuple that a text spells, None where it spells none; BadCell for what no item can hold.

    That is: halves of characters, whole numbers beyond 64 bits, objects with keys that are no texts, lists nested
    deeper than `MAX_DEPTH`, and lists of more than `MAX_CHARS` characters.
    """
    if len(text) > MAX_CHARS:
        raise BadCell(f"a list of {len(text):,} characters, not in JSON; at most {MAX_CHARS:,} are read: write JSON")
    if has_surrogate(text):
        raise BadCell("half a character")
    try:
        reader = _Tokens(text)
        content = _content(reader, 0)
        reader.require_end()
    except _NotPrinted:
        return None
    return content if isinstance(content, list | tuple) else None


class _Tokens:
    """The tokens of a text, one after the other."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text.rstrip(" \t\r\n\f"), 0
        self.kind, self.lexeme = "", ""
        self.advance()

    def advance(self) -> None:
        """Go to the next lexeme; there is none of a kind at the end."""
        if self._at == len(self._text):
            self.kind = self.lexeme = ""
            return
        match = _TOKEN.match(self._text, self._at)
        if match is None or match.lastgroup is None:
            raise _NotPrinted
        self.kind, self._at = match.lastgroup, match.end()
        self.lexeme = match[self.kind]

    def require_end(self) -> None:
        """Raise where something follows the list."""
        if self.kind:
            raise _NotPrinted

    def take(self, mark: str) -> None:
        """Go past a mark; raise for anything else."""
        if self.lexeme != mark:
            raise _NotPrinted
        self.advance()


def _content(tokens: _Tokens, depth: int) -> Any:
    kind, lexeme = tokens.kind, tokens.lexeme
    if kind == "mark" and lexeme in _MARKS:
        if depth == MAX_DEPTH:
            raise BadCell(f"lists nested deeper than {MAX_DEPTH}")
        tokens.advance()
        return _object(tokens, depth + 1) if lexeme == "{" else _list(tokens, _MARKS[lexeme], depth + 1)
    tokens.advance()
    if kind == "text":
        return _unescaped(lexeme[1:-1])
    if kind == "number":
        return _number(lexeme)
    if kind == "word":
        return _WORDS[lexeme]
    raise _NotPrinted


def _list(tokens: _Tokens, end: str, depth: int) -> Any:
    parts, has_comma = list[Any](), False
    while tokens.lexeme != end:
        if parts and not has_comma:
            raise _NotPrinted
        parts.append(_content(tokens, depth))
        has_comma = tokens.lexeme == ","
        if has_comma:
            tokens.advance()
    tokens.advance()
    if end == "]":
        return parts
    if len(parts) == 1 and not has_comma:
        raise _NotPrinted  # a single value in brackets, or a remark
    return tuple(parts)


def _object(tokens: _Tokens, depth: int) -> dict[str, object]:
    parts, has_comma = dict[str, object](), True
    while tokens.lexeme != "}":
        if not has_comma:
            raise _NotPrinted
        key = _content(tokens, depth)
        tokens.take(":")
        if not isinstance(key, str):
            raise BadCell("an object with a key that is not a text")
        parts[key] = _content(tokens, depth)
        has_comma = tokens.lexeme == ","
        if has_comma:
            tokens.advance()
    tokens.advance()
    return parts


def _number(lexeme: str) -> int | float:
    if not _DIGITS.fullmatch(lexeme):
        return float(lexeme)
    if not _WHOLE.fullmatch(lexeme):
        raise _NotPrinted  # 007
    digits = len(lexeme.lstrip("-"))
    if digits > _MOST_DIGITS:
        raise BadCell(f"a whole number of {digits:,} digits; at most {_MOST_DIGITS} are read")
    return int(lexeme)


def _unescaped(text: str) -> str:
    if "\\" in text:
        text = _ESCAPE.sub(_character, text)
    return text


def _character(escape: re.Match[str]) -> str:
    if escape[4] is not None:
        if escape[4] not in _ESCAPED:
            raise _NotPrinted
        return _ESCAPED[escape[4]]
    code = int(escape[1] or escape[2] or escape[3], 16)
    if 0xD800 <= code <= 0xDFFF:
        raise BadCell(f"half a character, {escape[0]}")
    if code > 0x10FFFF:
        raise _NotPrinted
    return chr(code)


# ── What cells hold: texts, lists, numbers with a point or a comma, times ─────────────────────────────────────────────

_LISTS: Final = (("[", "]"), ("(", ")"))
_COMMA_NUMBER: Final = re.compile(r"[-+]?\d+,(\d+)")
_THOUSANDS: Final = 3  # digits behind a comma that may as well set thousands apart
_LONGEST_SHOWN: Final = 40


def is_empty(cell: object) -> bool:
    """Whether a cell holds nothing: no value, not a number, or blanks."""
    return (
        cell is None or (isinstance(cell, float) and math.isnan(cell)) or (isinstance(cell, str) and not cell.strip())
    )


def shown(cell: object) -> str:
    """Return the beginning of a cell for messages."""
    return short_repr(cell, _LONGEST_SHOWN)


def plain_text(cell: object) -> object:
    """Return a whole number of a spreadsheet or data frame as its digits; other cells stay."""
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return str(cell) if isinstance(cell, int) and not isinstance(cell, bool) else cell


def listed(cell: object) -> list[Any] | None:
    """Return the list that a cell is or spells, as JSON or as Python prints it; None for anything else.

    BadCell where it spells one that no item can hold.
    """
    if isinstance(cell, list | tuple):
        return list(cell)
    if not isinstance(cell, str):
        return None
    text = cell.strip()
    if not any(text.startswith(start) and text.endswith(end) for start, end in _LISTS):
        return None
    try:
        content = orjson.loads(text)
    except orjson.JSONDecodeError:
        content = read_printed_list(text)
    if is_nested_too_deep(content):
        raise BadCell(f"lists nested deeper than {MAX_DEPTH}")
    return list(content) if isinstance(content, list | tuple) else None


def reference_texts(cell: object) -> list[Any]:
    """Return the references of a cell: none, one text, or a list of texts or objects."""
    if is_empty(cell):
        return []
    content = listed(cell)
    if content is not None and (not isinstance(cell, str) or all(isinstance(text, str | dict) for text in content)):
        return [reference for reference in content if not is_empty(reference)]
    return [plain_text(cell)]


def turn_texts(cell: object) -> list[str]:
    """Return the turns of a cell: a list of texts or chat messages, as it is or as JSON."""
    content = listed(cell)
    if content is None:
        raise BadCell(f"{shown(cell)} is not a list of turns")
    texts = list[str]()
    for place, turn in chat_turns(content).turns:
        text = turn if isinstance(turn, str) else _text_of_turn(turn)
        if text is None:
            raise BadCell(f"turn {place + 1} has no text: {shown(turn)}")
        texts.append(text)
    return texts


def _text_of_turn(turn: object) -> str | None:
    if not isinstance(turn, dict):
        return None
    return next((turn[name] for name in KNOWN_NAMES["text"] if isinstance(turn.get(name), str)), None)


def number(cell: object, *, has_decimal_commas: bool) -> float | None:
    """Return the number of a cell, None for an empty one; BadCell for other content.

    A comma is read as a decimal one where it can be nothing else: in a table whose cells are set apart by semicolons,
    and elsewhere unless three digits follow it.
    """
    if is_empty(cell):
        return None
    if isinstance(cell, bool) or not isinstance(cell, int | float | str):
        raise BadCell(f"{shown(cell)} is not a number")
    text = cell.strip() if isinstance(cell, str) else cell
    if isinstance(text, str) and (match := _COMMA_NUMBER.fullmatch(text)):
        if len(match[1]) == _THOUSANDS and not has_decimal_commas:
            raise BadCell(f"{shown(cell)} may be a decimal or a thousand: write it with a point")
        text = text.replace(",", ".")
    try:
        return float("" if isinstance(text, str) and "_" in text else text)  # Python reads 1_000 as a number
    except (ValueError, OverflowError):
        raise BadCell(f"{shown(cell)} is not a number") from None


def numbers(cell: object, *, has_decimal_commas: bool) -> list[float | None]:
    """Return the numbers of a cell with one for each annotator: a list, or text with commas or | between."""
    content = listed(cell)
    if content is not None:
        return [number(part, has_decimal_commas=has_decimal_commas) for part in content]
    if not isinstance(cell, str):
        return [number(cell, has_decimal_commas=has_decimal_commas)]
    if "|" in cell:
        parts: Sequence[str] = cell.split("|")
    elif has_decimal_commas and _COMMA_NUMBER.fullmatch(cell.strip()):
        raise BadCell(
            f"{shown(cell)} may be one rating or two: map rating instead of ratings for a decimal comma, or put | "
            "between two"
        )
    else:
        parts = cell.split(",")
    return [number(part, has_decimal_commas=has_decimal_commas) for part in parts]


def moment(cell: object) -> object:
    """Return a time of a data frame in ISO 8601; text stays."""
    return cell.isoformat() if isinstance(cell, datetime | date) else cell
