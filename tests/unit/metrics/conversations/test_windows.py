"""Windows that conversations share, beside brute force; distinct words and repetition by hand."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refaug.metrics.conversations.variety import distinct, variety
from refaug.metrics.conversations.windows import Overlap, WindowSet, overlap_among

conversations = st.lists(st.lists(st.sampled_from(["a", "b", "a b", "", "A"]), max_size=7), max_size=8)


def windows_of(utterances: list[str], window: int) -> set[tuple[str, ...]]:
    return {tuple(utterances[start : start + window]) for start in range(len(utterances) - window + 1)}


@given(conversations, st.integers(1, 5))
def test_overlap_among_equals_brute_force(talks: list[list[str]], window: int) -> None:
    sharing = sum(bool(windows_of(one, window) & windows_of(two, window)) for one, two in combinations(talks, 2))
    assert overlap_among(talks, window) == Overlap(window, sharing, len(talks) * (len(talks) - 1) // 2)


@given(conversations, conversations, st.integers(1, 4))
def test_overlap_with_a_log_equals_brute_force(talks: list[list[str]], log: list[list[str]], window: int) -> None:
    windows = WindowSet(talks, window)
    for dialogue in log:
        windows.read(dialogue)
    in_log = set().union(*(windows_of(dialogue, window) for dialogue in log))
    expected = [number for number, talk in enumerate(talks) if windows_of(talk, window) & in_log]
    assert windows.overlapping() == expected
    assert windows.overlap() == Overlap(window, len(expected), len(talks))


def test_a_planted_leak_is_found_across_offsets() -> None:
    talks = [["x", "How are you?", "Fine.", "y"], ["p", "q", "r"]]
    windows = WindowSet(talks, 2)
    windows.read(["Hello.", "Hi.", "How are you?", "Fine."])
    assert windows.overlapping() == [0]


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
