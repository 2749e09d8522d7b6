"""The records that several packages share: pairs, references and items; and how records become JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import datetime
from enum import Enum, StrEnum
from functools import singledispatch
from typing import Any, Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """An utterance and a response to it, as one row of a stored log."""

    log: str
    dialogue: str
    position: str
    utterance: str
    response: str
    utterance_speaker: str | None = None
    response_speaker: str | None = None
    time: datetime | None = None
    tags: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """`log/dialogue#position`, the permanent name of this occurrence."""
        return f"{self.log}/{self.dialogue}#{self.position}"


class Origin(StrEnum):
    """The origin of a reference."""

    GOLD = "gold"
    PARROT = "parrot"  # the utterance itself
    RETRIEVED = "retrieved"
    SUPPLIED = "supplied"  # by people, with a weight or ratings


_NAMES_OF_PAIR: Final = frozenset({"reason", "rank", "log", "index", "pair", "dialogue"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A possible reply with its quality: `weight` from −1 (bad) to 1 (good), None if unknown."""

    text: str
    source: Origin = Origin.GOLD
    weight: float | None = None
    similarity: float | None = None
    rating: float | None = None
    is_unused: bool = False  # a gold that weighted scores leave out
    utterance: str | None = None  # what it answered, where it was found in a log
    more: Mapping[str, Any] = field(default_factory=dict)  # further fields: rank, log, index, pair, dialogue, …

    @property
    def origin(self) -> dict[str, Any]:
        """Where it comes from, as it stands in files: the utterance behind the names of the pair."""
        if self.utterance is None:
            return dict(self.more)
        names = {name: self.more[name] for name in self.more if name in _NAMES_OF_PAIR}
        return {**names, "utterance": self.utterance, **self.more}

    @property
    def is_own(self) -> bool:
        """Whether the reference came with the item, and was not retrieved."""
        return self.source in (Origin.GOLD, Origin.SUPPLIED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One line of a test file: an utterance with its references, the replies of some systems, and ratings by people."""

    id: str
    turns: tuple[str, ...] = ()  # the dialogue up to the utterance, which is last
    references: tuple[Reference, ...] = ()
    dialogue: str | None = None
    time: datetime | None = None
    exclude: tuple[str, ...] = ()  # dialogues that nothing is retrieved from
    replies: Mapping[str, str] = field(default_factory=dict)
    ratings: Mapping[str, tuple[float | None, ...]] = field(default_factory=dict)  # one number an annotator
    scale: tuple[float, float] | None = None  # of the ratings: the least and the most; None: not named
    provenance: str = ""  # how its references were retrieved and weighted, as signatures write it; empty: unknown
    reply_provenance: Mapping[str, str] = field(default_factory=dict)  # by system: which bot made its reply
    search_notes: Mapping[str, Any] = field(
        default_factory=dict
    )  # what `refaug sets references` noted: `excluded`, `note`, …

    @property
    def utterance(self) -> str | None:
        """The utterance to reply to; some test sets have none."""
        return self.turns[-1] if self.turns else None

    @property
    def gold(self) -> Reference | None:
        """The first gold."""
        return next((reference for reference in self.references if reference.source is Origin.GOLD), None)


# metadata of a field that JSON has only where it is not its default
OPTIONAL: Final[Mapping[str, Any]] = {"json_optional": True}
_NAME: Final = "json_name"


def named(name: str) -> Mapping[str, Any]:
    """Return the metadata of a field that JSON has under another name."""
    return {_NAME: name}


@singledispatch
def json_form(content: object) -> Any:
    """Return values as JSON has them: records by field, enums by value; another form of a type is registered for it."""
    if is_dataclass(content) and not isinstance(content, type):
        return _of_record(content)
    if isinstance(content, Mapping):
        return {str(json_form(name)): json_form(part) for name, part in content.items()}
    if isinstance(content, list | tuple):
        return [json_form(part) for part in content]
    return content.value if isinstance(content, Enum) else content


def _of_record(record: Any) -> dict[str, object]:
    members = ((field, getattr(record, field.name)) for field in fields(record))
    return {
        field.metadata.get(_NAME, field.name): json_form(content)
        for field, content in members
        if content is not field.default or "json_optional" not in field.metadata
    }
