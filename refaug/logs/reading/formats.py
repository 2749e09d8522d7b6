"""Formats: a container, a shape and the fields' names, recognised from a source's name and first bytes."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from types import MappingProxyType
from typing import Any, Final

import orjson
import pyarrow as pa

from refaug.core.errors import MissingField, NoSource, UnknownFormat, Usage
from refaug.logs.reading import containers, shapes
from refaug.logs.reading.arrow_files import arrow_blocks, arrow_schema, is_arrow
from refaug.logs.reading.sources import BadRow, LineBlock, LineReader, Source, head_of


class Container(StrEnum):
    """How a file holds rows."""

    JSON = "json"
    CSV = "csv"
    TSV = "tsv"
    PARQUET = "parquet"
    ARROW = "arrow"
    PARLAI = "parlai"
    ALIGNED = "aligned"


@dataclass(frozen=True, kw_only=True)
class Format:
    """Everything needed to read a source; passed to the workers and stored in the manifest."""

    name: str
    container: Container
    shape: shapes.Shape
    fields: shapes.Fields
    columns: tuple[str, ...] = ()  # in order, if a row is a list: CSV, TSV, aligned files, ParlAI
    header: bool = False
    markup: str = "none"


# name → description; the keys are the values of --format, besides "auto".
FORMATS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "jsonl": "an object a line: a dialogue (turns), a pair (utterance, response) or a message (id, parent, text)",
        "csv": "comma-separated, quoted where needed; two columns, or a header naming them",
        "tsv": "tab-separated, quotes mean nothing; two columns, or a header naming them",
        "parquet": "Parquet with the same columns",
        "arrow": "Arrow files and streams with the same columns, also in a folder that datasets saved",
        "aligned": "two text files, line i of the second answers line i of the first",
        "messages": "message trees as JSONL, CSV, TSV or Parquet: id, parent, text, and if known root, speaker, time",
        "turns": "single turns in the order they were said, as JSONL, CSV, TSV or Parquet: conversation_id, text",
        "convokit": "ConvoKit's utterances.jsonl",
        "reddit": "Reddit comments and submissions, as in the public dumps",
        "twitter": "tweets as the API gave them, one a line",
        "parlai": "ParlAI's text format (text:, labels:, episode_done:)",
    }
)
_PRESETS: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        "reddit": {
            "id": "id",
            "parent": "parent_id",
            "root": "link_id",
            "text": "body",
            "speaker": "author",
            "time": "created_utc",
            "tags": "subreddit",
        },
        "twitter": {
            "id": "id_str",
            "parent": "in_reply_to_status_id_str",
            "text": "text",
            "speaker": "user.screen_name",
            "time": "created_at",
        },
    }
)
# The fields that `refaug.logs.reading.shapes` uses where a preset's field is missing.
_STAND_INS: Final[Mapping[tuple[str, str], tuple[str, ...]]] = MappingProxyType(
    {
        ("reddit", "text"): ("title", "selftext"),
        ("twitter", "id"): ("id",),
        ("twitter", "text"): ("full_text", "extended_tweet"),
    }
)
_PRESET_MARKUP: Final[Mapping[str, str]] = MappingProxyType({"reddit": "reddit", "twitter": "twitter"})
_SNIFF_ROWS: Final = 50
_FURTHER_BLOCKS: Final = 16  # of JSON whose first rows do not tell what they are: 64 MiB


def detect(source: Source, *, requested: str, mapping: Mapping[str, str], encoding: str) -> Format:
    """Return the format of one source, as requested or by its content; an error says what was found."""
    if requested not in ("auto", *FORMATS):
        raise Usage(f"no format {requested!r}", remedy=f"there are: auto, {', '.join(FORMATS)}")
    head = head_of(source.path, encoding)
    if not head.strip():
        raise NoSource(f"{source.path}: empty")
    container = _container(source, head, requested)
    if container is Container.PARLAI:
        return Format(
            name="parlai",
            container=container,
            shape=shapes.Shape.DIALOGUES,
            fields=shapes.Fields(names={"turns": "turns", "id": "id"}),
            columns=("turns", "id"),
        )
    columns = _columns(source, container, head, mapping)
    if container is not Container.JSON:
        return _recognise(source, container, head, columns, requested, mapping)
    with suppress(MissingField):
        format_ = _recognise(source, container, head, columns, requested, mapping)
        if format_.shape is not shapes.Shape.TURNS or requested == "turns":
            return format_
    # Exports that leave out nulls name a message's parent, or a field of the map, only where there is one.
    columns = _json_columns(_further_rows(source, encoding))
    return _recognise(source, container, head, columns, requested, mapping)


@dataclass(frozen=True, kw_only=True)
class _Columns:
    """The names of a source's fields, and what they hold as far as it tells what a row is."""

    names: Sequence[str]
    lists: frozenset[str] = frozenset()  # those that hold lists
    header: bool = False  # whether the file's first line names them
    is_test: bool = False  # whether the rows are items of a test, with references or replies


def _recognise(
    source: Source,
    container: Container,
    head: bytes,
    columns: _Columns,
    requested: str,
    mapping: Mapping[str, str],
) -> Format:
    """Return the format of a source with these fields."""
    stated_shape = shapes.Shape.TURNS if requested == "turns" else _stated_shape(mapping)
    preset = requested if requested in ("messages", "convokit", *_PRESETS) else ""
    if not preset and stated_shape in (None, shapes.Shape.MESSAGES):
        preset = _preset(columns.names)
    shape = shapes.Shape.MESSAGES if preset else stated_shape or _shape(source, columns, head, container)
    names = _names(source, columns.names, shape, preset, mapping)
    is_table = container in (Container.CSV, Container.TSV)
    return Format(
        name=preset or container.value.replace("json", "jsonl"),
        container=container,
        shape=shape,
        fields=shapes.Fields(names=names, later=_later(names, shape) if container is Container.JSON else {}),
        columns=tuple(columns.names) if is_table else (),
        header=columns.header,
        markup=_PRESET_MARKUP.get(preset, "none"),
    )


def _container(source: Source, head: bytes, requested: str) -> Container:
    if requested in ("csv", "tsv", "parquet", "arrow", "parlai"):
        return Container(requested)
    if head.startswith(b"PAR1"):
        return Container.PARQUET
    if is_arrow(head):
        return Container.ARROW
    if head[257:262] == b"ustar":
        raise UnknownFormat(f"{source.path} is a tar archive", remedy="unpack it and name the files or the folder")
    if _JSON_ARRAY.match(head):
        raise UnknownFormat(
            f"{source.path}: one JSON array; one object a line is expected", remedy="convert it: jq -c '.[]' FILE"
        )
    if requested == "jsonl" or head.lstrip().startswith(b"{") or _sample(head):
        return Container.JSON
    return _text_container(source, head)


_JSON_ARRAY: Final = re.compile(rb"\s*\[\s*[\[{\"\]]")


def _text_container(source: Source, head: bytes) -> Container:
    lines = head.split(b"\n")[:_SNIFF_ROWS]
    if head.lstrip().startswith(b"text:") and any(b"labels:" in line for line in lines):
        return Container.PARLAI
    if b"\0" in head:
        raise UnknownFormat(
            f"{source.path}: a binary file, it begins {head[:20]!r}",
            remedy="if it is UTF-16 text without a byte-order mark, say --encoding utf-16-le (or -be)",
        )
    names = [suffix.lower() for suffix in source.path.suffixes]
    if ".tsv" in names:
        return Container.TSV
    if ".csv" in names:
        return Container.CSV
    if _all_contain(lines, b"\t"):
        return Container.TSV
    if _all_contain(lines, b",") or _is_csv(lines):
        return Container.CSV
    raise UnknownFormat(
        f"{source.path}: not JSON lines, CSV, TSV, Parquet, Arrow or ParlAI text; "
        f"it begins {head[:60].decode('utf-8', 'replace')!r}",
        remedy="for two line-aligned text files say --format aligned; else name the format with --format",
    )


def _all_contain(lines: Sequence[bytes], separator: bytes) -> bool:
    """Return whether every complete line contains the separator."""
    whole = [line for line in (lines[:-1] or lines) if line.strip()]
    return bool(whole) and all(separator in line for line in whole)


def _is_csv(lines: Sequence[bytes]) -> bool:
    """Return whether rows, some of them over several lines, have one number of fields, at least two."""
    rows = _csv_sample(lines)
    counts = {len(row) for row in (rows[:-1] or rows) if row}  # the last one may be cut off
    return len(counts) == 1 and counts != {1}


def _csv_sample(lines: Sequence[bytes]) -> list[list[str]]:
    """Return the rows that a CSV parser finds, up to an error."""
    rows = list[list[str]]()
    with suppress(csv.Error):
        rows.extend(csv.reader(line.decode(errors="replace").removesuffix("\r") + "\n" for line in lines))
    return rows


def _columns(source: Source, container: Container, head: bytes, mapping: Mapping[str, str]) -> _Columns:
    """Return the fields, in JSON those of the first rows."""
    if (schema := _schema(source, container)) is not None:
        are_lists = (pa.types.is_list, pa.types.is_large_list)
        lists = (column.name for column in schema if any(is_list(column.type) for is_list in are_lists))
        return _Columns(names=schema.names, lists=frozenset(lists))
    if container is Container.JSON:
        return _json_columns(_sample(head))
    if container is Container.TSV:
        fields = head.split(b"\n", 1)[0].decode(errors="replace").removesuffix("\r").split("\t")
    else:
        fields = next(iter(_csv_sample(head.split(b"\n")[:_SNIFF_ROWS])), [])
    known_names = {name for names in shapes.KNOWN_NAMES.values() for name in names} | set(mapping.values())
    if any(field.strip() in known_names for field in fields):
        return _Columns(names=[field.strip() for field in fields], header=True)
    if len(fields) == 2 and not mapping:
        return _Columns(names=("utterance", "response"))
    raise MissingField(
        f"{source.path}, line 1: no header that is known, and {len(fields)} columns instead of two: "
        f"{', '.join(field[:40] for field in fields[:12])}",
        remedy="fields must be set apart by commas or tabs, and a header named: "
        "--map utterance=COLUMN --map response=COLUMN",
    )


def _sample(head: bytes) -> list[Mapping[str, Any]]:
    """Return the first rows that can be read; the reader reports broken ones."""
    rows = list[Mapping[str, Any]]()
    for line in head.split(b"\n")[:_SNIFF_ROWS]:
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue
        if isinstance(row, dict):
            rows.append(row)
    return rows


def _json_columns(rows: Iterable[Mapping[str, Any]]) -> _Columns:
    names, lists, is_test = dict[str, None](), set[str](), False
    for row in rows:
        names.update(dict.fromkeys(row))
        lists.update(key for key, content in row.items() if isinstance(content, list))
        is_test |= isinstance(row.get("replies"), dict)
    return _Columns(names=list(names), lists=frozenset(lists), is_test=is_test or "references" in lists)


def _further_rows(source: Source, encoding: str) -> Iterator[Mapping[str, Any]]:
    for block in islice(LineReader(source, encoding=encoding), _FURTHER_BLOCKS):
        yield from (row[1] for row in containers.json_rows(block) if not isinstance(row, BadRow))


def _preset(columns: Sequence[str]) -> str:
    """Return the platform whose fields these are, or ""."""
    has = set(columns)
    if ({"parent_id", "body"} <= has and has & {"link_id", "subreddit"}) or {"title", "selftext"} <= has:
        return "reddit"
    if "in_reply_to_status_id_str" in has or {"id_str", "user"} <= has:
        return "twitter"
    if has & {"reply_to", "reply-to"} and has & {"speaker", "user"} and has & {"conversation_id", "root"}:
        return "convokit"
    return ""


def _stated_shape(mapping: Mapping[str, str]) -> shapes.Shape | None:
    """Return what a row is, as far as the map says."""
    for shape, field_names in (
        (shapes.Shape.DIALOGUES, {"turns"}),
        (shapes.Shape.MESSAGES, {"parent", "root"}),
        (shapes.Shape.PAIRS, {"utterance", "response"}),
    ):
        if field_names & mapping.keys():
            return shape
    return None


def _shape(source: Source, columns: _Columns, head: bytes, container: Container) -> shapes.Shape:
    """Return what a row is, by its field names."""
    has = set(columns.names)
    if container is Container.JSON:
        if not has:
            _require_readable_row(source, head)
        if columns.is_test:
            raise UnknownFormat(
                f"{source.path}: a test file, not dialogues: its rows have references or replies",
                remedy="refaug score reads it; to take its dialogues all the same, name them with --map",
            )
    elif has & set(shapes.KNOWN_NAMES["turns"][:2]):
        return shapes.Shape.DIALOGUES
    if columns.lists & set(shapes.KNOWN_NAMES["turns"]):  # a message's field may have the same name, and no list
        return shapes.Shape.DIALOGUES
    if all(has & set(shapes.KNOWN_NAMES[name]) for name in shapes.REQUIRED[shapes.Shape.PAIRS]):
        return shapes.Shape.PAIRS
    if all(has & set(shapes.KNOWN_NAMES[name]) for name in shapes.REQUIRED[shapes.Shape.MESSAGES]):
        return shapes.Shape.MESSAGES
    if has & set(shapes.CONVERSATION_IDS) and has & set(shapes.KNOWN_NAMES["text"]):
        return shapes.Shape.TURNS
    raise MissingField(
        f"{source.path}: neither dialogues (turns), nor pairs (utterance, response), nor messages (id, parent, text), "
        "nor single turns (conversation_id, text); "
        f"fields found: {', '.join(columns.names[:12]) or 'none'}",
        remedy="name them: --map turns=FIELD, or --map utterance=… --map response=…, or --map id=… --map parent=… "
        "--map text=…, or --map root=… --map text=…",
    )


def _require_readable_row(source: Source, head: bytes) -> None:
    """Refuse a source of JSON none of whose first lines is an object, with what is wrong with the first of them."""
    rows = containers.json_rows(LineBlock(first_line=1, data=b"\n".join(head.split(b"\n")[:_SNIFF_ROWS])))
    for bad in rows:
        if isinstance(bad, BadRow):
            raise UnknownFormat(
                f"{source.path}: no readable row among the first: line {bad.line}: {bad.message}",
                remedy="" if "UTF-8" in bad.message else "write one JSON object a line: jq -c . FILE",
            )


def _schema(source: Source, container: Container) -> pa.Schema | None:
    """Return the columns of a Parquet or Arrow file with their types; None for text."""
    if container is Container.ARROW:
        return arrow_schema(source.path, str(source.path))
    if container is not Container.PARQUET:
        return None
    with containers.open_parquet(source) as file:
        return file.schema_arrow


def _names(
    source: Source, columns: Sequence[str], shape: shapes.Shape, preset: str, mapping: Mapping[str, str]
) -> dict[str, str]:
    """Return field → name in this source: the preset's, overridden by the map, completed with known names."""
    has = set(columns)
    inner = _INNER if shape is shapes.Shape.DIALOGUES else ()
    for name, column in mapping.items():
        if name not in inner and not {column, column.split(".")[0]} & has:
            raise MissingField(f"{source.path}: no field {column!r} (for {name}); it has: {', '.join(columns[:20])}")
    names = {**_PRESETS.get(preset, {}), **mapping}
    for name in (*shapes.REQUIRED[shape], *shapes.OPTIONAL[shape]):
        if name not in names and name not in inner:
            chosen = next((column for column in _free_names(name, names, shape) if column in has), None)
            if chosen is not None:
                names[name] = chosen
    missing = [name for name in shapes.REQUIRED[shape] if not _is_there(name, names, has, preset)]
    if missing:
        raise MissingField(
            f"{source.path}: no field for {' and '.join(missing)} of {shape.value}; it has: {', '.join(columns[:20])}",
            remedy=" ".join(f"--map {name}=FIELD" for name in missing),
        )
    return {
        name: column for name, column in names.items() if name in (*shapes.REQUIRED[shape], *shapes.OPTIONAL[shape])
    }


def _later(names: Mapping[str, str], shape: shapes.Shape) -> dict[str, tuple[str, ...]]:
    """Return field → the names that rows may have it by, for fields that none of the first rows has."""
    inner = _INNER if shape is shapes.Shape.DIALOGUES else ()
    lacking = [
        name for name in (*shapes.REQUIRED[shape], *shapes.OPTIONAL[shape]) if name not in names and name not in inner
    ]
    return {name: _free_names(name, names, shape) for name in lacking}


def _free_names(name: str, names: Mapping[str, str], shape: shapes.Shape) -> tuple[str, ...]:
    """Return the known names of a field that are not another field's here."""
    names_of_field = _NAMES_IN.get((shape, name), shapes.KNOWN_NAMES[name])
    return tuple(column for column in names_of_field if column not in names.values())


_INNER: Final = ("text", "speaker", "time")  # fields of a dialogue's turns, not of its row
_NAMES_IN: Final = MappingProxyType(
    {
        (shapes.Shape.MESSAGES, "id"): shapes.MESSAGE_IDS,
        (shapes.Shape.TURNS, "id"): shapes.TURN_IDS,
        (shapes.Shape.TURNS, "root"): shapes.CONVERSATION_IDS,
    }
)


def _is_there(name: str, names: Mapping[str, str], has: set[str], preset: str) -> bool:
    """Return whether a required field was found; a preset's source may have roots only, and then no parents."""
    if preset and name == "parent":
        return True
    if name not in names:
        return False
    stand_ins = _STAND_INS.get((preset, name), ())
    return bool({names[name], names[name].split(".")[0], *stand_ins} & has)


def blocks_of(reader: LineReader, format_: Format) -> Iterator[containers.Block]:
    """Yield a source as blocks, in the parent process."""
    match format_.container:
        case Container.PARQUET:
            return containers.parquet_blocks(reader.source)
        case Container.ARROW:
            return arrow_blocks(reader.source)
        case Container.CSV:
            return containers.csv_blocks(reader, columns=len(format_.columns))
        case Container.PARLAI:
            return containers.parlai_blocks(reader)
        case _:
            return iter(reader)


def rows_of(block: containers.Block, format_: Format) -> Iterator[tuple[int, containers.Row] | BadRow]:
    """Yield a block as rows, in a worker, without the header of CSV and TSV."""
    if isinstance(block, LineBlock | containers.ArrowBlock) and block.bad is not None:
        return iter((block.bad,))
    if isinstance(block, containers.ArrowBlock):
        return containers.arrow_rows(block)
    if isinstance(block, containers.RowBlock):
        rows = containers.listed_rows(block, format_.columns)
    elif format_.container is Container.TSV:
        rows = containers.tab_rows(block, format_.columns)
    else:
        return containers.json_rows(block)
    return (row for row in rows if isinstance(row, BadRow) or row[0] > 1) if format_.header else rows
