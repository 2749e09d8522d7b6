"""Rows as frames of pandas or polars, or a dataset of Hugging Face; each library is imported when it is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from .errors import Usage

KINDS = ("pandas", "polars", "datasets")


def make_frame(rows: Sequence[Mapping[str, Any]], kind: str = "pandas", *, columns: Sequence[str] = ()) -> Any:
    """Return a frame with a row for each; `columns` come first, and are there even without rows."""
    if kind not in KINDS:
        raise Usage(f"{kind!r} makes no frames", remedy=f"one of: {', '.join(KINDS)}")
    try:
        library = importlib.import_module(kind)
    except ImportError as error:
        raise Usage(f"{kind} is not installed here: {error}", remedy=f"pip install {kind}, or to_dict()") from error
    names = list(dict.fromkeys([*columns, *(name for row in rows for name in row)]))
    table = {name: [row.get(name) for row in rows] for name in names}
    if kind == "polars":
        return library.DataFrame(table, strict=False)  # whole numbers among floats become floats
    if kind == "datasets":
        return library.Dataset.from_dict(table)
    return library.DataFrame(table, columns=names)
