"""Results of `references` and `rate`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any, Optional, Union

from refaug_client._core.frames import make_frame

from .base import Model, record, to_plain
from .server import FieldProblem, Versions

# ── References and ratings ────────────────────────────────────────────────────────────────────────────────────────


@record
class Reference(Model):
    """A reference with its weight and its source: gold, parrot, retrieved or supplied."""

    text: str
    source: str  # gold, parrot, retrieved or supplied
    weight: Optional[float] = None  # what a match with it is worth, from -1 to 1
    similarity: Optional[float] = None  # of what it answered to the item's utterance
    rating: Optional[float] = None  # what the rater gave it, from -1 to 1
    rank: Optional[int] = None  # its place among those that were found, from 1
    utterance: Optional[str] = None  # what it answered, where it was found
    speaker: Optional[str] = None  # who said it, where the log names speakers
    time: Optional[str] = None  # when it was said, where the log has times, ISO 8601
    unused: Optional[bool] = None  # True: a gold that weighted scores leave out


@record
class ExcludedReference(Model):
    """A pair of the log that came up, and was left out."""

    text: str
    reason: str  # test_pair, gold, near_gold, parrot, near_parrot, own_dialogue, dialogue, time, log or duplicate
    similarity: float  # of what it answered to the item's utterance
    utterance: str  # what it answered
    log: str
    dialogue: str


@record
class ReferencedItem(Model):
    """An item with its references; it can be sent again, as an item of `score` or `sets.freeze`."""

    id: str
    references: list[Reference]  # golds and supplied ones, the parrot, then what was found
    excluded: dict[str, int] = field(default_factory=dict)  # what was left out on the way, counted by the reason
    excluded_references: list[ExcludedReference] = field(default_factory=list)  # the first, with `show_excluded`
    note: Optional[str] = None  # why nothing was found, or nothing could be rated
    evidence: Mapping[str, Any] = field(default_factory=dict)  # how many references support a weighted score of it
    missing_shards: list[str] = field(default_factory=list)  # that had no part in its references


@record
class References(Model):
    """Items with references, in the order sent; those under `problems` are not among them."""

    items: list[ReferencedItem]
    versions: Versions  # what made the references
    provenance: dict[str, str] = field(default_factory=dict)
    problems: list[FieldProblem] = field(default_factory=list)  # items that were left out, with on_error="report"
    warnings: list[str] = field(default_factory=list)  # what one should know of the others
    missing_shards: list[str] = field(default_factory=list)  # of an index on a cluster, with partial="allow"

    def __iter__(self) -> Iterator[ReferencedItem]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, which: Union[int, str]) -> ReferencedItem:
        """Return an item by its place or its id."""
        if isinstance(which, int):
            return self.items[which]
        for referenced_item in self.items:
            if referenced_item.id == which:
                return referenced_item
        raise KeyError(which)

    def to_frame(self, kind: str = "pandas") -> Any:
        """Return a frame with a row for each reference, and the item's id in each."""
        rows = [{"item": item.id, **to_plain(one)} for item in self.items for one in item.references]
        return make_frame(rows, kind, columns=("item", "text", "source", "weight"))


@record
class Ratings(Model):
    """For each pair the ratings of its candidates, from -1 to 1, in the order sent."""

    ratings: list[list[float]]  # for each pair, those of its candidates
    versions: Versions  # what rated them
    warnings: list[str] = field(default_factory=list)  # what makes them mean less than one may think

    def __iter__(self) -> Iterator[list[float]]:
        return iter(self.ratings)

    def __len__(self) -> int:
        return len(self.ratings)

    def __getitem__(self, pair: int) -> list[float]:
        return self.ratings[pair]

    def to_frame(self, kind: str = "pandas") -> Any:
        """Return a frame with a row for each candidate: the place of its pair, its own, and its rating."""
        rows = [
            {"pair": pair, "candidate": place, "rating": rating}
            for pair, ratings in enumerate(self.ratings)
            for place, rating in enumerate(ratings)
        ]
        return make_frame(rows, kind, columns=("pair", "candidate", "rating"))
