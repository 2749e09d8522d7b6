"""Progress that keeps what it was told, and progress that interrupts the work."""

from __future__ import annotations

from refaug.core.progress import Silent


class Told(Silent):
    """Keeps stages, what was done of them, and warnings."""

    def __init__(self) -> None:
        self.stages, self.done, self.warnings = list[tuple[str, int | None, str]](), 0, list[str]()

    def stage(self, name: str, total: int | None = None, unit: str = "") -> None:
        self.stages.append((name, total, unit))

    def advance(self, amount: int) -> None:
        self.done += amount

    def warn(self, message: str) -> None:
        self.warnings.append(message)


class Interrupting(Silent):
    """Interrupts the work when so many stages have begun."""

    def __init__(self, stages: int) -> None:
        self.left = stages

    def stage(self, name: str, total: int | None = None, unit: str = "") -> None:
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt(name)
