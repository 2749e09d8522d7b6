"""Figures of how good answers are, against counting them one by one and against a temperature that is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from refaug.rater.training.accuracy import Bin, apply_temperature, calibration_error, fit_temperature, reliability

LIKELY = st.floats(0, 1)
ANSWERS = st.lists(st.tuples(LIKELY, st.booleans()), min_size=1, max_size=60)
TEMPERATURES = (0.06, 0.1, 0.2, 0.4, 0.7, 0.9, 1.0, 1.1, 1.5, 2.0, 3.0, 5.0, 10.0, 19.0)
SURE = 40.0  # the log-odds that certainty counts as

Arrays = tuple[NDArray[np.float64], NDArray[np.bool_]]


def arrays(answers: list[tuple[float, bool]]) -> Arrays:
    return np.array([likely for likely, _ in answers], np.float64), np.array([true for _, true in answers], np.bool_)


def binned(answers: list[tuple[float, bool]], bins: int) -> list[list[tuple[float, bool]]]:
    """The answers of each bin that has some."""
    found: list[list[tuple[float, bool]]] = [[] for _ in range(bins)]
    for likely, true in answers:
        found[min(bins - 1, math.floor(likely * bins))].append((likely, true))
    return [some for some in found if some]


def loss_at(temperature: float, likely: NDArray[np.float64], positive: NDArray[np.bool_]) -> float:
    """The mean of −log of what was said of the truth, from log-odds."""
    total = 0.0
    for said, true in zip(likely.tolist(), positive.tolist(), strict=True):
        odds = -SURE if said == 0 else SURE if said == 1 else math.log(said) - math.log1p(-said)
        odds = max(-SURE, min(SURE, odds)) * (1 if true else -1) / temperature
        total += max(-odds, 0) + math.log1p(math.exp(-abs(odds)))
    return total / len(likely)


# Calibration


@given(ANSWERS, st.integers(1, 20))
@example([(0.0, True), (1.0, False), (1.0, True)], 15)
@example([(number / 15, True) for number in range(16)], 15)
@settings(max_examples=40, deadline=None)
def test_bins_hold_what_counting_one_by_one_gives(answers: list[tuple[float, bool]], bins: int) -> None:
    expected = binned(answers, bins)
    found = reliability(*arrays(answers), bins)
    assert [one.count for one in found] == [len(some) for some in expected]
    assert [one.said for one in found] == pytest.approx(
        [math.fsum(p for p, _ in some) / len(some) for some in expected]
    )
    assert [one.true for one in found] == pytest.approx(
        [sum(true for _, true in some) / len(some) for some in expected]
    )


@given(ANSWERS, st.integers(1, 20))
@settings(max_examples=40, deadline=None)
def test_calibration_error_is_the_mean_gap_of_probability_and_frequency(
    answers: list[tuple[float, bool]], bins: int
) -> None:
    distances = [
        abs(math.fsum(p for p, _ in some) - sum(true for _, true in some)) for some in binned(answers, bins)
    ]  # times the answers of the bin
    found = calibration_error(*arrays(answers), bins)
    assert found == pytest.approx(math.fsum(distances) / len(answers), abs=1e-12)
    assert 0 <= found <= 1


def test_calibration_of_an_example_worked_out_by_eye() -> None:
    likely, positive = np.array([0.1, 0.1, 0.9, 0.9, 0.7, 0.9]), np.array([False, True, True, True, False, False])
    first, second, third = reliability(likely, positive, 5)
    assert (first, second) == (Bin(count=2, said=0.1, true=0.5), Bin(count=1, said=0.7, true=0.0))
    assert (third.count, third.true) == (3, 2 / 3)
    assert third.said == pytest.approx(0.9)
    assert calibration_error(likely, positive, 5) == pytest.approx((2 * 0.4 + 1 * 0.7 + 3 * (0.9 - 2 / 3)) / 6)


def test_calibrated_answers_have_error_zero_and_certain_wrong_ones_one() -> None:
    likely = np.repeat([0.25, 0.75], 4)
    positive = np.array([True, False, False, False, True, True, True, False])
    assert calibration_error(likely, positive) == 0
    assert calibration_error(np.array([0.0, 1.0]), np.array([True, False])) == 1
    assert calibration_error(np.array([0.0, 1.0]), np.array([False, True])) == 0


# Temperature


@given(st.lists(LIKELY, min_size=1, max_size=30))
@settings(max_examples=40, deadline=None)
def test_a_temperature_of_one_changes_nothing(likely: list[float]) -> None:
    assert apply_temperature(np.array(likely), 1.0) == pytest.approx(np.array(likely), abs=1e-15)


@given(st.lists(LIKELY, min_size=2, max_size=30), st.floats(0.05, 20))
@settings(max_examples=40, deadline=None)
def test_temperature_keeps_order_and_side_and_moves_to_or_from_a_half(likely: list[float], temperature: float) -> None:
    before = np.sort(np.array(likely))
    after = apply_temperature(before, temperature)
    assert np.all((after >= 0) & (after <= 1))
    assert np.all(np.diff(after) >= 0)
    assert np.all((after - 0.5) * (before - 0.5) >= 0)
    closer = np.abs(after - 0.5) - np.abs(before - 0.5)
    assert np.all(closer <= 1e-12 if temperature >= 1 else closer >= -1e-12)


@pytest.mark.parametrize(("likely", "temperature"), [(0.9, 2.0), (0.2, 0.5), (0.6, 7.0)])
def test_a_temperature_divides_the_log_odds(likely: float, temperature: float) -> None:
    found = float(apply_temperature(np.array([likely]), temperature)[0])
    assert found == pytest.approx(1 / (1 + (likely / (1 - likely)) ** (-1 / temperature)))


@pytest.mark.parametrize("temperature", [0.05, 1.0, 20.0])
def test_certainty_gives_no_warning_and_no_nan(temperature: float) -> None:
    low, middle, high = apply_temperature(np.array([0.0, 0.5, 1.0]), temperature).tolist()
    assert 0 <= low < middle == 0.5 < high <= 1
    assert low == pytest.approx(1 - high)


@pytest.mark.parametrize("known", [1 / 3, 1.0, 3.0])
def test_a_temperature_that_is_known_is_found_again(known: float) -> None:
    rng = np.random.default_rng(1)
    odds = rng.normal(0, 2, 20_000)
    positive = rng.random(len(odds)) < 1 / (1 + np.exp(-odds))
    found = fit_temperature(1 / (1 + np.exp(-odds * known)), positive)
    assert found == pytest.approx(known, rel=0.05)


@given(ANSWERS)
@example([(0.0, True)])
@example([(0.0, False), (1.0, True)])
@example([(0.0, False), (1.0, True), (0.5, True)])
@example([(0.0, True), (1.0, False)])
@settings(max_examples=40, deadline=None)
def test_the_fitted_temperature_never_worsens_the_loss(answers: list[tuple[float, bool]]) -> None:
    likely, positive = arrays(answers)
    found = fit_temperature(likely, positive)
    assert math.exp(-3) <= found <= math.exp(3)
    assert loss_at(found, likely, positive) <= loss_at(1.0, likely, positive) + 1e-6


@pytest.mark.parametrize("wrong", [0, 1, 2, 3])
@pytest.mark.parametrize("seed", range(6))
def test_no_other_temperature_does_better_even_where_some_are_surely_wrong(seed: int, wrong: int) -> None:
    rng = np.random.default_rng(seed)
    odds = rng.normal(0, 1, 120)
    positive = rng.random(len(odds)) < 1 / (1 + np.exp(-5 * odds))
    likely = 1 / (1 + np.exp(-odds))
    likely[:wrong], positive[:wrong] = 0.0, True
    found = loss_at(fit_temperature(likely, positive), likely, positive)
    assert found <= min(loss_at(temperature, likely, positive) for temperature in TEMPERATURES) + 1e-6
