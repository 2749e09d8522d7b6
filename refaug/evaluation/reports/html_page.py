"""Pages of reports: templates in one style, and how tables and plots appear in them.

A page needs no other file and no script. Names and texts in it come from users: all of them are escaped, and invisible
characters (line ends, control characters, changes of direction) are written out.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from refaug.core.files import write_aside
from refaug.core.text.characters import make_printable

_TEMPLATES: Final = Path(__file__).parents[1]  # a template lies beside the module that fills it


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table of plain text; its first column names the rows, and `notes` say why something is missing."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
    text: bool = False  # whether cells are sentences rather than figures
    apart: frozenset[int] = frozenset()  # rows with a line above


def render_page(template: str, *, folder: Path = _TEMPLATES, **content: Any) -> str:
    """Fill a template of a folder; without one, its path counts from the folder of this room."""
    return _environment(folder).get_template(template).render(content)


def write_file(path: Path, content: bytes) -> Path:
    """Write a file of a report, whole or not at all."""
    with write_aside(path) as file:
        file.write(content)
    return path


@cache
def _environment(folder: Path) -> Environment:
    environment = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_printable,
    )
    environment.filters |= {"breakable": _breakable, "base64": _base64}
    return environment


def _printable(content: object) -> object:
    """Write out invisible characters of texts; markup is ours already."""
    return make_printable(content) if isinstance(content, str) and not isinstance(content, Markup) else content


def _breakable(text: str) -> Markup:
    """Escape text and let lines end inside long names, but not inside numbers."""
    escaped = str(escape(make_printable(text)))
    return Markup(re.sub(r"[:/|](?=\S)|,(?=[^\s\d])", r"\g<0><wbr>", escaped))  # noqa: S704  escaped above


def _base64(image: bytes) -> Markup:
    return Markup(base64.b64encode(image).decode("ascii"))  # noqa: S704  letters and digits
