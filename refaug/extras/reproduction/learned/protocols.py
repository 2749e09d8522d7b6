"""The protocols: learners fitted to other groups of sets, or to other contexts of the same set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from refaug.core.progress import Progress
from refaug.extras.reproduction.learned.learners import Chosen, Learner, choose, context_folds
from refaug.extras.reproduction.learned.rated_rows import LearnedRows, LearnedSet
from refaug.extras.reproduction.material.rated_sets import SetGroup
from refaug.metrics.base import Floats

Fit = tuple[Learner, int]  # a learner with the seed of its fit


@dataclass(frozen=True, kw_only=True)
class LearnedLine:
    """A line of a table: a learner for each seed, and what it is."""

    name: str
    learners: Sequence[Fit]
    about: str
    chooses_as: str | None = None  # the line whose settings it takes, rather than choosing its own
    share: float = 1.0  # of the contexts that it is fitted to, within folds


@dataclass(kw_only=True)
class ChosenSettings:
    """The settings that folds have chosen, by line and what was left out, for reports and for lines that share them."""

    chosen: dict[tuple[str, str], Chosen] = field(default_factory=dict)

    def of(self, line: LearnedLine, left_out: str, rows: LearnedRows) -> Chosen:
        """Return the settings of a line, chosen at their first use with its first learner."""
        owner = (line.chooses_as or line.name, left_out)
        if owner not in self.chosen:
            learner, seed = line.learners[0]
            self.chosen[owner] = choose(learner, rows, seed)
        return self.chosen[owner]

    def as_json(self) -> Mapping[str, object]:
        """Return the settings by line and what was left out."""
        lines = dict[str, dict[str, object]]()
        for (line, left_out), chosen in self.chosen.items():
            lines.setdefault(line, {})[left_out] = dict(chosen)
        return lines


def out_of_group(
    line: LearnedLine,
    sets: Sequence[LearnedSet],
    groups: Sequence[SetGroup],
    more: Sequence[LearnedSet],
    settings: ChosenSettings,
    progress: Progress,
) -> Mapping[str, Floats]:
    """Return scores (seeds, rows) by set: of each group, by learners fitted to all other groups and to `more`."""
    scores = dict[str, Floats]()
    for group in groups:
        rest = [*(other for other in sets if other.name not in group.sets), *more]
        train = LearnedRows.joined([other.fair_rows for other in rest])
        chosen = settings.of(line, group.name, train)
        predictions = list[dict[str, Floats]]()
        for learner, seed in line.learners:
            predict = learner.fit(train, chosen, seed)
            predictions.append({tested.name: predict(tested.fair_rows) for tested in sets if tested.name in group.sets})
            progress.advance(1)
        for tested in sets:
            if tested.name in group.sets:
                scores[tested.name] = tested.spread(np.stack([of_seed[tested.name] for of_seed in predictions]))
    return scores


def trained_on(
    line: LearnedLine, train: LearnedSet, sets: Sequence[LearnedSet], settings: ChosenSettings, progress: Progress
) -> Mapping[str, Floats]:
    """Return scores (seeds, rows) of sets by learners fitted to another set alone."""
    rows = train.fair_rows
    chosen = settings.of(line, f"fitted to {train.name}", rows)
    predictors = [learner.fit(rows, chosen, seed) for learner, seed in line.learners]
    progress.advance(len(predictors))
    return {
        tested.name: tested.spread(np.stack([predict(tested.fair_rows) for predict in predictors])) for tested in sets
    }


def in_folds(
    line: LearnedLine, learned: LearnedSet, settings: ChosenSettings, progress: Progress, *, folds: int, seed: int
) -> Floats:
    """Return scores (seeds, rows) of a set: those of each fold of contexts by learners fitted to the other folds."""
    rows = learned.fair_rows
    scores = np.full((len(line.learners), len(rows)), np.nan)
    for number, fold in enumerate(context_folds(rows.rated.contexts, folds, seed)):
        train = learning_curve_rows(rows.select(_all_but(fold, len(rows))), line.share, seed)
        chosen = settings.of(line, f"{learned.name}, fold {number + 1}", train)
        for place, (learner, own_seed) in enumerate(line.learners):
            scores[place, fold] = learner.fit(train, chosen, own_seed)(rows.select(fold))
            progress.advance(1)
    return learned.spread(scores)


def without_system(line: LearnedLine, learned: LearnedSet, system: str, chosen: Chosen) -> tuple[Floats, Floats]:
    """Return scores (seeds, rows) of the replies of a system, and of all, by learners fitted to the other systems.

    Each half of the contexts is scored by learners fitted to the other half, so that no context is on both sides.
    """
    rows = learned.fair_rows
    is_removed = np.array([own == system for own in rows.rated.systems], dtype=np.bool_)
    everything = np.full((len(line.learners), len(rows)), np.nan)
    for fold in context_folds(rows.rated.contexts, 2, 1):
        train = _all_but(fold, len(rows))
        train_rows = rows.select(train[~is_removed[train]])
        for place, (learner, seed) in enumerate(line.learners):
            everything[place, fold] = learner.fit(train_rows, chosen, seed)(rows.select(fold))
    removed = np.where(is_removed, everything, np.nan)
    return learned.spread(removed), learned.spread(everything)


def learning_curve_rows(rows: LearnedRows, share: float, seed: int) -> LearnedRows:
    """Return the rows of a share of the contexts, drawn by the seed."""
    if share == 1:
        return rows
    order = np.random.default_rng([seed, 5]).permutation(np.unique(rows.rated.contexts))
    chosen = order[: max(1, round(share * len(order)))]
    return rows.select(np.flatnonzero(np.isin(rows.rated.contexts, chosen)))


def _all_but(fold: np.ndarray, count: int) -> np.ndarray:
    is_other = np.ones(count, dtype=np.bool_)
    is_other[fold] = False
    return np.flatnonzero(is_other)
