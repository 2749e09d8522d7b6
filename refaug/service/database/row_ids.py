"""Ids of rows that sort by the time at which they were made, and cannot be guessed."""

from __future__ import annotations

import functools
import re
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from refaug.core.files import make_folder, unique_suffix
from refaug.core.home import Settings
from refaug.core.processes.live_file import LiveFile

_DIGITS: Final = "0123456789abcdefghjkmnpqrstvwxyz"  # in byte order; without i, l, o, u
_TIME_DIGITS: Final = 12  # microseconds: enough for 36,000 years
_CHANCE_DIGITS: Final = 14  # 70 bits
_ID: Final = re.compile(f"[{_DIGITS}]{{{_TIME_DIGITS + _CHANCE_DIGITS}}}")


class _Ids:
    """Ids in the order in which this process makes them, even if the clock stands still or goes back."""

    def __init__(self) -> None:
        self._lock, self._last = threading.Lock(), 0

    def new(self, after: str = "") -> str:
        """Return a new id, larger than another one, which another process may have made."""
        with self._lock:
            self._last = max(time.time_ns() // 1000, self._last + 1, _moment_of(after) + 1)
            moment = self._last
        return _digits(moment, _TIME_DIGITS) + _digits(secrets.randbits(5 * _CHANCE_DIGITS), _CHANCE_DIGITS)


def is_row_id(text: str) -> bool:
    """Return whether a text can be an id; PostgreSQL refuses queries with some texts."""
    return _ID.fullmatch(text) is not None


def _moment_of(row_id: str) -> int:
    """Return the time in an id; 0 where it is none."""
    digits = row_id[:_TIME_DIGITS] if is_row_id(row_id) else ""
    return functools.reduce(lambda number, digit: number << 5 | _DIGITS.index(digit), digits, 0)


def _digits(number: int, count: int) -> str:
    return "".join(_DIGITS[number >> 5 * place & 31] for place in reversed(range(count)))


new_row_id: Final = _Ids().new


# ── Names under which live processes hold rows: a job that runs, a request that is being answered ─────────────────────
#
# <home>/workers/<name>.lock    a live file of the process with that name

_SUFFIX: Final = ".lock"


class RowHolders:
    """The names of a home, each held by one process for the time of one block."""

    def __init__(self, home: Settings) -> None:
        self._folder = home.home / "workers"

    @contextmanager
    def hold(self) -> Iterator[str]:
        """Hold a new name; other processes see whether this one is still in the block."""
        name = unique_suffix()
        make_folder(self._folder)
        with LiveFile(self._path(name)):
            yield name

    def is_held(self, name: str) -> bool:
        """Return whether the process with this name is still in its block."""
        return LiveFile.is_live(self._path(name))

    def remove_dead(self) -> None:
        """Remove the files of killed processes."""
        for _ in LiveFile.read_all(self._folder, _SUFFIX):
            pass

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}{_SUFFIX}"
