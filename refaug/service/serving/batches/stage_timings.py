"""How long the stages of a batch take: callbacks that hear of them, and moving averages."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, Protocol

log = logging.getLogger(__name__)

_SMOOTHING: Final = 0.3  # weight of the newest measurement in a moving average


class StageObserver(Protocol):
    """A callback for how long a stage (`queue`, `search`, `rate`, `score`) took, and for how many items."""

    def __call__(self, stage: str, seconds: float, items: int) -> None:
        """Record a stage that has ended."""


def moving_average(before: float, measured: float) -> float:
    """Return the expected value after a new measurement."""
    return before + _SMOOTHING * (measured - before)


def notify(listener: Callable[..., None] | None, *figures: object) -> None:
    """Call a listener of statistics; its failure does not fail the request."""
    if listener is not None:
        try:
            listener(*figures)
        except Exception:
            log.exception("not counted")
