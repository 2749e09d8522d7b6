"""Boosted judges: trees against an exhaustive search, scores by hand, held length, and their control."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import spearmanr

from refaug.core.errors import Corrupt
from refaug.evaluation.fitted_judge.fit import boosted_trees, fit_judge
from refaug.evaluation.fitted_judge.held_out import out_of_group_scores
from refaug.evaluation.fitted_judge.rated_table import RatedTable
from refaug.evaluation.metric_setup.combined.combination import CombinedJudge, FitSettings
from refaug.evaluation.metric_setup.combined.score_trees import ScoreTree

BOOSTING = FitSettings(method="boosting")
HELD = FitSettings(method="boosting", length="held")


def table_of(rows: int = 600, seed: int = 1) -> RatedTable:
    """Replies are good where two metrics are high together; a third is length, a fourth is noise."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((rows, 4))
    lengths = np.exp(values[:, 2] / 2) * 10
    ratings = 1.0 * ((values[:, 0] > 0) & (values[:, 1] > 0)) + 0.2 * values[:, 2] + 0.2 * rng.standard_normal(rows)
    sets = np.arange(rows) % 2
    return RatedTable(
        features=("first", "second", "long", "noise"),
        values=values,
        ratings=ratings,
        lengths=lengths,
        sets=sets,
        groups=sets,
        contexts=np.arange(rows) // 6,
    )


def best_first_question(design: np.ndarray, targets: np.ndarray) -> tuple[int, float, float]:
    """The metric and the threshold between two rows that leave the least squared error, ends of ten rows or more."""
    best = (0, 0.0, -np.inf)
    for feature in range(design.shape[1]):
        for threshold in np.unique(design[:, feature]).tolist():
            is_above = design[:, feature] > threshold
            if min(is_above.sum(), (~is_above).sum()) < 10:
                continue
            gain = targets.var() * len(targets) - sum(
                targets[side].var() * side.sum() for side in (is_above, ~is_above)
            )
            if gain > best[2] + 1e-12:
                best = (feature, threshold, float(gain))
    return best


def test_each_question_is_the_one_that_an_exhaustive_search_finds() -> None:
    # 32 distinct values, so that a threshold lies between any two of them
    rng = np.random.default_rng(4)
    design = rng.permuted(np.repeat(np.arange(32.0), 8)[:, None].repeat(3, axis=1), axis=0)
    targets = 2.0 * (design[:, 1] > 20) - (design[:, 2] > 9) * (design[:, 1] <= 20) + 0.1 * rng.standard_normal(256)
    targets = targets - targets.mean()
    [tree] = boosted_trees(design, targets, np.ones(256), 1)
    feature, threshold, gain = best_first_question(design, targets)
    assert (tree.features[0], tree.thresholds[0]) == (feature, threshold)
    assert tree.gains[0] == pytest.approx(gain)
    is_above = design[:, feature] > threshold
    for side, place in ((~is_above, 1), (is_above, 2)):
        feature, threshold, gain = best_first_question(design[side], targets[side])
        assert tree.gains[place] == pytest.approx(gain)
        assert (tree.features[place], tree.thresholds[place]) == (feature, threshold)
        for is_further, leaf in ((False, tree.leaves[2 * place - 2]), (True, tree.leaves[2 * place - 1])):
            rows = side & ((design[:, feature] > threshold) == is_further)
            assert leaf == pytest.approx(0.1 * targets[rows].mean())


def test_the_next_tree_is_fitted_to_what_is_left() -> None:
    table = table_of()
    weights = table.weights
    first, second = boosted_trees(table.values, table.targets, weights, 2)
    left = table.targets - np.average(table.targets, weights=weights) - first.score(table.values)
    [alone] = boosted_trees(table.values, left, weights, 1)
    assert alone.features == second.features
    assert alone.thresholds == second.thresholds
    np.testing.assert_allclose(alone.leaves, second.leaves, atol=0.1 * abs(np.average(left, weights=weights)) + 1e-12)


def test_nothing_is_asked_where_nothing_differs() -> None:
    assert boosted_trees(np.zeros((100, 2)), np.arange(100.0), np.ones(100), 5) == ()
    assert boosted_trees(np.arange(15.0)[:, None], np.arange(15.0), np.ones(15), 5) == ()  # no end of ten rows


@pytest.mark.parametrize(
    ("row", "expected"), list(zip(itertools.product((0.0, 1.0), repeat=2), (1.0, 2.0, 3.0, 4.0), strict=True))
)
def test_a_tree_adds_the_number_of_its_end(row: tuple[float, float], expected: float) -> None:
    tree = ScoreTree(features=(0, 1, 1), thresholds=(0.5, 0.5, 0.5), leaves=(1.0, 2.0, 3.0, 4.0), gains=(1.0, 1.0, 1.0))
    assert tree.score(np.array([row])).tolist() == [expected]


def test_metrics_that_count_together_are_found_and_weights_do_not_find_them() -> None:
    table, others = table_of(), table_of(seed=2)
    boosted, linear = (
        spearmanr(fit_judge(table, settings).score(others.values, others.lengths), others.ratings).statistic
        for settings in (BOOSTING, FitSettings())
    )
    assert boosted > linear + 0.05
    shares = dict(zip(table.features, fit_judge(table, BOOSTING).shares, strict=True))
    assert sum(shares.values()) == pytest.approx(1)
    assert shares["noise"] < 0.1 < min(shares["first"], shares["second"])


def test_a_held_length_has_no_linear_effect() -> None:
    table = table_of()
    lengths = fit_judge(table, HELD).length_scale.apply(table.lengths)
    effects = [
        np.cov(fit_judge(table, settings).score(table.values, table.lengths), lengths, aweights=table.weights)[0, 1]
        for settings in (BOOSTING, HELD)
    ]
    assert abs(effects[0]) > 0.01
    assert effects[1] == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("settings", [BOOSTING, HELD])
def test_a_saved_judge_scores_the_same_within_its_limits(settings: FitSettings) -> None:
    table = table_of()
    judge = fit_judge(table, settings)
    again = CombinedJudge.read(json.loads(json.dumps(judge.as_json())), "judge.json")
    assert again == judge
    rng = np.random.default_rng(2)
    values, lengths = rng.normal(scale=1e3, size=(500, 4)), rng.integers(1, 1_000, 500).astype(np.float64)
    scores = again.score(values, lengths)
    np.testing.assert_array_equal(scores, judge.score(values, lengths))
    low, high = judge.limits
    assert low <= scores.min()
    assert scores.max() <= high
    values[3, 1] = np.nan
    assert np.flatnonzero(np.isnan(judge.score(values, lengths))).tolist() == [3]


def test_a_judge_of_weights_is_saved_without_a_word_of_trees() -> None:
    assert not {"trees", "length_weight"} & fit_judge(table_of()).as_json().keys()


@pytest.mark.parametrize(
    "change",
    [
        {"features": [0, 1]},
        {"features": [0, 1, 4]},
        {"features": [0, 1, -1]},
        {"thresholds": [0.0, float("nan"), 1.0]},
        {"leaves": [1.0, 2.0]},
        {"leaves": ["x", 1.0, 2.0, 3.0]},
    ],
)
def test_altered_trees_are_corrupt(change: dict[str, object]) -> None:
    saved = fit_judge(table_of(), BOOSTING).as_json()
    saved["trees"][0] |= change
    with pytest.raises(Corrupt, match=r"judge\.json"):
        CombinedJudge.read(saved, "judge.json")


def test_the_number_of_trees_is_chosen_without_the_group_that_is_scored() -> None:
    table = table_of()
    expected = fit_judge(table.select(np.flatnonzero(table.groups == 0)), BOOSTING).score(table.values, table.lengths)
    scores = out_of_group_scores(table, BOOSTING)
    np.testing.assert_array_equal(scores[table.groups == 1], expected[table.groups == 1])
    other = replace(table, ratings=np.where(table.groups == 1, table.ratings[::-1], table.ratings))
    np.testing.assert_array_equal(out_of_group_scores(other, BOOSTING)[table.groups == 1], scores[table.groups == 1])
