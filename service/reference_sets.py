"""Frozen reference sets: items with their weighted references as one file that never changes, and scores against it.

A file is three frames of zstd, one after the other: the manifest as one line of JSON; the items, one a line; and the
seal, a frame that readers of zstd skip, with the SHA-256 of all bytes before it. What a set is called is a hash of what
it says, so the same content has the same name wherever it was frozen, and a manifest is checked whenever it is read.

Neither index nor rater is needed here, and nothing that imports them: scores against a set outlive both.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal, NamedTuple

import orjson
import zstandard

from core.artefacts import require_format
from core.errors import BadInput, Conflict, Corrupt, NotFound, Usage, Withdrawn
from core.files import hold, is_held, make_folder, read_json, storage_errors, unique, write_aside, write_json
from core.items import BadItem, parse_item, reference_json
from core.logs.sources import MAX_LINE_BYTES, LineReader, Source
from core.progress import Progress, Silent
from core.records import Item, Origin, Reference
from core.version import VERSION
from metrics.base import Metric
from metrics.upsilon import Upsilon
from service.cases import evidence_of
from service.evaluate import evaluate
from service.scores import Evaluation, ScoreSettings

KIND: Final = "reference-set"
FORMAT_VERSION: Final = 1
UNPLACED: Final = 0  # the line of a bad item that came without one; whoever has the file can look it up
LEAST_PREFIX: Final = 6
BIN_EDGES: Final = tuple(edge / 5 for edge in range(-4, 5))  # ten bins from -1 to 1, each with its lower edge
_SUFFIX: Final = ".jsonl.zst"
_WITHDRAWN: Final = ".withdrawn"
_LOCK: Final = ".lock"
_ID: Final = re.compile(r"[0-9a-f]{16}")
_PREFIX: Final = re.compile(rf"[0-9a-f]{{{LEAST_PREFIX},16}}")
_KEY: Final = re.compile(r"[a-z0-9+-]{1,40}")  # as signatures have them
_NOT_NAMED: Final = ("id", "created", "refaug")  # no part of what a set says: when and by which release it was written
_SEAL: Final = b"\x50\x2a\x4d\x18" + (32).to_bytes(4, "little")  # a skippable frame, as the zstd format has it
_SEAL_BYTES: Final = len(_SEAL) + 32
_LEVEL: Final = 9  # written once, read often
_PIECE: Final = 1 << 20
_BLOCK: Final = 1 << 18
_REMEDY: Final = "restore it from a backup, or delete the file and freeze the same items again"

Asked = Literal["one", "rated"]


class Purpose(StrEnum):
    """What a set is for; scores on one of another purpose than the rest mean something else."""

    TRAIN = "train"
    VALIDATION = "validation"
    TEST = "test"


@dataclass(frozen=True, kw_only=True)
class Making:
    """How the references came about, for the manifest and for signatures."""

    purpose: Purpose
    provenance: Mapping[str, str] = field(default_factory=dict)  # what both forms of a signature say
    details: Mapping[str, str] = field(default_factory=dict)  # what the full one has beside that
    parent: str | None = None
    how: Mapping[str, Any] = field(default_factory=dict)


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
    def of(cls, making: Making, *, items: int, references: int, content: str) -> SetManifest:
        """The manifest of items just written, with the id that follows from both."""
        unnamed = cls(
            id="",
            purpose=making.purpose,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            items=items,
            references=references,
            provenance=dict(making.provenance),
            details=dict(making.details),
            parent=making.parent,
            how=dict(making.how),
            content=content,
        )
        return replace(unnamed, id=_id_of(asdict(unnamed)))

    @classmethod
    def read(cls, path: Path, line: bytes) -> SetManifest:
        """The manifest that a line holds; Corrupt where it is none, or does not say what its name stands for."""
        try:
            values = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise Corrupt(f"{path}: its first line is no manifest: {error}", remedy=_REMEDY) from error
        if not isinstance(values, dict):
            raise Corrupt(f"{path}: its first line is no manifest, but a {type(values).__name__}", remedy=_REMEDY)
        require_format(path, values, KIND, FORMAT_VERSION)
        if (name := _id_of(values)) != values.get("id"):
            message = f"{path}: its manifest was altered: it says {values.get('id')!r}, and what is in it makes {name}"
            raise Corrupt(message, remedy=_REMEDY)
        if path.name != f"{name}{_SUFFIX}":
            raise Corrupt(f"{path}: this is the set {name}", remedy="give the file its name again")
        try:
            found = cls(**{**values, "purpose": Purpose(values["purpose"])})
            found.require_types()
        except (KeyError, TypeError, ValueError) as error:
            raise Corrupt(f"{path}: its manifest lacks what a set needs: {error}", remedy=_REMEDY) from error
        return found

    def require_types(self) -> None:
        """ValueError where a value could not have been written by us: the set may come from elsewhere."""
        for name in ("items", "references"):
            if type(getattr(self, name)) is not int:
                raise ValueError(f"{name} is no number")
        for name in ("created", "content", "refaug"):
            if not isinstance(getattr(self, name), str):
                raise ValueError(f"{name} is no text")  # noqa: TRY004  the caller's one kind for what does not fit
        for name in ("provenance", "details", "how"):
            if not isinstance(getattr(self, name), dict):
                raise ValueError(f"{name} is no object")  # noqa: TRY004
        if self.parent is not None and not _ID.fullmatch(self.parent):
            raise ValueError("parent is no id")
        for key, value in (*self.provenance.items(), *self.details.items()):
            if not _KEY.fullmatch(key) or not isinstance(value, str):
                raise ValueError(f"{key!r} cannot be part of a signature")

    def signed(self) -> dict[str, str]:
        """What both forms of a signature say of the references: what made them, and which set this is."""
        parent = {"parent": self.parent} if self.parent is not None else {}
        return {**self.provenance, **parent, "set": self.id}

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        return asdict(self)


def _id_of(manifest: Mapping[str, Any]) -> str:
    """Names what a manifest says of the set, which has the hash of the items in it."""
    said = {name: value for name, value in manifest.items() if name not in _NOT_NAMED}
    return hashlib.sha256(orjson.dumps(said, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]


# ── an item as a line ─────────────────────────────────────────────────────────────────────────────────────────────


def line_of(item: Item) -> bytes:
    """The one way in which an item is written: keys in order, no replies, no ratings of replies."""
    pair = item.pair
    known = {
        "id": pair.id,
        "turns": list(pair.turns),
        "references": [reference_json(one) for one in pair.references],
        "dialogue": pair.dialogue,
        "time": pair.time.isoformat() if pair.time is not None else None,
        "exclude": list(pair.exclude),
    }
    kept = {name: value for name, value in known.items() if value is not None and value != []}
    return orjson.dumps(kept, option=orjson.OPT_SORT_KEYS)


def _freezable(item: Item, called: str) -> tuple[bytes, int] | BadItem:
    """The line of an item and how many references it has, or why it cannot be frozen.

    What is written is what reads back, so that an item out of a set is written as the same line again.
    """

    def bad(at: str, message: str) -> BadItem:
        return BadItem(file=called, line=UNPLACED, item=item.id, field=at, message=message)

    try:
        read = parse_item(orjson.loads(line_of(item)), where=called, line=UNPLACED, fallback_id=item.id)
        line = b"" if isinstance(read, BadItem) else line_of(read)
    except (orjson.JSONEncodeError, orjson.JSONDecodeError) as error:
        return bad("", f"it cannot be written as JSON: {error}")
    if isinstance(read, BadItem):
        return read
    if len(line) > MAX_LINE_BYTES:
        return bad("", f"it takes {len(line):,} bytes; at most {MAX_LINE_BYTES:,} are read")
    references = read.pair.references
    if not any(one.text.strip() for one in references):
        return bad("references", "there are none, so nothing could be scored against it")
    for place, one in enumerate(references):
        if one.weight is None and one.source is not Origin.GOLD and one.text.strip():
            return bad(f"references[{place}]", f"a {one.source.value} one that nobody has weighted")
    return line, len(references)


def _told(bad: BadItem) -> str:
    """A bad item in words, without a line where nobody knows it."""
    at = f", {bad.field}" if bad.field else ""
    return str(bad) if bad.line != UNPLACED else f"{bad.file}, item {bad.item}{at}: {bad.message}"


# ── one set ───────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class ReferenceSet:
    """A set as it lies on the disk; its manifest has been read, its items have not."""

    path: Path
    manifest: SetManifest

    @classmethod
    def at(cls, path: Path) -> ReferenceSet:
        """Read the manifest of a file."""
        with closing(_blocks(path)) as blocks:
            first = next(blocks, b"")
        return cls(path, SetManifest.read(path, first.split(b"\n", 1)[0]))

    @property
    def id(self) -> str:
        """The manifest's."""
        return self.manifest.id

    def items(self) -> Iterator[Item]:
        """Every item in order; Corrupt at the end, or before, if they are not those that were frozen."""
        for number, line in enumerate(self.lines(), start=1):
            yield self.item_of(line, number)

    def item_of(self, line: bytes, number: int) -> Item:
        """The item that a line holds, the `number`-th."""
        try:
            values = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise Corrupt(f"{self.path}: item {number:,} is not JSON: {error}", remedy=_REMEDY) from error
        where = values if isinstance(values, dict) else {}
        item = parse_item(where, where=str(self.path), line=number + 1, fallback_id="")
        if isinstance(item, BadItem):
            raise Corrupt(str(item), remedy=_REMEDY)
        return item

    def lines(self) -> Iterator[bytes]:
        """The lines of the items, counted and hashed on the way."""
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
            raise Corrupt(f"{error.message}, after {count:,} of {expected:,} items", remedy=_REMEDY) from error
        if count != expected:
            raise Corrupt(f"{self.path}: it has {count:,} items, its manifest says {expected:,}", remedy=_REMEDY)
        if (found := digest.hexdigest()) != self.manifest.content:
            message = f"{self.path}: its items were altered: their SHA-256 is {found[:12]}…"
            raise Corrupt(f"{message}, the manifest says {self.manifest.content[:12]}…", remedy=_REMEDY)

    def verify(self) -> None:
        """Read all of it again, and hold it to its manifest and its seal: Corrupt says what is wrong."""
        references = sum(len(item.pair.references) for item in self.items())
        if references != self.manifest.references:
            message = f"{self.path}: it has {references:,} references, its manifest says {self.manifest.references:,}"
            raise Corrupt(message, remedy=_REMEDY)
        digest, left = hashlib.sha256(), self.path.stat().st_size - _SEAL_BYTES
        with self.path.open("rb") as file:
            while left > 0 and (piece := file.read(min(_PIECE, left))):
                digest.update(piece)
                left -= len(piece)
            seal = file.read()
        if seal[: len(_SEAL)] != _SEAL or len(seal) != _SEAL_BYTES:
            raise Corrupt(f"{self.path}: its end is cut off or altered: the seal is not there", remedy=_REMEDY)
        if seal != _SEAL + digest.digest():
            message = "its items are whole, but the file is not byte for byte what was written: the seal does not fit"
            raise Corrupt(f"{self.path}: {message}", remedy=_REMEDY)


def _blocks(path: Path) -> Generator[bytes]:
    """Whole lines in blocks; Corrupt where the file breaks off or is damaged."""
    source = Source(path=path, size=0, modified_ns=0, sha256="")
    try:
        for block in LineReader(source, encoding="utf-8", block_bytes=_BLOCK):
            if block.bad is not None:
                raise Corrupt(f"{path}: {block.bad.message}", remedy=_REMEDY)
            yield block.data
    except BadInput as error:
        raise Corrupt(f"{path}: {error.message}", remedy=_REMEDY) from error
    except FileNotFoundError as error:
        raise NotFound(f"{path}: no such set") from error


# ── all sets of a home ────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class Withdrawal:
    """Why a set is not to be used any more, and which one is instead."""

    reason: str
    instead: str | None
    at: str


@dataclass(frozen=True, kw_only=True)
class Frozen:
    """What came of freezing."""

    set: ReferenceSet
    is_new: bool  # False: the same was frozen before
    bad_items: tuple[BadItem, ...]


class _Written(NamedTuple):
    """Items that are on the disk, and not yet a set."""

    items: int
    references: int
    content: str
    bad: list[BadItem]


@dataclass(frozen=True)
class ReferenceSets:
    """The folder of the sets."""

    folder: Path

    def ids(self) -> list[str]:
        """All that are there, withdrawn ones too."""
        found = (path.name.removesuffix(_SUFFIX) for path in self.folder.glob(f"*{_SUFFIX}"))
        return sorted(name for name in found if _ID.fullmatch(name))

    def resolve(self, text: str) -> str:
        """The id that this is, or the beginning of; nothing else ever becomes part of a path."""
        if not _PREFIX.fullmatch(text):
            raise Usage(
                f"{text!r} is no id of a reference set",
                remedy=f"16 characters of 0-9 and a-f, or at least the first {LEAST_PREFIX} of them: refaug sets list, "
                "or GET /v1/reference-sets",
            )
        withdrawn = (path.name.removesuffix(_WITHDRAWN) for path in self.folder.glob(f"*{_WITHDRAWN}"))
        known = {*self.ids(), *(name for name in withdrawn if _ID.fullmatch(name))}
        found = sorted(name for name in known if name.startswith(text))
        if not found:
            raise NotFound(f"there is no reference set {text}", remedy="refaug sets list, or GET /v1/reference-sets")
        if len(found) > 1:
            raise Usage(f"{text} is the beginning of several sets: {', '.join(found[:5])}", remedy="give more of it")
        return found[0]

    def open(self, text: str, *, even_withdrawn: bool = False) -> ReferenceSet:
        """A set by its id or the beginning of it; one that is withdrawn only for being looked at."""
        name = self.resolve(text)
        if not even_withdrawn:
            self.require_valid(name)
        return ReferenceSet.at(self.path_of(name))

    def freeze(
        self,
        items: Iterable[Item | BadItem],
        making: Making,
        *,
        called: str = "items",
        check: Callable[[Sequence[BadItem]], None] | None = None,
    ) -> Frozen:
        """Write items as a set, unless the same set is there; in memory are their ids, and the bad ones.

        `check` is told of the items that could not be frozen before anything is published, and may refuse.
        """
        with self._aside() as (aside, file):
            written = _write_items(items, file, called)
            if not written.items:
                bad = written.bad
                raise BadInput(
                    f"no item can be frozen, of {len(bad):,}: {_told(bad[0])}" if bad else "there are no items"
                )
            if check is not None:
                check(written.bad)
            counts = {"items": written.items, "references": written.references, "content": written.content}
            manifest = SetManifest.of(making, **counts)  # type: ignore[arg-type]
            is_new = self._publish(manifest, aside)
        return Frozen(set=ReferenceSet.at(self.path_of(manifest.id)), is_new=is_new, bad_items=tuple(written.bad))

    def derive(self, parent: str, change: Derivation, progress: Progress | None = None) -> Frozen:
        """A set of other weights out of what another one has stored."""
        progress = progress or Silent()
        stored = self.open(parent)
        change.require_possible(stored.manifest)
        progress.stage("derive", stored.manifest.items, "items")
        making = Making(
            purpose=stored.manifest.purpose,
            provenance={**stored.manifest.provenance, **change.said()},
            details=stored.manifest.details,
            parent=stored.id,
            how={"derive": change.said()},
        )
        return self.freeze(_changed(stored, change, progress), making, called=f"set {stored.id}")

    def withdrawal(self, name: str) -> Withdrawal | None:
        """Why a set was withdrawn, if it was."""
        path = self.folder / f"{name}{_WITHDRAWN}"
        if not path.exists():
            return None
        values = read_json(path)
        instead = values.get("instead")
        return Withdrawal(
            reason=str(values.get("reason", "")),
            instead=instead if isinstance(instead, str) else None,
            at=str(values.get("at", "")),
        )

    def withdraw(self, text: str, reason: str, instead: str | None = None) -> Withdrawal:
        """Let nobody use a set any more; the file stays as it is, and who asks is told why."""
        name = self.resolve(text)
        if not reason.strip():
            raise Usage("a withdrawal without a reason", remedy="say why: everyone who asks for the set is told")
        better = self.open(instead).id if instead is not None else None
        if better == name:
            raise Usage(f"{name} cannot stand in for itself", remedy="name another set, or none")
        wanted = Withdrawal(reason=reason, instead=better, at=datetime.now(UTC).isoformat(timespec="seconds"))
        with hold(self.folder / _LOCK):
            if (before := self.withdrawal(name)) is not None:
                if (before.reason, before.instead) == (reason, better):
                    return before
                raise Conflict(f"{name} was withdrawn at {before.at}: {before.reason}", remedy="that stands")
            write_json(self.folder / f"{name}{_WITHDRAWN}", asdict(wanted))
        return wanted

    def require_valid(self, name: str) -> None:
        """Withdrawn, with the reason and what to use instead, if the set of this id is."""
        if (withdrawn := self.withdrawal(name)) is not None:
            remedy = f"use {withdrawn.instead} instead" if withdrawn.instead else "no other set is named instead"
            raise Withdrawn(f"the reference set {name} was withdrawn: {withdrawn.reason}", remedy=remedy)

    def path_of(self, name: str) -> Path:
        """Where the set of this id lies, if it is there."""
        return self.folder / f"{name}{_SUFFIX}"

    @contextmanager
    def _aside(self) -> Iterator[tuple[Path, BinaryIO]]:
        """A file to write items into, gone at the end; those that killed processes have left are removed first.

        It is locked as long as it is written, which tells it from such a one.
        """
        make_folder(self.folder)
        path = self.folder / f".items.{unique()}.aside"
        with storage_errors(self.folder):
            with hold(self.folder / _LOCK):
                for left in self.folder.glob(".*.aside"):
                    if not is_held(left):
                        left.unlink(missing_ok=True)
                file = hold(path)
            try:
                with file:
                    yield path, file
            finally:
                path.unlink(missing_ok=True)

    def _publish(self, manifest: SetManifest, items: Path) -> bool:
        """Put manifest, items and seal together under the set's name; False where it is there already."""
        path = self.path_of(manifest.id)
        line = orjson.dumps(manifest.as_json(), option=orjson.OPT_APPEND_NEWLINE)
        if len(line) > MAX_LINE_BYTES:
            raise Usage(f"a manifest of {len(line):,} bytes", remedy="fewer logs or shorter names to leave out")
        with hold(self.folder / _LOCK):
            self.require_valid(manifest.id)
            if path.exists():
                return False
            digest = hashlib.sha256()
            with write_aside(path) as out, items.open("rb") as file:
                piece = _compressor().compress(line)
                while piece:
                    out.write(piece)
                    digest.update(piece)
                    piece = file.read(_PIECE)
                out.write(_SEAL + digest.digest())
        return True


def _compressor() -> zstandard.ZstdCompressor:
    return zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True)


def _write_items(items: Iterable[Item | BadItem], file: BinaryIO, called: str) -> _Written:
    """All that can be frozen, as one frame."""
    digest, count, references = hashlib.sha256(), 0, 0
    bad, seen = list[BadItem](), set[str]()
    with _compressor().stream_writer(file, closefd=False) as out:
        for item in items:
            found = item if isinstance(item, BadItem) else _freezable(item, called)
            if isinstance(item, Item) and item.id in seen:
                message = f"{item.id!r} was used before: every item has an id of its own"
                found = BadItem(file=called, line=UNPLACED, item=item.id, field="id", message=message)
            if isinstance(found, BadItem):
                bad.append(found)
                continue
            seen.add(item.id if isinstance(item, Item) else "")
            line, its_references = found
            digest.update(line + b"\n")
            out.write(line + b"\n")
            count, references = count + 1, references + its_references
    file.flush()
    return _Written(count, references, digest.hexdigest(), bad)


# ── other weights out of what is stored ───────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class Derivation:
    """What is to be another way than in the parent; None is as it is there."""

    weights: Asked | None = None  # of what was retrieved
    parrot: float | Literal["rated", "off"] | None = None
    gold: Asked | None = None
    k: int | None = None  # of what was retrieved, the first so many stay

    def __post_init__(self) -> None:
        for name, value in (("weights", self.weights), ("gold", self.gold)):
            if value not in (None, "one", "rated"):
                raise Usage(f"{name}={value!r} is not known", remedy="one or rated")
        if isinstance(self.parrot, str) and self.parrot not in ("rated", "off"):
            raise Usage(f"parrot={self.parrot!r} is not known", remedy="rated, off, or a number from -1 to 1")
        if isinstance(self.parrot, int | float) and not -1 <= self.parrot <= 1:
            raise Usage(f"a parrot of weight {self.parrot} is out of range", remedy="from -1 to 1")
        if self.k is not None and self.k < 1:
            raise Usage(f"k={self.k} is out of range", remedy="1 or more")
        if not self.said():
            raise Usage("nothing is to be changed", remedy="give at least one of weights, parrot, gold and k")

    def said(self) -> dict[str, str]:
        """What signatures say of it: by the same keys as where references are found."""
        parrot = self.parrot
        known = {
            "k": str(self.k) if self.k is not None else None,
            "gold": self.gold,
            "parrot": repr(float(parrot)).removesuffix(".0") if isinstance(parrot, int | float) else parrot,
            "weights": self.weights,
        }
        return {name: str(value) for name, value in known.items() if value is not None}

    def require_possible(self, parent: SetManifest) -> None:
        """Refuse more references than were ever looked for, and ratings of such as there are none."""
        stored = parent.provenance.get("k", "")
        if self.k is not None and stored.isdecimal() and self.k >= int(stored):
            raise Usage(f"k={self.k} is not fewer than the {stored} of {parent.id}", remedy="freeze a new set for more")
        if self.parrot == "rated" and parent.provenance.get("parrot") == "off":
            raise Usage(f"{parent.id} has no parrots that were rated", remedy="freeze a new set, or give them a weight")

    def of(self, item: Item) -> Item:
        """The same item with other weights; Usage where what it takes was never stored."""
        kept, retrieved, has_parrot = list[Reference](), 0, False
        for place, one in enumerate(item.pair.references):
            if one.source is Origin.RETRIEVED:
                retrieved += 1
                if self.k is None or retrieved <= self.k:
                    kept.append(_weighed(one, self.weights, item.id, place))
            elif one.source is Origin.GOLD:
                kept.append(_weighed(one, self.gold, item.id, place))
            elif one.source is Origin.SUPPLIED:
                kept.append(one)
            elif self.parrot != "off":
                has_parrot = True
                kept.append(_weighed(one, self.parrot, item.id, place))
        if isinstance(self.parrot, int | float) and not has_parrot and (item.pair.utterance or "").strip():
            at = sum(1 for one in kept if one.is_own)
            added = Reference(text=item.pair.utterance or "", source=Origin.PARROT, weight=float(self.parrot))
            kept.insert(at, added)
        return replace(item, pair=replace(item.pair, references=tuple(kept)))


def _weighed(one: Reference, asked: float | Literal["one", "rated", "off"] | None, item: str, place: int) -> Reference:
    if asked is None:
        return one
    if asked == "rated":
        if one.rating is None:
            raise Usage(
                f"references[{place}] of item {item}, a {one.source.value} one, was never rated",
                remedy="freeze a new set with a rater",
            )
        return replace(one, weight=one.rating)
    if asked == "one":
        is_one = one.source is Origin.GOLD and one.weight is None  # golds are worth 1 unless they say otherwise
        return one if is_one else replace(one, weight=1.0)
    return replace(one, weight=float(asked))


def _changed(stored: ReferenceSet, change: Derivation, progress: Progress) -> Iterator[Item]:
    """The items of the new set; one in which nothing is another way would be the old one under a new name."""
    differs = False
    for item in stored.items():
        changed = change.of(item)
        differs = differs or changed != item
        progress.advance(1)
        yield changed
    if not differs:
        said = ", ".join(f"{name} {value}" for name, value in change.said().items())
        raise Usage(f"nothing in {stored.id} would change by {said}", remedy=f"use {stored.id}")


# ── scores, and on what they stand ────────────────────────────────────────────────────────────────────────────────


def join(stored: ReferenceSet, replies: Iterable[Item | BadItem], called: str = "replies") -> list[Item | BadItem]:
    """Bad items, then all items of the set in its order, with the replies that there are for them.

    Of `replies` only ids and replies are looked at. Items without any reply stay, so that every file of replies asks
    the same questions.
    """
    bad, given = list[BadItem](), dict[str, Mapping[str, str]]()
    for one in replies:
        if isinstance(one, Item) and one.id not in given:
            given[one.id] = one.replies
        elif isinstance(one, Item):
            message = f"{one.id!r} was used before: every item has an id of its own"
            bad.append(BadItem(file=called, line=UNPLACED, item=one.id, field="id", message=message))
        else:
            bad.append(one)
    items = list[Item]()
    for item in stored.items():
        items.append(replace(item, replies=given.pop(item.id, {})))
    message = f"the set {stored.id} has no item of this id"
    bad += [BadItem(file=called, line=UNPLACED, item=name, field="id", message=message) for name in given]
    if not any(item.replies for item in items):
        first = f": {_told(bad[0])}" if bad else ""
        raise BadInput(
            f"no reply is to an item of the set {stored.id}{first}",
            remedy='every item needs the id that it has in the set, and "replies": {"system": "its reply"}',
        )
    return [*bad, *items]


def score(
    stored: ReferenceSet,
    joined: Iterable[Item | BadItem],
    metrics: Sequence[Metric],
    settings: ScoreSettings | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Scores of what `join` gave; signatures say which set, and what made its references.

    A metric that asks a rater or a ruber is refused, bound to one or not: scores against a set outlive both. So is a
    weighted form without b, where the index that the set's references are from would have one.
    """
    require_answerable(stored.manifest, metrics)
    manifest = stored.manifest
    return evaluate(
        joined, metrics, settings, provenance=manifest.signed(), details=manifest.details, progress=progress
    )


def require_answerable(manifest: SetManifest, metrics: Sequence[Metric]) -> None:
    """Refuse metrics of which a frozen set cannot give the scores: see `score`."""
    if asking := next((one for one in metrics if one.info.needs_rater or one.info.needs_ruber), None):
        whom = "rater" if asking.info.needs_rater else "ruber"
        raise Usage(
            f"{asking.name} asks a {whom}, and scores against a frozen set ask nobody",
            remedy=f"score the items that were frozen, with a {whom} named: by refaug score, or by POST /v1/scores",
        )
    if (index := manifest.provenance.get("index")) is not None:
        _require_b(metrics, index.partition("#")[0])


def _require_b(metrics: Sequence[Metric], index: str) -> None:
    """With --index, b is the index's; 0 instead would be another score under the same name."""
    if lacking := next((one.name for one in metrics if isinstance(one, Upsilon) and one.b_is_open), None):
        raise Usage(
            f"{lacking} has no b, and scores against a frozen set ask no index for it",
            remedy=f"{lacking}:b=…, the number that signatures of scores with references of that index have, and that "
            f"is printed by: refaug metrics baseline {lacking} --index {index}; or {lacking}:b=0",
        )


@dataclass(frozen=True, kw_only=True)
class SetEvidence:
    """On what scores against a set stand; golds are not counted."""

    weights: tuple[int, ...]  # in ten bins from -1 to 1
    thin: int  # items with few references of positive weight
    sources: Mapping[str, int]


def evidence(stored: ReferenceSet) -> SetEvidence:
    """Look at every item once."""
    bins, sources, thin = [0] * (len(BIN_EDGES) + 1), Counter[str](), 0
    for item in stored.items():
        found = evidence_of(item)
        thin += found["thin"]
        sources.update(found["sources"])
        for weight in found["weights"]:
            if weight is not None:
                bins[bisect_right(BIN_EDGES, weight)] += 1
    return SetEvidence(weights=tuple(bins), thin=thin, sources=dict(sorted(sources.items())))
