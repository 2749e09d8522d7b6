"""What counts as equal when scores are made again, and where a difference is said to be."""

from __future__ import annotations

import pytest

from refaug.scoring.verification.score_differences import EXACT, RATED, Tolerance, field_differences


@pytest.mark.parametrize(
    ("share", "scale", "before", "now", "allowed"),
    [
        (RATED, 1.0, 0.5, 0.500009, True),
        (RATED, 1.0, 0.5, 0.50002, False),
        (RATED, 100.0, 95.0, 95.0009, True),
        (RATED, 100.0, 95.0, 95.002, False),  # per cent do not widen what the scale allows
        (RATED, 100.0, 0.5, 0.5009, True),
        (EXACT, 1.0, 20_000.0, 20_000.00001, True),  # a sum
        (EXACT, 1.0, 0.5, 0.50000001, False),
        (EXACT, 1.0, 0.5, float("nan"), False),
    ],
)
def test_numbers_are_equal_within_the_scale_of_scores(
    share: float, scale: float, before: float, now: float, allowed: bool
) -> None:
    assert Tolerance(share=share, scale=scale).allows(before, now) is allowed


def test_p_values_may_jump_only_where_scores_may_differ() -> None:
    before, now = {"p_bootstrap": 0.04, "difference": 0.1}, {"p_bootstrap": 0.042, "difference": 0.1}
    assert list(field_differences(before, now, Tolerance(share=RATED))) == []
    (difference,) = field_differences(before, now, Tolerance(share=EXACT))
    assert str(difference) == "p_bootstrap: 0.04 in the file, 0.042 now"


def test_differences_name_their_place_and_only_fields_of_the_file_count() -> None:
    before = {"replies": [{"id": "d1", "score": 1}, {"id": "d2", "score": None}], "note": "x"}
    now = {"replies": [{"id": "d1", "score": 1.0}, {"id": "d2", "score": 0.5}], "new": 1}
    found = field_differences(before, now, Tolerance(share=EXACT), "a")
    assert list(map(str, found)) == [
        "a.replies[d2].score: None in the file, 0.5 now",
        "a.note: x in the file, None now",
    ]
    shorter = field_differences([1, 2], [1], Tolerance(share=EXACT), "interval")
    assert list(map(str, shorter)) == ["interval: [1, 2] in the file, [1] now"]
