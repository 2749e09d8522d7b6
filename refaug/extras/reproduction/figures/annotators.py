"""Agreement among annotators.

A column of ratings is a position in the lists that were released, and not the same person in every row of every set.
The reliability of the mean rating holds all the same; the smallest and the largest are a spread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from refaug.extras.reproduction.figures.correlations import IntervalEstimate
from refaug.extras.reproduction.material.rated_sets import ProofSet
from refaug.extras.reproduction.report.report import cell, short
from refaug.metrics.base import Floats
from refaug.metrics.statistics.annotator_agreement import one_against_others, spearman_brown, split_half
from refaug.metrics.statistics.correlation import FEWEST_ROWS
from refaug.tables.reports.table import Table

ONE_NUMBER: Final = "one number a reply"
_HALVINGS: Final = 1_000  # of the ratings of all rows
_HALVINGS_OF_A_DRAW: Final = 5  # few, for the draws add noise themselves, and there are many
_SPREAD: Final = "smallest and largest are over places in the lists of ratings: a spread, not an interval"


@dataclass(frozen=True, kw_only=True)
class HumanRow:
    """Agreement of people with people on the fair rows of a set; `why` says why it is not known."""

    name: str
    rows: int
    annotators: int
    spearman: IntervalEstimate  # reliability of the mean rating of all annotators
    pearson: IntervalEstimate
    half: IntervalEstimate  # Spearman of the means of two halves of the annotators
    alone: IntervalEstimate  # Spearman of one annotator with the mean of the others; mean over annotators
    each: tuple[float | None, ...] = ()  # the Spearman of every annotator
    why: str | None = None

    def as_json(self) -> dict[str, object]:
        """Return the figures, with that of every annotator."""
        estimates = {"spearman": self.spearman, "pearson": self.pearson, "half": self.half, "alone": self.alone}
        return {
            "rows": self.rows,
            "annotators": self.annotators,
            **{key: estimate.as_json() for key, estimate in estimates.items()},
            "each": [None if correlation is None else round(correlation, 4) for correlation in self.each],
            **({} if self.why is None else {"why": self.why}),
        }


def human_rows(sets: Sequence[ProofSet], *, draws: int = 1_000, seed: int = 1) -> list[HumanRow]:
    """Return how reliable the ratings of each set are, with intervals over contexts: the ceiling of any metric."""
    return [_human_row(rated_set, draws, [seed, number]) for number, rated_set in enumerate(sets)]


def _human_row(rated_set: ProofSet, draws: int, seed: list[int]) -> HumanRow:
    ratings, contexts = rated_set.by_annotator[rated_set.fair], rated_set.item[rated_set.fair]
    several = (~np.isnan(ratings)).sum(axis=1) > 1
    ratings, contexts = ratings[several], contexts[several]
    if ratings.shape[1] < 2 or len(ratings) < FEWEST_ROWS:
        why = ONE_NUMBER if ratings.shape[1] < 2 else f"{len(ratings)} rows with several ratings"
        none = IntervalEstimate(why=why)
        return HumanRow(
            name=rated_set.name,
            rows=int(rated_set.fair.sum()),
            annotators=ratings.shape[1],
            spearman=none,
            pearson=none,
            half=none,
            alone=none,
            why=why,
        )
    values = _agreement(ratings, _HALVINGS, 0)
    drawn = _in_draws(lambda rows, draw: _agreement(ratings[rows], _HALVINGS_OF_A_DRAW, draw), contexts, draws, seed)
    spearman, pearson, half, alone = (
        IntervalEstimate.of(point, drawn_values) for point, drawn_values in zip(values, drawn.T, strict=True)
    )
    each = one_against_others(ratings).each
    return HumanRow(
        name=rated_set.name,
        rows=len(ratings),
        annotators=ratings.shape[1],
        spearman=spearman,
        pearson=pearson,
        half=half,
        alone=alone,
        each=tuple(each[place].value for place in sorted(each)),
    )


def _agreement(ratings: Floats, halvings: int, seed: int) -> Floats:
    """Return the agreements; NaN where one is not defined.

    They are the reliability by Spearman and by Pearson, half against half, and one annotator against the others.
    """
    halves = split_half(ratings, draws=halvings, seed=seed)
    values = (
        spearman_brown(halves.spearman.half),
        spearman_brown(halves.pearson.half),
        halves.spearman.half,
        one_against_others(ratings).mean,
    )
    return np.array([np.nan if number is None else number for number in values])


def _in_draws(
    values_of: Callable[[Any, int], Floats], contexts: Any, draws: int, seed: list[int]
) -> Floats:  # (draws, values)
    """Return the same values with contexts drawn anew, each context with all of its rows."""
    rows_of = [np.flatnonzero(contexts == context) for context in np.unique(contexts)]
    random = np.random.default_rng(seed)
    return np.stack(
        [
            values_of(
                np.concatenate([rows_of[place] for place in random.integers(0, len(rows_of), len(rows_of))]), draw
            )
            for draw in range(draws)
        ]
    )


def human_table(people: Sequence[HumanRow]) -> Table:
    """Return a table with a row for each set; what is not known of a set is explained in its place."""
    rows = [
        [
            human_row.name,
            f"{human_row.rows:,}",
            str(human_row.annotators),
            *(cell(estimate) for estimate in (human_row.spearman, human_row.pearson, human_row.half, human_row.alone)),
            *(_ends([value for value in human_row.each if value is not None])),
        ]
        for human_row in people
    ]
    columns = (
        "",
        "rows",
        "annotators",
        "reliability of the mean rating, Spearman",
        "reliability, Pearson",
        "half against half, Spearman",
        "one against the others, mean",
        "smallest",
        "largest",
    )
    notes = [
        "fair rows; halves of each row's ratings are drawn, and stepped up to all annotators by Spearman and Brown",
        "intervals are over contexts",
        _SPREAD,
        *(
            f"{human_row.name}: {human_row.why}, so there is no human row"
            for human_row in people
            if human_row.why is not None
        ),
    ]
    return Table(title="People against people", columns=columns, rows=rows, notes=notes)


def _ends(values: Sequence[float]) -> tuple[str, str]:
    return (short(min(values)), short(max(values))) if values else ("–", "–")
