"""How long work tells where it is; the command line draws it, a job writes it down, a test listens."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Stages one after the other, each with a total where it is known; and things the user should know."""

    def stage(self, name: str, total: int | None = None, unit: str = "") -> None:
        """A new stage begins; the one before is done."""

    def advance(self, amount: int) -> None:
        """So much of the current stage's total is done."""

    def warn(self, message: str) -> None:
        """Something is not as it should be, and the work goes on."""


class Silent:
    """Nobody is listening."""

    def stage(self, name: str, total: int | None = None, unit: str = "") -> None:
        """Say nothing."""

    def advance(self, amount: int) -> None:
        """Say nothing."""

    def warn(self, message: str) -> None:
        """Say nothing."""
