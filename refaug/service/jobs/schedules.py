"""Schedules: jobs that begin at set times.

A library computes the times; the rows are ours. A schedule is a row with a cursor: the due time up to which it was
handled. A firing is a row, unique on (schedule, due), written in one transaction with the job that it begins: so none
is lost and none begins twice, however many workers tick, and wherever one of them is killed.
"""

from __future__ import annotations

import builtins
import difflib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice
from typing import Any, Final, Self
from zoneinfo import ZoneInfo, available_timezones

import orjson
from cronsim import CronSim, CronSimError
from sqlalchemy import Connection, Delete, Row, func, select
from sqlalchemy.exc import IntegrityError

from refaug.core.errors import (
    BadInput,
    Conflict,
    MissingPart,
    NotAllowed,
    NotFound,
    RefaugError,
    StorageFull,
    Unavailable,
    Usage,
)
from refaug.core.files import NAME, require_name
from refaug.core.options.decoding import made_of
from refaug.service.database.database import Database, time_of, time_text
from refaug.service.database.tables import FIRINGS, JOBS, SCHEDULES
from refaug.service.history.notices import NoticeKind, add_notice
from refaug.service.jobs.job_order import parse_order, resources_of
from refaug.service.jobs.store import JobState, JobStore

_MAX_CHARS: Final = 200  # characters of an expression; a list of all 60 minutes has 169
_EXAMPLE: Final = "five fields: minute, hour, day of the month, month, day of the week; '30 2 * * *' is 02:30 every day"

# Missed due times to write down beside the one that fires; after a year without a server, a schedule of every minute
# has missed half a million.
_MAX_MISSED: Final = 20
_KEEP_FIRINGS: Final = timedelta(
    days=400
)  # age of firings to remove; more than a year, for schedules that fire once a year
_LATE_AFTER: Final = timedelta(minutes=10)  # a worker checks twice a second, also while it runs a job

_LASTING: Final = (BadInput, NotFound, Usage, MissingPart, NotAllowed)  # an order fails so at each of its due times
_BROKEN_NOTE: Final = "broken: "  # the beginning of the note of a due time that could not become a job
_WAITS_NOTE: Final = "not begun: "  # and of that of a job that waits to be begun; gone when it begins

# Searched backwards until there are enough due times: each window is at most 24 times as long as the one before.
_WINDOWS: Final = tuple(
    timedelta(hours=hours) for hours in (1, 24, 7 * 24, 31 * 24, 366 * 24, 12 * 366 * 24, 120 * 366 * 24)
)


# ── Times ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class Cron:
    """A cron expression in a time zone.

    Changes of the clock are handled as Debian's cron does. With a minute and an hour given, it is due once on every day
    that has it: a skipped time is due when the clocks have been put forward, and a repeated one counts the first time.
    With `*` in either of the two it follows the clock.
    """

    expression: str
    timezone: str

    @classmethod
    def parse(cls, expression: str, timezone: str) -> Self:
        """Return the checked expression and zone; BadInput names what cannot be read."""
        cron = cls(expression=" ".join(expression.split()), timezone=timezone)
        _zone(timezone)
        if next(cron.after(datetime.now(UTC)), None) is None:
            raise BadInput(f"{expression!r} is never due", remedy="a day that the calendar has")
        return cron

    def after(self, moment: datetime) -> Iterator[datetime]:
        """Yield the due times later than a moment, in order and without duplicates, in UTC."""
        last = moment
        for local in _simulate(self.expression, moment.astimezone(_zone(self.timezone))):
            due = local.astimezone(UTC)
            # The library counts in local time: it repeats an hour where two times were moved out of a gap, and yields a
            # past one where the search began in the second of two equal hours.
            if due > last:
                yield due
                last = due

    def newest(self, since: datetime, until: datetime, most: int) -> list[datetime]:
        """Return the last due times in (since, until], at most `most`, in order."""
        dues = list[datetime]()
        for window in _WINDOWS:
            begin = max(since, until - window)
            dues = list(_until(self.after(begin), until))
            if begin == since or len(dues) >= most:
                break
        return dues[-most:]


def _until(dues: Iterator[datetime], until: datetime) -> Iterator[datetime]:
    for due in dues:
        if due > until:
            return
        yield due


def _simulate(expression: str, begin: datetime) -> CronSim:
    """Return the library's iterator; BadInput names what it cannot read."""
    reason = "five fields are expected"  # of six fields, the library would read the first as seconds
    if len(expression) <= _MAX_CHARS and len(expression.split()) == 5:
        try:
            return CronSim(expression, begin)
        except CronSimError as error:
            reason = f"its {str(error).removeprefix('Bad ')} cannot be read"
    raise BadInput(f"{expression[:_MAX_CHARS]!r} is not a cron expression: {reason}", remedy=_EXAMPLE)


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # unknown; not a name; a folder of zones, such as Europe
        near = difflib.get_close_matches(name[:64], sorted(available_timezones()), n=3, cutoff=0.5)
        meant = f"did you mean {' or '.join(near)}?" if near else "a name such as Europe/Berlin or UTC"
        raise BadInput(f"there is no time zone {name[:64]!r}", remedy=meant) from None


@lru_cache(maxsize=1024)
def _first_after(cron: Cron, moment: datetime) -> datetime | None:
    """Return the next due time; cached, since every worker asks twice a second, and the answer changes rarely."""
    return next(cron.after(moment), None)


# ── Rows ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """A job that begins at set times."""

    name: str
    cron: str
    timezone: str
    order: Mapping[str, Any]
    enabled: bool
    created: datetime
    updated: datetime
    begun: datetime  # due times up to this one were handled

    def as_json(self) -> dict[str, object]:
        """Return the schedule as commands and the service show it."""
        facts = {name: getattr(self, name) for name in ("name", "cron", "timezone", "order", "enabled")}
        return {**facts, "created": self.created.isoformat(), "updated": self.updated.isoformat()}

    @property
    def times(self) -> Cron:
        """The cron expression of its due times."""
        return Cron(expression=self.cron, timezone=self.timezone)


@dataclass(frozen=True, kw_only=True)
class Firing:
    """What became of one due time: a job, or a note why there is none."""

    schedule: str
    due: datetime
    job: str | None
    note: str | None


class ScheduleStore:
    """All schedules of a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(
        self,
        name: str,
        *,
        cron: str,
        timezone: str,
        order: Mapping[str, Any],
        enabled: bool = True,
        now: datetime | None = None,
    ) -> Schedule:
        """Create a schedule or change it; an unchanged one keeps its cursor.

        With another time, or enabled again, the cursor is set to now: nothing fires for the past. The same happens
        where the cursor lies in the future, because a clock was wrong.
        """
        require_name("schedule", name)
        times, moment = Cron.parse(cron, timezone), now or datetime.now(UTC)
        schedule = Schedule(
            name=name,
            cron=times.expression,
            timezone=timezone,
            order=parse_order(order).as_order(),
            enabled=enabled,
            created=moment,
            updated=moment,
            begun=moment,
        )
        try:
            with self._database.writing() as connection:
                before = _load_for_update(connection, name)
                if before is None:
                    connection.execute(SCHEDULES.insert().values(_row(schedule)))
                    return schedule
                connection.execute(_waits_of(name))
                goes_on = before.times == times and before.enabled == enabled and before.begun <= moment
                begun = before.begun if goes_on else moment
                changed = replace(schedule, created=before.created, begun=begun)
                connection.execute(SCHEDULES.update().where(SCHEDULES.c.name == name).values(_row(changed)))
                return changed
        except IntegrityError:
            raise Conflict(f"schedule {name} was made by somebody else just now", remedy="put it again") from None

    def get(self, name: str) -> Schedule:
        """Return a schedule; NotFound lists the existing ones."""
        with self._database.reading() as connection:
            if NAME.fullmatch(name):  # PostgreSQL refuses queries with some texts
                row = connection.execute(select(SCHEDULES).where(SCHEDULES.c.name == name)).first()
                if row is not None:
                    return _schedule(row)
            names = connection.execute(select(SCHEDULES.c.name).order_by(SCHEDULES.c.name)).scalars().all()
        raise NotFound(f"there is no schedule {name[:64]!r}", remedy=f"there are: {', '.join(names) or 'none'}")

    def list(self) -> list[Schedule]:
        """Return all schedules, by name."""
        with self._database.reading() as connection:
            return [_schedule(row) for row in connection.execute(select(SCHEDULES).order_by(SCHEDULES.c.name))]

    def delete(self, name: str) -> None:
        """Delete a schedule and its firings; their jobs stay."""
        self.get(name)
        with self._database.writing() as connection:
            connection.execute(FIRINGS.delete().where(FIRINGS.c.schedule == name))
            connection.execute(SCHEDULES.delete().where(SCHEDULES.c.name == name))

    def next_times(self, name: str, count: int, *, now: datetime | None = None) -> builtins.list[datetime]:
        """Return the next due times in the schedule's zone; none if `failing` says that its time cannot be read."""
        times = self.get(name).times
        with suppress(BadInput):
            zone = _zone(times.timezone)
            return [due.astimezone(zone) for due in islice(times.after(now or datetime.now(UTC)), count)]
        return []

    def firings(self, name: str, limit: int = 10) -> builtins.list[Firing]:
        """Return what became of the last due times, newest first."""
        self.get(name)
        with self._database.reading() as connection:
            rows = connection.execute(
                select(FIRINGS).where(FIRINGS.c.schedule == name).order_by(FIRINGS.c.due.desc()).limit(limit)
            )
            return [Firing(schedule=row.schedule, due=time_of(row.due), job=row.job, note=row.note) for row in rows]

    # ── firing ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def tick(self, jobs: JobStore, now: datetime) -> builtins.list[Firing]:
        """Begin the jobs that are due, each once however many workers tick; of several missed times only the newest."""
        fired = builtins.list[Firing]()
        for schedule in self.list():
            try:
                if schedule.enabled and _is_due(schedule, now):
                    fired += self._fire(schedule.name, jobs, now)
            except (Unavailable, StorageFull):
                raise
            except RefaugError as error:
                # The cursor stays: the job begins when the queue has room, or when the schedule was changed because the
                # zones or the library do not know its time any more. `failing` reports both; a log would every second.
                if isinstance(error, BadInput) or _lateness(schedule, now) is not None:
                    with suppress(Unavailable, StorageFull):  # told at a later tick; other schedules may still begin
                        self._tell_wait(schedule.name, error.message, now)
        return fired

    def _tell_wait(self, name: str, why: str, now: datetime) -> None:
        """Write down once, and add a notice, that the job of a schedule cannot be begun for now."""
        told = select(FIRINGS.c.due).where(FIRINGS.c.schedule == name, FIRINGS.c.note.startswith(_WAITS_NOTE)).limit(1)
        with self._database.reading() as connection:  # every tick comes here, and must not block writers
            if connection.execute(told).first() is not None:
                return
        with self._database.writing() as connection:
            if _load_for_update(connection, name) is None or connection.execute(told).first() is not None:
                return
            note = f"{_WAITS_NOTE}{why}"
            connection.execute(FIRINGS.insert().values(schedule=name, due=time_text(now), job=None, note=note))
            _add_failure_notice(connection, name, note)

    def _fire(self, name: str, jobs: JobStore, now: datetime) -> builtins.list[Firing]:
        """Write the firings, the job and the cursor in one transaction."""
        with self._database.writing() as connection:
            schedule = _load_for_update(connection, name)
            dues = schedule.times.newest(schedule.begun, now, _MAX_MISSED + 1) if schedule and schedule.enabled else []
            if schedule is None or not dues:
                return []  # another worker was first
            fired_before = set(
                connection.execute(
                    select(FIRINGS.c.due).where(FIRINGS.c.schedule == name, FIRINGS.c.due >= time_text(dues[0]))
                ).scalars()
            )
            fired = [
                self._enqueue(schedule, due, jobs) if due == dues[-1] else _missed_firing(name, due)
                for due in dues
                if time_text(due) not in fired_before  # fired before the cursor was set back
            ]
            connection.execute(_waits_of(name))
            for firing in fired:
                connection.execute(
                    FIRINGS.insert().values(schedule=name, due=time_text(firing.due), job=firing.job, note=firing.note)
                )
                if firing.note is not None and firing.note.startswith(_BROKEN_NOTE):
                    _add_failure_notice(connection, name, firing.note)
            connection.execute(
                FIRINGS.delete().where(FIRINGS.c.schedule == name, FIRINGS.c.due < time_text(now - _KEEP_FIRINGS))
            )
            connection.execute(SCHEDULES.update().where(SCHEDULES.c.name == name).values(begun=time_text(dues[-1])))
        return fired

    def _enqueue(self, schedule: Schedule, due: datetime, jobs: JobStore) -> Firing:
        """Enqueue the job of a due time in the current transaction, or return why there is none."""
        name = schedule.name
        try:
            order = parse_order(schedule.order)
            job = jobs.enqueue(order.kind, order.as_order(), resources_of(order), schedule=name)
        except Conflict as error:  # the job of the previous time still waits, and will do this work too
            return Firing(schedule=name, due=due, job=None, note=f"skipped: {error.message}")
        except _LASTING as error:  # the stored order was altered, or names what is not installed any more
            return Firing(schedule=name, due=due, job=None, note=f"{_BROKEN_NOTE}{error.message}")
        return Firing(schedule=name, due=due, job=job.id, note=None)

    def failing(self, *, now: datetime | None = None) -> Mapping[str, str]:
        """Return what is wrong with enabled schedules, without those that are well."""
        return {name: why for name, why in self.troubles(now=now).items() if why}

    def troubles(self, *, now: datetime | None = None) -> Mapping[str, str | None]:
        """Return what is wrong with each enabled schedule: late, not begun, failed the last time, or None."""
        moment = now or datetime.now(UTC)
        with self._database.reading() as connection:
            schedules = [_schedule(row) for row in connection.execute(select(SCHEDULES).where(SCHEDULES.c.enabled))]
            broken, failed = _broken_schedules(connection), _failed_schedules(connection)
        return {
            schedule.name: _lateness(schedule, moment) or broken.get(schedule.name) or failed.get(schedule.name)
            for schedule in schedules
        }


def _waits_of(name: str) -> Delete:
    """Return the statement that removes the note of a job that could not be begun: it begins, or was put again."""
    return FIRINGS.delete().where(FIRINGS.c.schedule == name, FIRINGS.c.note.startswith(_WAITS_NOTE))


def _add_failure_notice(connection: Connection, name: str, note: str) -> None:
    text = f"schedule {name} failed: {note}"
    add_notice(connection, NoticeKind.SCHEDULE_FAILED, text, schedule=name, error=note)


def _lateness(schedule: Schedule, now: datetime) -> str | None:
    """Return why nothing fires although it should."""
    if schedule.begun > now + _LATE_AFTER:
        return f"counts from {schedule.begun:%Y-%m-%d %H:%M} UTC, when a clock was wrong: put it again"
    try:
        due = _first_after(schedule.times, schedule.begun)
    except BadInput as error:  # the zones or the library have changed
        return error.message
    if due is None or due + _LATE_AFTER > now:
        return None
    return f"due at {due:%Y-%m-%d %H:%M} UTC, and not begun: no worker runs, or too many jobs wait"


def _broken_schedules(connection: Connection) -> dict[str, str]:
    """Return the schedules whose last due time could not become a job."""
    newest = select(FIRINGS.c.schedule, func.max(FIRINGS.c.due).label("due")).group_by(FIRINGS.c.schedule).subquery()
    rows = connection.execute(
        select(FIRINGS.c.schedule, FIRINGS.c.note)
        .join(newest, (FIRINGS.c.schedule == newest.c.schedule) & (FIRINGS.c.due == newest.c.due))
        .where(FIRINGS.c.note.startswith(_BROKEN_NOTE))
    )
    return {row.schedule: row.note for row in rows}


def _failed_schedules(connection: Connection) -> dict[str, str]:
    """Return the schedules whose newest finished job has failed; ids of jobs rise with time."""
    newest = (
        select(func.max(JOBS.c.id))
        .join(SCHEDULES, JOBS.c.schedule == SCHEDULES.c.name)
        .where(JOBS.c.state.in_([JobState.DONE, JobState.FAILED]), JOBS.c.created >= SCHEDULES.c.created)
        .group_by(JOBS.c.schedule)
    )
    rows = connection.execute(
        select(JOBS.c.schedule, JOBS.c.id, JOBS.c.error).where(JOBS.c.id.in_(newest), JOBS.c.state == JobState.FAILED)
    )
    failures = dict[str, str]()
    for row in rows:
        error = orjson.loads(row.error or "{}")
        failures[row.schedule] = f"job {row.id} failed ({error.get('code')}): {error.get('message')}"
    return failures


def _is_due(schedule: Schedule, now: datetime) -> bool:
    due = _first_after(schedule.times, schedule.begun)
    return due is not None and due <= now


def _missed_firing(name: str, due: datetime) -> Firing:
    return Firing(schedule=name, due=due, job=None, note="missed: a later one fired")


def _load_for_update(connection: Connection, name: str) -> Schedule | None:
    """Return the schedule, locked until the transaction ends; SQLite locks everything anyway."""
    row = connection.execute(select(SCHEDULES).where(SCHEDULES.c.name == name).with_for_update()).first()
    return None if row is None else _schedule(row)


def _schedule(row: Row[Any]) -> Schedule:
    moments = {name: time_of(getattr(row, name)) for name in ("created", "updated", "begun")}
    return made_of(Schedule, row, order=orjson.loads(row.order), **moments)


def _row(schedule: Schedule) -> dict[str, object]:
    return {
        "name": schedule.name,
        "cron": schedule.cron,
        "timezone": schedule.timezone,
        "order": orjson.dumps(schedule.order).decode(),
        "enabled": schedule.enabled,
        "created": time_text(schedule.created),
        "updated": time_text(schedule.updated),
        "begun": time_text(schedule.begun),
    }
