"""The audit log: who published, removed, erased, withdrew, queued, and made or revoked keys.

Rows are only added: triggers of the database refuse to change or remove one, and each row has a checksum over itself
and the checksum before, so that a row that was altered or removed in another way is noticed. Names of keys are never
used twice, so a row stays unambiguous. Texts of dialogues, and names of speakers, are in no row.
"""

from __future__ import annotations

import hashlib
import logging
import os
import pwd
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import orjson
from sqlalchemy import Connection, insert, select, text
from sqlalchemy.exc import SQLAlchemyError

from refaug.core.errors import RefaugError, StorageFull, Unavailable
from refaug.service.database.database import Database, time_text
from refaug.service.database.row_ids import is_row_id, new_row_id
from refaug.service.database.stored_cells import damaged_database
from refaug.service.database.tables import AUDIT, BACKED_UP

log = logging.getLogger(__name__)

_ROWS_AT_ONCE: Final = 500
_RETRY_S: Final = 1.0  # between two tries to add rows that wait
_CLOSE_S: Final = 5.0  # for the last try
_SUBJECT_CHARS: Final = 500
_FIRST: Final = datetime(1970, 1, 1, tzinfo=UTC)  # no row is older; texts of years below 1000 do not sort
ANONYMOUS_NAME: Final = "anonymous"  # of every request where no keys are required


@dataclass(frozen=True, kw_only=True)
class AuditEntry:
    """One row: who did what to which thing, and when."""

    id: str
    at: str
    actor: str  # "key NAME", "user NAME" of this machine, "schedule NAME", or "anonymous" where no keys are required
    action: str
    subject: str
    details: Mapping[str, Any] = field(default_factory=dict)
    request: str | None = None

    def as_json(self) -> dict[str, object]:
        """Return the entry as a JSON object."""
        return asdict(self)


class AuditLog:
    """The rows in the database, and those that wait for it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting, self._guard, self._closing = deque[Mapping[str, Any]](), threading.Lock(), threading.Event()
        self._writer: threading.Thread | None = None

    def add(self, actor: str, action: str, subject: str, *, request: str | None = None, **details: Any) -> None:
        """Add a row, in the transaction of this thread where one is open."""
        with self._database.writing() as connection:
            add_row(connection, actor, action, subject, request=request, **details)

    def try_to_add(self, actor: str, action: str, subject: str, *, request: str | None = None, **details: Any) -> bool:
        """Add a row for what has happened already; False where it waits until the database can take it.

        Publishing works without the database, and must not be reported as failed. The row is in the process's log, too,
        since the process may end before the database is back.
        """
        row = _row(actor, action, subject, request, details)
        why = "earlier rows wait"
        if not self._waiting:
            try:
                self._add(row)
            except (Unavailable, StorageFull) as error:
                why = error.message
            else:
                return True
        fields = {"actor": actor, "action": action, "subject": subject, "request": request, "why": why}
        log.error("not in the audit log", extra=fields)
        with self._guard:
            self._waiting.append({**row, "at": time_text()})
            if self._writer is None:
                self._writer = threading.Thread(target=self._add_waiting, name="audit", daemon=True)
                self._writer.start()
        return False

    def _add(self, row: Mapping[str, Any]) -> None:
        with self._database.writing() as connection:
            _insert(connection, row)

    def close(self) -> None:
        """Add the rows that wait, if the database takes them now."""
        self._closing.set()
        if (writer := self._writer) is not None:
            writer.join(_CLOSE_S)

    def _add_waiting(self) -> None:
        """Add the rows that wait, in their order, until there are none."""
        while True:
            is_last_try = self._closing.wait(_RETRY_S)
            try:
                while self._waiting:
                    self._add(self._waiting[0])
                    self._waiting.popleft()
            except RefaugError:
                pass  # the database has said it in the log
            except SQLAlchemyError:
                log.exception("an audit row is refused", extra={"row": self._waiting.popleft()})
            with self._guard:
                if is_last_try or not self._waiting:
                    self._writer = None
                    return

    def page(
        self, *, since: datetime | None = None, after: str = "", limit: int = _ROWS_AT_ONCE, newest: bool = False
    ) -> tuple[list[AuditEntry], str | None]:
        """Return the oldest rows, or the newest, after one or since a time, and the last id if more follow."""
        rows = select(AUDIT).order_by(AUDIT.c.id.desc() if newest else AUDIT.c.id).limit(limit + 1)
        if after:
            follows = AUDIT.c.id < after if newest else AUDIT.c.id > after
            rows = rows.where(follows if is_row_id(after) else AUDIT.c.id == "")
        if since is not None:
            rows = rows.where(AUDIT.c.at >= _since_text(since))
        with self._database.reading() as connection:
            entries = [_entry(row) for row in connection.execute(rows).mappings()]
        return entries[:limit], entries[limit - 1].id if len(entries) > limit else None

    def last_whole_backup(self) -> AuditEntry | None:
        """Return the newest backup without a damaged file, if one of the last ones is."""
        return next((one for one in self.last_backups(_ROWS_AT_ONCE) if not one.details.get("damaged")), None)

    def last_backups(self, limit: int) -> list[AuditEntry]:
        """Return the newest backups, the last one first."""
        is_backup = text(f"action = '{BACKED_UP}'")  # written out, so that the index of these rows is used
        with self._database.reading() as connection:
            rows = connection.execute(select(AUDIT).where(is_backup).order_by(AUDIT.c.id.desc()).limit(limit))
            return [_entry(row) for row in rows.mappings()]

    def verify(self) -> int:
        """Return how many rows there are; DamagedDatabase where one was altered, or one before another is missing."""
        count, before = 0, None
        rows = select(AUDIT).order_by(AUDIT.c.id).execution_options(yield_per=_ROWS_AT_ONCE)
        with self._database.reading() as connection:
            for row in connection.execute(rows).mappings():
                if row["checksum"] != _checksum(before, row):
                    raise damaged_database(f"table audit, row {row['id']} was altered, or one before it removed")
                count, before = count + 1, row["checksum"]
        return count

    def entries(self, since: datetime | None = None) -> Iterator[AuditEntry]:
        """Yield all rows since a time, the oldest first."""
        after: str | None = ""
        while after is not None:
            page, after = self.page(since=since, after=after)
            yield from page


def add_row(
    connection: Connection,
    actor: str,
    action: str,
    subject: str,
    *,
    request: str | None = None,
    **details: Any,
) -> None:
    """Add a row in a transaction of the caller, together with what it tells of."""
    _insert(connection, _row(actor, action, subject, request, details))


def _row(
    actor: str, action: str, subject: str, request: str | None, details: Mapping[str, Any]
) -> dict[str, str | None]:
    """Return the cells of a row that has neither a time nor a place among the others yet."""
    return {
        "actor": actor,
        "action": action,
        "subject": subject[:_SUBJECT_CHARS],
        "details": orjson.dumps(details).decode(),
        "request": request,
    }


def _insert(connection: Connection, cells: Mapping[str, Any]) -> None:
    """Add a row behind the last one; its time is now, unless it has waited."""
    Database.advisory_lock(connection, "audit")  # a row is of the row before it
    last = connection.execute(select(AUDIT.c.id, AUDIT.c.checksum).order_by(AUDIT.c.id.desc()).limit(1)).first()
    row = {"id": new_row_id(after=last.id if last is not None else ""), "at": time_text(), **cells}
    checksum = _checksum(last.checksum if last is not None else None, row)
    connection.execute(insert(AUDIT).values({**row, "checksum": checksum}))


def actor_of(requested_by: str | None, schedule: str | None = None) -> str:
    """Return the actor of a job: the key that asked for it, the schedule that began it, or the user of a command."""
    if schedule is not None:
        return f"schedule {schedule}"
    if requested_by is None:
        return user_of_machine()
    return requested_by if requested_by == ANONYMOUS_NAME else f"key {requested_by}"


def user_of_machine() -> str:
    """Return the actor of a command: the user who runs it."""
    try:
        return f"user {pwd.getpwuid(os.getuid()).pw_name}"  # not LOGNAME and USER, which anybody can set
    except KeyError:  # a container's user has no name
        return f"user #{os.getuid()}"


def _since_text(since: datetime) -> str:
    """Return a time as rows have it; in UTC it may lie outside of the years that a time can have."""
    try:
        return time_text(max(since.astimezone(UTC), _FIRST))
    except OverflowError:
        return time_text(_FIRST if since.year == 1 else datetime.max.replace(tzinfo=UTC))


def _checksum(before: str | None, row: Mapping[Any, Any]) -> str:
    """Return the checksum of a row after the row with the checksum `before`."""
    cells = [before, *(row[name] for name in ("id", "at", "actor", "action", "subject", "details", "request"))]
    return hashlib.sha256(orjson.dumps(cells)).hexdigest()


def _entry(row: Mapping[Any, Any]) -> AuditEntry:
    return AuditEntry(
        id=row["id"],
        at=row["at"],
        actor=row["actor"],
        action=row["action"],
        subject=row["subject"],
        details=orjson.loads(row["details"]),
        request=row["request"],
    )
