"""Items of a study without live chats: dialogues, replies or references to be judged, each as a unit of work.

A line of a file of items is one JSON object: `id`, `turns` (texts, or objects with role and text), and

    rate-dialogue, label-turns   "bot": who talked
    pair-dialogue                "dialogues": two objects with bot and turns; or lines as above, which are paired
    rate-reply, pair-reply       "replies": {"system": "text"}
    rate-reference               "references": ["text", …], or the items of a test file: participants do not see
                                 their weights
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import combinations
from typing import Any, Final, TypedDict

import orjson

from refaug.core.errors import BadInput
from refaug.extras.studies.protocol.study_form import StudyFields
from refaug.extras.studies.records import StudyKind
from refaug.tables.item_fields import ITEM_FIELDS

MOST_ITEMS: Final = 100_000
MOST_UNITS: Final = 500_000
_MOST_TURNS: Final = 1_000
_MOST_TEXT: Final = 100_000
_MOST_REPLIES: Final = 200
_OF_SEARCHES: Final = ("excluded", "excluded_references", "note")  # which participants are not shown
_FIELDS: Final[Mapping[StudyKind, tuple[str, ...]]] = {
    StudyKind.RATE_DIALOGUE: ("id", "turns", "bot"),
    StudyKind.LABEL_TURNS: ("id", "turns", "bot"),
    StudyKind.PAIR_DIALOGUE: ("id", "turns", "bot", "dialogues"),
    StudyKind.RATE_REPLY: ("id", "turns", "utterance", "replies"),
    StudyKind.PAIR_REPLY: ("id", "turns", "utterance", "replies"),
    StudyKind.RATE_REFERENCE: tuple(name for name in ITEM_FIELDS if name not in _OF_SEARCHES),
}


@dataclass(frozen=True, kw_only=True)
class StudyUnit:
    """What one task is about: an item, and the one or two systems that are judged in it."""

    id: str
    item: str
    systems: Sequence[str]
    payload: Mapping[str, Any] = field(repr=False)  # turns and reply, reference, replies or dialogues, by system

    @classmethod
    def stored(cls, content: str) -> StudyUnit:
        """Return the unit that the database has."""
        return cls(**orjson.loads(content))


def units_of(kind: StudyKind, items: Iterable[Any], *, where: str = "items") -> list[StudyUnit]:
    """Return the units of these items in order; BadInput names the item and the field that is wrong."""
    units = list[StudyUnit]()
    single = list[tuple[str, str, list[dict[str, str]]]]()
    seen = dict[str, int]()
    for place, entry in enumerate(map(_with_plain_references, items) if kind is StudyKind.RATE_REFERENCE else items):
        at = f"{where}[{place}]"
        if place >= MOST_ITEMS:
            raise BadInput(f"{where}: more than {MOST_ITEMS:,} items", remedy="several studies")
        if not isinstance(entry, Mapping):
            raise BadInput(f"{at}: an object was expected", remedy='{"id": "…", "turns": ["…"]}')
        fields = StudyFields(entry, at)
        fields.require_known(_FIELDS[kind])
        name = _item_id(entry, place, fields)
        if name in seen:
            raise fields.bad("id", f"{name!r} is item {seen[name]} already", "an id of its own for each item")
        seen[name] = place
        if kind is StudyKind.PAIR_DIALOGUE and "dialogues" not in entry:
            single.append((name, _bot(fields, entry), _turns(fields, entry, least=1)))
        else:
            units += _UNITS[kind](name, fields, entry)
        if len(units) > MOST_UNITS:
            raise BadInput(f"{where}: more than {MOST_UNITS:,} tasks", remedy="fewer items, or fewer replies of each")
    return units + list(_paired(single))


def items_sha256(units: Sequence[StudyUnit]) -> str:
    """Return the hash of units in their order."""
    digest = hashlib.sha256()
    for unit in units:
        digest.update(orjson.dumps(asdict(unit), option=orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE))
    return digest.hexdigest()


def _item_id(entry: Mapping[str, Any], place: int, fields: StudyFields) -> str:
    name = entry.get("id", f"item-{place + 1}")
    if not isinstance(name, str) or not name.strip() or len(name) > 200:
        raise fields.bad("id", f"{str(name)[:60]!r} is not an id", "a text of 1 to 200 characters")
    return name


def _dialogue_units(name: str, fields: StudyFields, entry: Mapping[str, Any]) -> Iterator[StudyUnit]:
    bot = _bot(fields, entry)
    turns = _turns(fields, entry, least=1)
    yield StudyUnit(id=name, item=name, systems=(bot,), payload={"turns": turns})


def _dialogue_pairs(name: str, fields: StudyFields, entry: Mapping[str, Any]) -> Iterator[StudyUnit]:
    dialogues = fields.objects("dialogues", 2, least=2)
    if "turns" in entry or "bot" in entry:
        raise fields.bad("dialogues", "turns and bot stand in each of the two", "leave them out beside dialogues")
    pair = []
    for place, dialogue in enumerate(dialogues):
        inner = StudyFields(dialogue, fields.at(f"dialogues[{place}]"))
        inner.require_known(("bot", "turns"))
        pair.append((_bot(inner, dialogue), _turns(inner, dialogue, least=1)))
    (first, turns), (second, other_turns) = pair
    if first == second:
        raise fields.bad("dialogues", f"both are of {first[:60]!r}", "dialogues of two bots")
    yield StudyUnit(
        id=name, item=name, systems=(first, second), payload={"dialogues": {first: turns, second: other_turns}}
    )


def _paired(single: Sequence[tuple[str, str, list[dict[str, str]]]]) -> Iterator[StudyUnit]:
    """Pair the dialogues of every two bots: the first of one with the first of the other, and so on."""
    by_bot = defaultdict[str, list[tuple[str, list[dict[str, str]]]]](list)
    for name, bot, turns in single:
        by_bot[bot].append((name, turns))
    if single and len(by_bot) < 2:
        raise BadInput("items: the dialogues are all of one bot", remedy="dialogues of two bots or more")
    for first, second in combinations(sorted(by_bot), 2):
        for (name, turns), (other, other_turns) in zip(by_bot[first], by_bot[second], strict=False):
            yield StudyUnit(
                id=f"{name} {other}",
                item=f"{name} {other}",
                systems=(first, second),
                payload={"dialogues": {first: turns, second: other_turns}},
            )


def _reply_units(name: str, fields: StudyFields, entry: Mapping[str, Any]) -> Iterator[StudyUnit]:
    turns = _context(fields, entry)
    for system, reply in _replies(fields, entry, least=1).items():
        payload = {"turns": turns, "reply": reply}
        yield StudyUnit(id=f"{name}/{system}", item=name, systems=(system,), payload=payload)


def _reply_pairs(name: str, fields: StudyFields, entry: Mapping[str, Any]) -> Iterator[StudyUnit]:
    turns, replies = _context(fields, entry), _replies(fields, entry, least=2)
    for first, second in combinations(sorted(replies), 2):
        pair = {first: replies[first], second: replies[second]}
        payload = {"turns": turns, "replies": pair}
        yield StudyUnit(id=f"{name}/{first}/{second}", item=name, systems=(first, second), payload=payload)


def _reference_units(name: str, fields: StudyFields, entry: Mapping[str, Any]) -> Iterator[StudyUnit]:
    turns = _context(fields, entry)
    references = fields.texts("references", _MOST_REPLIES, longest=_MOST_TEXT)
    if not references:
        raise fields.bad("references", "there are none to rate", '["…", "…"]')
    for place, reference in enumerate(dict.fromkeys(references), 1):
        payload = {"turns": turns, "reference": reference}
        yield StudyUnit(id=f"{name}/{place}", item=name, systems=("references",), payload=payload)


def _with_plain_references(item: Any) -> Any:
    """Return an item whose references are texts, without their weights."""
    references = item.get("references") if isinstance(item, Mapping) else None
    if not isinstance(references, list):
        return item
    texts = [entry["text"] if isinstance(entry, dict) and "text" in entry else entry for entry in references]
    return {**item, "references": texts}


_UNITS: Final = {
    StudyKind.RATE_DIALOGUE: _dialogue_units,
    StudyKind.LABEL_TURNS: _dialogue_units,
    StudyKind.PAIR_DIALOGUE: _dialogue_pairs,
    StudyKind.RATE_REPLY: _reply_units,
    StudyKind.PAIR_REPLY: _reply_pairs,
    StudyKind.RATE_REFERENCE: _reference_units,
}


def _bot(fields: StudyFields, entry: Mapping[str, Any]) -> str:
    bot = entry.get("bot")
    if not isinstance(bot, str) or not bot.strip() or len(bot) > 200:
        raise fields.bad("bot", f"{str(bot)[:60]!r} is not a name", "who talked, 1 to 200 characters")
    return bot


def _replies(fields: StudyFields, entry: Mapping[str, Any], *, least: int) -> Mapping[str, str]:
    replies = entry.get("replies")
    if not isinstance(replies, dict) or not least <= len(replies) <= _MOST_REPLIES:
        raise fields.bad(
            "replies", f"{least} to {_MOST_REPLIES} replies by system were expected", '{"a": "…", "b": "…"}'
        )
    for system, reply in replies.items():
        if not isinstance(reply, str) or not reply.strip() or len(reply) > _MOST_TEXT or not 1 <= len(system) <= 200:
            raise fields.bad(f"replies.{str(system)[:60]}", "a text was expected", f"1 to {_MOST_TEXT:,} characters")
    return replies


def _context(fields: StudyFields, entry: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the dialogue before a reply."""
    if "utterance" in entry:
        if "turns" in entry:
            raise fields.bad("utterance", "turns are there, too", "one of them")
        return [{"role": "participant", "text": fields.long_text("utterance", _MOST_TEXT, required=True)}]
    return _turns(fields, entry, least=1, last="participant")


def _turns(fields: StudyFields, entry: Mapping[str, Any], *, least: int, last: str = "bot") -> list[dict[str, str]]:
    """Return turns with roles; texts without roles alternate, and the last one has the role that it usually has."""
    turns = entry.get("turns")
    if not isinstance(turns, list) or not least <= len(turns) <= _MOST_TURNS:
        raise fields.bad("turns", "a list of turns was expected", f"{least} to {_MOST_TURNS:,} texts, oldest first")
    other = "participant" if last == "bot" else "bot"
    read = list[dict[str, str]]()
    for place, turn in enumerate(turns):
        role = last if (len(turns) - place) % 2 else other
        text = turn
        if isinstance(turn, dict):
            role, text = turn.get("role", role), turn.get("text")
            if role not in ("participant", "bot") or not set(turn) <= {"role", "text"}:
                raise fields.bad(
                    f"turns[{place}]", "role is participant or bot, beside text", '{"role": "bot", "text": "…"}'
                )
        if not isinstance(text, str) or not text.strip() or len(text) > _MOST_TEXT:
            raise fields.bad(f"turns[{place}]", "a text was expected", f"1 to {_MOST_TEXT:,} characters, not blank")
        read.append({"role": role, "text": text})
    return read


class ShownMessage(TypedDict):
    """A message as the page of a study shows it."""

    n: int
    role: str
    text: str
    state: str
    vote: int | None


class ShownSide(TypedDict):
    """The messages of one side of the page."""

    side: str
    messages: list[ShownMessage]


def training_messages(item: Mapping[str, Any], sides: Sequence[str]) -> tuple[list[ShownSide], dict[str, object]]:
    """Return what a page shows of an item of the training: messages by side, and what is judged beside them."""
    shown: list[ShownSide] = [{"side": side, "messages": []} for side in sides]
    dialogues = item.get("dialogues")
    if isinstance(dialogues, list):
        for side, dialogue in zip(shown, dialogues, strict=False):
            side["messages"] = dialogue_messages(dialogue.get("turns", []))
        return shown, {}
    turns = item.get("turns", [])
    payload = {name: item[name] for name in ("reply", "reference") if name in item}
    replies = item.get("replies")
    if isinstance(replies, Mapping | list):
        texts = list(replies.values()) if isinstance(replies, Mapping) else replies
        payload["replies"] = dict(zip(("left", "right"), texts, strict=False))
    if payload:
        return shown, {
            "turns": [{"role": turn["role"], "text": turn["text"]} for turn in dialogue_messages(turns)],
            **payload,
        }
    for side in shown:
        side["messages"] = dialogue_messages(turns)
    return shown, {}


def dialogue_messages(turns: Sequence[Any]) -> list[ShownMessage]:
    """Return the turns of a dialogue, texts or objects, as messages of a page."""
    messages = list[ShownMessage]()
    for n, turn in enumerate(turns, 1):
        role = "participant" if n % 2 else "bot"
        text = turn
        if isinstance(turn, Mapping):
            role, text = turn.get("role", role), turn.get("text", "")
        messages.append({"n": n, "role": role, "text": str(text), "state": "answered", "vote": None})
    return messages
