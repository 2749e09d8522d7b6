"""Notices for a webhook: rows that are written with what they tell of, and wait until they are delivered.

A notice is there if and only if the transaction of its event was committed. A process takes the oldest one for a while,
sends it, and removes it: where it is killed in between, another one sends it again. So each is delivered at least once,
and in their order.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final

import orjson
from sqlalchemy import Connection, delete, func, insert, select, update

from refaug.core.errors import CheckFailed
from refaug.service.database.database import Database, time_text
from refaug.service.database.row_ids import new_row_id
from refaug.service.database.tables import NOTICES

MOST: Final = 1_000  # that wait; older ones go first
KEPT: Final = timedelta(days=3)
LONGEST_WAIT: Final = timedelta(hours=1)  # between two tries


class NoticeKind(StrEnum):
    """The kinds of notices."""

    SCHEDULE_FAILED = "schedule.failed"
    VERSION_REFUSED = "version.refused"
    STUDY_TARGET = "study.target_reached"


@dataclass(frozen=True, kw_only=True)
class Notice:
    """A notice that this process sends now."""

    id: str
    body: bytes  # the same in each try
    at: datetime
    tries: int  # this one among them


def add_notice(connection: Connection, kind: NoticeKind, text: str, **facts: Any) -> None:
    """Add a notice in a transaction of the caller; it goes unless a webhook is set."""
    newest = connection.execute(select(NOTICES.c.id).order_by(NOTICES.c.id.desc()).limit(1)).scalar()
    now = time_text()
    body = {"type": kind.value, "timestamp": now, "text": text, "data": facts}
    row = {"id": new_row_id(after=newest or ""), "body": orjson.dumps(body).decode(), "due": now}
    connection.execute(insert(NOTICES).values(row))
    newest_ids = select(NOTICES.c.id).order_by(NOTICES.c.id.desc()).limit(MOST)
    connection.execute(delete(NOTICES).where(NOTICES.c.id.not_in(newest_ids)))


def add_refusal(connection: Connection, subject: str, reason: str, **facts: Any) -> None:
    """Add the notice of a version that a check refused; `subject` is such as `index chat@2026-11-20.7`."""
    facts |= {"code": CheckFailed.code, "error": reason, "version": subject.rpartition("@")[2]}
    add_notice(connection, NoticeKind.VERSION_REFUSED, f"{subject} is not published: {reason}", **facts)


class NoticeBox:
    """The notices that wait."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def take(self, now: datetime, lease_s: float) -> Notice | None:
        """Take the oldest notice for so long; None where there is none, or it is to wait, or another process has it."""
        oldest = select(NOTICES).order_by(NOTICES.c.id).limit(1)
        with self._database.reading() as connection:  # this runs every second and must not block writers
            row = connection.execute(oldest).first()
            if row is None or _waits(row.due, now):
                return None
        with self._database.writing() as connection:
            row = connection.execute(oldest.with_for_update()).first()
            if row is None or _waits(row.due, now):
                return None
            lease = {"due": time_text(now + timedelta(seconds=lease_s)), "tries": row.tries + 1}
            connection.execute(update(NOTICES).where(NOTICES.c.id == row.id).values(lease))
        at = datetime.fromisoformat(orjson.loads(row.body)["timestamp"])
        return Notice(id=row.id, body=row.body.encode(), at=at, tries=row.tries + 1)

    def remove(self, notice: str) -> None:
        """Remove a notice that was delivered, or given up."""
        with self._database.writing() as connection:
            connection.execute(delete(NOTICES).where(NOTICES.c.id == notice))

    def put_off(self, notice: str, until: datetime, problem: str) -> None:
        """Try a notice again later."""
        values = {"due": time_text(until), "problem": problem}
        with self._database.writing() as connection:
            connection.execute(update(NOTICES).where(NOTICES.c.id == notice).values(values))

    def remove_expired(self, now: datetime) -> None:
        """Remove notices that were due longer ago than they are kept."""
        with self._database.writing() as connection:
            connection.execute(delete(NOTICES).where(NOTICES.c.due < time_text(now - KEPT)))

    def waiting(self) -> tuple[int, str | None]:
        """Return how many notices wait, and the problem of the oldest one's last try."""
        with self._database.reading() as connection:
            count = connection.execute(select(func.count()).select_from(NOTICES)).scalar_one()
            problem = connection.execute(select(NOTICES.c.problem).order_by(NOTICES.c.id).limit(1)).scalar()
        return count, problem


def _waits(due: str, now: datetime) -> bool:
    """Return whether it is too early for a notice; a longer wait than any is of a wrong clock."""
    return time_text(now) < due <= time_text(now + LONGEST_WAIT)


def now_in_utc() -> datetime:
    """Return the time of this moment."""
    return datetime.now(UTC)
