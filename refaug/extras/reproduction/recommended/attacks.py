"""Replies that say nothing, as further systems of a set, beside the system that people rate in the middle."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from refaug.core.records import Item
from refaug.core.text.normalisation import normalise
from refaug.extras.reproduction.recommended.rated_replies import FairRows
from refaug.extras.reproduction.recommended.reference_forms import RETRIEVED, parts_of, retrieved_of
from refaug.indexer.search.index import ReferenceIndex
from refaug.metrics.base import Floats
from refaug.metrics.embeddings.recommended import Recommended

CONSTANTS: Final = (
    "I don't know what you mean.",
    "Yes , I do .",
    "Really! What makes you say so?",
    "That sounds great!",
)
_SALAD: Final = "i . you . the ."
_NOTHING: Final = "yes"  # in the place of an attack that has nothing to say
_STOCK: Final = 200
_STOCK_ITEMS: Final = 3  # stock replies are scored on one item out of so many
_LONG: Final = 3  # letters that a long word has more of


@dataclass(frozen=True, kw_only=True)
class AttackFigures:
    """The mean scores of attacks under one way to score, beside that of the system that people rate in the middle."""

    middle: float
    attacks: Mapping[str, float]
    stock: int  # of the most frequent responses, how many reach the middle

    @property
    def above(self) -> tuple[str, ...]:
        """Return the attacks that reach the middle."""
        return tuple(attack for attack, mean in self.attacks.items() if round(mean, 4) >= self.middle)

    def as_json(self) -> dict[str, object]:
        """Return the figures, rounded."""
        return {
            "median-rated system": round(self.middle, 4),
            "attacks": {attack: round(mean, 4) for attack, mean in self.attacks.items()},
            "above it": list(self.above),
            f"of {_STOCK} stock replies above it": self.stock,
        }


def attack_figures(
    rated: FairRows,
    metric: Recommended,
    stock: Sequence[str],
    scorers: Mapping[str, Callable[[Floats], Floats]],
) -> dict[str, AttackFigures]:
    """Return the figures of each way to score rows of parts."""
    rows_of = defaultdict[str, list[int]](list)
    for row, system in enumerate(rated.systems):
        rows_of[system].append(row)
    liked = sorted(rows_of, key=lambda system: float(rated.people[rows_of[system]].mean()))
    middle_rows = rows_of[liked[len(liked) // 2]]
    numbers = range(len(rated.items))
    parts = {
        name: parts_of(metric, rated.items, replies, numbers)
        for name, replies in attacks_on(rated.items, np.random.default_rng(1)).items()
    }
    some_items = rated.items[::_STOCK_ITEMS]
    stock_parts = [parts_of(metric, some_items, [reply] * len(some_items), range(len(some_items))) for reply in stock]
    figures = dict[str, AttackFigures]()
    for name, scores_of in scorers.items():
        middle = float(scores_of(rated.parts[RETRIEVED][0, middle_rows]).mean())
        figures[name] = AttackFigures(
            middle=middle,
            attacks={attack: float(scores_of(attacked).mean()) for attack, attacked in parts.items()},
            stock=sum(float(scores_of(stock_part).mean()) >= middle for stock_part in stock_parts),
        )
    return figures


def attacks_on(items: Sequence[Item], random: np.random.Generator) -> dict[str, list[str]]:
    """Return replies that say nothing, one to each item."""
    turns = [item.turns[-1] for item in items]
    golds = [item.references[0].text for item in items]
    return {
        "echo": turns,
        "echo and more": [f"{turn} I think so too." for turn in turns],
        "echo without every fifth word": [
            " ".join(word for place, word in enumerate(turn.split()) if place % 5 != 4) or turn for turn in turns
        ],
        "echo of the turn before": [item.turns[-2] if len(item.turns) > 1 else item.turns[-1] for item in items],
        "long words of the last turn": [
            " ".join(sorted({word for word in normalise(turn).split() if len(word) > _LONG})) or _NOTHING
            for turn in turns
        ],
        "first retrieved": [retrieved_of(item)[0].text if retrieved_of(item) else _NOTHING for item in items],
        "gold of another item": [golds[number] for number in random.permutation(len(golds)).tolist()],
        "salad": [_SALAD] * len(items),
        **{f"constant: {constant}": [constant] * len(items) for constant in CONSTANTS},
    }


def stock_replies(index: ReferenceIndex) -> list[str]:
    """Return the responses that occur most often in the log of an index."""
    counts, texts = defaultdict[int, int](int), dict[int, str]()
    for segment in index.segments:
        keys, first, number = np.unique(segment.tables.response_key, return_index=True, return_inverse=True)
        occurrences = np.bincount(number, np.diff(segment.tables.occurrence_start)).astype(np.int64)
        often = np.argsort(-occurrences, kind="stable")[: 2 * _STOCK]
        for place, text in zip(often.tolist(), segment.responses.take(first[often]), strict=True):
            counts[int(keys[place])] += int(occurrences[place])
            texts[int(keys[place])] = text or ""
    return [texts[key] for key in sorted(counts, key=lambda key: -counts[key])[:_STOCK]]
