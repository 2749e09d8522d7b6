"""Normalisation, which decides what texts are equal."""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Sequence

# ── Unicode categories as character classes, and texts without characters that a terminal or a C library misreads ─────

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


# ── Normalisation, which decides what texts are equal ─────────────────────────────────────────────────────────────────


def normalise(text: str) -> str:
    """Return the form in which texts are compared: for duplicates, exclusions and the rater's positives.

    The text is folded (NFKC and casefold, to a fixed point), and every run of white space (`str.isspace`), control
    and format characters (Cc, Cf), punctuation (P*) and modifier symbols (Sk, such as ^ and `) becomes one space,
    with the ends stripped. Marks after nothing are removed as well: NFKC makes a space and a mark of ´ (it´s), ¨ or
    ‗. Other symbols stay, so `<url>`, `$` and emoji count. A text of punctuation alone keeps it ("?" is not "...");
    there, only white space, control and format characters become a space. Only a text without visible characters
    becomes "". Normalising twice changes nothing.
    """
    if text.isascii():
        return " ".join(_comparable_ascii(text).split()) or _drop_invisible(text.lower())
    return " ".join(_typographic_words(text)) or _normalise_any(text)


def normalised_words(text: str) -> list[str]:
    """Return the words between the spaces of the normalised text."""
    words = _comparable_ascii(text).split() if text.isascii() else _typographic_words(text)
    return words or normalise(text).split()


UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
_FEWEST_WORDS, _FEWEST_UNSPACED = 4, 10  # of characters where words have no spaces between them


def is_distinctive(normalised: str) -> bool:
    """Return whether a normalised text says which dialogue it is of: short ones ("why not", "はい") stand in many."""
    return len(normalised.split()) >= _FEWEST_WORDS or len(UNSPACED.findall(normalised)) >= _FEWEST_UNSPACED


def words_of_all(texts: Sequence[str | None]) -> list[list[str]]:
    """Return the words of each text, as `normalised_words` does; those of ASCII in one go, and none for None."""
    lines = "\n".join(text or "" for text in texts)
    if not lines.isascii() or lines.count("\n") != len(texts) - 1:
        return [normalised_words(text) if text else [] for text in texts]
    words = [line.split() for line in lines.encode().translate(_ASCII_LINES).decode().split("\n")]
    return [of_text or normalised_words(text or "") for of_text, text in zip(words, texts, strict=True)]


def _comparable_ascii(text: str) -> str:
    return text.encode().translate(_ASCII_COMPARABLE).decode()  # three times as fast as translating the text


def _typographic_words(text: str) -> list[str]:
    """Return the words of a text that is ASCII but for marks of typography, which become spaces; others have none."""
    for mark in _TYPOGRAPHIC:
        text = text.replace(mark, " ")
    return _comparable_ascii(text).split() if text.isascii() else []


def _normalise_any(text: str) -> str:
    """Normalise text in any script; the ASCII path is the same function, faster."""
    folded = stream_safe(_fold(stream_safe(text)))
    blanked = _marks_after_space().sub(" ", f" {folded.translate(_COMPARABLE)}")
    return " ".join(blanked.split()) or _drop_invisible(folded)


def _fold(text: str) -> str:
    """Apply NFKC and casefold until neither changes anything.

    No text is known that needs a second round (every code point and millions of sequences with marks were tried),
    but Unicode promises that only for its own casefolding, and making it certain costs little.
    """
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    while (again := unicodedata.normalize("NFKC", folded.casefold())) != folded:
        folded = again
    return folded


def stream_safe(text: str) -> str:
    """Cut runs of more than thirty combining marks in long texts, since normalising takes the square of a run's length.

    Thirty is the limit of Unicode's stream-safe format (UAX #15); no language comes near it.
    """
    return text if len(text) <= _NEVER_SLOW or text.isascii() else _mark_run().sub(r"\1", text)


_NEVER_SLOW = 2_000


@functools.cache
def _mark_run() -> re.Pattern[str]:
    marks = character_class(MARKS)
    return re.compile(f"([{marks}]{{30}})[{marks}]+")


def _drop_invisible(folded: str) -> str:
    """Collapse invisible characters, the only ones to remove from a text of punctuation alone."""
    return " ".join(folded.translate(_SEEN).split())


@functools.cache
def _marks_after_space() -> re.Pattern[str]:
    return re.compile(f" [{character_class(MARKS)}]+")


class _Blanking(dict[int, str]):
    """A table for `str.translate` that fills itself: characters of the given categories become a space."""

    def __init__(self, categories: frozenset[str]) -> None:
        super().__init__()
        self._categories = categories

    def __missing__(self, code_point: int) -> str:
        character = chr(code_point)
        blank = character.isspace() or unicodedata.category(character) in self._categories
        self[code_point] = " " if blank else character
        return self[code_point]


# Punctuation that is a space whatever stands beside it, if that is ASCII.
_TYPOGRAPHIC = "\u2019\u2018\u201c\u201d\u2026\u2013\u2014\u00a0"
_SEEN = _Blanking(INVISIBLE)
_COMPARABLE = _Blanking(INVISIBLE | PUNCTUATION | {"Sk"})
# str.translate is fastest with a string of the first 128 characters.
_ASCII_COMPARABLE = "".join(_COMPARABLE[code_point] for code_point in range(128)).lower().encode() + bytes(128)
_ASCII_LINES = _ASCII_COMPARABLE[:10] + b"\n" + _ASCII_COMPARABLE[11:]  # the same, but for ends of lines
