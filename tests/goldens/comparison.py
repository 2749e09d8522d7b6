"""Where two answers differ: numbers by more than the tolerance, everything else at all."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from math import isnan
from typing import Any, Final

TOLERANCE: Final = 3e-5  # scores differ by up to 1e-5 on another machine, and statistics of a few of them by more
_FRACTION: Final = re.compile(r"-?\d+\.\d+")
_MOST_TEXT: Final = 300  # characters of a text that is shown


def differences(expected: Any, actual: Any, at: str = "") -> Iterator[str]:
    """Yield a line for each place in which two answers differ."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        for key in [*expected, *(key for key in actual if key not in expected)]:
            if key not in actual or key not in expected:
                yield f"{at}/{key}: {'gone' if key in expected else 'new'}"
            else:
                yield from differences(expected[key], actual[key], f"{at}/{key}")
        if expected.keys() == actual.keys() and list(expected) != list(actual):
            yield f"{at}: {list(expected)} come in another order: {list(actual)}"
    elif isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        for number, (before, now) in enumerate(zip(_in_order(expected), _in_order(actual), strict=True)):
            yield from differences(before, now, f"{at}/{number}")
    elif not _are_alike(expected, actual):
        yield f"{at}: {str(expected)[:_MOST_TEXT]!r} was recorded, {str(actual)[:_MOST_TEXT]!r} is answered"


def _in_order(answers: list[Any]) -> list[Any]:
    """Return a list as it is, or in an order of its own where ids that another run makes otherwise sort it."""
    ids = {
        answer.get("id") if isinstance(answer, dict) else answer for answer in answers if not isinstance(answer, list)
    }
    return sorted(answers, key=json.dumps) if "HASH" in ids else answers


def _are_alike(expected: Any, actual: Any) -> bool:
    if isinstance(expected, bool) or isinstance(actual, bool):
        return expected is actual
    if isinstance(expected, float) and isinstance(actual, float | int):
        if isnan(expected):
            return isnan(actual)
        return abs(expected - actual) <= TOLERANCE * max(1.0, abs(expected))
    if isinstance(expected, str) and isinstance(actual, str):
        return _texts_are_alike(expected, actual)
    return bool(expected == actual)


def _texts_are_alike(expected: str, actual: str) -> bool:
    """Return whether two texts differ at most in decimal fractions, and in those within the tolerance."""
    if expected == actual:
        return True
    if _FRACTION.split(expected) != _FRACTION.split(actual):
        return False
    pairs = zip(map(float, _FRACTION.findall(expected)), map(float, _FRACTION.findall(actual)), strict=True)
    return all(abs(before - now) <= TOLERANCE * max(1.0, abs(before)) for before, now in pairs)
