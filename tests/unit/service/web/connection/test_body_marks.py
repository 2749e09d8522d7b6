"""Values, fields and elements of a body are those of a plain walk over what the JSON says."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refaug.service.web.connection.body import count_marks

TEXTS = st.text(st.sampled_from('ab"\\:,[]{}\n\u00e9'), max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(TEXTS, inner, max_size=6),
    max_leaves=40,
)


def counted(content: Any) -> tuple[int, int, int]:
    """A list or object has a mark for itself, and a comma before each element but its first."""
    if not isinstance(content, list | dict):
        return 0, 0, 0
    inner = [counted(element) for element in (content.values() if isinstance(content, dict) else content)]
    values = 1 + max(0, len(content) - 1) + sum(values for values, _, _ in inner)
    fields, elements = (len(content), 0) if isinstance(content, dict) else (0, max(1, len(content)))
    return values, max([fields, *(most for _, most, _ in inner)]), max([elements, *(most for _, _, most in inner)])


@given(content=JSON, indent=st.sampled_from([None, 1]), is_ascii=st.booleans())
def test_marks_are_those_of_what_the_body_says(content: Any, indent: int | None, is_ascii: bool) -> None:
    assert count_marks(json.dumps(content, indent=indent, ensure_ascii=is_ascii).encode()) == counted(content)


@pytest.mark.parametrize(
    ("raw", "values", "most_fields", "most_elements"),
    [
        (b"", 0, 0, 0),
        (b'"no end: [,', 0, 0, 0),
        (b'"ends in a backslash\\', 0, 0, 0),
        (b'{"a":1,"a":2,"a":3}', 3, 3, 0),
        (b"[[[[", 4, 0, 1),
        (b"[1,2],3]:,,,,[[", 3, 0, 2),
        (b'[1,{"a":[1,2,3,4],"b":[]},2,3,4,', 13, 2, 6),
        (b"]" + b"," * 50, 0, 0, 0),
        (b"[" * 100_000, 100_000, 0, 1),
    ],
)
def test_what_is_no_json_is_counted_as_far_as_it_goes(
    raw: bytes, values: int, most_fields: int, most_elements: int
) -> None:
    assert count_marks(raw) == (values, most_fields, most_elements)


@given(raw=st.binary(max_size=60) | st.text('"\\:,[]{}', max_size=60).map(str.encode))
def test_any_bytes_are_counted(raw: bytes) -> None:
    marks = count_marks(raw)
    assert 0 <= marks.values <= len(raw)
    assert 0 <= marks.most_fields <= raw.count(b":")
    assert 0 <= marks.most_elements <= marks.values
