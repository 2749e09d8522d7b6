"""Whether the next pair should be chosen: votes saved by active routing, and what its intervals are worth afterwards.

Two policies give each vote of a sequence of participants a pair of bots: `balanced`, the pair with the fewest votes,
and `active`, which with probability ε does the same and otherwise takes the pair that tells most about the order: the
chance that the pair is in the wrong order, times the expected gain of information, under a normal approximation of the
Bradley–Terry posterior. It may stop once every two neighbours of the order are decided. All studies run in step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from pathlib import Path
from typing import Any, Final

import numpy as np
import scipy
from numpy.typing import NDArray

from refaug.extras.studies.imports import imported_conversations
from refaug.extras.studies.questions import main_tasks, protocol_questions, rating_rows
from refaug.metrics.statistics.pairwise import PairVote, bradley_terry
from refaug.metrics.statistics.resampling import Floats

Ints = NDArray[np.intp]

PRIOR: Final = 0.1  # precision of the strengths
EXPLORED: Final = 0.2  # ε
_FEWEST_VOTES: Final = 60  # before it may stop
_NEWTON_STEPS: Final = 2  # for each vote, from the last fit


@dataclass(kw_only=True)
class RoutedStudies:
    """Many studies that route in step: the votes so far, and the strengths fitted to them."""

    bots: int
    studies: int
    votes: Floats = field(init=False)  # (studies, bots, bots): wins of the first
    strengths: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.votes = np.zeros((self.studies, self.bots, self.bots))
        self.strengths = np.zeros((self.studies, self.bots))

    def add(self, first: Ints, second: Ints, wins: NDArray[np.bool_], among: NDArray[np.bool_]) -> None:
        """Count a vote of each study that goes on."""
        rows = np.arange(self.studies)
        np.add.at(self.votes, (rows, first, second), wins * among)
        np.add.at(self.votes, (rows, second, first), ~wins * among)

    def fit(self, steps: int = _NEWTON_STEPS) -> Floats:
        """Improve the strengths by steps of Newton's method, and return their covariance (studies, bots, bots)."""
        totals = self.votes + self.votes.transpose(0, 2, 1)
        for _ in range(steps):
            chance = 1 / (1 + np.exp(self.strengths[:, None, :] - self.strengths[:, :, None]))
            slope = (self.votes - totals * chance).sum(axis=2) - PRIOR * self.strengths
            curve = -totals * chance * (1 - chance)
            places = np.arange(self.bots)
            curve[:, places, places] = -curve.sum(axis=2) + PRIOR
            covariance: Floats = np.linalg.inv(curve)
            step = np.einsum("sij,sj->si", covariance, slope)
            self.strengths += step / np.maximum(1.0, np.abs(step).max(axis=1, keepdims=True))  # or it would overshoot
        return covariance


def next_pairs(
    studies: RoutedStudies, covariance: Floats, allowed: NDArray[np.bool_], explores: NDArray[np.bool_], ties: Floats
) -> tuple[Ints, Ints]:
    """Return a pair for each study: the most telling one, or the one with the fewest votes where it explores."""
    first, second = np.triu_indices(studies.bots, 1)
    gap = studies.strengths[:, first] - studies.strengths[:, second]
    variance = covariance[:, first, first] + covariance[:, second, second] - 2 * covariance[:, first, second]
    chance = 1 / (1 + np.exp(-gap))
    telling = scipy.special.ndtr(-np.abs(gap) / np.sqrt(variance)) * np.log1p(chance * (1 - chance) * variance)
    fewest = -(studies.votes + studies.votes.transpose(0, 2, 1))[:, first, second]
    merit = np.where(explores[:, None], fewest, telling) + 1e-9 * ties
    place = np.where(allowed, merit, -np.inf).argmax(axis=1)
    return first[place], second[place]


def is_decided(studies: RoutedStudies, covariance: Floats, z: float) -> NDArray[np.bool_]:
    """Return whether every two neighbours of the order are further apart than z standard errors."""
    order = np.argsort(-studies.strengths, axis=1)
    rows = np.arange(studies.studies)[:, None]
    above, below = order[:, :-1], order[:, 1:]
    gap = studies.strengths[rows, above] - studies.strengths[rows, below]
    variance = covariance[rows, above, above] + covariance[rows, below, below] - 2 * covariance[rows, above, below]
    return (gap > z * np.sqrt(variance)).all(axis=1)


# ── Coverage after its own stopping: votes of simulated participants with tastes of their own ─────────────────────────


def routed_coverage(
    truth: Sequence[float],
    *,
    studies: int,
    budget: int = 600,
    per_participant: int = 10,
    rho: float = 0.3,
    seed: int = 1,
) -> dict[str, Any]:
    """Simulate studies under both policies, stopped and not, and say how often intervals of differences hold.

    Single votes keep the Bradley–Terry probabilities whatever ρ is: tastes enter through a normal copula.
    """
    return {
        f"{policy}, {'stopping' if stops else 'all votes'}": _routed(
            np.array(truth), policy, studies, budget, per_participant, rho, seed, stops=stops
        )
        for policy in ("balanced", "active")
        for stops in (False, True)
    }


def _routed(
    truth: Floats, policy: str, studies: int, budget: int, each: int, rho: float, seed: int, *, stops: bool
) -> dict[str, float]:
    random = np.random.default_rng(seed)
    bots, rows = len(truth), np.arange(studies)
    routed = RoutedStudies(bots=bots, studies=studies)
    pairs = bots * (bots - 1) // 2
    goes_on, lengths = np.ones(studies, dtype=bool), np.full(studies, budget)
    shown = np.zeros((budget, studies, 3), dtype=np.int8)  # first, second, whether the first won
    covariance, tastes = routed.fit(), np.zeros((studies, bots))
    for vote in range(budget):
        if vote % each == 0:
            tastes = random.standard_normal((studies, bots))
        explores = np.full(studies, True) if policy == "balanced" else random.random(studies) < EXPLORED
        allowed = np.ones((studies, pairs), dtype=bool)
        first, second = next_pairs(routed, covariance, allowed, explores, random.random((studies, pairs)))
        noise = sqrt(1 - rho) * random.standard_normal(studies)
        latent = sqrt(rho / 2) * (tastes[rows, second] - tastes[rows, first]) + noise
        wins = scipy.special.ndtr(latent) < 1 / (1 + np.exp(truth[second] - truth[first]))
        routed.add(first, second, wins, goes_on)
        shown[vote] = np.stack([first, second, wins], axis=1)
        covariance = routed.fit()
        if stops and vote + 1 >= _FEWEST_VOTES and (vote + 1) % each == 0:
            ends = goes_on & is_decided(routed, covariance, 1.96)
            lengths[ends], goes_on[ends] = vote + 1, False
            if not goes_on.any():
                break
    return _held(truth, shown, lengths, each)


def _held(truth: Floats, shown: NDArray[np.int8], lengths: Ints, each: int) -> dict[str, float]:
    """Return the shares of intervals that hold: of neighbours of the true order, and of its ends."""
    count, bots = len(lengths), len(truth)
    held = np.zeros((count, bots))
    is_right = np.zeros(count, dtype=bool)
    for study, length in enumerate(lengths):
        first, second, wins = shown[:length, study].T.astype(np.intp)
        strengths, robust = _clustered_fit(bots, first, second, wins, np.arange(length) // each)
        t = float(scipy.stats.t.isf(0.025, length / each - 1))
        is_right[study] = (np.argsort(-strengths) == np.argsort(-truth)).all()
        for place, (one, other) in enumerate([*((k, k + 1) for k in range(bots - 1)), (0, bots - 1)]):
            variance = robust[one, one] + robust[other, other] - 2 * robust[one, other]
            off = strengths[one] - strengths[other] - (truth[one] - truth[other])
            held[study, place] = abs(off) <= t * sqrt(variance)
    return {
        "neighbours_percent": round(100 * float(held[:, :-1].mean()), 2),
        "worst_neighbours_percent": round(100 * float(held[:, :-1].mean(axis=0).min()), 2),
        "ends_percent": round(100 * float(held[:, -1].mean()), 2),
        "order_right": round(float(is_right.mean()), 3),
        "median_votes": float(np.median(lengths)),
    }


def _clustered_fit(bots: int, first: Ints, second: Ints, wins: Ints, person: Ints) -> tuple[Floats, Floats]:
    """Return strengths by a slight ridge, and their covariance over participants (the sandwich)."""
    votes = len(first)
    design = np.zeros((votes, bots))
    design[np.arange(votes), first], design[np.arange(votes), second] = 1.0, -1.0
    strengths, ridge = np.zeros(bots), 0.01 * np.eye(bots)
    for _ in range(30):
        chance = 1 / (1 + np.exp(-design @ strengths))
        bread = np.linalg.inv((design.T * (chance * (1 - chance))) @ design + ridge)
        step = bread @ (design.T @ (wins - chance) - 0.01 * strengths)
        strengths = strengths + step
        if np.abs(step).max() < 1e-8:
            break
    scores = np.zeros((int(person.max()) + 1, bots))
    np.add.at(scores, person, design * (wins - chance)[:, None])
    people = len(scores)
    return strengths, bread @ (scores.T @ scores) @ bread * people / (people - 1)


# ── Votes saved, on pairs that are derived from people's ratings of whole conversations ───────────────────────────────


@dataclass(frozen=True, kw_only=True)
class RatedPairs:
    """Votes by participant: every two bots of which a participant rated one conversation higher than the other."""

    bots: Sequence[str]
    votes: Sequence[Mapping[tuple[int, int], float]]  # by participant: 1 where the first is better, 0 the second
    order: Ints  # of all votes together, the best first


def rated_pairs(folder: Path) -> RatedPairs:
    """Return the votes that the ratings of Ji et al. (2022) amount to, by the mean of a conversation's questions."""
    study = imported_conversations(folder / "dialogues" / "ji2022_run1.jsonl.gz", study="ji2022_run1")
    questions = protocol_questions(study.protocol, study.tasks)
    of_bot: dict[str, dict[str, list[float]]] = {}
    for row in rating_rows(main_tasks(study.tasks), questions):
        of_bot.setdefault(row.participant, {}).setdefault(row.bot, []).append(row.number)
    bots = sorted({bot for own in of_bot.values() for bot in own})
    place = {bot: number for number, bot in enumerate(bots)}
    votes, listed = list[dict[tuple[int, int], float]](), list[PairVote]()
    for participant, own in sorted(of_bot.items()):
        means = {place[bot]: float(np.mean(numbers)) for bot, numbers in own.items()}
        mine = {
            (first, second): float(means[first] > means[second])
            for first in means
            for second in means
            if first < second and means[first] != means[second]
        }
        votes.append(mine)
        listed += [
            PairVote(first=bots[i], second=bots[j], outcome=1 if wins else -1, participant=participant)
            for (i, j), wins in mine.items()
        ]
    fitted = bradley_terry(listed, draws=1)
    return RatedPairs(bots=bots, votes=votes, order=np.array([place[bot.bot] for bot in fitted.bots]))


def votes_saved(pairs: RatedPairs, *, studies: int, budget: int = 600, each: int = 4, seed: int = 1) -> dict[str, Any]:
    """Let participants come in random order, each with some votes on pairs of theirs; compare the errors of the orders.

    The error is the share of pairs of bots in another order than that of all votes together.
    """
    errors = {policy: _errors(pairs, policy, studies, budget, each, seed) for policy in ("balanced", "active")}
    saved = {}
    for votes in (100, 200, 300, 400, 600):
        reached = np.flatnonzero(errors["active"] <= errors["balanced"][votes - 1])
        needed = int(reached[0]) + 1 if len(reached) else None
        saved[str(votes)] = {
            "error_balanced": round(float(errors["balanced"][votes - 1]), 4),
            "error_active": round(float(errors["active"][votes - 1]), 4),
            "votes_active": needed,
            "saved_percent": None if needed is None else round(100 * (1 - needed / votes), 1),
        }
    return saved


def _errors(pairs: RatedPairs, policy: str, studies: int, budget: int, each: int, seed: int) -> Floats:
    """Return the mean error after each vote."""
    random = np.random.default_rng(seed)
    bots = len(pairs.bots)
    first_of, second_of = np.triu_indices(bots, 1)
    has = np.zeros((len(pairs.votes), len(first_of)), dtype=bool)
    wins_of = np.zeros_like(has)
    place = {(int(i), int(j)): number for number, (i, j) in enumerate(zip(first_of, second_of, strict=True))}
    for number, own in enumerate(pairs.votes):
        for pair, wins in own.items():
            has[number, place[pair]], wins_of[number, place[pair]] = True, wins > 0
    people = np.flatnonzero(has.sum(axis=1) >= each)
    arrivals = people[np.argsort(random.random((studies, len(people))), axis=1)]
    if budget > each * len(people):
        raise SystemExit(f"{len(people)} participants have {each * len(people)} votes of {budget}")
    rank = np.argsort(pairs.order)
    is_above = rank[first_of] < rank[second_of]
    routed = RoutedStudies(bots=bots, studies=studies)
    covariance, rows, errors = routed.fit(), np.arange(studies), np.zeros(budget)
    allowed = np.zeros((studies, len(first_of)), dtype=bool)
    for vote in range(budget):
        person = arrivals[:, vote // each]
        if vote % each == 0:
            allowed = has[person].copy()
        explores = np.full(studies, True) if policy == "balanced" else random.random(studies) < EXPLORED
        first, second = next_pairs(routed, covariance, allowed, explores, random.random(allowed.shape))
        pair = first * bots - first * (first + 1) // 2 + second - first - 1
        allowed[rows, pair] = False
        routed.add(first, second, wins_of[person, pair], np.ones(studies, dtype=bool))
        covariance = routed.fit()
        found = routed.strengths[:, first_of] > routed.strengths[:, second_of]
        errors[vote] = float((found != is_above).mean())
    return errors
