"""The rows of our tables as JSON lines: the same for SQLite and for PostgreSQL, so either can be restored to either."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import islice, zip_longest
from typing import Any, Final

import orjson
from sqlalchemy import Table, insert, select, text
from sqlalchemy.engine import Connection

from refaug.core.errors import Conflict, Corrupt, MissingPart
from refaug.service.database.database import Database
from refaug.service.database.tables import absent_sets, absent_tables, known_tables

_ROWS_AT_ONCE: Final = 1_000


def read_rows(database: Database) -> Iterator[bytes]:
    """Yield every row as a line, as of one moment: in one transaction that sees no later change.

    Rows of extras that are not installed are among them.
    """
    database.require_current()
    with database.reading() as connection:
        if not database.is_sqlite:
            connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"))
        yield from _rows_of(connection)


def _rows_of(connection: Connection) -> Generator[bytes]:
    for table in [*known_tables().values(), *absent_tables(connection)]:
        every_row = select(table).order_by(*table.primary_key.columns).execution_options(yield_per=_ROWS_AT_ONCE)
        with connection.execute(every_row) as rows:
            for row in rows.mappings():
                yield orjson.dumps(
                    {"table": table.name, "row": {str(column): cell for column, cell in row.items()}},
                    option=orjson.OPT_APPEND_NEWLINE,
                )


def write_rows(database: Database, lines: Iterator[bytes], source: str, steps: Iterable[str] = ()) -> int:
    """Fill empty tables with rows, all or none, and return how many; rows that are all there already are left alone.

    `steps` names the sets of tables that the rows come from; MissingPart for a row of an extra that is not installed.
    """
    database.migrate()
    tables, absent = known_tables(), absent_sets(steps)
    with database.writing() as connection:
        every_table = [*tables.values(), *absent_tables(connection)]
        if any(connection.execute(select(table).limit(1)).first() is not None for table in every_table):
            return _require_same_rows(connection, lines)
        count = 0
        while piece := list(islice(lines, _ROWS_AT_ONCE)):
            rows: dict[str, list[Mapping[str, Any]]] = {}
            for number, line in enumerate(piece, count + 1):
                name, row = _parsed(line, f"{source}:{number}", tables, absent)
                rows.setdefault(name, []).append(row)
            for name, table in tables.items():
                if name in rows:
                    connection.execute(insert(table), rows[name])
            count += len(piece)
    return count


def _require_same_rows(connection: Connection, lines: Iterator[bytes]) -> int:
    """Return how many rows there are when they are those of the lines: a restore before this one wrote them."""
    count = 0
    with closing(_rows_of(connection)) as stored_rows:
        for stored, line in zip_longest(stored_rows, lines):
            if stored != line:
                raise Conflict("the database is not empty", remedy="restore into an empty database")
            count += 1
    return count


def _parsed(
    line: bytes, where: str, tables: Mapping[str, Table], absent: Sequence[str]
) -> tuple[str, Mapping[str, Any]]:
    try:
        content = orjson.loads(line)
        name, row = content["table"], content["row"]
        if absent and name not in tables:
            extras = " or ".join(absent)
            raise MissingPart(
                f"{where}: table {name} is of the extra {extras}, which is not installed",
                remedy=f"pip install 'refaug[{','.join(absent)}]', then restore again",
            )
        columns = set(tables[name].columns.keys())
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise Corrupt(f"{where}: no row of a table of refaug: {error}", remedy="use another backup") from error
    if not isinstance(row, dict) or set(row) != columns:
        raise Corrupt(f"{where}: row: the columns {sorted(columns)} were expected", remedy="use another backup")
    return name, row
