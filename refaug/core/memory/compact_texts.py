"""Many short texts, such as ids, in two buffers instead of an object each."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import overload


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
