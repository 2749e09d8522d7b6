"""A property that is computed once, without the lock of Python 3.11's own.

That lock is one for all objects of a class: while a thread counts the words of a large request, every other request
waits for it, those of the event loop too. Without it, two threads may compute the value of one object twice.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class cached_property(functools.cached_property[T], Generic[T]):  # noqa: N801, TID251  it is used as Python's own
    """functools.cached_property without its lock."""

    def __init__(self, func: Callable[[Any], T]) -> None:
        super().__init__(func)
        self.lock = nullcontext()
