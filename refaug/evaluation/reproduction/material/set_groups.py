"""Groups of rated sets that are no independent evidence: they stand on the same source, or share contexts.

Two sets belong to one group when both are known to be drawn from one corpus, or when they share a context (the same
utterance with the same gold, normalised); so do sets that a third one links. A group counts once in the mean over sets,
and its contexts are drawn together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from refaug.core.records import Item
from refaug.core.text.normalisation import normalise
from refaug.evaluation.reproduction.material.rated_sets import ProofSet
from refaug.metrics.base import Indexes

SOURCES: Final[Mapping[str, str]] = {  # published set → the corpus whose test set its contexts stand in
    "dailydialog_gupta": "DailyDialog",
    "dailydialog_zhao": "DailyDialog",
    "grade_dailydialog": "DailyDialog",
    "holistic_dailydialog": "DailyDialog",
    "predictive_engagement_dd": "DailyDialog",
    "grade_empatheticdialogues": "EmpatheticDialogues",
}


@dataclass(frozen=True, kw_only=True)
class SetGroup:
    """Sets that count as one."""

    name: str
    sets: tuple[str, ...]


def groups_of(sets: Sequence[ProofSet]) -> tuple[SetGroup, ...]:
    """Return the groups in the order of their first sets; a set that shares nothing is a group by itself."""
    contexts = [set(context_keys(rated_set)) for rated_set in sets]
    group_by_place = list(range(len(sets)))
    for place, rated_set in enumerate(sets):
        for earlier in range(place):
            if _same_source(rated_set.name, sets[earlier].name) or contexts[place] & contexts[earlier]:
                old, new = group_by_place[place], group_by_place[earlier]
                group_by_place = [new if group == old else group for group in group_by_place]
    members = [
        [rated_set.name for rated_set, group in zip(sets, group_by_place, strict=True) if group == number]
        for number in dict.fromkeys(group_by_place)
    ]
    return tuple(SetGroup(name=_group_name(names), sets=tuple(names)) for names in members)


def context_numbers(sets: Sequence[ProofSet]) -> dict[str, Indexes]:
    """Return the number of the context of each item, by set: equal numbers, also in other sets, are one context.

    Contexts are numbered in the order of sets and items.
    """
    numbers = dict[tuple[str, ...], int]()
    return {
        rated_set.name: np.array(
            [numbers.setdefault(key, len(numbers)) for key in context_keys(rated_set)], dtype=np.int64
        )
        for rated_set in sets
    }


def context_keys(rated_set: ProofSet) -> list[tuple[str, ...]]:
    """Return what tells the context of each item: its utterance and first gold, normalised.

    Items of one set are never one context, even where they look alike; an item without utterance or gold shares its
    context with no other set.
    """
    occurrences, keys = Counter[tuple[str, ...]](), list[tuple[str, ...]]()
    for test_item in rated_set.items:
        texts = _utterance_and_gold(test_item) or ("", rated_set.name, test_item.id)
        occurrences[texts] += 1
        keys.append((*texts, str(occurrences[texts])))
    return keys


def _utterance_and_gold(test_item: Item) -> tuple[str, ...]:
    """Return both texts, normalised; nothing where one of them is missing."""
    utterance, gold = normalise(test_item.utterance or ""), test_item.gold
    text = normalise(gold.text) if gold is not None else ""
    return (utterance, text) if utterance and text else ()


def _same_source(name: str, other: str) -> bool:
    return name in SOURCES and SOURCES[name] == SOURCES.get(other)


def _group_name(names: Sequence[str]) -> str:
    """Return the only set of a group, or the source of all its sets, or their names."""
    if len(names) == 1:
        return names[0]
    sources = {SOURCES.get(name, name) for name in names}
    return next(iter(sources)) if len(sources) == 1 else " + ".join(names)
