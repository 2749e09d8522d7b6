"""The metric `judge-fit`: other metrics, each on its scale, added with weights that people's ratings gave.

The metric computes every component from the references and turns that the component looks at, and a judge adds their
values; a metric without a judge has settings and a signature, but refuses to score. A reply has no score where one of
its components has none.

A judge must not be asked about rows that it was fitted to: their scores would repeat the ratings. The judge knows
them, and with `seen=drop` they have no score but the problem `trained_on`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Final, Protocol, Self

import numpy as np

from refaug.core.errors import Usage
from refaug.metrics.base import Floats, Indexes, Level, MeanMetric, Metric, Prepared, Problem, References
from refaug.metrics.metric_info import MetricInfo, Uses

FITTED_TO: Final = Problem("trained_on", "the judge was fitted to its context, or to this reply in it")
_TURN_END: Final = "\x1e"  # the record separator, which is in no text that people write
_MOST_TURNS: Final = 100
_NO_PLACE: Final = -1  # of an item in which a component has nothing to compare with
_REFERENCE_KINDS: Final = (Uses.WEIGHTED, Uses.RATED)  # those that decide which test files suit


class CombinationJudge(Protocol):
    """A source of combined scores; the service implements it with a fitted judge."""

    @property
    def spec(self) -> str:
        """The name, version and content of the judge."""

    @property
    def limits(self) -> tuple[float, float]:
        """The least and the most that a reply can get."""

    @property
    def components(self) -> tuple[Metric, ...]:
        """The metrics that are added, bound to their models."""

    def combine(self, values: Floats, replies: Sequence[str]) -> Floats:
        """Return the scores of replies from the values of the components (replies, components)."""

    def has_seen(self, turns: Sequence[str], references: Sequence[str], reply: str) -> bool:
        """Say whether the judge was fitted to this row."""


@dataclass(frozen=True, kw_only=True)
class PreparedComponent:
    """What a component prepared, and the place there of each item."""

    prepared: Prepared
    places: Indexes


@dataclass(frozen=True, kw_only=True)
class PreparedComponents(Prepared):
    """The turns and own references of each item, and what every component prepared."""

    texts: Sequence[tuple[tuple[str, ...], tuple[str, ...]]]
    components: Sequence[PreparedComponent]


class CombinedReplies(MeanMetric):
    """The scores of a combination of metrics; without a judge there are none."""

    turns = _MOST_TURNS
    turn_separator = _TURN_END

    def __init__(self, info: MetricInfo, settings: Mapping[str, str]) -> None:
        self.info = info
        self.settings = dict(settings)
        self.components: tuple[Metric, ...] = ()
        self._judge: CombinationJudge | None = None

    @property
    def model(self) -> str:
        """The name of the judge, as specifications and signatures write it."""
        if not self.settings["model"]:
            raise self.info.models[0].missing(self.info.name)
        return self.settings["model"]

    def with_judge(self, judge: CombinationJudge) -> CombinedReplies:
        """Return the metric with this judge, which the signature names."""
        copied = copy(self)
        names = "+".join(component.name for component in judge.components)
        copied.settings = {**self.settings, "model": judge.spec, "of": names}
        copied.components = judge.components
        copied._judge = judge  # noqa: SLF001
        used = {component.info.uses for component in judge.components}
        uses = next((kind for kind in _REFERENCE_KINDS if kind in used), Uses.UTTERANCE)
        low, high = judge.limits
        copied.info = replace(self.info, uses=uses, low=low, high=high)
        return copied

    def _with_components(self, components: Sequence[Metric]) -> Self:
        copied = copy(self)
        copied.components = tuple(components)
        return copied

    def for_set(self, references: Sequence[References]) -> CombinedReplies:
        """Return the metric with every component for the set."""
        bound = [
            component.for_set([chosen for _, chosen in _references_of(references, place)])
            for place, component in enumerate(self.components)
        ]
        return self._with_components(bound)

    def for_replies(
        self, replies: Sequence[str], references: Sequence[References], item_places: Indexes
    ) -> CombinedReplies:
        """Return the metric with every component for these replies."""
        bound = list[Metric]()
        for place, component in enumerate(self.components):
            chosen = _references_of(references, place)
            places = _places_of([item for item, _ in chosen], len(references))[item_places]
            rows = np.flatnonzero(places != _NO_PLACE)
            of_rows = [replies[row] for row in rows.tolist()]
            bound.append(component.for_replies(of_rows, [own for _, own in chosen], places[rows]))
        return self._with_components(bound)

    def cost(self, replies: Floats, references: Floats) -> Floats:
        """Return what all components cost together."""
        units = super().cost(replies, references)
        for component in self.components:
            units = units + component.cost(replies, references)
        return units

    def prepare(self, references: Sequence[References]) -> PreparedComponents:
        """Prepare every component; an item has the problem of its first component that has one."""
        self._require_judge()
        prepared_components, problems = list[PreparedComponent](), dict[int, Problem]()
        for place, component in enumerate(self.components):
            chosen = _references_of(references, place)
            prepared = component.prepare([own for _, own in chosen])
            items = [item for item, _ in chosen]
            for item, own in enumerate(references):
                if isinstance(problem := own.components[place], Problem):
                    problems.setdefault(item, problem)
            for own_place, problem in prepared.problems.items():
                problems.setdefault(items[own_place], problem)
            prepared_components.append(PreparedComponent(prepared=prepared, places=_places_of(items, len(references))))
        return PreparedComponents(
            items=len(references),
            problems=problems,
            texts=[(_turns_of(of_item), of_item.texts) for of_item in references],
            components=prepared_components,
        )

    def statistics(
        self, replies: Sequence[str], prepared: Prepared, reply_places: Indexes, item_places: Indexes
    ) -> Floats:
        """Return a score and a count for each row; rows that the judge was fitted to have none."""
        assert isinstance(prepared, PreparedComponents)
        judge = self._require_judge()
        pairs = list(zip(reply_places.tolist(), item_places.tolist(), strict=True))
        rows = [row for row, (reply, item) in enumerate(pairs) if not self._is_dropped(prepared, item, replies[reply])]
        scores = np.full(len(pairs), np.nan)
        if rows:
            values = self._values(replies, prepared, reply_places[rows], item_places[rows])
            scores[rows] = judge.combine(values, [replies[pairs[row][0]] for row in rows])
        return self.rows(scores)

    def _values(
        self, replies: Sequence[str], prepared: PreparedComponents, reply_places: Indexes, item_places: Indexes
    ) -> Floats:
        """Return the values of the components (rows, components), NaN where there is none."""
        values = np.full((len(item_places), len(self.components)), np.nan)
        for column, (component, own) in enumerate(zip(self.components, prepared.components, strict=True)):
            places = own.places[item_places]
            rows = np.flatnonzero(places != _NO_PLACE)
            if len(rows):
                sums = component.statistics(replies, own.prepared, reply_places[rows], places[rows])
                values[rows, column] = component.values(sums, Level.REPLY)
        return np.where(np.isfinite(values), values, np.nan)

    def problem_of(self, reply: str, prepared: Prepared, item_place: int) -> Problem:
        """Return why a reply has no score: the judge was fitted to it, or a component has none."""
        assert isinstance(prepared, PreparedComponents)
        if self._is_dropped(prepared, item_place, reply):
            return FITTED_TO
        if (problem := prepared.problems.get(item_place)) is not None:
            return problem
        first, item = np.zeros(1, np.int64), np.array([item_place], np.int64)
        without = np.flatnonzero(np.isnan(self._values([reply], prepared, first, item)[0])).tolist()
        if not without:
            return self.undefined()
        own = prepared.components[without[0]]
        return self.components[without[0]].problem_of(reply, own.prepared, int(own.places[item_place]))

    def _is_dropped(self, prepared: PreparedComponents, item_place: int, reply: str) -> bool:
        return self.settings["seen"] == "drop" and self._require_judge().has_seen(*prepared.texts[item_place], reply)

    def versions(self) -> Mapping[str, str]:
        """Return the versions that each component names, by the number of the component."""
        return {
            f"{key}-{number}": version
            for number, component in enumerate(self.components, start=1)
            for key, version in component.versions().items()
        }

    def remarks(self) -> tuple[str, ...]:
        """Return the remarks of the components, and a warning where rows that the judge was fitted to count."""
        own = ["judge-fit with seen=keep: scores of rows that it was fitted to count as well"]
        of_components = dict.fromkeys(remark for component in self.components for remark in component.remarks())
        return (*(own if self.settings["seen"] == "keep" else ()), *of_components)

    def _require_judge(self) -> CombinationJudge:
        if self._judge is None:
            raise Usage(f"{self.model} was not opened: {self.info.name} cannot score without its judge")
        return self._judge


def _references_of(references: Sequence[References], place: int) -> list[tuple[int, References]]:
    """Return what the component in this place compares with, with the item's place, without items that lack it."""
    return [
        (item, chosen)
        for item, of_item in enumerate(references)
        if isinstance(chosen := of_item.components[place], References)
    ]


def _places_of(items: Sequence[int], count: int) -> Indexes:
    """Return for every item its place among some of them."""
    places = np.full(count, _NO_PLACE, np.int64)
    places[list(items)] = np.arange(len(items))
    return places


def _turns_of(references: References) -> tuple[str, ...]:
    joined = references.utterance or ""
    return tuple(joined.split(_TURN_END)) if joined.strip() else ()
