"""Two bots side by side: wins, losses and ties, with Wilson intervals and sign tests, and how far people agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any, Final

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from refaug.core.errors import BadInput, Usage
from refaug.metrics.statistics.resampling import FEWEST_UNITS, Floats, check_level, check_resampling, count_blocks


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareEstimate:
    """A share with its Wilson interval; None where there is nothing to have a share of."""

    value: float | None
    low: float | None
    high: float | None
    n: float

    def among(self, people: int) -> ShareEstimate:
        """Return the share without its interval where too few people gave the votes."""
        return self if people >= FEWEST_UNITS else replace(self, low=None, high=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class PairOutcome:
    """The votes between two bots, seen from the first one.

    `decided` is the share of wins among votes without ties, `halved` that with half of each tie; `p_dropped` and
    `p_halved` are two-sided exact sign tests. They take votes for independent, which several votes of a participant
    are not.
    """

    wins: int
    losses: int
    ties: int
    decided: ShareEstimate
    halved: ShareEstimate
    p_dropped: float | None
    p_halved: float | None

    def among(self, people: int) -> PairOutcome:
        """Return the outcome without its intervals and tests where too few people gave the votes."""
        if people >= FEWEST_UNITS:
            return self
        decided, halved = self.decided.among(people), self.halved.among(people)
        return replace(self, decided=decided, halved=halved, p_dropped=None, p_halved=None)


def wilson(successes: float, n: float, level: float = 0.95) -> ShareEstimate:
    """Return a share with the interval of Wilson (1927); halves of successes may be counted."""
    check_level(level)
    if not 0 <= successes <= n:
        raise Usage(f"{successes:g} successes of {n:g}", remedy="from 0 to as many as there were trials")
    if n == 0:
        return ShareEstimate(value=None, low=None, high=None, n=0)
    z = float(scipy.stats.norm.isf((1 - level) / 2))
    share = successes / n
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return ShareEstimate(value=share, low=max(0.0, centre - half), high=min(1.0, centre + half), n=n)


def sign_test(wins: int, losses: int, ties: int = 0, *, halve: bool = False) -> float | None:
    """Return the exact two-sided p that wins and losses are as likely; None where no vote is left.

    Ties are dropped, or halved: each side gets as many, and one is dropped where their number is odd.
    """
    if min(wins, losses, ties) < 0:
        raise Usage(f"{wins}, {losses} and {ties} votes", remedy="no number below 0")
    half = ties // 2 if halve else 0
    n = wins + losses + 2 * half
    return float(scipy.stats.binomtest(wins + half, n).pvalue) if n else None


def pair_outcome(wins: int, losses: int, ties: int, level: float = 0.95) -> PairOutcome:
    """Return the shares and tests of one pair."""
    return PairOutcome(
        wins=wins,
        losses=losses,
        ties=ties,
        decided=wilson(wins, wins + losses, level),
        halved=wilson(wins + ties / 2, wins + losses + ties, level),
        p_dropped=sign_test(wins, losses, ties),
        p_halved=sign_test(wins, losses, ties, halve=True),
    )


def nominal_kappa(first: ArrayLike, second: ArrayLike) -> float | None:
    """Return Cohen's κ of two annotators (1960): agreement beyond chance, where every disagreement counts the same."""
    x, y = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if x.shape != y.shape:
        raise BadInput(f"choices of {len(x)} and {len(y)} rows", remedy="a choice, or NaN, of both for every row")
    both = ~np.isnan(x) & ~np.isnan(y)
    x, y = x[both], y[both]
    if len(x) < 2:
        return None
    observed = float(np.mean(x == y))
    expected = sum(float(np.mean(x == choice) * np.mean(y == choice)) for choice in np.union1d(x, y))
    return None if expected > 1 - 1e-12 else (observed - expected) / (1 - expected)


def ambiguous_share(choices: Sequence[Sequence[int]]) -> float | None:
    """Return on which share of the rows with several choices as many are the first as the second (1 and −1; 0: tie)."""
    rows = [row for row in choices if len(row) > 1]
    return sum(sum(row) == 0 for row in rows) / len(rows) if rows else None


# ── Bradley–Terry strengths from votes between pairs, by maximum likelihood, with intervals over participants ─────────
#
# With θ the strengths, x a covariate of the pair and η = θ_i − θ_j + γ·x, the odds that i wins, j wins, or neither,
# are e^{η/2} : e^{−η/2} : ν. Without ν a tie is half a win for each (Bradley & Terry 1952); with it, ties are an
# outcome of their own (Davidson 1970). The strengths add up to 0.
#
# Votes are counted by pair before anything is computed, in the order of the names: no order of votes, and no choice
# of which bot stands first in a vote, changes a bit of the result.

RIDGE: Final = 0.01
_MOST_STEPS: Final = 60
_LONGEST_STEP: Final = 2.0  # a Newton step beyond is cut, or the first ones would overshoot
_CONVERGED: Final = 1e-10
_ALIKE: Final = 1e-8  # draws this near to each other are one fit, as far as it converges
_BLOCK_CELLS: Final = 4_000_000

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class PairVote:
    """A participant's vote between two bots: 1 for the first, −1 for the second, 0 for a tie.

    The covariate belongs to the first less the second, such as the difference of their lengths.
    """

    first: str
    second: str
    outcome: int
    participant: str
    covariate: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BotStrength:
    """The strength of one bot, its rank (1 is the strongest), and both over draws of participants.

    A bot that too few participants judged has no interval; a strength that is the same in every draw has none either.
    """

    bot: str
    strength: float
    low: float | None
    high: float | None
    rank: int
    rank_low: int | None
    rank_high: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedTerm:
    """A coefficient beside the strengths, with its interval over draws."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BradleyTerry:
    """The strengths of all bots, the strongest first.

    Without a chain of wins from every bot to every other (`is_connected`), the strengths have no maximum: they are
    fitted with a ridge of .01, as are `ridged_draws` of the draws.
    """

    bots: tuple[BotStrength, ...]
    votes: int
    participants: int
    is_connected: bool
    groups: tuple[tuple[str, ...], ...]  # bots within each of which there is such a chain
    ridge: float
    tie: FittedTerm | None  # Davidson's ν
    covariate: FittedTerm | None  # γ
    draws: int
    ridged_draws: int

    def win_rate(self, first: str, second: str) -> float:
        """Return how often the first is expected to win where the covariate is 0, a tie being half a win."""
        strengths = {bot.bot: bot.strength for bot in self.bots}
        difference = strengths[first] - strengths[second]
        win, lost = np.exp(difference / 2), np.exp(-difference / 2)
        tie = self.tie.value if self.tie is not None else 0.0
        return float((win + tie / 2) / (win + lost + tie))


def bradley_terry(
    votes: Sequence[PairVote],
    *,
    ties: str = "half",
    with_covariate: bool = False,
    draws: int = 1000,
    seed: int = 0,
    level: float = 0.95,
    check: Callable[[], None] = lambda: None,
) -> BradleyTerry:
    """Fit the strengths to votes; intervals are over draws of participants with all their votes.

    `ties` is half (a win of ½ for each) or davidson. The covariate is used only when asked for. `check` is called
    before some draws, and ends the work by raising.
    """
    check_resampling(draws=draws, seed=seed, level=level)
    if ties not in {"half", "davidson"}:
        raise Usage(f"ties cannot be {ties!r}", remedy="half or davidson")
    counted = _CountedVotes.of(votes, with_covariate=with_covariate)
    model = _Model(counted, is_davidson=ties == "davidson" and bool(counted.totals[:, 1].any()))
    fitted, is_ridged = model.fit(counted.totals[None])
    drawn, ridged = model.fit_draws(draws, seed, check)
    return _result(model, fitted[0], bool(is_ridged[0]), drawn, int(ridged.sum()), level)


@dataclass(frozen=True)
class _CountedVotes:
    """Votes counted by pair and covariate, in all and by participant: wins of the first, ties, wins of the second."""

    names: list[str]
    first: Ints  # (rows,), places in `names`; always less than `second`
    second: Ints
    covariate: Floats | None
    totals: Floats  # (rows, 3)
    by_participant: Any  # sparse (participants, rows · 3): with a covariate nearly every vote is a row of its own
    votes: int

    def judges(self) -> Ints:
        """Return how many participants judged each bot."""
        person, cell = self.by_participant.nonzero()
        first, second = self.first[cell // 3], self.second[cell // 3]
        return np.array([len(np.unique(person[(first == bot) | (second == bot)])) for bot in range(len(self.names))])

    @classmethod
    def of(cls, votes: Sequence[PairVote], *, with_covariate: bool) -> _CountedVotes:
        """Count votes, turned so that the bot whose name sorts first stands first."""
        _require_votes(votes)
        names = sorted({name for vote in votes for name in (vote.first, vote.second)})
        people = sorted({vote.participant for vote in votes})
        place = {name: number for number, name in enumerate(names)}
        person = {name: number for number, name in enumerate(people)}
        turned = [_turned(vote, place, with_covariate=with_covariate) for vote in votes]
        keys = sorted({row[:3] for row in turned})
        row_of = {key: number for number, key in enumerate(keys)}
        persons = [person[vote.participant] for vote in votes]
        cells = [3 * row_of[row[:3]] + 1 - row[3] for row in turned]
        counts = scipy.sparse.csr_array((np.ones(len(votes)), (persons, cells)), shape=(len(people), 3 * len(keys)))
        return cls(
            names=names,
            first=np.array([key[0] for key in keys]),
            second=np.array([key[1] for key in keys]),
            covariate=np.array([key[2] for key in keys]) if with_covariate else None,
            totals=counts.sum(axis=0).reshape(-1, 3),
            by_participant=counts,
            votes=len(votes),
        )


def _require_votes(votes: Sequence[PairVote]) -> None:
    if not votes:
        raise BadInput("there are no votes between pairs", remedy="votes of a study whose tasks show two bots")
    for number, vote in enumerate(votes, 1):
        if vote.first == vote.second:
            raise BadInput(f"vote {number} is between {vote.first} and itself", remedy="two different bots")
        if vote.outcome not in (-1, 0, 1):
            raise BadInput(f"vote {number} is {vote.outcome}", remedy="1 for the first bot, -1 for the second, 0: tie")
        if not np.isfinite(vote.covariate):
            raise BadInput(f"the covariate of vote {number} is {vote.covariate}", remedy="a finite number")


def _turned(vote: PairVote, place: dict[str, int], *, with_covariate: bool) -> tuple[int, int, float, int]:
    first, second = place[vote.first], place[vote.second]
    covariate = vote.covariate + 0.0 if with_covariate else 0.0
    if first < second:
        return first, second, covariate, vote.outcome
    return second, first, 0.0 - covariate, -vote.outcome


class _Model:
    """Newton's method for many sets of counts at once: the parameters are all strengths but the last, then γ and ln ν.

    The last strength is minus the sum of the others.
    """

    def __init__(self, counted: _CountedVotes, *, is_davidson: bool) -> None:
        self.counted = counted
        self.is_davidson = is_davidson
        bots, rows = len(counted.names), len(counted.first)
        contrast = np.vstack([np.eye(bots - 1), -np.ones((1, bots - 1))])
        columns = [contrast[counted.first] - contrast[counted.second]]
        if counted.covariate is not None:
            columns.append(counted.covariate[:, None])
        self.design: Floats = np.hstack(columns)  # (rows, parameters without ν)
        self.squares: Floats = np.einsum("rp,rq->rpq", self.design, self.design).reshape(rows, -1)
        width = self.design.shape[1]
        self.penalty: Floats = np.zeros((width, width))
        self.penalty[: bots - 1, : bots - 1] = contrast.T @ contrast
        self.penalty[bots - 1 :, bots - 1 :] = np.eye(width - (bots - 1))
        self.width = width

    def strengths(self, parameters: Floats) -> Floats:
        """Return the strengths of all bots (…, bots)."""
        free = parameters[..., : len(self.counted.names) - 1]
        return np.concatenate([free, -free.sum(axis=-1, keepdims=True)], axis=-1)

    def fit_draws(self, draws: int, seed: int, check: Callable[[], None]) -> tuple[Floats, NDArray[np.bool_]]:
        """Fit every draw of participants (draws, parameters); of too few participants there is none."""
        table = self.counted.by_participant
        if table.shape[0] < FEWEST_UNITS:
            return np.empty((0, self.width + self.is_davidson)), np.empty(0, dtype=bool)
        fitted, ridged = list[Floats](), list[NDArray[np.bool_]]()
        size = max(1, _BLOCK_CELLS // max(1, table.shape[1] * (1 + self.width**2 // 3)))
        for block in count_blocks(table.shape[0], draws, seed):
            for start in range(0, len(block), size):
                check()
                counts = (block[start : start + size] @ table).reshape(-1, *self.counted.totals.shape)
                parameters, is_ridged = self.fit(counts)
                fitted.append(parameters)
                ridged.append(is_ridged)
        return np.concatenate(fitted), np.concatenate(ridged)

    def fit(self, counts: Floats) -> tuple[Floats, NDArray[np.bool_]]:
        """Fit sets of counts (sets, rows, 3); those without a maximum with the ridge."""
        ridged = np.array([not self._is_connected(each) for each in counts])
        parameters, converged = self._newton(counts, np.where(ridged, RIDGE, 0.0))
        if self.counted.covariate is not None or self.is_davidson:
            again = ~converged & ~ridged  # a covariate, or ties alone, may tell the outcomes apart without an end
            if again.any():
                parameters[again], _ = self._newton(counts[again], np.full(int(again.sum()), RIDGE))
                ridged |= again
        return parameters, ridged

    def _is_connected(self, counts: Floats) -> bool:
        return len(_groups(self.counted, counts)) == 1

    def _newton(self, counts: Floats, ridge: Floats) -> tuple[Floats, NDArray[np.bool_]]:
        parameters = np.zeros((len(counts), self.width + self.is_davidson))
        total = counts.sum(axis=2)
        half = counts[:, :, 0] - counts[:, :, 2]
        converged = np.zeros(len(counts), dtype=bool)
        for _ in range(_MOST_STEPS):
            open_sets = np.flatnonzero(~converged)
            if len(open_sets) == 0:
                break
            gradient, information = self._derivatives(
                parameters[open_sets], half[open_sets], counts[open_sets, :, 1], total[open_sets], ridge[open_sets]
            )
            step = np.linalg.solve(information, gradient[:, :, None])[:, :, 0]
            longest = np.abs(step).max(axis=1, initial=0.0)
            parameters[open_sets] += step * np.minimum(1.0, _LONGEST_STEP / np.maximum(longest, 1e-300))[:, None]
            converged[open_sets] = longest < _CONVERGED
        return parameters, converged

    def _derivatives(
        self, parameters: Floats, half: Floats, ties: Floats, total: Floats, ridge: Floats
    ) -> tuple[Floats, Floats]:
        """Return the gradient of the log likelihood and its information, less and with the ridge."""
        eta = np.clip(parameters[:, : self.width] @ self.design.T, -500, 500)  # (sets, rows)
        log_tie = np.clip(parameters[:, self.width :], -60, 60) if self.is_davidson else np.full((len(eta), 1), -np.inf)
        highest = np.maximum(np.abs(eta) / 2, log_tie)
        win, lost, tie = np.exp(eta / 2 - highest), np.exp(-eta / 2 - highest), np.exp(log_tie - highest)
        mass = win + lost + tie
        win, lost, tie = win / mass, lost / mass, tie / mass
        sets, width = len(eta), self.width
        slope = (half - total * (win - lost)) / 2
        curve = total * (win + lost - (win - lost) ** 2) / 4
        gradient = np.zeros((sets, width + self.is_davidson))
        information = np.zeros((sets, width + self.is_davidson, width + self.is_davidson))
        gradient[:, :width] = slope @ self.design - ridge[:, None] * (parameters[:, :width] @ self.penalty)
        information[:, :width, :width] = (curve @ self.squares).reshape(sets, width, width)
        information[:, :width, :width] += ridge[:, None, None] * self.penalty
        if self.is_davidson:
            gradient[:, width] = (ties - total * tie).sum(axis=1) - ridge * parameters[:, width]
            information[:, width, width] = (total * tie * (1 - tie)).sum(axis=1) + ridge
            crossed = -(total * tie * (win - lost) / 2) @ self.design
            information[:, :width, width] = information[:, width, :width] = crossed
        scale = np.trace(information, axis1=1, axis2=2)[:, None, None] + 1.0
        return gradient, information + 1e-13 * scale * np.eye(information.shape[1])


def _groups(counted: _CountedVotes, counts: Floats) -> list[list[int]]:
    """Return the bots within each of which a chain of wins leads from each to every other; a tie is a win of both."""
    size = len(counted.names)
    beats = np.zeros((size, size))
    np.add.at(beats, (counted.first, counted.second), counts[:, 0] + counts[:, 1])
    np.add.at(beats, (counted.second, counted.first), counts[:, 2] + counts[:, 1])
    _, label = scipy.sparse.csgraph.connected_components(beats > 0, directed=True, connection="strong")
    return sorted(np.flatnonzero(label == each).tolist() for each in range(label.max() + 1))


def _result(
    model: _Model, parameters: Floats, is_ridged: bool, drawn: Floats, ridged: int, level: float
) -> BradleyTerry:
    counted, strengths = model.counted, model.strengths(parameters)
    of_draws = model.strengths(drawn)
    ranks = 1 + (of_draws[:, None, :] > of_draws[:, :, None]).sum(axis=2)
    rank = 1 + (strengths[None, :] > strengths[:, None]).sum(axis=1)
    groups = _groups(counted, counted.totals)
    bots = list[BotStrength]()
    for number, (name, judges) in enumerate(zip(counted.names, counted.judges(), strict=True)):
        shown = slice(None) if judges >= FEWEST_UNITS else slice(0)
        own, own_ranks = of_draws[shown, number], ranks[shown, number]
        bots.append(
            BotStrength(
                bot=name,
                strength=float(strengths[number]),
                low=_bound(own, (1 - level) / 2),
                high=_bound(own, (1 + level) / 2),
                rank=int(rank[number]),
                rank_low=_rank_bound(own_ranks, (1 - level) / 2),
                rank_high=_rank_bound(own_ranks, (1 + level) / 2),
            )
        )
    at = len(counted.names) - 1
    return BradleyTerry(
        bots=tuple(sorted(bots, key=lambda bot: (bot.rank, bot.bot))),
        votes=counted.votes,
        participants=counted.by_participant.shape[0],
        is_connected=len(groups) == 1,
        groups=tuple(tuple(counted.names[number] for number in group) for group in groups),
        ridge=RIDGE if is_ridged else 0.0,
        tie=_term(float(np.exp(parameters[model.width])), np.exp(drawn[:, model.width]), level)
        if model.is_davidson
        else None,
        covariate=None if counted.covariate is None else _term(parameters[at], drawn[:, at], level),
        draws=len(drawn),
        ridged_draws=ridged,
    )


def _term(fitted: float, drawn: Floats, level: float) -> FittedTerm:
    return FittedTerm(value=float(fitted), low=_bound(drawn, (1 - level) / 2), high=_bound(drawn, (1 + level) / 2))


def _bound(drawn: Floats, share: float) -> float | None:
    varies = len(drawn) > 0 and np.ptp(drawn) > _ALIKE * max(1.0, float(np.abs(drawn).max()))
    return float(np.quantile(drawn, share)) if varies else None


def _rank_bound(drawn: Ints, share: float) -> int | None:
    return int(np.quantile(drawn, share, method="inverted_cdf")) if len(drawn) else None
