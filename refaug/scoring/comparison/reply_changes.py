"""Which replies score more or less than before, and what changed in them: texts, credited references, weights."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Final

import numpy as np

from refaug.core.errors import Usage
from refaug.metrics.base import Floats, Metric
from refaug.scoring.comparison.scored_system import CreditedReference, SystemRun

_EQUAL: Final = 1e-9  # the last bits of sums differ between machines


class Direction(StrEnum):
    """What became of a reply's score; improved means better, also for metrics where lower is better."""

    IMPROVED = "improved"
    REGRESSED = "regressed"
    UNCHANGED = "unchanged"
    SCORED_NOW = "scored_now"
    UNSCORED_NOW = "unscored_now"
    UNSCORED = "unscored"


@dataclass(frozen=True, kw_only=True)
class ChangeFilter:
    """Which changed replies to list; counts are of all."""

    only: Direction | None = None
    min_change: float = 0.0
    grep: str | None = None  # a regular expression that a text or the id matches, in any case
    limit: int | None = 20  # of each direction; None: all
    has_references: bool = True  # whether changes come with the references behind both scores

    def __post_init__(self) -> None:
        if self.min_change < 0:
            raise Usage(f"a least change of {self.min_change:g}", remedy="0 or more: it counts in both directions")
        if self.limit is not None and self.limit < 1:
            raise Usage(f"{self.limit} replies", remedy="at least 1")
        if self.grep is not None:
            try:
                re.compile(self.grep)
            except re.error as error:
                raise Usage(
                    f"{self.grep!r} is not a regular expression: {error}", remedy="write \\ before signs"
                ) from error

    @property
    def directions(self) -> tuple[Direction, ...]:
        """The directions that are listed, improved ones first."""
        return (Direction.IMPROVED, Direction.REGRESSED) if self.only is None else (self.only,)


@dataclass(frozen=True, kw_only=True)
class ReferenceChange:
    """A reference behind one score or both: its weight and credit before and now; None where it was not there."""

    text: str
    source: str | None
    first_weight: float | None
    second_weight: float | None
    first_credit: float | None
    second_credit: float | None


@dataclass(frozen=True, kw_only=True)
class ReplySide:
    """One of the two replies to an item: its score, and what the file says of it."""

    score: float | None
    text: str | None = None
    problem: str | None = None
    references: int | None = None  # how many the item has
    above_zero: int | None = None  # how many of them beside the gold have a positive weight
    is_thin: bool | None = None


@dataclass(frozen=True, kw_only=True)
class ReplyChange:
    """The replies of both systems to one item."""

    id: str
    direction: Direction
    change: float | None  # the second score less the first
    utterance: str | None
    first: ReplySide
    second: ReplySide
    references: tuple[ReferenceChange, ...] = field(default=())

    def as_json(self) -> dict[str, object]:
        """Return the fields."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class PairedReplies:
    """The replies of two systems to the same items, under one metric."""

    first: SystemRun
    second: SystemRun
    ids: Sequence[str]
    scale: float
    higher_is_better: bool
    metric: Metric | None  # that credits references; None where it cannot be built

    def scores(self, system: SystemRun) -> Floats:
        """Return the scores of one of the systems on the common scale."""
        return system.scores(self.ids) * (self.scale / system.stored.scale)

    def directions(self) -> tuple[list[Direction], Floats]:
        """Return what became of each score, and by how much it changed; NaN where one of the two is missing."""
        before, now = self.scores(self.first), self.scores(self.second)
        changes = now - before
        gains = changes if self.higher_is_better else -changes
        unscored = {
            (True, True): Direction.UNSCORED,
            (True, False): Direction.SCORED_NOW,
            (False, True): Direction.UNSCORED_NOW,
        }
        least = _EQUAL * self.scale
        directions = [
            unscored[bool(lacked), bool(lacks)]
            if lacked or lacks
            else Direction.IMPROVED
            if gain > least
            else Direction.REGRESSED
            if gain < -least
            else Direction.UNCHANGED
            for lacked, lacks, gain in zip(np.isnan(before), np.isnan(now), gains, strict=True)
        ]
        return directions, changes

    def select(self, chosen: ChangeFilter) -> tuple[dict[Direction, int], tuple[ReplyChange, ...]]:
        """Return how many replies went which way, and the listed ones: by direction, the largest change first."""
        directions, changes = self.directions()
        counts = Counter(directions)
        order = np.argsort(-np.abs(np.nan_to_num(changes)), kind="stable")
        listed = list[ReplyChange]()
        for direction in chosen.directions:
            places = (int(place) for place in order if directions[place] is direction)
            listed += self._listed(places, directions, changes, chosen)
        return {direction: counts.get(direction, 0) for direction in Direction}, tuple(listed)

    def _listed(
        self, places: Iterator[int], directions: Sequence[Direction], changes: Floats, chosen: ChangeFilter
    ) -> list[ReplyChange]:
        pattern = None if chosen.grep is None else re.compile(chosen.grep, re.IGNORECASE)
        listed = list[ReplyChange]()
        for place in places:
            if chosen.limit is not None and len(listed) >= chosen.limit:
                break
            change = None if np.isnan(changes[place]) else float(changes[place])
            if change is not None and abs(change) < chosen.min_change:
                break
            name = self.ids[place]
            if pattern is None or any(pattern.search(text) for text in self._texts(name)):
                listed.append(self._change(name, directions[place], change, has_references=chosen.has_references))
        return listed

    def _texts(self, name: str) -> Iterator[str]:
        yield name
        for text in (self._utterance(name), self.first.reply(name), self.second.reply(name)):
            if text is not None:
                yield text

    def _utterance(self, name: str) -> str | None:
        test_item = self.first.item(name) or self.second.item(name)
        return None if test_item is None else test_item.utterance

    def _change(self, name: str, direction: Direction, change: float | None, *, has_references: bool) -> ReplyChange:
        references = _joined(
            self.first.references(name, self.metric) if has_references else (),
            self.second.references(name, self.metric) if has_references else (),
        )
        return ReplyChange(
            id=name,
            direction=direction,
            change=change,
            utterance=self._utterance(name),
            first=self._side(self.first, name),
            second=self._side(self.second, name),
            references=references,
        )

    def _side(self, system: SystemRun, name: str) -> ReplySide:
        row, evidence = system.rows.get(name, {}), system.evidence(name) or {}
        score = row.get("score")
        return ReplySide(
            score=None if score is None else score * (self.scale / system.stored.scale),
            text=system.reply(name),
            problem=row.get("problem"),
            references=evidence.get("references"),
            above_zero=evidence.get("above_zero"),
            is_thin=evidence.get("thin"),
        )


def _joined(first: Sequence[CreditedReference], second: Sequence[CreditedReference]) -> tuple[ReferenceChange, ...]:
    """Join the references behind two scores by their texts; those credited most come first."""
    before, now = _by_occurrence(first), _by_occurrence(second)
    joined = [_reference_change(key[0], before.get(key), now.get(key)) for key in dict.fromkeys([*before, *now])]
    return tuple(sorted(joined, key=lambda each: -max(each.first_credit or 0.0, each.second_credit or 0.0)))


def _reference_change(text: str, before: CreditedReference | None, now: CreditedReference | None) -> ReferenceChange:
    return ReferenceChange(
        text=text,
        source=(before.source if before is not None else None) or (now.source if now is not None else None),
        first_weight=None if before is None else before.weight,
        second_weight=None if now is None else now.weight,
        first_credit=None if before is None else before.credit,
        second_credit=None if now is None else now.credit,
    )


def _by_occurrence(references: Sequence[CreditedReference]) -> Mapping[tuple[str, int], CreditedReference]:
    """Return references by text and number: equal texts may occur several times."""
    seen, by_occurrence = Counter[str](), dict[tuple[str, int], CreditedReference]()
    for reference in references:
        by_occurrence[reference.text, seen[reference.text]] = reference
        seen[reference.text] += 1
    return by_occurrence
