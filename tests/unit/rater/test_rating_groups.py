"""Requests to a rater that may be stopped: how often it looks, and that the ratings are those of one call."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from refaug.core.records import Reference
from refaug.rater.rating import Probabilities, Rater, RatingRequest, Triplet

LONG = 128 * "a"


class RaterByLength(Rater):
    """A rater that likes long responses."""

    def _batch_probabilities(self, triplets: Sequence[Triplet], temperature: float) -> Probabilities:
        return np.array([1 - 1 / (1 + len(response)) for _, _, response in triplets])


def asked(candidates: int, number: int) -> RatingRequest:
    texts = (f"{LONG}{'b' * (number + place)}" for place in range(candidates))
    return RatingRequest(utterance=LONG, golds=(LONG,), candidates=tuple(Reference(text=text) for text in texts))


@pytest.mark.parametrize(
    ("candidates", "checks"),
    [
        ([], 0),
        ([1] * 51, 1),  # of 19,450 units each
        ([1] * 52, 2),
        ([200], 13),  # a large one: a part of 16 candidates each
        ([1, 1, 200, 1], 15),
    ],
)
def test_a_rater_looks_before_each_group_of_requests(candidates: list[int], checks: int) -> None:
    rater, looks = RaterByLength(), list[None]()
    requests = [asked(count, number) for number, count in enumerate(candidates)]
    assert rater.rate(requests, check=lambda: looks.append(None)) == rater.rate(requests)
    assert len(looks) == checks
