"""Metrics of several others: what each of those looks at, and the values that it gives.

Every component compares with the references that it looks at; where there are none, it has no value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from refaug.metrics.base import Floats, Indexes, Level, MeanMetric, Metric, Prepared, Problem, References
from refaug.metrics.metric_info import Uses

_TURN_END: Final = "\x1e"  # the record separator, which is in no text that people write
_MOST_TURNS: Final = 100
_NO_PLACE: Final = -1  # of an item in which a component has nothing to compare with
_REFERENCE_KINDS: Final = (Uses.WEIGHTED, Uses.RATED)  # those that decide which test files suit


@dataclass(frozen=True, kw_only=True)
class PreparedComponent:
    """What a component prepared, the place there of each item, and its problems by item."""

    prepared: Prepared
    places: Indexes
    problems: Mapping[int, Problem]


@dataclass(frozen=True, kw_only=True)
class PreparedComponents(Prepared):
    """The turns and own references of each item, and what every component prepared."""

    texts: Sequence[tuple[tuple[str, ...], tuple[str, ...]]]
    components: Sequence[PreparedComponent]

    @classmethod
    def of(
        cls,
        references: Sequence[References],
        problems: Mapping[int, Problem],
        components: Sequence[PreparedComponent],
    ) -> Self:
        """Return what the components prepared, beside the texts of each item."""
        texts = [_texts_of(of_item) for of_item in references]
        return cls(items=len(references), problems=problems, texts=texts, components=components)


class ComponentMetric(MeanMetric):
    """A metric that is computed from the values of others, its components."""

    turns = _MOST_TURNS
    turn_separator = _TURN_END

    def _with_components(self, components: Sequence[Metric]) -> Self:
        copied = copy(self)
        copied.components = tuple(components)
        return copied

    @property
    def looks_at_set(self) -> bool:
        """Where a component does."""
        return any(component.looks_at_set for component in self.components)

    def for_set(self, references: Sequence[References]) -> Self:
        """Return the metric with every component for the set."""
        bound = [
            component.for_set([chosen for _, chosen in references_of_component(references, place)])
            for place, component in enumerate(self.components)
        ]
        return self._with_components(bound)

    def for_replies(self, replies: Sequence[str], references: Sequence[References], item_places: Indexes) -> Self:
        """Return the metric with every component for these replies."""
        bound = list[Metric]()
        for place, component in enumerate(self.components):
            chosen = references_of_component(references, place)
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

    def prepare_components(self, references: Sequence[References]) -> list[PreparedComponent]:
        """Let every component prepare what it looks at."""
        prepared_components = list[PreparedComponent]()
        for place, component in enumerate(self.components):
            chosen = references_of_component(references, place)
            prepared = component.prepare([own for _, own in chosen])
            items = [item for item, _ in chosen]
            problems = {
                item: problem
                for item, own in enumerate(references)
                if isinstance(problem := own.components[place], Problem)
            }
            problems |= {items[own_place]: problem for own_place, problem in prepared.problems.items()}
            places = _places_of(items, len(references))
            prepared_components.append(PreparedComponent(prepared=prepared, places=places, problems=problems))
        return prepared_components

    def component_values(
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

    def component_problem(
        self, reply: str, prepared: PreparedComponents, item_place: int, component: int
    ) -> Problem | None:
        """Return why a component has no value for a reply; None where it has one."""
        own = prepared.components[component]
        if (problem := own.problems.get(item_place)) is not None:
            return problem
        first, item = np.zeros(1, np.int64), np.array([item_place], np.int64)
        if np.isfinite(self.component_values([reply], prepared, first, item)[0, component]):
            return None
        return self.components[component].problem_of(reply, own.prepared, int(own.places[item_place]))

    def versions(self) -> Mapping[str, str]:
        """Return the versions that each component names, by the number of the component."""
        return {
            f"{key}-{number}": version
            for number, component in enumerate(self.components, start=1)
            for key, version in component.versions().items()
        }


def uses_of(components: Sequence[Metric]) -> Uses:
    """Return what decides which test files suit the components."""
    used = {component.info.uses for component in components}
    return next((kind for kind in _REFERENCE_KINDS if kind in used), Uses.UTTERANCE)


def references_of_component(references: Sequence[References], place: int) -> list[tuple[int, References]]:
    """Return what the component in this place compares with, with the item's place, without items that lack it."""
    return [
        (item, chosen)
        for item, of_item in enumerate(references)
        if isinstance(chosen := of_item.components[place], References)
    ]


def _texts_of(references: References) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the turns of an item and its own references."""
    joined = references.utterance or ""
    return tuple(joined.split(_TURN_END)) if joined.strip() else (), references.texts


def _places_of(items: Sequence[int], count: int) -> Indexes:
    """Return for every item its place among some of them."""
    places = np.full(count, _NO_PLACE, np.int64)
    places[list(items)] = np.arange(len(items))
    return places
