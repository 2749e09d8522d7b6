"""Texts and lines without an object each: what a list and a dictionary would hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refaug.core.memory import CompactTexts, SeenLines

TEXTS = st.lists(st.text(st.characters(codec=None), max_size=6), max_size=40)


@given(TEXTS)
def test_a_column_holds_what_a_list_holds(texts: list[str]) -> None:
    column = CompactTexts(texts)
    assert list(column) == texts
    assert [column[place] for place in range(-len(texts), len(texts))] == texts + texts
    assert column[1:-1] == texts[1:-1]
    assert column[::-2] == texts[::-2]
    with pytest.raises(IndexError):
        column[len(texts)]


@given(TEXTS)
def test_columns_are_equal_where_their_texts_are(texts: list[str]) -> None:
    assert CompactTexts(texts) == CompactTexts(texts)
    assert CompactTexts(texts) != CompactTexts([*texts, ""])


@given(TEXTS)
def test_the_first_line_of_a_text_is_remembered(texts: list[str]) -> None:
    seen, expected = SeenLines(), dict[str, int]()
    for line, text in enumerate(texts):
        assert seen.first(text, line) == expected.get(text)
        expected.setdefault(text, line)
    assert len(seen) == len(expected)


def test_thousands_of_texts_are_remembered_while_the_table_grows() -> None:
    seen = SeenLines()
    assert [seen.first(f"item-{number}", number) for number in range(10_000)] == [None] * 10_000
    assert [seen.first(f"item-{number}", 0) for number in range(10_000)] == list(range(10_000))
    assert len(seen) == 10_000
