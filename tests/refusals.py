"""Errors by their class, field and the values they name; their words are asserted by `checks/messages.py` alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def refusing(
    kind: type[Exception] | tuple[type[Exception], ...], *named: object, field: str = ""
) -> Iterator[pytest.ExceptionInfo[Exception]]:
    """Expect an error of this kind, about this field, that names these values: what was found, where, what is right."""
    with pytest.raises(kind) as raised:
        yield raised
    assert not field or getattr(raised.value, "field", "") == field
    missing = [value for value in map(str, named) if value not in str(raised.value)]
    assert not missing, f"not named in: {raised.value}"
