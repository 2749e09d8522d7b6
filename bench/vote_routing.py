"""Whether the next pair should be chosen: votes saved by active routing, and what its intervals are worth afterwards.

Two policies give each vote of a sequence of participants a pair of bots: `balanced`, the pair with the fewest votes,
and `active`, which with probability ε does the same and otherwise takes the pair that tells most about the order, by
the rule of the product. It may stop after any vote that decides the order. All studies run in step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import Any, Final

import numpy as np
import scipy
from numpy.typing import NDArray

from refaug.extras.studies.imports import imported_conversations
from refaug.extras.studies.questions import main_tasks, protocol_questions, rating_rows
from refaug.extras.studies.routing import EXPLORED, RoutedStudies, clustered_fit, is_decided, next_pairs
from refaug.metrics.statistics.pairwise import PairVote, bradley_terry
from refaug.metrics.statistics.resampling import Floats

Ints = NDArray[np.intp]

_NEWTON_STEPS: Final = 2  # for each vote, from the last fit

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
    """Simulate studies under both policies, stopped and not, and say how often intervals hold.

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
) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    bots, rows = len(truth), np.arange(studies)
    first_of, second_of = np.triu_indices(bots, 1)
    routed = RoutedStudies(bots=bots, studies=studies)
    goes_on, lengths = np.ones(studies, dtype=bool), np.full(studies, budget)
    shown = np.zeros((budget, studies, 3), dtype=np.int8)  # first, second, whether the first won
    covariance, tastes, last = routed.fit(_NEWTON_STEPS), np.zeros((studies, bots)), np.zeros(studies, dtype=np.intp)
    for vote in range(budget):
        allowed = np.ones((studies, len(first_of)), dtype=bool)
        if vote % each == 0:
            tastes = random.standard_normal((studies, bots))
        elif policy == "active":
            allowed[rows, last] = False  # no participant has the same two bots twice in a row
        explores = np.full(studies, True) if policy == "balanced" else random.random(studies) < EXPLORED
        votes_of_pairs = routed.votes + routed.votes.transpose(0, 2, 1)
        last = next_pairs(routed, covariance, votes_of_pairs, allowed, explores, random.random(allowed.shape))
        first, second = first_of[last], second_of[last]
        noise = sqrt(1 - rho) * random.standard_normal(studies)
        latent = sqrt(rho / 2) * (tastes[rows, second] - tastes[rows, first]) + noise
        wins = scipy.special.ndtr(latent) < 1 / (1 + np.exp(truth[second] - truth[first]))
        routed.add(first, second, wins, goes_on)
        shown[vote] = np.stack([first, second, wins], axis=1)
        covariance = routed.fit(_NEWTON_STEPS)
        if stops:
            ends = goes_on & is_decided(routed, covariance)
            lengths[ends], goes_on[ends] = vote + 1, False
            if not goes_on.any():
                break
    held, is_right = _held(truth, shown, lengths, each)
    figures: dict[str, Any] = {**_shares(held, is_right), "median_votes": float(np.median(lengths))}
    if stops:
        figures["stopped"] = round(float((~goes_on).mean()), 3)
        for name, among in (("of_stopped", ~goes_on), ("of_others", goes_on)):
            if among.any():
                figures[name] = _shares(held[among], is_right[among])
    return figures


def _held(
    truth: Floats, shown: NDArray[np.int8], lengths: Ints, each: int
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which intervals hold: of neighbours of the true order, of its ends, of the strengths; and of the order."""
    bots = len(truth)
    upper, lower = np.eye(bots)[:-1], np.eye(bots)[1:]
    contrasts = np.vstack([upper - lower, np.eye(bots)[:1] - np.eye(bots)[-1:], np.eye(bots) - 1 / bots])
    held = np.zeros((len(lengths), len(contrasts)), dtype=bool)
    is_right = np.zeros(len(lengths), dtype=bool)
    for study, length in enumerate(lengths):
        first, second, wins = shown[:length, study].T.astype(np.intp)
        strengths, robust = clustered_fit(bots, first, second, wins.astype(np.float64), np.arange(length) // each)
        t = float(scipy.stats.t.isf(0.025, -(-length // each) - 1))
        is_right[study] = (np.argsort(-strengths) == np.argsort(-truth)).all()
        half = t * np.sqrt(np.einsum("ci,ij,cj->c", contrasts, robust, contrasts))
        held[study] = np.abs(contrasts @ (strengths - truth)) <= half
    return held, is_right


def _shares(held: NDArray[np.bool_], is_right: NDArray[np.bool_]) -> dict[str, float]:
    bots = held.shape[1] // 2
    percent = 100 * held.mean(axis=0)
    return {
        "neighbours_percent": round(float(percent[: bots - 1].mean()), 2),
        "worst_neighbours_percent": round(float(percent[: bots - 1].min()), 2),
        "ends_percent": round(float(percent[bots - 1]), 2),
        "strengths_percent": round(float(percent[bots:].mean()), 2),
        "worst_strength_percent": round(float(percent[bots:].min()), 2),
        "order_right": round(float(is_right.mean()), 3),
    }


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
    covariance, rows, errors = routed.fit(_NEWTON_STEPS), np.arange(studies), np.zeros(budget)
    allowed = np.zeros((studies, len(first_of)), dtype=bool)
    for vote in range(budget):
        person = arrivals[:, vote // each]
        if vote % each == 0:
            allowed = has[person].copy()
        explores = np.full(studies, True) if policy == "balanced" else random.random(studies) < EXPLORED
        votes_of_pairs = routed.votes + routed.votes.transpose(0, 2, 1)
        pair = next_pairs(routed, covariance, votes_of_pairs, allowed, explores, random.random(allowed.shape))
        allowed[rows, pair] = False
        routed.add(first_of[pair], second_of[pair], wins_of[person, pair], np.ones(studies, dtype=bool))
        covariance = routed.fit(_NEWTON_STEPS)
        found = routed.strengths[:, first_of] > routed.strengths[:, second_of]
        errors[vote] = float((found != is_above).mean())
    return errors
