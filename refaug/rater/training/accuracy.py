"""Quality of a rater's probabilities: how well they separate positives from negatives, and their calibration."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

Probabilities = NDArray[np.float64]
Labels = NDArray[np.bool_]

_BINS: Final = 15
_HISTOGRAM_BINS: Final = 40
_GREATEST_LOG_ODDS: Final = 40.0  # beyond, a double is 0 or 1


@dataclass(frozen=True, kw_only=True)
class Bin:
    """Probabilities in one interval: how many, their mean, and the share of positives."""

    count: int
    said: float
    true: float


def reliability(likely: Probabilities, positive: Labels, bins: int = _BINS) -> list[Bin]:
    """Return the probabilities in bins of equal width, without empty bins."""
    numbers = np.minimum((likely * bins).astype(np.int64), bins - 1)
    return [
        Bin(count=int(in_bin.sum()), said=float(likely[in_bin].mean()), true=float(positive[in_bin].mean()))
        for in_bin in (numbers == number for number in np.unique(numbers))
    ]


def calibration_error(likely: Probabilities, positive: Labels, bins: int = _BINS) -> float:
    """Return the expected calibration error: the mean distance of the mean probability and the share of positives."""
    return sum(each.count * abs(each.said - each.true) for each in reliability(likely, positive, bins)) / len(likely)


def apply_temperature(likely: Probabilities, temperature: float) -> Probabilities:
    """Return the probabilities with a temperature: less confident above 1, more confident below."""
    odds = np.clip(logit(likely), -_GREATEST_LOG_ODDS, _GREATEST_LOG_ODDS)
    return np.asarray(expit(odds / temperature))


def fit_temperature(likely: Probabilities, positive: Labels) -> float:
    """Return the temperature that maximises the likelihood of the labels."""
    from scipy.optimize import minimize_scalar  # noqa: PLC0415  half a second to import, which a server avoids

    odds = np.clip(logit(likely), -_GREATEST_LOG_ODDS, _GREATEST_LOG_ODDS)
    truth = np.where(positive, odds, -odds)

    def loss(log_temperature: float) -> float:
        return float(np.logaddexp(0, -truth / np.exp(log_temperature)).mean())

    fit = minimize_scalar(loss, bounds=(-3.0, 3.0), method="bounded")
    return float(np.exp(fit.x))


def auc(scores: NDArray[np.float64], positive: Labels) -> float:
    """Return the probability that a positive scores above a negative, counting ties half; nan without one of either."""
    order = np.argsort(scores, kind="stable")
    _, starts, counts = np.unique(scores[order], return_index=True, return_counts=True)
    ranks = np.empty(len(scores))
    ranks[order] = np.repeat(starts + (counts + 1) / 2, counts)
    positives, negatives = int(positive.sum()), int((~positive).sum())
    if not positives or not negatives:
        return math.nan
    return float((ranks[positive].sum() - positives * (positives + 1) / 2) / (positives * negatives))


# ── What reports of all networks have ─────────────────────────────────────────────────────────────────────────────────


def probability_facts(likely: Probabilities, cooler: Probabilities, positive: Labels) -> dict[str, object]:
    """Return the calibration of probabilities, without and with a temperature, and how ratings are distributed."""
    return {
        "calibration": {
            name: {
                "error": calibration_error(probabilities, positive),
                "bins": [asdict(each) for each in reliability(probabilities, positive)],
            }
            for name, probabilities in (("raw", likely), ("cal", cooler))
        },
        "ratings": histograms(2 * likely - 1, positive, -1),
    }


def histograms(scores: NDArray[np.float64], positive: Labels, lowest: float) -> dict[str, object]:
    """Return how often good and wrong responses get which score."""
    edges = np.linspace(lowest, 1, _HISTOGRAM_BINS + 1)
    sides = {"good": scores[positive], "wrong": scores[~positive]}
    counts = {name: np.histogram(of_side, edges)[0].tolist() for name, of_side in sides.items()}
    return {"edges": edges.round(6).tolist(), **counts}


def seed_spread(by_seed: Mapping[int, Mapping[str, float]]) -> dict[str, object]:
    """Return the seeds of networks, and of each figure the mean, the standard deviation and the values over them."""
    figures = {name: np.array([of_seed[name] for of_seed in by_seed.values()]) for name in next(iter(by_seed.values()))}
    spread = {
        name: {
            "mean": float(values.mean()),
            "sd": float(values.std(ddof=1)) if len(values) > 1 else None,
            "values": values.tolist(),
        }
        for name, values in figures.items()
    }
    return {"seeds": list(by_seed), "figures": spread}


def piece_facts(lengths: Mapping[str, NDArray[np.int64]]) -> dict[str, dict[str, float]]:
    """Return the mean, the median and the largest number of pieces of each kind of texts."""
    return {
        name: {"mean": round(float(sizes.mean()), 2), "median": float(np.median(sizes)), "most": int(sizes.max())}
        for name, sizes in lengths.items()
    }


# ── Replies that are right or wrong, of several kinds ─────────────────────────────────────────────────────────────────


class ReplyPredictions(NamedTuple):
    """Logits of replies, whether they are right, and the kind of the wrong ones."""

    logits: NDArray[np.float64]
    positive: NDArray[np.bool_]
    kinds: NDArray[np.int64]

    @property
    def loss(self) -> float:
        """The cross entropy in which right and wrong replies weigh the same, however many there are of each."""
        right, wrong = self.logits[self.positive], self.logits[~self.positive]
        return float((np.logaddexp(0, -right).mean() + np.logaddexp(0, wrong).mean()) / 2)

    @property
    def accuracy(self) -> float:
        """The mean share of right and of wrong replies that are recognised."""
        correct = (self.logits > 0) == self.positive
        return float((correct[self.positive].mean() + correct[~self.positive].mean()) / 2)

    def auc(self, kind: int | None = None) -> float:
        """Return the probability that a right reply is above a wrong one, of one kind or of all."""
        counted = self if kind is None else self.of_kind(kind)
        return auc(counted.logits, counted.positive)

    def of_kind(self, kind: int) -> ReplyPredictions:
        """Return the right replies, and the wrong ones of one kind."""
        rows = self.positive | (self.kinds == kind)
        return ReplyPredictions(self.logits[rows], self.positive[rows], self.kinds[rows])

    def balanced(self) -> ReplyPredictions:
        """Keep as many wrong replies as right ones: probabilities are meant for even chances."""
        wrong = np.flatnonzero(~self.positive)
        chosen = np.random.default_rng(0).permutation(wrong)[: int(self.positive.sum())]
        rows = np.sort(np.concatenate([np.flatnonzero(self.positive), chosen]))
        return ReplyPredictions(self.logits[rows], self.positive[rows], self.kinds[rows])

    def quality(self, kind_names: Sequence[str]) -> dict[str, object]:
        """Return how well right replies are told from wrong ones, in all and by kind, and the calibration."""
        likely = expit(self.logits)
        temperature = fit_temperature(likely, self.positive)
        return {
            "auc_good_vs_wrong": self.auc(),
            "auc_by_kind": {name: self.auc(kind) for kind, name in enumerate(kind_names) if (self.kinds == kind).any()},
            "temperature": temperature,
            **probability_facts(likely, expit(self.logits / temperature), self.positive),
        }


# ── Probabilities from similarities ───────────────────────────────────────────────────────────────────────────────────

_NEWTON_STEPS: Final = 100
_RIDGE: Final = 1e-6  # of a step's matrix: classes that can be separated have no largest likelihood
_CLOSE: Final = 1e-10


def fit_logistic(features: NDArray[np.float64], positive: Labels) -> NDArray[np.float64]:
    """Return weights (features, then the constant) with which their sum is the log-odds of being positive."""
    design = np.concatenate([features, np.ones((len(features), 1))], axis=1)
    weights = np.zeros(design.shape[1])
    for _ in range(_NEWTON_STEPS):
        likely = expit(design @ weights)
        gradient = design.T @ (likely - positive) / len(design) + _RIDGE * weights
        curvature = (design * (likely * (1 - likely))[:, None]).T @ design / len(design)
        step = np.linalg.solve(curvature + _RIDGE * np.eye(len(weights)), gradient)
        weights -= step
        if np.abs(step).max() < _CLOSE:
            break
    return weights
