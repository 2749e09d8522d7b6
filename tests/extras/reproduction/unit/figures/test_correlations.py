"""Lines of a table against scipy and against rows that are really repeated; differences, shares and means over sets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from refusals import refusing
from scipy import stats

from refaug.core.errors import BadInput, Usage
from refaug.extras.reproduction.figures.correlations import MEAN, IntervalEstimate, Line, correlate
from refaug.extras.reproduction.material.rated_sets import ProofSet
from refaug.metrics.statistics.correlation import partial_spearman
from refaug.metrics.statistics.resampling import count_blocks
from refaug.scoring.items import item_of


def some_set(name: str, contexts: int = 12, seed: int = 0) -> ProofSet:
    """Three systems reply to every item, in so many words as it chances."""
    random = np.random.default_rng(seed)
    items: list[Any] = []
    for context in range(contexts):
        replies = {f"s{system}": " ".join(["w"] * int(random.integers(1, 6))) for system in range(3)}
        items.append(
            item_of(
                {
                    "id": f"{name}{context}",
                    "utterance": "u",
                    "references": [f"gold {context}"],
                    "replies": replies,
                    "ratings": {system: [int(random.integers(1, 6))] for system in replies},
                },
                fallback_id="x",
            )
        )
    return ProofSet.of(name, items)


def scores_for(sets: list[ProofSet], seeds: int, seed: int) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    return {
        one.name: one.ratings + np.round(random.normal(scale=2.0, size=(seeds, len(one.replies))), 1) for one in sets
    }


def test_a_line_is_the_mean_over_its_seeds_on_all_rows_and_in_every_draw() -> None:
    one = some_set("a")
    line = Line(name="x", scores=scores_for([one], 3, 1))

    found = correlate([one], [line], draws=25, seed=4)

    expected = np.mean([stats.spearmanr(row, one.ratings).statistic for row in line.scores["a"]])
    assert found.estimate("x", "spearman", "a").value == pytest.approx(expected)
    partial = np.mean([partial_spearman(row, one.ratings, one.lengths).value for row in line.scores["a"]])
    assert found.estimate("x", "partial-spearman", "a").value == pytest.approx(partial)
    [counts] = count_blocks(12, 25, [4, 0])
    drawn = [np.repeat(np.arange(36), counts[draw][one.item].astype(int)) for draw in range(25)]
    values = [
        np.mean([stats.pearsonr(row[rows], one.ratings[rows]).statistic for row in line.scores["a"]]) for rows in drawn
    ]
    np.testing.assert_allclose(found.drawn["pearson", "a"][0], values, atol=1e-9)
    low, high = np.quantile(values, [0.025, 0.975])
    figure = found.estimate("x", "pearson", "a")
    assert (figure.low, figure.high) == (pytest.approx(low), pytest.approx(high))


def test_differences_and_shares_are_taken_in_every_draw() -> None:
    sets = [some_set("a"), some_set("b", seed=1)]
    lines = [
        Line(name=name, scores=scores_for(sets, seeds, seed))
        for seed, (name, seeds) in enumerate([("x", 1), ("y", 2), ("z", 1)])
    ]

    found = correlate(sets, lines, draws=40)

    drawn = {name: np.mean([found.drawn["spearman", s][at] for s in "ab"], axis=0) for at, name in enumerate("xyz")}
    points = {name: np.mean([found.points["spearman", s][at] for s in "ab"]) for at, name in enumerate("xyz")}
    difference = found.difference("x", "y", "spearman")
    assert difference.value == pytest.approx(points["x"] - points["y"])
    assert difference.low == pytest.approx(np.quantile(drawn["x"] - drawn["y"], 0.025))
    both = found.weighted_sum({"x": 0.5, "y": 0.5, "z": -1.0}, "spearman")
    assert both.value == pytest.approx((points["x"] + points["y"]) / 2 - points["z"])
    share = found.ratio({"x": 1.0}, {"y": 1.0}, "spearman")
    assert share.value == pytest.approx(points["x"] / points["y"])
    assert found.scopes == ("a", "b", MEAN)


def test_a_share_of_no_gain_is_not_given() -> None:
    one = some_set("a")
    rated, noise = one.ratings[None], np.random.default_rng(3).normal(size=(1, 36))
    found = correlate([one], [Line(name="r", scores={"a": rated}), Line(name="n", scores={"a": noise})], draws=50)

    assert found.ratio({"r": 1}, {"n": 1, "r": -1}, "spearman") == IntervalEstimate(
        why="there is no gain that this could be a share of"
    )
    unsure = found.ratio({"r": 1}, {"n": 1}, "spearman")
    assert unsure.why in ("there is no gain that this could be a share of", "the gain itself is not sure")


def test_a_gain_is_sure_for_a_share_where_it_is_sure_for_a_claim() -> None:
    one = some_set("a")
    found = correlate([one], [Line(name="r", scores={"a": one.ratings[None]})], draws=100)
    gains = np.linspace(-0.04, 0.96, 100)  # 4 in 100 are not above 0: its interval holds 0
    found = replace(
        found, points={("spearman", "a"): np.array([0.5])}, drawn={("spearman", "a"): gains[None]}, sets=("a",)
    )

    assert found.estimate("r", "spearman", "a").low == pytest.approx(np.quantile(gains, 0.025))
    assert np.quantile(gains, 0.025) < 0 < np.quantile(gains, 0.05)
    assert found.ratio({"r": 1}, {"r": 1}, "spearman", "a") == IntervalEstimate(
        value=1, low=1, high=1, why="the gain itself is not sure"
    )


def test_rows_without_a_score_in_one_line_are_left_out_for_all() -> None:
    one = some_set("a")
    scores = scores_for([one], 1, 0)["a"]
    holey = scores.copy()
    holey[0, :5] = np.nan

    found = correlate([one], [Line(name="x", scores={"a": scores}), Line(name="y", scores={"a": holey})], draws=5)

    assert (found.rows["a"], found.left_out["a"], found.contexts["a"]) == (31, 5, 11)
    assert found.estimate("x", "spearman", "a").value == pytest.approx(
        stats.spearmanr(scores[0, 5:], one.ratings[5:])[0]
    )


def test_only_the_rows_asked_for_are_compared() -> None:
    one = some_set("a")
    line = Line(name="x", scores=scores_for([one], 1, 2))
    mask = one.rows_where(lambda row: row % 2 == 0)

    found = correlate([one], [line], rows={"a": mask}, draws=5)

    assert found.rows["a"] == 18
    assert found.estimate("x", "spearman", "a").value == pytest.approx(
        stats.spearmanr(line.scores["a"][0][::2], one.ratings[::2])[0]
    )
    with refusing(BadInput):
        correlate([one], [line], rows={"a": mask & False}, draws=5)


def test_names_are_told_apart_and_unknown_ones_refused() -> None:
    one = some_set("a")
    line = Line(name="x", scores=scores_for([one], 1, 2))

    with refusing(Usage):
        correlate([one], [line, line], draws=5)
    with refusing(Usage):
        correlate([one], [line], draws=5).estimate("y", "spearman", "a")


def test_a_figure_that_is_not_defined_says_why() -> None:
    one = some_set("a")
    flat = Line(name="flat", scores={"a": np.ones((1, 36))})

    found = correlate([one], [flat], draws=5).estimate("flat", "spearman", "a")

    assert found == IntervalEstimate(why="not defined on these rows")
    assert found.as_json() == {"why": "not defined on these rows"}
    assert IntervalEstimate(value=0.123456, low=-0.5, high=1.0).as_json() == {"value": 0.1235, "low": -0.5, "high": 1.0}
