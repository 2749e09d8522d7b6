"""Weights of references by people, such as a study gives them: {"item", "reference", "weight"}, a line each."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from refaug.core.errors import BadInput
from refaug.core.records import Origin, Reference
from refaug.logs.reading.containers import json_rows
from refaug.logs.reading.sources import BadRow, LineReader, Source, require_readable

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
            raise BadInput(f"{where}: {name}: {str(text)[:60]!r} is no text", remedy=_REMEDY)
    weight = fields.get("weight")
    if not isinstance(weight, int | float) or isinstance(weight, bool) or not -1 <= weight <= 1:
        raise BadInput(f"{where}: weight: {str(weight)[:60]} is not a number from -1 to 1", remedy=_REMEDY)
    return (fields["item"], fields["reference"]), float(weight)
