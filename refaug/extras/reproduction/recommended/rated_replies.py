"""The rated replies of `reproduce recommended`: rows that rate no gold, each with golds that are another text.

A row that rates the first gold is left out, and so is, for one row, a gold that equals its reply. So one context may
be several items, with different golds.
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson

from refaug.core.files import sha256_of
from refaug.core.records import Item, Origin, Reference
from refaug.core.text.normalisation import normalise
from refaug.metrics.base import Floats, Indexes

GROUPS: Final[Mapping[str, Sequence[str]]] = {  # the corpus of the contexts → sets by their names in human/
    "DailyDialog": (
        "dailydialog_gupta",
        "dailydialog_zhao",
        "grade_dailydialog",
        "holistic_dailydialog",
        "predictive_engagement_dd",
    ),
    "EmpatheticDialogues": ("grade_empatheticdialogues",),
    "PersonaChat": ("personachat_zhao",),
    "Topical-Chat": ("usr_topicalchat",),
}
GOLDLESS: Final = {"FED": ("fed_turn",), "ConTurE": ("conture",)}  # sets that never had golds
WITHOUT_GOLD: Final[Mapping[str, Sequence[str]]] = {
    "DailyDialog": GROUPS["DailyDialog"],
    "EmpatheticDialogues": GROUPS["EmpatheticDialogues"],
    **GOLDLESS,
}
SETS: Final = tuple(sorted({name for groups in (GROUPS, WITHOUT_GOLD) for names in groups.values() for name in names}))
DRAWN_SYSTEM: Final = "negative-sample"  # of PersonaChat: replies that were drawn
_GOLDLESS_SETS: Final = frozenset(name for names in GOLDLESS.values() for name in names)
_DIGITS: Final = 12  # of hashes


@dataclass(frozen=True, kw_only=True, eq=False)
class FairRows:
    """The rows of a set, and the parts of refaug-1 of each: form of references → (seeds, rows, parts)."""

    name: str
    data: str  # the beginning of the file's hash
    items: tuple[Item, ...]
    item: Indexes  # (rows,)
    contexts: tuple[str, ...]
    systems: tuple[str, ...]
    replies: tuple[str, ...]
    people: Floats  # the mean rating of each reply
    parts: Mapping[str, Floats]
    notes: tuple[str, ...] = ()

    @property
    def lengths(self) -> Floats:
        """Return the words of each reply."""
        return np.array([float(len(reply.split())) for reply in self.replies])

    def without_system(self, system: str) -> FairRows:
        """Return the set without the rows of one system."""
        places = np.flatnonzero(np.array(self.systems) != system)
        rows = places.tolist()
        return replace(
            self,
            item=self.item[places],
            contexts=tuple(self.contexts[row] for row in rows),
            systems=tuple(self.systems[row] for row in rows),
            replies=tuple(self.replies[row] for row in rows),
            people=self.people[places],
            parts={form: parts[:, places] for form, parts in self.parts.items()},
        )


def read_set(folder: Path, name: str) -> FairRows:
    """Read the rows of a set from `human/` in a data folder."""
    path = folder / "human" / f"{name}.jsonl.gz"
    number_of, items, rows, numbers = dict[tuple[str, ...], int](), list[Item](), list[Mapping[str, Any]](), list[int]()
    with gzip.open(path, "rb") as lines:
        for line in lines:
            row = orjson.loads(line)
            golds = _other_golds(row)
            if row.get("score") is None or _rates_first_gold(row) or not (golds or name in _GOLDLESS_SETS):
                continue
            key = (str(row["context_id"]), *row["context"], "", *golds)
            if key not in number_of:
                number_of[key] = len(items)
                references = tuple(Reference(text=gold, source=Origin.GOLD) for gold in golds)
                items.append(Item(id=f"i{len(items)}", turns=tuple(row["context"]), references=references))
            rows.append(row)
            numbers.append(number_of[key])
    return FairRows(
        name=name,
        data=sha256_of(path)[:_DIGITS],
        items=tuple(items),
        item=np.array(numbers, dtype=np.int64),
        contexts=tuple(str(row["context_id"]) for row in rows),
        systems=tuple(str(row.get("system")) for row in rows),
        replies=tuple(row["response"] for row in rows),
        people=np.array([float(row["score"]) for row in rows]),
        parts={},
    )


def _rates_first_gold(row: Mapping[str, Any]) -> bool:
    return 0 in (row.get("response_in_references") or [])


def _other_golds(row: Mapping[str, Any]) -> list[str]:
    """Return the golds of a row that are no copy of its reply."""
    copies, reply = row.get("response_in_references") or [], normalise(row["response"])
    return [
        gold
        for place, gold in enumerate(row.get("references") or [])
        if place not in copies and gold.strip() and normalise(gold) != reply
    ]
