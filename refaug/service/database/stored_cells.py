"""Cells of the tables that are not as they were written: other types, JSON that cannot be parsed, unknown words.

SQLite returns whatever the bytes of its file say, so each cell is checked where it is read; a damaged one is an error
that names its table and column.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from sqlalchemy import Boolean, Column, Dialect, MetaData
from sqlalchemy.types import TypeDecorator, TypeEngine

from refaug.core.errors import DamagedDatabase

FILE: Final = "refaug.db"
PARSER: Final = "parser"  # in a column's `info`: a function that raises ValueError for what cannot be its content


def damaged_database(where: str) -> DamagedDatabase:
    """Return the error for a damaged database; `where` says which table, as far as it is known."""
    return DamagedDatabase(
        f"{FILE}: the database is damaged{f': {where}' if where else ''}",
        remedy="stop the server, and restore a backup into an empty home: refaug admin restore BACKUP",
    )


def check_cells(tables: MetaData) -> None:
    """Let all columns of the tables check what is read from them."""
    for table in tables.tables.values():
        for column in table.columns:
            if not isinstance(column.type, Boolean):  # SQLAlchemy reads any number as one
                column.type = _CheckedCell(column)


class _CheckedCell(TypeDecorator[Any]):
    """The type of a column, which refuses cells that refaug has not written."""

    impl = TypeEngine
    cache_ok = True

    def __init__(self, column: Column[Any]) -> None:  # not the parent's, which would make the type anew
        self.impl = column.type  # type: ignore[assignment]
        self.where = f"table {column.table.name}, column {column.name}"
        self.is_optional: bool = bool(column.nullable)
        self.parser: Callable[[Any], object] | None = column.info.get(PARSER)
        self.python_types = (int, float) if self.python_type is float else (self.python_type,)

    @property
    def python_type(self) -> type[Any]:
        """The type of a cell."""
        return self.impl_instance.python_type

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:  # noqa: ARG002  of SQLAlchemy
        """Return the cell; DamagedDatabase where it is not as it was written."""
        if value is None and self.is_optional:
            return None
        if type(value) not in self.python_types:
            raise damaged_database(f"{self.where}, has a cell of type {type(value).__name__}")
        if self.parser is not None:
            try:
                self.parser(value)
            except ValueError:
                raise damaged_database(f"{self.where}, has a cell that cannot be read") from None
        return value
