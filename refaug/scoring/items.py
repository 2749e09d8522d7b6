"""Test files: JSONL items, tables or line-aligned texts become the same records, and faults are located precisely.

A bad item does not affect the others: readers yield a BadItem in its place, with file, line, item and field.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from refaug.core.errors import BadInput, DamagedSource, Usage
from refaug.core.memory import SeenLines
from refaug.core.records import Item, Origin, Reference
from refaug.core.text.content_shapes import MAX_DEPTH, has_surrogate, is_nested_too_deep, short_repr
from refaug.tables.item_fields import REFERENCE_FIELDS, unused_fields

if TYPE_CHECKING:
    from refaug.logs.reading.sources import BadRow
    from refaug.tables.table_notes import TableNotes
    from refaug.tables.table_request import TableRequest

# What reads files is imported where they are read: items of a program or a request need none of it.


def aligned_lines(files: Sequence[Path], shown_names: Sequence[str] = ()) -> Iterator[tuple[int, list[str]]]:
    """Yield the lines of one number from all files; BadInput where one of them ends before the others.

    Messages call the files by their paths, or by `shown_names`.
    """
    names = list(shown_names) or [str(path) for path in files]
    readers = [_lines(path, name) for path, name in zip(files, names, strict=True)]
    for number, row in enumerate(zip_longest(*readers), start=1):
        if missing := [name for name, text in zip(names, row, strict=True) if text is None]:
            _refuse_uneven(files, names, missing)
        yield number, [text for text in row if text is not None]


def _lines(path: Path, name: str) -> Iterator[str]:
    from refaug.logs.reading.containers import why_not_utf8  # noqa: PLC0415
    from refaug.logs.reading.sources import LineReader, Source, require_readable  # noqa: PLC0415

    require_readable(path)
    source = Source.of(path)
    for block in LineReader(source):
        if block.bad is not None:
            raise BadInput(f"{name}, line {block.first_line}: {block.bad.message}")
        for number, line in enumerate(block.data.split(b"\n"), start=block.first_line):
            try:
                yield line.removesuffix(b"\r").decode("utf-8")
            except UnicodeDecodeError as error:
                message = (why_not_utf8(line) or "").replace(_ADVICE_FOR_LOGS, _ADVICE_FOR_ITEMS)
                raise BadInput(f"{name}, line {number}: {message}") from error


def _refuse_uneven(files: Sequence[Path], names: Sequence[str], missing: Sequence[str]) -> None:
    counts = {name: sum(1 for _ in _lines(path, name)) for name, path in zip(names, files, strict=True)}
    listed = ", ".join(f"{name} has {count:,}" for name, count in counts.items())
    raise BadInput(f"the files have different numbers of lines: {listed}", remedy=f"{missing[0]} ends first")


_Value = TypeVar("_Value")

_SEARCH_NOTES: Final = ("excluded", "note", "excluded_references", "reply_ms")
_REFERENCE_NUMBERS: Final = {"weight": (-1.0, 1.0), "rating": (-1.0, 1.0), "similarity": (-math.inf, math.inf)}
_LONGEST_NAME: Final = 200
_LONGEST_SHOWN: Final = 58
_ADVICE_FOR_LOGS: Final = ": if the file is in Latin-1, say --encoding latin-1"
_ADVICE_FOR_ITEMS: Final = ": save the file as UTF-8, of Latin-1 by iconv -f latin1 -t utf-8 FILE"
_TRUNCATED_REMEDY: Final = "copy it again; refaug score --allow-truncated uses the items before"
_LISTED: Final = 8  # keys of an object in a message
_LONGEST_ID: Final = 64  # bits of an id that is a number
_LIKERT: Final = (1.0, 5.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class BadItem:
    """An item that could not be read."""

    file: str
    line: int
    item: str | None
    field: str
    message: str

    def __str__(self) -> str:
        where = f"{self.file}, line {self.line}" + (f", item {self.item}" if self.item is not None else "")
        return f"{where}{f', {self.field}' if self.field else ''}: {self.message}"


class _InvalidField(Exception):
    """A field with a message that says what is wrong."""

    def __init__(self, at: str, message: str) -> None:
        super().__init__(message)
        self.at, self.message = at, message


def read_items(
    path: Path,
    *,
    shown_name: str | None = None,
    on_unknown_field: Callable[[str], None] | None = None,
    allow_truncated: bool = False,
    table: TableRequest | None = None,
    notes: TableNotes | None = None,
) -> Iterator[Item | BadItem]:
    """Yield the items of a JSONL file, or of a table of any kind, compressed or not; `shown_name` stands in messages.

    `table` says which column holds what; what was not used is in `notes` at the end.

    `on_unknown_field` is called once for each field that items or references do not have, also of a bad item, with a
    message. A compressed file that breaks off is refused at its end, unless `allow_truncated`: then what is missing
    counts as one bad item.
    """
    from refaug.logs.reading.sources import DAMAGED  # noqa: PLC0415
    from refaug.tables.table_notes import TableNotes  # noqa: PLC0415

    name_in_messages = shown_name or str(path)
    seen, reported = SeenLines(), set[tuple[bool, str]]()
    for row in item_rows(path, name_in_messages, table, notes or TableNotes(on_warning=on_unknown_field)):
        if not isinstance(row, tuple):
            if row.reason == DAMAGED and not allow_truncated:
                raise DamagedSource(f"{name_in_messages}, line {row.line}: {row.message}", remedy=_TRUNCATED_REMEDY)
            yield BadItem(file=name_in_messages, line=row.line, item=None, field="", message=row.message)
            continue
        line, values = row
        for unused in unused_fields(values):
            if on_unknown_field is not None and unused.key not in reported:
                reported.add(unused.key)
                on_unknown_field(unused.warning)
        try:
            test_item = _require_new(item_of(values, fallback_id=f"line-{line}"), line, seen)
        except _InvalidField as invalid:
            yield _as_bad_item(values, name_in_messages, line, invalid)
            continue
        yield test_item


def item_rows(
    path: Path, where: str, table: TableRequest | None = None, notes: TableNotes | None = None
) -> Iterator[tuple[int, Mapping[str, Any]] | BadRow]:
    """Yield the values of items with their lines, unchecked, and rows that have none."""
    from refaug.logs.reading.containers import json_rows  # noqa: PLC0415
    from refaug.logs.reading.sources import BadRow, LineReader, Source, require_readable  # noqa: PLC0415
    from refaug.tables.table_items import is_items_file, table_items  # noqa: PLC0415
    from refaug.tables.table_notes import TableNotes  # noqa: PLC0415
    from refaug.tables.table_request import TableRequest  # noqa: PLC0415

    request, notes = table or TableRequest(), notes or TableNotes()
    if not path.is_dir():
        require_readable(path)
    if not is_items_file(path, request):
        yield from table_items(path, where, request, notes)
        notes.end()
        return
    for block in LineReader(Source.of(path)):
        for row in json_rows(block) if block.bad is None else (block.bad,):
            if isinstance(row, BadRow):
                yield replace(row, message=row.message.replace(_ADVICE_FOR_LOGS, _ADVICE_FOR_ITEMS))
            else:
                yield row


def of_systems(items: Iterable[Item | BadItem], systems: Sequence[str]) -> Iterator[Item | BadItem]:
    """Yield items with the replies of these systems alone, or of all if none is named; Usage for one without any."""
    seen = dict[str, None]()
    for test_item in items:
        if not systems or isinstance(test_item, BadItem):
            yield test_item
            continue
        seen.update(dict.fromkeys(test_item.replies))
        yield replace(
            test_item,
            replies=_of_names(test_item.replies, systems),
            ratings=_of_names(test_item.ratings, systems),
            reply_provenance=_of_names(test_item.reply_provenance, systems),
        )
    if unknown := [name for name in systems if name not in seen]:
        raise Usage(f"no system is called {unknown[0]!r}", remedy=f"there are: {', '.join(seen)}", field="systems")


def _of_names(by_system: Mapping[str, _Value], names: Sequence[str]) -> dict[str, _Value]:
    return {name: by_system[name] for name in names if name in by_system}


def _require_new(test_item: Item, line: int, seen: SeenLines) -> Item:
    if (before := seen.first(test_item.id, line)) is not None:
        raise _InvalidField("id", f"{test_item.id!r} was used in line {before}: every item has an id of its own")
    return test_item


def parse_item(values: Mapping[str, Any], *, where: str, line: int, fallback_id: str) -> Item | BadItem:
    """Return an item from JSON that does not come from a file."""
    try:
        return item_of(values, fallback_id=fallback_id)
    except _InvalidField as invalid:
        return _as_bad_item(values, where, line, invalid)


def _as_bad_item(values: Mapping[str, Any], file: str, line: int, invalid: _InvalidField) -> BadItem:
    name = values.get("id")
    item = name if isinstance(name, str) else None
    return BadItem(file=file, line=line, item=item, field=invalid.at, message=invalid.message)


def item_of(values: Mapping[str, Any], *, fallback_id: str) -> Item:
    """Check every field; raise for the first wrong field."""
    name = values.get("id", fallback_id)
    if isinstance(name, int) and not isinstance(name, bool) and name.bit_length() <= _LONGEST_ID:
        name = str(name)
    name, turns = _text(name, "id", empty=False), _turns(values)
    references = tuple(_references(_null_as_empty(values.get("references"))))
    dialogue = None if values.get("dialogue") is None else _text(values["dialogue"], "dialogue")
    time, exclude = _time(values.get("time")), tuple(_texts(_null_as_empty(values.get("exclude")), "exclude"))
    replies = {_system(name, "replies"): _reply(text, name) for name, text in _object(values, "replies").items()}
    scale = (-math.inf, math.inf) if values.get("scale") is None else _scale(values["scale"], "scale")
    ratings = {
        _system(name, "ratings"): _ratings(numbers, name, scale) for name, numbers in _object(values, "ratings").items()
    }
    if nameless := [name for name in ratings if name not in replies]:
        raise _InvalidField(f"ratings.{nameless[0]}", f"ratings of {nameless[0]!r}, which has no reply here")
    return Item(
        id=name,
        turns=turns,
        references=references,
        dialogue=dialogue,
        time=time,
        exclude=exclude,
        replies=replies,
        ratings=ratings,
        scale=None if values.get("scale") is None else scale,
        provenance=_provenance(values.get("provenance"), "provenance"),
        reply_provenance=_reply_provenance(values, replies),
        search_notes={name: _written(values[name], name) for name in _SEARCH_NOTES if values.get(name) is not None},
    )


def _provenance(content: object, at: str) -> str:
    """Return the line as it stands, if it reads as a part of a signature."""
    if content is None:
        return ""
    from refaug.scoring.provenance import canonical_line  # noqa: PLC0415  imports numpy

    try:
        return canonical_line(_text(content, at))
    except BadInput as error:
        raise _InvalidField(at, error.message) from None


def _reply_provenance(values: Mapping[str, Any], replies: Mapping[str, str]) -> dict[str, str]:
    """Return the lines of the systems that have one."""
    lines = dict[str, str]()
    for name, content in _object(values, "reply_provenance").items():
        at = f"reply_provenance.{_system(name, 'reply_provenance')}"
        if name not in replies:
            raise _InvalidField(at, f"the provenance of {name!r}, which has no reply here")
        if line := _provenance(content, at):
            lines[name] = line
    return lines


# ── Fields ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _describe(content: object) -> str:
    """Return a JSON value as messages show it: its kind, and its beginning."""
    kinds = {dict: "an object", list: "a list", str: "a text", bool: "true or false"}
    kind = kinds.get(type(content), "a number")
    if content is None:
        return "null"
    return f"{kind}, {short_repr(content, _LONGEST_SHOWN)}"


def _text(content: object, at: str, *, empty: bool = True) -> str:
    if not isinstance(content, str):
        raise _InvalidField(at, f"a text was expected, {_describe(content)} was found")
    if not empty and not content.strip():
        raise _InvalidField(at, "it is empty")
    if has_surrogate(content):
        raise _InvalidField(at, "it holds half a character, a surrogate without its other half")
    return content


def _written(content: Any, at: str) -> Any:
    """Return a note that is written out as it was read; lists in lists without end cannot be."""
    if is_nested_too_deep(content):
        raise _InvalidField(at, f"lists and objects are nested deeper than {MAX_DEPTH}")
    return content


def _texts(content: object, at: str) -> Iterator[str]:
    if not isinstance(content, list | tuple):
        raise _InvalidField(at, f"a list of texts was expected, {_describe(content)} was found")
    for number, text in enumerate(content):
        yield _text(text, f"{at}[{number}]")


def _null_as_empty(content: object) -> object:
    """Return an empty tuple for `null`, which means the same as a missing field."""
    return () if content is None else content


def _object(values: Mapping[str, Any], at: str) -> Mapping[str, Any]:
    content = values.get(at)
    if content is None:
        return {}
    if not isinstance(content, Mapping):
        raise _InvalidField(
            at, f"an object with a system's name as each key was expected, {_describe(content)} was found"
        )
    return content


def system_name(name: str) -> str:
    """Return a system's name from another source than an item; raise BadInput for a bad one."""
    try:
        return _system(name, "system")
    except _InvalidField as invalid:
        raise BadInput(invalid.message) from None


def _system(name: str, at: str) -> str:
    if not name.strip() or len(name) > _LONGEST_NAME or not name.isprintable():
        raise _InvalidField(
            at, f"{name[:60]!r} is not a name for a system: printable, at most {_LONGEST_NAME} characters"
        )
    return name


def _reply(content: object, system: str) -> str:
    if isinstance(content, list):
        raise _InvalidField(f"replies.{system}", "a list was found; a system has one reply an item: repeat the item")
    return _text(content, f"replies.{system}")


def _turns(values: Mapping[str, Any]) -> tuple[str, ...]:
    turns = tuple(_texts(values["turns"], "turns")) if values.get("turns") is not None else ()
    if values.get("utterance") is None:
        return turns
    utterance = _text(values["utterance"], "utterance")
    if turns and turns[-1] != utterance:
        raise _InvalidField("utterance", "it is not the last of the turns: give one of the two")
    return turns or (utterance,)


def _time(content: object) -> datetime | None:
    if content is None:
        return None
    try:
        return datetime.fromisoformat(_text(content, "time"))
    except ValueError:
        raise _InvalidField(
            "time", f"{short_repr(content, _LONGEST_SHOWN)} is not an ISO 8601 time such as 2027-06-01T09:00:00+00:00"
        ) from None


def _number(content: object, at: str, least: float = -math.inf, most: float = math.inf) -> float:
    if isinstance(content, bool) or not isinstance(content, int | float):
        raise _InvalidField(at, f"a number was expected, {_describe(content)} was found")
    try:
        number = float(content)
    except OverflowError:  # a whole number of hundreds of digits
        number = math.inf
    if not math.isfinite(number) or not least <= number <= most:
        bounds = f"from {least:g} to {most:g}" if math.isfinite(least) else "finite"
        raise _InvalidField(at, f"{number:g} is out of range: it must be {bounds}")
    return number


def _ratings(content: object, system: str, scale: tuple[float, float]) -> tuple[float | None, ...]:
    at = f"ratings.{system}"
    if not isinstance(content, list):
        raise _InvalidField(at, f"a list with one number an annotator was expected, {_describe(content)} was found")
    return tuple(
        None if rating is None else _number(rating, f"{at}[{place}]", *scale) for place, rating in enumerate(content)
    )


def _references(content: object) -> Iterator[Reference]:
    if not isinstance(content, list | tuple):
        raise _InvalidField("references", f"a list was expected, gold first; {_describe(content)} was found")
    for number, reference in enumerate(content):
        at = f"references[{number}]"
        if isinstance(reference, str):
            yield Reference(text=_text(reference, at))
        elif isinstance(reference, Mapping):
            yield _reference(reference, at)
        else:
            raise _InvalidField(at, f"a text, or an object with a text, was expected, {_describe(reference)} was found")


def _reference(values: Mapping[str, Any], at: str) -> Reference:
    if "text" not in values:
        raise _InvalidField(at, f"it has no text, only {', '.join(map(str, list(values)[:_LISTED])) or 'nothing'}")
    numbers = {
        name: _number(values[name], f"{at}.{name}", *bounds)
        for name, bounds in _REFERENCE_NUMBERS.items()
        if values.get(name) is not None
    }
    if values.get("ratings") is not None:
        if "weight" in numbers:
            raise _InvalidField(at, "it has a weight and ratings: one of them decides, so give one")
        numbers["weight"] = _weight_of_ratings(values, at)
    return Reference(
        text=_text(values["text"], f"{at}.text"),
        source=_origin(values, at, rated=bool(numbers.keys() & {"weight", "rating"})),
        is_unused=_is_unused(values.get("unused"), f"{at}.unused"),
        utterance=None if values.get("utterance") is None else _text(values["utterance"], f"{at}.utterance"),
        more={name: _written(extra, f"{at}.{name}") for name, extra in values.items() if name not in REFERENCE_FIELDS},
        **{"weight": numbers.get("rating"), **numbers},
    )


def _is_unused(content: object, at: str) -> bool:
    if content is not None and not isinstance(content, bool):
        raise _InvalidField(at, f"true or false was expected, {_describe(content)} was found")
    return content is True


def _origin(values: Mapping[str, Any], at: str, *, rated: bool) -> Origin:
    source = values.get("source")
    if source is None:
        return Origin.SUPPLIED if rated else Origin.GOLD
    if source not in list(Origin):
        raise _InvalidField(f"{at}.source", f"{short_repr(source, _LONGEST_SHOWN)} is none of {', '.join(Origin)}")
    return Origin(source)


def _weight_of_ratings(values: Mapping[str, Any], at: str) -> float:
    """Map people's ratings linearly from their scale to −1 … 1 and return their mean."""
    low, high = _scale(values.get("scale"), f"{at}.scale")
    ratings = values["ratings"]
    if not isinstance(ratings, list) or not ratings:
        raise _InvalidField(
            f"{at}.ratings", f"a list of at least one number was expected, {_describe(ratings)} was found"
        )
    rated = [_number(rating, f"{at}.ratings[{place}]", low, high) for place, rating in enumerate(ratings)]
    # Halving both keeps the widest scale from overflowing.
    return math.fsum(2 * ((rating / 2 - low / 2) / (high / 2 - low / 2)) - 1 for rating in rated) / len(rated)


def _scale(content: object, at: str) -> tuple[float, float]:
    if content is None:
        return _LIKERT
    if not isinstance(content, list) or len(content) != 2:
        raise _InvalidField(
            at, f"the lowest and the highest rating were expected, such as [1, 5], {_describe(content)} was found"
        )
    low, high = _number(content[0], f"{at}[0]"), _number(content[1], f"{at}[1]")
    if low >= high:
        raise _InvalidField(at, f"its lowest rating, {low:g}, is not below its highest, {high:g}")
    return low, high


# ── Writing ───────────────────────────────────────────────────────────────────────────────────────────────────────


def item_json(test_item: Item) -> dict[str, object]:
    """Return an item as a line of a test file, with everything known about its references."""
    return {
        "id": test_item.id,
        **(
            {"turns": list(test_item.turns)}
            if len(test_item.turns) > 1
            else {"utterance": test_item.utterance}
            if test_item.turns
            else {}
        ),
        "references": [reference_json(reference) for reference in test_item.references],
        **({"replies": dict(test_item.replies)} if test_item.replies else {}),
        **(
            {"ratings": {name: list(numbers) for name, numbers in test_item.ratings.items()}}
            if test_item.ratings
            else {}
        ),
        **({"scale": list(test_item.scale)} if test_item.scale is not None and test_item.ratings else {}),
        **({"dialogue": test_item.dialogue} if test_item.dialogue is not None else {}),
        **({"time": test_item.time.isoformat()} if test_item.time is not None else {}),
        **({"exclude": list(test_item.exclude)} if test_item.exclude else {}),
        **({"provenance": test_item.provenance} if test_item.provenance else {}),
        **({"reply_provenance": dict(test_item.reply_provenance)} if test_item.reply_provenance else {}),
    }


def reference_json(reference: Reference) -> dict[str, object]:
    """Return a reference as it stands in such a line."""
    numbers = {"weight": reference.weight, "similarity": reference.similarity, "rating": reference.rating}
    return {
        "text": reference.text,
        "source": reference.source.value,
        **{name: number for name, number in numbers.items() if number is not None},
        **({"unused": True} if reference.is_unused else {}),
        **reference.origin,
    }


# ── Line-aligned files ────────────────────────────────────────────────────────────────────────────────────────────


def read_aligned(
    replies: Mapping[str, Path],
    references: Sequence[Path],
    weights: Sequence[Path] = (),
    utterances: Path | None = None,
    *,
    shown_names: Sequence[str] = (),
) -> Iterator[Item | BadItem]:
    """Yield items from files with one text a line: a file a system, and one or more files of references.

    The first file of references holds the golds; an empty line in a further one means that the item has one
    reference fewer. With files of weights, one number a line for each file of references, every reference is a
    supplied one. A file of utterances has what is replied to; an empty line there means that it is not known.
    `shown_names` are those that messages have for the utterances, replies, references and weights, in this order.
    """
    if weights and len(weights) != len(references):
        raise BadInput(
            f"{len(references)} files of references and {len(weights)} of weights",
            remedy="give a file of weights for each file of references, in the same order",
        )
    files = [*([utterances] if utterances is not None else []), *replies.values(), *references, *weights]
    names = list(shown_names) or [str(path) for path in files]
    for number, texts in aligned_lines(files, names):
        utterance = texts.pop(0) if utterances is not None else ""
        yield _aligned_item(number, utterance, texts, list(replies), len(references), names)


def _aligned_item(
    number: int, utterance: str, texts: Sequence[str], systems: Sequence[str], references: int, names: Sequence[str]
) -> Item | BadItem:
    replies, rest = texts[: len(systems)], texts[len(systems) :]
    golds, weights = rest[:references], rest[references:]
    try:
        references_read = [
            Reference(text=text, weight=weight, source=Origin.GOLD if weight is None else Origin.SUPPLIED)
            for text, weight in zip_longest(golds, _weights(weights, golds))
            if text.strip()
        ]
    except _InvalidField as invalid:
        at = len(texts) - references + int(invalid.at)
        return BadItem(
            file=names[at - len(texts)], line=number, item=str(number), field="weight", message=invalid.message
        )
    return Item(
        id=str(number),
        turns=(utterance,) if utterance.strip() else (),
        references=tuple(references_read),
        replies=dict(zip(systems, replies, strict=True)),
    )


def _weights(lines: Iterable[str], references: Sequence[str]) -> Iterator[float | None]:
    """Yield the weights of one line; an empty reference needs none."""
    for number, (line, reference) in enumerate(zip(lines, references, strict=False)):
        if not line.strip() and not reference.strip():
            yield None
            continue
        try:
            weight = float(line)
        except ValueError:
            raise _InvalidField(
                str(number), f"{short_repr(line, _LONGEST_SHOWN)} is not a number from -1 to 1"
            ) from None
        if not -1 <= weight <= 1:  # refuses NaN too
            raise _InvalidField(str(number), f"{line.strip()} is not from -1 to 1")
        yield weight
