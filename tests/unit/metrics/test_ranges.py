"""Ranges: how they are written, and what they make of scores."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refusing

from refaug.core.errors import BadInput, Usage
from refaug.metrics.parameters import Range, RangeParameter

NUMBER = st.floats(-10, 10).map(lambda number: round(number, 7))
PARAMETER = RangeParameter(name="range-ref", default="auto", help="")


@pytest.mark.parametrize(
    ("text", "canonical"),
    [("0..1", "0..1"), ("0.10..0.90", "0.1..0.9"), ("-1..1", "-1..1"), (".5..1e0", "0.5..1"), ("auto", "auto")],
)
def test_a_range_has_one_spelling(text: str, canonical: str) -> None:
    assert PARAMETER.parse(text, "ruber") == canonical
    assert PARAMETER.parse(canonical, "ruber") == canonical


@pytest.mark.parametrize("text", ["", "1", "1..", "..1", "1..1", "0.9..0.1", "0-1", "0..nan", "0..inf", "a..b", "Auto"])
def test_what_is_no_range_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(Usage) as refused:
        PARAMETER.parse(text, "ruber")
    assert refused.value.message == f"ruber: range-ref cannot be {text!r}"
    assert all(fact in refused.value.remedy for fact in ("0.25", "0.75"))


@given(NUMBER, NUMBER)
def test_a_range_reads_back_as_it_was_written(one: float, other: float) -> None:
    low, high = sorted((one, other))
    if low == high:
        return
    found = Range.of_ends(low, high, what="all replies")
    assert Range.parse(str(found)) == found == Range(low, high)


@given(NUMBER, NUMBER, st.lists(st.floats(-20, 20), min_size=1, max_size=5))
def test_scores_are_mapped_between_the_ends_and_clipped_outside(one: float, other: float, scores: list[float]) -> None:
    low, high = sorted((one, other))
    if high - low < 1e-6:
        return
    expected = [0.0 if x <= low else 1.0 if x >= high else (x - low) / (high - low) for x in scores]
    assert Range(low, high).scale(np.array(scores)) == pytest.approx(expected)


def test_ends_that_are_one_number_are_no_range() -> None:
    with refusing(BadInput, "0.25") as refused:
        Range.of_ends(0.25, 0.25 + 1e-9, what="all replies")
    assert "norm=none" in refused.value.remedy
