"""The topics of the demo log, read from `data/*.json`: one file for each field of everyday life."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

# ── The shape of a demo topic: what may be said, and what is a good answer to it. The sentences stand in data/*.json ──

SLOT = re.compile(r"\{(\w+)\}")

# Slots that every topic may use; a topic's own slots come on top and may not carry these names.
COMMON_SLOTS: Mapping[str, tuple[str, ...]] = {
    "day": ("Monday", "Saturday", "Friday", "Sunday", "Tuesday", "Thursday", "Wednesday"),
    "month": ("May", "October", "July", "January", "April", "September", "February", "November", "June"),
    "time": ("five", "noon", "half past six", "eight", "four", "a quarter to ten", "nine"),
    "kin": ("sister", "brother", "mother", "cousin", "uncle", "flatmate", "grandmother", "colleague"),
}


class Intent(enum.Enum):
    """What a reply does; a follow-up is written for one of these, so that it answers the reply."""

    AGREE = "agree"
    ASK = "ask"
    ADVISE = "advise"
    SYMPATHISE = "sympathise"
    DECLINE = "decline"
    JOKE = "joke"
    TELL = "tell"


@dataclass(frozen=True)
class Reply:
    """One good reply to the opener it stands under; a question may bring the answer that only it can get."""

    intent: Intent
    text: str
    answer: str = ""


@dataclass(frozen=True)
class FollowUp:
    """What the first speaker says to any reply of this intent within the topic."""

    to: Intent
    text: str


@dataclass(frozen=True, kw_only=True)
class Opener:
    """A first utterance in one or several wordings, with replies that each fit all of the wordings."""

    says: tuple[str, ...]
    replies: tuple[Reply, ...]


@dataclass(frozen=True, kw_only=True)
class Topic:
    """An everyday matter: its slots, its openers with their replies, and how such a talk goes on and ends."""

    name: str
    subject: str  # how a confused partner names the topic: "the weather"
    slots: Mapping[str, tuple[str, ...]]
    openers: tuple[Opener, ...]
    follow_ups: tuple[FollowUp, ...]
    later: tuple[str, ...]
    closings: tuple[str, ...]
    has_desk: bool = False  # whether a service desk may be the second speaker


def fill(template: str, slots: Mapping[str, str]) -> str:
    """Fill the slots of a sentence; it begins with a capital even where a slot comes first."""
    text = template.format_map(slots)
    return text[0].upper() + text[1:]


# ── The topics of the demo log, read from `data/*.json`: one file for each field of everyday life ─────────────────────

FOLDER: Final = Path(__file__).parent / "data"
# The order is part of what a seed means, so a new file goes to the end.
FILES: Final = (
    "outdoors",
    "kitchen",
    "home",
    "repairs",
    "work",
    "health",
    "travel",
    "services",
    "leisure",
    "culture",
    "family",
)


def _reply(fields: Mapping[str, str]) -> Reply:
    return Reply(Intent(fields["intent"]), fields["text"], fields.get("answer", ""))


def _opener(fields: Mapping[str, Any]) -> Opener:
    return Opener(says=tuple(fields["says"]), replies=tuple(_reply(reply) for reply in fields["replies"]))


def _topic(fields: Mapping[str, Any]) -> Topic:
    return Topic(
        name=fields["name"],
        subject=fields["subject"],
        slots={slot: tuple(fillings) for slot, fillings in fields["slots"].items()},
        openers=tuple(_opener(opener) for opener in fields["openers"]),
        follow_ups=tuple(FollowUp(Intent(remark["to"]), remark["text"]) for remark in fields["follow_ups"]),
        later=tuple(fields["later"]),
        closings=tuple(fields["closings"]),
        has_desk=fields.get("has_desk", False),
    )


def read_topics(file: str) -> Iterator[Topic]:
    """Yield the topics of one file, in its order."""
    for fields in orjson.loads((FOLDER / f"{file}.json").read_bytes()):
        yield _topic(fields)


TOPICS: Final[tuple[Topic, ...]] = tuple(topic for file in FILES for topic in read_topics(file))
