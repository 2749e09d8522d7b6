"""A combination of metrics: each on its scale of normal scores, added with weights, with or without length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Self, get_args

import numpy as np
from scipy.stats import norm, rankdata

from refaug.core.errors import Corrupt, Usage
from refaug.metrics.base import Floats

Method = Literal["ridge", "equal"]
LengthEffect = Literal["free", "held"]
LENGTH_TOKENIZER: Final = "word"  # counts lengths of texts that are not Japanese
_KNOTS: Final = 101  # of the map from a metric's values to normal scores
_REMEDY: Final = "restore it, or fit it again"


@dataclass(frozen=True, kw_only=True)
class FitSettings:
    """How a judge is fitted."""

    method: Method = "ridge"
    length: LengthEffect = "free"
    seed: int = 1

    def __post_init__(self) -> None:
        if self.method not in get_args(Method):
            raise Usage(f"there is no method {self.method!r}", remedy=f"one of: {', '.join(get_args(Method))}")
        if self.length not in get_args(LengthEffect):
            raise Usage(f"length {self.length!r}", remedy=f"one of: {', '.join(get_args(LengthEffect))}")


@dataclass(frozen=True, kw_only=True)
class NormalScale:
    """A map from values to normal scores, linear between some values of the training rows and flat beyond them."""

    values: tuple[float, ...]
    scores: tuple[float, ...]

    @classmethod
    def of(cls, values: Floats) -> Self:
        """Measure the scale of some values; equal values share their mean rank."""
        ranks = rankdata(values)
        distinct, first = np.unique(values, return_index=True)
        scores = norm.ppf((ranks[first] - 0.5) / len(values))
        if len(distinct) > _KNOTS:
            chosen = np.unique(np.linspace(0, len(distinct) - 1, _KNOTS).round().astype(np.int64))
            distinct, scores = distinct[chosen], scores[chosen]
        return cls(values=tuple(distinct.tolist()), scores=tuple(scores.tolist()))

    def apply(self, values: Floats) -> Floats:
        """Return the normal scores of values; NaN stays NaN."""
        scores = np.interp(values, self.values, self.scores)
        return np.where(np.isnan(values), np.nan, scores)


@dataclass(frozen=True, kw_only=True)
class CombinedJudge:
    """The weights of metrics, each on its scale, and what is taken off for the length of a reply."""

    features: tuple[str, ...]
    scales: tuple[NormalScale, ...]
    coefficients: tuple[float, ...]
    length_scale: NormalScale
    length_slopes: tuple[float, ...]  # of the metrics; all 0 where the effect of length is free
    penalty: float
    settings: FitSettings
    length_tokenizer: str = LENGTH_TOKENIZER  # counts the lengths of replies

    @property
    def limits(self) -> tuple[float, float]:
        """The least and the most that a reply can get: every scale is flat beyond its ends."""
        of_length = [min(self.length_scale.scores), max(self.length_scale.scores)]
        low = high = 0.0
        for weight, scale, slope in zip(self.coefficients, self.scales, self.length_slopes, strict=True):
            ends = [weight * end for end in (min(scale.scores), max(scale.scores))]
            taken_off = [weight * slope * end for end in of_length]
            low += min(ends) - max(taken_off)
            high += max(ends) - min(taken_off)
        return low, high

    def score(self, values: Floats, lengths: Floats) -> Floats:
        """Return the scores of rows (rows, features); NaN where a value is missing."""
        return np.asarray(self.design(values, lengths) @ np.array(self.coefficients))

    def design(self, values: Floats, lengths: Floats) -> Floats:
        """Return the metrics on their scales, without the effect of length where that is held."""
        columns = [scale.apply(values[:, column]) for column, scale in enumerate(self.scales)]
        taken_off = self.length_scale.apply(lengths)[:, None] * np.array(self.length_slopes)
        return np.asarray(np.stack(columns, axis=1) - taken_off)

    def as_json(self) -> dict[str, object]:
        """Return everything that scoring needs."""
        return {
            "features": list(self.features),
            "scales": [{"values": list(scale.values), "scores": list(scale.scores)} for scale in self.scales],
            "coefficients": list(self.coefficients),
            "length_scale": {"values": list(self.length_scale.values), "scores": list(self.length_scale.scores)},
            "length_slopes": list(self.length_slopes),
            "penalty": self.penalty,
            "length_tokenizer": self.length_tokenizer,
            "settings": {"method": self.settings.method, "length": self.settings.length, "seed": self.settings.seed},
        }

    @classmethod
    def read(cls, saved: Mapping[str, Any], place: str) -> Self:
        """Read what `as_json` returned; raise Corrupt for anything else."""
        try:
            judge = cls(
                features=tuple(map(str, saved["features"])),
                scales=tuple(_scale_of(scale) for scale in saved["scales"]),
                coefficients=_finite_numbers(saved["coefficients"]),
                length_scale=_scale_of(saved["length_scale"]),
                length_slopes=_finite_numbers(saved["length_slopes"]),
                penalty=float(saved["penalty"]),
                settings=FitSettings(**saved["settings"]),
                length_tokenizer=str(saved.get("length_tokenizer", LENGTH_TOKENIZER)),
            )
        except (KeyError, TypeError, ValueError, Usage) as error:
            raise Corrupt(f"{place} is no fitted judge: {error}", remedy=_REMEDY) from error
        sizes = {len(judge.features), len(judge.scales), len(judge.coefficients), len(judge.length_slopes)}
        if len(sizes) != 1:
            raise Corrupt(f"{place} has lists of {sorted(sizes)} entries for its metrics", remedy=_REMEDY)
        return judge


def _scale_of(saved: Mapping[str, Any]) -> NormalScale:
    scale = NormalScale(values=_finite_numbers(saved["values"]), scores=_finite_numbers(saved["scores"]))
    if not scale.values or len(scale.values) != len(scale.scores) or (np.diff(scale.values) <= 0).any():
        raise ValueError("a scale whose values do not rise")
    return scale


def _finite_numbers(numbers: Sequence[Any]) -> tuple[float, ...]:
    """Return the numbers; raise ValueError where one of them is not finite."""
    read = tuple(float(number) for number in numbers)
    if not np.isfinite(read).all():
        raise ValueError("a number that is not finite")
    return read
