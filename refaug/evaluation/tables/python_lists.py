"""Lists as Python prints them, such as pandas writes into CSV: read in one pass, in time that grows with the length.

`ast.literal_eval` reads more, and takes seconds and hundreds of megabytes for a cell of some hundred KiB, during which
no other thread runs.
"""

from __future__ import annotations

import re
from typing import Any, Final

from refaug.core.text.content_shapes import MAX_DEPTH, has_surrogate

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
            raise BadCell("an object with a key that is no text")
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
