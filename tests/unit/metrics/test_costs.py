"""Costs: the units of each metric by lengths, worked out by hand, and pieces of limited cost."""

from __future__ import annotations

import numpy as np
import pytest

from refaug.metrics.base import Floats
from refaug.metrics.catalogue import METRICS
from refaug.metrics.costs import PIECE, Cost, lengths_of, piece_numbers, with_further
from refaug.metrics.specification import build

REPLY = "a " * 50  # 100 characters
REFERENCES = ["b " * 100, "c " * 50]  # 300 characters


def measured(*rows: list[str]) -> Floats:
    return lengths_of(rows, counts_words=True)


def test_lengths_are_those_of_all_texts_of_a_row_and_the_words_of_the_longest() -> None:
    lengths = measured(["It's 3.5!", "犬 犬"], [])
    assert lengths.tolist() == [[2, 0], [12, 0], [7, 0]]  # It ' s 3 . 5 !
    assert lengths_of([["two words"]], counts_words=False).tolist() == [[1], [9], [9]]
    assert with_further(lengths, 3, characters=10).tolist() == [[5, 3], [42, 30], [7, 5]]


@pytest.mark.parametrize(
    ("name", "reading", "units"),
    [
        ("multi-bleu", 300, 50 + 2 * 1 + 100 + 0.3 * 500),
        ("upsilon-bleu", 300, 50 + 2 * 1 + 100 + 0.3 * 500),
        ("rouge-1", 1_200, 50 + 2 * 10 + 400 + 0.5 * 500),
        ("rouge-l", 1_200, 50 + 2 * 10 + 400 + 0.5 * 500 + 3e-4 * 100 * 300),
        ("chrf++", 1_500, 50 + 2 * 5 + 500 + 0.2 * 500),
        ("ter", 1_800, 50 + 2 * 5 + 600 + 0.1 * 500 + 2 * (50 * 51 * 1_000)),
        ("meteor", 300, 50 + 2 * 50 + 100 + 2 * 500),
        ("cider", 900, 50 + 2 * 10 + 300 + 0.5 * 500),
        ("pooled", 300, 50 + 2 * 5 + 100 + 0.5 * 500),
        ("greedy", 300, 50 + 2 * 5 + 100 + 0.5 * 500 + 0.02 * 100 * 300),
        ("bertscore", 300, 1_000 + 2 * 1_000 + 100),
        ("sentence-cosine", 300, 1_000 + 2 * 1_000 + 100),
        ("rater", 300 + 50 * 256, 250 + 2 * 250 + 100 + 50 * 100),
        ("judge", 300 + 50 * 256, 250 + 2 * 250 + 100 + 50 * 100),
    ],
)
def test_units_of_a_reply_of_100_characters_beside_two_references(name: str, reading: float, units: float) -> None:
    cost, references = METRICS[name].cost, measured(REFERENCES)
    assert cost.reading(references)[0] == pytest.approx(reading)
    assert cost.units(measured([REPLY]), references)[0] == pytest.approx(units)


def test_shifts_are_bounded_by_their_number_the_beam_and_the_largest_table() -> None:
    cost = Cost(row=0, pair=0, character=0, again=0, counts_shifts=True)
    short, long = measured(["a " * 10]), measured(["a " * 10_000])
    assert cost.units(short, short)[0] == 10 * 10 * 50  # 10 · 10 / 2 shifted replies
    assert cost.units(long, long)[0] == 10_000 * 25 * 1_000  # longer pairs have no score
    assert cost.units(measured([""]), long)[0] == 0


def test_only_ter_counts_words() -> None:
    assert [name for name, info in METRICS.items() if info.cost.counts_shifts] == ["ter", "upsilon-ter"]
    assert build("ter").lengths([["a b"]]).tolist() == [[1], [3], [2]]
    assert build("chrf").lengths([["a b"]]).tolist() == [[1], [3], [3]]


def test_a_piece_begins_where_enough_work_stands_before_it() -> None:
    units = np.array([PIECE / 2, PIECE / 2, 1, 4 * PIECE, 1, 1], dtype=np.float64)
    assert piece_numbers(units).tolist() == [0, 0, 1, 1, 5, 5]
    assert piece_numbers(np.zeros(0)).tolist() == []
