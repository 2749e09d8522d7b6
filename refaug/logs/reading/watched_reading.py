"""Reading that somebody watches: a check runs with every piece and row that is read, and may end the reading.

The check is a context variable, since pieces are unpacked far below what asks for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

Check = Callable[[int], None]
_CHECK: Final[ContextVar[Check | None]] = ContextVar("refaug.logs.reading.watched_reading", default=None)


class ReadingEnded(Exception):
    """As much was read as should be: readers of lines yield the whole lines so far, others let it pass."""


@contextmanager
def watched_reading(check: Check) -> Iterator[None]:
    """Call `check` with the bytes of each piece that is read in the block, and with 0 for each row."""
    token = _CHECK.set(check)
    try:
        yield
    finally:
        _CHECK.reset(token)


def note_reading(size: int = 0) -> None:
    """Tell who watches that so many bytes were read, or a row; what the check raises ends the reading."""
    check = _CHECK.get()
    if check is not None:
        check(size)
