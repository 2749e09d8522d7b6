"""Rows as frames of pandas or polars, which are imported when one is asked for and not before."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from ._errors import Usage

KINDS = ("pandas", "polars")


def frame(rows: Sequence[Mapping[str, Any]], kind: str = "pandas", *, columns: Sequence[str] = ()) -> Any:
    """A frame with a row for each; `columns` come first, and are there even where there are no rows."""
    if kind not in KINDS:
        raise Usage(f"{kind!r} makes no frames", remedy=f"one of: {', '.join(KINDS)}")
    try:
        library = importlib.import_module(kind)
    except ImportError as error:
        raise Usage(f"{kind} is not installed here: {error}", remedy=f"pip install {kind}, or to_dict()") from error
    names = list(dict.fromkeys([*columns, *(name for row in rows for name in row)]))
    table = {name: [row.get(name) for row in rows] for name in names}
    if kind == "polars":
        return library.DataFrame(table, strict=False)  # a whole number among others is one of them
    return library.DataFrame(table, columns=names)
