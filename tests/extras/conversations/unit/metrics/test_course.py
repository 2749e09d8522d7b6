"""The course of a conversation's scores, beside numpy's own line fit."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refaug.extras.conversations.judged import course_of

SCORES = st.lists(st.one_of(st.just(math.nan), st.floats(-100, 100)), max_size=30)


def test_a_course_has_mean_worst_slope_and_halves() -> None:
    course = course_of(np.array([1.0, 2.0, 4.0, 0.0, 3.0]))
    assert (course.mean, course.worst, course.first, course.second) == (2.0, 0.0, 1.5, 1.5)
    assert course.slope == pytest.approx(np.polyfit(range(5), [1, 2, 4, 0, 3], 1)[0])
    assert (course.scored, course.replies) == (5, 5)


def test_replies_without_a_score_count_nowhere_but_keep_their_places() -> None:
    course = course_of(np.array([math.nan, 2.0, math.nan, 5.0]))
    assert (course.mean, course.worst, course.first, course.second, course.slope) == (3.5, 2.0, 2.0, 5.0, 1.5)
    assert (course.scored, course.replies) == (2, 4)


def test_what_is_not_defined_is_nan() -> None:
    empty, single = course_of(np.array([])), course_of(np.array([3.0]))
    assert all(math.isnan(figure) for figure in (empty.mean, empty.worst, empty.slope, empty.first))
    assert (single.mean, single.worst) == (3.0, 3.0)
    assert all(math.isnan(figure) for figure in (single.slope, single.first, single.second))


@given(SCORES)
def test_turned_round_in_time_the_slope_turns_and_the_halves_change_places(scores: list[float]) -> None:
    course, back = course_of(np.array(scores)), course_of(np.array(scores[::-1]))
    assert (course.first, course.worst) == pytest.approx((back.second, back.worst), nan_ok=True)
    assert course.slope == pytest.approx(-back.slope, nan_ok=True, abs=1e-9)
