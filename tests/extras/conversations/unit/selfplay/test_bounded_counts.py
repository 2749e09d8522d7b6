"""Counts in bounded memory are those of everything at once: shared windows, and different n-grams."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from refaug.extras.conversations.metrics.variety import Overlap, distinct, utterance_hashes
from refaug.extras.conversations.selfplay import check, shared_windows
from refaug.extras.conversations.selfplay.check import DistinctCount
from refaug.extras.conversations.selfplay.shared_windows import SharedWindows

CONVERSATIONS = st.lists(st.lists(st.sampled_from("abcd"), max_size=7), max_size=25)
TEXTS = st.lists(st.lists(st.sampled_from(["tea", "te", "a", "お茶"]), max_size=6), max_size=40)
MANY = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def brute_force(conversations: list[list[str]], window: int) -> int:
    windows = [
        {tuple(texts[first : first + window]) for first in range(len(texts) - window + 1)} for texts in conversations
    ]
    return sum(bool(left & right) for left, right in combinations(windows, 2))


@MANY
@given(conversations=CONVERSATIONS, window=st.sampled_from([2, 3, 5]), part=st.sampled_from([1, 3, 1 << 14]))
def test_pairs_that_share_a_window_equal_brute_force(
    tmp_path: Path, conversations: list[list[str]], window: int, part: int
) -> None:
    with pytest.MonkeyPatch.context() as patch, SharedWindows(tmp_path, window) as shared:
        patch.setattr(shared_windows, "_PART", part)
        patch.setattr(shared_windows, "_BUFFERED", 4)
        for conversation in conversations:
            shared.add(utterance_hashes(conversation))
        overlap = shared.overlap()
    pairs = len(conversations) * (len(conversations) - 1) // 2
    assert overlap == Overlap(window, brute_force(conversations, window), pairs)
    assert list(tmp_path.iterdir()) == []


@MANY
@given(texts=TEXTS, order=st.sampled_from([1, 2]), run=st.sampled_from([2, 7, 1 << 17]))
def test_different_ngrams_equal_those_of_a_set(tmp_path: Path, texts: list[list[str]], order: int, run: int) -> None:
    with pytest.MonkeyPatch.context() as patch, DistinctCount(tmp_path, order) as count:
        patch.setattr(check, "_RUN", run)
        patch.setattr(check, "_MOST_RUNS", 3)
        for text in texts:
            count.add([text])
        assert count.share == distinct(texts, order)
    assert list(tmp_path.iterdir()) == []


def test_no_conversation_and_one_alone_share_nothing(tmp_path: Path) -> None:
    for conversations in ([], [["a", "b", "c"]]):
        with SharedWindows(tmp_path, 2) as shared:
            for conversation in conversations:
                shared.add(utterance_hashes(conversation))
            assert (shared.overlap().overlapping, shared.overlap().percent) == (0, 0.0)
