"""Progress reports of long work: the command line draws them, a job records them, a test collects them."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Receives stages one after the other, each with a total if it is known, and warnings for the user."""

    def stage(self, name: str, total: int | None = None, unit: str = "") -> None:
        """Begin a new stage; the one before is done."""

    def advance(self, amount: int) -> None:
        """Report that so much of the current stage's total is done."""

    def warn(self, message: str) -> None:
        """Report a problem that does not stop the work."""


class Silent:
    """Ignores all progress reports."""

    def stage(self, name: str, total: int | None = None, unit: str = "") -> None:
        """Do nothing."""

    def advance(self, amount: int) -> None:
        """Do nothing."""

    def warn(self, message: str) -> None:
        """Do nothing."""


class Watched(Silent):
    """Counts nothing in another progress, but lets it stop the work."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def advance(self, amount: int) -> None:
        """Report no more than that the work goes on."""
        del amount
        self._progress.advance(0)
