"""Groups of conversations that share a window, in a file: written one behind the other, read in order or by place.

A group lies in the file as its size and its members, four bytes each; its place is where its size stands, counted in
such numbers. Memory holds one block at a time, and never more than the largest group.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from refaug.core.files import make_folder
from refaug.core.full_disk import storage_errors

Numbers = NDArray[np.uint32]
Places = NDArray[np.int64]

HOLDING: Final = np.dtype([("conversation", "<u4"), ("place", "<i8")])  # a conversation, and a group that has it
_NUMBER: Final = np.dtype("<u4")
_AT_ONCE: Final = 256  # numbers that are read before it is known how large a group is
_SIZES: Final = 1 << 12  # of groups that are read at a time

Holdings = NDArray[np.void]


class GroupFile:
    """A file of groups; it is closed with `close` and removed with its folder."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file, self._sizes = path.open("w+b"), path.with_suffix(".sizes").open("w+b")
        self._end = 0

    def close(self) -> None:
        """Close the files."""
        self._file.close()
        self._sizes.close()

    def append(self, members: Numbers, sizes: Places) -> None:
        """Write groups: their members one behind the other, and how many each has."""
        if not len(sizes):
            return
        content = np.empty(len(members) + len(sizes), _NUMBER)
        heads = np.cumsum(sizes + 1) - (sizes + 1)
        content[heads] = sizes
        content[_is_member(len(content), heads)] = members
        with storage_errors(self._path):
            self._file.write(content.tobytes())
            self._sizes.write(sizes.astype(_NUMBER).tobytes())
        self._end += len(content)

    def blocks(self, most: int) -> Iterator[tuple[Numbers, Places, Places]]:
        """Yield members, sizes and places of whole groups, about `most` members at a time."""
        self._flush()
        self._sizes.seek(0)
        self._file.seek(0)
        place = 0
        while sizes_read := self._sizes.read(_SIZES * _NUMBER.itemsize):
            sizes = np.frombuffer(sizes_read, _NUMBER).astype(np.int64)
            while len(sizes):
                count = max(1, int(np.searchsorted(np.cumsum(sizes), most, side="right")))
                own, sizes = sizes[:count], sizes[count:]
                length = int(own.sum()) + count
                content = np.frombuffer(self._file.read(length * _NUMBER.itemsize), _NUMBER)
                heads = np.cumsum(own + 1) - (own + 1)
                yield content[_is_member(length, heads)], own, heads + place
                place += length

    def group(self, place: int) -> Numbers:
        """Return the members of the group at a place."""
        content = np.frombuffer(self._read(place, _AT_ONCE), _NUMBER)
        size = int(content[0])
        if size < len(content):
            return content[1 : 1 + size]
        rest = np.frombuffer(self._read(place + len(content), size + 1 - len(content)), _NUMBER)
        return np.concatenate((content[1:], rest))

    def holdings(self, most: int) -> Iterator[Holdings]:
        """Yield each member of each group with the group's place, in the order of the file."""
        for members, sizes, places in self.blocks(most):
            rows = np.empty(len(members), HOLDING)
            rows["conversation"], rows["place"] = members, np.repeat(places, sizes)
            yield rows

    def _read(self, place: int, count: int) -> bytes:
        return os.pread(self._file.fileno(), count * _NUMBER.itemsize, place * _NUMBER.itemsize)

    def _flush(self) -> None:
        with storage_errors(self._path):
            self._file.flush()
            self._sizes.flush()


class HoldingFiles:
    """Conversations with the groups that have them, ordered by conversation: in files, each for a range of them."""

    def __init__(self, folder: Path, groups: GroupFile, conversations: int, rows: int, most: int) -> None:
        self._folder, self._ranges = folder, max(1, -(-rows // most))
        self._width = max(1, -(-conversations // self._ranges))
        make_folder(folder)
        for holdings in groups.holdings(most):
            ranges = holdings["conversation"] // self._width
            order = np.argsort(ranges, kind="stable")
            numbers, firsts = np.unique(ranges[order], return_index=True)
            for number, rows_of_range in zip(numbers.tolist(), np.split(holdings[order], firsts[1:]), strict=True):
                path = folder / str(number)
                with storage_errors(path), path.open("ab") as file:
                    file.write(rows_of_range.tobytes())

    def places(self) -> Iterator[tuple[int, Places]]:
        """Yield each conversation that some group has, in order, with the places of its groups, in order."""
        for number in range(self._ranges):
            path = self._folder / str(number)
            if not path.exists():
                continue
            rows = np.fromfile(path, HOLDING)
            rows = rows[np.lexsort((rows["place"], rows["conversation"]))]
            conversations, firsts = np.unique(rows["conversation"], return_index=True)
            ends = np.append(firsts[1:], len(rows)).tolist()
            places = np.ascontiguousarray(rows["place"])
            for conversation, first, end in zip(conversations.tolist(), firsts.tolist(), ends, strict=True):
                yield conversation, places[first:end]


def _is_member(length: int, heads: Places) -> NDArray[np.bool_]:
    mask = np.ones(length, np.bool_)
    mask[heads] = False
    return mask
