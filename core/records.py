"""The nouns that travel between packages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar


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
        """`log/dialogue#position`: names this occurrence for ever."""
        return f"{self.log}/{self.dialogue}#{self.position}"


class Origin(StrEnum):
    """Where a reference comes from."""

    GOLD = "gold"
    PARROT = "parrot"  # the utterance itself
    RETRIEVED = "retrieved"
    SUPPLIED = "supplied"  # with a weight, or ratings, by people


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A reply that would have been fine, or not: `weight` says how much so, from −1 to 1; None where nobody has."""

    text: str
    source: Origin = Origin.GOLD
    weight: float | None = None
    similarity: float | None = None
    rating: float | None = None
    more: Mapping[str, Any] = field(default_factory=dict)  # rank, log, index, pair, dialogue, utterance, … as they came

    @property
    def is_own(self) -> bool:
        """Whether it came with the item, and was not found for it."""
        return self.source in (Origin.GOLD, Origin.SUPPLIED)


@dataclass(frozen=True, slots=True, kw_only=True)
class TestPair:
    """An utterance with the references it came with; `turns` are the dialogue up to it, the utterance last."""

    __test__: ClassVar[bool] = False  # not a test, whatever pytest makes of the name

    id: str
    turns: tuple[str, ...] = ()
    references: tuple[Reference, ...] = ()
    dialogue: str | None = None
    time: datetime | None = None
    exclude: tuple[str, ...] = ()

    @property
    def utterance(self) -> str | None:
        """What is replied to; not every test set says."""
        return self.turns[-1] if self.turns else None

    @property
    def gold(self) -> Reference | None:
        """The first gold."""
        return next((one for one in self.references if one.source is Origin.GOLD), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One line of a test file: a test pair, the replies of some systems, and how people rated them."""

    pair: TestPair
    replies: Mapping[str, str] = field(default_factory=dict)
    ratings: Mapping[str, tuple[float | None, ...]] = field(default_factory=dict)  # one number an annotator

    @property
    def id(self) -> str:
        """The test pair's."""
        return self.pair.id
