"""What a fit leaves behind: coefficients with the scales that they belong to, from all bots, and without each of them.

A conversation with a bot that the fit has seen is scored by the coefficients of the other bots, so that its ratings,
and those of its siblings, play no part in its score.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from refaug.core.errors import BadInput
from refaug.metrics.hybrid.fit import Intercept, Labels, column_means, fit_fold

Floats = NDArray[np.float64]


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
            raise BadInput(f"{intercept!r} is no intercept")
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
        scores = np.empty(len(features))
        labels = np.array(bots)
        for bot in dict.fromkeys(bots):
            is_bot = labels == bot
            scores[is_bot] = self.without.get(bot, self.all_bots).scores(features[is_bot], origin)
        return scores
