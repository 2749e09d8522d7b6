"""What an agreement costs: units by sizes, worked out by hand, the refusal, and the pieces between which it ends."""

from __future__ import annotations

import numpy as np
import pytest

from refaug.agreement.costs import RatedSizes, agreement_units
from refaug.core.records import Item, Origin, Reference
from refaug.metrics.statistics.agreement import RatedSet, mean_over_sets
from refaug.metrics.statistics.annotator_agreement import kappa
from refaug.scoring.items import BadItem


class Left(Exception):
    """What a check raises whose client has left."""


class LeavesAfter:
    """A check that counts its calls, and raises at the last of so many."""

    def __init__(self, calls: int) -> None:
        self.calls, self.most = 0, calls

    def __call__(self) -> None:
        self.calls += 1
        if self.calls == self.most:
            raise Left


def rated(replies: int, *ratings: float) -> Item:
    references = (Reference(text="x" * 100, source=Origin.GOLD),)
    return Item(
        id="1",
        turns=("y" * 30,),
        references=references,
        replies={f"s{number}": "z" * 10 for number in range(replies)},
        ratings={"s0": ratings},
    )


def test_sizes_are_those_of_all_usable_items() -> None:
    items = [rated(2, 1, 2, 3), rated(1, 4), BadItem(file="", line=1, item="", field="", message="")]
    of_words = 3 * (50 + 1 + 10 + 0.3 * 110)
    assert RatedSizes.of(items, ["bleu"]) == RatedSizes(
        rows=3, annotators=3, systems=2, scoring=pytest.approx(2 * 100 + of_words)
    )
    with_turns = RatedSizes.of(items, ["rater"]).scoring - RatedSizes.of(items[2:], ["rater"]).scoring
    assert with_turns == pytest.approx(2 * (130 + 50 * 130) + 3 * (250 + 2 * 250 + 10 + 50 * 10))
    found = RatedSizes.of(items, ["bleu"], found=10).scoring
    assert found == pytest.approx(2 * 700 + 3 * (50 + 11 + 10 + 0.3 * (110 + 700)))
    assert RatedSizes.of([], ["bleu"]) == RatedSizes(rows=0, annotators=0, systems=0, scoring=0)


def test_units_grow_with_rows_draws_metrics_systems_and_pairs_of_annotators() -> None:
    sizes = RatedSizes(rows=100, annotators=3, systems=5, scoring=7)
    drawn = 100 * (0.04 * 10_000 * 4 + 2 * 1_000 * 3)
    correlations = 3 * (30 + 5 + 6) * (1_500 + 150)
    people = 3 * (4_000 + 200) + 100 * (1_200 + 60)
    assert agreement_units([sizes], metrics=2, draws=10_000) == pytest.approx(7 + drawn + correlations + people)
    again = 2 * 100 * 0.04 * 10_000 * 4  # two sets are drawn from again for the mean
    both = 2 * (7 + drawn + correlations + people) + again
    assert agreement_units([sizes, sizes], metrics=2, draws=10_000) == pytest.approx(both)


def test_draws_are_done_in_pieces_that_change_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(1)
    one_set = RatedSet(random.normal(size=(3, 60)), random.normal(size=60), np.arange(60) % 20)
    whole = mean_over_sets([one_set], draws=100)
    monkeypatch.setattr("refaug.metrics.statistics.agreement._PIECE_CELLS", 10 * 4 * 60)
    check = LeavesAfter(0)
    assert mean_over_sets([one_set], draws=100, check=check) == whole
    assert check.calls == 2 * 10  # of Pearson and of Spearman
    leaves = LeavesAfter(3)
    with pytest.raises(Left):
        mean_over_sets([one_set], draws=100, check=leaves)
    assert leaves.calls == 3


def test_pairs_of_annotators_are_compared_one_after_the_other() -> None:
    check = LeavesAfter(4)
    with pytest.raises(Left):
        kappa(np.tile(np.arange(10.0), (5, 1)), check)
    assert check.calls == 4
