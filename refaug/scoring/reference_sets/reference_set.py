"""Frozen reference sets: files of items with their weighted references that never change.

A file is three frames of zstd, one after the other: the manifest as one line of JSON; the items, one a line; and the
seal, a frame that zstd readers skip, with the SHA-256 of all bytes before it.

No module of this folder imports index or rater code: scores against a set do not need them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import orjson
import zstandard

from refaug.core.artefacts.manifests import require_format
from refaug.core.artefacts.verified_files import Stamp, stamp_of
from refaug.core.errors import BadInput, Corrupt, NotFound
from refaug.core.files import write_aside
from refaug.core.memory import BoundedCache
from refaug.core.progress import Progress, Silent
from refaug.core.records import Item, Origin, Reference
from refaug.core.version import VERSION
from refaug.logs.reading.sources import MAX_LINE_BYTES, LineReader, Source
from refaug.scoring.cases import NO_GOLD_IN_ITEM
from refaug.scoring.items import BadItem, parse_item, reference_json
from refaug.scoring.provenance import Provenance

# ── The manifest: what a set holds, how its references were made, and its id ──────────────────────────────────────────
#
# The id is a hash of the content, so the same content has the same id wherever it was frozen, and a manifest is checked
# whenever it is read.

KIND: Final = "reference-set"
FORMAT_VERSION: Final = 1
SET_SUFFIX: Final = ".jsonl.zst"
SET_ID: Final = re.compile(r"[0-9a-f]{16}")
_KEY: Final = re.compile(r"[a-z0-9+-]{1,40}")  # as in signatures
_NOT_HASHED: Final = ("id", "created", "refaug")  # not content: when and by which release the set was written
CORRUPT_SET_REMEDY: Final = "restore it from a backup, or delete the file and freeze the same items again"


class Purpose(StrEnum):
    """What a set is for; scores on one of another purpose than the rest mean something else."""

    TRAIN = "train"
    VALIDATION = "validation"
    TEST = "test"


@dataclass(frozen=True, kw_only=True)
class SetDescription:
    """How the references of a set were made, for its manifest and for signatures."""

    purpose: Purpose
    provenance: Mapping[str, str] = field(default_factory=dict)  # for both forms of a signature
    details: Mapping[str, str] = field(default_factory=dict)  # only for the full form
    parent: str | None = None
    how: Mapping[str, Any] = field(default_factory=dict)

    def with_provenance_of(self, provenance: Provenance) -> SetDescription:
        """Return the description; one without a provenance takes that of the items."""
        if self.provenance or self.details:
            return self
        return replace(self, provenance=provenance.settings, details=provenance.details)


@dataclass(frozen=True, kw_only=True)
class SetManifest:
    """The first line of a set."""

    id: str
    purpose: Purpose
    created: str
    items: int
    references: int
    provenance: Mapping[str, str]
    details: Mapping[str, str]
    parent: str | None
    how: Mapping[str, Any]
    content: str  # SHA-256 of the lines of the items
    refaug: str = VERSION
    kind: str = KIND
    format_version: int = FORMAT_VERSION

    @classmethod
    def of(cls, description: SetDescription, *, items: int, references: int, content: str) -> SetManifest:
        """Return the manifest of items just written, with the id that follows from its content."""
        unnamed = cls(
            id="",
            purpose=description.purpose,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            items=items,
            references=references,
            provenance=dict(description.provenance),
            details=dict(description.details),
            parent=description.parent,
            how=dict(description.how),
            content=content,
        )
        return replace(unnamed, id=_id_of(asdict(unnamed)))

    @classmethod
    def read(cls, path: Path, line: bytes) -> SetManifest:
        """Read the manifest from a line; Corrupt where it is not one, or its content does not match its id."""
        try:
            document = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise Corrupt(f"{path}: its first line is not a manifest: {error}", remedy=CORRUPT_SET_REMEDY) from error
        if not isinstance(document, dict):
            raise Corrupt(
                f"{path}: its first line is not a manifest, but a {type(document).__name__}", remedy=CORRUPT_SET_REMEDY
            )
        require_format(path, document, KIND, FORMAT_VERSION)
        if (name := _id_of(document)) != document.get("id"):
            says = document.get("id")
            message = f"{path}: its manifest was altered: it says {says!r}, and what is in it makes {name}"
            raise Corrupt(message, remedy=CORRUPT_SET_REMEDY)
        if path.name != f"{name}{SET_SUFFIX}":
            raise Corrupt(f"{path}: this is the set {name}", remedy="give the file its name again")
        try:
            manifest = cls(**{**document, "purpose": Purpose(document["purpose"])})
            manifest.require_types()
        except (KeyError, TypeError, ValueError) as error:
            raise Corrupt(f"{path}: its manifest lacks what a set needs: {error}", remedy=CORRUPT_SET_REMEDY) from error
        return manifest

    def require_types(self) -> None:
        """Raise ValueError where a field has a value that refaug never writes: the set may come from elsewhere."""
        for name in ("items", "references"):
            if type(getattr(self, name)) is not int:
                raise ValueError(f"{name} is not a number")
        for name in ("created", "content", "refaug"):
            if not isinstance(getattr(self, name), str):
                raise ValueError(f"{name} is not a text")  # noqa: TRY004  the caller expects one kind of error
        for name in ("provenance", "details", "how"):
            if not isinstance(getattr(self, name), dict):
                raise ValueError(f"{name} is not an object")  # noqa: TRY004
        if self.parent is not None and not SET_ID.fullmatch(self.parent):
            raise ValueError("parent is not an id")
        for key, text in (*self.provenance.items(), *self.details.items()):
            if not _KEY.fullmatch(key) or not isinstance(text, str):
                raise ValueError(f"{key!r} cannot be part of a signature")

    @property
    def references_provenance(self) -> Provenance:
        """How the references were made; the same signature stands beside scores that retrieve them anew."""
        return Provenance(settings=self.provenance, details=self.details)

    def as_json(self) -> dict[str, object]:
        """Return all fields."""
        return asdict(self)


def _id_of(manifest: Mapping[str, Any]) -> str:
    """Return the hash of the content of a manifest, which contains the hash of the items."""
    content = {name: field for name, field in manifest.items() if name not in _NOT_HASHED}
    return hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]


# ── The set: items with their weighted references, and the seal ───────────────────────────────────────────────────────

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
