"""The topics of the demo log, read from `data/*.json`: one file for each field of everyday life."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import orjson

from refaug.logs.demo.topic_model import FollowUp, Intent, Opener, Reply, Topic

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
