"""Shapes: what a row means. A row is a dialogue, a pair, or a message of a tree; the field names can be mapped.

Rows become columns at once, since a million small objects cost more than the cleaning does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from email.utils import parsedate_to_datetime
from enum import StrEnum
from operator import methodcaller
from types import MappingProxyType
from typing import Any, Final

from core.errors import Usage
from core.logs.rows import Row
from core.logs.sources import BadRow


class Shape(StrEnum):
    """What one row of a source stands for."""

    DIALOGUES = "dialogues"
    PAIRS = "pairs"
    MESSAGES = "messages"
    TURNS = "turns"  # single turns, each naming its conversation; the order of the rows is that of the talk


# Field of ours → names it goes by in the wild, tried in this order when --map does not say.
KNOWN_NAMES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "turns": ("turns", "utterances", "messages", "conversation", "conversations", "dialog", "dialogue"),
        "utterance": ("utterance", "context", "question", "prompt", "query", "message", "input", "source", "post"),
        "response": ("response", "reply", "answer", "completion", "output", "target", "label"),
        "id": ("id", "dialogue_id", "dialog_id", "conversation_id", "conv_id", "message_id", "msg_id"),
        "parent": ("parent", "parent_id", "reply_to", "reply-to", "in_reply_to"),
        "root": ("root", "root_id", "conversation_id", "link_id", "thread_id"),
        "text": ("text", "body", "content", "message", "utterance", "value"),
        "speaker": ("speaker", "speaker_id", "user", "author", "from", "role", "name"),
        "time": ("time", "timestamp", "created_utc", "created_at", "date", "ts"),
        "tags": ("tags", "split", "label_set"),
    }
)
MESSAGE_IDS: Final = ("id", "message_id", "msg_id")  # a message's own; the other ids are its conversation's
TURN_IDS: Final = ("turn_id", "utterance_id", "message_id", "msg_id", "turn", "turn_number", "id")
CONVERSATION_IDS: Final = (
    *("conversation_id", "dialogue_id", "dialog_id", "conv_id", "call_id", "session_id", "chat_id", "ticket_id"),
    *("thread_id", "root", "root_id"),
)
REQUIRED: Final[Mapping[Shape, tuple[str, ...]]] = MappingProxyType(
    {
        Shape.DIALOGUES: ("turns",),
        Shape.PAIRS: ("utterance", "response"),
        Shape.MESSAGES: ("id", "parent", "text"),
        Shape.TURNS: ("root", "text"),
    }
)
OPTIONAL: Final[Mapping[Shape, tuple[str, ...]]] = MappingProxyType(
    {
        Shape.DIALOGUES: ("id", "text", "speaker", "time", "tags"),
        Shape.PAIRS: ("id", "speaker", "time", "tags"),
        Shape.MESSAGES: ("root", "speaker", "time", "tags"),
        Shape.TURNS: ("id", "speaker", "time", "tags"),
    }
)
SINGLE: Final = (Shape.MESSAGES, Shape.TURNS)  # rows that are not whole: they find each other when all are read


@dataclass(frozen=True, kw_only=True)
class Fields:
    """Which field of a source holds what; dots lead into objects (`user.screen_name`), unless they are in the name."""

    names: Mapping[str, str] = field(default_factory=dict)

    def get(self, name: str) -> Callable[[Row], Any]:
        """A function that takes this field out of a row, None where the row has none."""
        source = self.names.get(name)
        if source is None:
            return lambda _row: None
        path = source.split(".")
        if len(path) == 1:
            return methodcaller("get", source)
        return lambda row: row[source] if source in row else _inside(row, path)


def _inside(row: Any, path: Sequence[str]) -> Any:
    for name in path:
        if not isinstance(row, Mapping):
            return None
        row = row.get(name)
    return row


def parse_map(options: Iterable[str]) -> dict[str, str]:
    """`--map FIELD=column …` as a mapping, or Usage."""
    mapped: dict[str, str] = {}
    for option in options:
        name, equals, column = option.partition("=")
        if name not in KNOWN_NAMES or not equals or not column:
            raise Usage(f"--map {option!r} is not FIELD=column", remedy=f"fields are: {', '.join(KNOWN_NAMES)}")
        mapped[name] = column
    return mapped


@dataclass(slots=True)
class TurnColumns:
    """Dialogues turn after turn; `first[d]` is the index of dialogue d's first turn."""

    ids: list[str | None] = field(default_factory=list)  # one a dialogue, as are the next three
    lines: list[int] = field(default_factory=list)
    first: list[int] = field(default_factory=list)
    tags: list[tuple[str, ...] | None] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)  # one a turn, as are the next two
    speakers: list[str | None] = field(default_factory=list)
    times: list[int | None] = field(default_factory=list)  # microseconds since 1970, UTC
    bad: list[BadRow] = field(default_factory=list)
    unreadable_times: int = 0


@dataclass(slots=True)
class MessageColumns:
    """Messages of trees, one an entry in every list."""

    lines: list[int] = field(default_factory=list)
    ids: list[str | None] = field(default_factory=list)
    parents: list[str | None] = field(default_factory=list)
    roots: list[str | None] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    speakers: list[str | None] = field(default_factory=list)
    times: list[int | None] = field(default_factory=list)
    tags: list[tuple[str, ...] | None] = field(default_factory=list)
    bad: list[BadRow] = field(default_factory=list)
    unreadable_times: int = 0


Rows = Iterable["tuple[int, Row] | BadRow"]


def dialogue_columns(rows: Rows, fields: Fields, place: str = "line") -> TurnColumns:
    """Rows that hold whole dialogues: turns as strings, or as objects with text, speaker and time."""
    columns = TurnColumns()
    turns_of, id_of, tags_of = fields.get("turns"), fields.get("id"), fields.get("tags")
    inner = _TurnFields(fields)
    for row in rows:
        if isinstance(row, BadRow):
            columns.bad.append(row)
            continue
        number, values = row
        turns = turns_of(values)
        if type(turns) is not list or not turns:
            columns.bad.append(_no_turns(number, fields, values, turns, place))
            continue
        first = len(columns.texts)
        kinds = set(map(type, turns))
        if kinds == {str}:
            columns.texts.extend(turns)
            columns.speakers.extend([None] * len(turns))
            columns.times.extend([None] * len(turns))
        else:
            unreadable_times = columns.unreadable_times
            wrong = inner.add(turns, columns)
            if wrong is not None:
                del columns.texts[first:], columns.speakers[first:], columns.times[first:]
                columns.unreadable_times = unreadable_times
                columns.bad.append(BadRow(line=number, reason="fields", message=wrong, place=place))
                continue
        columns.first.append(first)
        columns.lines.append(number)
        columns.ids.append(as_id(id_of(values)))
        columns.tags.append(as_tags(tags_of(values)))
    return columns


class _TurnFields:
    """Taking text, speaker and time out of turns that are objects."""

    def __init__(self, fields: Fields) -> None:
        self._mapped = {name: fields.get(name) for name in ("text", "speaker", "time") if name in fields.names}

    def add(self, turns: Sequence[Any], columns: TurnColumns) -> str | None:
        """Append the turns, or say what is wrong with one of them."""
        for index, turn in enumerate(turns):
            if not isinstance(turn, str | Mapping):
                return f"turns[{index}] is {_kind(turn)}; a string, or an object with text, is expected"
            said = {"text": turn} if isinstance(turn, str) else turn
            text, speaker, moment = (self._value(said, name) for name in ("text", "speaker", "time"))
            if not isinstance(text, str):
                return f"turns[{index}].text is {_kind(text)}; a string is expected"
            columns.texts.append(text)
            columns.speakers.append(as_id(speaker))
            columns.times.append(_time(moment, columns))
        return None

    def _value(self, turn: Mapping[str, Any], name: str) -> Any:
        mapped = self._mapped.get(name)
        if mapped is not None and (value := mapped(turn)) is not None:
            return value
        return next((turn[known] for known in KNOWN_NAMES[name] if known in turn), None)


def _no_turns(number: int, fields: Fields, values: Row, turns: object, place: str) -> BadRow:
    name = fields.names.get("turns", "turns")
    if turns is None:
        message = f"no field {name!r}; the row has {', '.join(list(values)[:8]) or 'none'}"
    else:
        message = f"{name!r} is {_kind(turns)}; a list with at least one turn is expected"
    return BadRow(line=number, reason="fields", message=message, place=place)


def pair_columns(rows: Rows, fields: Fields, place: str = "line") -> TurnColumns:
    """Rows that hold an utterance and its response: dialogues of two turns."""
    columns = TurnColumns()
    utterance_of, response_of, id_of = fields.get("utterance"), fields.get("response"), fields.get("id")
    speaker_of, time_of, tags_of = fields.get("speaker"), fields.get("time"), fields.get("tags")
    for row in rows:
        if isinstance(row, BadRow):
            columns.bad.append(row)
            continue
        number, values = row
        utterance, response = utterance_of(values), response_of(values)
        if not (isinstance(utterance, str) and isinstance(response, str)):
            name, value = ("response", response) if isinstance(utterance, str) else ("utterance", utterance)
            message = f"{fields.names.get(name, name)!r} is {_kind(value)}; a string is expected"
            columns.bad.append(BadRow(line=number, reason="fields", message=message, place=place))
            continue
        columns.first.append(len(columns.texts))
        columns.lines.append(number)
        columns.ids.append(as_id(id_of(values)))
        columns.tags.append(as_tags(tags_of(values)))
        columns.texts += (utterance, response)
        columns.speakers += (None, as_id(speaker_of(values)))
        columns.times += (None, _time(time_of(values), columns))
    return columns


def message_columns(
    rows: Rows, fields: Fields, preset: str, place: str = "line", shape: Shape = Shape.MESSAGES
) -> MessageColumns:
    """Rows that hold single messages, each naming the message it replies to (none: it begins a tree), or its talk."""
    columns = MessageColumns()
    needed = "root" if shape is Shape.TURNS else "id"
    of = {name: fields.get(name) for name in (*REQUIRED[Shape.MESSAGES], *OPTIONAL[Shape.MESSAGES])}
    adjust = _ADJUST.get(preset)
    for row in rows:
        if isinstance(row, BadRow):
            columns.bad.append(row)
            continue
        number, values = row
        found = {name: get(values) for name, get in of.items()}
        if adjust is not None:
            adjust(values, found)
        identity, text = as_id(found["id"]), found["text"]
        if shape is Shape.TURNS and not isinstance(text, str):
            text = ""  # silence is a turn too: left out of the row, it would make neighbours of those around it
        known = as_id(found[needed])
        if known is None or not isinstance(text, str):
            name, value, expected = (
                ("text", text, "a string") if known else (needed, found[needed], "a name or a whole number")
            )
            message = f"{fields.names.get(name, name)!r} is {_kind(value)}; {expected} is expected"
            columns.bad.append(BadRow(line=number, reason="fields", message=message, place=place))
            continue
        columns.lines.append(number)
        columns.ids.append(identity)
        columns.parents.append(as_id(found["parent"]))
        columns.roots.append(as_id(found["root"]))
        columns.texts.append(text)
        columns.speakers.append(as_id(found["speaker"]))
        columns.times.append(_time(found["time"], columns))
        columns.tags.append(as_tags(found["tags"]))
    return columns


# ── presets whose fields need more than another name ──────────────────────────────────────────────────────────────


def _reddit(values: Row, found: dict[str, Any]) -> None:
    """Comments name their parent with a prefix (t1_ comment, t3_ submission) that ids lack; submissions have titles."""
    identity = found["id"]
    if not isinstance(identity, str):
        return
    submission = not values.get("parent_id") and ("title" in values or "selftext" in values)
    if not identity.startswith(("t1_", "t3_")):
        found["id"] = ("t3_" if submission else "t1_") + identity
    if submission:
        body = values.get("selftext")
        title = values.get("title") if isinstance(values.get("title"), str) else ""
        gone = body in (None, "", *_REDDIT_GONE)
        found["text"] = title if gone else f"{title}\n{body}"
        found["parent"] = found["root"] = None
    if found["speaker"] in _REDDIT_GONE:
        found["speaker"] = None  # else all whose accounts are gone were one person
    if isinstance(found["tags"], str):
        found["tags"] = found["tags"].lower()


_REDDIT_GONE: Final = ("[deleted]", "[removed]")


def _twitter(values: Row, found: dict[str, Any]) -> None:
    """Long tweets keep their text in `full_text`; old dumps have ids only as numbers, which some readers round."""
    found["text"] = _inside(values, ("extended_tweet", "full_text")) or values.get("full_text") or found["text"]
    found["id"] = found["id"] or values.get("id")
    found["parent"] = found["parent"] or values.get("in_reply_to_status_id")


_ADJUST: Final[Mapping[str, Callable[[Row, dict[str, Any]], None]]] = MappingProxyType(
    {"reddit": _reddit, "twitter": _twitter}
)

# ── values ────────────────────────────────────────────────────────────────────────────────────────────────────────


def as_id(value: object) -> str | None:
    """An id or a name as text; numbers become their digits, objects give their own id (ConvoKit's speakers)."""
    if isinstance(value, str):
        return value.strip() or None
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return str(int(value)) if math.isfinite(value) and value == int(value) else None
    inner = value.get("id") if isinstance(value, Mapping) else None
    return None if isinstance(inner, Mapping) else as_id(inner)


def as_tags(value: object) -> tuple[str, ...] | None:
    """Tags from a string or a list of strings; anything else is none."""
    if isinstance(value, str):
        return (value,) if value else None
    if isinstance(value, list):
        return tuple(tag for tag in value if isinstance(tag, str)) or None
    return None


def _time(value: object, columns: TurnColumns | MessageColumns) -> int | None:
    """A time as microseconds; one that cannot be read is counted and left out, since the text is still good."""
    if value is None or value == "":
        return None
    moment = as_time(value)
    columns.unreadable_times += moment is None
    return moment


def as_time(value: object) -> int | None:
    """Microseconds since 1970 in UTC, from seconds or fractions of them (by size), ISO 8601, or a mail-style date.

    Only moments of the years 1 to 9999 can be shown again; any other is none.
    """
    moment = _as_time(value)
    return moment if moment is not None and _FIRST <= moment <= _LAST else None


def _as_time(value: object) -> int | None:
    if isinstance(value, date):
        return _micros(value)
    if isinstance(value, str):
        return _time_from_text(value.strip())
    if isinstance(value, bool) or not isinstance(value, int | float) or not -1e20 < value < 1e20:
        return None
    # A number above 1e11 would be seconds after the year 5000, and in the next smaller unit it is after 1973.
    units = (1_000_000, 1_000, 1, 1e-3)
    return round(value * units[sum(abs(value) > limit for limit in (1e11, 1e14, 1e17))])


def _time_from_text(text: str) -> int | None:
    try:
        return as_time(float(text))
    except ValueError:
        pass
    for parse in (datetime.fromisoformat, parsedate_to_datetime):  # the latter reads Twitter's dates, too
        try:
            return _micros(parse(text))
        except (ValueError, TypeError, IndexError, OverflowError):
            continue
    return None


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


_FIRST: Final = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
_LAST: Final = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)


def _micros(moment: date) -> int:
    """Times without a zone are taken for UTC: a log rarely says, and the same log must give the same number."""
    if not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day, tzinfo=UTC)
    elif moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(microseconds=1)


def _kind(value: object) -> str:
    names = {
        str: "a string",
        bool: "true or false",
        int: "a number",
        float: "a number",
        list: "a list",
        dict: "an object",
    }
    if value is None:
        return "missing or null"
    return "empty" if value in ("", []) else names.get(type(value), type(value).__name__)
