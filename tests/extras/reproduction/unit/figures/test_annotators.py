"""People against people, and a metric against each of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from refaug.extras.reproduction.figures.annotators import (
    human_rows,
    human_table,
)
from refaug.extras.reproduction.material.rated_sets import ProofSet
from refaug.scoring.items import item_of

COLUMNS = 4


def rated_set(name: str, contexts: int, ratings_of: Sequence[Sequence[Sequence[float]]]) -> ProofSet:
    """A set in which the replies of context c have these ratings; no reply is a gold."""
    items = [
        item_of(
            {
                "id": f"c{number}",
                "utterance": "how are you",
                "references": ["fine thanks"],
                "replies": {f"s{place}": f"reply {number} {place}" for place in range(len(ratings_of[number]))},
                "ratings": {f"s{place}": list(given) for place, given in enumerate(ratings_of[number])},
            },
            fallback_id="",
        )
        for number in range(contexts)
    ]
    return ProofSet.of(name, items)


def noisy(contexts: int = 30, replies: int = 5, noise: float = 1.0, seed: int = 3) -> ProofSet:
    """Four annotators who see the same worth of a reply, each with noise of the same size."""
    random = np.random.default_rng(seed)
    worth = random.normal(size=(contexts, replies, 1))
    ratings = worth + noise * random.normal(size=(contexts, replies, COLUMNS))
    return rated_set("noisy", contexts, ratings.tolist())


def test_reliability_is_the_stepped_up_mean_over_all_halvings() -> None:
    one = noisy()
    [row] = human_rows([one], draws=40)

    halves = list(combinations(range(COLUMNS), 2))
    by_hand = [
        stats.spearmanr(one.by_annotator[:, half].mean(axis=1), np.delete(one.by_annotator, half, axis=1).mean(axis=1))
        for half in (list(half) for half in halves)
    ]
    mean = np.mean([found.statistic for found in by_hand])
    # Rows are halved independently of each other, which mixes the annotators: the mean is near, not equal.
    assert row.half.value == pytest.approx(mean, abs=0.02)
    assert row.spearman.value == pytest.approx(2 * row.half.value / (1 + row.half.value))
    assert (row.rows, row.annotators) == (150, COLUMNS)


def test_one_against_the_others_is_each_column_with_the_mean_of_the_rest() -> None:
    one = noisy(noise=2.0)
    [row] = human_rows([one], draws=40)

    by_hand = [
        stats.spearmanr(one.by_annotator[:, place], np.delete(one.by_annotator, place, axis=1).mean(axis=1)).statistic
        for place in range(COLUMNS)
    ]
    assert row.each == pytest.approx(by_hand)
    assert row.alone.value == pytest.approx(np.mean(by_hand))


def test_people_who_agree_more_have_a_higher_row_and_a_narrower_interval() -> None:
    steady, noisier = human_rows([noisy(noise=0.2), noisy(noise=3.0)], draws=60)
    assert steady.spearman.low is not None
    assert noisier.spearman.high is not None
    assert steady.spearman.low > noisier.spearman.high
    assert _width(steady.half) < _width(noisier.half)
    assert steady.half.low < steady.half.value < steady.half.high


def _width(figure: object) -> float:
    return figure.high - figure.low  # type: ignore[attr-defined, no-any-return]


def test_equal_calls_give_equal_rows() -> None:
    assert human_rows([noisy()], draws=20)[0].as_json() == human_rows([noisy()], draws=20)[0].as_json()


def test_rows_that_rate_the_gold_are_not_asked() -> None:
    item = {
        "id": "a",
        "utterance": "u",
        "references": ["the gold"],
        "replies": {"x": "The gold!", "y": "one", "z": "two", "w": "three"},
        "ratings": {"x": [5, 5], "y": [1, 2], "z": [2, 3], "w": [4, 4]},
    }
    one = ProofSet.of("small", [item_of(item, fallback_id="")])
    assert human_rows([one], draws=5)[0].rows == 3


def test_one_number_a_reply_is_a_named_gap() -> None:
    alone = rated_set("alone", 4, [[[1.0], [2.0], [3.0]]] * 4)
    [row] = human_rows([alone])
    assert row.why == "one number a reply"
    assert row.spearman.value is None
    assert row.as_json()["why"] == "one number a reply"

    table = human_table(human_rows([alone, noisy(contexts=6)], draws=40))
    assert table.rows[0][:4] == ["alone", "12", "1", "– (one number a reply)"]
    assert any(note == "alone: one number a reply, so there is no human row" for note in table.notes)
    assert table.rows[1][3].startswith(".")
