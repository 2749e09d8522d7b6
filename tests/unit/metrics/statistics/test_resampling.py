"""Resampling sums: against plain loops over the same draws, enumeration of all swaps, and sacrebleu."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import asdict

import numpy as np
import pytest
import sacrebleu.significance
from drawn_rows import resample_counts
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refusing

import refaug.metrics.statistics.resampling
from refaug.core.errors import BadInput, Usage
from refaug.core.kernels.kernel import PlainBudget
from refaug.metrics.statistics.resampling import (
    Floats,
    approximate_randomisation,
    bootstrap,
    count_blocks,
    paired_bootstrap,
    percentile_interval,
    swap_blocks,
    swapped_deltas,
)


def f_score(sums: Floats) -> Floats:
    """Harmonic mean of precision and recall: not additive, so that sums of scores would not do."""
    return 2 * sums[..., 0] / (sums[..., 1] + sums[..., 2])


def some_statistics(rows: int = 40, systems: int = 3, seed: int = 5) -> dict[str, Floats]:
    random = np.random.default_rng(seed)
    matched = random.integers(0, 6, (systems, rows))
    lengths = matched + random.integers(1, 5, (systems, rows))
    references = np.broadcast_to(random.integers(3, 9, rows), (systems, rows))
    tables = np.stack([matched, lengths, references], axis=-1).astype(np.float64)
    return {f"system-{s}": table for s, table in enumerate(tables)}


def with_gaps(table: Floats, *rows: int) -> Floats:
    table = table.copy()
    table[list(rows)] = np.nan
    return table


# Draws


@pytest.mark.parametrize("steps", [0, 10**9])
def test_draws_are_counted_alike_with_and_without_the_compiler(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    class Budget(PlainBudget):
        def spend(self, count_steps: Callable[[], int]) -> bool:
            return count_steps() <= self.steps

    monkeypatch.setattr(refaug.metrics.statistics.resampling, "PLAIN_BUDGET", Budget(steps - 1))
    (counts,) = count_blocks(5_000, 60, seed=3)
    drawn = np.random.Generator(np.random.PCG64(3)).integers(0, 5_000, size=(60, 5_000))
    assert counts.tolist() == [np.bincount(rows, minlength=5_000).tolist() for rows in drawn]


def test_every_draw_has_as_many_rows_as_there_are() -> None:
    counts = resample_counts(17, 300, seed=1)
    assert counts.shape == (300, 17)
    assert (counts.sum(axis=1) == 17).all()
    assert counts.mean(axis=0) == pytest.approx(np.ones(17), abs=0.25)
    assert counts.var() == pytest.approx(1 - 1 / 17, abs=0.05)  # binomial with 17 trials of 1/17


def test_draws_depend_on_the_seed_and_not_on_the_size_of_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, swaps = resample_counts(13, 50, seed=3), np.concatenate(list(swap_blocks(70, 50, seed=3)))
    monkeypatch.setattr(refaug.metrics.statistics.resampling, "_BLOCK_BYTES", 13 * 8 * 7)
    assert np.array_equal(resample_counts(13, 50, seed=3), whole)
    assert np.array_equal(np.concatenate(list(swap_blocks(70, 50, seed=3))), swaps)
    assert not np.array_equal(resample_counts(13, 50, seed=4), whole)


def test_half_of_the_rows_are_swapped_on_average() -> None:
    swaps = np.concatenate(list(swap_blocks(100, 1000, seed=0)))
    assert swaps.shape == (1000, 100)
    assert set(np.unique(swaps)) == {0.0, 1.0}
    assert swaps.mean(axis=0) == pytest.approx(np.full(100, 0.5), abs=0.07)


# Intervals


def plain_draws(table: Floats, draws: int, seed: int) -> Floats:
    """Scores of the same draws, from rows that are really repeated."""
    scores = []
    for counts in resample_counts(len(table), draws, seed):
        rows = [table[i] for i in range(len(table)) for _ in range(int(counts[i]))]
        scores.append(f_score(np.sum(rows, axis=0)))
    return np.array(scores)


def test_the_bootstrap_is_a_plain_loop_over_the_same_draws() -> None:
    statistics = some_statistics()
    results = bootstrap(statistics, f_score, draws=200, seed=9, level=0.9)
    assert list(results) == list(statistics)
    for name, table in statistics.items():
        drawn = plain_draws(table, 200, 9)
        score = results[name].score
        assert score.value == pytest.approx(f_score(table.sum(axis=0)), abs=1e-12)
        assert score.mean == pytest.approx(drawn.mean(), abs=1e-12)
        assert (score.low, score.high) == pytest.approx(np.percentile(drawn, [5, 95]), abs=1e-12)
        assert (results[name].replies, results[name].left_out, score.undefined, score.why) == (40, 0, 0, None)


def test_the_interval_of_a_mean_is_near_that_of_theory() -> None:
    values = np.random.default_rng(0).normal(size=2000)
    table = np.stack([values, np.ones(2000)], axis=1)
    score = bootstrap({"a": table}, lambda sums: sums[..., 0] / sums[..., 1], draws=2000)["a"].score
    half_width = 1.96 * values.std() / np.sqrt(2000)
    assert score.low == pytest.approx(values.mean() - half_width, abs=0.004)
    assert score.high == pytest.approx(values.mean() + half_width, abs=0.004)


def test_clusters_are_drawn_whole() -> None:
    table = some_statistics(rows=6, systems=1)["system-0"]
    clusters = np.array(["b", "a", "b", "c", "c", "b"])
    summed = np.stack([table[clusters == name].sum(axis=0) for name in "abc"])
    by_cluster = bootstrap({"s": table}, f_score, draws=50, clusters=clusters)["s"].score
    assert by_cluster == bootstrap({"s": summed}, f_score, draws=50)["s"].score


def test_a_reply_without_a_score_adds_nothing_to_its_system_alone() -> None:
    statistics = some_statistics()
    gappy = {**statistics, "system-1": with_gaps(statistics["system-1"], 0, 7)}
    results, without_gaps = bootstrap(gappy, f_score, draws=100), bootstrap(statistics, f_score, draws=100)
    assert results["system-0"] == without_gaps["system-0"]
    assert results["system-1"].replies == 38
    assert results["system-1"].left_out == 2
    zeroed = np.nan_to_num(gappy["system-1"])
    assert results["system-1"].score == bootstrap({"s": zeroed}, f_score, draws=100)["s"].score


def test_draws_without_a_score_are_counted() -> None:
    table = np.full((3, 3), np.nan)
    table[:2] = [[1, 2, 2], [2, 2, 2]]
    score = bootstrap({"s": table}, f_score, draws=500, seed=2)["s"].score
    counts = resample_counts(3, 500, seed=2)
    assert score.undefined == np.count_nonzero(counts[:, 2] == 3) > 0
    assert score.low is not None


@pytest.mark.parametrize(
    ("table", "value", "why"),
    [
        (np.full((3, 3), np.nan), None, "no reply has a score"),
        (np.empty((0, 3)), None, "no reply has a score"),
        (np.zeros((3, 3)), None, "the score is not defined on these replies"),
        (np.array([[1.0, 2, 2]]), 0.5, "fewer than 2 independent replies"),
        (with_gaps(np.array([[1.0, 2, 2], [1, 1, 1]]), 1), 0.5, "fewer than 2 independent replies"),
    ],
)
def test_what_is_not_defined_has_a_reason(table: Floats, value: float | None, why: str) -> None:
    score = bootstrap({"s": table}, f_score, draws=20)["s"].score
    assert (score.value, score.low, score.high, score.mean, score.why) == (value, None, None, None, why)
    for test in (paired_bootstrap, approximate_randomisation):
        paired = test({"a": table, "b": table}, f_score, "a")["b"].difference
        assert (paired.value, paired.p, paired.why) == (None if value is None else 0.0, None, why)


def test_replies_of_one_cluster_are_not_independent() -> None:
    table = some_statistics(rows=5, systems=1)["system-0"]
    score = bootstrap({"s": table}, f_score, clusters=np.zeros(5))["s"].score
    assert score.value is not None
    assert score.why == "fewer than 2 independent replies"


# Paired tests


def test_the_paired_bootstrap_is_a_plain_loop_with_the_p_of_sacrebleu() -> None:
    statistics = some_statistics()
    results = paired_bootstrap(statistics, f_score, "system-1", draws=300, seed=4)
    assert list(results) == ["system-0", "system-2"]
    baseline = plain_draws(statistics["system-1"], 300, 4)
    for name, result in results.items():
        deltas = plain_draws(statistics[name], 300, 4) - baseline
        difference = f_score(statistics[name].sum(axis=0)) - f_score(statistics["system-1"].sum(axis=0))
        p = sacrebleu.significance._compute_p_value(np.abs(deltas - deltas.mean()), abs(difference))
        assert result.difference.value == pytest.approx(difference, abs=1e-12)
        assert result.difference.p == pytest.approx(p, abs=1e-12)
        assert result.difference.low == pytest.approx(np.percentile(deltas, 2.5), abs=1e-12)
        assert result.difference.high == pytest.approx(np.percentile(deltas, 97.5), abs=1e-12)
        assert result.value - result.baseline == pytest.approx(difference, abs=1e-12)


def enumerated_p(a: Floats, b: Floats) -> tuple[float, Floats]:
    """The share of all swaps that make a difference as large as the real one, and all the differences."""
    deltas = []
    for swap in itertools.product([False, True], repeat=len(a)):
        rows = np.array(swap)[:, None]
        deltas.append(f_score(np.where(rows, a, b).sum(axis=0)) - f_score(np.where(rows, b, a).sum(axis=0)))
    real = deltas[0]
    return float(np.mean(np.abs(deltas) >= abs(real) - 1e-12)), np.array(deltas)


@pytest.mark.parametrize("seed", range(4))
def test_randomisation_comes_near_the_enumeration_of_all_swaps(seed: int) -> None:
    statistics = some_statistics(rows=9, systems=2, seed=seed)
    a, b = statistics.values()
    exact, deltas = enumerated_p(a, b)
    swaps = np.array(list(itertools.product([0.0, 1.0], repeat=9)))
    ours = swapped_deltas(np.stack([a, b], axis=1), swaps, f_score)
    assert ours[:, 0] == pytest.approx(deltas, abs=1e-12)
    result = approximate_randomisation(statistics, f_score, "system-0", trials=20_000, seed=seed)["system-1"]
    assert result.difference.p == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 20_000) + 1e-4)
    assert result.difference.value == pytest.approx(deltas[0], abs=1e-12)
    assert (result.difference.low, result.difference.high, result.difference.mean) == (None, None, None)


def test_a_system_does_not_differ_from_itself() -> None:
    table = some_statistics(systems=1)["system-0"]
    for test in (paired_bootstrap, approximate_randomisation):
        result = test({"a": table, "b": table.copy()}, f_score, "a")["b"].difference
        assert (result.value, result.p) == (0.0, 1.0)


def test_a_clear_difference_has_the_smallest_p_there_is() -> None:
    table = some_statistics(rows=60, systems=1)["system-0"] + 1
    statistics = {"good": table, "bad": table - [1, 0, 0]}
    assert paired_bootstrap(statistics, f_score, "bad", draws=999)["good"].difference.p == 1 / 1000
    result = approximate_randomisation(statistics, f_score, "good", trials=999)["bad"]
    assert result.difference.p == 1 / 1000
    assert result.difference.value < 0


@pytest.mark.parametrize("test", [paired_bootstrap, approximate_randomisation])
def test_paired_tests_leave_out_what_only_one_of_two_systems_has(test) -> None:
    statistics = some_statistics()
    gappy = {
        "system-0": with_gaps(statistics["system-0"], 3),
        "system-1": with_gaps(statistics["system-1"], 3, 8, 9),
        "system-2": statistics["system-2"],
    }
    results = test(gappy, f_score, "system-0")
    for name, left_out in {"system-1": [3, 8, 9], "system-2": [3]}.items():
        kept = {other: np.delete(statistics[other], left_out, axis=0) for other in ("system-0", name)}
        alone = test(kept, f_score, "system-0")[name]
        assert results[name].difference == alone.difference
        assert (results[name].replies, results[name].left_out) == (40 - len(left_out), len(left_out))


def test_clusters_are_swapped_whole() -> None:
    statistics = some_statistics(rows=6, systems=2)
    clusters = np.array([4, 1, 4, 2, 2, 4])
    summed = {n: np.stack([t[clusters == c].sum(axis=0) for c in (1, 2, 4)]) for n, t in statistics.items()}
    for test in (paired_bootstrap, approximate_randomisation):
        by_cluster = test(statistics, f_score, "system-0", clusters=clusters)["system-1"]
        assert by_cluster.difference == test(summed, f_score, "system-0")["system-1"].difference


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 30))
def test_every_p_is_a_probability_above_zero_and_intervals_are_in_order(seed: int, rows: int) -> None:
    statistics = some_statistics(rows=rows, systems=2, seed=seed)
    for test, settings_ in ((paired_bootstrap, {"draws": 50}), (approximate_randomisation, {"trials": 50})):
        result = test(statistics, f_score, "system-0", seed=seed, **settings_)["system-1"]
        assert 0 < result.difference.p <= 1
    score = bootstrap(statistics, f_score, draws=50, seed=seed)["system-1"].score
    assert score.low <= score.mean + 1e-12  # a mean of equal numbers may end a bit below them
    assert score.mean - 1e-12 <= score.high


def test_the_same_seed_gives_the_same_result_and_it_is_plain_json() -> None:
    statistics = some_statistics()
    for result in (bootstrap, lambda s, v, **k: paired_bootstrap(s, v, "system-0", **k)):
        first, second, other = (result(statistics, f_score, draws=50, seed=seed) for seed in (1, 1, 2))
        assert first == second != other
        assert json.loads(json.dumps({name: asdict(record) for name, record in first.items()}))


def test_percentiles_are_symmetric() -> None:
    assert percentile_interval(np.arange(101.0), 0.9) == pytest.approx((5, 95))


# Refusals


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"draws": 0}, "0 draws are none"),
        ({"seed": -1}, "the seed cannot be -1"),
        ({"level": 1.0}, "1.0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, float], message: str) -> None:
    with refusing(Usage, message):
        bootstrap(some_statistics(), f_score, **wrong)


def test_input_that_does_not_fit_together_is_refused() -> None:
    statistics = some_statistics()
    with refusing(Usage, "system-9"):
        paired_bootstrap(statistics, f_score, "system-9")
    with refusing(BadInput, "system-1", "system-0"):
        bootstrap({**statistics, "system-1": statistics["system-1"][1:]}, f_score)
    with refusing(BadInput):
        bootstrap(statistics, f_score, clusters=np.zeros(3))
    with refusing(BadInput):
        bootstrap({}, f_score)
    with refusing(BadInput, "system-0"):
        bootstrap({"system-0": np.array([[1.0, 1], [np.nan, 1], [np.inf, 1]])}, f_score)
    with refusing(Usage):
        resample_counts(0, 10, seed=0)


def test_draws_without_scored_replies_do_not_widen_the_interval() -> None:
    """A system that answers few items: sums of nothing are 0, and a score of 0 for nothing would widen the interval."""
    table = np.full((40, 2), np.nan)
    table[:2] = [[0.7, 1.0], [0.8, 1.0]]
    found = bootstrap({"few": table}, lambda sums: np.where(sums[..., 1] > 0, sums[..., 0] / 2 + 0.1, 0.0), draws=500)
    assert found["few"].score.undefined > 0
    assert found["few"].score.low is not None
    assert found["few"].score.low > 0.4


@pytest.mark.parametrize(("n", "draws"), [(7, 30), (50_021, 12)])  # drawn all at once, and a few at a time
def test_draws_are_those_of_one_generator_however_few_are_drawn_at_once(n: int, draws: int) -> None:
    drawn = np.random.Generator(np.random.PCG64(5)).integers(0, n, size=(draws, n))
    expected = np.stack([np.bincount(rows, minlength=n) for rows in drawn])
    assert np.array_equal(resample_counts(n, draws, 5), expected)
