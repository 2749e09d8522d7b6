"""Correlations with ratings, and tests on them, against scipy and statsmodels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refusing
from scipy import stats
from statsmodels.stats.multitest import multipletests

from refaug.core.errors import BadInput, Usage
from refaug.metrics.statistics.agreement import RatedSet, mean_over_sets
from refaug.metrics.statistics.correlation import (
    KINDS,
    Correlation,
    between_annotators,
    by_annotator,
    correlate,
    join_near_ties,
    kendall,
    partial_spearman,
    pearson,
    row_correlations,
    spearman,
    spearman_alone,
    williams,
)
from refaug.metrics.statistics.resampling import Floats, holm

NAN = np.nan
SCIPY = {"pearson": stats.pearsonr, "spearman": stats.spearmanr, "kendall": stats.kendalltau}


def some_rows(rows: int = 60, metrics: int = 3, contexts: int = 15, seed: int = 0) -> RatedSet:
    """Ratings from 1 to 5 with many ties, and metrics of which the later ones agree less."""
    random = np.random.default_rng(seed)
    ratings = random.integers(1, 6, rows).astype(np.float64)
    scores = np.round(ratings / np.arange(1, metrics + 1)[:, None] + random.normal(size=(metrics, rows)), 1)
    return RatedSet(scores, ratings, random.integers(0, contexts, rows))


# One metric


@pytest.mark.parametrize("kind", KINDS)
def test_correlations_are_those_of_scipy(kind: str) -> None:
    rows = some_rows()
    result = correlate(kind, rows.scores[1], rows.ratings)
    expected = SCIPY[kind](rows.scores[1], rows.ratings)
    assert result.value == pytest.approx(expected.statistic, abs=1e-12)
    assert result.p == pytest.approx(expected.pvalue, rel=1e-9)
    assert (result.kind, result.n, result.why) == (kind, 60, None)


def test_the_three_kinds_by_hand() -> None:
    metric, rating = [1, 2, 3, 10], [1, 3, 2, 4]
    assert pearson(metric, rating).value == pytest.approx(13 / np.sqrt(50 * 5))
    assert spearman(metric, rating).value == pytest.approx(1 - 6 * 2 / (4 * 15))
    assert kendall(metric, rating).value == pytest.approx((5 - 1) / 6)


def test_rows_without_a_score_or_rating_are_left_out() -> None:
    assert spearman([1, 2, NAN, 4, 3], [1, 2, 3, NAN, 1]) == spearman([1, 2, 3], [1, 2, 1])


@pytest.mark.parametrize("levels", [3, 1_000])
def test_spearman_alone_is_spearman_without_its_p(levels: int) -> None:
    metric, rating = np.random.default_rng(levels).integers(levels, size=(2, 60)).astype(float)
    rating[7] = NAN
    found, known = spearman_alone(metric, rating), spearman(metric, rating)
    assert found.value == pytest.approx(known.value, abs=1e-12)
    assert replace(found, value=None) == replace(known, value=None, p=None)
    assert spearman_alone([1, 1, 1, 1], [1, 2, 3, 4]) == spearman([1, 1, 1, 1], [1, 2, 3, 4])


@pytest.mark.parametrize(
    "correlation", [pearson, spearman, kendall, lambda m, r: partial_spearman(m, r, range(len(r)))]
)
@pytest.mark.parametrize(
    ("metric", "rating", "why"),
    [
        ([], [], "fewer than 3 rows"),
        ([1, 2, NAN], [1, 2, 3], "fewer than 3 rows"),
        ([1, 2, 3, 4], [2, 2, 2, 2], "all ratings are equal"),
        ([0.3, 0.1 + 0.2, 0.3, 0.3], [1, 2, 3, 4], "all scores are equal"),
    ],
)
def test_what_is_not_defined_has_a_reason(correlation, metric: list[float], rating: list[float], why: str) -> None:
    result = correlation(metric, rating)
    assert (result.value, result.p, result.why) == (None, None, why)


def test_rounding_breaks_no_tie() -> None:
    noisy = np.array([0.3, 0.1 + 0.2, 0.6, 0.6 - 1e-16, 0.9])
    assert np.array_equal(join_near_ties(noisy), join_near_ties(np.array([0.3, 0.3, 0.6 - 1e-16, 0.6 - 1e-16, 0.9])))
    assert len(np.unique(join_near_ties(np.array([1.0, 1 + 1e-9, -1e300])))) == 2
    assert kendall(noisy, [1, 2, 3, 4, 5]) == kendall([3, 3, 6, 6, 9], [1, 2, 3, 4, 5])


def test_very_large_and_very_small_scores_have_a_correlation() -> None:
    rows = some_rows()
    for unit in (1e300, 1e-300):
        assert pearson(rows.scores[0] * unit, rows.ratings).value == pytest.approx(
            pearson(rows.scores[0], rows.ratings).value
        )
        huge = mean_over_sets([RatedSet(rows.scores * unit, rows.ratings, rows.clusters)], draws=20)
        plain = mean_over_sets([rows], draws=20)
        assert huge.by_kind["pearson"][0].correlation.low == pytest.approx(plain.by_kind["pearson"][0].correlation.low)


# Length held fixed


def plain_partial(metric: Floats, rating: Floats, length: Floats) -> float:
    m, r, x = (stats.rankdata(v) for v in (metric, rating, length))
    rests = [v - np.polyval(np.polyfit(x, v, 2), x) for v in (m, r)]
    return float(stats.pearsonr(*rests).statistic)


def test_partial_spearman_is_the_correlation_of_what_a_parabola_leaves() -> None:
    rows = some_rows()
    length = np.random.default_rng(3).integers(1, 12, 60)
    result = partial_spearman(rows.scores[0], rows.ratings, length)
    expected = plain_partial(rows.scores[0], rows.ratings, length)
    assert result.value == pytest.approx(expected, abs=1e-9)
    t = expected * np.sqrt(56 / (1 - expected**2))  # 60 rows less 2, and less the 2 terms of length
    assert result.p == pytest.approx(2 * stats.t.sf(abs(t), 56), rel=1e-6)


def test_a_metric_that_measures_length_alone_has_no_partial_correlation() -> None:
    length = np.arange(20.0)
    rating = np.random.default_rng(0).permutation(20)
    assert partial_spearman(np.exp(length), rating, length).why == "length alone explains the scores"
    assert partial_spearman(rating, -length, length).why == "length alone explains the ratings"


def test_a_preference_for_middling_lengths_is_taken_out() -> None:
    length = np.arange(41.0)
    random = np.random.default_rng(0)
    rating, metric = (-((length - 20) ** 2) + random.normal(size=41) * 30 for _ in range(2))
    assert spearman(metric, rating).value > 0.9
    assert abs(partial_spearman(metric, rating, length).value) < 0.4


def test_with_one_length_for_all_the_partial_correlation_is_the_plain_one() -> None:
    rows = some_rows()
    result = partial_spearman(rows.scores[0], rows.ratings, np.full(60, 7.0))
    assert result.value == pytest.approx(spearman(rows.scores[0], rows.ratings).value)
    assert result.p == pytest.approx(spearman(rows.scores[0], rows.ratings).p)


def test_four_rows_are_too_few_for_a_parabola() -> None:
    result = partial_spearman([1, 3, 2, 4], [1, 2, 4, 3], [1, 2, 3, 4])
    assert result == Correlation("partial-spearman", None, None, 4, "4 rows are too few to hold length fixed")


# Tests on correlations


def test_williams_by_hand() -> None:
    r12, r13, r23, n = 0.7, 0.5, 0.6, 103
    determinant = np.linalg.det([[1, r12, r13], [r12, 1, r23], [r13, r23, 1]])
    below = 2 * determinant * 102 / 100 + 0.6**2 * 0.4**3
    result = williams(r12, r13, r23, n)
    assert result.t == pytest.approx(0.2 * np.sqrt(102 * 1.6 / below))
    assert result.p == pytest.approx(2 * stats.t.sf(result.t, 100))
    assert result.note == "assumes independent rows"
    assert williams(r13, r12, r23, n).t == pytest.approx(-result.t)
    assert williams(0.5, 0.5, 0.3, 50).p == 1


def test_williams_rejects_one_in_twenty_equal_metrics_at_five_percent() -> None:
    random = np.random.default_rng(1)
    rating = random.normal(size=(2000, 60))
    one, two = (rating + random.normal(size=(2000, 60)) for _ in range(2))
    rs = [row_correlations("pearson", a, b) for a, b in ((rating, one), (rating, two), (one, two))]
    ps = [williams(*r, 60).p for r in np.stack(rs, axis=1)]
    assert np.mean(np.array(ps) < 0.05) == pytest.approx(0.05, abs=0.02)


@pytest.mark.parametrize(
    ("r12", "r13", "r23", "n", "why"),
    [
        (0.5, 0.4, 0.3, 3, "fewer than 4 rows"),
        (0.5, 0.5, 1.0, 50, "one of the three follows from the others"),
        (0.9, -0.9, 0.9, 50, "no three variables correlate like that: were the rows the same?"),
    ],
)
def test_williams_says_when_it_is_not_defined(r12: float, r13: float, r23: float, n: int, why: str) -> None:
    result = williams(r12, r13, r23, n)
    assert (result.t, result.p, result.why) == (None, None, why)


@pytest.mark.parametrize("p_values", [[0.3], [0.04, 0.001, 0.03, 0.9], [0.02, 0.02, 0.02], [0, 1, 0.5, 0.01, 0.01]])
def test_holm_is_that_of_statsmodels(p_values: list[float]) -> None:
    assert holm(p_values) == pytest.approx(multipletests(p_values, method="holm")[1], abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_never_lowers_a_p_nor_changes_their_order(p_values: list[float]) -> None:
    adjusted = np.array(holm(p_values))
    assert (adjusted >= np.array(p_values)).all()
    assert (adjusted <= 1).all()
    assert (np.diff(adjusted[np.argsort(p_values, kind="stable")]) >= 0).all()
    assert adjusted.min() == min(1.0, min(p_values) * len(p_values))


def test_a_test_without_a_p_is_not_one_of_holms_family() -> None:
    assert holm([0.01, None, 0.04, 0.03]) == (0.03, None, 0.06, 0.06)
    assert holm([]) == ()
    with refusing(BadInput):
        holm([0.1, NAN])


def test_unequal_lengths_and_values_beyond_correlations_are_refused() -> None:
    with refusing(BadInput):
        pearson([1, 2], [1, 2, 3])
    with refusing(Usage, "1.5"):
        williams(1.5, 0, 0, 10)


# Many correlations at once


def test_each_annotator_is_correlated_on_the_rows_they_rated() -> None:
    scores = np.array([1.0, 2, 3, 4, 5])
    ratings = np.array([[1, 5, NAN], [2, 4, NAN], [3, 3, NAN], [5, 2, 1], [4, NAN, 2]])
    result = by_annotator(scores, ratings)
    assert result.each[0].value == pytest.approx(0.9)
    assert result.each[1] == spearman([1, 2, 3, 4], [5, 4, 3, 2])
    assert result.each[2].why == "fewer than 3 rows"
    assert (result.mean, result.lowest, result.highest) == pytest.approx((-0.05, -1, 0.9))
    nobody = by_annotator(scores, np.full((5, 2), NAN))
    assert (nobody.mean, nobody.why) == (None, "fewer than 3 rows")
    with refusing(BadInput):
        by_annotator(scores, scores)


def test_annotators_are_correlated_with_each_other_over_rows_of_both() -> None:
    ratings = np.array([[1, 5, 3, NAN], [2, 4, 3, NAN], [3, 3, 3, 1], [4, 2, 3, 2], [NAN, 1, 3, 4]], dtype=np.float64)
    result = between_annotators(ratings, "pearson")
    assert list(result.each) == [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    assert result.each[0, 1] == pearson([1, 2, 3, 4], [5, 4, 3, 2])
    assert result.each[1, 3] == pearson([3, 2, 1], [1, 2, 4])
    assert {result.each[pair].why for pair in ((0, 2), (1, 2), (2, 3))} == {"all ratings are equal"}
    assert result.each[0, 3].why == "fewer than 3 rows"
    assert (result.lowest, result.highest) == (-1.0, result.each[1, 3].value)
    assert between_annotators(ratings[:, :1]).why == "there is nothing to correlate"
    with refusing(BadInput):
        between_annotators(ratings[0])


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(st.integers(0, 3), min_size=5, max_size=5), min_size=2, max_size=2))
def test_correlations_of_rows_of_tables_are_those_of_scipy(tables: list[list[int]]) -> None:
    left, right = (np.array([table], dtype=np.float64) for table in tables)
    for kind in ("pearson", "spearman"):
        expected = NAN if np.ptp(left) == 0 or np.ptp(right) == 0 else SCIPY[kind](left[0], right[0]).statistic
        assert row_correlations(kind, left, right)[0] == pytest.approx(expected, abs=1e-12, nan_ok=True)
