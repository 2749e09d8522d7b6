"""The line in which a text was seen first, for files of so many ids that they would fill the memory as objects."""

from __future__ import annotations

from array import array
from hashlib import blake2b
from typing import Final

_LEAST_SLOTS: Final = 1 << 10
_NO_LINE: Final = 0


class SeenLines:
    """The line in which each text was first seen, by a hash of the text: an entry takes from 36 to 72 bytes.

    The hash has 128 bits, so two different texts have one hash in no file that a disk holds.
    """

    def __init__(self) -> None:
        self._count = 0
        self._resize(_LEAST_SLOTS)

    def __len__(self) -> int:
        return self._count

    def first(self, text: str, line: int) -> int | None:
        """Return the line in which the text was seen before; where it is new, remember its line and return None."""
        digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        high, low = int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:], "little")
        slot = self._slot(high, low)
        if self._lines[slot] != _NO_LINE:
            return self._lines[slot] - 1
        self._put(slot, high, low, line + 1)
        self._count += 1
        if 3 * self._count > 2 * len(self._lines):
            self._grow()
        return None

    def _slot(self, high: int, low: int) -> int:
        """Return the slot of a hash, or the empty one where it belongs."""
        highs, lows, lines, last = self._highs, self._lows, self._lines, len(self._lines) - 1
        slot = low & last
        while lines[slot] != _NO_LINE and not (lows[slot] == low and highs[slot] == high):
            slot = (slot + 1) & last
        return slot

    def _put(self, slot: int, high: int, low: int, line: int) -> None:
        self._highs[slot], self._lows[slot], self._lines[slot] = high, low, line

    def _resize(self, slots: int) -> None:
        self._highs, self._lows, self._lines = (array(kind, bytes(8 * slots)) for kind in "QQQ")

    def _grow(self) -> None:
        highs, lows, lines = self._highs, self._lows, self._lines
        self._resize(2 * len(lines))
        for high, low, line in zip(highs, lows, lines, strict=True):
            if line != _NO_LINE:
                self._put(self._slot(high, low), high, low, line)
