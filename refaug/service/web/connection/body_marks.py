"""How many values, fields and elements a body of JSON has, counted before anything is made of them.

The loop holds no lock of the interpreter: other requests are answered while megabytes are counted.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from refaug.core.kernels import compiled

_QUOTE, _BACKSLASH, _COLON, _COMMA, _LIST, _LIST_END, _OBJECT, _OBJECT_END = b'"\\:,[]{}'


class BodyMarks(NamedTuple):
    """The commas and opening brackets outside of texts, and what the largest object and the longest list hold."""

    values: int  # at most: each value but the first follows a comma or an opening bracket
    most_fields: int
    most_elements: int  # at most: an empty list counts as one of one element


def count_marks(raw: bytes) -> BodyMarks:
    """Count, up to a bracket that closes nothing: what follows it is no JSON, as the parser finds without making it."""
    depth = raw.count(b"[") + raw.count(b"{")
    return BodyMarks(*_marks_of(np.frombuffer(raw, np.uint8), np.empty((depth, 3), np.int32)))


@compiled
def _marks_of(raw: Any, outer: Any) -> tuple[int, int, int]:
    """`outer` has room for each list and object around the one at hand: fields, elements, whether it is a list."""
    values, fields, elements, most_fields, most_elements, depth, place = 0, 0, 0, 0, 0, 0, 0
    is_list = False
    while place < raw.size:
        byte = raw[place]
        if byte == _QUOTE:
            place += 1
            while place < raw.size and raw[place] != _QUOTE:
                place += 2 if raw[place] == _BACKSLASH else 1
        elif byte == _COLON:
            fields += 1
            most_fields = max(most_fields, fields)
        elif byte == _COMMA:
            values += 1
            elements += 1
            if is_list:
                most_elements = max(most_elements, elements)
        elif byte in (_LIST, _OBJECT):
            values += 1
            outer[depth, 0], outer[depth, 1], outer[depth, 2] = fields, elements, is_list
            depth += 1
            fields, elements, is_list = 0, 1, byte == _LIST
            if is_list:
                most_elements = max(most_elements, elements)
        elif byte in (_LIST_END, _OBJECT_END):
            if depth == 0:
                break
            depth -= 1
            fields, elements, is_list = outer[depth, 0], outer[depth, 1], outer[depth, 2] == 1
        place += 1
    return values, most_fields, most_elements
