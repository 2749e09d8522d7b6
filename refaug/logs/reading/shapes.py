"""Shapes: what a row means. A row is a dialogue, a pair, or a message of a tree; the field names can be mapped.

Rows become columns at once, since a million small objects cost more than the cleaning does.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from functools import partial
from operator import methodcaller
from types import MappingProxyType
from typing import Any, Final

from refaug.logs.reading.containers import Row
from refaug.logs.reading.sources import BadRow

# ── Roles of chat messages: which messages of a dialogue are its turns, and what is left out of it ────────────────────
#
# OpenAI's `messages` (role, content), ShareGPT's `conversations` (from, value) and the same lists of Hugging Face
# data sets hold system prompts, results of tools and calls of tools between the turns. None answers the message
# before.

_ROLE_FIELDS: Final = ("role", "from")
# role of a message that is no turn → the role that the tag of its dialogue names
_NO_TURNS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "system": "system",
        "developer": "developer",
        **dict.fromkeys(("tool", "function", "observation", "ipython", "function_response", "tool_response"), "tool"),
    }
)
_CALLS: Final = frozenset({"function_call", "tool_call"})  # ShareGPT's role of a message that only calls a tool
_ANSWERERS: Final = frozenset({"assistant", "gpt", "chatgpt", "bot", "model", "bing", "bard", "ai", "agent"})
_CALL_PARTS: Final = frozenset({"tool_use", "tool_call", "function_call", "server_tool_use"})
_TOOL_PARTS: Final = frozenset({"tool_result", "tool_response", "function_call_output"})
TOOL_CALLS: Final = "tool calls"


@dataclass(frozen=True)
class ChatTurns:
    """The turns of a dialogue with their places among its messages, and the count of what was left out, by name."""

    turns: Sequence[tuple[int, Any]]
    left_out: Counter[str] = field(default_factory=Counter)

    @property
    def tags(self) -> tuple[str, ...]:
        """Tags that name the roles of the messages that are no turns."""
        return tuple(dict.fromkeys(f"role:{role}" for role in _NO_TURNS.values() if self.left_out[f"{role} messages"]))


def chat_turns(messages: Sequence[Any]) -> ChatTurns:
    """Return the messages that are turns; without roles, all of them are."""
    roles = [_role(message) for message in messages]
    if not any(roles):
        return ChatTurns(list(enumerate(messages)))
    left_out = Counter[str]()
    is_system_speaking = _is_system_speaking(roles)
    turns = list[tuple[int, Any]]()
    for index, (message, role) in enumerate(zip(messages, roles, strict=True)):
        if role in _CALLS:
            left_out[TOOL_CALLS] += 1
        elif role in _NO_TURNS and not (role == "system" and is_system_speaking):
            left_out[f"{_NO_TURNS[role]} messages"] += 1
        elif role and (turn := _turn(message, left_out)) is not None:
            turns.append((index, turn))
        elif not role:
            turns.append((index, message))
    return ChatTurns(turns, left_out)


def _role(message: Any) -> str:
    """Return the role of a message in lower case, or "" without one."""
    if not isinstance(message, Mapping):
        return ""
    role = next((message[name] for name in _ROLE_FIELDS if isinstance(message.get(name), str)), "")
    return str(role).strip().lower()


def _is_system_speaking(roles: Sequence[str]) -> bool:
    """Return whether "system" is what a data set calls the dialogue system that answers its users.

    That is so where nothing else answers, and a system message comes after a user's.
    """
    users = [place for place, role in enumerate(roles) if role not in _NO_TURNS and role not in _CALLS]
    if not users or _ANSWERERS & set(roles):
        return False
    return "system" in roles[users[0] :]


def _turn(message: Mapping[str, Any], left_out: Counter[str]) -> Mapping[str, Any] | None:
    """Return a message without its calls of tools, with the text of its parts; None if nothing but calls remains."""
    calls = _calls(message)
    left_out.update({TOOL_CALLS: calls} if calls else {})
    content = message.get("content")
    if not isinstance(content, list):
        return None if calls and content in (None, "") and not message.get("value") else message
    text, is_said = _text_of_parts(content, left_out)
    return {**message, "content": text} if is_said else None


def _calls(message: Mapping[str, Any]) -> int:
    calls = message.get("tool_calls")
    return len(calls) if isinstance(calls, list) else int(bool(message.get("function_call")))


def _text_of_parts(parts: Sequence[Any], left_out: Counter[str]) -> tuple[str, bool]:
    """Return the joined texts of a message in parts, and whether it has any part that is no tool's."""
    texts, tool_parts = list[str](), 0
    for part, kind in zip(parts, _kinds(parts), strict=True):
        if kind in _CALL_PARTS:
            left_out[TOOL_CALLS] += 1
        elif kind in _TOOL_PARTS:
            left_out["tool messages"] += 1
        elif isinstance(part, str):
            texts.append(part)
        elif isinstance(part, Mapping) and isinstance(part.get("text"), str):
            texts.append(part["text"])
        else:
            left_out["parts without text"] += 1
        tool_parts += kind in _CALL_PARTS or kind in _TOOL_PARTS
    return "\n".join(texts), tool_parts < len(parts)


def _kinds(parts: Sequence[Any]) -> Iterator[str]:
    return (str(part.get("type", "")) if isinstance(part, Mapping) else "" for part in parts)


# ── Shapes: what a row means. A row is a dialogue, a pair, or a message of a tree; the field names can be mapped ──────


class Shape(StrEnum):
    """What one row of a source stands for."""

    DIALOGUES = "dialogues"
    PAIRS = "pairs"
    MESSAGES = "messages"
    TURNS = "turns"  # single turns that name their conversation, in the order they were said


# Our field → common names for it, tried in this order if --map does not name it.
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
MESSAGE_IDS: Final = ("id", "message_id", "msg_id")  # a message's id; the other ids are its conversation's
TURN_IDS: Final = ("turn_id", "utterance_id", "message_id", "msg_id", "turn", "turn_number", "id")
CONVERSATION_IDS: Final = (
    *("conversation_id", "dialogue_id", "dialog_id", "conv_id", "call_id", "session_id", "chat_id", "ticket_id"),
    *("thread_id", "root", "root_id", "conversation", "dialogue", "dialog"),
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
SINGLE: Final = (Shape.MESSAGES, Shape.TURNS)  # partial rows, which are joined after all are read


@dataclass(frozen=True, kw_only=True)
class Fields:
    """Which field of a source holds what; dots lead into objects (`user.screen_name`), unless they are in the name."""

    names: Mapping[str, str] = field(default_factory=dict)
    later: Mapping[str, tuple[str, ...]] = field(default_factory=dict, compare=False)  # if the first rows lack a field

    def get(self, name: str) -> Callable[[Row], Any]:
        """Return a function that takes this field out of a row, None if the row has none."""
        source = self.names.get(name)
        if source is None:
            return partial(_first_of, self.later.get(name, ()), frozenset(self.later.get(name, ())))
        path = source.split(".")
        if len(path) == 1:
            return methodcaller("get", source)
        return lambda row: row[source] if source in row else _get_nested(row, path)


def _first_of(names: tuple[str, ...], distinct: frozenset[str], row: Row) -> Any:
    """Return what a row has by the first of these names; asked of most rows, and few have any."""
    if distinct.isdisjoint(row):
        return None
    return next((row[name] for name in names if row.get(name) is not None), None)


def _get_nested(row: Any, path: Sequence[str]) -> Any:
    for name in path:
        if not isinstance(row, Mapping):
            return None
        row = row.get(name)
    return row


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
    left_out: Counter[str] = field(default_factory=Counter)  # messages that are no turns, calls of tools


@dataclass(slots=True)
class MessageColumns:
    """Messages of trees, one element each in every list."""

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


def _readable(rows: Rows, columns: TurnColumns | MessageColumns) -> Iterator[tuple[int, Row]]:
    """Yield the rows that could be read with their numbers, and add the others to the bad ones."""
    for row in rows:
        if isinstance(row, BadRow):
            columns.bad.append(row)
        else:
            yield row


def dialogue_columns(rows: Rows, fields: Fields, place: str = "line") -> TurnColumns:
    """Turn rows that hold whole dialogues into columns: turns are strings, or objects with text, speaker and time."""
    columns = TurnColumns()
    turns_of, id_of, tags_of = fields.get("turns"), fields.get("id"), fields.get("tags")
    inner = _TurnFields(fields)
    for number, values in _readable(rows, columns):
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
            role_tags: tuple[str, ...] = ()
        else:
            chat = chat_turns(turns)
            unreadable_times = columns.unreadable_times
            problem = inner.add(chat.turns, columns)
            if problem is not None:
                del columns.texts[first:], columns.speakers[first:], columns.times[first:]
                columns.unreadable_times = unreadable_times
                columns.bad.append(BadRow(line=number, reason="fields", message=problem, place=place))
                continue
            columns.left_out += chat.left_out
            role_tags = chat.tags
        columns.first.append(first)
        columns.lines.append(number)
        columns.ids.append(as_id(id_of(values)))
        columns.tags.append((*(as_tags(tags_of(values)) or ()), *role_tags) or None)
    return columns


class _TurnFields:
    """Extracts text, speaker and time from turns that are objects."""

    def __init__(self, fields: Fields) -> None:
        self._mapped = {name: fields.get(name) for name in ("text", "speaker", "time") if name in fields.names}

    def add(self, turns: Sequence[tuple[int, Any]], columns: TurnColumns) -> str | None:
        """Append the turns with their places, or return what is wrong with one of them."""
        if not turns:
            return "no message is a turn: all of them are of the system, the developer or tools"
        for index, turn in turns:
            if not isinstance(turn, str | Mapping):
                return f"turns[{index}] is {_kind(turn)}; a string, or an object with text, is expected"
            turn_fields = {"text": turn} if isinstance(turn, str) else turn
            text, speaker, moment = (self._extract(turn_fields, name) for name in ("text", "speaker", "time"))
            if not isinstance(text, str):
                return f"turns[{index}].text is {_kind(text)}; a string is expected"
            columns.texts.append(text)
            columns.speakers.append(as_id(speaker))
            columns.times.append(_time(moment, columns))
        return None

    def _extract(self, turn: Mapping[str, Any], name: str) -> Any:
        get = self._mapped.get(name)
        if get is not None and (content := get(turn)) is not None:
            return content
        return next((turn[key] for key in KNOWN_NAMES[name] if key in turn), None)


def _no_turns(number: int, fields: Fields, values: Row, turns: object, place: str) -> BadRow:
    name = fields.names.get("turns", "turns")
    if turns is None:
        message = f"no field {name!r}; the row has {', '.join(list(values)[:8]) or 'none'}"
    else:
        message = f"{name!r} is {_kind(turns)}; a list with at least one turn is expected"
    return BadRow(line=number, reason="fields", message=message, place=place)


def pair_columns(rows: Rows, fields: Fields, place: str = "line") -> TurnColumns:
    """Turn rows that hold an utterance and its response into columns: dialogues of two turns."""
    columns = TurnColumns()
    utterance_of, response_of, id_of = fields.get("utterance"), fields.get("response"), fields.get("id")
    speaker_of, time_of, tags_of = fields.get("speaker"), fields.get("time"), fields.get("tags")
    for number, values in _readable(rows, columns):
        utterance, response = utterance_of(values), response_of(values)
        if not (isinstance(utterance, str) and isinstance(response, str)):
            name, content = ("response", response) if isinstance(utterance, str) else ("utterance", utterance)
            message = f"{fields.names.get(name, name)!r} is {_kind(content)}; a string is expected"
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
    """Turn rows that hold single messages into columns; each names the message it replies to, or its conversation.

    A message without a parent begins a tree.
    """
    columns = MessageColumns()
    needed = "root" if shape is Shape.TURNS else "id"
    of = {name: fields.get(name) for name in (*REQUIRED[Shape.MESSAGES], *OPTIONAL[Shape.MESSAGES])}
    adjust = _ADJUST.get(preset)
    for number, values in _readable(rows, columns):
        row_fields = {name: get(values) for name, get in of.items()}
        if adjust is not None:
            adjust(values, row_fields)
        identity, text = as_id(row_fields["id"]), row_fields["text"]
        if shape is Shape.TURNS and not isinstance(text, str):
            text = ""  # silence is a turn too: without it, the turns around it would become neighbours
        identifier = as_id(row_fields[needed])
        if identifier is None or not isinstance(text, str):
            name, content, expected = (
                ("text", text, "a string") if identifier else (needed, row_fields[needed], "a name or a whole number")
            )
            message = f"{fields.names.get(name, name)!r} is {_kind(content)}; {expected} is expected"
            columns.bad.append(BadRow(line=number, reason="fields", message=message, place=place))
            continue
        columns.lines.append(number)
        columns.ids.append(identity)
        columns.parents.append(as_id(row_fields["parent"]))
        columns.roots.append(as_id(row_fields["root"]))
        columns.texts.append(text)
        columns.speakers.append(as_id(row_fields["speaker"]))
        columns.times.append(_time(row_fields["time"], columns))
        columns.tags.append(as_tags(row_fields["tags"]))
    return columns


# ── Presets whose fields need more than another name ──────────────────────────────────────────────────────────────


def _reddit(values: Row, row_fields: dict[str, object]) -> None:
    """Adapt Reddit's fields: parents have a prefix (t1_ comment, t3_ submission) that ids lack.

    Submissions have titles.
    """
    identity = row_fields["id"]
    if not isinstance(identity, str):
        return
    is_submission = not values.get("parent_id") and ("title" in values or "selftext" in values)
    if not identity.startswith(("t1_", "t3_")):
        row_fields["id"] = ("t3_" if is_submission else "t1_") + identity
    if is_submission:
        body = values.get("selftext")
        title = values.get("title") if isinstance(values.get("title"), str) else ""
        is_gone = body in (None, "", *_REDDIT_GONE)
        row_fields["text"] = title if is_gone else f"{title}\n{body}"
        row_fields["parent"] = row_fields["root"] = None
    if row_fields["speaker"] in _REDDIT_GONE:
        row_fields["speaker"] = None  # else all deleted accounts would be one person
    if isinstance(row_fields["tags"], str):
        row_fields["tags"] = row_fields["tags"].lower()


_REDDIT_GONE: Final = ("[deleted]", "[removed]")


def _twitter(values: Row, row_fields: dict[str, object]) -> None:
    """Adapt Twitter's fields: long tweets use `full_text`, and old dumps have only numeric ids, perhaps rounded."""
    row_fields["text"] = (
        _get_nested(values, ("extended_tweet", "full_text")) or values.get("full_text") or row_fields["text"]
    )
    row_fields["id"] = row_fields["id"] or values.get("id")
    row_fields["parent"] = row_fields["parent"] or values.get("in_reply_to_status_id")


_ADJUST: Final[Mapping[str, Callable[[Row, dict[str, object]], None]]] = MappingProxyType(
    {"reddit": _reddit, "twitter": _twitter}
)

# ── Values ────────────────────────────────────────────────────────────────────────────────────────────────────────


def as_id(raw: object) -> str | None:
    """Return an id or a name as text; numbers become their digits, objects give their id (ConvoKit's speakers)."""
    if isinstance(raw, str):
        return raw.strip() or None
    if isinstance(raw, bool) or raw is None:
        return None
    if isinstance(raw, int):
        return str(raw)
    if isinstance(raw, float):
        return str(int(raw)) if math.isfinite(raw) and raw == int(raw) else None
    inner = raw.get("id") if isinstance(raw, Mapping) else None
    return None if isinstance(inner, Mapping) else as_id(inner)


def as_tags(raw: object) -> tuple[str, ...] | None:
    """Return tags from a string or a list of strings; None for anything else."""
    if isinstance(raw, str):
        return (raw,) if raw else None
    if isinstance(raw, list):
        return tuple(tag for tag in raw if isinstance(tag, str)) or None
    return None


def _time(raw: object, columns: TurnColumns | MessageColumns) -> int | None:
    """Return a time in microseconds; an unreadable one is counted and left out, since the text is still good."""
    if raw is None or raw == "":
        return None
    moment = as_time(raw)
    columns.unreadable_times += moment is None
    return moment


def as_time(raw: object) -> int | None:
    """Return microseconds since 1970 in UTC, from seconds or fractions (by size), ISO 8601, or a mail-style date.

    Only moments of the years 1 to 9999 can be shown again; others give None.
    """
    moment = _as_time(raw)
    return moment if moment is not None and _FIRST <= moment <= _LAST else None


def _as_time(raw: object) -> int | None:
    if isinstance(raw, date):
        return _micros(raw)
    if isinstance(raw, str):
        return _time_from_text(raw.strip())
    if isinstance(raw, bool) or not isinstance(raw, int | float) or not -1e20 < raw < 1e20:
        return None
    if (moment := _written_date(raw)) is not None:
        return _micros(moment)
    # A number above 1e11 would be seconds after the year 5000; in the next smaller unit it is after 1973.
    units = (1_000_000, 1_000, 1, 1e-3)
    return round(raw * units[sum(abs(raw) > limit for limit in (1e11, 1e14, 1e17))])


def _written_date(number: float) -> datetime | None:
    """Return the date of a number whose digits write one of 1970 to 2100: 20260302, 202603020930, 20260302093000.

    As seconds, or as a smaller unit, these would be moments of the seventies, or of the year 2612.
    """
    for unit in (1, 10**4, 10**6):  # days, minutes and seconds
        if 19_700_101 * unit <= number < 21_010_101 * unit and number == int(number):
            digits = str(int(number))
            with suppress(ValueError):
                return datetime.fromisoformat(f"{digits[:8]}T{digits[8:] or '00'}")
    return None


def _time_from_mail(text: str) -> datetime:
    """Return the time of a text as mails have it, and Twitter."""
    from email.utils import parsedate_to_datetime  # noqa: PLC0415  which imports sockets

    return parsedate_to_datetime(text)


def _time_from_text(text: str) -> int | None:
    try:
        return as_time(float(text))
    except ValueError:
        pass
    for parse in (datetime.fromisoformat, _time_from_mail):
        try:
            return _micros(parse(text))
        except (ValueError, TypeError, IndexError, OverflowError):
            continue
    return None


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


_FIRST: Final = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
_LAST: Final = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)


def _micros(moment: date) -> int:
    """Return microseconds since 1970.

    Times without a zone count as UTC, so that the same log gives the same numbers.
    """
    if not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day, tzinfo=UTC)
    elif moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(microseconds=1)


def _kind(raw: object) -> str:
    names = {
        str: "a string",
        bool: "true or false",
        int: "a number",
        float: "a number",
        list: "a list",
        dict: "an object",
    }
    if raw is None:
        return "missing or null"
    return "empty" if raw in ("", []) else names.get(type(raw), type(raw).__name__)
