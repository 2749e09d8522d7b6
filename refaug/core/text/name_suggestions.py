"""Suggestions for names that are probably typing errors."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

_LONGEST: Final = 60  # characters of a name that are compared: the time grows with their square


def nearest_name(name: str, names: Iterable[str]) -> str | None:
    """Return the name that the first one is most like, or None where none is like it."""
    if len(name) > _LONGEST:
        return None
    return next(iter(get_close_matches(name.lower(), list(names), n=1)), None)


def suggestion(name: str, names: Iterable[str]) -> str:
    """Return `; did you mean 'references'?`, or nothing where no name is like this one."""
    nearest = nearest_name(name, names)
    return "" if nearest is None or nearest == name else f"; did you mean {nearest!r}?"
