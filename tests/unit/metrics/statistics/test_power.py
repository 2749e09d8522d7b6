"""The published sizes, and the power that simulation finds at them."""

import pytest
from refusals import refusing
from statsmodels.stats.power import NormalIndPower

from refaug.core.errors import Usage
from refaug.metrics.statistics.power import (
    design_effect,
    power_of_ratings,
    power_of_votes,
    ratings_needed,
    simulated_rating_power,
    simulated_vote_power,
    variance_factor,
    votes_needed,
)


@pytest.mark.parametrize(("difference", "n"), [(1.0, 27), (0.75, 48), (0.5, 107), (0.3, 295)])
def test_ratings_that_a_difference_needs(difference, n):
    assert ratings_needed(difference, sd=1.3) == n
    independent = NormalIndPower().solve_power(difference / 1.3, alpha=0.05, power=0.8)
    assert n - 1 < independent <= n
    assert power_of_ratings(n - 1, difference) < 0.8 <= power_of_ratings(n, difference)


@pytest.mark.parametrize(("win_rate", "n"), [(0.65, 85), (0.60, 194), (0.55, 783)])
def test_votes_that_a_win_rate_needs(win_rate, n):
    assert votes_needed(win_rate) == votes_needed(1 - win_rate) == n
    assert power_of_votes(n - 1, win_rate) < 0.8 <= power_of_votes(n, win_rate)


def test_the_design_effect():
    assert design_effect(4, 0.3) == pytest.approx(1.9)
    assert design_effect(1, 0.3) == 1
    assert variance_factor(1, 0.3, crossed=True) == pytest.approx(0.7)
    assert ratings_needed(0.5, per_participant=4, rho=0.3) == 202  # 106.1 · 1.9, rounded up


@pytest.mark.parametrize(
    "design",
    [
        {"difference": 1.0},
        {"difference": 0.5},
        {"difference": 0.5, "per_participant": 4, "rho": 0.3},
        {"difference": 0.5, "per_participant": 1, "rho": 0.3, "crossed": True},
    ],
    ids=["one", "half", "clustered", "crossed"],
)
def test_simulated_studies_of_ratings_have_the_power(design):
    found = simulated_rating_power(ratings_needed(**design), **design, studies=4000, seed=1)
    assert found.power == pytest.approx(0.8, abs=0.03)
    assert found.studies == 4000


@pytest.mark.parametrize("win_rate", [0.65, 0.6])
def test_simulated_studies_of_votes_have_the_power(win_rate):
    found = simulated_vote_power(votes_needed(win_rate), win_rate, studies=4000, seed=1)
    assert found.power == pytest.approx(0.8, abs=0.03)


def test_votes_of_the_same_person_count_for_less():
    n = votes_needed(0.6)
    assert simulated_vote_power(n, 0.6, per_participant=8, rho=0.3, studies=1000).power < 0.6
    assert power_of_votes(n, 0.6, deff=design_effect(8, 0.3)) == pytest.approx(0.38, abs=0.1)


def test_designs_without_sense_are_refused():
    with refusing(Usage):
        ratings_needed(0)
    with refusing(Usage, "0.5"):
        votes_needed(0.5)
    with refusing(Usage):
        ratings_needed(1.0, power=1.0)
    with refusing(Usage):
        design_effect(3, 2)
