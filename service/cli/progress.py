"""Progress on stderr: bars on a terminal, plain lines in a pipe."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Final, Protocol, Self

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

from core.progress import Progress as CoreProgress
from core.text import harmless

_LINE_EVERY_S: Final = 5.0


class ShownProgress(CoreProgress, Protocol):
    """Progress that is drawn while its block runs."""

    def __enter__(self) -> Self:
        """Begin to draw."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Leave the screen tidy."""

    def say(self, message: str) -> None:
        """Something worth knowing on the way."""


def shown_progress(*, quiet: bool = False) -> ShownProgress:
    """Whatever suits where stderr goes."""
    if quiet:
        return Quiet()
    return Bars() if sys.stderr.isatty() else Lines()


class Lines:
    """A line when a stage begins, one every few seconds, one when it ends."""

    def __init__(self) -> None:
        self._stage, self._total, self._unit = "", None, ""  # type: str, int | None, str
        self._done, self._began, self._shown = 0, 0.0, 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is None:
            self._end()

    def stage(self, name: str, total: int | None = None, unit: str = "") -> None:
        """End the stage before, begin this one."""
        self._end()
        self._stage, self._total, self._unit = name, total, unit
        self._done, self._began = 0, time.monotonic()
        self._shown = self._began

    def advance(self, amount: int) -> None:
        """Speak up when it has been quiet for a while."""
        self._done += amount
        moment = time.monotonic()
        if moment - self._shown >= _LINE_EVERY_S:
            self._shown = moment
            self._say(f"{self._stage}: {self._amount()}, {moment - self._began:.0f} s")

    def warn(self, message: str) -> None:
        """Say it at once."""
        self._say(f"warning: {harmless(message)}")

    def say(self, message: str) -> None:
        """Something worth knowing on the way."""
        self._say(harmless(message))

    def _end(self) -> None:
        if self._stage:
            self._say(f"{self._stage}: done in {time.monotonic() - self._began:.1f} s")
            self._stage = ""

    def _amount(self) -> str:
        done = amount(self._done, self._unit)
        return f"{done} of {amount(self._total, self._unit)}" if self._total else done

    @staticmethod
    def _say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)


class Quiet(Lines):
    """Warnings alone."""

    def stage(self, name: str, total: int | None = None, unit: str = "") -> None:
        """Say nothing."""

    def advance(self, amount: int) -> None:
        """Say nothing."""

    def say(self, message: str) -> None:
        """Say nothing."""


class Bars:
    """Rich's bars, one a stage."""

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
        """A new bar below the others."""
        self._end()
        self._task = self._bars.add_task(name, total=total, unit=unit)

    def advance(self, amount: int) -> None:
        """Move the bar."""
        if self._task is not None:
            self._bars.advance(self._task, amount)

    def warn(self, message: str) -> None:
        """Above the bars."""
        self._bars.console.print(f"warning: {harmless(message)}", style="yellow", markup=False, highlight=False)

    def say(self, message: str) -> None:
        """Above the bars."""
        self._bars.console.print(harmless(message), markup=False, highlight=False)

    def _end(self) -> None:
        if self._task is not None:
            task = self._bars.tasks[self._task]
            self._bars.update(self._task, total=task.total or 1, completed=task.total or 1)


class _Amounts(ProgressColumn):
    """`12.3 MB of 93.4 MB`, nothing where no total is known."""

    def render(self, task: Task) -> Text:
        unit = task.fields.get("unit", "")
        if not unit or not task.total:
            return Text("")
        return Text(f"{amount(int(task.completed), unit)} of {amount(int(task.total), unit)}")


def amount(number: int, unit: str) -> str:
    """A count with its unit; bytes in MB."""
    if unit == "B":
        return f"{number / 1e6:,.1f} MB"
    return f"{number:,} {unit}".rstrip()
