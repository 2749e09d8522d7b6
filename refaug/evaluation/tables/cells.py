"""What cells hold: texts, lists, numbers with a point or a comma, times."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import date, datetime
from typing import Any, Final

import orjson

from refaug.core.text.content_shapes import MAX_DEPTH, is_nested_too_deep, short_repr
from refaug.evaluation.tables.python_lists import BadCell, read_printed_list
from refaug.logs.reading.chat_roles import chat_turns
from refaug.logs.reading.shapes import KNOWN_NAMES

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
    return [cell]


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
