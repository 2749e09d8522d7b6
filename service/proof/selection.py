"""Choosing among candidates without fooling oneself: chosen on four fifths of the contexts, judged on the rest.

Both rated sets are there for developing, so that a metric chosen on all of their rows would look better than it is. The
contexts of each set are dealt into folds; for each, the candidate with the best mean partial Spearman over the other
folds of all sets is taken, and its ranks stand for the rows of this one. The figure of all those rows together is out
of fold: no rating of a row had a say in how the row was scored.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from metrics.base import Floats, Indexes
from metrics.correlation import PARTIAL, partial_spearman
from service.proof.figures import Line
from service.proof.references import ranks_together
from service.proof.sets import ProofSet

FOLDS: Final = 5


@dataclass(frozen=True, kw_only=True)
class Selected:
    """The line made of the choices, and what was chosen: in each fold, and on all rows."""

    line: Line
    by_fold: tuple[str, ...]
    on_all: str
    tried: int
    in_fold: Mapping[str, float]  # candidate → mean partial Spearman on all rows: what a careless choice would go by

    def applied(self, sets: Sequence[ProofSet], lines: Mapping[str, Line]) -> Line:
        """The same choices in the same folds, with other scores of what was chosen."""
        ranked = {name: ranks_together([line], name) for name, line in lines.items()}
        scores = {one.name: np.full(len(one.replies), np.nan) for one in sets}
        for fold, name in enumerate(self.by_fold):
            for one in sets:
                here = fold_of(one, len(self.by_fold)) == fold
                scores[one.name][here] = ranked[name].scores[one.name][0][here]
        return replace(self.line, scores={where: values[None] for where, values in scores.items()})

    def as_json(self) -> dict[str, Any]:
        """With how often each was chosen."""
        ranked = sorted(self.in_fold.items(), key=lambda one: -one[1])
        return {
            "by": PARTIAL,
            "folds": len(self.by_fold),
            "tried": self.tried,
            "chosen": dict(Counter(self.by_fold)),
            "chosen_on_all": self.on_all,
            "on_all": {name: round(value, 4) for name, value in ranked},
        }


def fold_of(one: ProofSet, folds: int = FOLDS) -> Indexes:
    """The fold of each row, by a hash of its item: equal for all rows of a context, whatever else is in the set."""
    dealt = [
        int.from_bytes(hashlib.blake2b(f"{one.name} {item.id}".encode(), digest_size=8).digest(), "little") % folds
        for item in one.items
    ]
    return np.array(dealt, dtype=np.int64)[one.item]


def select(sets: Sequence[ProofSet], lines: Sequence[Line], name: str, *, folds: int = FOLDS) -> Selected:
    """Choose in each fold by the others, on the fair rows."""
    ranked = [ranks_together([line], line.name) for line in lines]  # on one scale, whoever is chosen
    dealt = {one.name: fold_of(one, folds) for one in sets}
    scores = {one.name: np.full(len(one.replies), np.nan) for one in sets}
    chosen = list[str]()
    for fold in range(folds):
        values = _values(sets, ranked, {where: held != fold for where, held in dealt.items()})
        best = max(range(len(lines)), key=lambda place: (values[place], -place))
        chosen.append(lines[best].name)
        for one in sets:
            here = dealt[one.name] == fold
            scores[one.name][here] = ranked[best].scores[one.name][0][here]
    whole = _values(sets, ranked, {where: np.ones(len(held), dtype=np.bool_) for where, held in dealt.items()})
    return Selected(
        line=Line(
            name=name,
            scores={where: values[None] for where, values in scores.items()},
            about=f"chosen out of {len(lines)} candidates in {folds} folds, each by the others",
        ),
        by_fold=tuple(chosen),
        on_all=lines[int(np.argmax(whole))].name,
        tried=len(lines),
        in_fold={line.name: float(value) for line, value in zip(lines, whole, strict=True)},
    )


def _values(sets: Sequence[ProofSet], lines: Sequence[Line], rows: Mapping[str, Any]) -> Floats:
    """The mean partial Spearman of each line over sets; a line without one anywhere is worth nothing."""
    values = np.zeros(len(lines))
    for place, line in enumerate(lines):
        found = []
        for one in sets:
            mask = one.fair & rows[one.name] & np.isfinite(line.scores[one.name][0])
            value = partial_spearman(line.scores[one.name][0][mask], one.ratings[mask], one.lengths[mask]).value
            found.append(-1.0 if value is None else value)
        values[place] = float(np.mean(found))
    return values
