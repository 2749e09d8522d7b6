"""Frozen reference sets: files of items with their weighted references that never change.

A file is three frames of zstd, one after the other: the manifest as one line of JSON; the items, one a line; and the
seal, a frame that zstd readers skip, with the SHA-256 of all bytes before it.

No module of this folder imports index or rater code: scores against a set do not need them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

import orjson
import zstandard

from refaug.core.artefacts.verified_files import Stamp, stamp_of
from refaug.core.errors import BadInput, Corrupt, NotFound
from refaug.core.files import write_aside
from refaug.core.memory import BoundedCache
from refaug.core.progress import Progress, Silent
from refaug.core.records import Item, Origin, Reference
from refaug.logs.reading.sources import MAX_LINE_BYTES, LineReader, Source
from refaug.scoring.cases import NO_GOLD_IN_ITEM
from refaug.scoring.items import BadItem, parse_item, reference_json
from refaug.scoring.reference_sets.set_manifest import CORRUPT_SET_REMEDY, SetManifest

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


# ── Items as the lines of a reference set: checked, written canonically, and compressed ───────────────────────────────

NO_LINE: Final = 0  # the line of a bad item that came without one; callers that have the file can look it up
_LEVEL: Final = 9  # of compression: a set is written once and read often


def line_of(test_item: Item) -> bytes:
    """Return the canonical line of an item: keys in order, no replies, no ratings of replies.

    An item that `refaug sets references` has printed makes the same line as one whose references are found here: golds
    that were never rated have no weight in it.
    """
    references = map(_without_shown_weight, test_item.references) if test_item.provenance else test_item.references
    fields = {
        "id": test_item.id,
        "turns": list(test_item.turns),
        "references": [reference_json(reference) for reference in references],
        "dialogue": test_item.dialogue,
        "time": test_item.time.isoformat() if test_item.time is not None else None,
        "exclude": list(test_item.exclude),
    }
    present = {name: content for name, content in fields.items() if content is not None and content != []}
    return orjson.dumps(present, option=orjson.OPT_SORT_KEYS)


def _without_shown_weight(reference: Reference) -> Reference:
    is_shown = reference.source is Origin.GOLD and reference.weight == 1 and reference.rating is None
    return replace(reference, weight=None) if is_shown else reference


def _freeze_item(test_item: Item, called: str) -> tuple[bytes, int] | BadItem:
    """Return the line of an item and the number of its references, or why the item cannot be frozen.

    The line is written from the item that was parsed back, so an item of a set is always written as the same line.
    """

    def bad(at: str, message: str) -> BadItem:
        return BadItem(file=called, line=NO_LINE, item=test_item.id, field=at, message=message)

    try:
        parsed = parse_item(orjson.loads(line_of(test_item)), where=called, line=NO_LINE, fallback_id=test_item.id)
        line = b"" if isinstance(parsed, BadItem) else line_of(parsed)
    except (orjson.JSONEncodeError, orjson.JSONDecodeError) as error:
        return bad("", f"it cannot be written as JSON: {error}")
    if isinstance(parsed, BadItem):
        return parsed
    if len(line) > MAX_LINE_BYTES:
        return bad("", f"it takes {len(line):,} bytes; at most {MAX_LINE_BYTES:,} are read")
    references = parsed.references
    if not any(reference.text.strip() for reference in references):
        return bad("references", NO_GOLD_IN_ITEM)
    for place, reference in enumerate(references):
        if reference.weight is None and reference.source is not Origin.GOLD and reference.text.strip():
            return bad(f"references[{place}]", f"a {reference.source.value} one without a weight")
    return line, len(references)


def describe_bad(bad: BadItem) -> str:
    """Describe a bad item, without its line where that is unknown."""
    at = f", {bad.field}" if bad.field else ""
    return str(bad) if bad.line != NO_LINE else f"{bad.file}, item {bad.item}{at}: {bad.message}"


class ItemsFile(NamedTuple):
    """Items that are on the disk, but not yet a set."""

    items: int
    references: int
    content: str
    bad: list[BadItem]


def write_set(path: Path, manifest_line: bytes, items: Path) -> None:
    """Write the file of a set: its manifest, its items, which are compressed already, and the seal."""
    digest = hashlib.sha256()
    with write_aside(path) as out, items.open("rb") as file:
        piece = _compressor().compress(manifest_line)
        while piece:
            out.write(piece)
            digest.update(piece)
            piece = file.read(PIECE_BYTES)
        out.write(SEAL + digest.digest())


def _compressor() -> zstandard.ZstdCompressor:
    return zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True)


def write_items(items: Iterable[Item | BadItem], file: BinaryIO, called: str) -> ItemsFile:
    """Write all items that can be frozen, as one frame."""
    digest, count, references = hashlib.sha256(), 0, 0
    bad, seen = list[BadItem](), set[str]()
    with _compressor().stream_writer(file, closefd=False) as out:
        for test_item in items:
            frozen = test_item if isinstance(test_item, BadItem) else _freeze_item(test_item, called)
            if isinstance(test_item, Item) and test_item.id in seen:
                message = f"{test_item.id!r} was used before: every item has an id of its own"
                frozen = BadItem(file=called, line=NO_LINE, item=test_item.id, field="id", message=message)
            if isinstance(frozen, BadItem):
                bad.append(frozen)
                continue
            seen.add(test_item.id if isinstance(test_item, Item) else "")
            line, reference_count = frozen
            digest.update(line + b"\n")
            out.write(line + b"\n")
            count, references = count + 1, references + reference_count
    file.flush()
    return ItemsFile(count, references, digest.hexdigest(), bad)
