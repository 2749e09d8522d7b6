"""Rows as frames of pandas or polars, which are imported only when a frame is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Final, Literal

from refaug.core.errors import MissingPart, Usage

FrameKind = Literal["pandas", "polars"]
_KINDS: Final = ("pandas", "polars")


def make_frame(rows: Sequence[Mapping[str, Any]], kind: str = "pandas", *, columns: Sequence[str] = ()) -> Any:
    """Return a frame with these rows; `columns` come first, and exist even without rows."""
    if kind not in _KINDS:
        raise Usage(f"{kind!r} makes no frames", remedy=f"one of: {', '.join(_KINDS)}")
    try:
        library = import_module(kind)
    except ImportError as error:
        raise MissingPart(
            f"{kind} is not installed here: {error}", remedy=f"pip install {kind}, or to_dict()"
        ) from error
    names = list(dict.fromkeys([*columns, *(name for row in rows for name in row)]))
    table = {name: [row.get(name) for row in rows] for name in names}
    if kind == "polars":
        return library.DataFrame(table, strict=False)  # whole numbers among floats become floats
    return library.DataFrame(table, columns=names)
