"""A table of numbers in a piece of memory: one process writes it, and others may read it at the same time.

    bytes 0–7      how many bytes are in use
    bytes 8–15     the id of the process that writes, 0 for none
    then series    length of the key, count of numbers, the key (JSON, padded to 8 bytes), the numbers (float64)

A series is written before the count that makes it visible, and a number is one aligned store: a reader sees whole
numbers, and a process that is killed leaves a readable table, which the next one goes on with.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Self

import orjson

Series = tuple[str, ...]  # the name of a figure and the values of its labels

_WORD: Final = 8
_USED, _PROCESS, _FIRST = 0, 1, 2  # places in the memory, in words

log = logging.getLogger(__name__)


class FigureTable:
    """Series of numbers in memory of a fixed size; a series that has no room is not counted."""

    def __init__(self, memory: memoryview) -> None:
        self._memory, self._integers, self._numbers = memory, memory.cast("q"), memory.cast("d")
        self._lock = threading.Lock()
        self._is_full = False
        self._places = {series: place for series, place, _ in self._series()}

    @classmethod
    def empty(cls, memory: memoryview) -> Self:
        """Make a table in memory that holds zeros."""
        memory.cast("q")[_USED] = _FIRST * _WORD
        return cls(memory)

    @property
    def process(self) -> int:
        """The id of the process that writes this table, 0 for none."""
        return self._integers[_PROCESS]

    @process.setter
    def process(self, process: int) -> None:
        self._integers[_PROCESS] = process

    def add(self, series: Series, length: int, amounts: Iterable[tuple[int, float]]) -> None:
        """Add amounts to some numbers of a series, which has `length` of them."""
        with self._lock:
            place = self._place_of(series, length)
            if place is None:
                return
            for number, amount in amounts:
                self._numbers[place + number] += amount

    def set(self, series: Series, amount: float) -> None:
        """Set the only number of a series."""
        with self._lock:
            place = self._place_of(series, 1)
            if place is not None:
                self._numbers[place] = amount

    def clear(self, names: Sequence[str]) -> None:
        """Set all numbers of some figures to 0."""
        for (name, *_), place, length in self._series():
            if name in names:
                for number in range(place, place + length):
                    self._numbers[number] = 0.0

    def read(self) -> Iterator[tuple[Series, list[float]]]:
        """Yield every series with its numbers at this moment."""
        for series, place, length in self._series():
            yield series, list(self._numbers[place : place + length])

    def _place_of(self, series: Series, length: int) -> int | None:
        place = self._places.get(series)
        if place is None and not self._is_full:
            place = self._append(series, length)
        return place

    def _append(self, series: Series, length: int) -> int | None:
        """Make room for a series and return the place of its first number; None where the memory is full."""
        key = orjson.dumps(series)
        begin = self._integers[_USED]
        numbers_at = begin + 2 * _WORD + len(key) + -len(key) % _WORD
        end = numbers_at + length * _WORD
        if end > len(self._memory):
            self._is_full = True
            log.warning("no room for more figures", extra={"figure": series[0]})
            return None
        self._integers[begin // _WORD], self._integers[begin // _WORD + 1] = len(key), length
        self._memory[begin + 2 * _WORD : begin + 2 * _WORD + len(key)] = key
        self._memory[numbers_at:end] = bytes(length * _WORD)
        self._integers[_USED] = end
        self._places[series] = numbers_at // _WORD
        return numbers_at // _WORD

    def _series(self) -> Iterator[tuple[Series, int, int]]:
        """Yield each series, the place of its first number in words, and how many it has."""
        at, end = _FIRST * _WORD, self._integers[_USED]
        while at < end:
            size, length = self._integers[at // _WORD], self._integers[at // _WORD + 1]
            key = bytes(self._memory[at + 2 * _WORD : at + 2 * _WORD + size])
            numbers_at = at + 2 * _WORD + size + -size % _WORD
            yield tuple(orjson.loads(key)), numbers_at // _WORD, length
            at = numbers_at + length * _WORD
