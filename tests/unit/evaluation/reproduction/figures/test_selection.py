"""Choosing out of fold: no rating of a row has a say in how the row is scored."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from refaug.evaluation.reproduction.figures.correlations import Line
from refaug.evaluation.reproduction.figures.selection import fold_of, select
from refaug.evaluation.reproduction.material.rated_sets import ProofSet
from refaug.evaluation.scoring.items import item_of
from refaug.metrics.statistics.correlation import partial_spearman


def some_set(name: str, contexts: int = 40, seed: int = 0) -> ProofSet:
    random = np.random.default_rng(seed)
    items: list[Any] = []
    for context in range(contexts):
        replies = {f"s{system}": " ".join(["w"] * int(random.integers(1, 9))) for system in range(4)}
        ratings = {system: [float(random.normal())] for system in replies}
        values = {
            "id": f"{name}{context}",
            "utterance": "u",
            "references": ["g"],
            "replies": replies,
            "ratings": ratings,
        }
        items.append(item_of(values, fallback_id="x"))
    return ProofSet.of(name, items)


def line(name: str, sets: list[ProofSet], noise: float, seed: int) -> Line:
    random = np.random.default_rng(seed)
    return Line(
        name=name,
        scores={one.name: (one.ratings + noise * random.normal(size=len(one.replies)))[None] for one in sets},
    )


def test_folds_hold_whole_contexts_and_stay_what_they_are() -> None:
    one, fewer = some_set("a"), some_set("a", contexts=10)

    folds = fold_of(one)

    assert set(folds.tolist()) == {0, 1, 2, 3, 4}
    for item in range(40):
        assert len(set(folds[one.item == item].tolist())) == 1
    assert fold_of(fewer).tolist() == folds[:40].tolist()


def test_what_is_plainly_best_is_chosen_everywhere_and_its_ranks_are_kept() -> None:
    sets = [some_set("a"), some_set("b", seed=1)]
    lines = [line("noisy", sets, 9.0, 1), line("good", sets, 0.3, 2), line("worse", sets, 3.0, 3)]

    found = select(sets, lines, "ours")

    assert found.by_fold == ("good",) * 5
    assert found.on_all == "good"
    assert found.tried == 3
    assert list(found.in_fold) == ["noisy", "good", "worse"]
    for one in sets:
        order = np.argsort(np.argsort(lines[1].scores[one.name][0]))
        np.testing.assert_allclose(found.line.scores[one.name][0], order / (len(order) - 1))


def test_ratings_of_a_fold_do_not_decide_over_it() -> None:
    one = some_set("a")
    lines = [line(name, [one], 4.0, seed) for seed, name in enumerate("abcdef")]
    before = select([one], lines, "ours")

    for fold in range(5):
        here = fold_of(one) == fold
        ratings = one.ratings.copy()
        ratings[here] = np.random.default_rng(fold).permutation(ratings[here]) * -3
        changed = ProofSet(**{**one.__dict__, "ratings": ratings})
        after = select([changed], lines, "ours")
        assert after.by_fold[fold] == before.by_fold[fold]
        np.testing.assert_array_equal(after.line.scores["a"][0][here], before.line.scores["a"][0][here])


def test_on_pure_noise_the_in_fold_figure_exceeds_the_out_of_fold_one() -> None:
    careless, honest = [], []
    for seed in range(10):
        one = some_set("a", contexts=150, seed=seed)
        random = np.random.default_rng(100 + seed)
        lines = [Line(name=str(at), scores={"a": random.normal(size=(1, len(one.replies)))}) for at in range(20)]
        found = select([one], lines, "ours")
        careless.append(max(found.in_fold.values()))
        honest.append(partial_spearman(found.line.scores["a"][0], one.ratings, one.lengths).value)
    assert np.mean(careless) > 0.06
    assert abs(np.mean(honest)) < 0.04


def test_choices_are_applied_to_other_scores_in_the_same_folds() -> None:
    one = some_set("a")
    lines = [line(name, [one], 4.0, seed) for seed, name in enumerate("abc")]
    found = select([one], lines, "ours")

    same = found.apply_to([one], {name: next(one for one in lines if one.name == name) for name in found.by_fold})

    np.testing.assert_array_equal(same.scores["a"], found.line.scores["a"])
    assert found.as_json()["tried"] == 3
    assert sum(found.as_json()["chosen"].values()) == 5


def test_a_line_without_scores_is_worth_nothing() -> None:
    one = some_set("a")
    silent = Line(name="silent", scores={"a": np.full((1, len(one.replies)), np.nan)})

    assert select([one], [silent, line("x", [one], 5.0, 1)], "ours").by_fold == ("x",) * 5
    assert select([one], [silent, line("x", [one], 5.0, 1)], "ours").in_fold["silent"] == pytest.approx(-1)
