"""How far a judge agrees with people, beside their agreement with each other, and what references add to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from refaug.metrics.base import Floats
from refaug.metrics.statistics.agreement import RatedSet, mean_over_sets
from refaug.metrics.statistics.annotator_agreement import kappa, one_against_others
from refaug.metrics.statistics.correlation import PARTIAL
from refaug.metrics.statistics.resampling import Estimate, Labels, bootstrap, holm

LEVEL: Final = 0.05
_PASSED: Final = 0.5  # of a judge's scale


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelledReplies:
    """Replies that people rated: (rows, raters), NaN where one did not, with contexts and lengths."""

    ratings: Floats
    contexts: Labels
    lengths: Floats

    @property
    def means(self) -> Floats:
        """The mean rating of each reply."""
        return np.asarray(np.nanmean(self.ratings, axis=1))

    @property
    def scale(self) -> tuple[float, float]:
        """The least and the largest rating."""
        return float(np.nanmin(self.ratings)), float(np.nanmax(self.ratings))

    @property
    def is_pass_or_fail(self) -> bool:
        """Whether there are two grades alone."""
        return len(np.unique(self.ratings[~np.isnan(self.ratings)])) == 2

    @property
    def passed(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Whether most raters let a reply pass."""
        low, high = self.scale
        return np.asarray(self.means > (low + high) / 2)


def agreement_figures(scores: Floats, labelled: LabelledReplies, *, draws: int, seed: int) -> dict[str, Estimate]:
    """Return how far scores agree with people; the first figure is the one that a passport asks for.

    Intervals draw contexts. `given_length` is Spearman with the length of replies held fixed.
    """
    rated = RatedSet(scores[None], labelled.means, labelled.contexts, labelled.lengths)
    kinds = ("spearman", PARTIAL)
    compared = mean_over_sets([rated], kinds=kinds, draws=draws, seed=seed).by_kind
    correlations = {"spearman": compared["spearman"][0].correlation, "given_length": compared[PARTIAL][0].correlation}
    if not labelled.is_pass_or_fail:
        return correlations
    has_score = np.isfinite(scores)
    said, true = (scores >= _PASSED)[has_score], labelled.passed[has_score]
    rows = np.stack([said & true, said & ~true, ~said & true, ~said & ~true], axis=1).astype(np.float64)
    kinds_of_counts = {"kappa": _kappa, "alpha": _alpha, "tpr": _tpr, "tnr": _tnr}
    counted = {
        name: bootstrap({name: rows}, value_of, draws=draws, seed=seed, clusters=labelled.contexts[has_score])[
            name
        ].score
        for name, value_of in kinds_of_counts.items()
    }
    return {**counted, **correlations}


def _kappa(counts: Floats) -> Floats:
    """Return Cohen's κ of (…, [both pass, judge alone, people alone, neither])."""
    both, judge, people, neither = np.moveaxis(counts, -1, 0)
    total = both + judge + people + neither
    chance = ((both + judge) * (both + people) + (neither + people) * (neither + judge)) / total**2
    return np.asarray(((both + neither) / total - chance) / (1 - chance))


def _alpha(counts: Floats) -> Floats:
    """Return Krippendorff's α of two raters and two grades."""
    both, judge, people, neither = np.moveaxis(counts, -1, 0)
    values = 2 * (both + judge + people + neither)
    passes = 2 * both + judge + people
    expected = 2 * passes * (values - passes) / (values * (values - 1))
    return np.asarray(1 - 2 * (judge + people) / values / expected)


def _tpr(counts: Floats) -> Floats:
    return np.asarray(counts[..., 0] / (counts[..., 0] + counts[..., 2]))


def _tnr(counts: Floats) -> Floats:
    return np.asarray(counts[..., 3] / (counts[..., 3] + counts[..., 1]))


def ceiling(labelled: LabelledReplies) -> dict[str, Any]:
    """Return how far people agree with people: a rater with the mean of the others, or κ of two raters."""
    if labelled.is_pass_or_fail:
        between = kappa(labelled.ratings)
        return {"figure": "kappa", "value": between.mean, **({"why": between.why} if between.why else {})}
    each = one_against_others(labelled.ratings)
    return {"figure": "spearman", "value": each.mean, **({"why": each.why} if each.why else {})}


def added_by_references(
    scores: Mapping[str, Floats], labelled: LabelledReplies, *, draws: int, seed: int
) -> dict[str, dict[str, Any]]:
    """Return Spearman of each way of showing references, and how much more it is than without any.

    `shown` says that the interval of the difference excludes 0, and Holm's correction over the ways agrees.
    """
    names = list(scores)
    rated = RatedSet(np.stack([scores[name] for name in names]), labelled.means, labelled.contexts)
    compared = mean_over_sets([rated], kinds=("spearman",), draws=draws, seed=seed, baseline=0).by_kind["spearman"]
    adjusted = holm([one.difference.p if one.difference else None for one in compared])
    return {
        name: {
            "spearman": one.correlation.value,
            **({} if one.difference is None else _added(one.difference, p)),
        }
        for name, one, p in zip(names, compared, adjusted, strict=True)
    }


def _added(difference: Estimate, p: float | None) -> dict[str, Any]:
    low, high = difference.low, difference.high
    is_shown = low is not None and high is not None and (low > 0 or high < 0) and p is not None and p < LEVEL
    return {"adds": difference.value, "interval": [low, high], "p_holm": p, "shown": is_shown}
