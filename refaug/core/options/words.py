"""Values and numbers in messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_LONGEST: Final = 60
_MOST_BITS: Final = 200  # of a whole number that is written out: the time grows with the square of its digits


def shown(value: object) -> str:
    """Return the beginning of a value; of what is neither a text nor a number, what it is."""
    if value is None:
        return "null"
    if isinstance(value, str):
        text = repr(value[: _LONGEST + 1])
        return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
    if isinstance(value, int | float):
        return number_in_words(value) if not isinstance(value, bool) else str(value).lower()
    if isinstance(value, dict):
        return "an object"
    return "a list" if isinstance(value, list | tuple) else f"a {type(value).__name__}"


def number_in_words(number: float) -> str:
    """Return a number as messages have it."""
    if isinstance(number, int):
        long = f"a number of {number.bit_length():,} bits"
        return f"{number:,}" if number.bit_length() <= _MOST_BITS else long
    return f"{number:,.0f}" if number.is_integer() and abs(number) < 1e15 else f"{number:.10g}"


def size_in_words(size: int) -> str:
    """Return bytes as options take them: with the largest unit that leaves a whole number."""
    power = next((power for power in (3, 2, 1) if size >= 1024**power and size % 1024**power == 0), 0)
    return f"{size >> 10 * power}{('', 'KiB', 'MiB', 'GiB')[power]}"


def in_words(words: Sequence[str], last: str = " and ") -> str:
    """Return words as a list in a sentence."""
    return last.join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)
