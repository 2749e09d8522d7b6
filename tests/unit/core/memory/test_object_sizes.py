"""What things take in memory, held to what the interpreter says of one at a time."""

from __future__ import annotations

import sys
from collections import OrderedDict, defaultdict
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from refaug.core.memory import MemoryCounter
from refaug.core.records import Item, Reference


def size(*things: object) -> int:
    weighed = MemoryCounter()
    weighed.add(*things)
    return weighed.bytes


LONG, LONGER = "a" * 1_000, "b" * 2_000
NUMBER = 2**80
OWN = sys.getsizeof


@pytest.mark.parametrize(
    ("thing", "expected"),
    [
        (LONG, OWN(LONG)),
        ([LONG, LONGER], OWN([1, 2]) + OWN(LONG) + OWN(LONGER)),
        ((LONG, [LONGER]), OWN((1, 2)) + OWN([1]) + OWN(LONG) + OWN(LONGER)),
        ({LONG: NUMBER}, OWN({LONG: 1}) + OWN(LONG) + OWN(NUMBER)),
        (frozenset([LONG]), OWN(frozenset([1])) + OWN(LONG)),
        (defaultdict(int, {LONG: NUMBER}), OWN(defaultdict(int, {LONG: 1})) + OWN(LONG) + OWN(NUMBER)),
        (OrderedDict({LONG: NUMBER}), OWN(OrderedDict({LONG: 1})) + OWN(LONG) + OWN(NUMBER)),
    ],
)
def test_containers_count_with_what_is_in_them(thing: Any, expected: int) -> None:
    assert size(thing) == expected


def test_what_several_things_share_counts_once() -> None:
    weighed = MemoryCounter()
    weighed.add([LONG])
    first = weighed.bytes
    weighed.add({"key": LONG})
    assert weighed.bytes - first == OWN({"key": 1}) + OWN("key")


def test_a_view_counts_the_numbers_that_it_looks_into_once() -> None:
    numbers = np.arange(10_000)
    header = size(numbers) - numbers.nbytes
    assert 0 < header < 300
    assert size(numbers[10:20]) == 2 * header + numbers.nbytes
    assert size(numbers[10:20], numbers[30:]) == 3 * header + numbers.nbytes


def test_a_mapped_file_counts_nothing(tmp_path: Path) -> None:
    np.save(tmp_path / "numbers.npy", np.arange(10_000))
    mapped = np.load(tmp_path / "numbers.npy", mmap_mode="r")
    assert size(mapped, mapped[5:]) < 1_000


def test_arrays_of_objects_count_with_those() -> None:
    assert size(np.array([LONG, LONGER], dtype=object)) >= OWN(LONG) + OWN(LONGER)


def test_objects_of_ours_count_with_their_attributes() -> None:
    """References have slots, a counter of bytes has a dictionary; both may refer to the same text."""
    pair = Item(id="d1", references=(Reference(text=LONG, more=MappingProxyType({"utterance": LONGER})),))
    assert OWN(LONG) + OWN(LONGER) < size(pair) < OWN(LONG) + OWN(LONGER) + 1_500


def test_a_thing_that_refers_to_itself_counts_once() -> None:
    round_and_round: list[Any] = [LONG]
    round_and_round.append(round_and_round)
    assert size(round_and_round) == OWN(round_and_round) + OWN(LONG)


def test_classes_and_functions_count_nothing_of_what_they_can_reach() -> None:
    assert size(Item) == 0
    assert size(size) < 1_000
