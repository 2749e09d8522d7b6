"""Replies that say nothing, as further systems of a set, beside the system that people rate in the middle."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from refaug.agreement.exploits import SEARCH_ITEMS, frequent_tokens, search_constant
from refaug.core.records import Item
from refaug.core.text.normalisation import normalise
from refaug.core.text.tokenizers import default_tokenizer, get_tokenizer
from refaug.extras.reproduction.recommended.rated_replies import FairRows
from refaug.extras.reproduction.recommended.reference_forms import (
    RETRIEVED,
    parts_in,
    parts_of,
    prepared_items,
    retrieved_of,
)
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
    middle_rows = _middle_rows(rated)
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


def _middle_rows(rated: FairRows) -> list[int]:
    """Return the rows of the system that people rate in the middle."""
    rows_of = defaultdict[str, list[int]](list)
    for row, system in enumerate(rated.systems):
        rows_of[system].append(row)
    liked = sorted(rows_of, key=lambda system: float(rated.people[rows_of[system]].mean()))
    return rows_of[liked[len(liked) // 2]]


# ── Searched ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class SearchedConstant:
    """The constant that so many edits have found on half of the items, and what it is worth on the others."""

    reply: str
    mean: float
    middle: float  # the mean of the system that people rate in the middle, on the same items
    first_retrieved: float  # of the reply that was copied out of the index

    @property
    def is_above(self) -> bool:
        """Whether the constant reaches the middle."""
        return round(self.mean, 4) >= round(self.middle, 4)

    def as_json(self) -> dict[str, object]:
        """Return the figures, rounded."""
        return {
            "reply": self.reply,
            "mean": round(self.mean, 4),
            "median-rated system": round(self.middle, 4),
            "first retrieved": round(self.first_retrieved, 4),
            "above it": self.is_above,
        }


def searched_constants(
    rated: FairRows, metric: Recommended, scorers: Mapping[str, Callable[[Floats], Floats]], steps: int, seed: int
) -> dict[str, SearchedConstant]:
    """Search a constant for each way to score rows of parts, on every second item, and score it on the others.

    What is first retrieved is scored beside its own copy among the references, as a thief of the index would be.
    """
    items, tokenizer = rated.items, get_tokenizer(default_tokenizer("en"))
    prepared = prepared_items(metric, items)
    seen = np.arange(0, len(items), 2)[:SEARCH_ITEMS]
    unseen = np.setdiff1d(np.arange(len(items)), seen)
    middle = np.array(_middle_rows(rated))
    middle = middle[np.isin(rated.item[middle], unseen)]
    copied = parts_in(
        metric, prepared, attacks_on(items, np.random.default_rng(1))["first retrieved"], range(len(items))
    )
    vocabulary, found = frequent_tokens(items, tokenizer), dict[str, SearchedConstant]()
    for name, scores_of in scorers.items():

        def mean_on(numbers: NDArray[np.int64], reply: str, scores_of: Callable[[Floats], Floats] = scores_of) -> float:
            return float(scores_of(parts_in(metric, prepared, [reply] * len(numbers), numbers.tolist())).mean())

        reply, _ = search_constant(partial(mean_on, seen), vocabulary, steps, seed)
        found[name] = SearchedConstant(
            reply=reply,
            mean=mean_on(unseen, reply),
            middle=float(scores_of(rated.parts[RETRIEVED][0, middle]).mean()),
            first_retrieved=float(scores_of(copied[unseen]).mean()),
        )
    return found


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
