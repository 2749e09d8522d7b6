"""Output on stdout, sizes and error reports, shared by the commands."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from refaug.core.errors import NoSource, RefaugError, StorageFull, Usage
from refaug.core.files import storage_errors
from refaug.core.text.normalisation import make_printable
from refaug.tables.reports.table import Description, FactList, Table

JsonFlag = Annotated[bool, typer.Option("--json", help="Print the result as JSON, for machines.")]
MemoryOption = Annotated[
    str, typer.Option(help="Memory to work in; what does not fit is spilled to disk.", metavar="SIZE")
]

_WIDE = 200
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)\s*([kmgt]?)(i?)b?", re.IGNORECASE)


@contextmanager
def file_or_stdin(path: Path) -> Iterator[Path]:
    """Yield the path itself; for `-` and pipes a temporary file with their content, since files are read twice.

    Devices are refused: many never end.
    """
    is_stdin = str(path) == "-"
    if not is_stdin and (path.is_char_device() or path.is_block_device()):
        raise NoSource(f"{path}: a device, not a file", remedy="name a file or a pipe, or - for stdin")
    if not is_stdin and (not path.exists() or path.is_file() or path.is_dir()):
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="refaug-stdin-") as folder:
        spooled = Path(folder) / "stdin"
        with storage_errors(spooled), spooled.open("wb") as file:
            if is_stdin:
                shutil.copyfileobj(sys.stdin.buffer, file)
            else:
                with path.open("rb") as stream:
                    shutil.copyfileobj(stream, file)
        yield spooled


def parse_size(text: str) -> int:
    """Parse `512MiB`, `2G`, `1.5GB` as bytes; with or without an i, units are powers of 1024."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise Usage(f"{text!r} is not a size", remedy="for example 512MiB or 2GiB")
    return int(float(match[1]) * 1024 ** ("kmgt".find(match[2].lower()) + 1 if match[2] else 0))


class ReaderGone(Exception):
    """The reader of our output has closed it (`… | head`): this is no error, and the command ends silently."""


@contextmanager
def _to_stdout() -> Iterator[None]:
    """Turn a closed pipe into ReaderGone, and a full disk into StorageFull."""
    if sys.stdout is None:  # closed before the start (>&-)
        raise ReaderGone
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError as error:
        raise ReaderGone from error
    except OSError as error:
        raise StorageFull(f"the output cannot be written: {reason_of(error)}", remedy="free some room") from error


@contextmanager
def _to_stderr() -> Iterator[None]:
    """Go on without stderr where it cannot be written to, as on a full disk."""
    try:
        yield
        sys.stderr.flush()
    except OSError:  # Python flushes it once more at its end, and would complain
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def print_aside(line: str) -> None:
    """Print a line on stderr."""
    with _to_stderr():
        print(line, file=sys.stderr)


def print_warning(text: str) -> None:
    """Print a warning on stderr."""
    print_aside(f"warning: {make_printable(text)}")


def print_json(document: object) -> None:
    """Print one JSON document on stdout."""
    options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE | orjson.OPT_NON_STR_KEYS
    with _to_stdout():
        sys.stdout.buffer.write(orjson.dumps(document, option=options))


def print_json_pieces(pieces: Iterable[bytes]) -> None:
    """Print one JSON document on stdout that comes in pieces."""
    with _to_stdout():
        for piece in pieces:
            sys.stdout.buffer.write(piece)
        sys.stdout.buffer.write(b"\n")


def print_json_line(document: object) -> None:
    """Print one JSON object a line; nothing in JSON is changed for the sake of a terminal."""
    with _to_stdout():
        sys.stdout.buffer.write(orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE))


def names_in(path: Path | None) -> list[str]:
    """Read the names in a file, one a line, as editors of any system write it."""
    if path is None:
        return []
    try:
        return [line.strip() for line in path.read_text("utf-8-sig").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise NoSource(f"{path}: {reason_of(error)}") from error


def print_line(text: str = "") -> None:
    """Print a line on stdout, without control characters."""
    with _to_stdout():
        print(make_printable(text))


def print_text(text: str) -> None:
    """Print a file's text on stdout as it is."""
    with _to_stdout():
        sys.stdout.write(text)


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table for people; numbers are aligned to the right."""
    from rich.console import Console  # noqa: PLC0415  a help needs none of it
    from rich.table import Table as RichTable  # noqa: PLC0415

    print_line(title)
    table = RichTable(box=None, pad_edge=False)
    cells = [list(row) for row in rows]
    for index, column in enumerate(columns):
        numeric = bool(cells) and all(_is_number(row[index]) for row in cells)
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in cells:
        table.add_row(*(make_printable(format_value(cell)) for cell in row))
    width = None if sys.stdout.isatty() else _WIDE  # a pipe has no width to fold at
    console = Console(markup=False, highlight=False, emoji=False, width=width)
    with console.capture() as text:
        console.print(table)
    for line in text.get().rstrip("\n").split("\n"):
        print_line(line)


def _is_number(cell: object) -> bool:
    """Say whether a cell is a number, a formatted number, or the dash for a missing one."""
    return isinstance(cell, int | float) or (isinstance(cell, str) and _WRITTEN_NUMBER.fullmatch(cell) is not None)


_WRITTEN_NUMBER = re.compile(r"[-+−]?\d[\d,.]*(e[-+]?\d+)?|\[?[-+−]?[\d.,]+, [-+−]?[\d.,]+\]?|-|")


def print_facts(title: str, facts: Mapping[str, Any]) -> None:
    """Print names and values, one pair a line."""
    print_line(title)
    width = max((len(name) for name in facts), default=0)
    for name, fact in facts.items():
        print_line(f"  {name:<{width}}  {format_value(fact)}")


def print_sections(sections: Iterable[Description]) -> None:
    """Print facts, tables and lines, one after another."""
    for section in sections:
        if isinstance(section, FactList):
            print_facts(section.title, section.facts)
        elif isinstance(section, Table):
            print_table(section.title, section.columns, section.rows)
        else:
            print_line(section)


def format_value(fact: object) -> str:
    """Format a value for people."""
    if fact is None:
        return "-"
    if isinstance(fact, bool):
        return "yes" if fact else "no"
    if isinstance(fact, int):
        return f"{fact:,}"
    if isinstance(fact, float):
        return f"{fact:,.2f}".rstrip("0").rstrip(".")
    if isinstance(fact, Mapping):
        return ", ".join(f"{name} {format_value(inner)}" for name, inner in fact.items()) or "-"
    if isinstance(fact, list | tuple):
        return ", ".join(format_value(inner) for inner in fact) or "-"
    return str(fact)


def print_published(kind: str, name: str, version: str, *, as_json: bool) -> None:
    """Print which version a name stands for from now on."""
    if as_json:
        print_json({"kind": kind, "name": name, "version": version})
    else:
        print_line(f"{kind} {name}@{version} {'are' if kind == 'vectors' else 'is'} published")


def count_of(number: int, noun: str) -> str:
    """Return a count with its noun: `1 pair`, `2 pairs`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def reason_of(error: OSError | UnicodeDecodeError) -> str:
    """Say what is wrong with a file, without its name, which the message has already."""
    return (error.strerror or "cannot be read").lower() if isinstance(error, OSError) else f"not UTF-8: {error.reason}"


def report_error(error: RefaugError, *, as_json: bool) -> None:
    """Print an error on stderr: a line and a remedy for people, or one JSON object for machines."""
    if as_json:
        body = {"code": error.code, "message": error.message, "remedy": error.remedy, "exit_code": error.exit_code}
        with _to_stderr():
            sys.stderr.buffer.write(orjson.dumps({"error": body}, option=orjson.OPT_APPEND_NEWLINE))
    else:
        remedy = f"\n  {make_printable(error.remedy)}" if error.remedy else ""
        print_aside(f"error [{error.code}]: {make_printable(error.message)}{remedy}")


def format_amount(number: int, unit: str) -> str:
    """Format a count with its unit; bytes in MB."""
    if unit == "B":
        return f"{number / 1e6:,.1f} MB"
    return f"{number:,} {unit}".rstrip()
