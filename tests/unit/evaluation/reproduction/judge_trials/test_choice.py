"""What is left of the best of several judges: intervals for all of them at once, and choices made elsewhere."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from proofs import tiny_set
from scipy import stats

from refaug.evaluation.reproduction.figures.correlations import Correlations, Line, correlate
from refaug.evaluation.reproduction.judge_trials.judge_lines import even_line
from refaug.evaluation.reproduction.judge_trials.judges import (
    BY_FOLDS,
    BY_GROUPS,
    choices_of,
    chosen_by_other_groups,
    differences_together,
)
from refaug.evaluation.reproduction.material.rated_sets import ProofSet
from refaug.metrics.statistics.correlation import partial_spearman


@pytest.fixture(scope="module")
def sets() -> list[ProofSet]:
    return [tiny_set("first", 1, items=40), tiny_set("second", 2, items=40)]


def noisy(sets: list[ProofSet], name: str, noise: dict[str, float], seed: int) -> Line:
    """The ratings with so much noise on each set."""
    random = np.random.default_rng(seed)
    return Line(
        name=name,
        scores={
            rated_set.name: (rated_set.ratings + noise[rated_set.name] * random.normal(size=len(rated_set.ratings)))[
                None
            ]
            for rated_set in sets
        },
    )


def test_intervals_for_all_at_once_are_those_of_the_largest_deviation(sets: list[ProofSet]) -> None:
    lines = [noisy(sets, f"l{number}", {"first": 2.0, "second": 2.0}, number) for number in range(4)]
    correlations = correlate(sets, lines, kinds=("spearman",), draws=300, seed=5)
    names = ["l1", "l2", "l3"]
    together = differences_together(correlations, names, "l0", "spearman")
    drawn = correlations.drawn["spearman", "mean"]
    gains = drawn[1:] - drawn[0]
    errors = gains.std(axis=1, ddof=1)
    deviations = sorted(
        max(abs(gains[line, draw] - gains[line].mean()) / errors[line] for line in range(3)) for draw in range(300)
    )
    for place, name in enumerate(names):
        alone = correlations.difference(name, "l0", "spearman")
        assert together[name].value == alone.value
        width = (together[name].high or 0) - (together[name].value or 0)
        assert width / errors[place] == pytest.approx(deviations[284], rel=0.02)  # 95 of a hundred draws are below
        assert (together[name].low or 0) < (alone.low or 0)
        assert (together[name].high or 0) > (alone.high or 0)


def test_a_single_comparison_is_hardly_widened(sets: list[ProofSet]) -> None:
    lines = [noisy(sets, f"l{number}", {"first": 2.0, "second": 2.0}, number) for number in range(2)]
    correlations = correlate(sets, lines, kinds=("spearman",), draws=2_000, seed=5)
    [(_, gain)] = differences_together(correlations, ["l1"], "l0", "spearman").items()
    alone = correlations.difference("l1", "l0", "spearman")
    assert (gain.low, gain.high) == (pytest.approx(alone.low, abs=0.02), pytest.approx(alone.high, abs=0.02))


def test_a_line_like_the_baseline_has_an_interval_of_nothing(sets: list[ProofSet]) -> None:
    line = noisy(sets, "l0", {"first": 1.0, "second": 1.0}, 1)
    correlations = correlate(sets, [line, replace(line, name="l1")], kinds=("spearman",), draws=50)
    assert differences_together(correlations, ["l1"], "l0", "spearman")["l1"].as_json() == {
        "value": 0.0,
        "low": 0.0,
        "high": 0.0,
    }


def test_what_is_not_defined_has_no_interval(sets: list[ProofSet]) -> None:
    line = noisy(sets, "l0", {"first": 1.0, "second": 1.0}, 1)
    flat = Line(name="flat", scores={name: np.zeros_like(scores) for name, scores in line.scores.items()})
    correlations: Correlations = correlate(sets, [line, flat], kinds=("spearman",), draws=50)
    gain = differences_together(correlations, ["flat"], "l0", "spearman")["flat"]
    assert (gain.low, gain.high, gain.why) == (None, None, "not defined")


def test_each_group_has_the_judge_that_is_best_on_the_other(sets: list[ProofSet]) -> None:
    at_first = noisy(sets, "good at first", {"first": 0.2, "second": 20.0}, 1)
    at_second = noisy(sets, "good at second", {"first": 20.0, "second": 0.2}, 2)
    choice = chosen_by_other_groups(sets, [at_first, at_second])
    assert choice.chosen == {"first": "good at second", "second": "good at first"}
    for rated_set, line in zip(sets, (at_second, at_first), strict=True):
        own, chosen = line.scores[rated_set.name][0], choice.line.scores[rated_set.name][0]
        assert stats.spearmanr(own, chosen).statistic == pytest.approx(1)
    by_folds = choices_of(sets, [at_first, at_second])[1]
    assert (choice.line.name, by_folds.line.name) == (BY_GROUPS, BY_FOLDS)
    best = max(
        (at_first, at_second),
        key=lambda line: np.mean(
            [partial_spearman(line.scores[s.name][0][s.fair], s.ratings[s.fair], s.lengths[s.fair]).value for s in sets]
        ),
    )
    assert best.name in by_folds.chosen.values()
    assert list(by_folds.chosen) == [f"fold {number}" for number in range(1, 6)]


def test_one_group_has_nothing_to_choose_on(sets: list[ProofSet]) -> None:
    assert choices_of(sets[:1], [noisy(sets[:1], "l", {"first": 1.0}, 1)]) == []


def test_equal_weights_ignore_ratings_and_length(sets: list[ProofSet]) -> None:
    parts = [noisy(sets, f"p{number}", {"first": 1.0, "second": 1.0}, number) for number in range(2)]
    line = even_line(sets, parts, "even", "why")
    random = np.random.default_rng(1)
    other_ratings = [replace(rated_set, ratings=random.permutation(rated_set.ratings)) for rated_set in sets]
    again = even_line(other_ratings, parts, "even", "why")
    for rated_set in sets:
        scores = line.scores[rated_set.name][0]
        np.testing.assert_allclose(scores, again.scores[rated_set.name][0])
        agreement = partial_spearman(scores, parts[0].scores[rated_set.name][0], rated_set.lengths)
        assert (agreement.value or 0) > 0.5
    single = even_line(
        sets[:1], [Line(name=part.name, scores={"first": part.scores["first"]}) for part in parts], "e", ""
    )
    assert np.isfinite(single.scores["first"]).all()
