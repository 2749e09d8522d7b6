"""Changes of what serves, reported when they happen; an observer notes them, also when the work fails afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final


@dataclass(frozen=True, kw_only=True)
class Change:
    """One change: a version was published or removed, a set withdrawn, something erased."""

    action: str
    subject: str
    details: Mapping[str, Any] = field(default_factory=dict)


_observer: Final[ContextVar[Callable[[Change], None] | None]] = ContextVar("observer of changes", default=None)


@contextmanager
def observing_changes(observe: Callable[[Change], None]) -> Iterator[None]:
    """Call `observe` with every change of this thread until the block ends."""
    token = _observer.set(observe)
    try:
        yield
    finally:
        _observer.reset(token)


def report_change(action: str, subject: str, **details: Any) -> None:
    """Report a change to the observer, if this thread has one."""
    observe = _observer.get()
    if observe is not None:
        observe(Change(action=action, subject=subject, details=details))
