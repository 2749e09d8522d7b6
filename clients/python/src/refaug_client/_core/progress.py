"""The progress of a long call: a line on a terminal, lines in a file or pipe, or calls of the user's function."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Callable, Optional, Union

from .errors import Usage

Progress = Union[None, bool, Callable[[int, Optional[int]], object]]
_EVERY_S = 5.0  # between two lines in a file
_REDRAW_S = 0.1  # between two of a terminal


class Reporter:
    """Counts what is done and shows nothing; the subclasses show it."""

    def __init__(self, total: Optional[int] = None, stage_name: str = "") -> None:
        self.total, self.stage_name, self.done = total, stage_name, 0

    def stage(self, stage_name: str, total: Optional[int] = None) -> None:
        """Begin another stage."""
        self.stage_name, self.total, self.done = stage_name, total, 0
        self._show(is_new=True)

    def advance(self, count: int) -> None:
        """Count so many more as done."""
        self.reach(self.done + count)

    def reach(self, done: int) -> None:
        """Set how many are done in all."""
        if done != self.done:
            self.done = done
            self._show()

    def event(self, kind: str, event_data: Mapping[str, Any]) -> None:
        """Follow an event of a job."""
        total = event_data.get("total")
        if kind == "stage" or (kind == "progress" and str(event_data.get("stage", "")) != self.stage_name):
            self.stage(str(event_data.get("stage", "")), total if isinstance(total, int) else None)
        if kind == "progress" and isinstance(event_data.get("done"), int):
            self.reach(event_data["done"])

    def close(self) -> None:
        """End the report."""

    def _show(self, *, is_new: bool = False) -> None:
        del is_new

    def __enter__(self) -> Reporter:  # noqa: PYI034  Self is of 3.11
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], where: Optional[TracebackType]
    ) -> None:
        self.close()


class _CallbackReporter(Reporter):
    """Calls a function with how many are done, and of how many; None where that is not known."""

    def __init__(self, callback: Callable[[int, Optional[int]], object], total: Optional[int], stage_name: str) -> None:
        super().__init__(total, stage_name)
        self._callback = callback

    def _show(self, *, is_new: bool = False) -> None:
        del is_new
        self._callback(self.done, self.total)


class _LineReporter(Reporter):
    """Prints a few lines to stderr; on a terminal one line that changes."""

    def __init__(self, total: Optional[int], stage_name: str, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(total, stage_name)
        self._file: Any = sys.stderr or _NullFile()
        self._clock = clock
        self._began, self._shown_at = clock(), float("-inf")
        self._is_terminal = _is_terminal(self._file)
        self._last = ""

    def stage(self, what: str, total: Optional[int] = None) -> None:
        """End this stage and begin another one, and restart the clock."""
        self.close()
        self._began = self._clock()
        super().stage(what, total)

    def close(self) -> None:
        """Print the last line, if it has not been printed yet."""
        if self.done:
            self._write()
        self._end_line()

    def _show(self, *, is_new: bool = False) -> None:
        now = self._clock()
        if is_new or now - self._shown_at >= (_REDRAW_S if self._is_terminal else _EVERY_S):
            self._shown_at = now
            self._write()

    def _write(self) -> None:
        text = self.line()
        if text == self._last:
            return
        blank = " " * max(0, len(self._last) - len(text))
        self._print(f"\r{text}{blank}" if self._is_terminal else f"{text}\n")
        self._last = text

    def _end_line(self) -> None:
        if self._last and self._is_terminal:
            self._print("\n")
        self._last = ""

    def _print(self, text: str) -> None:
        try:
            self._file.write(text)
            self._file.flush()
        except (OSError, ValueError):  # stderr is closed: no reason to stop the work
            self._file = _NullFile()

    def line(self) -> str:
        """Return the progress in words."""
        seconds = f"{self._clock() - self._began:,.0f} s"
        if self.total:
            return (
                f"{self.stage_name}: {self.done:,} of {self.total:,} ({100 * self.done / self.total:.0f} %), {seconds}"
            )
        return f"{self.stage_name}: {self.done:,}, {seconds}" if self.done else f"{self.stage_name} …"


class _NullFile:
    """A file that drops what is written."""

    def write(self, text: str) -> None:
        """Drop the text."""

    def flush(self) -> None:
        """Do nothing."""


def make_reporter(progress: Progress, total: Optional[int], stage_name: str) -> Reporter:
    """Return the reporter that `progress` asks for: silent, the user's function, or stderr."""
    if progress is None or progress is False:
        return Reporter(total, stage_name)
    if progress is True:
        return _LineReporter(total, stage_name)
    if callable(progress):
        return _CallbackReporter(progress, total, stage_name)
    raise Usage(f"progress={progress!r} is nothing that can be told", remedy="True, or a function of done and total")


def _is_terminal(file: Any) -> bool:
    try:
        return bool(file.isatty())
    except (AttributeError, ValueError):
        return False


def size_of(items: Any) -> Optional[int]:
    """Return how many there are, where that is known without reading them."""
    try:
        return len(items)
    except TypeError:
        return None
