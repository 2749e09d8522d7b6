"""The output of `refaug-client`: JSON, lines and tables for people."""

from __future__ import annotations

import json
import math
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from contextlib import suppress

from .reading import BadFile, reason_of


class OutputClosed(Exception):
    """The program that reads the output has closed it."""


def write_output(text: str) -> None:
    """Write text to stdout as UTF-8, whatever the locale."""
    if sys.stdout is None:  # closed before we began (>&-)
        raise OutputClosed
    try:
        if (buffer := getattr(sys.stdout, "buffer", None)) is None:
            sys.stdout.write(text)
        else:
            buffer.write(text.encode("utf-8", "replace"))
        sys.stdout.flush()
    except BrokenPipeError as error:
        raise OutputClosed from error
    except OSError as error:
        raise BadFile(f"the output cannot be written: {reason_of(error)}") from error


def print_json(document: object) -> None:
    """Print one JSON value."""
    write_output(json.dumps(document, ensure_ascii=False, allow_nan=False, indent=2) + "\n")


def print_line(text: str = "") -> None:
    """Print a line for people."""
    write_output(escape_controls(text) + "\n")


def note(text: str) -> None:
    """Print a line to stderr; a closed stderr changes nothing."""
    if sys.stderr is not None:
        with suppress(OSError, UnicodeEncodeError):
            sys.stderr.write(escape_controls(text) + "\n")
            sys.stderr.flush()


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows under the names of their columns; numbers to the right."""
    cells_of_rows = [[format_cell(value) for value in row] for row in rows]
    numeric = [
        bool(cells_of_rows) and all(_is_number(row[place]) for row in cells_of_rows) for place in range(len(columns))
    ]
    widths = [
        max(map(_width, (columns[place], *(row[place] for row in cells_of_rows)))) for place in range(len(columns))
    ]
    for row in ([*columns], *cells_of_rows):
        cells = (
            " " * (width - _width(cell)) + cell if right else cell + " " * (width - _width(cell))
            for cell, width, right in zip(row, widths, numeric)
        )
        write_output("  ".join(cells).rstrip() + "\n")


def format_cell(content: object) -> str:
    """Return a value as a cell shows it."""
    if content is None:
        return "-"
    if isinstance(content, float):
        return f"{content:.4f}" if math.isfinite(content) else str(content)
    if isinstance(content, int) and not isinstance(content, bool):
        return f"{content:,}"
    if isinstance(content, (list, tuple)):
        return f"[{', '.join(format_cell(one) for one in content)}]"
    return escape_controls(str(content))


def _is_number(cell: str) -> bool:
    return cell == "-" or cell.strip("[]").replace(",", "").replace(" ", "").lstrip("+-").replace(".", "").isdigit()


def _width(text: str) -> int:
    """Return the columns that a text takes on a terminal."""
    return sum(
        0 if unicodedata.combining(letter) else 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        for letter in text
    )


def escape_controls(text: str) -> str:
    """Return text without what a terminal would take for commands."""
    return "".join(
        letter if letter.isprintable() or letter == "\n" else letter.encode("unicode_escape").decode("ascii")
        for letter in text
    )
