"""How many pairs of conversations share a window, for any number of conversations in bounded memory.

Windows are hashed into a file aside; parts of it are sorted one after the other, and the groups of conversations that
share a window are written to another. Conversations of the very same groups are one class: they share windows with each
other and with the same others. Then each class looks up its groups and counts the later classes in them.

Memory holds a part of a file at a time, and some 50 bytes for each conversation.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from refaug.core.files import make_folder, remove_tree, unique_suffix
from refaug.core.full_disk import storage_errors
from refaug.evaluation.selfplay.window_groups import GroupFile, HoldingFiles, Numbers, Places
from refaug.metrics.conversations.windows import Overlap

_ROW: Final = np.dtype([("hash", "<u8"), ("conversation", "<u4")])
_BUFFERED: Final = 1 << 13  # rows before they are written
_PART: Final = 1 << 17  # rows that are sorted at a time

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
            within = class_sizes.astype(np.int64)
            return int((within * (within - 1) // 2).sum()) + _pairs_of_classes(classes, holdings, class_sizes)
        finally:
            groups.close()
            classes.close()

    def _shared(self) -> Iterator[tuple[Numbers, Places]]:
        """Yield the conversations of each window that several have, and how many they are, part after part."""
        parts = max(1, -(-self._rows // _PART))
        for part in range(parts):
            rows = self._rows_of(part, parts)
            rows = rows[np.lexsort((rows["conversation"], rows["hash"]))]
            borders = np.flatnonzero(np.diff(rows["hash"])) + 1
            counts = np.diff(np.concatenate(([0], borders, [len(rows)])))
            shared = np.repeat(counts > 1, counts)
            yield rows["conversation"][shared].astype(np.uint32), counts[counts > 1].astype(np.int64)

    def _rows_of(self, part: int, parts: int) -> Rows:
        """Return the rows whose hash belongs to a part, read piece by piece."""
        self._file.flush()
        self._file.seek(0)
        pieces = list[Rows]()
        while content := self._file.read(_PART * _ROW.itemsize):
            rows = np.frombuffer(content, _ROW)
            pieces.append(rows[rows["hash"] % np.uint64(parts) == part])
        return np.concatenate(pieces) if pieces else np.zeros(0, _ROW)

    def _classes(self, groups: GroupFile) -> tuple[Numbers, Numbers]:
        """Return the class of each conversation, which is its first one, and the size of each class at its place.

        Conversations that no group has are of no class: their sizes are 0.
        """
        signatures = np.zeros(self.conversations, np.uint64)
        holdings = HoldingFiles(self._folder / "of-conversations", groups, self.conversations, self._rows, _PART)
        for conversation, places in holdings.places():
            digest = blake2b(places.tobytes(), digest_size=8).digest()
            signatures[conversation] = int.from_bytes(digest, "little") or 1
        class_of = np.zeros(self.conversations, np.uint32)
        sizes = np.zeros(self.conversations, np.uint32)
        order = np.argsort(signatures, kind="stable")
        firsts = np.flatnonzero(np.diff(signatures[order], prepend=np.uint64(0))) if len(order) else order
        counts = np.diff(np.append(firsts, len(order)))
        in_class = order[len(order) - int(counts.sum()) :]
        class_of[in_class] = np.repeat(order[firsts], counts)
        sizes[order[firsts]] = counts
        return class_of, sizes


def _of_classes(groups: GroupFile, class_of: Numbers) -> Iterator[tuple[Numbers, Places]]:
    """Yield the groups with classes instead of conversations, those that have several."""
    for members, sizes, _ in groups.blocks(_PART):
        number = np.repeat(np.arange(len(sizes)), sizes)
        classes = class_of[members]
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
        later = [members[np.searchsorted(members, number, side="right") :] for members in map(classes.group, places)]
        partners = np.concatenate(later)
        if len(partners) < len(sizes) // 16:
            sizes_of_partners = sizes[np.unique(partners)]
        else:
            is_marked[partners] = True
            sizes_of_partners = sizes[is_marked]
            is_marked[:] = False
        pairs += int(sizes[number]) * int(sizes_of_partners.sum(dtype=np.int64))
    return pairs
