"""What `refaug-client` reads and prints: rows of JSON, replies in them, and tables for people."""

from __future__ import annotations

import json
import math
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, Optional

from ._calls import SYSTEM
from ._errors import RefaugError

REPLY = "reply"  # the field of rows that have replies of one system alone


class BadFile(RefaugError):
    """A file that was handed in cannot be used."""


# ── in ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def read_rows(path: str) -> Iterator[dict[str, Any]]:
    """The objects of a JSONL file, or of stdin for `-`, as they come; BadFile names file and line."""
    with _opened(path) as file:
        try:
            for number, line in enumerate(file, 1):
                at = f"{called(path)}:{number}"
                text = _decoded(line, at, is_first=number == 1)
                if text.strip():
                    yield _object(text, at)
        except OSError as error:
            raise BadFile(f"{called(path)}: {why(error)}") from error


def called(path: str) -> str:
    """What a file is called in messages."""
    return "stdin" if path == "-" else path


@contextmanager
def _opened(path: str) -> Iterator[BinaryIO]:
    if path == "-":
        if sys.stdin is None:
            raise BadFile("stdin is closed")
        yield sys.stdin.buffer
        return
    try:
        file = Path(path).open("rb")  # noqa: SIM115  the error of opening is another one than those of reading
    except (OSError, ValueError) as error:
        raise BadFile(f"{path}: {why(error)}", remedy="a file of JSON lines, or - for stdin") from error
    with file:
        yield file


def _decoded(line: bytes, at: str, *, is_first: bool) -> str:
    try:
        return line.decode("utf-8-sig" if is_first else "utf-8")
    except UnicodeDecodeError as error:
        raise BadFile(f"{at}: not UTF-8: {error.reason}") from error


def _object(text: str, at: str) -> dict[str, Any]:
    try:
        found = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise BadFile(f"{at}: no JSON: {error}", remedy="one object a line, not one that goes over several") from error
    if not isinstance(found, dict):
        raise BadFile(f"{at}: {kind(found)}, and a row is an object")
    return found


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number that JSON has")


def kind(value: object) -> str:
    """What a value of JSON is, in words."""
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


@dataclass(frozen=True)
class Replied:
    """Replies to items of a set: the i-th of every system is to `items[i]`; None is no reply."""

    items: list[str]
    systems: dict[str, list[Optional[str]]]

    def only(self, names: Sequence[str]) -> Replied:
        """The same with these systems alone; BadFile where one has no reply at all."""
        for name in names:
            if name not in self.systems:
                raise BadFile(f"there are no replies of {name!r}", remedy=f"there are: {', '.join(self.systems)}")
        return Replied(self.items, {name: self.systems[name] for name in names}) if names else self


def replies_in(rows: Iterable[Mapping[str, Any]], where: str) -> Replied:
    """Ids and replies out of rows such as {"id": "d1", "reply": "…"} or {"id": "d1", "replies": {"a": "…"}}."""
    items: list[str] = []
    systems: dict[str, list[Optional[str]]] = {}
    for number, row in enumerate(rows, 1):
        at = f"{where}: row {number}"
        items.append(_id(row.get("id"), at))
        for name, text in said_in(row, at).items():
            systems.setdefault(name, [None] * (number - 1)).append(text)
        for texts in systems.values():
            if len(texts) < number:
                texts.append(None)
    if not items:
        raise BadFile(f"{where}: no rows", remedy='such as {"id": "d1", "reply": "At the market."}')
    if not systems:
        raise BadFile(f"{where}: no replies in {len(items):,} rows", remedy='"reply": "…" or "replies": {"NAME": "…"}')
    return Replied(items, systems)


def _id(value: object, at: str) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, str) and value:
        return value
    raise BadFile(f"{at}: id is {kind(value) if value != '' else 'empty'}", remedy="the id of an item of the set")


def said_in(row: Mapping[str, Any], at: str) -> dict[str, Optional[str]]:
    """The replies of a row by system; a single one, in the field `reply`, is the system `model`'s."""
    given = row.get("replies", {})
    if not isinstance(given, dict):
        raise BadFile(f"{at}: replies is {kind(given)}", remedy='"replies": {"NAME": "…"}')
    found: dict[str, Optional[str]] = dict(given)
    if REPLY in row:
        if SYSTEM in found:
            raise BadFile(f"{at}: reply and replies.{SYSTEM} at once", remedy="one of the two")
        found[SYSTEM] = row[REPLY]
    for name, text in found.items():
        if not isinstance(text, (str, type(None))):
            raise BadFile(f"{at}: the reply of {name!r} is {kind(text)}", remedy="a text, or null for none")
    return found


# ── out ───────────────────────────────────────────────────────────────────────────────────────────────────────────


class ReaderGone(Exception):
    """Whoever read our output has closed it: nothing is left to say."""


def say(text: str) -> None:
    """Text on stdout as UTF-8, whatever the locale."""
    if sys.stdout is None:  # closed before we began (>&-)
        raise ReaderGone
    try:
        if (bare := getattr(sys.stdout, "buffer", None)) is None:
            sys.stdout.write(text)
        else:
            bare.write(text.encode("utf-8", "replace"))
        sys.stdout.flush()
    except BrokenPipeError as error:
        raise ReaderGone from error
    except OSError as error:
        raise BadFile(f"the output cannot be written: {why(error)}") from error


def say_json(value: object, *, pretty: bool = False) -> None:
    """One JSON value, on one line unless it is for people as well."""
    say(json.dumps(value, ensure_ascii=False, allow_nan=False, indent=2 if pretty else None) + "\n")


def say_line(text: str = "") -> None:
    """A line for people."""
    say(harmless(text) + "\n")


def note(text: str) -> None:
    """A line on stderr; that nobody reads it changes nothing."""
    if sys.stderr is not None:
        with suppress(OSError, UnicodeEncodeError):
            sys.stderr.write(harmless(text) + "\n")
            sys.stderr.flush()


def say_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Columns with their names; numbers to the right."""
    listed = [[shown(value) for value in row] for row in rows]
    numeric = [bool(listed) and all(_is_number(row[place]) for row in listed) for place in range(len(columns))]
    widths = [max(map(_width, (columns[place], *(row[place] for row in listed)))) for place in range(len(columns))]
    for row in ([*columns], *listed):
        cells = (
            " " * (width - _width(cell)) + cell if right else cell + " " * (width - _width(cell))
            for cell, width, right in zip(row, widths, numeric)
        )
        say("  ".join(cells).rstrip() + "\n")


def shown(value: object) -> str:
    """A value as a cell has it."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4f}" if math.isfinite(value) else str(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(shown(one) for one in value)}]"
    return harmless(str(value))


def _is_number(cell: str) -> bool:
    return cell == "-" or cell.strip("[]").replace(",", "").replace(" ", "").lstrip("+-").replace(".", "").isdigit()


def _width(text: str) -> int:
    """Places that a text takes on a terminal."""
    return sum(
        0 if unicodedata.combining(letter) else 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        for letter in text
    )


def harmless(text: str) -> str:
    """The same without what a terminal would take for orders."""
    return "".join(
        letter if letter.isprintable() or letter == "\n" else letter.encode("unicode_escape").decode("ascii")
        for letter in text
    )


def why(error: Exception) -> str:
    """What is wrong with a file, without its name, which the message has already."""
    said = getattr(error, "strerror", None) or str(error)
    return f"{said[:1].lower()}{said[1:]}"
