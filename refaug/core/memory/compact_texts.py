"""Many short texts, such as ids, in two buffers instead of an object each."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Final, overload


class CompactTexts(Sequence[str]):
    """Texts that are added one after the other and take their bytes and eight more each."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._content, self._ends = bytearray(), array("q", [0])
        for text in texts:
            self.append(text)

    def append(self, text: str) -> None:
        """Add the next text."""
        self._content += text.encode("utf-8", "surrogatepass")
        self._ends.append(len(self._content))

    def __len__(self) -> int:
        return len(self._ends) - 1

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        if isinstance(place, slice):
            return [self._text(each) for each in range(*place.indices(len(self)))]
        number = place + len(self) if place < 0 else place
        if not 0 <= number < len(self):
            raise IndexError(place)
        return self._text(number)

    def _text(self, number: int) -> str:
        return self._content[self._ends[number] : self._ends[number + 1]].decode("utf-8", "surrogatepass")

    def __iter__(self) -> Iterator[str]:
        for number in range(len(self)):
            yield self._text(number)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, CompactTexts):
            return self._ends == other._ends and self._content == other._content
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    @property
    def bytes(self) -> int:
        """The memory of the texts."""
        return len(self._content) + len(self._ends) * self._ends.itemsize


# ── The line in which a text was seen first, for files of so many ids that they would fill the memory as objects ──────

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
