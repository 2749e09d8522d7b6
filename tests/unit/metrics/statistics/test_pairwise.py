"""Wilson intervals and sign tests against scipy; nominal κ against statsmodels."""

import numpy as np
import pytest
from refusals import refusing
from scipy import stats
from statsmodels.stats.inter_rater import cohens_kappa

from refaug.core.errors import Usage
from refaug.metrics.statistics.pairwise import (
    ambiguous_share,
    nominal_kappa,
    pair_outcome,
    sign_test,
    wilson,
)


@pytest.mark.parametrize(("successes", "n"), [(0, 7), (3, 10), (50, 50), (408, 1000)])
@pytest.mark.parametrize("level", [0.9, 0.95])
def test_wilson_intervals_equal_those_of_scipy(successes, n, level):
    expected = stats.binomtest(successes, n).proportion_ci(level, method="wilson")
    share = wilson(successes, n, level)
    assert (share.low, share.high) == pytest.approx((expected.low, expected.high), abs=1e-12)
    assert share.value == successes / n


def test_no_votes_have_no_share():
    assert (wilson(0, 0).value, wilson(0, 0).low) == (None, None)
    assert sign_test(0, 0, 5) is None
    with refusing(Usage):
        wilson(3, 2)


def test_ties_are_dropped_and_halved():
    outcome = pair_outcome(14, 5, 6)
    assert outcome.decided.value == 14 / 19
    assert outcome.halved.value == 17 / 25
    assert outcome.p_dropped == pytest.approx(stats.binomtest(14, 19).pvalue)
    assert outcome.p_halved == pytest.approx(stats.binomtest(17, 25).pvalue)


def test_of_an_odd_number_of_ties_one_is_dropped():
    assert sign_test(14, 5, 7, halve=True) == pytest.approx(stats.binomtest(17, 25).pvalue)


def test_nominal_kappa_equals_statsmodels():
    rng = np.random.default_rng(0)
    first = rng.integers(-1, 2, size=80).astype(float)
    second = np.where(rng.random(80) < 0.6, first, rng.integers(-1, 2, size=80))
    table = np.array([[np.sum((first == i) & (second == j)) for j in (-1, 0, 1)] for i in (-1, 0, 1)])
    assert nominal_kappa(first, second) == pytest.approx(cohens_kappa(table).kappa)


def test_choices_of_one_thing_throughout_have_no_kappa():
    assert nominal_kappa([1, 1, 1], [1, 1, 1]) is None


def test_rows_are_ambiguous_where_both_sides_are_as_often_chosen():
    assert ambiguous_share([[1, -1], [1, 1, -1], [0, 0], [], [1, 0], [0], [1]]) == 0.5
    assert ambiguous_share([[], [0]]) is None
