"""Shares of pairs that overlap; distinct words and repetition by hand."""

from __future__ import annotations

import pytest

from refaug.extras.conversations.metrics.variety import Overlap, distinct, variety


def test_percentages_of_the_published_table_are_counts_of_pairs() -> None:
    counts = {965: 19.49, 87: 1.76, 100: 2.02, 12: 0.24, 321: 6.48, 15: 0.30, 105: 2.12, 8: 0.16}
    for pairs, percent in counts.items():  # of the 4,950 pairs of 100 conversations
        assert Overlap(3, pairs, 4950).percent == pytest.approx(percent, abs=0.005)
        assert Overlap(3, pairs + 1, 4950).percent != pytest.approx(percent, abs=0.005)
    assert Overlap(2, 0, 0).percent == 0.0


def test_variety_counts_words_and_repetition() -> None:
    replies = ["I like tea.", "i like  TEA!", "Me too."]
    tokens = [["i", "like", "tea"], ["i", "like", "tea"], ["me", "too"]]
    figures = variety(replies, tokens)
    assert (figures.replies, figures.words_per_reply, figures.repeated) == (3, 8 / 3, 1 / 3)
    assert (figures.distinct_1, figures.distinct_2) == (5 / 8, 3 / 5)
    assert distinct([["a"]], 2) == 0.0
    assert variety([], []).repeated == 0.0
