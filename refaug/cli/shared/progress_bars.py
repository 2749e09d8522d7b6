"""Bars of rich on a terminal."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from refaug.cli.shared.output import format_amount
from refaug.core.text.normalisation import make_printable


class ProgressBars:
    """Draws a bar of rich for each stage."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._bars = Progress(
            SpinnerColumn(finished_text="✓"),
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            _Amounts(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=self._console,
        )
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is None:
            self._end()
        self._bars.stop()

    def stage(self, name: str, total: int | None = None, unit: str = "") -> None:
        """Add a bar below the others."""
        self._end()
        self._task = self._bars.add_task(name, total=total, unit=unit)

    def advance(self, amount: int) -> None:
        """Move the bar."""
        if self._task is not None:
            self._bars.advance(self._task, amount)

    def warn(self, message: str) -> None:
        """Print a warning above the bars."""
        self._bars.console.print(f"warning: {make_printable(message)}", style="yellow", markup=False, highlight=False)

    def say(self, message: str) -> None:
        """Print a message above the bars."""
        self._bars.console.print(make_printable(message), markup=False, highlight=False)

    def _end(self) -> None:
        if self._task is not None:
            task = self._bars.tasks[self._task]
            self._bars.update(self._task, total=task.total or 1, completed=task.total or 1)


class _Amounts(ProgressColumn):
    """Renders `12.3 MB of 93.4 MB`, and nothing where no total is known."""

    def render(self, task: Task) -> Text:
        unit = task.fields.get("unit", "")
        if not unit or not task.total:
            return Text("")
        return Text(f"{format_amount(int(task.completed), unit)} of {format_amount(int(task.total), unit)}")
