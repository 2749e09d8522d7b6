"""Prediction-powered means, held to ppi-python 0.2.3, and their coverage."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from refaug.core.errors import BadInput, Usage
from refaug.metrics.statistics.prediction_powered import labels_needed, powered_difference, powered_mean

# of ppi_mean_pointestimate and ppi_mean_ci (alpha=.05) on the rows of `drawn`, in this order
OF_PPI_PYTHON = {
    (50, 400): (3.0264191115350756, 2.777626930712427, 3.2752112923577243),
    (100, 100): (3.144365406699281, 2.901740229188856, 3.386990584209706),
    (300, 1000): (3.005625434875927, 2.8770073330900785, 3.1342435366617756),
}


def drawn() -> dict[tuple[int, int], tuple[np.ndarray, np.ndarray]]:
    random, rows = np.random.default_rng(47), {}
    for n, more in OF_PPI_PYTHON:
        quality = random.normal(size=n + more)
        labels = quality + 3 + 0.5 * random.normal(size=n + more)
        scores = 0.5 * quality + 2 + 0.6 * random.normal(size=n + more) * 1.5
        labels, scores = labels.round(3), scores.round(3)
        labels[n:] = np.nan
        rows[n, more] = labels, scores
    return rows


@pytest.mark.parametrize("size", OF_PPI_PYTHON)
def test_means_are_those_of_ppi_python_and_intervals_are_wider_by_student_alone(size: tuple[int, int]) -> None:
    estimated = powered_mean(*drawn()[size])
    value, low, high = OF_PPI_PYTHON[size]
    n = size[0]
    wider = stats.t.ppf(0.975, n - 1) / stats.norm.ppf(0.975) * np.sqrt(n / (n - 1))
    assert estimated.powered.value == pytest.approx(value, rel=1e-12)
    assert estimated.half_width == pytest.approx((high - low) / 2 * wider, rel=1e-9)
    assert (estimated.labelled, estimated.unlabelled, estimated.left_out) == (*size, 0)


def test_scores_on_another_scale_give_the_same_interval() -> None:
    labels, scores = drawn()[50, 400]
    plain, scaled = powered_mean(labels, scores), powered_mean(labels, scores / 10 + 7)
    assert scaled.weight == pytest.approx(10 * plain.weight)
    assert scaled.powered.low == pytest.approx(plain.powered.low)


def test_scores_that_say_nothing_cost_nothing() -> None:
    labels, scores = drawn()[50, 400]
    estimated = powered_mean(labels, np.ones_like(scores))
    assert estimated.weight == 0
    assert estimated.powered == estimated.labels_only
    assert estimated.powered.value == pytest.approx(np.nanmean(labels))


def test_rows_of_a_cluster_count_as_one_where_they_are_the_same() -> None:
    labels, scores = drawn()[100, 100]
    once = powered_mean(labels, scores)
    twice = powered_mean(np.repeat(labels, 2), np.repeat(scores, 2), clusters=np.repeat(np.arange(200), 2))
    assert twice.powered.value == pytest.approx(once.powered.value, abs=0.01)  # λ differs by the degree of freedom
    assert twice.half_width == pytest.approx(once.half_width, rel=0.01)


def test_what_two_systems_share_cancels_out_of_their_difference() -> None:
    labels, scores = drawn()[100, 100]
    harder = np.random.default_rng(1).normal(size=200)
    first, second = (labels + 0.3, scores + 0.3), (labels + 0.01 * harder, scores)
    compared = powered_difference((first[0], second[0]), (first[1], second[1]))
    assert compared.powered.value == pytest.approx(0.3, abs=0.01)
    assert compared.half_width < 0.01 < powered_mean(*first).half_width


def test_intervals_of_fifty_labels_cover_the_mean_in_95_of_100() -> None:
    random, covered = np.random.default_rng(2), 0
    for _ in range(400):
        quality = random.normal(size=450)
        labels, scores = quality + 0.5 * random.normal(size=450), quality + random.normal(size=450)
        labels[50:] = np.nan
        interval = powered_mean(labels, scores).powered
        covered += interval.low <= 0 <= interval.high
    assert covered / 400 == pytest.approx(0.95, abs=0.03)


def test_the_labels_that_are_needed_give_the_width() -> None:
    random = np.random.default_rng(3)
    quality = random.normal(size=4_000)
    labels, scores = quality + 0.5 * random.normal(size=4_000), quality + 0.7 * random.normal(size=4_000)
    pilot = np.where(np.arange(4_000) < 200, labels, np.nan)
    needed = labels_needed(0.1, pilot, scores)
    assert needed is not None
    assert powered_mean(np.where(np.arange(4_000) < needed, labels, np.nan), scores).half_width == pytest.approx(
        0.1, abs=0.01
    )
    by_labels_alone = labels_needed(0.1, pilot, np.ones(4_000))
    assert by_labels_alone is not None
    assert by_labels_alone > 2 * needed
    assert labels_needed(0.001, pilot, scores) is None
    assert labels_needed(9, pilot, scores) == 20  # fewer have no interval
    assert labels_needed(9, pilot, scores, clusters=np.arange(4_000) // 2) == 40


def test_too_few_labels_are_refused() -> None:
    labels, scores = drawn()[50, 400]
    labels[19:] = np.nan
    with pytest.raises(BadInput, match="19 contexts"):
        powered_mean(labels, scores)
    with pytest.raises(Usage):
        labels_needed(0, labels, scores)
