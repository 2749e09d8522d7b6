"""Bradley–Terry against statsmodels and direct maximisation; order, ties, broken chains."""

import random
import tracemalloc
from dataclasses import asdict, replace

import numpy as np
import pytest
import statsmodels.api as sm
from refusals import refusing
from scipy import optimize

from refaug.core.errors import BadInput, Usage
from refaug.metrics.statistics.pairwise import RIDGE, PairVote, bradley_terry

STRENGTHS = {"alpha": 0.8, "beta": 0.1, "gamma": -0.2, "delta": -0.7}


def drawn_votes(seed, count=400, *, nu=0.4, slope=0.0, people=20):
    rng = np.random.default_rng(seed)
    names = list(STRENGTHS)
    votes = []
    for number in range(count):
        first, second = rng.choice(4, size=2, replace=False)
        covariate = float(rng.normal()) if slope else 0.0
        eta = STRENGTHS[names[first]] - STRENGTHS[names[second]] + slope * covariate
        mass = np.array([np.exp(eta / 2), nu, np.exp(-eta / 2)])
        outcome = 1 - int(rng.choice(3, p=mass / mass.sum()))
        votes.append(
            PairVote(
                first=names[first],
                second=names[second],
                outcome=outcome,
                participant=f"p{number % people}",
                covariate=covariate,
            )
        )
    return votes


def strengths(fitted):
    return {bot.bot: bot.strength for bot in fitted.bots}


def logistic_fit(votes, *, with_covariate=False):
    """Fit halves of wins by statsmodels: a row for each side of each vote, the last bot as the baseline."""
    names = sorted(STRENGTHS)
    design, share = [], []
    for vote in votes:
        row = [float(vote.first == name) - float(vote.second == name) for name in names[:-1]]
        design.append([*row, vote.covariate] if with_covariate else row)
        share.append((vote.outcome + 1) / 2)
    fit = sm.GLM(share, np.array(design), family=sm.families.Binomial()).fit(tol=1e-14)
    free = np.array([*fit.params[:3], 0.0])
    return dict(zip(names, free - free.mean(), strict=True)), fit.params[3:].tolist()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_halved_ties_equal_a_logistic_regression(seed):
    votes = drawn_votes(seed)
    assert strengths(bradley_terry(votes, draws=1)) == pytest.approx(logistic_fit(votes)[0], abs=1e-6)


def test_the_covariate_equals_a_logistic_regression():
    votes = drawn_votes(4, slope=0.7)
    fitted = bradley_terry(votes, with_covariate=True, draws=20)
    expected, (slope,) = logistic_fit(votes, with_covariate=True)
    assert strengths(fitted) == pytest.approx(expected, abs=1e-6)
    assert fitted.covariate.value == pytest.approx(slope, abs=1e-6)
    assert fitted.covariate.low < slope < fitted.covariate.high


def test_davidson_ties_maximise_their_likelihood():
    votes = drawn_votes(5)
    names = sorted(STRENGTHS)

    def loss(parameters):
        of = dict(zip(names, [*parameters[:3], -parameters[:3].sum()], strict=True))
        total = 0.0
        for vote in votes:
            eta = of[vote.first] - of[vote.second]
            chances = np.array([np.exp(eta / 2), np.exp(parameters[3]), np.exp(-eta / 2)])
            total -= np.log(chances[1 - vote.outcome] / chances.sum())
        return total

    best = optimize.minimize(loss, np.zeros(4), method="BFGS", options={"gtol": 1e-7})
    fitted = bradley_terry(votes, ties="davidson", draws=20)
    expected = dict(zip(names, [*best.x[:3], -best.x[:3].sum()], strict=True))
    assert strengths(fitted) == pytest.approx(expected, abs=1e-4)
    assert fitted.tie.value == pytest.approx(np.exp(best.x[3]), abs=1e-4)
    assert fitted.tie.low < fitted.tie.value < fitted.tie.high


@pytest.mark.parametrize(
    "options", [{}, {"ties": "davidson"}, {"with_covariate": True}], ids=["half", "davidson", "covariate"]
)
def test_no_order_of_votes_or_sides_changes_a_bit(options):
    votes = drawn_votes(6, count=150, slope=0.3)
    fitted = bradley_terry(votes, draws=30, **options)
    shuffled = list(votes)
    random.Random(1).shuffle(shuffled)
    turned = [
        replace(vote, first=vote.second, second=vote.first, outcome=-vote.outcome, covariate=-vote.covariate)
        for vote in shuffled
    ]
    assert asdict(bradley_terry(shuffled, draws=30, **options)) == asdict(fitted)
    assert asdict(bradley_terry(turned, draws=30, **options)) == asdict(fitted)


def test_the_order_of_the_bots_and_their_ranks():
    fitted = bradley_terry(drawn_votes(7, count=3000), draws=200)
    assert [bot.bot for bot in fitted.bots] == ["alpha", "beta", "gamma", "delta"]
    assert [bot.rank for bot in fitted.bots] == [1, 2, 3, 4]
    assert (fitted.bots[0].rank_low, fitted.bots[0].rank_high) == (1, 1)
    assert all(bot.low < bot.strength < bot.high for bot in fitted.bots)
    assert fitted.is_connected
    assert fitted.ridge == 0.0
    assert fitted.win_rate("alpha", "delta") == pytest.approx(
        1 / (1 + np.exp(fitted.bots[3].strength - fitted.bots[0].strength))
    )


def test_bots_that_are_alike_share_their_ranks():
    votes = [
        PairVote(first="a", second="b", outcome=outcome, participant=f"p{number}")
        for number, outcome in enumerate([1, -1] * 10)
    ]
    fitted = bradley_terry(votes, draws=200)
    assert [(bot.rank, bot.rank_low, bot.rank_high) for bot in fitted.bots] == [(1, 1, 2), (1, 1, 2)]


def test_a_bot_that_few_participants_judged_has_no_interval():
    def intervals(few):
        """Return which bots have intervals where all six people judge a and b, and some of them c, eight times."""
        votes = [("a", "b", 1 if n % 3 else -1, n) for n in range(6)]
        votes += [("b", "c", 1 if number % 4 else -1, n) for n in range(few) for number in range(8)]
        fitted = bradley_terry(
            [PairVote(first=a, second=b, outcome=won, participant=f"p{n}") for a, b, won, n in votes], draws=50
        )
        assert [bot.bot for bot in fitted.bots] == ["a", "b", "c"]
        assert fitted.draws == 50
        bounds = [(bot.low, bot.high, bot.rank_low, bot.rank_high) for bot in fitted.bots]
        assert all(len({bound is None for bound in each}) == 1 for each in bounds)
        return [each[0] is not None for each in bounds]

    assert intervals(1) == intervals(5) == [True, True, False]
    assert intervals(6) == [True] * 3


def test_a_broken_chain_is_said_and_fitted_with_the_ridge():
    votes = [PairVote(first="a", second="b", outcome=1, participant=f"p{number}") for number in range(6)]
    fitted = bradley_terry(votes, draws=10)
    assert not fitted.is_connected
    assert fitted.groups == (("a",), ("b",))
    assert fitted.ridge == RIDGE
    assert fitted.ridged_draws == 10
    # with θ and −θ: 6·(1 − σ(2θ))·2 = 2·.01·θ·… is where the penalised likelihood has no slope
    best = optimize.minimize_scalar(lambda x: 6 * np.log1p(np.exp(-2 * x)) + RIDGE * x * x, bounds=(0, 20))
    assert fitted.bots[0].strength == pytest.approx(best.x, abs=1e-4)
    assert [(bot.low, bot.high) for bot in fitted.bots] == [(None, None)] * 2  # every draw is the same
    assert [(bot.rank_low, bot.rank_high) for bot in fitted.bots] == [(1, 1), (2, 2)]


def test_groups_that_never_met_are_fitted_with_the_ridge():
    votes = [
        PairVote(first=first, second=second, outcome=outcome, participant="p")
        for first, second in (("a", "b"), ("c", "d"))
        for outcome in (1, -1, 1)
    ]
    fitted = bradley_terry(votes)
    assert fitted.groups == (("a", "b"), ("c", "d"))
    assert fitted.draws == 0
    assert strengths(fitted)["a"] == pytest.approx(strengths(fitted)["c"])
    assert fitted.bots[0].low is None


def test_votes_that_cannot_be_used_are_refused():
    with refusing(BadInput):
        bradley_terry([])
    with refusing(BadInput):
        bradley_terry([PairVote(first="a", second="a", outcome=1, participant="p")])
    with refusing(BadInput):
        bradley_terry([PairVote(first="a", second="b", outcome=2, participant="p")])
    with refusing(Usage, "third"):
        bradley_terry([PairVote(first="a", second="b", outcome=1, participant="p")], ties="third")


def test_votes_that_each_have_a_covariate_take_no_table_of_people_and_votes():
    votes = drawn_votes(3, 2_000, slope=0.5, people=2_000)
    tracemalloc.start()
    try:
        fitted = bradley_terry(votes, with_covariate=True, draws=10)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (fitted.participants, fitted.draws) == (2_000, 10)
    assert peak < 2_000 * 2_000 * 8  # bytes: a third of the table


def test_a_fit_ends_between_two_blocks_of_draws():
    looks = []

    def check():
        looks.append(len(looks))
        if len(looks) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):  # in blocks of some million cells
        bradley_terry(drawn_votes(1, slope=0.5), with_covariate=True, draws=2_000, check=check)
    assert looks == [0, 1]
