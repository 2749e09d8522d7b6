"""How many pairs of conversations share a window, for any number of conversations in bounded memory.

Windows are hashed into a file aside; parts of it are sorted one after the other, and only windows that several
conversations have stay. Then each conversation marks the later ones that share a window with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from refaug.core.files import make_folder, remove_tree, unique_suffix
from refaug.core.full_disk import storage_errors
from refaug.metrics.conversations.windows import Overlap

_ROW: Final = np.dtype([("hash", "<u8"), ("conversation", "<u4")])
_BUFFERED: Final = 1 << 15  # rows before they are written
_PART: Final = 1 << 18  # rows that are sorted at a time

Rows = NDArray[np.void]


class SharedWindows:
    """Counts the pairs of conversations that share a window of one length; a context manager, for its file."""

    def __init__(self, folder: Path, window: int) -> None:
        self.window, self.conversations = window, 0
        self._folder = folder / f"self-play-windows-{unique_suffix()}"
        make_folder(folder)
        make_folder(self._folder)
        self._file = (self._folder / "windows").open("w+b")
        self._buffer, self._rows = list[tuple[int, int]](), 0

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
        self._buffer += [(window, self.conversations) for window in windows]
        self.conversations += 1
        if len(self._buffer) >= _BUFFERED:
            self._write()

    def _write(self) -> None:
        with storage_errors(self._folder):
            self._file.write(np.array(self._buffer, _ROW).tobytes())
        self._rows += len(self._buffer)
        self._buffer = []

    def overlap(self) -> Overlap:
        """Return how many of all pairs share a window."""
        self._write()
        members, starts = self._groups()
        pairs = _count_pairs(members, starts, self.conversations)
        return Overlap(self.window, pairs, self.conversations * (self.conversations - 1) // 2)

    def _groups(self) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """Return the conversations of each window that several have, one behind the other, and where each begins."""
        parts = max(1, -(-self._rows // _PART))
        members, sizes = list[NDArray[np.uint32]](), list[NDArray[np.int64]]()
        for part in range(parts):
            rows = self._rows_of(part, parts)
            rows.sort(order=("hash", "conversation"))
            borders = np.flatnonzero(np.diff(rows["hash"])) + 1
            counts = np.diff(np.concatenate(([0], borders, [len(rows)])))
            shared = np.repeat(counts > 1, counts)
            members.append(rows["conversation"][shared].astype(np.uint32))
            sizes.append(counts[counts > 1])
        return np.concatenate(members), np.concatenate(([0], np.cumsum(np.concatenate(sizes)))).astype(np.int64)

    def _rows_of(self, part: int, parts: int) -> Rows:
        """Return the rows whose hash belongs to a part, read piece by piece."""
        self._file.flush()
        self._file.seek(0)
        pieces = list[Rows]()
        while content := self._file.read(_PART * _ROW.itemsize):
            rows = np.frombuffer(content, _ROW)
            pieces.append(rows[rows["hash"] % np.uint64(parts) == part])
        return np.concatenate(pieces) if pieces else np.zeros(0, _ROW)


def _count_pairs(members: NDArray[np.uint32], starts: NDArray[np.int64], count: int) -> int:
    """Count the pairs that stand together in some group; a pair in several groups counts once.

    Conversations of the very same groups are one class: they share windows with each other and with the same others.
    """
    if not len(members):
        return 0
    group_of = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    order = np.argsort(members, kind="stable")
    holders, first_places = np.unique(members[order], return_index=True)
    ends = np.append(first_places[1:], len(members))
    classes = dict[bytes, int]()
    class_of, sizes, class_groups = np.empty(count, np.int64), list[int](), list[NDArray[np.int64]]()
    for holder, first, end in zip(holders.tolist(), first_places.tolist(), ends.tolist(), strict=True):
        groups = np.sort(group_of[order[first:end]])
        number = classes.setdefault(groups.tobytes(), len(classes))
        if number == len(sizes):
            sizes.append(0)
            class_groups.append(groups)
        sizes[number] += 1
        class_of[holder] = number
    class_sizes = np.array(sizes, np.int64)
    classes_of_group = [np.unique(class_of[members[begin:end]]) for begin, end in pairwise(starts.tolist())]
    pairs, is_marked = 0, np.zeros(len(sizes), np.bool_)
    for number, groups in enumerate(class_groups):
        is_marked[:] = False
        for group in groups.tolist():
            is_marked[classes_of_group[group]] = True
        size = int(class_sizes[number])
        pairs += size * (size - 1) // 2 + size * int(class_sizes[number + 1 :][is_marked[number + 1 :]].sum())
    return pairs
