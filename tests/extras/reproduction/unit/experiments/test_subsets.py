"""`reproduce metrics` on fewer rows: whom it leaves out is found in the data of any set, and named."""

from __future__ import annotations

import numpy as np
from proofs import tiny_set

from refaug.extras.reproduction.experiments.metrics import log_systems_in_words


def test_systems_that_were_taken_from_the_log_are_named_for_every_set() -> None:
    sets = [tiny_set("first", 15), tiny_set("second", 16)]
    standing = {
        "first": sets[0].rows_where(lambda row: sets[0].systems[row] == "b"),
        "second": np.zeros(len(sets[1].replies), dtype=np.bool_),
    }
    assert log_systems_in_words(sets, standing) == "first: b; second: none"


def test_the_rows_of_several_systems_are_left_out() -> None:
    one = tiny_set("first", 15)
    left = one.without_systems(["a", "b"])
    assert {one.systems[row] for row in np.flatnonzero(left)} == {"c"}
    assert left.sum() == sum(system == "c" for system in one.systems) - one.is_gold.sum()
