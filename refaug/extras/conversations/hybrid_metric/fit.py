"""Least squares of ratings on the components of conversations, with one bot left out at a time.

For a bot that is left out, the components are scaled by the conversations with the others, and the coefficients λ come
from these. Its prediction is then made of the means of its components, in one of two ways:

    fold      Σ λ_i z̄_i + the mean rating of the others, as published
    common    Σ λ_i z̄_i with components centred over all bots, so that no rating of the bot's rivals enters

With `fold` the mean of the others falls as the bot's mean rises, whatever the components are: with as many
conversations for each bot and no component at all, the correlation is exactly -1.

Predictions are linear in the ratings, so a fit is a matrix: the controls refit thousands of shuffled ratings by one
product. A component that a conversation lacks counts as the mean, in a fit and in a bot's prediction.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Self

import numpy as np
from numpy.typing import NDArray

from refaug.core.errors import BadInput

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]
Intercept = Literal["common", "fold"]

LEAST_BOTS: Final = 2
_CUTOFF: Final = 1e-12  # eigenvalues below this share of the largest belong to components that say the same


@dataclass(frozen=True, eq=False)
class Fold:
    """The components of the conversations that a fit is made of, scaled, and what makes coefficients of ratings."""

    means: Floats  # (components,)
    deviations: Floats  # (components,): 0 where a component is constant
    scaled: Floats  # (conversations, components)
    inverse: Floats  # (components, components): of the scaled components' products, where they say something new
    condition: float

    @property
    def solver(self) -> Floats:
        """The matrix whose product with ratings is the coefficients, (components, conversations)."""
        return np.asarray(self.inverse @ self.scaled.T)

    def coefficients(self, ratings: Floats) -> Floats:
        """Return the coefficients that these ratings give."""
        return np.asarray(self.inverse @ (self.scaled.T @ ratings))

    def place(self, features: Floats, centre: Floats | None) -> Floats:
        """Return where a bot's conversations lie on average, in deviations from the centre, or else from the fold."""
        scaled: Floats = _scaled(column_means(features)[None], self.means, self.deviations)[0]
        if centre is not None:
            scaled = scaled - _scaled(centre[None], self.means, self.deviations)[0]
        return np.asarray(scaled * (~np.isnan(features)).mean(axis=0))  # those that lack a component lie at 0


def fit_fold(features: Floats, penalty: float = 0.0) -> Fold:
    """Scale the components of some conversations, and prepare the least squares on them.

    The scaled components have mean 0, so the mean rating needs no column. Components that say the same share their
    coefficient: the solution is the shortest.
    """
    means = column_means(features)
    deviations = _deviations(features, means)
    scaled = _scaled(features, means, deviations)
    scaled = scaled - scaled.mean(axis=0)
    values, vectors = np.linalg.eigh(scaled.T @ scaled)
    is_used = values > _CUTOFF * values.max(initial=0.0)
    inverted = np.zeros_like(values)
    inverted[is_used] = 1 / (values[is_used] + penalty * len(scaled))
    condition = math.sqrt(values[is_used].max() / values[is_used].min()) if is_used.any() else 1.0
    return Fold(means, deviations, scaled, np.asarray((vectors * inverted) @ vectors.T), condition)


@dataclass(frozen=True, eq=False)
class Fit:
    """What was fitted for the bots, one after the other; `bots` are their numbers in rising order."""

    bots: Labels
    operator: Floats  # (bots, conversations): its product with the ratings is the prediction of each bot
    coefficients: Floats  # (bots, components): λ in units of a standard deviation of the component
    scales: Floats  # (bots, components): that deviation; 0 where the component is constant
    conditions: Floats  # (bots,): the condition number of the scaled components

    def predictions(self, ratings: Floats) -> Floats:
        """Return the prediction of each bot; the columns of a matrix of ratings are predicted side by side."""
        return np.asarray(self.operator @ ratings)


@dataclass(frozen=True, eq=False)
class Scored:
    """The conversations that predictions are made for: those that were rated, or the bots' self-play."""

    features: Floats
    bots: Labels


def leave_one_bot_out(
    features: Floats,
    ratings: Floats,
    bots: Labels,
    *,
    intercept: Intercept = "common",
    penalty: float = 0.0,
    scored: Scored | None = None,
) -> Fit:
    """Fit each bot's prediction to the conversations with the other bots.

    The penalty is that of a ridge, for a conversation and standard deviation; 0 is ordinary least squares. Predictions
    are made for `scored`, or for the rated conversations themselves.
    """
    _check(features, ratings, bots)
    play = scored or Scored(features, bots)
    numbers = np.unique(bots)
    if missing := sorted(set(numbers.tolist()) - set(play.bots.tolist())):
        raise BadInput(f"{len(missing)} of {len(numbers)} rated bots have no conversation to be scored")
    centre = column_means(play.features) if intercept == "common" else None
    operator = np.zeros((len(numbers), len(ratings)))
    folds = []
    for row, number in enumerate(numbers):
        is_training = bots != number
        fold = fit_fold(features[is_training], penalty)
        folds.append(fold)
        place = fold.place(play.features[play.bots == number], centre)
        operator[row, is_training] = place @ fold.solver
        if intercept == "fold":
            operator[row, is_training] += 1 / is_training.sum()
    return Fit(
        bots=numbers,
        operator=operator,
        coefficients=np.stack(
            [fold.solver @ ratings[bots != number] for fold, number in zip(folds, numbers, strict=True)]
        ),
        scales=np.stack([fold.deviations for fold in folds]),
        conditions=np.array([fold.condition for fold in folds]),
    )


def predict_conversations(features: Floats, ratings: Floats, bots: Labels, penalty: float = 0.0) -> Floats:
    """Predict each conversation by the fit on the other bots; the level of a bot's predictions says nothing."""
    _check(features, ratings, bots)
    predictions = np.zeros(len(ratings))
    for number in np.unique(bots):
        is_training = bots != number
        fold = fit_fold(features[is_training], penalty)
        coefficients = fold.coefficients(ratings[is_training])
        predictions[~is_training] = _scaled(features[~is_training], fold.means, fold.deviations) @ coefficients
    return predictions


def bot_means(values: Floats, bots: Labels) -> Floats:
    """Return the mean of each bot's values, in the order of the bots' numbers; NaN for a bot that has none."""
    return np.array([defined_means(values[bots == number][:, None])[0] for number in np.unique(bots)])


def _check(features: Floats, ratings: Floats, bots: Labels) -> None:
    if features.ndim != 2 or not len(features) == len(ratings) == len(bots):
        raise BadInput(
            f"{features.shape} components, {len(ratings):,} ratings and {len(bots):,} bots do not belong together"
        )
    if not np.isfinite(ratings).all():
        raise BadInput("a rating is missing", remedy="leave out conversations without a rating")
    if len(np.unique(bots)) < LEAST_BOTS:
        raise BadInput("leaving one bot out needs at least two bots", remedy="rate conversations with more bots")


def column_means(values: Floats) -> Floats:
    """Return the mean of each column over the rows where it is defined; 0 where it is defined nowhere."""
    is_defined = ~np.isnan(values)
    counts = is_defined.sum(axis=0)
    sums = np.where(is_defined, values, 0.0).sum(axis=0)
    return np.asarray(np.divide(sums, counts, out=np.zeros(values.shape[1]), where=counts > 0))


def defined_means(values: Floats) -> Floats:
    """Return the mean of each column over the rows where it is defined; NaN where it is defined nowhere."""
    return np.where(np.isnan(values).all(axis=0), math.nan, column_means(values))


def _deviations(values: Floats, means: Floats) -> Floats:
    """Return the standard deviation of each column, 0 where it is constant but for rounding."""
    centred = np.where(np.isnan(values), 0.0, values - means)
    counts = np.maximum((~np.isnan(values)).sum(axis=0), 1)
    deviations = np.sqrt((centred**2).sum(axis=0) / counts)
    return np.where(deviations > 1e-12 * np.maximum(np.abs(means), 1.0), deviations, 0.0)


def _scaled(values: Floats, means: Floats, deviations: Floats) -> Floats:
    centred = np.where(np.isnan(values), 0.0, values - means)
    return np.asarray(np.divide(centred, deviations, out=np.zeros_like(centred), where=deviations > 0))


# ── ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────
#
# What a fit leaves behind: coefficients with the scales that they belong to, from all bots, and without each of them.
#
# A conversation with a bot that the fit has seen is scored by the coefficients of the other bots, so that its
# ratings, and those of its siblings, play no part in its score.


@dataclass(frozen=True, eq=False)
class ColumnWeights:
    """The coefficients λ of one fit, in units of a standard deviation of each column."""

    coefficients: Floats
    means: Floats
    deviations: Floats
    level: float  # the mean rating of what was fitted to

    @classmethod
    def of(cls, features: Floats, ratings: Floats, penalty: float) -> Self:
        """Fit ratings to columns."""
        fold = fit_fold(features, penalty)
        return cls(fold.coefficients(ratings), fold.means, fold.deviations, float(ratings.mean()))

    @classmethod
    def read(cls, fields: Mapping[str, Any]) -> Self:
        """Return the weights of what `as_json` wrote."""
        coefficients, means, deviations = (
            np.array(fields[name], np.float64) for name in ("coefficients", "means", "deviations")
        )
        weights = cls(coefficients, means, deviations, float(fields["level"]))
        if len({len(weights.coefficients), len(weights.means), len(weights.deviations)}) != 1:
            raise BadInput("coefficients, means and deviations are not as many")
        return weights

    def as_json(self) -> dict[str, object]:
        """Return all numbers."""
        return {
            "coefficients": self.coefficients.tolist(),
            "means": self.means.tolist(),
            "deviations": self.deviations.tolist(),
            "level": self.level,
        }

    def scores(self, features: Floats, centre: Floats | None) -> Floats:
        """Return Σ λ_i z_i in deviations from the centre; without one, from the fit's means, its level added.

        A column that a conversation lacks counts as the origin.
        """
        origin = self.means if centre is None else centre
        centred = np.where(np.isnan(features), 0.0, features - origin)
        scaled = np.divide(centred, self.deviations, out=np.zeros_like(centred), where=self.deviations > 0)
        return np.asarray(scaled @ self.coefficients + (self.level if centre is None else 0.0))


@dataclass(frozen=True, eq=False, kw_only=True)
class HybridWeights:
    """The fit on all bots, and the fits that leave one of them out."""

    columns: tuple[str, ...]
    intercept: Intercept
    centre: Floats  # the means of the columns over all conversations, without regard to ratings
    all_bots: ColumnWeights
    without: Mapping[str, ColumnWeights]  # the bot that was left out → the fit on the others

    @classmethod
    def of(
        cls,
        columns: Sequence[str],
        features: Floats,
        ratings: Floats,
        bots: Labels,
        names: Sequence[str],
        *,
        intercept: Intercept = "common",
        penalty: float = 0.0,
    ) -> Self:
        """Fit to all conversations, and again without each bot; one bot alone has no second fit."""
        without = {}
        for number in np.unique(bots).tolist():
            is_training = bots != number
            if is_training.any():
                without[names[number]] = ColumnWeights.of(features[is_training], ratings[is_training], penalty)
        return cls(
            columns=tuple(columns),
            intercept=intercept,
            centre=column_means(features),
            all_bots=ColumnWeights.of(features, ratings, penalty),
            without=without,
        )

    @classmethod
    def read(cls, fields: Mapping[str, Any]) -> Self:
        """Return what `as_json` wrote; KeyError, TypeError, ValueError or BadInput where it is something else."""
        intercept = fields["intercept"]
        if intercept not in ("common", "fold"):
            raise BadInput(f"{intercept!r} is not an intercept")
        weights = cls(
            columns=tuple(map(str, fields["columns"])),
            intercept=intercept,
            centre=np.array(fields["centre"], np.float64),
            all_bots=ColumnWeights.read(fields["all_bots"]),
            without={str(bot): ColumnWeights.read(own) for bot, own in fields["without"].items()},
        )
        for own in (weights.all_bots, *weights.without.values()):
            if not len(own.coefficients) == len(weights.columns) == len(weights.centre):
                raise BadInput(f"{len(own.coefficients)} coefficients for {len(weights.columns)} columns")
        return weights

    def as_json(self) -> dict[str, object]:
        """Return all numbers."""
        return {
            "columns": list(self.columns),
            "intercept": self.intercept,
            "centre": self.centre.tolist(),
            "all_bots": self.all_bots.as_json(),
            "without": {bot: own.as_json() for bot, own in self.without.items()},
        }

    def scores(self, features: Floats, bots: Sequence[str], *, centre: Floats | None = None) -> Floats:
        """Score conversations, each by the fit without its bot, or by that on all bots if it was fitted to none of it.

        `centre` replaces the means of the fitted conversations, such as by those of self-play, whose level is another.
        """
        origin = None if self.intercept == "fold" else self.centre if centre is None else centre
        scores, rows_of = np.empty(len(features)), defaultdict[str, list[int]](list)
        for row, bot in enumerate(bots):
            rows_of[bot].append(row)
        for bot, rows in rows_of.items():
            scores[rows] = self.without.get(bot, self.all_bots).scores(features[rows], origin)
        return scores
