"""Agreement of annotators: published examples, plain loops over the definitions, and the krippendorff package."""

from __future__ import annotations

import itertools
import json
from dataclasses import asdict

import krippendorff
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refusing
from scipy import stats

from refaug.core.errors import BadInput, Usage
from refaug.metrics.statistics.annotator_agreement import (
    FORMS,
    _half_means,
    intraclass_correlations,
    kappa,
    kappa_of_each,
    kappa_shares,
    krippendorff_alpha,
    one_against_others,
    select_annotators,
    spearman_brown,
    split_half,
)
from refaug.metrics.statistics.resampling import Floats

NAN = np.nan
# Shrout & Fleiss 1979, table 2: six targets, four judges.
SHROUT_FLEISS = np.array([[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]])
# Krippendorff's example of four observers, twelve units and missing values ("Computing α-reliability", 2011).
KRIPPENDORFF = np.array(
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, NAN, NAN, NAN],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NAN, 3],
        [NAN, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NAN],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NAN],
    ]
).T


def some_ratings(rows: int = 40, annotators: int = 4, seed: int = 0, gaps: float = 0.2) -> Floats:
    """Ratings from 1 to 5 that share a part, with gaps."""
    random = np.random.default_rng(seed)
    shared = random.normal(size=(rows, 1)) * 1.2
    ratings = np.clip(np.round(3 + shared + random.normal(size=(rows, annotators))), 1, 5)
    return np.where(random.random(ratings.shape) < gaps, NAN, ratings)


# κ


def plain_kappa(x: Floats, y: Floats) -> float:
    """Weighted κ from the table of both annotators' ratings."""
    values = np.unique([x, y])
    table = np.array([[np.mean((x == a) & (y == b)) for b in values] for a in values])
    weights = (values[:, None] - values[None]) ** 2
    chance = np.outer(table.sum(axis=1), table.sum(axis=0))
    return float(1 - (weights * table).sum() / (weights * chance).sum())


def test_shares_count_pairs_above_and_keep_whom_the_selection_keeps() -> None:
    ratings = np.column_stack([some_ratings(annotators=3), np.tile([1.0, 5.0], 20)])
    pairs = [kappa(ratings).pairs[place].value or 0.0 for place in range(6)]
    shares = kappa_shares(ratings, thresholds=(-0.5, 0.0, 0.2, pairs[0]))
    counts = [sum(plain_of_pair(ratings, *pair) > one.threshold + 1e-9 for pair in PAIRS) for one in shares]
    assert [one.above for one in shares] == counts
    assert [one.share for one in shares] == [count / 6 for count in counts]
    assert counts[0] == 6 > counts[1] >= counts[2] > counts[3]
    for one in shares:
        kept = np.flatnonzero(select_annotators(ratings, one.threshold).mask).tolist()
        assert list(one.annotators) == kept
    assert kappa_shares(ratings[:, :1])[0].share is None
    assert (kappa_shares(ratings[:, :1])[0].pairs, kappa_shares(ratings[:, :1])[0].annotators) == (0, (0,))


PAIRS = list(itertools.combinations(range(4), 2))


def plain_of_pair(ratings: Floats, first: int, second: int) -> float:
    both = ratings[~np.isnan(ratings[:, [first, second]]).any(axis=1)]
    return plain_kappa(both[:, first], both[:, second])


def test_kappa_is_that_of_the_table_of_each_pair() -> None:
    ratings = some_ratings()
    result = kappa(ratings)
    assert [(pair.first, pair.second) for pair in result.pairs] == list(itertools.combinations(range(4), 2))
    for pair in result.pairs:
        both = ratings[~np.isnan(ratings[:, [pair.first, pair.second]]).any(axis=1)]
        assert pair.n == len(both)
        assert pair.value == pytest.approx(plain_kappa(both[:, pair.first], both[:, pair.second]), abs=1e-12)
    assert result.mean == pytest.approx(np.mean([pair.value for pair in result.pairs]))


def test_kappa_is_one_for_agreement_zero_for_constants_minus_one_opposed() -> None:
    ratings = np.array([[1, 1, 3, 5], [5, 5, 3, 1], [1, 1, 3, 5], [5, 5, 3, 1]])
    values = {(pair.first, pair.second): pair.value for pair in kappa(ratings).pairs}
    assert values == pytest.approx({(0, 1): 1, (0, 2): 0, (1, 2): 0, (0, 3): -1, (1, 3): -1, (2, 3): 0})


def test_pairs_without_a_kappa_have_a_reason() -> None:
    ratings = np.array([[2, 2, NAN], [2, 2, NAN], [2, 2, 3]])
    result = kappa(ratings)
    assert [pair.why for pair in result.pairs] == [
        "all ratings are equal",
        "fewer than 2 rows in common",
        "fewer than 2 rows in common",
    ]
    assert (result.mean, result.why) == (None, "all ratings are equal")


def test_annotators_below_the_least_kappa_are_dropped_at_once() -> None:
    random = np.random.default_rng(2)
    good = np.clip(np.arange(30)[:, None] % 5 + 1 + random.integers(-1, 2, (30, 3)), 1, 5)
    ratings = np.concatenate([good, random.integers(1, 6, (30, 1)), np.full((30, 1), NAN)], axis=1)
    each = kappa_of_each(ratings)
    pairs = {(pair.first, pair.second): pair.value for pair in kappa(ratings).pairs}
    assert each[1].value == pytest.approx(np.mean([pairs[0, 1], pairs[1, 2], pairs[1, 3]]))
    assert [one.pairs for one in each] == [3, 3, 3, 3, 0]
    kept = select_annotators(ratings, 0.2)
    assert kept.mask.tolist() == [True, True, True, False, True]
    assert kept.reasons[1] == f"kept: mean κ {each[1].value:.3f}"
    assert kept.reasons[3] == f"dropped: mean κ {each[3].value:.3f} is below 0.2"
    assert kept.reasons[4] == "kept: no mean κ, fewer than 2 rows in common"


# α


def test_alpha_of_krippendorffs_example() -> None:
    for level, value in {"interval": 0.849, "ordinal": 0.815}.items():
        result = krippendorff_alpha(KRIPPENDORFF, level)
        assert result.value == pytest.approx(value, abs=6e-4)
        assert result.rows == 11  # the twelfth has one rating


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("level", ["interval", "ordinal"])
def test_alpha_is_that_of_the_package_and_of_any_order_within_rows(level: str, seed: int) -> None:
    ratings = some_ratings(seed=seed, gaps=0.4)
    result = krippendorff_alpha(ratings, level)
    expected = krippendorff.alpha(reliability_data=ratings.T, level_of_measurement=level)
    assert result.value == pytest.approx(expected, abs=1e-12)
    shuffled = np.random.default_rng(seed).permuted(ratings, axis=1)
    assert krippendorff_alpha(shuffled, level).value == pytest.approx(expected, abs=1e-12)


def test_alpha_takes_many_different_ratings_at_the_interval_level_only() -> None:
    ratings = np.random.default_rng(0).normal(size=(1500, 2))
    assert krippendorff_alpha(ratings).value == pytest.approx(0, abs=0.1)
    assert krippendorff_alpha(ratings, "ordinal").why.startswith("more than 2000 different ratings; round them")


@pytest.mark.parametrize(
    ("ratings", "why"),
    [
        ([[1], [2], [3]], "only one annotator"),
        ([[1, NAN], [NAN, 2]], "no row has two ratings"),
        ([[3, 3], [3, 3], [4, NAN]], "all ratings are equal"),
    ],
)
def test_where_alpha_is_not_defined_it_says_so(ratings: list[list[float]], why: str) -> None:
    for level in ("interval", "ordinal"):
        result = krippendorff_alpha(ratings, level)
        assert (result.value, result.why) == (None, why)


# ICC


def test_the_worked_example_of_shrout_and_fleiss() -> None:
    """The values are those of their table 4; the bounds those that the R package psych prints for the same data."""
    expected = {
        "ICC(1,1)": (0.17, -0.133, 0.72),
        "ICC(1,k)": (0.44, -0.884, 0.91),
        "ICC(2,1)": (0.29, 0.019, 0.76),
        "ICC(2,k)": (0.62, 0.071, 0.93),
        "ICC(3,1)": (0.71, 0.342, 0.95),
        "ICC(3,k)": (0.91, 0.676, 0.99),
    }
    result = intraclass_correlations(SHROUT_FLEISS)
    assert tuple(one.form for one in result.forms) == FORMS
    assert (result.rows, result.annotators) == (6, 4)
    for form, (value, low, high) in expected.items():
        one = result.of(form)
        assert one.value == pytest.approx(value, abs=0.005)
        assert one.low == pytest.approx(low, abs=0.0006)
        assert one.high == pytest.approx(high, abs=0.006)


def test_the_interval_of_icc_3_is_where_f_would_be_as_extreme() -> None:
    """At a bound ρ, F·(1 − ρ)/(1 + (k − 1)ρ) is the quantile of F: both bounds, at another level."""
    one = intraclass_correlations(SHROUT_FLEISS, level=0.8).of("ICC(3,1)")
    f = (1 + 3 * one.value) / (1 - one.value)
    for bound, quantile in ((one.low, 0.9), (one.high, 0.1)):
        assert f * (1 - bound) / (1 + 3 * bound) == pytest.approx(stats.f.ppf(quantile, 5, 15))


def test_a_stricter_annotator_counts_in_icc_2_but_not_in_icc_3() -> None:
    result = intraclass_correlations(np.array([[1, 2], [2, 3], [3, 4], [4, 5]]))
    assert result.of("ICC(3,1)").value == result.of("ICC(3,k)").value == 1
    assert (result.of("ICC(3,1)").low, result.of("ICC(3,1)").high) == (1, 1)
    assert result.of("ICC(2,1)").value == pytest.approx(10 / 13)  # variances: rows 5/3, annotators 1/2


def test_perfect_agreement_is_one_with_nothing_around_it() -> None:
    for one in intraclass_correlations([[0.1, 0.1], [0.7, 0.7], [0.3, 0.3], [0.9, 0.9]]).forms:
        assert (one.value, one.low, one.high) == pytest.approx((1, 1, 1))


def test_only_complete_rows_count() -> None:
    gappy = np.concatenate([SHROUT_FLEISS, [[1, NAN, 2, 3], [NAN, NAN, 5, 5]]])
    assert intraclass_correlations(gappy) == intraclass_correlations(SHROUT_FLEISS)


@pytest.mark.parametrize(
    ("ratings", "why"),
    [
        ([[1], [2], [3]], "only one annotator"),
        ([[1, 2], [2, 3], [NAN, 1]], "fewer than 3 rows were rated by all 2 annotators"),
        ([[2, 2], [2, 2], [2, 2]], "all ratings are equal"),
    ],
)
def test_where_no_icc_is_defined_it_says_so(ratings: list[list[float]], why: str) -> None:
    assert {(one.value, one.why) for one in intraclass_correlations(ratings).forms} == {(None, why)}


def test_rows_of_equal_means_have_no_reliability_of_the_mean() -> None:
    ratings = np.array([[0.1, 0.2, 0.3], [0.3, 0.1, 0.2], [0.2, 0.3, 0.1], [0.3, 0.2, 0.1]])  # equal but for rounding
    result = intraclass_correlations(ratings)
    assert result.of("ICC(1,1)").value == pytest.approx(-0.5)
    assert result.of("ICC(1,k)").why == "the mean ratings of the rows do not differ beyond noise"
    assert result.of("ICC(3,k)").value is None


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 5), st.integers(3, 8), st.integers(0, 10_000), st.integers(1, 3))
def test_iccs_are_in_their_intervals_and_step_up(annotators: int, rows: int, seed: int, most: int) -> None:
    ratings = np.random.default_rng(seed).integers(0, most + 1, (rows, annotators))
    result = intraclass_correlations(ratings)
    for one in result.forms:
        assert (one.value is None) == (one.why is not None and one.low is None and "bounds" not in one.why)
        if one.low is not None:
            assert one.low <= one.value + 1e-9
            assert one.value <= one.high + 1e-9
    for group in "123":
        single, mean = result.of(f"ICC({group},1)").value, result.of(f"ICC({group},k)").value
        if single is not None and mean is not None:
            stepped = annotators * single / (1 + (annotators - 1) * single)
            assert mean == pytest.approx(stepped, rel=1e-6, abs=1e-9)


# The human row


def test_ratings_of_each_row_are_halved_at_random_with_equal_likelihood() -> None:
    rated = np.array([[1.0, NAN, 2, 4, 8], [16, 32, NAN, NAN, NAN], [1, 2, 4, 8, 16]])
    chances = np.random.default_rng(0).random((6000, 3, 5))
    first, second = _half_means(rated, chances)
    assert np.array_equal(first * [2, 1, 2] + second * [2, 1, 3], np.broadcast_to([15.0, 48, 31], (6000, 3)))
    seen, times = np.unique(first[:, 0] * 2, return_counts=True)
    assert seen.tolist() == sorted(a + b for a, b in itertools.combinations([1, 2, 4, 8], 2))
    assert times / 6000 == pytest.approx(np.full(6, 1 / 6), abs=0.02)
    seen, times = np.unique(first[:, 2] * 2, return_counts=True)
    assert seen.tolist() == sorted(a + b for a, b in itertools.combinations([1, 2, 4, 8, 16], 2))
    assert times / 6000 == pytest.approx(np.full(10, 0.1), abs=0.02)


def test_split_half_of_two_annotators_is_the_mean_over_all_ways_of_halving() -> None:
    ratings = some_ratings(rows=5, annotators=2, seed=1, gaps=0)
    exact = {"pearson": [], "spearman": []}
    for swap in itertools.product([False, True], repeat=5):
        left = np.where(swap, ratings[:, 0], ratings[:, 1])
        right = np.where(swap, ratings[:, 1], ratings[:, 0])
        if np.ptp(left) > 0 and np.ptp(right) > 0:
            exact["pearson"].append(stats.pearsonr(left, right).statistic)
            exact["spearman"].append(stats.spearmanr(left, right).statistic)
    result = split_half(ratings, draws=4000)
    for found in (result.pearson, result.spearman):
        assert found.half == pytest.approx(np.mean(exact[found.kind]), abs=0.01)
        assert found.stepped_up == pytest.approx(2 * found.half / (1 + found.half))
        assert min(exact[found.kind]) - 1e-9 <= found.low <= found.high <= max(exact[found.kind]) + 1e-9


def test_split_half_stepped_up_is_the_reliability_that_was_put_in() -> None:
    random = np.random.default_rng(0)
    ratings = random.normal(size=(4000, 1)) + random.normal(size=(4000, 4))  # the mean of four: 1 / (1 + 1/4)
    result = split_half(ratings, draws=20)
    assert result.pearson.stepped_up == pytest.approx(0.8, abs=0.02)
    assert result.pearson.half == pytest.approx(2 / 3, abs=0.02)


def test_rows_with_one_rating_are_left_out_of_split_half() -> None:
    ratings = some_ratings(gaps=0.6)
    enough = (~np.isnan(ratings)).sum(axis=1) >= 2
    result, alone = split_half(ratings, draws=30), split_half(ratings[enough], draws=30)
    assert (result.rows, result.left_out) == (enough.sum(), (~enough).sum())
    assert result.spearman == alone.spearman
    shuffled = np.random.default_rng(1).permuted(ratings, axis=1)
    assert split_half(shuffled, draws=2000).spearman.half == pytest.approx(
        split_half(ratings, draws=2000).spearman.half, abs=0.02
    )


@pytest.mark.parametrize(
    ("ratings", "why"),
    [
        ([[1], [2], [3]], "only one annotator"),
        ([[1, 2], [2, 3], [NAN, 1]], "fewer than 3 rows with two ratings"),
        ([[2, 2], [2, 2], [2, 2]], "all ratings are equal"),
    ],
)
def test_where_no_half_can_be_correlated_it_says_so(ratings: list[list[float]], why: str) -> None:
    result = split_half(ratings, draws=10)
    for found in (result.pearson, result.spearman):
        assert (found.half, found.stepped_up, found.why) == (None, None, why)


def test_halves_that_contradict_each_other_are_not_stepped_up() -> None:
    result = split_half([[1, 5], [5, 1], [1, 5], [5, 1], [1, 5], [3, 3]], draws=200)
    assert result.pearson.half < 0
    assert result.pearson.stepped_up is None
    assert result.pearson.why == "the halves do not agree, so there is nothing to step up"
    assert spearman_brown(0.5) == pytest.approx(2 / 3)


def test_each_annotator_against_the_mean_of_the_others() -> None:
    ratings = some_ratings(annotators=3)
    result = one_against_others(ratings, "pearson")
    for annotator in range(3):
        x, y = [], []
        for row in ratings:
            others = [rating for i, rating in enumerate(row) if i != annotator and not np.isnan(rating)]
            if others and not np.isnan(row[annotator]):
                x.append(row[annotator])
                y.append(np.mean(others))
        assert result.each[annotator].value == pytest.approx(stats.pearsonr(x, y).statistic, abs=1e-12)
        assert result.each[annotator].n == len(x)
    assert result.lowest <= result.mean <= result.highest


# Edges


def test_one_annotator_agrees_with_nobody() -> None:
    ratings = [[1], [3], [5], [2]]
    assert kappa(ratings).why == "only one annotator"
    assert kappa_of_each(ratings)[0].why == "only one annotator"
    assert select_annotators(ratings, 0.3).mask.tolist() == [True]
    assert select_annotators(ratings, 0.3).reasons == ("kept: no mean κ, only one annotator",)
    assert one_against_others(ratings).why == "only one annotator"


def test_the_same_seed_gives_the_same_result_and_it_is_plain_json() -> None:
    ratings = some_ratings()
    first, second, other = (split_half(ratings, draws=20, seed=seed) for seed in (1, 1, 2))
    assert first == second != other
    for part in (
        first,
        kappa(ratings),
        *kappa_of_each(ratings),
        krippendorff_alpha(ratings, "ordinal"),
        krippendorff_alpha(ratings),
        intraclass_correlations(ratings),
        one_against_others(ratings),
    ):
        assert json.loads(json.dumps(asdict(part)))


def test_input_that_is_no_matrix_of_ratings_is_refused() -> None:
    with refusing(BadInput):
        kappa([1, 2, 3])
    with refusing(BadInput):
        split_half([[1, 2], [1, np.inf]])
    with refusing(Usage, "ratio"):
        krippendorff_alpha([[1, 2]], "ratio")
    with refusing(Usage):
        intraclass_correlations([[1, 2]], level=95)
