"""Derivation: the items of a set with other weights, from the ratings that the set stores."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import orjson

from refaug.core.errors import BadInput, Usage
from refaug.core.progress import Progress
from refaug.core.records import Item, Origin, Reference
from refaug.logs.reading.containers import json_rows
from refaug.logs.reading.sources import BadRow, LineReader, Source, require_readable
from refaug.scoring.reference_sets.reference_set import ReferenceSet, SetManifest

# ── Weights of references by people, such as a study gives them: {"item", "reference", "weight"}, a line each ─────────

_REMEDY = '{"item": "…", "reference": "…", "weight": 0.5}, as refaug studies export --format weights writes it'


@dataclass(frozen=True, kw_only=True)
class PeopleWeights:
    """The weights, from −1 (bad) to 1 (good), by the id of an item and the text of a reference."""

    weights: Mapping[tuple[str, str], float]

    @classmethod
    def of(cls, lines: Iterable[tuple[str, Mapping[str, Any]]]) -> PeopleWeights:
        """Check lines, each with its place; BadInput names the first wrong field, or a reference that comes twice."""
        weights, places = dict[tuple[str, str], float](), dict[tuple[str, str], str]()
        for where, fields in lines:
            key, weight = _checked(where, fields)
            if key in places:
                raise BadInput(f"{where}: reference: this one has a weight in {places[key]} already", remedy=_REMEDY)
            weights[key], places[key] = weight, where
        if not weights:
            raise BadInput("there are no weights of references", remedy=_REMEDY)
        return cls(weights=weights)

    @classmethod
    def read(cls, path: Path) -> PeopleWeights:
        """Read the weights of a JSONL file, compressed or not."""
        require_readable(path)
        lines = list[tuple[str, Mapping[str, Any]]]()
        for block in LineReader(Source.of(path)):
            for row in json_rows(block) if block.bad is None else (block.bad,):
                if isinstance(row, BadRow):
                    raise BadInput(f"{path}, line {row.line}: {row.message}", remedy=_REMEDY)
                lines.append((f"{path}, line {row[0]}", row[1]))
        return cls.of(lines)

    @property
    def fingerprint(self) -> str:
        """What signatures say of them: a hash, whatever the order of the lines."""
        content = orjson.dumps(sorted([item_id, text, weight] for (item_id, text), weight in self.weights.items()))
        return hashlib.sha256(content).hexdigest()[:12]

    def weighted(self, item_id: str, reference: Reference) -> Reference:
        """Return a reference with its weight by people, as ΔBLEU takes it; without one it stays as it is."""
        weight = self.weights.get((item_id, reference.text))
        if weight is None:
            return reference
        return replace(reference, weight=weight, source=Origin.SUPPLIED, is_unused=False)


def _checked(where: str, fields: Mapping[str, Any]) -> tuple[tuple[str, str], float]:
    for name in ("item", "reference"):
        text = fields.get(name)
        if not isinstance(text, str) or not text:
            raise BadInput(f"{where}: {name}: {str(text)[:60]!r} is not a text", remedy=_REMEDY)
    weight = fields.get("weight")
    if not isinstance(weight, int | float) or isinstance(weight, bool) or not -1 <= weight <= 1:
        raise BadInput(f"{where}: weight: {str(weight)[:60]} is not a number from -1 to 1", remedy=_REMEDY)
    return (fields["item"], fields["reference"]), float(weight)


# ── Derivation: the items of a set with other weights, from the ratings that the set stores ───────────────────────────

StoredWeight = Literal["one", "rated"]


@dataclass(frozen=True, kw_only=True)
class Derivation:
    """The settings that differ from the parent set; None leaves a setting as it is there."""

    weights: StoredWeight | None = None  # of retrieved references
    parrot: float | Literal["rated", "off"] | None = None
    gold: StoredWeight | None = None
    k: int | None = None  # the number of retrieved references that stay, from the first
    people: PeopleWeights | None = field(default=None, repr=False)  # the weights of references that people have rated

    def __post_init__(self) -> None:
        for name, setting in (("weights", self.weights), ("gold", self.gold)):
            if setting not in (None, "one", "rated"):
                raise Usage(f"{name}={setting!r} is not known", remedy="one or rated")
        if isinstance(self.parrot, str) and self.parrot not in ("rated", "off"):
            raise Usage(f"parrot={self.parrot!r} is not known", remedy="rated, off, or a number from -1 to 1")
        if isinstance(self.parrot, int | float) and not -1 <= self.parrot <= 1:
            raise Usage(f"a parrot of weight {self.parrot} is out of range", remedy="from -1 to 1")
        if self.k is not None and self.k < 1:
            raise Usage(f"k={self.k} is out of range", remedy="1 or more")
        if not self.signature_fields():
            raise Usage(
                "nothing is to be changed", remedy="give at least one of weights, parrot, gold, k and weights by people"
            )

    def signature_fields(self) -> dict[str, str]:
        """Return what signatures say of the settings, by the same keys as for retrieval."""
        parrot = self.parrot
        fields = {
            "k": str(self.k) if self.k is not None else None,
            "gold": self.gold,
            "parrot": repr(float(parrot)).removesuffix(".0") if isinstance(parrot, int | float) else parrot,
            "weights": self.weights,
            "people": self.people.fingerprint if self.people is not None else None,
        }
        return {name: str(setting) for name, setting in fields.items() if setting is not None}

    def require_possible(self, parent: SetManifest) -> None:
        """Refuse more references than the parent retrieved, and ratings that it does not have."""
        parent_k = parent.provenance.get("k", "")
        if self.k is not None and parent_k.isdecimal() and self.k >= int(parent_k):
            message = f"k={self.k} is not fewer than the {parent_k} of {parent.id}"
            raise Usage(message, remedy="freeze a new set for more")
        if self.gold is not None and parent.provenance.get("gold") == "none":
            raise Usage(f"{parent.id} was made without golds", remedy="freeze a new set with them")
        if self.parrot == "rated" and parent.provenance.get("parrot") == "off":
            raise Usage(f"{parent.id} has no parrots that were rated", remedy="freeze a new set, or give them a weight")

    def of(self, test_item: Item) -> Item:
        """Return the item with other weights; Usage where a rating that it needs was never stored."""
        references, retrieved, has_parrot = list[Reference](), 0, False
        for place, reference in enumerate(test_item.references):
            if reference.source is Origin.RETRIEVED:
                retrieved += 1
                if self.k is None or retrieved <= self.k:
                    references.append(_weighted(reference, self.weights, test_item.id, place))
            elif reference.source is Origin.GOLD:
                references.append(_weighted(reference, self.gold, test_item.id, place))
            elif reference.source is Origin.SUPPLIED:
                references.append(reference)
            elif self.parrot != "off":
                has_parrot = True
                references.append(_weighted(reference, self.parrot, test_item.id, place))
        if isinstance(self.parrot, int | float) and not has_parrot and (test_item.utterance or "").strip():
            own_count = sum(reference.is_own for reference in references)
            parrot = Reference(text=test_item.utterance or "", source=Origin.PARROT, weight=float(self.parrot))
            references.insert(own_count, parrot)
        if self.people is not None:
            weighted = [self.people.weighted(test_item.id, reference) for reference in references]
            references = sorted(weighted, key=lambda reference: not reference.is_own)  # own ones stand in front
        return replace(test_item, references=tuple(references))


def _weighted(
    reference: Reference, weight: float | Literal["one", "rated", "off"] | None, item_id: str, place: int
) -> Reference:
    if weight is None:
        return reference
    if weight == "rated":
        if reference.rating is None:
            raise Usage(
                f"references[{place}] of item {item_id}, a {reference.source.value} one, was never rated",
                remedy="freeze a new set with a rater",
            )
        return replace(reference, weight=reference.rating)
    if weight == "one":
        is_one = reference.source is Origin.GOLD and reference.weight is None  # golds without a weight have weight 1
        return reference if is_one else replace(reference, weight=1.0)
    return replace(reference, weight=float(weight))


def derived_items(parent: ReferenceSet, change: Derivation, progress: Progress) -> Iterator[Item]:
    """Yield the items of the new set; refuse if none differs, since that would be the old set under a new id."""
    differs = False
    unmatched = set(change.people.weights) if change.people is not None else set[tuple[str, str]]()
    for test_item in parent.items():
        unmatched -= {(test_item.id, reference.text) for reference in test_item.references}
        changed = change.of(test_item)
        differs = differs or changed != test_item
        progress.advance(1)
        yield changed
    if unmatched:
        item_id, text = min(unmatched)
        raise BadInput(
            f"{len(unmatched)} weighted references are not in {parent.id}, such as {text[:60]!r} of item {item_id}",
            remedy="weights of references of this set: refaug sets show has its items",
        )
    if not differs:
        settings = ", ".join(f"{name} {value}" for name, value in change.signature_fields().items())
        raise Usage(f"nothing in {parent.id} would change by {settings}", remedy=f"use {parent.id}")
