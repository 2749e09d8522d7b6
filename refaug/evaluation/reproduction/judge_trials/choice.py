"""What is left of a gain once it counts that the best of several judges was taken.

Two answers: intervals that hold for all judges at once, and a judge that is chosen without the group of sets, or the
contexts, on which it is measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from refaug.evaluation.reproduction.figures.correlations import Correlations, IntervalEstimate, Line
from refaug.evaluation.reproduction.figures.selection import mean_partial_correlations, select
from refaug.evaluation.reproduction.material.rated_sets import ProofSet
from refaug.evaluation.reproduction.material.reference_kinds import sum_of_ranks
from refaug.evaluation.reproduction.material.set_groups import groups_of
from refaug.metrics.base import Floats

_LEVEL: Final = 0.95


def differences_together(
    correlations: Correlations, names: Sequence[str], baseline: str, kind: str
) -> dict[str, IntervalEstimate]:
    """Return the difference of each line to the baseline, with intervals that hold for all of them at once.

    The width is that of the largest difference, in standard errors, among all lines of a draw (max-T): at the stated
    level no interval misses, so the best line may be read off the table.
    """
    singles = {name: correlations.difference(name, baseline, kind) for name in names}
    scope = correlations.scopes[-1]
    place = correlations.names.index(baseline)
    drawn = np.stack(
        [
            correlations.drawn[kind, scope][correlations.names.index(name)] - correlations.drawn[kind, scope][place]
            for name in names
        ]
    )
    drawn = drawn[:, np.isfinite(drawn).all(axis=0)]
    if drawn.shape[1] < 2 or any(single.value is None for single in singles.values()):
        return {name: IntervalEstimate(value=single.value, why="not defined") for name, single in singles.items()}
    errors = drawn.std(axis=1, ddof=1)
    is_moving = errors > 0
    scaled = np.abs(drawn - drawn.mean(axis=1, keepdims=True))[is_moving] / errors[is_moving, None]
    width = float(np.quantile(scaled.max(axis=0), _LEVEL)) if is_moving.any() else 0.0
    return {
        name: IntervalEstimate(
            value=single.value, low=(single.value or 0.0) - width * error, high=(single.value or 0.0) + width * error
        )
        for (name, single), error in zip(singles.items(), errors.tolist(), strict=True)
    }


BY_GROUPS: Final = "chosen by the other groups of sets"
BY_FOLDS: Final = "chosen by the other folds of contexts"


@dataclass(frozen=True, kw_only=True)
class JudgeChoice:
    """A line whose scores are those of the candidate that was best elsewhere, and the names of these, by part."""

    line: Line
    chosen: Mapping[str, str]  # the group or fold that was left out → the judge


def choices_of(sets: Sequence[ProofSet], lines: Sequence[Line]) -> list[JudgeChoice]:
    """Choose among judges in both ways; none where there is one group, to which no judge was fitted from elsewhere."""
    if len(groups_of(sets)) < 2:
        return []
    selection = select(sets, lines, BY_FOLDS)
    by_fold = {f"fold {number}": name for number, name in enumerate(selection.by_fold, start=1)}
    return [chosen_by_other_groups(sets, lines), JudgeChoice(line=selection.line, chosen=by_fold)]


def chosen_by_other_groups(sets: Sequence[ProofSet], lines: Sequence[Line]) -> JudgeChoice:
    """Choose a candidate for each group by its mean partial Spearman on the other groups, on fair rows."""
    ranked = [sum_of_ranks([line], line.name) for line in lines]  # on one scale for all candidates
    scores, chosen = dict[str, Floats](), dict[str, str]()
    for group in groups_of(sets):
        elsewhere = [rated_set for rated_set in sets if rated_set.name not in group.sets]
        every_row = {rated_set.name: np.ones(len(rated_set.replies), dtype=np.bool_) for rated_set in elsewhere}
        values = mean_partial_correlations(elsewhere, ranked, every_row)
        best = int(np.argmax(values))
        chosen[group.name] = lines[best].name
        for set_name in group.sets:
            scores[set_name] = ranked[best].scores[set_name][:1]
    about = f"chosen out of {len(lines)} judges, for each group by the other groups"
    return JudgeChoice(line=Line(name=BY_GROUPS, scores=scores, about=about), chosen=chosen)
