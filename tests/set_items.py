"""Items with every kind of reference, and sets of them, for tests of scores against frozen sets."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from refaug.core.home import Settings
from refaug.core.records import Item, Origin, Reference
from refaug.scoring.reference_sets.reference_set import Purpose, ReferenceSet, SetDescription
from refaug.scoring.reference_sets.set_store import ReferenceSets

WORDS = ["we", "you", "they", "go", "eat", "drink", "tea", "milk", "home", "today", "never", "often", "the", "not"]
MAKING = SetDescription(
    purpose=Purpose.TRAIN, provenance={"k": "4", "gold": "one", "parrot": "rated"}, details={"oov": "skip"}
)


def words(rng: random.Random, most: int = 7) -> str:
    """A text of few different words, so that n-grams are shared."""
    return " ".join(rng.choices(WORDS, k=rng.randint(1, most)))


def item_of(number: int) -> Item:
    """A gold, one that people weighed, the parrot and four that were found.

    Every seventh item has no reference of positive weight but the gold's, every ninth none at all.
    """
    rng = random.Random(f"item {number}")
    utterance = words(rng)
    weights = [rng.uniform(-1, 1) for _ in range(6)]
    if number % 7 == 0 or number % 9 == 0:
        weights = [-abs(one) for one in weights]
    gold = Reference(text=words(rng), weight=-0.5 if number % 9 == 0 else None)
    found = [
        Reference(
            text=words(rng),
            source=Origin.RETRIEVED,
            weight=weights[place],
            rating=weights[place],
            similarity=rng.random(),
            more={"rank": place + 1, "log": "chat"},
        )
        for place in range(4)
    ]
    people = Reference(text=words(rng), source=Origin.SUPPLIED, weight=weights[5])
    parrot = Reference(text=utterance, source=Origin.PARROT, weight=weights[4], rating=weights[4])
    turns = (*(words(rng) for _ in range(number % 3)), utterance)
    return Item(id=f"item-{number}", turns=turns, references=(gold, people, parrot, *found))


def replies_of(count: int, seed: str) -> list[str | None]:
    """Replies, one of them empty, and some that are not there."""
    rng = random.Random(seed)
    found: list[str | None] = [words(rng) for _ in range(count)]
    for place in range(3, count, 11):
        found[place] = None
    if count > 5:
        found[5] = ""
    return found


def frozen(home: Path, items: Sequence[Item], making: SetDescription = MAKING) -> ReferenceSet:
    """A set in a home."""
    return ReferenceSets(Settings(home=home).reference_sets).freeze(items, making).set
