"""Unicode categories as character classes, and texts without characters that a terminal or a C library misreads."""

from __future__ import annotations

import re
import unicodedata

INVISIBLE = frozenset({"Cc", "Cf"})
PUNCTUATION = frozenset({"Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po"})
MARKS = frozenset({"Mn", "Mc", "Me"})


def character_class(categories: frozenset[str]) -> str:
    """Return the characters of these categories as ranges for a regular expression's [...]."""
    ranges: list[list[int]] = []
    for code_point in (*range(0x20000), *range(0xE0000, 0xE1000)):  # the planes that have marks or punctuation
        if unicodedata.category(chr(code_point)) in categories:
            if ranges and ranges[-1][1] == code_point - 1:
                ranges[-1][1] = code_point
            else:
                ranges.append([code_point, code_point])
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in ranges)


def make_printable(text: str) -> str:
    """Return foreign text as one line without characters that a terminal obeys: escapes, bells, changed directions."""
    if text.isprintable():
        return text
    return "".join(
        character if _is_shown(character) else character.encode("unicode_escape").decode() for character in text
    )


def _is_shown(character: str) -> bool:
    """Return whether a character is printable, a wide or fixed space, or a joiner of Persian or emoji."""
    return character.isprintable() or character in "\u200c\u200d" or unicodedata.category(character) == "Zs"


_SURROGATES = re.compile("[\ud800-\udfff]")


def make_encodable(text: str) -> str:
    """Return text that a C library accepts: a lone surrogate becomes U+FFFD, as decoders do, and NUL a space."""
    if "\0" in text:
        text = text.replace("\0", " ")
    if not text.isascii():
        text = _SURROGATES.sub("\ufffd", text)
    return text
