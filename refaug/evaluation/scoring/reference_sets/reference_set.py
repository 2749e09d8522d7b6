"""Frozen reference sets: files of items with their weighted references that never change.

A file is three frames of zstd, one after the other: the manifest as one line of JSON; the items, one a line; and the
seal, a frame that zstd readers skip, with the SHA-256 of all bytes before it.

No module of this folder imports index or rater code: scores against a set do not need them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import orjson

from refaug.core.artefacts.verified_files import Stamp, stamp_of
from refaug.core.errors import BadInput, Corrupt, NotFound
from refaug.core.memory.bounded_cache import BoundedCache
from refaug.core.progress import Progress, Silent
from refaug.core.records import Item
from refaug.evaluation.scoring.items import BadItem, parse_item
from refaug.evaluation.scoring.reference_sets.set_manifest import CORRUPT_SET_REMEDY, SetManifest
from refaug.logs.reading.sources import LineReader, Source

SEAL: Final = b"\x50\x2a\x4d\x18" + (32).to_bytes(4, "little")  # a skippable frame of the zstd format
SEAL_BYTES: Final = len(SEAL) + 32
PIECE_BYTES: Final = 1 << 20
_BLOCK_BYTES: Final = 1 << 18
_SEALED: Final = BoundedCache[Stamp, bool](4_096)  # files whose seal was found to fit


@dataclass(frozen=True)
class ReferenceSet:
    """A set on the disk, whose manifest has been read and whose items have not."""

    path: Path
    manifest: SetManifest

    @classmethod
    def at(cls, path: Path, *, future_path: Path | None = None) -> ReferenceSet:
        """Read the manifest of a file, which has its place already or is still to get it."""
        with closing(_blocks(path)) as blocks:
            first = next(blocks, b"")
        return cls(path, SetManifest.read(future_path or path, first.split(b"\n", 1)[0]))

    @property
    def id(self) -> str:
        """The id in the manifest."""
        return self.manifest.id

    def items(self) -> Iterator[Item]:
        """Yield every item in order; Corrupt at the end, or before, if they are not the items that were frozen."""
        for number, line in enumerate(self.lines(), start=1):
            yield self.item_of(line, number)

    def item_of(self, line: bytes, number: int) -> Item:
        """Parse the line of the `number`-th item."""
        try:
            document = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise Corrupt(f"{self.path}: item {number:,} is not JSON: {error}", remedy=CORRUPT_SET_REMEDY) from error
        fields = document if isinstance(document, dict) else {}
        test_item = parse_item(fields, where=str(self.path), line=number + 1, fallback_id="")
        if isinstance(test_item, BadItem):
            raise Corrupt(str(test_item), remedy=CORRUPT_SET_REMEDY)
        return test_item

    def lines(self) -> Iterator[bytes]:
        """Yield the lines of the items, and count and hash them on the way."""
        digest, count, is_first = hashlib.sha256(), 0, True
        expected = self.manifest.items
        try:
            for block in _blocks(self.path):
                lines = block.split(b"\n")[1 if is_first else 0 :]
                is_first = False
                for line in lines:
                    digest.update(line + b"\n")
                    count += 1
                    yield line
        except Corrupt as error:
            raise Corrupt(
                f"{error.message}, after {count:,} of {expected:,} items", remedy=CORRUPT_SET_REMEDY
            ) from error
        if count != expected:
            raise Corrupt(
                f"{self.path}: it has {count:,} items, its manifest says {expected:,}", remedy=CORRUPT_SET_REMEDY
            )
        if (content := digest.hexdigest()) != self.manifest.content:
            message = f"{self.path}: its items were altered: their SHA-256 is {content[:12]}…"
            raise Corrupt(f"{message}, the manifest says {self.manifest.content[:12]}…", remedy=CORRUPT_SET_REMEDY)

    def verify(self, progress: Progress | None = None) -> None:
        """Read the whole file again and check it against its manifest and its seal; Corrupt says what is wrong."""
        progress, references = progress or Silent(), 0
        for frozen_item in self.items():
            references += len(frozen_item.references)
            progress.advance(1)
        if references != self.manifest.references:
            message = f"{self.path}: it has {references:,} references, its manifest says {self.manifest.references:,}"
            raise Corrupt(message, remedy=CORRUPT_SET_REMEDY)
        if not self._is_sealed():
            message = "its items are whole, but the file is not byte for byte what was written: the seal does not fit"
            raise Corrupt(f"{self.path}: {message}", remedy=CORRUPT_SET_REMEDY)

    def require_sealed(self) -> None:
        """Refuse a file whose bytes do not fit its seal; a file that has not changed since is not read again."""
        stamp = stamp_of(self.path)
        if _SEALED.get(stamp):
            return
        if not self._is_sealed():
            raise Corrupt(f"{self.path}: it was altered: the seal does not fit", remedy=CORRUPT_SET_REMEDY)
        _SEALED.put(stamp, True)

    def _is_sealed(self) -> bool:
        """Hash the file, and compare that with its last bytes; Corrupt where these are no seal."""
        digest, remaining = hashlib.sha256(), self.path.stat().st_size - SEAL_BYTES
        with self.path.open("rb") as file:
            while remaining > 0 and (piece := file.read(min(PIECE_BYTES, remaining))):
                digest.update(piece)
                remaining -= len(piece)
            seal = file.read()
        if seal[: len(SEAL)] != SEAL or len(seal) != SEAL_BYTES:
            raise Corrupt(
                f"{self.path}: its end is cut off or altered: the seal is not there", remedy=CORRUPT_SET_REMEDY
            )
        return seal == SEAL + digest.digest()


def _blocks(path: Path) -> Generator[bytes]:
    """Yield whole lines in blocks; Corrupt where the file breaks off or is damaged."""
    source = Source(path=path, size=0, modified_ns=0, sha256="")
    try:
        for block in LineReader(source, encoding="utf-8", block_bytes=_BLOCK_BYTES):
            if block.bad is not None:
                raise Corrupt(f"{path}: {block.bad.message}", remedy=CORRUPT_SET_REMEDY)
            yield block.data
    except BadInput as error:
        raise Corrupt(f"{path}: {error.message}", remedy=CORRUPT_SET_REMEDY) from error
    except FileNotFoundError as error:
        raise NotFound(f"{path}: no such set") from error
