"""Balancing of lengths, in the form of the paper and in that of the released code."""

from __future__ import annotations

from collections import Counter

import numpy as np
from refusals import refusing

from refaug.core.errors import BadInput
from refaug.rater.adem.scorer.settings import Balance, balance_rows


def _replies(lengths: list[int]) -> tuple[str, ...]:
    return tuple(" ".join(["word"] * length) for length in lengths)


def _skewed(rows: int = 600) -> tuple[tuple[str, ...], np.ndarray]:
    """Short replies are rated high, but every rating is in every third of the lengths."""
    rng = np.random.default_rng(1)
    lengths = rng.choice([2, 8, 14], rows)
    shares = {2: (0.1, 0.1, 0.1, 0.2, 0.5), 8: (0.2,) * 5, 14: (0.5, 0.2, 0.1, 0.1, 0.1)}
    ratings = np.array([rng.choice([1.0, 2, 3, 4, 5], p=shares[length]) for length in lengths.tolist()])
    return _replies(lengths.tolist()), ratings


def test_paper_makes_ratings_of_a_bin_equally_frequent_unless_capped() -> None:
    replies, ratings = _skewed()
    balanced = balance_rows(replies, ratings, Balance.PAPER)
    cells = Counter(zip(balanced.bins[balanced.rows].tolist(), balanced.levels[balanced.rows].tolist(), strict=True))
    originals = Counter(zip(balanced.bins.tolist(), balanced.levels.tolist(), strict=True))
    for number in set(balanced.bins.tolist()):
        target = max(count for (owner, _), count in originals.items() if owner == number)
        for (owner, level), count in originals.items():
            if owner == number:
                assert cells[owner, level] == min(target, 10 * count)
    assert balanced.counts.max() <= 10


def test_length_says_nothing_of_the_rating_where_all_cells_are_filled() -> None:
    replies, ratings = _skewed()
    report = balance_rows(replies, ratings, Balance.PAPER).report()
    assert report["empty_cells"] == report["short_cells"] == 0
    assert report["length_rating_before"] < -0.3
    assert abs(report["length_rating_after"]) <= 0.02


def test_paper_leaves_out_a_missing_rating_and_counts_it() -> None:
    balanced = balance_rows(_replies([3] * 6), np.array([1, 1, 1, 5, 5, 2.0]), Balance.PAPER)
    assert Counter(balanced.levels[balanced.rows].tolist()) == {1: 3, 2: 3, 5: 3}
    assert balanced.empty_cells == 2


def test_no_row_stands_more_than_ten_times() -> None:
    balanced = balance_rows(_replies([3] * 40), np.array([5.0] * 39 + [1.0]), Balance.PAPER)
    assert balanced.counts.tolist() == [1.0] * 39 + [10.0]
    assert balanced.report()["short_cells"] == 1


def test_released_drops_replies_of_20_characters_and_of_more_than_140() -> None:
    lengths = [20, 21, 40, 41, 140, 141]
    replies = tuple("x" * length for length in lengths for _ in range(5))
    balanced = balance_rows(replies, np.tile(np.arange(1.0, 6), len(lengths)), Balance.RELEASED)
    assert balanced.bins[::5].tolist() == [-1, 0, 0, 1, 5, -1]
    assert balanced.report()["dropped"] == 10
    assert balanced.report()["balanced_rows"] == 20


def test_released_repeats_rows_cyclically_in_the_order_of_bin_and_rating() -> None:
    replies = ("x" * 30,) * 8
    ratings = np.array([1, 1, 1, 2, 3, 4, 5, 5.0])
    balanced = balance_rows(replies, ratings, Balance.RELEASED)
    assert balanced.rows.tolist() == [0, 1, 2, 3, 3, 3, 4, 4, 4, 5, 5, 5, 6, 7, 6]


def test_released_names_the_bin_that_lacks_a_rating() -> None:
    with refusing(BadInput):
        balance_rows(("x" * 30,) * 4, np.array([1, 3, 4, 5.0]), Balance.RELEASED)


def test_without_balancing_every_row_stands_once_in_order() -> None:
    replies, ratings = _skewed(50)
    assert balance_rows(replies, ratings, Balance.NONE).rows.tolist() == list(range(50))
