"""What the commands share: the output on stdout, sizes, and how an error leaves the house."""

from __future__ import annotations

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
from rich.console import Console
from rich.table import Table

from core.errors import NoSource, RefaugError, StorageFull, Usage
from core.files import storage_errors
from core.text import harmless

JsonFlag = Annotated[bool, typer.Option("--json", help="Print the result as JSON, for machines.")]
MemoryOption = Annotated[
    str, typer.Option(help="Memory to work in; what does not fit is spilled to disk.", metavar="SIZE")
]

_WIDE = 200
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)\s*([kmgt]?)(i?)b?", re.IGNORECASE)


@contextmanager
def file_or_stdin(path: Path) -> Iterator[Path]:
    """The path itself; for `-` and pipes a file with all that comes in, since files are read twice."""
    is_stdin = str(path) == "-"
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
    """`512MiB`, `2G`, `1.5GB` as bytes; without an i or with it, powers of 1024."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise Usage(f"{text!r} is not a size", remedy="for example 512MiB or 2GiB")
    return int(float(match[1]) * 1024 ** ("kmgt".find(match[2].lower()) + 1 if match[2] else 0))


class ReaderGone(Exception):
    """Whoever read our output has closed it (`… | head`): nothing is wrong, and nothing is left to say."""


@contextmanager
def _to_stdout() -> Iterator[None]:
    """Keep a closed pipe from the library, which would end the process with an error."""
    if sys.stdout is None:  # closed before we began (>&-)
        raise ReaderGone
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError as error:
        raise ReaderGone from error
    except OSError as error:
        raise StorageFull(f"the output cannot be written: {why(error)}", remedy="free some room") from error


def print_json(value: object) -> None:
    """One JSON document on stdout."""
    options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE | orjson.OPT_NON_STR_KEYS
    with _to_stdout():
        sys.stdout.buffer.write(orjson.dumps(value, option=options))


def print_json_line(value: object) -> None:
    """One JSON object a line; JSON is for machines, and nothing in it is changed for a terminal's sake."""
    with _to_stdout():
        sys.stdout.buffer.write(orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE))


def names_in(path: Path | None) -> list[str]:
    """The names in a file, one a line, as editors of any system write it."""
    if path is None:
        return []
    try:
        return [line.strip() for line in path.read_text("utf-8-sig").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise NoSource(f"{path}: {why(error)}") from error


def print_line(text: str = "") -> None:
    """A line on stdout, as it is."""
    with _to_stdout():
        print(harmless(text))


def print_cells(*cells: object) -> None:
    """One line of tab-separated values at full precision; a tab inside a cell is escaped."""
    with _to_stdout():
        print("\t".join("" if cell is None else harmless(str(cell)) for cell in cells))


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table for people; numbers to the right."""
    print_line(title)
    table = Table(box=None, pad_edge=False)
    listed = [list(row) for row in rows]
    for index, column in enumerate(columns):
        numeric = bool(listed) and all(_is_number(row[index]) for row in listed)
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in listed:
        table.add_row(*(harmless(shown(value)) for value in row))
    width = None if sys.stdout.isatty() else _WIDE  # a pipe has no edge to fold at
    console = Console(markup=False, highlight=False, emoji=False, width=width)
    with console.capture() as text:
        console.print(table)
    for line in text.get().rstrip("\n").split("\n"):
        print_line(line)


def _is_number(value: object) -> bool:
    """A number, one written out already, or the dash where there is none."""
    return isinstance(value, int | float) or (isinstance(value, str) and _WRITTEN_NUMBER.fullmatch(value) is not None)


_WRITTEN_NUMBER = re.compile(r"[-+−]?\d[\d,.]*(e[-+]?\d+)?|\[?[-+−]?[\d.,]+, [-+−]?[\d.,]+\]?|-|")


def print_facts(title: str, facts: Mapping[str, Any]) -> None:
    """Names and values, one a line."""
    print_line(title)
    width = max((len(name) for name in facts), default=0)
    for name, value in facts.items():
        print_line(f"  {name:<{width}}  {shown(value)}")


def shown(value: object) -> str:
    """A value as a person reads it."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.2f}".rstrip("0").rstrip(".")
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {shown(inner)}" for name, inner in value.items()) or "-"
    if isinstance(value, list | tuple):
        return ", ".join(shown(inner) for inner in value) or "-"
    return str(value)


def print_published(kind: str, name: str, version: str, *, as_json: bool) -> None:
    """Which version a name stands for from now on."""
    if as_json:
        print_json({kind: name, "published": version})
    else:
        print_line(f"{kind} {name}@{version} {'are' if kind == 'vectors' else 'is'} published")


def counted(number: int, noun: str) -> str:
    """`1 pair`, `2 pairs`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def why(error: OSError | UnicodeDecodeError) -> str:
    """What is wrong with a file, without its name, which the message has already."""
    return (error.strerror or "cannot be read").lower() if isinstance(error, OSError) else f"not UTF-8: {error.reason}"


def report_error(error: RefaugError, *, as_json: bool) -> None:
    """One error on stderr: for people a line and a remedy, for machines one JSON object."""
    if as_json:
        body = {"code": error.code, "message": error.message, "remedy": error.remedy, "exit_code": error.exit_code}
        sys.stderr.buffer.write(orjson.dumps({"error": body}, option=orjson.OPT_APPEND_NEWLINE))
    else:
        remedy = f"\n  {harmless(error.remedy)}" if error.remedy else ""
        print(f"error [{error.code}]: {harmless(error.message)}{remedy}", file=sys.stderr)
    sys.stderr.flush()
