"""A document with signatures as it was written: scores, or the sums of scores, read the same way for every use.

`refaug score verify`, `score cite` and `compare` read files here, so that one says of a damaged file what the others
say.

The seal is a SHA-256 of the content in a canonical form, so a file that a program has read and written again still
fits it, whatever the spacing and the order of fields; one in which a value was changed does not.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import orjson

from refaug.core.errors import BadInput, NoSource, RefaugError
from refaug.core.memory import BoundedCache, CompactTexts
from refaug.core.processes.kept import cached_property
from refaug.core.records import Item
from refaug.logs.reading.sources import require_readable
from refaug.metrics.base import Floats
from refaug.metrics.signature import Signature
from refaug.scoring.items import BadItem, item_json, parse_item
from refaug.scoring.score_files.stored_lists import StoredList, StoredRows
from refaug.scoring.scores import Evaluation
from refaug.scoring.spooled_items.item_collection import ItemCollection, PassingList, plain_json

FORMAT_VERSION: Final = 2  # of scores with details; 1: without
FORMAT: Final = "format_version"
REMEDY: Final = "give the output of refaug score --json as it was written"
SCORES: Final = "scores"
STATS: Final = "stats"  # sums for combining, in answers of the service
SEAL: Final = "checksum"
_HASHES: Final = ("utterances", "replies")  # of documents with a seal
# A server adds the id of the request to the finished answer, and the files that were scored may move.
_NOT_SEALED: Final = frozenset({SEAL, "request_id", "inputs"})
_OPTIONS: Final = orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY
_INDENTED: Final = orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS
_AFTER_NUMBERS: Final = (b",", b"]", b"}")
ANY: Final = "*"
LONG_PARTS: Final = (  # the parts that grow with the replies; the last is an object, the others are lists
    ("scores", ANY, "systems", ANY, "replies"),
    ("details", "items"),
    ("details", "sums", ANY, "systems", ANY),
    ("evidence",),
)
_REPLIES_AT_ONCE: Final = 2_000
_ENTRIES_AT_ONCE: Final = 200
_SEALED_AT_ONCE: Final = 1 << 20  # bytes
_OTHER_DOCUMENTS: Final[Mapping[str, str]] = {  # a field that tells them → what they are
    "batches": "scores of several batches together, which have no signature of all their items",
    "sets": "the result of refaug agreement: its metrics have the signatures of scores, but its correlations are not "
    "reproduced; run it again and compare data and signatures",
    "without_gold": "the scores of refaug agreement probe, whose replies are made, not given",
}


def seal_of(document: Mapping[str, Any]) -> str:
    """Return the seal that fits the content of a document."""
    content = {name: part for name, part in document.items() if name not in _NOT_SEALED}
    if _reply_count(document) <= _REPLIES_AT_ONCE:
        return hashlib.sha256(_with_plain_numbers(bytearray(orjson.dumps(content, plain_json, _OPTIONS)))).hexdigest()
    digest, waiting = hashlib.sha256(), bytearray()
    for piece in _sorted_pieces(content, LONG_PARTS):
        waiting += piece
        if len(waiting) >= _SEALED_AT_ONCE:
            waiting = _with_plain_numbers(waiting)
            digest.update(waiting[:-2])  # what is replaced has three bytes, and may begin in the last two
            del waiting[:-2]
    digest.update(_with_plain_numbers(waiting))
    return digest.hexdigest()


def _reply_count(document: Mapping[str, Any]) -> float:
    """Return how many replies the scores are of, as the document says; infinity where it does not say so."""
    scores, items = document.get("scores"), document.get("items")
    if not isinstance(scores, list) or type(items) is not int:
        return math.inf
    systems = [entry.get("systems") for entry in scores if isinstance(entry, dict)]
    return items * sum(len(by_name) for by_name in systems if isinstance(by_name, dict))


def _sorted_pieces(content: Any, long_parts: Sequence[tuple[str, ...]]) -> Iterator[bytes]:
    """Yield JSON with sorted fields in pieces; parts that grow with the replies come some entries at a time."""
    if not long_parts or not isinstance(content, Mapping | list | PassingList):
        yield orjson.dumps(content, plain_json, _OPTIONS)
    elif () in long_parts:
        yield from _sorted_slices(content)
    elif not isinstance(content, Mapping):
        below = below_step(long_parts, ANY)
        yield b"["
        for place, entry in enumerate(content):
            yield b"," if place else b""
            yield from _sorted_pieces(entry, below)
        yield b"]"
    else:
        yield b"{"
        for place, (name, part) in enumerate(
            sorted(((str(name), part) for name, part in content.items()), key=itemgetter(0))
        ):
            yield (b"," if place else b"") + orjson.dumps(name) + b":"
            yield from _sorted_pieces(part, below_step(long_parts, name))
        yield b"}"


def _sorted_slices(content: Mapping[Any, Any] | Iterable[Any]) -> Iterator[bytes]:
    """Yield the JSON of a long object or list, so many entries at a time."""
    is_object, between = isinstance(content, Mapping), b""
    yield b"{" if is_object else b"["
    for part in _slices_of(_in_order_of_names(content) if isinstance(content, Mapping) else content):
        yield between + orjson.dumps(dict(part) if is_object else part, option=_OPTIONS)[1:-1]
        between = b","
    yield b"}" if is_object else b"]"


def _in_order_of_names(content: Mapping[Any, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the fields sorted by name; a mapping that reads a file is gone through once, in the order of the file."""
    if isinstance(content, dict):
        by_name = {str(name): part for name, part in content.items()}
        for name in sorted(by_name):
            yield name, by_name[name]
        return
    names, parts = list[str](), CompactTexts()
    for name, part in content.items():
        names.append(str(name))
        parts.append(orjson.dumps(part, option=_OPTIONS).decode())
    for place in sorted(range(len(names)), key=names.__getitem__):
        yield names[place], orjson.Fragment(parts[place])


def _slices_of(entries: Iterable[Any]) -> Iterator[list[Any]]:
    following = iter(entries)
    while part := list(islice(following, _ENTRIES_AT_ONCE)):
        yield part


def indented_pieces(
    content: Any, long_parts: Sequence[tuple[str, ...]] = LONG_PARTS, depth: int = 0
) -> Iterator[bytes]:
    """Yield JSON with an indent of two in pieces: the bytes of orjson, with some entries of long parts at a time."""
    margin = b"\n" + b"  " * depth
    if not long_parts or not isinstance(content, Mapping | list | PassingList) or not content:
        yield orjson.dumps(content, plain_json, _INDENTED).replace(b"\n", margin)
        return
    between, end = (b"{", b"}") if isinstance(content, Mapping) else (b"[", b"]")
    if () in long_parts:
        for part in _slices_of(content.items() if isinstance(content, Mapping) else content):
            piece = orjson.dumps(dict(part) if isinstance(content, Mapping) else part, option=_INDENTED)
            yield between + piece[1:-2].replace(b"\n", margin)
            between = b","
    elif isinstance(content, Mapping):
        for name, part in content.items():
            yield between + margin + b"  " + orjson.dumps(str(name)) + b": "
            yield from indented_pieces(part, below_step(long_parts, name), depth + 1)
            between = b","
    else:
        for entry in content:
            yield between + margin + b"  "
            yield from indented_pieces(entry, below_step(long_parts, ANY), depth + 1)
            between = b","
    yield margin + end


def below_step(long_parts: Sequence[tuple[str, ...]], step: str) -> list[tuple[str, ...]]:
    """Return what is left of these paths below a field, or below an entry of a list."""
    return [path[1:] for path in long_parts if path and path[0] in (ANY, step)]


def _with_plain_numbers(content: bytearray) -> bytearray:
    """Return JSON with 1 for 1.0: programs write either."""
    for end in _AFTER_NUMBERS:
        content = content.replace(b".0" + end, end)
    return content


def is_sealed(document: Mapping[str, Any]) -> bool | None:
    """Whether the content fits its seal; None where there is no seal, as in answers of scores against a set."""
    seal = document.get(SEAL)
    return None if seal is None else has_seal(document, seal)


def has_seal(document: Mapping[str, Any], seal: object) -> bool:
    """Whether the seal fits the content; none fits a whole number of more than 64 bits, which no document has."""
    try:
        return bool(seal == seal_of(document))
    except orjson.JSONEncodeError:
        return False


def lacks_seal(document: Mapping[str, Any]) -> bool:
    """Whether the seal was removed: a file with a version of its format, or with hashes of its texts, had one."""
    return document.get(SEAL) is None and any(field in document for field in (FORMAT, *_HASHES))


@dataclass(frozen=True, kw_only=True)
class SignedEntry:
    """One metric of a document, with its place and its signature."""

    where: str
    content: Mapping[str, Any]
    signature: Signature

    @property
    def line(self) -> str:
        """The full signature as it is written."""
        return str(self.content["signature_full"])


@dataclass(frozen=True, kw_only=True)
class ScoreDocument:
    """A document of scores or of sums, checked as far as all uses of it need."""

    content: Mapping[str, Any]
    shown_name: str

    @classmethod
    def read(cls, path: Path, shown_name: str) -> Self:
        """Read a file; BadInput where it is empty, cut off, no JSON, of a newer format, or of another kind."""
        try:
            require_readable(path)
            content = path.read_bytes()
        except (FileNotFoundError, IsADirectoryError) as error:
            raise NoSource(f"{shown_name}: no such file", remedy=REMEDY) from error
        if not content.strip():
            raise BadInput(f"{shown_name}: the file is empty", remedy=REMEDY)
        try:
            document = orjson.loads(content)
        except orjson.JSONDecodeError as error:
            what = "it ends in the middle: it was cut off" if _is_cut(content, error) else "it is not JSON"
            where = f"line {error.lineno}, column {error.colno}"
            raise BadInput(f"{shown_name}: {what} ({where}: {error.msg})", remedy=REMEDY) from error
        return cls.of(document, shown_name)

    @classmethod
    def of(cls, document: object, shown_name: str) -> Self:
        """Return a JSON value as a document; BadInput says what else it is."""
        if not isinstance(document, dict):
            raise BadInput(f"{shown_name}: a JSON object was expected, not a {type(document).__name__}", remedy=REMEDY)
        newest = document.get(FORMAT)
        if isinstance(newest, int) and newest > FORMAT_VERSION:
            raise BadInput(
                f"{shown_name}: its format is {newest}; this refaug reads up to {FORMAT_VERSION}",
                remedy="read it with the refaug that wrote it, or upgrade",
            )
        if newest is not None and (type(newest) is not int or newest < 1):
            raise BadInput(f"{shown_name}: {FORMAT} is {newest!r}, a whole number was expected", remedy=REMEDY)
        for field, what in _OTHER_DOCUMENTS.items():
            if field in document:
                raise BadInput(f"{shown_name}: this is {what}", remedy=REMEDY)
        return cls(content=document, shown_name=shown_name)

    @property
    def set_id(self) -> str | None:
        """The id of the frozen set that was scored against."""
        named = self.content.get("set")
        named = named.get("id") if isinstance(named, dict) else named
        return named if isinstance(named, str) else None

    def entries(self, *fields: str) -> Iterator[SignedEntry]:
        """Yield the metrics of these fields in order; BadInput names the first that has no usable signature."""
        for field in fields:
            listed = self.content.get(field)
            for number, entry in enumerate(listed if isinstance(listed, list) else []):
                yield _signed_entry(entry, f"{self.shown_name}: {field}[{number}]")


def _is_cut(content: bytes, error: orjson.JSONDecodeError) -> bool:
    """Whether reading failed at the end of the content, not before."""
    return error.pos >= len(content.decode("utf-8", "replace").rstrip()) - 1


def _signed_entry(entry: object, where: str) -> SignedEntry:
    if not isinstance(entry, dict):
        raise BadInput(f"{where}: an object was expected", remedy=REMEDY)
    line = entry.get("signature_full")
    if not isinstance(line, str):
        raise BadInput(f"{where}: it has no signature_full", remedy=REMEDY)
    try:
        signature = Signature.parse(line)
    except RefaugError as error:
        raise BadInput(f"{where}: {error.message}", remedy=error.remedy) from None
    return SignedEntry(where=where, content=entry, signature=signature)


# ── The details of a score file, which are there when they are asked for: the items that were scored, and the sums ────
#
# `refaug compare` shows the texts, computes which references credit a reply, and tests corpus scores on the sums; a
# file without details has neither.

FIELD: Final = "details"
_REMEDY: Final = "give the output of refaug score --json --details as it was written"
_ROWS_AT_ONCE: Final = 10_000  # that are numbers of Python at the same time
_HELD_ITEMS: Final = 10_000  # parsed
_LARGEST: Final = 1e15  # sums of n-grams and scores stay far below


def details_of(evaluation: Evaluation, items: Iterable[Item | BadItem]) -> dict[str, object]:
    """Return the details of scores as JSON: the scored items, and the sums of each metric, system by system."""
    return {
        "items": [item_json(test_item) for test_item in items if isinstance(test_item, Item)],
        "sums": [
            {
                "columns": list(scores.metric.columns),
                "systems": {name: list(system.rows()) for name, system in scores.systems.items()},
            }
            for scores in evaluation.scores
        ],
    }


def passing_details(evaluation: Evaluation, items: Iterable[Item | BadItem]) -> dict[str, object]:
    """Return the details of scores as `details_of` does, with passing lists, to be written in pieces."""
    usable = ItemCollection.of(items).items
    return {
        "items": PassingList(len(usable), lambda: map(item_json, usable)),
        "sums": [
            {
                "columns": list(scores.metric.columns),
                "systems": {name: PassingList(len(system.ids), system.rows) for name, system in scores.systems.items()},
            }
            for scores in evaluation.scores
        ],
    }


@dataclass(frozen=True, kw_only=True)
class ScoreDetails:
    """The details of a score file, read back."""

    document: Mapping[str, Any]
    shown_name: str

    @classmethod
    def of(cls, document: Mapping[str, Any], shown_name: str) -> Self | None:
        """Return the details of a score file, or None where it has none; BadInput where they are damaged."""
        details = document.get(FIELD)
        if details is None:
            return None
        where = f"{shown_name}: {FIELD}"
        if not isinstance(details, dict):
            raise BadInput(f"{where}: an object was expected", remedy=_REMEDY)
        for name in ("items", "sums"):
            listed = details.get(name)
            if isinstance(listed, StoredList):  # of a document that this refaug wrote and checked
                continue
            if not isinstance(listed, list) or not all(isinstance(entry, dict) for entry in listed):
                raise BadInput(f"{where}.{name}: a list of objects was expected", remedy=_REMEDY)
        return cls(document=details, shown_name=shown_name)

    @cached_property
    def _places(self) -> Mapping[str, int]:
        """The place of each item by its id."""
        listed = self.document["items"]
        if isinstance(listed, StoredRows):
            return listed.ids.places
        return {str(row.get("id")): place for place, row in enumerate(listed)}

    @cached_property
    def _parsed_items(self) -> BoundedCache[str, Item]:
        return BoundedCache[str, Item](_HELD_ITEMS)

    def row(self, name: str) -> Mapping[str, Any]:
        """Return the item of this id as it is written; nothing where there is none."""
        place = self._places.get(name)
        return {} if place is None else self.document["items"][place]

    def item(self, name: str) -> Item | None:
        """Return the item of this id, or None; BadInput where it cannot be used."""
        if name not in self._places:
            return None
        held = self._parsed_items.get(name)
        if held is None:
            place = self._places[name]
            where = f"{self.shown_name}: {FIELD}.items[{place}]"
            parsed = parse_item(self.document["items"][place], where=where, line=place + 1, fallback_id=name)
            if isinstance(parsed, BadItem):
                raise BadInput(f"{where}.{parsed.field}: {parsed.message}", remedy=_REMEDY)
            held = parsed
            self._parsed_items.put(name, held)
        return held

    def items(self) -> Iterable[Item]:
        """Yield all items in order."""
        for name in self._places:
            if (test_item := self.item(name)) is not None:
                yield test_item

    def sums(self, metric_place: int, system: str, count: int) -> tuple[tuple[str, ...], Floats]:
        """Return the columns and the sums (replies, columns) of a system; NaN where a reply has no score."""
        where = f"{self.shown_name}: {FIELD}.sums[{metric_place}]"
        if metric_place >= len(self.document["sums"]):
            raise BadInput(f"{where}: it is missing", remedy=_REMEDY)
        sheet = self.document["sums"][metric_place]
        columns, systems = sheet.get("columns"), sheet.get("systems")
        rows = systems.get(system) if isinstance(systems, dict) else None
        if not isinstance(columns, list) or not all(isinstance(name, str) for name in columns):
            raise BadInput(f"{where}.columns: a list of names was expected", remedy=_REMEDY)
        if not isinstance(rows, list | StoredList) or len(rows) != count:
            raise BadInput(
                f"{where}.systems.{system}: a row for each of {count:,} replies was expected", remedy=_REMEDY
            )
        empty = [None] * len(columns)
        try:
            pieces = [
                np.array([empty if row is None else row for row in rows[begin : begin + _ROWS_AT_ONCE]], np.float64)
                for begin in range(0, count, _ROWS_AT_ONCE)
            ]
            sums = np.concatenate(pieces) if pieces else np.empty(0)
        except (TypeError, ValueError) as error:
            raise BadInput(f"{where}.systems.{system}: a row is not {len(columns)} numbers", remedy=_REMEDY) from error
        sums = sums.reshape(count, -1) if sums.size else np.empty((count, len(columns)))
        if sums.shape != (count, len(columns)) or (np.abs(sums) > _LARGEST).any():
            raise BadInput(f"{where}.systems.{system}: a row is not {len(columns)} numbers", remedy=_REMEDY)
        return tuple(columns), sums
