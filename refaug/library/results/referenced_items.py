"""Items with their weighted references."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

from refaug.library.results.parts import ArtefactVersions, FrameKind, ItemProblem, html_table, make_frame, shorten


@dataclass(frozen=True, kw_only=True, repr=False)
class WeightedReference:
    """A reference with its weight and its source."""

    text: str
    source: str  # gold, parrot, retrieved or supplied
    weight: float | None = None  # what a match with it is worth, from -1 to 1
    similarity: float | None = None  # of the utterance that it answered to the item's
    rating: float | None = None  # by the rater, from -1 to 1
    rank: int | None = None  # among the retrieved ones, from 1
    utterance: str | None = None  # that it answered, where it was retrieved
    speaker: str | None = None
    time: str | None = None  # ISO 8601
    unused: bool = False  # a gold that weighted scores leave out

    def __repr__(self) -> str:
        weight = "none" if self.weight is None else f"{self.weight:.4g}"
        return f"WeightedReference({shorten(self.text)}, {self.source}, weight={weight})"


@dataclass(frozen=True, kw_only=True, repr=False)
class ReferencedItem:
    """An item with its references: golds and supplied ones, the parrot, then the retrieved ones.

    It is again an item: `score(items=…)` and `refaug_client` take it.
    """

    id: str
    references: tuple[WeightedReference, ...]
    excluded: Mapping[str, int] = field(default_factory=dict)  # what was left out on the way, counted by the reason
    note: str | None = None  # why nothing was found, or nothing could be rated
    evidence: Mapping[str, Any] = field(default_factory=dict)  # how many references support a weighted score of it
    document: Mapping[str, Any] = field(
        default_factory=dict, compare=False
    )  # the line that `refaug sets references` writes

    def to_dict(self) -> dict[str, object]:
        """Return the item as a line of a test file; a copy."""
        return copy.deepcopy(dict(self.document))

    def __repr__(self) -> str:
        note = f", note={self.note!r}" if self.note else ""
        return f"ReferencedItem({self.id!r}, {len(self.references):,} references{note})"

    @classmethod
    def of(cls, line: Mapping[str, Any], evidence: Mapping[str, Any]) -> Self:
        """Read a line as `refaug sets references` writes it."""
        return cls(
            id=line["id"],
            references=tuple(
                WeightedReference(**{name: reference[name] for name in _REFERENCE_FIELDS if name in reference})
                for reference in line["references"]
            ),
            excluded=line.get("excluded", {}),
            note=line.get("note"),
            evidence=evidence,
            document=line,
        )


_REFERENCE_FIELDS = tuple(one.name for one in fields(WeightedReference))


@dataclass(frozen=True, kw_only=True, repr=False)
class ReferencedItems:
    """Items with references, in the order of the input; those under `problems` are not among them."""

    items: tuple[ReferencedItem, ...]
    versions: ArtefactVersions  # of the index and the rater
    provenance: Mapping[str, str]  # all settings, as signatures have them
    problems: tuple[ItemProblem, ...] = ()
    warnings: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[ReferencedItem]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, which: int | str) -> ReferencedItem:
        """Return an item by its place or its id."""
        if isinstance(which, int):
            return self.items[which]
        for referenced_item in self.items:
            if referenced_item.id == which:
                return referenced_item
        raise KeyError(which)

    def to_dicts(self) -> list[dict[str, object]]:
        """Return each item as a line of a test file."""
        return [referenced_item.to_dict() for referenced_item in self.items]

    def to_dict(self) -> dict[str, object]:
        """Return all of it as plain objects."""
        return {
            "items": self.to_dicts(),
            "versions": {name: spec for name, spec in vars(self.versions).items() if spec is not None},
            "provenance": dict(self.provenance),
            "problems": [vars(problem) for problem in self.problems],
            "warnings": list(self.warnings),
        }

    def to_frame(self, kind: FrameKind = "pandas") -> Any:
        """Return a frame with a row for each reference, and the item's id in each."""
        return make_frame(self._rows(), kind, columns=("item", "text", "source", "weight"))

    def to_pandas(self) -> Any:
        """Return `to_frame("pandas")`."""
        return self.to_frame("pandas")

    def _rows(self) -> list[dict[str, object]]:
        return [{"item": one.id, **vars(reference)} for one in self.items for reference in one.references]

    def __repr__(self) -> str:
        count = sum(len(one.references) for one in self.items)
        return f"ReferencedItems({len(self.items):,} items, {count:,} references, index={self.versions.index!r})"

    def _repr_html_(self) -> str:
        """Return a table for notebooks: a row for each reference."""
        columns = ("item", "text", "source", "weight", "similarity")
        rows = [[row[name] for name in columns] for row in self._rows()]
        return html_table(f"References of {len(self.items):,} items", columns, rows, self.warnings)
