"""How many pairs of conversations share a window, for any number of conversations in bounded memory.

Windows are hashed into a file aside, which is split into parts; these are sorted one after the other, and the groups of
conversations that share a window are written to another file. Conversations of the very same groups are one class: they
share windows with each other and with the same others. Then each class looks up its groups and counts the later classes
in them.

Memory holds a part of a file at a time, the largest group or class, and one byte for each conversation. What else is
known of each conversation lies in mapped files, whose pages the system takes back when it needs them.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from refaug.core.files import make_folder, remove_tree, storage_errors, unique_suffix
from refaug.extras.conversations.metrics.variety import Overlap

# ── Groups of conversations that share a window, in a file: written one behind the other, read in order or by place ───

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


# ── How many pairs of conversations share a window, for any number of conversations in bounded memory ─────────────────

_ROW: Final = np.dtype([("hash", "<u8"), ("conversation", "<u4")])
_BUFFERED: Final = 1 << 13  # rows before they are written
_PART: Final = 1 << 14  # rows that are sorted at a time

Rows = NDArray[np.void]


class SharedWindows:
    """Counts the pairs of conversations that share a window of one length; a context manager, for its files."""

    def __init__(self, folder: Path, window: int) -> None:
        self.window, self.conversations = window, 0
        self._folder = folder / f"self-play-windows-{unique_suffix()}"
        make_folder(folder)
        make_folder(self._folder)
        self._file = (self._folder / "windows").open("w+b")
        self._hashes, self._holders, self._rows = array("Q"), array("L"), 0
        self._overlap: Overlap | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        self._file.close()
        remove_tree(self._folder)

    def add(self, hashes: Sequence[bytes]) -> None:
        """Add a conversation by the hashes of its utterances."""
        windows = {
            int.from_bytes(blake2b(b"".join(hashes[first : first + self.window]), digest_size=8).digest(), "little")
            for first in range(len(hashes) - self.window + 1)
        }
        self._hashes.extend(windows)
        self._holders.extend([self.conversations] * len(windows))
        self.conversations += 1
        if len(self._hashes) >= _BUFFERED:
            self._write()

    def _write(self) -> None:
        rows = np.empty(len(self._hashes), _ROW)
        rows["hash"], rows["conversation"] = self._hashes, self._holders
        with storage_errors(self._folder):
            self._file.write(rows.tobytes())
        self._rows += len(rows)
        self._hashes, self._holders = array("Q"), array("L")

    def overlap(self) -> Overlap:
        """Return how many of all pairs share a window; it is counted at the first call, after the last `add`."""
        if self._overlap is None:
            self._write()
            self._overlap = Overlap(self.window, self._pairs(), self.conversations * (self.conversations - 1) // 2)
        return self._overlap

    def _pairs(self) -> int:
        """Return how many pairs of conversations share a window."""
        groups = GroupFile(self._folder / "groups")
        classes = GroupFile(self._folder / "classes")
        try:
            for members, sizes in self._shared():
                groups.append(members, sizes)
            class_of, class_sizes = self._classes(groups)
            for members, sizes in _of_classes(groups, class_of):
                classes.append(members, sizes)
            holdings = HoldingFiles(self._folder / "of-classes", classes, self.conversations, self._rows, _PART)
            return _pairs_in_classes(class_sizes) + _pairs_of_classes(classes, holdings, class_sizes)
        finally:
            groups.close()
            classes.close()

    def _shared(self) -> Iterator[tuple[Numbers, Places]]:
        """Yield the conversations of each window that several have, and how many they are, part after part."""
        for part in self._parts():
            rows = part[np.lexsort((part["conversation"], part["hash"]))]
            borders = np.flatnonzero(np.diff(rows["hash"])) + 1
            counts = np.diff(np.concatenate(([0], borders, [len(rows)])))
            shared = np.repeat(counts > 1, counts)
            yield rows["conversation"][shared].astype(np.uint32), counts[counts > 1].astype(np.int64)

    def _parts(self) -> Iterator[Rows]:
        """Yield all rows in parts, those of one hash together; each part is a file while it is not read."""
        count = max(1, -(-self._rows // _PART))
        for rows in self._blocks():
            parts = rows["hash"] % np.uint64(count)
            order = np.argsort(parts, kind="stable")
            numbers, firsts = np.unique(parts[order], return_index=True)
            for number, rows_of_part in zip(numbers.tolist(), np.split(rows[order], firsts[1:]), strict=True):
                path = self._folder / f"part-{number}"
                with storage_errors(path), path.open("ab") as file:
                    file.write(rows_of_part.tobytes())
        for number in range(count):
            path = self._folder / f"part-{number}"
            if path.exists():
                yield np.fromfile(path, _ROW)
                path.unlink()

    def _blocks(self) -> Iterator[Rows]:
        """Yield the rows as they were written."""
        self._file.flush()
        self._file.seek(0)
        while content := self._file.read(_PART * _ROW.itemsize):
            yield np.frombuffer(content, _ROW)

    def _classes(self, groups: GroupFile) -> tuple[Numbers, Numbers]:
        """Return the class of each conversation, which is its first one, and the size of each class at its place.

        Conversations that no group has are of no class: their sizes are 0.
        """
        signatures = self._mapped("signatures", np.uint64)
        holdings = HoldingFiles(self._folder / "of-conversations", groups, self.conversations, self._rows, _PART)
        for conversation, places in holdings.places():
            digest = blake2b(places.tobytes(), digest_size=8).digest()
            signatures[conversation] = int.from_bytes(digest, "little") or 1
        class_of, sizes = self._mapped("class-of", np.uint32), self._mapped("class-sizes", np.uint32)
        parts = max(1, -(-self.conversations // _PART))
        for part in range(parts):
            members = _members_of(signatures, part, parts)
            found = np.asarray(signatures[members])
            order = np.argsort(found, kind="stable")
            members, found = members[order], found[order]
            firsts = np.flatnonzero(np.diff(found, prepend=np.uint64(0)))
            counts = np.diff(np.append(firsts, len(members)))
            class_of[members] = np.repeat(members[firsts], counts)
            sizes[members[firsts]] = counts
        return class_of, sizes

    def _mapped(self, name: str, kind: type[np.unsignedinteger[Any]]) -> NDArray[Any]:
        """Return zeros, one for each conversation, in a mapped file."""
        if not self.conversations:
            return np.zeros(0, kind)
        path = self._folder / name
        with storage_errors(path), path.open("wb") as file:  # a memory map cannot report a full disk
            os.posix_fallocate(file.fileno(), 0, self.conversations * np.dtype(kind).itemsize)
        return np.memmap(path, kind, "r+", shape=self.conversations)


def _members_of(signatures: NDArray[np.uint64], part: int, parts: int) -> Numbers:
    """Return the conversations, in order, whose signature belongs to a part; those of no group have none."""
    pieces = [np.zeros(0, np.uint32)]
    for first in range(0, len(signatures), _PART):
        block = np.asarray(signatures[first : first + _PART])
        is_member = (block != 0) & (block % np.uint64(parts) == part)
        pieces.append((np.flatnonzero(is_member) + first).astype(np.uint32))
    return np.concatenate(pieces)


def _pairs_in_classes(sizes: Numbers) -> int:
    """Return how many pairs of conversations are of one class."""
    pairs = 0
    for first in range(0, len(sizes), _PART):
        within = sizes[first : first + _PART].astype(np.int64)
        pairs += int((within * (within - 1) // 2).sum())
    return pairs


def _of_classes(groups: GroupFile, class_of: Numbers) -> Iterator[tuple[Numbers, Places]]:
    """Yield the groups with classes instead of conversations, those that have several."""
    for members, sizes, _ in groups.blocks(_PART):
        number = np.repeat(np.arange(len(sizes)), sizes)
        classes = np.asarray(class_of[members])
        order = np.lexsort((classes, number))
        number, classes = number[order], classes[order]
        is_new = np.ones(len(classes), np.bool_)
        is_new[1:] = (np.diff(number) != 0) | (np.diff(classes.astype(np.int64)) != 0)
        counts = np.bincount(number[is_new], minlength=len(sizes))
        is_several = counts > 1
        yield classes[is_new][is_several[number[is_new]]], counts[is_several].astype(np.int64)


def _pairs_of_classes(classes: GroupFile, holdings: HoldingFiles, sizes: Numbers) -> int:
    """Count the pairs of conversations of two classes that stand together in some group, each pair once."""
    pairs, is_marked = 0, np.zeros(len(sizes), np.bool_)
    for number, places in holdings.places():
        few, count = list[Numbers](), 0  # partners, as long as they are few
        for place in places.tolist():
            members = classes.group(place)
            few.append(members[np.searchsorted(members, number, side="right") :])
            count += len(few[-1])
            if count > len(sizes) // 16:
                for partners in few:
                    is_marked[partners] = True
                few.clear()
        if count > len(sizes) // 16:
            of_partners = int(np.sum(sizes, dtype=np.int64, where=is_marked))
            is_marked[:] = False
        else:
            of_partners = int(sizes[np.unique(np.concatenate(few))].sum(dtype=np.int64))
        pairs += int(sizes[number]) * of_partners
    return pairs
