"""Figures of clustered rows held to Student's test by hand and by scipy; maps from scores to ratings."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from refaug.metrics.statistics.clustered_figures import clustered_mean, jackknifed
from refaug.metrics.statistics.label_maps import isotonic_map, linear_map, map_figures


def test_a_mean_of_single_rows_has_students_test() -> None:
    values = np.array([0.3, -0.1, 0.4, 0.2, np.nan, 0.5])
    found = clustered_mean(values, np.arange(6))
    expected = stats.ttest_1samp(values[~np.isnan(values)], 0)
    assert found.value == pytest.approx(0.26)
    assert found.p == pytest.approx(expected.pvalue)
    assert (found.low, found.high) == pytest.approx(tuple(expected.confidence_interval()))
    assert clustered_mean(values, np.arange(6), side="greater").p == pytest.approx(expected.pvalue / 2)


def test_rows_that_are_copies_of_each_other_are_one() -> None:
    values = np.array([0.3, -0.1, 0.4, 0.2])
    once, thrice = (clustered_mean(np.repeat(values, n), np.repeat(np.arange(4), n)) for n in (1, 3))
    assert thrice.p == pytest.approx(once.p)
    assert thrice.low == pytest.approx(once.low)


def test_figures_without_spread_have_the_p_of_signs_and_no_interval() -> None:
    for clusters, p in ((2, 1 / 2), (5, 1 / 16)):
        found = clustered_mean(np.ones(clusters), np.arange(clusters))
        assert (found.value, found.low, found.high, found.p) == (1, None, None, p)
        assert found.why == "all contexts show the same, which does not show how others would vary"
    assert clustered_mean(np.zeros(5), np.arange(5)).p == 1
    assert clustered_mean(np.ones(5), np.arange(5), side="greater").p == 1 / 32
    assert clustered_mean(-np.ones(5), np.arange(5), side="greater").p == 1


def test_figures_of_one_cluster_and_those_not_defined_without_one_are_unknown() -> None:
    assert clustered_mean(np.ones(5), np.zeros(5)).why == "fewer than 2 contexts"
    ratio = jackknifed(np.eye(2), np.arange(2), lambda sums: sums[..., 0] / sums[..., 1])
    assert ratio.why == "the figure is not defined without some of the contexts"


def test_maps_by_hand() -> None:
    scores, ratings = np.array([0.0, 0.5, 0.5, 1.0]), np.array([1.0, 4.0, 2.0, 2.0])
    assert linear_map(scores, ratings)(np.array([0.5, 1.5])) == pytest.approx([2.25, 3.25])
    rising = isotonic_map(
        scores, ratings
    )  # 1, 3 and 2: the last two are pooled by their numbers of rows, (2·3 + 2) / 3
    assert rising(np.array([-1, 0.25, 1])) == pytest.approx([1, (1 + 8 / 3) / 2, 8 / 3])


def test_a_map_pays_where_scores_are_off_the_scale_and_not_where_they_are_on_it() -> None:
    random = np.random.default_rng(1)
    quality = random.uniform(size=400)
    ratings, contexts = 1 + 4 * quality + 0.3 * random.normal(size=400), np.arange(400) // 2
    on_scale = map_figures(quality, ratings, contexts, (1, 5))
    assert on_scale["none"].error == pytest.approx(0.3, abs=0.03)
    assert (on_scale["linear"].pays_from, on_scale["isotonic"].pays_from) == (None, None)
    squeezed = map_figures(0.4 + 0.2 * quality, ratings, contexts, (1, 5))
    assert squeezed["linear"].error == pytest.approx(0.3, abs=0.03)
    assert squeezed["linear"].pays_from == 10
    curved = map_figures(quality**6, ratings, contexts, (1, 5))
    assert curved["isotonic"].error < 0.7 * curved["linear"].error
