"""The hashes of a log's texts, in a file: a log is hashed once, however many blocks of conversations are looked for."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from refaug.core.files import make_folder, remove_tree, unique_suffix
from refaug.core.full_disk import storage_errors
from refaug.core.progress import Progress
from refaug.logs.store import StoredLog

Hashes = NDArray[np.uint64]  # of texts

_TEXTS: Final = ("utterance", "response")
_NO_TEXT: Final = 0  # the hash of a missing one
_AT_ONCE: Final = 20_000  # pairs that are read at a time


class LogHashes:
    """The hashes of utterances and responses, pair by pair in the log's order; a context manager, for its file."""

    def __init__(self, log: StoredLog, scratch: Path, progress: Progress) -> None:
        self.log = log
        self._folder = scratch / f"self-play-log-{unique_suffix()}"
        make_folder(scratch)
        make_folder(self._folder)
        self._path, self._progress, self._is_written = self._folder / "hashes", progress, False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        remove_tree(self._folder)

    @property
    def pairs(self) -> int:
        """The pairs of the log."""
        return sum(part.pairs for part in self.log.manifest.parts)

    def blocks(self) -> Iterator[tuple[Hashes, Hashes]]:
        """Yield the hashes of utterances and of responses, some thousand pairs at a time; the log is read once."""
        if not self._is_written:
            self._write()
        with self._path.open("rb") as file:
            while len(rows := np.fromfile(file, np.uint64, 2 * _AT_ONCE)):
                yield rows[0::2], rows[1::2]

    def batches(self, columns: tuple[str, ...]) -> Iterator[tuple[Hashes, Hashes, pa.RecordBatch]]:
        """Yield the hashes beside other columns of the same pairs."""
        if not self._is_written:
            self._write()
        with self._path.open("rb") as file:
            for batch in self.log.batches(columns, size=_AT_ONCE):
                rows = np.fromfile(file, np.uint64, 2 * batch.num_rows)
                yield rows[0::2], rows[1::2], batch

    def _write(self) -> None:
        self._progress.stage("log", self.pairs, "pairs")
        with storage_errors(self._path), self._path.open("wb") as file:
            for batch in self.log.batches(_TEXTS, size=_AT_ONCE):
                rows = np.empty(2 * batch.num_rows, np.uint64)
                for place, name in enumerate(_TEXTS):
                    rows[place::2] = _hashes_of(batch[name])
                file.write(rows.tobytes())
                self._progress.advance(batch.num_rows)
        self._is_written = True


def text_hash(text: str) -> int:
    """Return the hash of a text, as the file has it."""
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little") or 1  # 0 is a text that is missing


def _hashes_of(column: pa.Array) -> Hashes:
    """Return the hashes of the texts of a column; equal texts are hashed once."""
    distinct = column.dictionary_encode()
    hashes = np.array([*map(text_hash, distinct.dictionary.to_pylist()), _NO_TEXT], np.uint64)  # its end: no text
    of_rows: Hashes = hashes[distinct.indices.fill_null(len(hashes) - 1).to_numpy(zero_copy_only=False)]
    return of_rows
