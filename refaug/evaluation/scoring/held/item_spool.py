"""Items in a file without a name, read again block by block; the file is gone with the process, however it ends."""

from __future__ import annotations

import os
import tempfile
import weakref
from array import array
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from sys import intern
from types import MappingProxyType
from typing import Any, Final, overload

import orjson

from refaug.core.files import make_folder
from refaug.core.full_disk import storage_errors
from refaug.core.records import Item, Origin, Reference

BLOCK: Final = 500  # items that are read at once
_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
_ORIGINS: Final = tuple(Origin)
_NUMBERS: Final = {origin: number for number, origin in enumerate(_ORIGINS)}


class SpooledItems(Sequence[Item]):
    """Items in a file, as a sequence: a pass over it holds a block at a time, and so does a look at single items."""

    def __init__(self, folder: Path) -> None:
        self._where = folder
        make_folder(folder)
        with storage_errors(folder), tempfile.TemporaryFile(dir=folder) as file:
            self._file = os.dup(file.fileno())
        weakref.finalize(self, os.close, self._file)
        self._ends, self._lines, self._count = array("q", [0]), list[bytes](), 0
        self._held: tuple[int, list[Item]] | None = None

    def append(self, test_item: Item) -> None:
        """Add the next item; nothing is added after the first item was read."""
        self._lines.append(orjson.dumps(_row_of(test_item), option=orjson.OPT_APPEND_NEWLINE))
        self._count += 1
        if len(self._lines) == BLOCK:
            self.finish()

    def finish(self) -> None:
        """Write the items that wait for a block to be full."""
        if not self._lines:
            return
        content, self._lines = b"".join(self._lines), []
        with storage_errors(self._where):
            view = memoryview(content)
            while view:
                view = view[os.write(self._file, view) :]
        self._ends.append(self._ends[-1] + len(content))

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, place: int) -> Item: ...
    @overload
    def __getitem__(self, place: slice) -> list[Item]: ...
    def __getitem__(self, place: int | slice) -> Item | list[Item]:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        number = place + len(self) if place < 0 else place
        if not 0 <= number < len(self):
            raise IndexError(place)
        return self._block(number // BLOCK)[number % BLOCK]

    def __iter__(self) -> Iterator[Item]:
        for number in range(len(self._ends) - 1):
            yield from self._read(number)

    def _block(self, number: int) -> list[Item]:
        """Return a block; the last one is held, since items are asked for in order."""
        if self._held is None or self._held[0] != number:
            self._held = None
            self._held = number, self._read(number)
        return self._held[1]

    def _read(self, number: int) -> list[Item]:
        start, end = self._ends[number], self._ends[number + 1]
        content = bytearray()
        while len(content) < end - start:
            content += os.pread(self._file, end - start - len(content), start + len(content))
        return [_item_of(orjson.loads(line)) for line in content.splitlines()]


def _row_of(test_item: Item) -> list[Any]:
    """Return all fields of an item, in order."""
    return [
        test_item.id,
        test_item.turns,
        [
            [
                reference.text,
                _NUMBERS[reference.source],
                reference.weight,
                reference.similarity,
                reference.rating,
                reference.is_unused,
                reference.utterance,
                dict(reference.more),
            ]
            for reference in test_item.references
        ],
        test_item.dialogue,
        None if test_item.time is None else test_item.time.isoformat(),
        test_item.exclude,
        dict(test_item.replies),
        dict(test_item.ratings),
        test_item.scale,
        test_item.provenance,
        dict(test_item.reply_provenance),
        dict(test_item.search_notes),
    ]


def _item_of(row: Sequence[Any]) -> Item:
    """Return the item of its fields."""
    name, turns, references, dialogue, time, exclude, replies, ratings, scale, provenance, made_by, notes = row
    return Item(
        id=name,
        turns=tuple(turns),
        references=tuple(map(_reference_of, references)),
        dialogue=dialogue,
        time=None if time is None else datetime.fromisoformat(time),
        exclude=tuple(exclude),
        replies={intern(system): reply for system, reply in replies.items()},
        ratings={intern(system): tuple(numbers) for system, numbers in ratings.items()},
        scale=None if scale is None else (scale[0], scale[1]),
        provenance=intern(provenance),
        reply_provenance={intern(system): intern(line) for system, line in made_by.items()},
        search_notes=notes,
    )


def _reference_of(row: Sequence[Any]) -> Reference:
    text, origin, weight, similarity, rating, is_unused, utterance, more = row
    return Reference(
        text=text,
        source=_ORIGINS[origin],
        weight=weight,
        similarity=similarity,
        rating=rating,
        is_unused=is_unused,
        utterance=utterance,
        more=more or _NOTHING,
    )
