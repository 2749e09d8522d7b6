"""Messages between the processes of a cluster: what is packed is unpacked as it was, and anything else is refused."""

from __future__ import annotations

import struct
from collections import namedtuple
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, NamedTuple

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from refusals import refusing

from refaug.core.errors import Corrupt
from refaug.extras.cluster.messages import Messages
from refaug.extras.cluster.search.shard_server import MESSAGES
from refaug.indexer.search.search_settings import SearchSettings

TYPES = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"]


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclass(frozen=True, kw_only=True)
class Named:
    value: Any
    more: Any = None
    computed: int = field(init=False, default=3)


KNOWN = Messages(Pair, Named)

whole_numbers = st.integers(-(1 << 63), (1 << 64) - 1)
texts = st.text(st.characters(exclude_categories=["Cs"]))
moments = st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=9)), timezone(timedelta(minutes=-90))]))
plain = st.none() | st.booleans() | whole_numbers | texts
any_array = st.sampled_from(TYPES).flatmap(
    lambda kind: arrays.arrays(kind, arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
)
single = plain | st.floats(allow_nan=False) | moments | any_array
values = st.recursive(
    single | st.lists(plain),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.builds(Pair, inner, inner)
        | st.builds(Named, value=inner, more=inner)
    ),
    max_leaves=12,
)


def same(found: Any, expected: Any) -> bool:
    """Whether two values are the same, with their types and to the last bit."""
    if type(found) is not type(expected):
        return False
    if isinstance(expected, np.ndarray):
        is_alike = (found.dtype, found.shape) == (expected.dtype, expected.shape)
        return is_alike and found.tobytes() == expected.tobytes()
    if isinstance(expected, Named):
        return same((found.value, found.more, found.computed), (expected.value, expected.more, expected.computed))
    if isinstance(expected, list | tuple):
        return len(found) == len(expected) and all(map(same, found, expected))
    return bool(found == expected)


@given(values)
def test_what_is_packed_is_unpacked_as_it_was(value: Any) -> None:
    assert same(KNOWN.unpack(KNOWN.pack(value)), value)


@given(values)
def test_packing_the_same_gives_the_same_bytes(value: Any) -> None:
    message = KNOWN.pack(value)
    assert type(message) is bytes
    assert len(message) % 8 == 0
    assert KNOWN.pack(KNOWN.unpack(message)) == message


def test_arrays_lie_in_a_message_as_they_are() -> None:
    numbers, marks = np.arange(3, dtype=np.int32), np.array([True, False])
    message = KNOWN.pack([numbers, None, Pair("a", marks)])
    total, of_head = struct.unpack("<QQ", message[:16])
    assert total == len(message)
    head = orjson.loads(message[16 : 16 + of_head].rstrip(b"\0"))
    assert head == ["[", ["@", "<i4", 3], None, ["Pair", "a", ["@", "|b1", 2]]]
    content = message[16 + of_head :]
    assert content == numbers.tobytes() + bytes(4) + marks.tobytes() + bytes(6)


def test_arrays_of_a_message_can_be_written_to_and_are_aligned() -> None:
    sent = (np.arange(3, dtype=np.int8), np.arange(6.0).reshape(2, 3), np.zeros((0, 5), np.uint64))
    message = KNOWN.pack(sent)
    for array in KNOWN.unpack(message):
        assert array.flags.writeable
        assert array.flags.aligned
        assert array.flags.c_contiguous
        np.add(array, 1, out=array)
    assert KNOWN.unpack(message)[0].tolist() == [0, 1, 2]


def test_arrays_of_any_order_and_step() -> None:
    table = np.arange(24, dtype=np.int64).reshape(4, 6)
    for array in (table.T, table[::2, ::-3], np.asfortranarray(table), np.broadcast_to(table[0], (3, 6))):
        assert KNOWN.unpack(KNOWN.pack(array)).tolist() == array.tolist()


@pytest.mark.parametrize("number", [float("inf"), float("-inf"), float("nan"), -0.0, 5e-324, 0.1])
def test_numbers_that_json_has_not(number: float) -> None:
    assert repr(KNOWN.unpack(KNOWN.pack([number]))) == repr([number])


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ({"a": 1}, "builtins.dict"),
        ([1, {2}], "builtins.set"),
        (np.float64(1.0), "numpy.float64"),
        (b"bytes", "builtins.bytes"),
        (SearchSettings(), "SearchSettings"),
        (np.array([None]), "array of object"),
        (np.array(["a"]), "array of <U1"),
        (np.zeros(2, ">i4"), "array of >i4"),
        (1 << 64, "64"),
    ],
)
def test_types_that_are_not_known_are_named(value: Any, named: str) -> None:
    with refusing(TypeError, named):
        KNOWN.pack(value)


def test_two_types_of_one_name_are_refused() -> None:
    with pytest.raises(AssertionError, match="one name"):
        Messages(Pair, namedtuple("Pair", "other"))  # noqa: PYI024


def test_a_message_that_is_cut_short_is_refused() -> None:
    message = KNOWN.pack(Pair(np.arange(5), "text"))
    for size in range(len(message)):
        with refusing(Corrupt, *([size] if size >= 16 else [])):
            KNOWN.unpack(message[:size])
    with refusing(Corrupt, len(message) + 8):
        KNOWN.unpack(message + bytes(8))


def forged(head: Any, content: bytes = b"") -> bytes:
    written = orjson.dumps(head)
    written += bytes(-len(written) % 8)
    return struct.pack("<QQ", 16 + len(written) + len(content), len(written)) + written + content


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (struct.pack("<QQ", 16, 80), "fewer than its head of 80"),
        (struct.pack("<QQ", 24, 8) + b"nothing!", "is not one of this version"),
        (forged(["Unknown", 1]), "is not one of this version: KeyError"),
        (forged([]), "is not one of this version: IndexError"),
        (forged([["["]]), "is not one of this version: TypeError"),
        (forged(["Pair", 1]), "is not one of this version"),
        (forged(["@", "|O", 1], bytes(8)), "is not one of this version: KeyError"),
        (forged(["@", "<i8", 2], bytes(8)), "is not one of this version: TypeError"),
        (forged(["@", "<i8", -1], bytes(8)), "is not one of this version: ValueError"),
        (forged(["@", "<i8", -1, -1], bytes(8)), "is not one of this version: ValueError"),
        (forged(["@", "<i8", "1"], bytes(8)), "is not one of this version: TypeError"),
        (forged(["@", "<i8", 1 << 62], bytes(8)), "is not one of this version: "),
        (forged(["t:", "yesterday"]), "is not one of this version: ValueError"),
        (forged(["@", "<i8", 1], bytes(16)), "has 16 bytes of arrays; its head names 8"),
    ],
)
def test_other_bytes_are_refused(message: bytes, reason: str) -> None:
    with refusing(Corrupt, reason):
        KNOWN.unpack(message)


def test_settings_of_a_search_arrive_as_they_were() -> None:
    settings = SearchSettings(
        k=3, mode="bm25-dialog", alpha=0.1, after=datetime(2026, 1, 2, tzinfo=UTC), exclude_logs=("a", "ü")
    )
    assert MESSAGES.unpack(MESSAGES.pack(settings)) == settings
