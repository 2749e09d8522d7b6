"""The rated replies of test files, as ADEM's scorer learns from them.

Only fair rows count: no replies that are one of their golds, and no references identical to the reply. A rating is the
mean of the annotators, mapped linearly from the scale of its file to 1 … 5.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from refaug.core.errors import BadInput, Usage
from refaug.core.records import Item, Origin
from refaug.core.text.normalisation import normalise
from refaug.evaluation.agreement.records import RatedItems
from refaug.evaluation.agreement.rows import RatedRows, Row
from refaug.evaluation.scoring.items import BadItem
from refaug.evaluation.scoring.score_settings import MetaSettings
from refaug.metrics.base import Floats
from refaug.rater.adem.scorer.rated_triples import LEAST, MOST, Form, RatedTriples, Triple, to_five

Scale = tuple[float, float]
_LIKERT: Final = (LEAST, MOST)


@dataclass(frozen=True, kw_only=True, eq=False)
class RatedFile:
    """The rows of one file that a scorer can learn from; `counts` say what was left out, and why."""

    name: str
    sha256: str
    scale: Scale
    rated: RatedTriples
    counts: Mapping[str, int]
    keys: frozenset[str]  # of its contexts, to see which files share some

    def facts(self) -> dict[str, object]:
        """Return what a report says of the file."""
        return {"name": self.name, "sha256": self.sha256, "scale": list(self.scale), **self.counts}

    def without_systems(self, systems: Sequence[str]) -> RatedFile:
        """Return the file without the replies of some systems."""
        rows = np.array([system not in systems for system in self.rated.systems], dtype=np.bool_)
        if not rows.any():
            raise BadInput(
                f"{self.name}: no reply is left without {', '.join(systems)}", remedy="leave fewer systems out"
            )
        return replace(self, rated=self.rated.select(np.flatnonzero(rows)))

    def fraction(self, share: float, seed: int) -> RatedFile:
        """Return a share of the contexts of the file, drawn by the seed; at least one."""
        contexts = np.unique(self.rated.contexts)
        order = np.random.default_rng([seed, 2]).permutation(contexts)
        chosen = order[: max(1, round(share * len(contexts)))]
        return replace(self, rated=self.rated.select(np.flatnonzero(np.isin(self.rated.contexts, chosen))))


def rated_file(
    name: str, items: Sequence[Item | BadItem], form: Form, *, sha256: str = "", scale: Scale | None = None
) -> RatedFile:
    """Return the rows of a file that a form can use; BadInput where a part that the form needs is missing throughout.

    `scale` is that of the ratings where the items name none.
    """
    rows = RatedRows.of(RatedItems(name=name, items=items), MetaSettings())
    ratings = np.array([float(np.nanmean(row)) for row in rows.ratings], dtype=np.float64)
    own_scale = _scale_of(name, rows.items, ratings, scale)
    triples, places, counts = list[Triple](), list[int](), {"without_context": 0, "without_gold": 0}
    for place, row in enumerate(rows.rows):
        triple = _triple(rows.items[row.item], row)
        if not rows.is_candidate[place]:
            continue
        if form.has_context and not any(turn.strip() for turn in triple.context):
            counts["without_context"] += 1
        elif form.has_reference and not triple.reference.strip():
            counts["without_gold"] += 1
        else:
            triples.append(triple)
            places.append(place)
    golds = int(rows.is_gold.sum())
    _require_parts(name, form, len(triples), counts)
    return RatedFile(
        name=name,
        sha256=sha256,
        scale=own_scale,
        rated=RatedTriples(
            triples=tuple(triples),
            ratings=to_five(ratings[places], own_scale),
            contexts=np.array([rows.rows[place].item for place in places], dtype=np.int64),
            systems=tuple(rows.rows[place].system for place in places),
        ),
        counts={"rated": len(rows.rows), "golds_themselves": golds, **counts, "used": len(triples)},
        keys=frozenset(_context_keys(triples)),
    )


def _triple(test_item: Item, row: Row) -> Triple:
    golds = (reference.text for reference in row.references if reference.source is Origin.GOLD)
    gold = next((text for text in golds if text.strip()), "")
    return Triple(context=test_item.turns, reference=gold, reply=row.reply)


def _require_parts(name: str, form: Form, used: int, counts: Mapping[str, int]) -> None:
    if used:
        return
    if counts["without_context"]:
        raise BadInput(
            f"{name}: no rated reply has a context, and the form {form.value} compares replies with it",
            remedy="--form reference needs none; or leave the file out",
        )
    if counts["without_gold"]:
        raise BadInput(
            f"{name}: no rated reply has a gold, and the form {form.value} compares replies with it",
            remedy="--form context needs none; or leave the file out",
        )
    raise BadInput(f"{name}: every rated reply is one of its golds", remedy="give ratings of systems' replies")


def _context_keys(triples: Sequence[Triple]) -> Iterator[str]:
    """Yield what tells a context: its last turn with the gold, or the gold alone; nothing of texts that are empty."""
    for triple in triples:
        last = normalise(triple.context[-1]) if triple.context else ""
        if key := f"{last}\x1f{normalise(triple.reference)}".strip("\x1f"):
            yield key


# ── scales ────────────────────────────────────────────────────────────────────────────────────────────────────────


def parse_scale(text: str) -> Scale:
    """Read LOW..HIGH, as the option of commands has it."""
    low, dots, high = text.partition("..")
    try:
        scale = float(low), float(high)
    except ValueError:
        scale = (np.nan, np.nan)
    if not (dots and np.isfinite(scale).all() and scale[0] < scale[1]):
        raise Usage(f"{text!r} is no scale", remedy="the least and the most rating: --scale 0..4")
    return scale


def _scale_of(name: str, items: Sequence[Item], ratings: Floats, by_option: Scale | None) -> Scale:
    """Return the scale of a file: what its items name, else the option, else 1 to 5 where all ratings are in it."""
    named = {test_item.scale for test_item in items if test_item.ratings}
    if len(named) > 1:
        listed = ", ".join(sorted("none" if scale is None else f"{scale[0]:g} to {scale[1]:g}" for scale in named))
        raise BadInput(
            f"{name}: the items name different scales: {listed}", remedy="give items of one scale in one file"
        )
    scale = next(iter(named), None) or by_option or _LIKERT
    outside = ratings[(ratings < scale[0]) | (ratings > scale[1])]
    if len(outside):
        raise BadInput(
            f"{name}: a mean rating of {outside[0]:g} is outside the scale from {scale[0]:g} to {scale[1]:g}",
            remedy='give items their "scale", such as [0, 4], or --scale 0..4',
        )
    return scale
