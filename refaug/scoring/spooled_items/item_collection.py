"""The items of a test file, to be gone through any number of times: in memory where they are few, else in a file."""

from __future__ import annotations

import hashlib
import os
import tempfile
import weakref
from array import array
from collections import Counter
from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain, islice
from pathlib import Path
from sys import intern
from types import MappingProxyType
from typing import Any, Final, TypeVar, overload

import orjson

from refaug.core.files import make_folder, storage_errors
from refaug.core.memory import CompactTexts
from refaug.core.processes.kept import cached_property
from refaug.core.records import Item, Origin, Reference
from refaug.metrics.base import Problem, References
from refaug.scoring.cases import evidence_of, is_thin, other_golds, split
from refaug.scoring.copies import CopiedReplies, copied_by
from refaug.scoring.items import BadItem
from refaug.scoring.provenance import Provenance, ReplyLines

_Entry = TypeVar("_Entry")
BLOCK: Final = 2_000  # entries whose texts are in memory at once


def blocks_of(entries: Iterable[_Entry], size: int | None = None) -> Iterator[tuple[int, list[_Entry]]]:
    """Yield entries in blocks, each with the place of its first one."""
    entries, first, size = iter(entries), 0, size or BLOCK
    while block := list(islice(entries, size)):
        yield first, block
        first += len(block)


# ── Hashes of items that are added one after the other: what was scored, against what, and the replies ────────────────


class _Digest:
    """A hash of many rows that are added one after the other."""

    def __init__(self) -> None:
        self._sha256 = hashlib.sha256()

    @property
    def name(self) -> str:
        """The first digits of the hash of all rows so far."""
        return self._sha256.hexdigest()[:12]

    def _add(self, row: list[Any]) -> None:
        self._sha256.update(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))


class ReferencesDigest(_Digest):
    """A hash of the references that a metric looked at, with their weights; `data_hash` covers the golds alone.

    The utterance is included where the metric looked at it.
    """

    def add(self, name: str, chosen: References | Problem) -> None:
        """Add the next item's id and what the metric looks at."""
        self._add([name, *_references_row(chosen)])


class DataDigest(_Digest):
    """`data_hash` for items that are not all in memory at once."""

    def add(self, test_item: Item) -> None:
        """Add the next item."""
        references = test_item.references
        golds = [reference.text for reference in references if reference.source is Origin.GOLD]
        self._add([test_item.id, golds or [reference.text for reference in references if reference.is_own]])


class UtterancesDigest(_Digest):
    """The hash of what references are found by, beside the golds: utterances, dialogues, times, exclusions."""

    def add(self, test_item: Item) -> None:
        """Add the next item."""
        time = test_item.time.isoformat() if test_item.time is not None else None
        self._add([test_item.id, test_item.turns, test_item.dialogue, time, test_item.exclude])


class RepliesDigest(_Digest):
    """The hash of the replies of all systems."""

    def add(self, test_item: Item) -> None:
        """Add the replies to the next item."""
        self._add([test_item.id, sorted(test_item.replies.items())])


def _references_row(references: References | Problem) -> list[Any]:
    if isinstance(references, Problem):
        return [references.code]
    utterance = [] if references.utterance is None else [references.utterance]
    beside = [] if references.beside is None else [_references_row(references.beside)]
    components = [[_references_row(component) for component in references.components]] if references.components else []
    return [references.texts, references.weights, references.gold, *utterance, *beside, *components]


def data_hash(items: Iterable[Item]) -> str:
    """Return a hash of ids and golds in order: it tells what was scored, as the signature tells how."""
    digest = DataDigest()
    for test_item in items:
        digest.add(test_item)
    return digest.name


# ── Items in a file ───────────────────────────────────────────────────────────────────────────────────────────────────


_READ_AT_ONCE: Final = 500  # items that are read at once
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
        if len(self._lines) == _READ_AT_ONCE:
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
        return self._block(number // _READ_AT_ONCE)[number % _READ_AT_ONCE]

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


# ── Items in memory or in a file ──────────────────────────────────────────────────────────────────────────────────────


MOST_IN_MEMORY: Final = 5_000  # items; more of them go into a file


class ItemCollection:
    """Items that can be scored, those that cannot, and what all of the first tell: counts, hashes, copies, provenance.

    With a folder, more than so many items go into a file without a name in it.
    """

    def __init__(
        self, items: Iterable[Item | BadItem], folder: Path | None = None, *, most_in_memory: int = MOST_IN_MEMORY
    ) -> None:
        self.items: Sequence[Item] = []
        self._folder, self._most_in_memory = folder, most_in_memory
        self._bad = dict[int, list[BadItem]]()  # by the place of the item that they precede
        self.ids = CompactTexts()
        self.replies = Counter[str]()  # by system, in the order in which systems first occur
        self.empty_replies = Counter[str]()
        self.sources = Counter[Origin]()  # of all references
        self.indexes = set[str]()  # that retrieved references name
        self.blank_references = 0
        self.other_golds = 0  # golds with another weight than 1
        self.thin = 0  # items with few references of positive weight beside the gold
        self.has_text = False  # whether any reference has one
        self._provenance, self._reply_lines = set[str](), ReplyLines()
        self._copies: dict[str, array[int]] = {}
        self._digests: Mapping[str, DataDigest | UtterancesDigest | RepliesDigest] = {
            "data": DataDigest(),
            "utterances": UtterancesDigest(),
            "replies": RepliesDigest(),
        }

        for test_item in items:
            if isinstance(test_item, BadItem):
                self._bad.setdefault(len(self.ids), []).append(test_item)
            else:
                self._keep(test_item)
                self._note(test_item)
        if isinstance(self.items, SpooledItems):
            self.items.finish()

    @classmethod
    def of(cls, items: Iterable[Item | BadItem]) -> ItemCollection:
        """Return items that are in memory, or come one by one, as a collection in memory."""
        return items if isinstance(items, ItemCollection) else cls(items)

    def _keep(self, test_item: Item) -> None:
        if self._folder is not None and len(self.items) == self._most_in_memory and isinstance(self.items, list):
            waiting, self.items = self.items, SpooledItems(self._folder)
            for earlier in waiting:
                self.items.append(earlier)
        assert isinstance(self.items, list | SpooledItems), "items are added to either"
        self.items.append(test_item)

    def _note(self, test_item: Item) -> None:
        for system, reply in test_item.replies.items():
            self.replies[system] += 1
            if not reply or reply.isspace():
                self.empty_replies[system] += 1
        for system in copied_by(test_item):
            self._copies.setdefault(system, array("q")).append(len(self.ids))
        for reference in test_item.references:
            self.sources[reference.source] += 1
            is_blank = not reference.text.strip()
            self.blank_references += is_blank
            self.has_text = self.has_text or not is_blank
            if reference.source is Origin.RETRIEVED and isinstance(index := reference.more.get("index"), str):
                self.indexes.add(index)
        self.other_golds += other_golds(test_item)
        self.thin += is_thin(test_item)
        self._provenance.add(test_item.provenance)
        self._reply_lines.add(test_item.replies, test_item.reply_provenance)
        for digest in self._digests.values():
            digest.add(test_item)
        self.ids.append(test_item.id)

    @property
    def bad(self) -> tuple[BadItem, ...]:
        """The items that cannot be scored, in order."""
        return tuple(chain.from_iterable(self._bad.values()))

    @property
    def count(self) -> int:
        """The number of items, bad ones among them."""
        return len(self.items) + len(self.bad)

    def require_usable(self) -> None:
        """Raise BadInput where no item can be used."""
        if not self.items:
            split(self.bad)

    @property
    def hashes(self) -> dict[str, str]:
        """The hashes of everything that is scored beside retrieved references, by their names in score files."""
        return {name: digest.name for name, digest in self._digests.items()}

    @property
    def provenance(self) -> Provenance:
        """The provenance of the references."""
        return Provenance.of_lines(self._provenance)

    @property
    def reply_provenance(self) -> dict[str, str]:
        """The line of every system whose replies, or some of them, a bot of refaug made."""
        return self._reply_lines.joined()

    @property
    def copies(self) -> Mapping[str, CopiedReplies]:
        """The replies that copy the utterance, of every system that has any."""
        return {
            system: CopiedReplies(
                rows=tuple(self._copies[system]), items=tuple(self.ids[row] for row in self._copies[system])
            )
            for system in self.replies
            if system in self._copies
        }

    def __iter__(self) -> Iterator[Item | BadItem]:
        """Yield all items in the order in which they were read."""
        for place, test_item in enumerate(self.items):
            yield from self._bad.get(place, ())
            yield test_item
        yield from self._bad.get(len(self.items), ())


# ── The references that weighted scores rest on, item by item; of items in a file, computed when they are read ────────


def evidence_by_id(items: Sequence[Item], ids: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
    """Return the evidence of every item, by its id."""
    if isinstance(items, list):
        return {test_item.id: evidence_of(test_item) for test_item in items}
    return EvidenceOfItems(items, ids)


class EvidenceOfItems(Mapping[str, Mapping[str, Any]]):
    """The evidence of items that are not in memory; a pass over it reads their file."""

    def __init__(self, items: Sequence[Item], ids: Sequence[str]) -> None:
        self._items, self._ids = items, ids

    @cached_property
    def _places(self) -> Mapping[str, int]:
        return {name: place for place, name in enumerate(self._ids)}

    def __getitem__(self, name: str) -> Mapping[str, Any]:
        return evidence_of(self._items[self._places[name]])

    def __iter__(self) -> Iterator[str]:
        return iter(self._ids)

    def __len__(self) -> int:
        return len(self._ids)

    def items(self) -> ItemsView[str, Mapping[str, Any]]:
        """Return ids and evidence in the order of the file, which is read once."""
        return _InOrder(self, self._items)


class _InOrder(ItemsView[str, Mapping[str, Any]]):
    def __init__(self, mapping: EvidenceOfItems, items: Sequence[Item]) -> None:
        super().__init__(mapping)
        self._items = items

    def __iter__(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        for test_item in self._items:
            yield test_item.id, evidence_of(test_item)


# ── A long list of JSON that is never in memory as a whole ────────────────────────────────────────────────────────────


class PassingList:
    """A list whose entries are made anew at every pass."""

    def __init__(self, count: int, entries: Callable[[], Iterable[Any]]) -> None:
        self._count, self._entries = count, entries

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Any]:
        return iter(self._entries())


def plain_json(part: object) -> list[Any] | dict[Any, Any]:
    """Return a passing list or a mapping as JSON has it, for `default` of orjson; TypeError for anything else."""
    if isinstance(part, PassingList):
        return list(part)
    if isinstance(part, Mapping):
        return dict(part.items())
    raise TypeError(f"{type(part).__name__} is not JSON")
