"""Files that hold tables: text, JSON, Parquet, Arrow, workbooks, saved datasets, exports of programs for annotators."""

from __future__ import annotations

import csv
import re
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson

from refaug.core.errors import BadInput, DamagedSource, NoSource
from refaug.core.text.content_shapes import repeated_key
from refaug.logs.reading.arrow_files import arrow_batches, arrow_schema
from refaug.logs.reading.containers import csv_blocks, json_rows, numbered_lines, open_parquet, table_rows
from refaug.logs.reading.sources import SPLITS_FILE, STATE_FILE, BadRow, LineReader, Source, Stream, note_reading
from refaug.tables.columns import KNOWN_COLUMNS, folded, listed_names
from refaug.tables.table_notes import TableNotes
from refaug.tables.table_request import FIELDS

if TYPE_CHECKING:
    import pyarrow as pa


# ── A table that is open: its columns, and its rows as they are read ──────────────────────────────────────────────────

Cells = Sequence[Any] | Mapping[str, Any]
NumberedRow = tuple[int, Cells] | BadRow


@dataclass(frozen=True, kw_only=True)
class OpenTable:
    """The columns of a file, and a function that reads its rows from the start, with those columns at least."""

    kind: str  # how the file holds rows, in words
    columns: Sequence[str]
    rows: Callable[[Sequence[str]], Iterator[NumberedRow]]
    has_keys: bool = False  # rows are objects, else lists of cells
    has_decimal_commas: bool = False
    of_annotators: str = ""  # the column of ratings, where the file is an export of annotators' work
    has_items: bool = False  # rows are items already


# ── CSV and tab-separated text: which sign sets cells apart, the header, and rows of cells ────────────────────────────

TAB_SUFFIX: Final = ".tsv"
_DELIMITERS: Final[dict[str, str]] = {"\t": "tabs", ";": "semicolons", ",": "commas", "|": "bars"}
_SNIFFED_LINES: Final = 50
_QUOTED: Final = re.compile(r'(^|\t)"[^\t]*"(\t|$)')  # a cell in quotation marks
_STATED: Final = re.compile(r"sep=(.)\s*", re.IGNORECASE)  # Excel's first line
_UTF16: Final = (b"\xff\xfe", b"\xfe\xff")
_HEADER_NAMES: Final = frozenset({*FIELDS, *(name for names in KNOWN_COLUMNS.values() for name in names)})


def open_text_table(path: Path, where: str, head: bytes, encoding: str, notes: TableNotes) -> OpenTable:
    """Return the table of a text file; BadInput for a header that cannot be read."""
    lines = head.decode("utf-8", "replace").splitlines()[:_SNIFFED_LINES]
    stated = _STATED.fullmatch(lines[0]) if lines else None
    lines = lines[1:] if stated else lines
    delimiter = stated[1] if stated else "\t" if TAB_SUFFIX in path.suffixes else _delimiter(lines)
    is_quoted = delimiter != "\t" or not _is_plain(path, lines)
    if not is_quoted and any(_QUOTED.search(line) for line in lines):
        notes.warn("cells keep their quotation marks, as .tsv files have them; as a .csv file they are read without")
    reader = LineReader(Source.of(path), encoding=encoding)
    first_row = 2 if stated else 1

    def numbered() -> Iterator[NumberedRow]:
        rows = _quoted_rows(reader, delimiter) if is_quoted else _plain_rows(reader)
        return (row for row in rows if isinstance(row, BadRow) or row[0] >= first_row)

    header = next(numbered(), None)
    if header is None:
        raise BadInput(f"{where}: empty")
    if isinstance(header, BadRow):
        raise BadInput(f"{where}, line {header.line}: {header.message}")
    header_line, names = header[0], [str(name).strip() for name in header[1]]
    while names and not names[-1]:
        names.pop()
    return OpenTable(
        kind=f"text with {_DELIMITERS.get(delimiter, repr(delimiter))} between the cells",
        columns=names,
        rows=lambda _: _below(numbered(), header_line, len(names)),
        has_decimal_commas=delimiter == ";",
    )


def has_header(head: bytes) -> bool:
    """Whether the first line names a column as fields of items are called, beside another column."""
    first = next(iter(head.decode("utf-8", "replace").splitlines()), "")
    return bool(_STATED.fullmatch(first)) or any(
        len(cells) > 1 and any(folded(cell.partition(":")[0]) in _HEADER_NAMES for cell in cells)
        for cells in (first.split(delimiter) for delimiter in _DELIMITERS)
    )


def _below(rows: Iterator[NumberedRow], header_line: int, width: int) -> Iterator[NumberedRow]:
    """Yield the rows below the header that have as many cells as it; empty ones are left out."""
    for row in rows:
        if isinstance(row, BadRow):
            yield row
            continue
        line, cells = row
        if line <= header_line or not any(str(cell).strip() for cell in cells):
            continue
        if len(cells) > width and not any(str(cell).strip() for cell in list(cells)[width:]):
            cells = list(cells)[:width]
        if len(cells) != width:
            message = f"{len(cells)} cells where the header names {width} columns"
            yield BadRow(line=line, reason="cells", message=message)
        else:
            yield line, cells


def _delimiter(lines: Sequence[str]) -> str:
    """Return the sign that gives the header the most known names, or else the most cells that rows have too."""

    def fitness(delimiter: str) -> tuple[int, bool, int]:
        rows = _sampled(lines, delimiter)
        header = [cell.strip() for cell in (rows[0] if rows else [])]
        known_names = sum(folded(cell.partition(":")[0]) in _HEADER_NAMES for cell in header) if len(header) > 1 else 0
        is_even = len(header) > 1 and all(len(row) == len(header) for row in rows[1:-1] if row)
        return known_names, is_even, len(header)

    return max(_DELIMITERS, key=fitness) if any(map(str.strip, lines)) else ","


def _sampled(lines: Sequence[str], delimiter: str) -> list[list[str]]:
    rows = list[list[str]]()
    with suppress(csv.Error):
        rows.extend(csv.reader((f"{line}\n" for line in lines), delimiter=delimiter))
    return [row for row in rows if row]


def _is_plain(path: Path, lines: Sequence[str]) -> bool:
    """Whether quotes mean nothing: in .tsv files; Excel's Unicode text has quotes, and no such name."""
    with path.open("rb") as file:
        is_excel = file.read(2) in _UTF16
    return not is_excel and (TAB_SUFFIX in path.suffixes or not any('"' in line for line in lines))


def _quoted_rows(reader: LineReader, delimiter: str) -> Iterator[NumberedRow]:
    for block in csv_blocks(reader, delimiter=delimiter):
        for line, row in zip(block.lines, block.rows, strict=True):
            yield row if isinstance(row, BadRow) else (line, row)


def _plain_rows(reader: LineReader) -> Iterator[NumberedRow]:
    for line, text in numbered_lines(reader):
        if isinstance(text, BadRow):
            yield text
        elif text.strip():
            yield line, text.split("\t")


# ── Exports of programs for annotators, Label Studio and Argilla: each becomes rows with one annotator's answers ──────
#
# A row has the texts that were shown, a column for each question, and the annotator. The ids of tasks and records are
# in columns `task_id` and `record_id`: several tasks may show replies to one utterance, which are one item.

ANNOTATOR: Final = "annotator"
_USED_STATUS: Final = (None, "submitted")
_RESPONSES: Final = ".responses"

Row = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Export:
    """How the rows of a program are read."""

    name: str
    expand: Callable[[Row, TableNotes], Iterator[dict[str, object]]]
    questions: Callable[[Row], list[str]]

    def only_question(self, sample: Sequence[Row]) -> str:
        """Return the question where there is only one, which then is the rating."""
        questions = dict.fromkeys(name for row in sample for name in self.questions(row))
        return next(iter(questions)) if len(questions) == 1 else ""


def export_of(sample: Sequence[Row]) -> Export | None:
    """Return the program that wrote the rows, by the fields of the first."""
    first = sample[0]
    if isinstance(first.get("data"), dict) and isinstance(first.get("annotations"), list):
        return Export(name="Label Studio", expand=_of_task, questions=_task_questions)
    if isinstance(first.get("fields"), dict) and isinstance(first.get("responses"), dict | list):
        return Export(name="Argilla", expand=_of_record, questions=_record_questions)
    if any(name.endswith(_RESPONSES) and f"{name}.users" in first for name in first):
        return Export(name="Argilla", expand=_of_flat_record, questions=_flat_questions)
    return None


# ── Label Studio ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _of_task(task: Row, notes: TableNotes) -> Iterator[dict[str, object]]:
    shown = {"task_id": task.get("id"), **task["data"]}
    has_answers = False
    for annotation in task["annotations"]:
        if annotation.get("was_cancelled"):
            notes.leave_out("annotations that were cancelled or skipped")
            continue
        answers = {answer["from_name"]: _answer(answer) for answer in annotation.get("result", [])}
        has_answers = True
        yield {**shown, **answers, ANNOTATOR: _person(annotation.get("completed_by"))}
    if not has_answers:
        yield {**shown, ANNOTATOR: None}


def _answer(answer: Row) -> Any:
    """Return the number or the text of an answer; a choice counts if it is the only one."""
    content = answer["value"].get(answer["type"])
    return content[0] if isinstance(content, list) and len(content) == 1 else content


def _person(completed_by: Any) -> Any:
    """Return the name of an annotator: a number, or an object with the address."""
    if isinstance(completed_by, dict):
        return completed_by.get("email") or completed_by.get("id")
    return completed_by


def _task_questions(task: Row) -> list[str]:
    return [answer["from_name"] for annotation in task["annotations"] for answer in annotation.get("result", [])]


# ── Argilla ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _of_record(record: Row, notes: TableNotes) -> Iterator[dict[str, object]]:
    shown = {"record_id": record.get("id"), **record["fields"], **(record.get("metadata") or {})}
    responses = record["responses"]
    if isinstance(responses, list):  # of version 1: an object for each person, with the values of all questions
        by_person = {
            str(response.get("user_id")): {name: answer["value"] for name, answer in response["values"].items()}
            for response in responses
            if _is_submitted(response.get("status"), notes)
        }
    else:
        by_person = dict[str, dict[str, object]]()
        for question, answers in responses.items():
            for answer in answers:
                if _is_submitted(answer.get("status"), notes):
                    by_person.setdefault(str(answer.get("user_id")), {})[question] = answer["value"]
    yield from _of_people(shown, by_person)


def _of_flat_record(record: Row, notes: TableNotes) -> Iterator[dict[str, object]]:
    questions = _flat_questions(record)
    parts = tuple(f"{question}{_RESPONSES}" for question in questions)
    suggestions = tuple(f"{question}.suggestion" for question in questions)
    by_person = dict[str, dict[str, object]]()
    for question in questions:
        column = f"{question}{_RESPONSES}"
        answers, people = record.get(column) or [], record.get(f"{column}.users") or []
        statuses = record.get(f"{column}.status") or [None] * len(answers)
        for answer, person, status in zip(answers, people, statuses, strict=False):
            if _is_submitted(status, notes):
                by_person.setdefault(str(person), {})[question] = answer
    shown = {name: content for name, content in record.items() if not name.startswith((*parts, *suggestions))}
    shown["record_id"] = shown.pop("id", None)
    yield from _of_people(shown, by_person)


def _of_people(shown: Mapping[str, Any], by_person: Mapping[str, Mapping[str, Any]]) -> Iterator[dict[str, object]]:
    if not by_person:
        yield {**shown, ANNOTATOR: None}
    for person, answers in by_person.items():
        yield {**shown, **answers, ANNOTATOR: person}


def _is_submitted(status: object, notes: TableNotes) -> bool:
    if status in _USED_STATUS:
        return True
    notes.leave_out(f"responses that are {status}, not submitted")
    return False


def _record_questions(record: Row) -> list[str]:
    responses = record["responses"]
    if isinstance(responses, list):
        return [name for response in responses for name in response.get("values", {})]
    return list(responses)


def _flat_questions(record: Row) -> list[str]:
    return [name.removesuffix(_RESPONSES) for name in record if name.endswith(_RESPONSES)]


# ── JSON lines and JSON arrays as tables: the fields of their objects are the columns ─────────────────────────────────

MAX_ARRAY_BYTES: Final = 256 << 20
_SAMPLE: Final = 50  # rows that tell an export, and items
_KEYED: Final = 10_000  # JSON lines whose keys are columns; of an array all rows' are

_Rows = Callable[[], Iterator[tuple[int, dict[str, object]] | BadRow]]


def open_json_lines(path: Path, where: str, encoding: str, notes: TableNotes) -> OpenTable:
    """Return the table of a file with one object a line."""
    reader = LineReader(Source.of(path), encoding=encoding)

    def rows() -> Iterator[tuple[int, Any] | BadRow]:
        for block in reader:
            yield from json_rows(block) if block.bad is None else (block.bad,)

    return _table("JSON lines", rows, where, notes, keyed=_KEYED)


def open_json_array(path: Path, where: str, notes: TableNotes) -> OpenTable:
    """Return the table of a file that is one JSON array; its rows are numbered from 1, and it has a greatest size."""
    content = bytearray()
    with Stream(path) as stream:
        for piece in stream:
            content += piece
            if len(content) > MAX_ARRAY_BYTES:
                raise BadInput(
                    f"{where}: a JSON array of more than {MAX_ARRAY_BYTES >> 20} MiB",
                    remedy="write one object a line: jq -c '.[]' FILE",
                )
    try:
        array = orjson.loads(bytes(content).removeprefix(b"\xef\xbb\xbf"))
    except orjson.JSONDecodeError as error:
        raise DamagedSource(f"{where}, line {error.lineno}, column {error.colno}: not JSON: {error.msg}") from error
    if (key := repeated_key(bytes(content), array)) is not None:
        raise BadInput(f"{where}: an object has the key {key!r} twice", remedy="name each key once")

    def rows() -> Iterator[tuple[int, Any] | BadRow]:
        for number, row in enumerate(array, start=1):
            message = f"a JSON object was expected, found {type(row).__name__}"
            yield (number, row) if isinstance(row, dict) else BadRow(line=number, reason="json", message=message)

    return _table("a JSON array", rows, where, notes, keyed=len(array))


def _table(kind: str, rows: _Rows, where: str, notes: TableNotes, keyed: int) -> OpenTable:
    sample = [row[1] for row in islice(rows(), _SAMPLE) if isinstance(row, tuple)]
    if not sample:
        bad = next((row for row in rows() if isinstance(row, BadRow)), None)
        raise BadInput(f"{where}: no row can be read" + (f": line {bad.line}: {bad.message}" if bad else ""))
    export = export_of(sample)
    if export is not None:
        return _exported(export, rows, sample, where, notes)
    columns = dict.fromkeys(key for row in islice(rows(), keyed) if isinstance(row, tuple) for key in row[1])
    has_items = any(isinstance(row.get("replies"), dict) for row in sample)

    def watched() -> Iterator[NumberedRow]:
        late, first = dict[str, None](), 0
        for row in rows():
            if isinstance(row, tuple) and not row[1].keys() <= columns.keys() and not has_items and len(late) < _SAMPLE:
                late |= dict.fromkeys(key for key in row[1] if key not in columns)
                first = first or row[0]
            yield row
        if late:
            notes.warn(f"columns from line {first:,} on are not used: {listed_names(list(late))}; put such a row first")

    return OpenTable(kind=kind, columns=list(columns), rows=lambda _: watched(), has_keys=True, has_items=has_items)


def _exported(export: Export, rows: _Rows, sample: list[dict[str, object]], where: str, notes: TableNotes) -> OpenTable:
    ignored = TableNotes()  # the sample is read again, and counts then
    columns, good_rows, problem = dict[str, None](), list[dict[str, object]](), ""
    for row in sample:
        expanded = _expanded(export, row, ignored)
        if isinstance(expanded, str):
            problem = problem or expanded
        else:
            good_rows.append(row)
            columns.update(dict.fromkeys(key for answers in expanded for key in answers))
    if not good_rows:
        raise BadInput(f"{where}: no row can be read: {problem}", remedy=f"export it from {export.name} again, as JSON")

    def expanded_rows() -> Iterator[NumberedRow]:
        for row in rows():
            if isinstance(row, BadRow):
                yield row
                continue
            expanded = _expanded(export, row[1], notes)
            if isinstance(expanded, str):
                yield BadRow(line=row[0], reason="export", message=expanded)
            else:
                yield from ((row[0], answers) for answers in expanded)

    return OpenTable(
        kind=f"an export of {export.name}",
        columns=list(columns),
        rows=lambda _: expanded_rows(),
        has_keys=True,
        of_annotators=export.only_question(good_rows),
    )


def _expanded(export: Export, row: dict[str, object], notes: TableNotes) -> list[dict[str, object]] | str:
    """Return the rows that a row of an export stands for, or what is wrong with it."""
    try:
        export.questions(row)
        return list(export.expand(row, notes))
    except (AttributeError, KeyError, TypeError, RecursionError) as error:
        return f"not as {export.name} exports it: {error}"


PARQUET: Final = b"PAR1"
_BATCH_ROWS: Final = 64  # a file of some KiB may hold megabytes in each row
_MAX_STATE_BYTES: Final = 1 << 20

_Batches = Callable[[Sequence[str]], Iterator["pa.RecordBatch"]]


def open_parquet_table(path: Path, where: str) -> OpenTable:
    """Return the table of a Parquet file, whose rows are numbered from 1."""
    source = Source.of(path)

    def batches(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        with open_parquet(source) as file:
            yield from file.iter_batches(batch_size=_BATCH_ROWS, columns=list(columns), use_threads=False)

    with open_parquet(source) as file:
        schema = file.schema_arrow
    return _typed_table("Parquet", schema, batches, where)


def open_arrow_table(paths: Sequence[Path], where: str, kind: str = "Arrow") -> OpenTable:
    """Return the table of Arrow files or streams, one after the other."""

    def batches(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for path in paths:
            for batch in arrow_batches(path, _BATCH_ROWS):
                yield batch.select(list(columns))

    return _typed_table(kind, arrow_schema(paths[0], where), batches, where)


def open_saved_dataset(folder: Path, where: str) -> OpenTable:
    """Return the table of a folder that `Dataset.save_to_disk` wrote; a folder of several splits is refused."""
    if (folder / SPLITS_FILE).is_file():
        splits = _state(folder / SPLITS_FILE, where).get("splits")
        names = [str(name) for name in splits] if isinstance(splits, list) else []
        if len(names) != 1:
            raise BadInput(
                f"{where}: a saved dataset with {len(names)} splits: {', '.join(names[:10])}",
                remedy=f"name the folder of one: {where}/{names[0] if names else 'SPLIT'}",
            )
        return open_saved_dataset(folder / names[0], f"{where}/{names[0]}")
    if not (folder / STATE_FILE).is_file():
        raise NoSource(
            f"{where}: a folder without {STATE_FILE}",
            remedy="name a file, or a folder that datasets wrote with save_to_disk",
        )
    listed = _state(folder / STATE_FILE, where).get("_data_files")
    files = [file.get("filename") for file in listed if isinstance(file, dict)] if isinstance(listed, list) else []
    paths = [folder / Path(str(name)).name for name in files]
    if not paths or (missing := next((path for path in paths if not path.is_file()), None)):
        raise BadInput(f"{where}: {missing.name if paths and missing else 'its data'} is not there: an incomplete copy")
    return open_arrow_table(paths, where, "a saved dataset")


def _state(path: Path, where: str) -> dict[str, object]:
    try:
        if path.stat().st_size > _MAX_STATE_BYTES:
            raise BadInput(f"{where}: {path.name} is larger than a description of a dataset")
        state = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError) as error:
        raise BadInput(f"{where}: {path.name} cannot be read: {error}") from error
    return state if isinstance(state, dict) else {}


def _typed_table(kind: str, schema: pa.Schema, batches: _Batches, where: str) -> OpenTable:
    labels = _label_names(schema)

    def rows(columns: Sequence[str]) -> Iterator[NumberedRow]:
        return _rows(batches(columns), labels, where)

    return OpenTable(kind=kind, columns=schema.names, rows=rows, has_keys=True)


def _rows(batches: Iterator[pa.RecordBatch], labels: dict[str, list[str]], where: str) -> Iterator[NumberedRow]:
    import pyarrow as pa  # noqa: PLC0415  most tables are text

    first = 1
    try:
        for batch in batches:
            note_reading(batch.nbytes)
            for row in table_rows(pa.Table.from_batches([batch]), first):
                yield row if isinstance(row, BadRow) or not labels else (row[0], _with_labels(row[1], labels))
            first += batch.num_rows
    except (OSError, pa.ArrowException) as error:
        raise DamagedSource(f"{where}: row {first:,} and what follows cannot be read: {error}") from error


def _label_names(schema: pa.Schema) -> dict[str, list[str]]:
    """Return the names of the labels by column: `datasets` stores their numbers."""
    try:
        described = orjson.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
        features = described.get("info", {}).get("features", {})
        return {
            column: [str(name) for name in feature["names"]]
            for column, feature in features.items()
            if isinstance(feature, dict) and feature.get("_type") == "ClassLabel" and isinstance(feature["names"], list)
        }
    except (orjson.JSONDecodeError, AttributeError, KeyError):
        return {}


def _with_labels(row: Any, labels: dict[str, list[str]]) -> dict[str, object]:
    def name(column: str, cell: object) -> object:
        names = labels.get(column, [])
        return names[cell] if isinstance(cell, int) and 0 <= cell < len(names) else cell

    return {column: name(column, cell) for column, cell in row.items()}


_SUFFIXES: Final = frozenset({".xlsx", ".xlsm"})
_MOST_BYTES: Final = 512 << 20  # of all members, unpacked: a packed file of a few KiB may hold gigabytes


def is_workbook(path: Path) -> bool:
    """Whether a file is a workbook by its name: uploads have names of the server's, and are none."""
    return path.suffix.lower() in _SUFFIXES


def open_workbook(path: Path, where: str) -> OpenTable:
    """Return the table of the only sheet that has rows; its first row that is not empty is the header."""
    with _opened(path, where) as book:
        sheets = [sheet.title for sheet in book.worksheets if any(_filled(sheet))]
        if len(sheets) != 1:
            raise BadInput(
                f"{where}: {len(sheets)} sheets of the workbook have rows"
                + (f": {', '.join(sheets[:10])}" if sheets else ""),
                remedy="leave the sheet with the table, or save it as CSV",
            )
        header_row, cells = next(_filled(book[sheets[0]]))
        names = ["" if cell is None else str(cell).strip() for cell in cells]
        while not names[-1]:
            names.pop()

    def rows(_columns: Sequence[str]) -> Iterator[NumberedRow]:
        with _opened(path, where) as again:
            for number, cells in _filled(again[sheets[0]]):
                if number > header_row:
                    note_reading()
                    yield _row(number, names, cells)

    columns = [name for name in names if name]
    if twice := next((name for name in columns if columns.count(name) > 1), None):
        raise BadInput(f"{where}: two columns are named {twice!r}", remedy="give each a name of its own")
    return OpenTable(kind=f"the sheet {sheets[0]!r} of a workbook", columns=columns, rows=rows, has_keys=True)


def _row(number: int, names: Sequence[str], cells: Sequence[Any]) -> NumberedRow:
    if any(cell is not None for cell in cells[len(names) :]):
        return BadRow(line=number, reason="cell", message=f"it has more cells than the {len(names)} of the header")
    return number, {name: _value(cell) for name, cell in zip(names, cells, strict=False) if name}


def _value(cell: Any) -> object:
    """Return a cell as JSON has it; dates and times as texts, and a whole number as Excel shows it."""
    if isinstance(cell, float) and cell.is_integer():
        return int(cell)
    return cell if cell is None or isinstance(cell, bool | int | float | str) else str(cell)


def _filled(sheet: Any) -> Iterator[tuple[int, Sequence[Any]]]:
    """Yield the rows that are not empty, with their numbers."""
    sheet.reset_dimensions()  # exporters state smaller ones than there are
    for number, cells in enumerate(sheet.iter_rows(values_only=True), start=1):
        if any(cell is not None for cell in cells):
            yield number, cells


@contextmanager
def _opened(path: Path, where: str) -> Iterator[Any]:
    """Open a workbook for reading: values of formulas as they were last computed."""
    import openpyxl  # noqa: PLC0415  few tables are workbooks

    try:
        with zipfile.ZipFile(path) as members:
            size = sum(member.file_size for member in members.infolist())
        if size > _MOST_BYTES:
            raise BadInput(f"{where}: {size:,} bytes unpacked are more than {_MOST_BYTES:,}", remedy="save it as CSV")
        with warnings.catch_warnings(action="ignore"):  # of styles and rules that nothing here reads
            book = openpyxl.load_workbook(path, read_only=True, data_only=True)
            try:
                yield book
            finally:
                book.close()
    except (zipfile.BadZipFile, KeyError, ValueError, TypeError, OSError, SyntaxError) as error:
        raise DamagedSource(f"{where}: the workbook cannot be read: {error}") from error
