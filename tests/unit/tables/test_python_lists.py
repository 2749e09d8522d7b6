"""Lists as Python prints them are what `ast.literal_eval` makes of them, at a cost that grows with their length."""

from __future__ import annotations

import ast
import math
import sys
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refaug.tables.cells import MAX_CHARS, BadCell, listed, read_printed_list

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.text("'\"\\\n\t\0é😀[],", max_size=6)
SCALARS = (
    TEXTS
    | st.integers(-(10**18) + 1, 10**18 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.none()
    | st.booleans()
)
NESTED = st.recursive(
    SCALARS,
    lambda parts: st.lists(parts, max_size=4) | st.lists(parts, max_size=4).map(tuple) | st.dictionaries(TEXTS, parts),
    max_leaves=12,
)
PIECES = st.sampled_from(
    [
        *(
            "[",
            "]",
            "(",
            ")",
            "{",
            "}",
            ",",
            ":",
            " ",
            "\n",
            "'a'",
            '"b"',
            "''",
            "1",
            "-2",
            "0",
            "00",
            "1.5",
            ".5",
            "1e3",
        ),
        *("None", "True", "nan", "\\n", "'\\x41'", "'\\q'", "+", "j", "_", "#", "b'x'", "\t", "e", "-", "'"),
    ]
)


@settings(deadline=None, max_examples=50)
@given(st.lists(NESTED, max_size=5), st.booleans())
def test_what_python_prints_is_read_as_literal_eval_reads_it(parts: list[Any], is_tuple: bool) -> None:
    printed = repr(tuple(parts) if is_tuple else parts)
    read = read_printed_list(printed)
    assert repr(read) == repr(ast.literal_eval(printed)) == printed


@settings(deadline=None, max_examples=50)
@given(st.lists(PIECES, max_size=9).map("".join))
def test_any_text_is_refused_or_read_as_literal_eval_reads_it(inner: str) -> None:
    for text in (f"[{inner}]", f"({inner})"):
        try:
            read = read_printed_list(text)
        except BadCell:
            continue
        if read is not None and "nan" not in text:
            assert repr(read) == repr(ast.literal_eval(text))


def test_nan_is_read_as_pandas_prints_it() -> None:
    read = read_printed_list("[4.0, nan, 'nan']")
    assert read is not None
    assert (read[0], math.isnan(read[1]), read[2]) == (4.0, True, "nan")


@pytest.mark.parametrize(
    "text",
    [
        *(
            "[laughs]",
            "(great film)",
            "('a')",
            "(1)",
            "[1 2 3]",
            "['a' 'b']",
            "[1+1j]",
            "[b'a']",
            "{'a', 'b'}",
            "[1,,2]",
        ),
        *("[f(1)]", "['a", "['a'] ['b']", "[1_000]", "[007]", "['\\q']", "[{'a'}]", "[]]", "[", "[{'a': 1 'b': 2}]"),
    ],
)
def test_anything_else_is_no_list(text: str) -> None:
    assert read_printed_list(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "[{[]: 1}]",
        "[{1: 'a'}]",
        "['\\ud800']",
        "['\ud800', None]",
        f"[{'9' * 5_000},]",
        f"[-{'9' * 19},]",
        "[" * 40 + "None" + "]" * 40,
        "[" * 900 + "]" * 900,  # JSON
        f"['{'a' * MAX_CHARS}']",
    ],
)
def test_what_no_item_can_hold_is_a_bad_cell(text: str) -> None:
    with pytest.raises(BadCell):
        listed(text)


@pytest.mark.parametrize("part", ["1+1j,", "[", "(", "-", "None,", "1,", "'a',", "{'a':", "'\\n',", "9", "'\\"])
def test_a_long_cell_takes_memory_and_calls_in_proportion_to_its_length(part: str) -> None:
    def cost(length: int) -> tuple[int, int]:
        cell = f"[{part * (length // len(part))}None,]"
        calls = 0

        def count(*_: object) -> None:
            nonlocal calls
            calls += 1

        tracemalloc.start()
        sys.setprofile(count)
        try:
            listed(cell)
        except BadCell:
            pass
        finally:
            sys.setprofile(None)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        return calls, peak

    (calls, _), (more_calls, peak) = cost(30_000), cost(60_000)
    assert more_calls <= 2.1 * calls + 100
    assert peak <= 20 * 60_000 + 50_000
