"""The parts of refaug-1 under the references that an index has for an item, and under controls of the same number."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from refaug.core.records import Item, Origin, Reference
from refaug.extras.reproduction.recommended.rated_replies import FairRows
from refaug.indexer.search.index import ReferenceIndex
from refaug.metrics.base import Floats, References
from refaug.metrics.embeddings.recommended import PARTS, PreparedItems, Recommended
from refaug.scoring.cases import references_for

RETRIEVED, OF_ANOTHER_CONTEXT, DRAWN = "retrieved", "retrieved of another context", "drawn with as many words"
_DRAWN: Final = 20_000  # texts of the log that controls are drawn from
_FIRST_PART: Final = 2  # of a metric's statistics: its total and the number of replies stand before the parts


def with_parts(
    rated: FairRows, metric: Recommended, texts_of_length: Mapping[int, Sequence[str]], seeds: Sequence[Sequence[int]]
) -> FairRows:
    """Return a set whose items have their references, with the parts of every row under each form of references.

    Controls are drawn once for each seed: a single draw may be a lucky one.
    """
    forms: dict[str, list[Sequence[Item]]] = {RETRIEVED: [rated.items], OF_ANOTHER_CONTEXT: [], DRAWN: []}
    for seed in seeds:
        random = np.random.default_rng(seed)
        forms[OF_ANOTHER_CONTEXT].append(other_contexts(rated.items, random))
        forms[DRAWN].append(drawn_references(rated.items, texts_of_length, random))
    numbers = rated.item.tolist()
    parts = {
        form: np.stack([parts_of(metric, items, rated.replies, numbers) for items in by_seed])
        for form, by_seed in forms.items()
    }
    return replace(rated, parts=parts)


def parts_of(metric: Recommended, items: Sequence[Item], replies: Sequence[str], numbers: Sequence[int]) -> Floats:
    """Return the parts (replies, parts) of each reply to the item of its number; 0 where there is none."""
    return parts_in(metric, prepared_items(metric, items), replies, numbers)


def prepared_items(metric: Recommended, items: Sequence[Item]) -> PreparedItems:
    """Prepare the references of items once for many replies."""
    chosen = [references_for(metric, test_item.references, test_item.turns) for test_item in items]
    return metric.prepare([one if isinstance(one, References) else References((), ()) for one in chosen])


def parts_in(metric: Recommended, prepared: PreparedItems, replies: Sequence[str], numbers: Sequence[int]) -> Floats:
    """Return the parts (replies, parts) of each reply to the prepared item of its number."""
    rows = metric.statistics(
        replies, prepared, np.arange(len(replies), dtype=np.int64), np.array(numbers, dtype=np.int64)
    )
    return np.asarray(np.nan_to_num(rows[:, _FIRST_PART : _FIRST_PART + len(PARTS)]))


def retrieved_of(test_item: Item) -> tuple[Reference, ...]:
    """Return the references of an item that were retrieved."""
    return tuple(reference for reference in test_item.references if reference.source is Origin.RETRIEVED)


def other_contexts(items: Sequence[Item], random: np.random.Generator) -> list[Item]:
    """Give each item the retrieved references of the next one in a drawn circle."""
    circle = random.permutation(len(items))
    following = dict(zip(circle.tolist(), np.roll(circle, 1).tolist(), strict=True))
    return [_with_further(test_item, retrieved_of(items[following[number]])) for number, test_item in enumerate(items)]


def drawn_references(
    items: Sequence[Item], texts_of_length: Mapping[int, Sequence[str]], random: np.random.Generator
) -> list[Item]:
    """Replace each retrieved reference by a text of the log with as many words."""
    shortest = texts_of_length[min(texts_of_length)]
    changed = list[Item]()
    for test_item in items:
        further = list[Reference]()
        for reference in retrieved_of(test_item):
            texts = texts_of_length.get(len(reference.text.split())) or shortest
            further.append(replace(reference, text=texts[int(random.integers(len(texts)))]))
        changed.append(_with_further(test_item, further))
    return changed


def texts_by_length(index: ReferenceIndex) -> Mapping[int, Sequence[str]]:
    """Return texts that are drawn from the log of an index, by their number of words."""
    by_length = defaultdict[int, list[str]](list)
    for number in range(_DRAWN):
        text = index.draw_utterance(number)
        by_length[len(text.split())].append(text)
    return by_length


def _with_further(test_item: Item, further: Sequence[Reference]) -> Item:
    golds = tuple(reference for reference in test_item.references if reference.source is Origin.GOLD)
    return replace(test_item, references=(*golds, *further))
