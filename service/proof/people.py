"""People beside the metrics: how far annotators agree with each other, and a metric with each of them.

A column of ratings is a place in the lists that were released; it is not the same person in every row of every set. The
reliability of the mean rating and the mean over places hold all the same, the smallest and the largest are a spread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from metrics.annotators import one_against_others, spearman_brown, split_half
from metrics.base import Floats
from metrics.correlation import FEWEST_ROWS, Correlation, Spread, by_annotator
from service.pages import Table
from service.proof.figures import Figure, Line
from service.proof.report import cell, short
from service.proof.sets import ProofSet

ONE_NUMBER: Final = "one number a reply"
_HALVINGS: Final = 1_000  # of the ratings of all rows
_HALVINGS_OF_A_DRAW: Final = 5  # a draw has noise enough of its own, and there are many
_SPREAD: Final = "smallest and largest are over places in the lists of ratings: a spread, not an interval"


@dataclass(frozen=True, kw_only=True)
class HumanRow:
    """People against people on the fair rows of a set; `why` where they cannot be told apart."""

    name: str
    rows: int
    annotators: int
    spearman: Figure  # reliability of the mean rating of all annotators
    pearson: Figure
    half: Figure  # Spearman of the means of two halves of the annotators
    alone: Figure  # Spearman of one annotator with the mean of the others, mean over annotators
    each: tuple[float | None, ...] = ()  # the same for every annotator
    why: str | None = None

    def as_json(self) -> dict[str, Any]:
        """With every annotator's own figure."""
        figures = {"spearman": self.spearman, "pearson": self.pearson, "half": self.half, "alone": self.alone}
        return {
            "rows": self.rows,
            "annotators": self.annotators,
            **{key: figure.as_json() for key, figure in figures.items()},
            "each": [None if one is None else round(one, 4) for one in self.each],
            **({} if self.why is None else {"why": self.why}),
        }


def human_rows(sets: Sequence[ProofSet], *, draws: int = 1_000, seed: int = 1) -> list[HumanRow]:
    """How reliable the ratings of each set are, with intervals over contexts: as much as a metric can hope for."""
    return [_human_row(one, draws, [seed, number]) for number, one in enumerate(sets)]


def _human_row(one: ProofSet, draws: int, seed: list[int]) -> HumanRow:
    ratings, contexts = one.by_annotator[one.fair], one.item[one.fair]
    several = (~np.isnan(ratings)).sum(axis=1) > 1
    ratings, contexts = ratings[several], contexts[several]
    if ratings.shape[1] < 2 or len(ratings) < FEWEST_ROWS:
        why = ONE_NUMBER if ratings.shape[1] < 2 else f"{len(ratings)} rows with several ratings"
        none = Figure(why=why)
        return HumanRow(
            name=one.name,
            rows=int(one.fair.sum()),
            annotators=ratings.shape[1],
            spearman=none,
            pearson=none,
            half=none,
            alone=none,
            why=why,
        )
    values = _agreement(ratings, _HALVINGS, 0)
    drawn = _in_draws(lambda rows, draw: _agreement(ratings[rows], _HALVINGS_OF_A_DRAW, draw), contexts, draws, seed)
    spearman, pearson, half, alone = (Figure.of(value, of) for value, of in zip(values, drawn.T, strict=True))
    each = one_against_others(ratings).each
    return HumanRow(
        name=one.name,
        rows=len(ratings),
        annotators=ratings.shape[1],
        spearman=spearman,
        pearson=pearson,
        half=half,
        alone=alone,
        each=tuple(each[place].value for place in sorted(each)),
    )


def _agreement(ratings: Floats, halvings: int, seed: int) -> Floats:
    """Reliability by Spearman and by Pearson, half against half, one against the others; NaN where undefined."""
    halves = split_half(ratings, draws=halvings, seed=seed)
    values = (
        spearman_brown(halves.spearman.half),
        spearman_brown(halves.pearson.half),
        halves.spearman.half,
        one_against_others(ratings).mean,
    )
    return np.array([np.nan if one is None else one for one in values])


def _in_draws(
    values_of: Callable[[Any, int], Floats], contexts: Any, draws: int, seed: list[int]
) -> Floats:  # (draws, values)
    """The same values with contexts drawn anew, each with all of its rows."""
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


def human_table(found: Sequence[HumanRow]) -> Table:
    """A row for each set; what cannot be known of it is said in its place."""
    rows = [
        [
            one.name,
            f"{one.rows:,}",
            str(one.annotators),
            *(cell(figure) for figure in (one.spearman, one.pearson, one.half, one.alone)),
            *(_ends([value for value in one.each if value is not None])),
        ]
        for one in found
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
        *(f"{one.name}: {one.why}, so there is no human row" for one in found if one.why is not None),
    ]
    return Table(title="People against people", columns=columns, rows=rows, notes=notes)


def _ends(values: Sequence[float]) -> tuple[str, str]:
    return (short(min(values)), short(max(values))) if values else ("–", "–")


# ── a metric against each annotator ───────────────────────────────────────────────────────────────────────────────


def spread_over_annotators(one: ProofSet, line: Line) -> Spread | None:
    """Spearman of a line with every single annotator on the fair rows; None where there is one number a reply.

    A line of several seeds agrees with an annotator as it does on the mean over them.
    """
    ratings = one.by_annotator[one.fair]
    if ratings.shape[1] < 2:
        return None
    found = [by_annotator(scores[one.fair], ratings) for scores in line.scores[one.name]]
    return Spread.of(found[0].kind, {place: _mean([of.each[place] for of in found]) for place in found[0].each})


def _mean(found: Sequence[Correlation]) -> Correlation:
    """Over seeds; missing where it is for one of them."""
    missing = next((one for one in found if one.value is None), None)
    if missing is not None or len(found) == 1:
        return missing or found[0]
    return replace(found[0], value=float(np.mean([one.value for one in found])), p=None)


def annotator_table(sets: Sequence[ProofSet], lines: Sequence[Line]) -> Table:
    """Every line against single annotators: on average, and against those with whom it agrees least and most."""
    apart = [one for one in sets if one.by_annotator.shape[1] > 1]
    rows = [
        [line.name, *(text for one in apart for text in _of_spread(spread_over_annotators(one, line)))]
        for line in lines
        if apart
    ]
    columns = ["", *(f"{what}, {one.name}" for one in apart for what in ("mean", "smallest", "largest"))]
    gaps = [f"{one.name}: {ONE_NUMBER}, so no annotators to tell apart" for one in sets if one not in apart]
    return Table(
        title="Against single annotators, Spearman on fair rows",
        columns=columns,
        rows=rows,
        notes=(*([_SPREAD] if apart else []), *gaps),
    )


def _of_spread(found: Spread | None) -> tuple[str, str, str]:
    if found is None or found.mean is None or found.lowest is None or found.highest is None:
        return ("–", "–", "–")
    return short(found.mean), short(found.lowest), short(found.highest)
