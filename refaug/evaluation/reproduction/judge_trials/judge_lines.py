"""Lines of fitted judges: scores of each group of sets by a judge that was made without this group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from refaug.evaluation.fitted_judge.held_out import out_of_fold_scores, out_of_group_scores
from refaug.evaluation.fitted_judge.rated_table import RatedTable
from refaug.evaluation.metric_setup.combined.combination import FitSettings
from refaug.evaluation.reproduction.figures.correlations import Line
from refaug.evaluation.reproduction.material.rated_sets import ProofSet
from refaug.evaluation.reproduction.material.set_groups import context_numbers, groups_of
from refaug.metrics.base import Floats

EQUAL: Final = FitSettings(method="equal", length="held")


def rated_table(sets: Sequence[ProofSet], lines: Mapping[str, Line], names: Sequence[str]) -> RatedTable:
    """Return all rows of the sets, one set after the other; rows that rate a gold have no rating here."""
    contexts, groups = context_numbers(sets), groups_of(sets)
    group_of = {name: number for number, group in enumerate(groups) for name in group.sets}
    ratings = np.concatenate([np.where(rated_set.fair, rated_set.ratings, np.nan) for rated_set in sets])
    sizes = [len(rated_set.replies) for rated_set in sets]
    return RatedTable(
        features=tuple(names),
        values=np.stack(
            [np.concatenate([lines[name].scores[rated_set.name][0] for rated_set in sets]) for name in names],
            axis=1,
        ),
        ratings=ratings,
        lengths=np.concatenate([rated_set.lengths for rated_set in sets]),
        sets=np.repeat(np.arange(len(sets)), sizes),
        groups=np.repeat([group_of[rated_set.name] for rated_set in sets], sizes),
        contexts=np.concatenate([contexts[rated_set.name][rated_set.item] for rated_set in sets]),
    )


def line_of_rows(name: str, sets: Sequence[ProofSet], scores: Floats, about: str) -> Line:
    """Cut scores (seeds, rows of all sets) into those of each set."""
    ends = np.cumsum([len(rated_set.replies) for rated_set in sets])[:-1]
    parts = np.split(scores, ends, axis=1)
    return Line(
        name=name, scores={rated_set.name: part for rated_set, part in zip(sets, parts, strict=True)}, about=about
    )


def even_line(sets: Sequence[ProofSet], parts: Sequence[Line], name: str, about: str) -> Line:
    """Combine lines with equal weights and length held; scales and the effect of length come from the other groups.

    With one group they come from other contexts of it; ratings play no part in either case.
    """
    table = rated_table(sets, {part.name: part for part in parts}, [part.name for part in parts])
    scores_of = out_of_group_scores if len(groups_of(sets)) > 1 else out_of_fold_scores
    return line_of_rows(name, sets, scores_of(table, EQUAL)[None], about)
