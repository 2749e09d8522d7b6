"""Selection among candidates by cross-validation: chosen on four fifths of the contexts, judged on the rest.

The rated sets serve development, so a metric chosen on all of their rows would look better than it is. Contexts are
divided into folds. For each fold, the candidate with the best mean partial Spearman over the other folds of all groups
of sets is chosen, and its ranks stand for the rows of this fold. The figure over all those rows is out of fold: no
rating of a row influenced how the row was scored.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from refaug.evaluation.reproduction.figures.correlations import Line
from refaug.evaluation.reproduction.material.rated_sets import ProofSet
from refaug.evaluation.reproduction.material.reference_kinds import sum_of_ranks
from refaug.evaluation.reproduction.material.set_groups import context_keys, groups_of
from refaug.metrics.base import Floats, Indexes
from refaug.metrics.statistics.correlation import PARTIAL, partial_spearman

FOLDS: Final = 5


@dataclass(frozen=True, kw_only=True)
class Selection:
    """The line made of the choices, and the choices: in each fold, and on all rows."""

    line: Line
    by_fold: tuple[str, ...]
    on_all: str
    tried: int
    in_fold: Mapping[str, float]  # candidate → mean partial Spearman on all rows: the criterion of a careless choice

    def apply_to(self, sets: Sequence[ProofSet], lines: Mapping[str, Line]) -> Line:
        """Make the same choices in the same folds, with other scores of the chosen candidates."""
        ranked = {name: sum_of_ranks([line], name) for name, line in lines.items()}
        scores = {rated_set.name: np.full(len(rated_set.replies), np.nan) for rated_set in sets}
        for fold, name in enumerate(self.by_fold):
            for rated_set in sets:
                here = fold_of(rated_set, len(self.by_fold)) == fold
                scores[rated_set.name][here] = ranked[name].scores[rated_set.name][0][here]
        return replace(self.line, scores={set_name: values[None] for set_name, values in scores.items()})

    def as_json(self) -> dict[str, object]:
        """Return the choices as JSON, with how often each was made."""
        ranked = sorted(self.in_fold.items(), key=lambda pair: -pair[1])
        return {
            "by": PARTIAL,
            "folds": len(self.by_fold),
            "tried": self.tried,
            "chosen": dict(Counter(self.by_fold)),
            "chosen_on_all": self.on_all,
            "on_all": {name: round(mean, 4) for name, mean in ranked},
        }


def fold_of(rated_set: ProofSet, folds: int = FOLDS) -> Indexes:
    """Return the fold of each row by a hash of its context: equal for all rows of a context, in whichever sets."""
    folds_of_items = [
        int.from_bytes(hashlib.blake2b("\n".join(key).encode(), digest_size=8).digest(), "little") % folds
        for key in context_keys(rated_set)
    ]
    return np.array(folds_of_items, dtype=np.int64)[rated_set.item]


def select(sets: Sequence[ProofSet], lines: Sequence[Line], name: str, *, folds: int = FOLDS) -> Selection:
    """Choose a candidate in each fold by the other folds, on the fair rows."""
    ranked = [sum_of_ranks([line], line.name) for line in lines]  # on one scale for all candidates
    fold_by_row = {rated_set.name: fold_of(rated_set, folds) for rated_set in sets}
    scores = {rated_set.name: np.full(len(rated_set.replies), np.nan) for rated_set in sets}
    chosen = list[str]()
    for fold in range(folds):
        values = mean_partial_correlations(
            sets, ranked, {set_name: row_folds != fold for set_name, row_folds in fold_by_row.items()}
        )
        best = max(range(len(lines)), key=lambda place: (values[place], -place))
        chosen.append(lines[best].name)
        for rated_set in sets:
            here = fold_by_row[rated_set.name] == fold
            scores[rated_set.name][here] = ranked[best].scores[rated_set.name][0][here]
    whole = mean_partial_correlations(
        sets, ranked, {set_name: np.ones(len(row_folds), dtype=np.bool_) for set_name, row_folds in fold_by_row.items()}
    )
    return Selection(
        line=Line(
            name=name,
            scores={set_name: values[None] for set_name, values in scores.items()},
            about=f"chosen out of {len(lines)} candidates in {folds} folds, each by the others",
        ),
        by_fold=tuple(chosen),
        on_all=lines[int(np.argmax(whole))].name,
        tried=len(lines),
        in_fold={line.name: float(mean) for line, mean in zip(lines, whole, strict=True)},
    )


def mean_partial_correlations(sets: Sequence[ProofSet], lines: Sequence[Line], rows: Mapping[str, Any]) -> Floats:
    """Return the mean partial Spearman of each line over groups of sets; an undefined correlation counts as −1."""
    values, groups = np.zeros(len(lines)), groups_of(sets)
    for place, line in enumerate(lines):
        correlations = dict[str, float]()
        for rated_set in sets:
            mask = rated_set.fair & rows[rated_set.name] & np.isfinite(line.scores[rated_set.name][0])
            correlation = partial_spearman(
                line.scores[rated_set.name][0][mask], rated_set.ratings[mask], rated_set.lengths[mask]
            ).value
            correlations[rated_set.name] = -1.0 if correlation is None else correlation
        values[place] = float(np.mean([np.mean([correlations[name] for name in group.sets]) for group in groups]))
    return values
