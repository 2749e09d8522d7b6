"""Progress on stderr: bars on a terminal, plain lines in a pipe."""

from __future__ import annotations

import logging
import sys
import time
from types import TracebackType
from typing import Final, Protocol, Self

from refaug.cli.shared.output import format_amount, print_aside
from refaug.core.progress import Progress as CoreProgress
from refaug.core.text.normalisation import make_printable

_LINE_EVERY_S: Final = 5.0
_COMPILING: Final = logging.getLogger("refaug.compiling")  # of core/kernels/compiler.py


class ProgressDisplay(CoreProgress, Protocol):
    """Progress that is drawn while its block runs."""

    def __enter__(self) -> Self:
        """Begin to draw."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Leave the screen tidy."""

    def say(self, message: str) -> None:
        """Print a message."""


def display_progress(*, quiet: bool = False) -> ProgressDisplay:
    """Return the display that suits stderr: bars, lines, or warnings alone."""
    display = _display(quiet=quiet)
    _COMPILING.handlers[:], _COMPILING.propagate = [_SaysOnce(display)], False
    _COMPILING.setLevel(logging.DEBUG)
    return display


def _display(*, quiet: bool) -> ProgressDisplay:
    if quiet:
        return QuietProgress()
    if not sys.stderr.isatty():
        return ProgressLines()
    from refaug.cli.shared.progress_bars import ProgressBars  # noqa: PLC0415  rich takes a moment, and a help needs none

    return ProgressBars()


class _SaysOnce(logging.Handler):
    """Says that loops are compiled, when the first one is."""

    def __init__(self, display: ProgressDisplay) -> None:
        super().__init__()
        self._display = display

    def emit(self, record: logging.LogRecord) -> None:
        """Print the line."""
        del record
        _COMPILING.handlers.clear()
        _COMPILING.setLevel(logging.CRITICAL)
        self._display.say("compiling loops: later runs find them compiled")


class ProgressLines:
    """Prints a line when a stage begins, every few seconds, and when it ends."""

    def __init__(self) -> None:
        self._stage, self._total, self._unit = "", None, ""  # type: str, int | None, str
        self._done, self._began, self._shown = 0, 0.0, 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is None:
            self._end()

    def stage(self, name: str, total: int | None = None, unit: str = "") -> None:
        """End the previous stage and begin this one."""
        self._end()
        self._stage, self._total, self._unit = name, total, unit
        self._done, self._began = 0, time.monotonic()
        self._shown = self._began

    def advance(self, amount: int) -> None:
        """Print a line when the last one is some seconds old."""
        self._done += amount
        moment = time.monotonic()
        if moment - self._shown >= _LINE_EVERY_S:
            self._shown = moment
            self._say(f"{self._stage}: {self._amount()}, {moment - self._began:.0f} s")

    def warn(self, message: str) -> None:
        """Print a warning."""
        self._say(f"warning: {make_printable(message)}")

    def say(self, message: str) -> None:
        """Print a message."""
        self._say(make_printable(message))

    def _end(self) -> None:
        if self._stage:
            self._say(f"{self._stage}: done in {time.monotonic() - self._began:.1f} s")
            self._stage = ""

    def _amount(self) -> str:
        done = format_amount(self._done, self._unit)
        return f"{done} of {format_amount(self._total, self._unit)}" if self._total else done

    @staticmethod
    def _say(line: str) -> None:
        print_aside(line)


class QuietProgress(ProgressLines):
    """Prints warnings alone."""

    def stage(self, name: str, total: int | None = None, unit: str = "") -> None:
        """Print nothing."""

    def advance(self, amount: int) -> None:
        """Print nothing."""

    def say(self, message: str) -> None:
        """Print nothing."""
