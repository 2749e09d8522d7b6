"""Schedules: jobs that begin by the clock.

A library computes the times; what is kept is ours. A schedule is a row with a cursor: the due time up to which it has
been looked after. A firing is a row unique on (schedule, due), written in one transaction with the job that it begins,
so that none is lost and none begins twice, whoever ticks, how many tick, and wherever one of them is killed.
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
from sqlalchemy import Connection, Row, func, select
from sqlalchemy.exc import IntegrityError

from core.errors import BadInput, Conflict, NotFound, Overloaded
from core.files import NAME, require_name
from service.database import Database, time_of, time_text
from service.job_kinds.orders import parse_order, resources_of
from service.job_store import JobState, JobStore
from service.migrations.tables import FIRINGS, JOBS, SCHEDULES

_LONGEST: Final = 200  # characters of an expression; a list of all 60 minutes has 169
_EXAMPLE: Final = "five fields: minute, hour, day of the month, month, day of the week; '30 2 * * *' is 02:30 every day"

# How many due times that were missed are written down beside the one that fires; after a year without a server, a
# schedule of every minute has missed half a million.
_MISSED: Final = 20
_KEPT: Final = timedelta(days=400)  # firings; longer than a year, for schedules that fire once in it
_LATE: Final = timedelta(minutes=10)  # a worker looks twice a second, also while it runs a job

_BROKEN: Final = "broken: "  # how the note begins where a due time could not become a job

# Looked through backwards until there are enough: each is at most 24 times as long as the one before.
_WINDOWS: Final = tuple(
    timedelta(hours=hours) for hours in (1, 24, 7 * 24, 31 * 24, 366 * 24, 12 * 366 * 24, 120 * 366 * 24)
)


# ── times ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class Cron:
    """When something is due: a cron expression, read by the clocks of a zone.

    Where clocks are changed it does as Debian's cron. With a minute and an hour that are named, it is due once on
    every day that has it: a time that is skipped is made up for when the clocks have been put forward, one that comes
    twice counts the first time. With `*` in one of the two it goes by what the clocks show.
    """

    expression: str
    timezone: str

    @classmethod
    def parse(cls, expression: str, timezone: str) -> Self:
        """Both of them checked; BadInput names what cannot be read."""
        found = cls(expression=" ".join(expression.split()), timezone=timezone)
        _zone(timezone)
        if next(found.after(datetime.now(UTC)), None) is None:
            raise BadInput(f"{expression!r} is never due", remedy="a day that the calendar has")
        return found

    def after(self, moment: datetime) -> Iterator[datetime]:
        """Due times later than a moment: in order, each once, in UTC."""
        last = moment
        for local in _simulated(self.expression, moment.astimezone(_zone(self.timezone))):
            due = local.astimezone(UTC)
            # The library counts on local clocks: it names an hour twice where two times were moved out of a gap, and
            # one that lies back where the search began in the second of two equal hours.
            if due > last:
                yield due
                last = due

    def newest(self, since: datetime, until: datetime, most: int) -> list[datetime]:
        """The last of the due times in (since, until], at most so many, in order."""
        found = list[datetime]()
        for window in _WINDOWS:
            begin = max(since, until - window)
            found = list(_until(self.after(begin), until))
            if begin == since or len(found) >= most:
                break
        return found[-most:]


def _until(dues: Iterator[datetime], until: datetime) -> Iterator[datetime]:
    for due in dues:
        if due > until:
            return
        yield due


def _simulated(expression: str, begin: datetime) -> CronSim:
    """The library's iterator; BadInput names what it cannot read."""
    said = "five fields are expected"  # of six, the library would take the first for seconds
    if len(expression) <= _LONGEST and len(expression.split()) == 5:
        try:
            return CronSim(expression, begin)
        except CronSimError as error:
            said = f"its {str(error).removeprefix('Bad ')} cannot be read"
    raise BadInput(f"{expression[:_LONGEST]!r} is no cron expression: {said}", remedy=_EXAMPLE)


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # unknown; no name at all; a folder of them, such as Europe
        near = difflib.get_close_matches(name[:64], sorted(available_timezones()), n=3, cutoff=0.5)
        meant = f"did you mean {' or '.join(near)}?" if near else "a name such as Europe/Berlin or UTC"
        raise BadInput(f"there is no time zone {name[:64]!r}", remedy=meant) from None


@lru_cache(maxsize=1024)
def _first_after(cron: Cron, moment: datetime) -> datetime | None:
    """Kept, since every worker asks twice a second, and the answer changes when something is due."""
    return next(cron.after(moment), None)


# ── rows ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """A job that begins by the clock."""

    name: str
    cron: str
    timezone: str
    order: Mapping[str, Any]
    enabled: bool
    created: datetime
    updated: datetime
    begun: datetime  # due times up to this one have been looked after

    @property
    def times(self) -> Cron:
        """When it is due."""
        return Cron(expression=self.cron, timezone=self.timezone)


@dataclass(frozen=True, kw_only=True)
class Firing:
    """What became of one due time: a job, or a note that says why there is none."""

    schedule: str
    due: datetime
    job: str | None
    note: str | None


class Schedules:
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
        """Make a schedule, or change it; one that is put as it is keeps its place in time.

        With another time, or enabled again, it counts from now on: nothing fires for what lies behind. So it does
        where it has been looked after up to a time that is still to come, because a clock went wrong.
        """
        require_name("schedule", name)
        times, moment = Cron.parse(cron, timezone), now or datetime.now(UTC)
        wanted = Schedule(
            name=name,
            cron=times.expression,
            timezone=timezone,
            order=parse_order(order).model_dump(mode="json"),
            enabled=enabled,
            created=moment,
            updated=moment,
            begun=moment,
        )
        try:
            with self._database.writing() as connection:
                before = _locked(connection, name)
                if before is None:
                    connection.execute(SCHEDULES.insert().values(_row(wanted)))
                    return wanted
                goes_on = before.times == times and before.enabled == enabled and before.begun <= moment
                begun = before.begun if goes_on else moment
                changed = replace(wanted, created=before.created, begun=begun)
                connection.execute(SCHEDULES.update().where(SCHEDULES.c.name == name).values(_row(changed)))
                return changed
        except IntegrityError:
            raise Conflict(f"schedule {name} was made by somebody else just now", remedy="put it again") from None

    def get(self, name: str) -> Schedule:
        """One of them; NotFound lists what there is."""
        with self._database.reading() as connection:
            if NAME.fullmatch(name):  # PostgreSQL cannot even be asked about some texts
                found = connection.execute(select(SCHEDULES).where(SCHEDULES.c.name == name)).first()
                if found is not None:
                    return _schedule(found)
            names = connection.execute(select(SCHEDULES.c.name).order_by(SCHEDULES.c.name)).scalars().all()
        raise NotFound(f"there is no schedule {name[:64]!r}", remedy=f"there are: {', '.join(names) or 'none'}")

    def list(self) -> list[Schedule]:
        """All of them, by name."""
        with self._database.reading() as connection:
            return [_schedule(row) for row in connection.execute(select(SCHEDULES).order_by(SCHEDULES.c.name))]

    def delete(self, name: str) -> None:
        """Take a schedule away, with what was written down of its firings; their jobs stay."""
        self.get(name)
        with self._database.writing() as connection:
            connection.execute(FIRINGS.delete().where(FIRINGS.c.schedule == name))
            connection.execute(SCHEDULES.delete().where(SCHEDULES.c.name == name))

    def next_times(self, name: str, count: int, *, now: datetime | None = None) -> builtins.list[datetime]:
        """When it is due next, on the clocks of its zone; none where `failing` says that its time cannot be read."""
        times = self.get(name).times
        with suppress(BadInput):
            zone = _zone(times.timezone)
            return [due.astimezone(zone) for due in islice(times.after(now or datetime.now(UTC)), count)]
        return []

    def firings(self, name: str, limit: int = 10) -> builtins.list[Firing]:
        """What became of its last due times, newest first."""
        self.get(name)
        with self._database.reading() as connection:
            rows = connection.execute(
                select(FIRINGS).where(FIRINGS.c.schedule == name).order_by(FIRINGS.c.due.desc()).limit(limit)
            )
            return [Firing(schedule=row.schedule, due=time_of(row.due), job=row.job, note=row.note) for row in rows]

    # ── the clock ─────────────────────────────────────────────────────────────────────────────────────────────────

    def tick(self, jobs: JobStore, now: datetime) -> builtins.list[Firing]:
        """Begin what is due, each once however many tick; of several times that were missed only the newest."""
        fired = builtins.list[Firing]()
        for schedule in self.list():
            try:
                if schedule.enabled and _is_due(schedule, now):
                    fired += self._fire(schedule.name, jobs, now)
            except (Overloaded, BadInput):
                # Its time is not used up: it begins when there is room, or when it was put anew where the zones or the
                # library do not know its time any more. `failing` tells both; a log would, every second.
                continue
        return fired

    def _fire(self, name: str, jobs: JobStore, now: datetime) -> builtins.list[Firing]:
        """One transaction: the firings, the job, and the cursor behind them."""
        with self._database.writing() as connection:
            schedule = _locked(connection, name)
            dues = schedule.times.newest(schedule.begun, now, _MISSED + 1) if schedule and schedule.enabled else []
            if schedule is None or not dues:
                return []  # another one was first
            known = set(
                connection.execute(
                    select(FIRINGS.c.due).where(FIRINGS.c.schedule == name, FIRINGS.c.due >= time_text(dues[0]))
                ).scalars()
            )
            fired = [
                self._begin(schedule, due, jobs) if due == dues[-1] else _missed(name, due)
                for due in dues
                if time_text(due) not in known  # begun before its time was counted anew
            ]
            for one in fired:
                connection.execute(
                    FIRINGS.insert().values(schedule=name, due=time_text(one.due), job=one.job, note=one.note)
                )
            connection.execute(
                FIRINGS.delete().where(FIRINGS.c.schedule == name, FIRINGS.c.due < time_text(now - _KEPT))
            )
            connection.execute(SCHEDULES.update().where(SCHEDULES.c.name == name).values(begun=time_text(dues[-1])))
        return fired

    def _begin(self, schedule: Schedule, due: datetime, jobs: JobStore) -> Firing:
        """The job of a due time, in the transaction that this thread is in; or why it has none."""
        name = schedule.name
        try:
            order = parse_order(schedule.order)
            job = jobs.enqueue(order.kind, order.model_dump(mode="json"), resources_of(order), schedule=name)
        except Conflict as error:  # the job of the time before still waits, and will do this one's work as well
            return Firing(schedule=name, due=due, job=None, note=f"skipped: {error.message}")
        except BadInput as error:  # it was put by an earlier release
            return Firing(schedule=name, due=due, job=None, note=f"{_BROKEN}{error.message}")
        return Firing(schedule=name, due=due, job=job.id, note=None)

    def failing(self, *, now: datetime | None = None) -> Mapping[str, str]:
        """What is wrong with which of those that are enabled: late, not begun, or failed the last time."""
        moment = now or datetime.now(UTC)
        with self._database.reading() as connection:
            schedules = [_schedule(row) for row in connection.execute(select(SCHEDULES).where(SCHEDULES.c.enabled))]
            broken, failed = _broken(connection), _failed(connection)
        said = {one.name: _late(one, moment) or broken.get(one.name) or failed.get(one.name) for one in schedules}
        return {name: why for name, why in said.items() if why}


def _late(schedule: Schedule, now: datetime) -> str | None:
    """Why nothing fires, where something should have."""
    if schedule.begun > now + _LATE:
        return f"counts from {schedule.begun:%Y-%m-%d %H:%M} UTC, when a clock was wrong: put it again"
    try:
        due = _first_after(schedule.times, schedule.begun)
    except BadInput as error:  # the zones or the library have changed
        return error.message
    if due is None or due + _LATE > now:
        return None
    return f"due at {due:%Y-%m-%d %H:%M} UTC, and not begun: no worker runs, or too many jobs wait"


def _broken(connection: Connection) -> dict[str, str]:
    """Schedules whose last due time could not become a job."""
    newest = select(FIRINGS.c.schedule, func.max(FIRINGS.c.due).label("due")).group_by(FIRINGS.c.schedule).subquery()
    rows = connection.execute(
        select(FIRINGS.c.schedule, FIRINGS.c.note)
        .join(newest, (FIRINGS.c.schedule == newest.c.schedule) & (FIRINGS.c.due == newest.c.due))
        .where(FIRINGS.c.note.startswith(_BROKEN))
    )
    return {row.schedule: row.note for row in rows}


def _failed(connection: Connection) -> dict[str, str]:
    """Schedules the last of whose jobs that were done or have failed, has failed; ids of jobs rise with time."""
    newest = (
        select(func.max(JOBS.c.id))
        .join(SCHEDULES, JOBS.c.schedule == SCHEDULES.c.name)
        .where(JOBS.c.state.in_([JobState.DONE, JobState.FAILED]), JOBS.c.created >= SCHEDULES.c.created)
        .group_by(JOBS.c.schedule)
    )
    rows = connection.execute(
        select(JOBS.c.schedule, JOBS.c.id, JOBS.c.error).where(JOBS.c.id.in_(newest), JOBS.c.state == JobState.FAILED)
    )
    found = dict[str, str]()
    for row in rows:
        error = orjson.loads(row.error or "{}")
        found[row.schedule] = f"job {row.id} failed ({error.get('code')}): {error.get('message')}"
    return found


def _is_due(schedule: Schedule, now: datetime) -> bool:
    due = _first_after(schedule.times, schedule.begun)
    return due is not None and due <= now


def _missed(name: str, due: datetime) -> Firing:
    return Firing(schedule=name, due=due, job=None, note="missed: a later one fired")


def _locked(connection: Connection, name: str) -> Schedule | None:
    """The schedule, held against others until the transaction ends; SQLite holds everything anyway."""
    row = connection.execute(select(SCHEDULES).where(SCHEDULES.c.name == name).with_for_update()).first()
    return None if row is None else _schedule(row)


def _schedule(row: Row[Any]) -> Schedule:
    return Schedule(
        name=row.name,
        cron=row.cron,
        timezone=row.timezone,
        order=orjson.loads(row.order),
        enabled=row.enabled,
        created=time_of(row.created),
        updated=time_of(row.updated),
        begun=time_of(row.begun),
    )


def _row(one: Schedule) -> dict[str, Any]:
    return {
        "name": one.name,
        "cron": one.cron,
        "timezone": one.timezone,
        "order": orjson.dumps(one.order).decode(),
        "enabled": one.enabled,
        "created": time_text(one.created),
        "updated": time_text(one.updated),
        "begun": time_text(one.begun),
    }
