"""Fitted judges: weights against closed forms, length that is held, folds that part no context."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from refusals import refusing
from scipy.stats import norm, rankdata, spearmanr

from refaug.core.errors import BadInput, Corrupt, Usage
from refaug.extras.judges.combined import CombinedJudge, FitSettings, NormalScale
from refaug.extras.judges.fitted.training import (
    RatedTable,
    context_folds,
    fit_judge,
    out_of_fold_scores,
    out_of_group_scores,
    shuffled_within_sets,
)


def table_of(rows: int = 240, seed: int = 1, *, length_effect: float = 0.0) -> RatedTable:
    """Two groups of two sets and one; the first metric is rated, the second is noise, the third is length."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((rows, 3))
    lengths = np.exp(values[:, 2] / 2) * 10
    ratings = values[:, 0] + length_effect * values[:, 2] + 0.5 * rng.standard_normal(rows)
    sets = np.arange(rows) % 3
    return RatedTable(
        features=("good", "noise", "long"),
        values=values,
        ratings=ratings * (1 + sets),
        lengths=lengths,
        sets=sets,
        groups=(sets > 1).astype(np.int64),
        contexts=np.arange(rows) // 6,
    )


def test_ridge_is_the_closed_form_on_normal_scores() -> None:
    table = replace(table_of(), sets=np.zeros(240, np.int64), groups=np.zeros(240, np.int64))
    judge = fit_judge(table)
    scores = np.stack([norm.ppf((rankdata(column) - 0.5) / 240) for column in table.values.T], axis=1)
    targets = norm.ppf((rankdata(table.ratings) - 0.5) / 240)
    stacked = np.vstack([scores, np.sqrt(judge.penalty * 240) * np.eye(3)])
    expected = np.linalg.lstsq(stacked, np.concatenate([targets, np.zeros(3)]), rcond=None)[0]
    np.testing.assert_allclose(judge.coefficients, expected, atol=0.01)  # between knots a scale is linear
    assert judge.coefficients[0] > 5 * abs(judge.coefficients[1])


def test_a_scale_gives_mean_ranks_and_is_flat_beyond_its_ends() -> None:
    scale = NormalScale.of(np.array([3.0, 1.0, 1.0, 2.0]))
    expected = norm.ppf([1 / 4, 2.5 / 4, 3.5 / 4])
    np.testing.assert_allclose(scale.apply(np.array([1.0, 2.0, 3.0, 0.0, 9.0])), [*expected, expected[0], expected[2]])
    assert scale.apply(np.array([1.5])) == pytest.approx(expected[:2].mean())
    assert np.isnan(scale.apply(np.array([np.nan])))


def test_a_held_length_has_no_linear_effect() -> None:
    table = table_of(length_effect=2.0)
    free, held = fit_judge(table), fit_judge(table, FitSettings(length="held"))
    lengths = NormalScale.of(table.lengths).apply(table.lengths)
    effects = [
        np.cov(judge.score(table.values, table.lengths), lengths, aweights=table.weights)[0, 1]
        for judge in (free, held)
    ]
    assert abs(effects[0]) > 0.3
    assert effects[1] == pytest.approx(0, abs=1e-6)


def test_each_group_counts_the_same_whatever_its_size() -> None:
    weights, table = table_of().weights, table_of()
    sums = [weights[table.sets == number].sum() for number in range(3)]
    assert sums == pytest.approx([60, 60, 120])


def test_no_context_is_in_two_folds() -> None:
    contexts = np.repeat(np.arange(50), 4)
    folds = context_folds(contexts, 1)
    assert sorted(set(folds.tolist())) == [0, 1, 2, 3, 4]
    assert all(len(set(folds[contexts == context].tolist())) == 1 for context in range(50))


def test_rows_are_scored_by_judges_of_other_groups() -> None:
    table = table_of()
    expected = fit_judge(table.select(np.flatnonzero(table.groups == 0))).score(table.values, table.lengths)
    scores = out_of_group_scores(table)
    np.testing.assert_array_equal(scores[table.groups == 1], expected[table.groups == 1])
    assert spearmanr(scores, table.targets).statistic > 0.7
    assert spearmanr(out_of_fold_scores(table), table.targets).statistic > 0.7


def test_shuffled_ratings_leave_nothing_to_learn() -> None:
    table = table_of()
    shuffled = shuffled_within_sets(table, 3)
    assert sorted(shuffled.ratings[table.sets == 1]) == sorted(table.ratings[table.sets == 1])
    assert abs(spearmanr(out_of_group_scores(shuffled), table.targets).statistic) < 0.75
    assert np.abs(fit_judge(shuffled).coefficients).max() < 0.3


def test_a_saved_judge_scores_the_same() -> None:
    table = table_of()
    judge = fit_judge(table, FitSettings(length="held"))
    again = CombinedJudge.read(json.loads(json.dumps(judge.as_json())), "judge.json")
    assert again == judge
    np.testing.assert_array_equal(again.score(table.values, table.lengths), judge.score(table.values, table.lengths))


@pytest.mark.parametrize("change", [{"coefficients": [1.0]}, {"penalty": "x"}, {"scales": []}, {"settings": {"a": 1}}])
def test_altered_judges_are_corrupt(change: dict[str, object]) -> None:
    with refusing(Corrupt, "judge.json"):
        CombinedJudge.read({**fit_judge(table_of()).as_json(), **change}, "judge.json")


def test_equal_weights_do_not_depend_on_ratings_and_hold_length() -> None:
    table, settings = table_of(), FitSettings(method="equal", length="held")
    judge = fit_judge(table, settings)
    assert judge.coefficients == (1 / len(table.features),) * len(table.features)
    other = fit_judge(replace(table, ratings=table.ratings[::-1].copy()), settings)
    np.testing.assert_array_equal(other.score(table.values, table.lengths), judge.score(table.values, table.lengths))
    lengths = judge.length_scale.apply(table.lengths)
    slope = np.polyfit(lengths, judge.score(table.values, table.lengths), 1, w=np.sqrt(table.weights))[0]
    assert slope == pytest.approx(0, abs=1e-9)


def test_no_reply_scores_beyond_the_limits() -> None:
    table = table_of()
    judge = fit_judge(table, FitSettings(length="held"))
    low, high = judge.limits
    rng = np.random.default_rng(2)
    values = rng.normal(scale=1e3, size=(500, len(table.features)))
    scores = judge.score(values, rng.integers(1, 1_000, 500).astype(np.float64))
    assert low <= scores.min()
    assert scores.max() <= high


def test_tables_without_enough_to_fit_are_refused() -> None:
    with refusing(BadInput):
        fit_judge(table_of().select(np.arange(40)))
    with refusing(BadInput):
        fit_judge(replace(table_of(), ratings=np.ones(240)))
    single = replace(table_of(), contexts=np.zeros(240, np.int64))
    with refusing(BadInput, "240"):
        fit_judge(single)
    assert fit_judge(single, FitSettings(method="equal")).coefficients == (1 / 3,) * 3
    with refusing(Usage, "ridge"):
        FitSettings(method="forest")  # type: ignore[arg-type]
