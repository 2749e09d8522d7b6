"""How far a long call is: a bar where somebody looks, lines where a file or a pipe does, or a function of one's own."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Callable, Optional, Union

from ._errors import Usage

Progress = Union[None, bool, Callable[[int, Optional[int]], object]]

_EVERY_S = 5.0  # between two lines in a file
_REDRAW_S = 0.1  # between two of a terminal


class Reporter:
    """Is told what was done, and tells nobody; the other kinds do."""

    def __init__(self, total: Optional[int] = None, what: str = "") -> None:
        self.total, self.what, self.done = total, what, 0

    def stage(self, what: str, total: Optional[int] = None) -> None:
        """Something else begins."""
        self.what, self.total, self.done = what, total, 0
        self._show(is_new=True)

    def advance(self, count: int) -> None:
        """So many more are done."""
        self.reach(self.done + count)

    def reach(self, done: int) -> None:
        """So many are done in all."""
        if done != self.done:
            self.done = done
            self._show()

    def event(self, kind: str, data: Mapping[str, Any]) -> None:
        """Something happened to a job."""
        total = data.get("total")
        if kind == "stage" or (kind == "progress" and str(data.get("stage", "")) != self.what):
            self.stage(str(data.get("stage", "")), total if isinstance(total, int) else None)
        if kind == "progress" and isinstance(data.get("done"), int):
            self.reach(data["done"])

    def close(self) -> None:
        """Nothing more comes."""

    def _show(self, *, is_new: bool = False) -> None:
        del is_new

    def __enter__(self) -> Reporter:  # noqa: PYI034  Self is of 3.11
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], where: Optional[TracebackType]
    ) -> None:
        self.close()


class _Told(Reporter):
    """Calls a function with how many are done, and of how many; None where that is not known."""

    def __init__(self, tell: Callable[[int, Optional[int]], object], total: Optional[int], what: str) -> None:
        super().__init__(total, what)
        self._tell = tell

    def _show(self, *, is_new: bool = False) -> None:
        del is_new
        self._tell(self.done, self.total)


class _Lines(Reporter):
    """Lines on stderr, a few of them; on a terminal one line that changes."""

    def __init__(self, total: Optional[int], what: str, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(total, what)
        self._file: Any = sys.stderr or _Nowhere()
        self._clock = clock
        self._began, self._shown_at = clock(), float("-inf")
        self._is_terminal = _is_terminal(self._file)
        self._last = ""

    def stage(self, what: str, total: Optional[int] = None) -> None:
        """The clock begins again."""
        self._end_line()
        self._began = self._clock()
        super().stage(what, total)

    def close(self) -> None:
        """The last line, if it has not been written yet."""
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
        except (OSError, ValueError):  # nobody reads it any more: no reason to stop the work
            self._file = _Nowhere()

    def line(self) -> str:
        """Where it is, in words."""
        seconds = f"{self._clock() - self._began:,.0f} s"
        if self.total:
            return f"{self.what}: {self.done:,} of {self.total:,} ({100 * self.done / self.total:.0f} %), {seconds}"
        return f"{self.what}: {self.done:,}, {seconds}" if self.done else f"{self.what} …"


class _Nowhere:
    """A file that nobody reads."""

    def write(self, text: str) -> None:
        """Let it go."""

    def flush(self) -> None:
        """There is nothing."""


class _Rich(Reporter):
    """The bar of rich."""

    def __init__(self, rich: Any, console: Any, total: Optional[int], what: str) -> None:
        super().__init__(total, what)
        self._bar = rich.Progress(console=console, transient=False)
        self._bar.start()
        self._task = self._bar.add_task(what, total=total)

    def _show(self, *, is_new: bool = False) -> None:
        if is_new:
            self._bar.reset(self._task, description=self.what, total=self.total)
        self._bar.update(self._task, completed=self.done)

    def close(self) -> None:
        """Give the terminal back."""
        self._bar.stop()


class _Tqdm(Reporter):
    """The bar of tqdm."""

    def __init__(self, tqdm: Any, total: Optional[int], what: str) -> None:
        super().__init__(total, what)
        self._tqdm = tqdm
        self._bar = self._made()

    def _made(self) -> Any:
        return self._tqdm(total=self.total, desc=self.what or None, file=sys.stderr, dynamic_ncols=True)

    def _show(self, *, is_new: bool = False) -> None:
        if is_new:
            self._bar.close()
            self._bar = self._made()
        self._bar.update(self.done - self._bar.n)

    def close(self) -> None:
        """Give the terminal back."""
        self._bar.close()


def reporter(progress: Progress, total: Optional[int], what: str) -> Reporter:
    """Who is told: nobody, a function, or whoever looks at stderr."""
    if progress is None or progress is False:
        return Reporter(total, what)
    if progress is True:
        return _shown(total, what)
    if callable(progress):
        return _Told(progress, total, what)
    raise Usage(f"progress={progress!r} is nothing that can be told", remedy="True, or a function of done and total")


def _shown(total: Optional[int], what: str) -> Reporter:
    """A bar of a library that is there, on a terminal; lines anywhere else."""
    if _is_terminal(sys.stderr):
        try:
            import rich.console  # noqa: PLC0415  only for those who look
            import rich.progress  # noqa: PLC0415

            return _Rich(rich.progress, rich.console.Console(file=sys.stderr), total, what)
        except ImportError:
            pass
        try:
            from tqdm import tqdm  # type: ignore[import-untyped,unused-ignore]  # noqa: PLC0415

            return _Tqdm(tqdm, total, what)
        except ImportError:
            pass
    return _Lines(total, what)


def _is_terminal(file: Any) -> bool:
    try:
        return bool(file.isatty())
    except (AttributeError, ValueError):
        return False


def size_of(items: Any) -> Optional[int]:
    """How many there are, where that can be told without reading them."""
    try:
        return len(items)
    except TypeError:
        return None
