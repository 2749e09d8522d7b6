"""What is learnt from ratings: ADEM in its forms, and the controls that it has to beat.

Every learner has settings that its own folds choose, over contexts inside the rows that it is fitted to: by the mean
over folds of Spearman with length held fixed, which is what is claimed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Final, Protocol

import numpy as np

from refaug.evaluation.reproduction.learned.rated_rows import LearnedRows
from refaug.metrics.base import Floats
from refaug.metrics.statistics.correlation import partial_spearman
from refaug.rater.adem.scorer.encoding import VectorCache
from refaug.rater.adem.scorer.fitting import fit_scorer
from refaug.rater.adem.scorer.rated_triples import Indexes
from refaug.rater.adem.scorer.settings import ScorerSettings

COMPONENTS: Final = (10, 20, 50)
PENALTIES: Final = (0.02, 0.075, 0.3)
RIDGES: Final = (1.0, 10.0, 100.0, 1_000.0, 10_000.0)
_FOLDS: Final = 3

Predict = Callable[[LearnedRows], Floats]
Chosen = Mapping[str, Any]


class Learner(Protocol):
    """Something that is fitted to rated rows."""

    def choices(self) -> Sequence[Chosen]:
        """Return the settings that folds choose from."""

    def fit(self, rows: LearnedRows, chosen: Chosen, seed: int) -> Predict:
        """Return a function that scores rows."""


def choose(learner: Learner, rows: LearnedRows, seed: int) -> Chosen:
    """Return the settings of the best mean partial Spearman over folds of contexts; the first of equal ones."""
    choices = list(learner.choices())
    if len(choices) == 1:
        return choices[0]
    folds = context_folds(rows.rated.contexts, _FOLDS, seed)
    means = [np.mean([_held_out(learner, rows, chosen, fold, seed) for fold in folds]) for chosen in choices]
    return choices[int(np.argmax(means))]


def _held_out(learner: Learner, rows: LearnedRows, chosen: Chosen, fold: Indexes, seed: int) -> float:
    is_held_out = np.zeros(len(rows), dtype=np.bool_)
    is_held_out[fold] = True
    predict = learner.fit(rows.select(np.flatnonzero(~is_held_out)), chosen, seed)
    held_out = rows.select(fold)
    figure = partial_spearman(predict(held_out), held_out.rated.ratings, held_out.lengths)
    return 0.0 if figure.value is None else figure.value


def context_folds(contexts: Indexes, count: int, seed: int) -> list[Indexes]:
    """Return the rows of each of so many folds; no context is in two of them."""
    order = np.random.default_rng([seed, 3]).permutation(np.unique(contexts))
    return [np.flatnonzero(np.isin(contexts, part)) for part in np.array_split(order, count)]


@dataclass(frozen=True, kw_only=True)
class AdemLearner:
    """ADEM on the vectors of an encoder; untrained, the constants and components are fitted but not the matrices."""

    cache: VectorCache
    settings: ScorerSettings
    is_trained: bool = True
    is_published: bool = False  # nothing is chosen: 50 components, a penalty of .075
    has_shuffled_labels: bool = False

    def choices(self) -> Sequence[Chosen]:
        """Return numbers of components with penalties; before training the penalty plays no part."""
        if self.is_published:
            return [{"components": self.settings.components, "penalty": self.settings.penalty}]
        if not self.is_trained:
            return [{"components": self.settings.components}]
        return [
            {"components": components, "penalty": penalty} for components, penalty in product(COMPONENTS, PENALTIES)
        ]

    def fit(self, rows: LearnedRows, chosen: Chosen, seed: int) -> Predict:
        """Fit projection, constants and matrices."""
        form = self.settings.form
        rated = rows.rated
        if self.has_shuffled_labels:
            rated = replace(rated, ratings=np.random.default_rng([seed, 4]).permutation(rated.ratings))
        vectors = self.cache.triple_vectors(rated.triples, form)
        smallest = min(vectors.vectors.shape)
        settings = replace(
            self.settings,
            **{**chosen, "components": min(int(chosen["components"]), smallest)},
            seed=seed,
            epochs=self.settings.epochs if self.is_trained else 1,
        )
        fitted = fit_scorer(rated, vectors, settings)
        scorer = fitted.scorer if self.is_trained else fitted.untrained
        return lambda other: scorer.score(self.cache.triple_vectors(other.rated.triples, form))


@dataclass(frozen=True, kw_only=True)
class RidgeLearner:
    """Ridge regression of ratings on features of rows, each scaled to mean 0 and deviation 1."""

    features: Callable[[LearnedRows], Floats]

    def choices(self) -> Sequence[Chosen]:
        """Return weights of the penalty."""
        return [{"ridge": ridge} for ridge in RIDGES]

    def fit(self, rows: LearnedRows, chosen: Chosen, seed: int) -> Predict:
        """Solve the normal equations; the intercept is not penalised."""
        del seed
        features = self.features(rows)
        mean, deviation = features.mean(axis=0), np.maximum(features.std(axis=0), 1e-9)
        scaled = (features - mean) / deviation
        ratings = rows.rated.ratings
        matrix = scaled.T @ scaled + float(chosen["ridge"]) * np.eye(scaled.shape[1])
        weights = np.linalg.solve(matrix, scaled.T @ (ratings - ratings.mean()))
        return lambda other: np.asarray((self.features(other) - mean) / deviation @ weights + ratings.mean())


@dataclass(frozen=True, kw_only=True)
class LengthLearner:
    """A parabola in the logarithm of the length of the reply, and nothing else."""

    def choices(self) -> Sequence[Chosen]:
        """Return nothing to choose."""
        return [{}]

    def fit(self, rows: LearnedRows, chosen: Chosen, seed: int) -> Predict:
        """Fit the parabola by least squares."""
        del chosen, seed
        coefficients = np.polyfit(np.log1p(rows.lengths), rows.rated.ratings, 2)
        return lambda other: np.asarray(np.polyval(coefficients, np.log1p(other.lengths)))
