"""The input of `refaug-client`: rows of JSON, and the replies in them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, Optional

from refaug_client._api.bodies import SYSTEM
from refaug_client._core.errors import RefaugError

REPLY = "reply"  # the field of rows that have replies of one system alone


class BadFile(RefaugError):
    """A file that was handed in cannot be used."""


def read_rows(path: str) -> Iterator[dict[str, object]]:
    """Yield the objects of a JSONL file, or of stdin for `-`, as they come; BadFile names file and line."""
    with _open(path) as file:
        try:
            for number, line in enumerate(file, 1):
                place = f"{display_name(path)}:{number}"
                text = _decode(line, place, is_first=number == 1)
                if text.strip():
                    yield _parse_object(text, place)
        except OSError as error:
            raise BadFile(f"{display_name(path)}: {reason_of(error)}") from error


def display_name(path: str) -> str:
    """Return the name of a file in messages."""
    return "stdin" if path == "-" else path


@contextmanager
def _open(path: str) -> Iterator[BinaryIO]:
    if path == "-":
        if sys.stdin is None:
            raise BadFile("stdin is closed")
        yield sys.stdin.buffer
        return
    try:
        file = Path(path).open("rb")  # noqa: SIM115  errors of opening are reported differently
    except (OSError, ValueError) as error:
        raise BadFile(f"{path}: {reason_of(error)}", remedy="a file of JSON lines, or - for stdin") from error
    with file:
        yield file


def _decode(line: bytes, place: str, *, is_first: bool) -> str:
    try:
        return line.decode("utf-8-sig" if is_first else "utf-8")
    except UnicodeDecodeError as error:
        raise BadFile(f"{place}: not UTF-8: {error.reason}") from error


def _parse_object(text: str, place: str) -> dict[str, object]:
    try:
        row = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise BadFile(
            f"{place}: no JSON: {error}", remedy="one object a line, not one that goes over several"
        ) from error
    if not isinstance(row, dict):
        raise BadFile(f"{place}: {describe_kind(row)}, and a row is an object")
    return row


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number that JSON has")


def describe_kind(content: object) -> str:
    """Return the type of a JSON value, in words."""
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return names.get(type(content), "a number")


@dataclass(frozen=True)
class SystemReplies:
    """Replies to items of a set: the i-th of every system is to `items[i]`; None is no reply."""

    items: list[str]
    systems: dict[str, list[Optional[str]]]

    def only(self, names: Sequence[str]) -> SystemReplies:
        """Return the replies of these systems only; BadFile where one of them has none."""
        for name in names:
            if name not in self.systems:
                raise BadFile(f"there are no replies of {name!r}", remedy=f"there are: {', '.join(self.systems)}")
        return SystemReplies(self.items, {name: self.systems[name] for name in names}) if names else self


def read_replies(rows: Iterable[Mapping[str, Any]], where: str) -> SystemReplies:
    """Read ids and replies from rows such as {"id": "d1", "reply": "…"} or {"id": "d1", "replies": {"a": "…"}}."""
    items: list[str] = []
    systems: dict[str, list[Optional[str]]] = {}
    for number, row in enumerate(rows, 1):
        place = f"{where}: row {number}"
        items.append(_read_id(row.get("id"), place))
        for name, text in _read_row_replies(row, place).items():
            systems.setdefault(name, [None] * (number - 1)).append(text)
        for texts in systems.values():
            if len(texts) < number:
                texts.append(None)
    if not items:
        raise BadFile(f"{where}: no rows", remedy='such as {"id": "d1", "reply": "At the market."}')
    if not systems:
        raise BadFile(f"{where}: no replies in {len(items):,} rows", remedy='"reply": "…" or "replies": {"NAME": "…"}')
    return SystemReplies(items, systems)


def _read_id(item_id: object, place: str) -> str:
    if isinstance(item_id, int) and not isinstance(item_id, bool):
        return str(item_id)
    if isinstance(item_id, str) and item_id:
        return item_id
    raise BadFile(
        f"{place}: id is {describe_kind(item_id) if item_id != '' else 'empty'}", remedy="the id of an item of the set"
    )


def _read_row_replies(row: Mapping[str, Any], place: str) -> dict[str, Optional[str]]:
    """Return the replies of a row by system; a single one, in the field `reply`, is that of the system `model`."""
    row_replies = row.get("replies", {})
    if not isinstance(row_replies, dict):
        raise BadFile(f"{place}: replies is {describe_kind(row_replies)}", remedy='"replies": {"NAME": "…"}')
    replies: dict[str, Optional[str]] = dict(row_replies)
    if REPLY in row:
        if SYSTEM in replies:
            raise BadFile(f"{place}: reply and replies.{SYSTEM} at once", remedy="one of the two")
        replies[SYSTEM] = row[REPLY]
    for name, text in replies.items():
        if not isinstance(text, (str, type(None))):
            raise BadFile(f"{place}: the reply of {name!r} is {describe_kind(text)}", remedy="a text, or null for none")
    return replies


def reason_of(error: Exception) -> str:
    """Return what is wrong with a file, without its name, which the message has already."""
    reason = getattr(error, "strerror", None) or str(error)
    return f"{reason[:1].lower()}{reason[1:]}"
