"""Schedules: due times against lists worked out by hand, one firing a due time, whoever ticks and whatever dies."""

from __future__ import annotations

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refusing

from refaug.core.errors import BadInput, NoAccess, NotFound, Usage
from refaug.service.database.database import Database
from refaug.service.jobs.schedules import Cron, Firing, ScheduleStore
from refaug.service.jobs.store import Job, JobState, JobStore

pytest_plugins = ("databases",)

ROOT = Path(__file__).parents[4]


def utc(text: str) -> datetime:
    return datetime.strptime(text, "%Y-%m-%d %H:%M").replace(tzinfo=UTC)


def dues(expression: str, zone: str, since: str, until: str) -> list[str]:
    found = Cron.parse(expression, zone).newest(utc(since), utc(until), 1_000)
    return [f"{due:%m-%d %H:%M}" for due in found]


# ── times ─────────────────────────────────────────────────────────────────────────────────────────────────────────


# Expression, zone, from, to (both UTC), and what is due between them (UTC).
BY_HAND = """
# Berlin: clocks go from 02:00 to 03:00 on 31 March 2024, and back from 03:00 to 02:00 on 27 October.
# A time that is skipped is made up for at 03:00 summer time, which is 01:00 UTC; two of them at once.
30 2 * * *    | Europe/Berlin    | 2024-03-30 00:00 | 2024-04-01 12:00 | 03-30 01:30, 03-31 01:00, 04-01 00:30
0,30 2 * * *  | Europe/Berlin    | 2024-03-30 12:00 | 2024-04-01 00:10 | 03-31 01:00, 04-01 00:00
# A time that comes twice counts the first time, at 02:30 summer time.
30 2 * * *    | Europe/Berlin    | 2024-10-26 00:00 | 2024-10-28 12:00 | 10-26 00:30, 10-27 00:30, 10-28 01:30
# With a star the clock is followed: no 02:xx on the one day, and each twice on the other.
*/30 2 * * *  | Europe/Berlin    | 2024-03-30 12:00 | 2024-04-01 00:40 | 04-01 00:00, 04-01 00:30
*/30 2 * * * | Europe/Berlin  | 2024-10-26 12:00 | 2024-10-27 12:00 | 10-27 00:00, 10-27 00:30, 10-27 01:00, 10-27 01:30
# Every hour is every hour.
0 * * * *     | Europe/Berlin    | 2024-03-30 23:30 | 2024-03-31 02:30 | 03-31 00:00, 03-31 01:00, 03-31 02:00
0 * * * *     | Europe/Berlin    | 2024-10-26 23:30 | 2024-10-27 02:30 | 10-27 00:00, 10-27 01:00, 10-27 02:00
# New York: 02:00 to 03:00 on 10 March 2024, which is 07:00 UTC; 02:00 to 01:00 on 3 November, which is 06:00 UTC.
30 2 * * *    | America/New_York | 2024-03-09 00:00 | 2024-03-11 12:00 | 03-09 07:30, 03-10 07:00, 03-11 06:30
30 2 * * *    | America/New_York | 2024-11-02 00:00 | 2024-11-04 12:00 | 11-02 06:30, 11-03 07:30, 11-04 07:30
30 1 * * *    | America/New_York | 2024-11-02 00:00 | 2024-11-04 12:00 | 11-02 05:30, 11-03 05:30, 11-04 06:30
0 * * * *     | America/New_York | 2024-11-03 04:30 | 2024-11-03 07:30 | 11-03 05:00, 11-03 06:00, 11-03 07:00
0 * * * *     | America/New_York | 2024-03-10 05:30 | 2024-03-10 08:30 | 03-10 06:00, 03-10 07:00, 03-10 08:00
# Clocks that stay as they are, with names and with half an hour.
15 4 * * mon-fri  | UTC          | 2024-03-29 00:00 | 2024-04-02 00:00 | 03-29 04:15, 04-01 04:15
0 0 1 jan,jul *   | Asia/Kolkata | 2024-01-01 00:00 | 2025-01-01 00:00 | 06-30 18:30, 12-31 18:30
"""


@pytest.mark.parametrize("line", [line for line in BY_HAND.splitlines() if line and not line.startswith("#")])
def test_due_times_are_those_worked_out_by_hand(line: str) -> None:
    expression, zone, since, until, expected = (part.strip() for part in line.split(" | "))
    assert dues(expression, zone, since, until) == expected.split(", ")


def test_in_the_second_of_two_equal_hours_nothing_is_due_again() -> None:
    # 01:15 UTC is 02:15 for the second time; 02:30 has been, at 00:30 UTC
    following = Cron.parse("30 2 * * *", "Europe/Berlin").after(utc("2024-10-27 01:15"))
    assert next(following) == utc("2024-10-28 01:30")


EXPRESSIONS = (
    "30 2 * * *",
    "*/20 * * * *",
    "0 0 * * *",
    "15 */3 * * *",
    "45 1,2 * * 0",
    "0 0-3 * * *",
    "*/30 0 * * *",
)
ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Beirut", "America/Havana", "UTC")


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(EXPRESSIONS), st.sampled_from(ZONES), st.integers(0, 3 * 365 * 24 * 60), st.integers(1, 400))
def test_where_one_begins_to_look_changes_no_due_time(expression: str, zone: str, minute: int, hours: int) -> None:
    cron, since = Cron.parse(expression, zone), utc("2023-01-01 00:00") + timedelta(minutes=minute)
    until = since + timedelta(days=20)
    whole = cron.newest(since, until, 10_000)
    assert whole == sorted(set(whole))
    later = since + timedelta(hours=hours)
    assert cron.newest(later, until, 10_000) == [due for due in whole if due > later]
    for due in whole:  # each is a minute that the clock shows, or the end of a gap in it
        local = due.astimezone(ZoneInfo(zone))
        before = (due - timedelta(minutes=1)).astimezone(ZoneInfo(zone))
        assert _shows(expression, local) or local.utcoffset() != before.utcoffset()


def _shows(expression: str, local: datetime) -> bool:
    """The fields that the test above uses, read in the plainest way."""
    minute, hour, _, _, weekday = expression.split()

    def allows(spec: str, value: int) -> bool:
        if spec == "*":
            return True
        if spec.startswith("*/"):
            return value % int(spec[2:]) == 0
        if "-" in spec:
            low, high = map(int, spec.split("-"))
            return low <= value <= high
        return value in map(int, spec.split(","))

    return allows(minute, local.minute) and allows(hour, local.hour) and allows(weekday, local.isoweekday() % 7)


def test_of_many_times_that_were_missed_the_newest_are_found_at_once() -> None:
    every_minute = Cron.parse("* * * * *", "Europe/Berlin")
    found = every_minute.newest(utc("1995-01-01 00:00"), utc("2024-05-01 12:00"), 3)
    assert found == [utc("2024-05-01 11:58"), utc("2024-05-01 11:59"), utc("2024-05-01 12:00")]
    leap = Cron.parse("0 0 29 2 *", "UTC").newest(utc("1990-01-01 00:00"), utc("2024-05-01 12:00"), 3)
    assert [due.year for due in leap] == [2016, 2020, 2024]


@pytest.mark.parametrize(
    ("expression", "zone", "message", "remedy"),
    [
        ("* * * *", "UTC", "* * * *", "30 2 * * *"),
        ("0 0 2 * * *", "UTC", "five fields are expected", "five fields: minute, hour"),
        ("@daily", "UTC", "five fields are expected", "five fields: minute, hour"),
        ("60 * * * *", "UTC", "its minute cannot be read", "five fields"),
        ("0 24 * * *", "UTC", "its hour cannot be read", "five fields"),
        ("0 0 30 2 *", "UTC", "its day-of-month cannot be read", "five fields"),
        ("0 0 * foo *", "UTC", "its month cannot be read", "five fields"),
        ("0 0 * * 1#9", "UTC", "its day-of-week cannot be read", "five fields"),
        ("0 0 LW 2 */8", "UTC", "0 0 LW 2 */8", "a day that the calendar has"),
        ("0 0 * * *", "Europe/Berlim", "Europe/Berlim", "Europe/Berlin"),
        ("0 0 * * *", "Europe", "Europe", "Europe/"),
        ("0 0 * * *", "../../etc/passwd", "../../etc/passwd", "Europe/Berlin"),
        ("0 0 * * *", "", "there is no time zone ''", "Europe/Berlin"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(expression: str, zone: str, message: str, remedy: str) -> None:
    with pytest.raises(BadInput) as refused:
        Cron.parse(expression, zone)
    assert message in refused.value.message
    assert remedy in refused.value.remedy


@settings(max_examples=50, deadline=None)
@given(st.text(alphabet="0123456789*/-,#LWMONJAN ²@?", max_size=24))
def test_any_text_is_a_cron_expression_or_bad_input(text: str) -> None:
    with suppress(BadInput):
        assert Cron.parse(text, "UTC").expression.split() == text.split()


# ── firing ────────────────────────────────────────────────────────────────────────────────────────────────────────


def order_of(name: str) -> dict[str, object]:
    return {"kind": "gc", "artefact": "index", "name": name}


WHOLE = {"kind": "gc", "artefact": "index", "name": "chat", "keep": 3, "even_pinned": False}
EVENING = utc("2024-05-01 20:00")


@pytest.fixture
def schedules(database: Database) -> ScheduleStore:
    return ScheduleStore(database)


@pytest.fixture
def jobs(database: Database) -> JobStore:
    return JobStore(database)


def put_nightly(schedules: ScheduleStore, now: datetime = EVENING, **other: object) -> None:
    given = {"cron": "30 2 * * *", "timezone": "UTC", "order": order_of("chat"), **other}
    schedules.put("nightly", now=now, **given)  # type: ignore[arg-type]


def end_all(jobs: JobStore, state: JobState = JobState.DONE, error: dict[str, object] | None = None) -> list[Job]:
    ended = []
    while (job := jobs.claim("worker")) is not None:
        jobs.finish(job.id, "worker", state, outcome={} if error is None else None, error=error)
        ended.append(job)
    return ended


def all_jobs(jobs: JobStore) -> list[Job]:
    return list(reversed(jobs.list(limit=1000)[0]))


def told(firings: list[Firing]) -> list[tuple[str, str | None]]:
    return [(f"{one.due:%m-%d %H:%M}", one.note) for one in firings]


def test_a_due_time_becomes_one_job_with_the_whole_order(schedules: ScheduleStore, jobs: JobStore) -> None:
    put_nightly(schedules)
    assert schedules.tick(jobs, utc("2024-05-02 02:29")) == []
    [fired] = schedules.tick(jobs, utc("2024-05-02 02:30"))
    [job] = all_jobs(jobs)
    assert fired == Firing(schedule="nightly", due=utc("2024-05-02 02:30"), job=job.id, note=None)
    assert (job.kind, job.order, job.resources, job.schedule) == ("gc", WHOLE, ("index/chat",), "nightly")
    assert schedules.tick(jobs, utc("2024-05-02 02:31")) == []
    assert schedules.firings("nightly") == [fired]


def test_of_several_missed_times_only_the_newest_fires(schedules: ScheduleStore, jobs: JobStore) -> None:
    put_nightly(schedules)
    fired = schedules.tick(jobs, utc("2024-05-05 14:00"))
    late = "missed: a later one fired"
    assert told(fired) == [("05-02 02:30", late), ("05-03 02:30", late), ("05-04 02:30", late), ("05-05 02:30", None)]
    assert [job.id for job in all_jobs(jobs)] == [fired[-1].job]
    assert schedules.firings("nightly", 2) == [fired[3], fired[2]]


def test_after_a_year_away_only_the_last_missed_runs_are_recorded(schedules: ScheduleStore, jobs: JobStore) -> None:
    put_nightly(schedules, cron="* * * * *")
    fired = schedules.tick(jobs, utc("2025-05-01 20:00"))
    assert [one.due for one in fired] == [utc("2025-05-01 20:00") - timedelta(minutes=20 - n) for n in range(21)]
    assert [one.job is not None for one in fired] == [False] * 20 + [True]
    assert schedules.tick(jobs, utc("2025-05-01 20:00")) == []


def test_however_many_tick_at_once_a_due_time_fires_once(
    database: Database, database_url: str, schedules: ScheduleStore, jobs: JobStore
) -> None:
    for number in range(5):
        schedules.put(f"s{number}", cron="30 2 * * *", timezone="UTC", order=order_of(f"i{number}"), now=EVENING)

    def tick(_: int) -> list[Firing]:
        with closing(Database.open(database.home, database_url)) as mine:
            return ScheduleStore(mine).tick(JobStore(mine), utc("2024-05-03 12:00"))

    with ThreadPoolExecutor(8) as threads:
        fired = [one for found in threads.map(tick, range(8)) for one in found]
    due = [(utc("2024-05-02 02:30"), False), (utc("2024-05-03 02:30"), True)]
    assert sorted((one.schedule, one.due, one.job is not None) for one in fired) == [
        (f"s{number}", *one) for number in range(5) for one in due
    ]
    assert sorted(job.schedule or "" for job in all_jobs(jobs)) == [f"s{number}" for number in range(5)]


def test_while_its_job_still_waits_a_schedule_skips(schedules: ScheduleStore, jobs: JobStore) -> None:
    put_nightly(schedules)
    [first] = schedules.tick(jobs, utc("2024-05-02 02:30"))
    [second] = schedules.tick(jobs, utc("2024-05-03 02:30"))
    assert second.job is None
    assert second.note == f"skipped: job {first.job} of kind gc on index/chat waits already"
    assert schedules.failing(now=utc("2024-05-03 02:31")) == {}
    end_all(jobs)
    [third] = schedules.tick(jobs, utc("2024-05-04 02:30"))
    assert [job.id for job in all_jobs(jobs)] == [first.job, third.job]


def test_one_that_runs_does_not_keep_the_next_from_waiting(schedules: ScheduleStore, jobs: JobStore) -> None:
    put_nightly(schedules)
    schedules.tick(jobs, utc("2024-05-02 02:30"))
    assert jobs.claim("worker") is not None
    [second] = schedules.tick(jobs, utc("2024-05-03 02:30"))
    assert [job.state for job in all_jobs(jobs)] == [JobState.RUNNING, JobState.QUEUED]
    assert all_jobs(jobs)[1].id == second.job


def test_where_too_many_jobs_wait_the_time_is_not_used_up(schedules: ScheduleStore, database: Database) -> None:
    narrow = JobStore(database, waiting_jobs=1)
    other = narrow.enqueue("gc", order_of("other"), ["index/other"])
    put_nightly(schedules)
    assert schedules.tick(narrow, utc("2024-05-02 02:30")) == []
    assert schedules.firings("nightly") == []
    assert schedules.failing(now=utc("2024-05-02 02:39")) == {}
    assert schedules.failing(now=utc("2024-05-02 02:40")) == {
        "nightly": "due at 2024-05-02 02:30 UTC, and not begun: no worker runs, or too many jobs wait"
    }
    narrow.cancel(other.id)
    [fired] = schedules.tick(narrow, utc("2024-05-02 03:00"))
    assert fired.due == utc("2024-05-02 02:30")
    assert schedules.failing(now=utc("2024-05-02 03:00")) == {}


def test_a_clock_that_is_set_back_fires_nothing_twice(schedules: ScheduleStore, jobs: JobStore) -> None:
    put_nightly(schedules)
    for now in ("2024-05-02 02:31", "2024-05-02 01:00", "2024-05-02 02:30", "2024-05-02 02:45"):
        schedules.tick(jobs, utc(now))
        end_all(jobs)
    assert len(all_jobs(jobs)) == 1
    put_nightly(schedules, utc("2024-05-02 01:30"))  # it counts from here again, and still knows what has fired
    schedules.tick(jobs, utc("2024-05-02 02:50"))
    assert len(all_jobs(jobs)) == 1
    [following] = schedules.tick(jobs, utc("2024-05-03 02:30"))
    assert following.due == utc("2024-05-03 02:30")


def test_a_clock_that_was_years_ahead_is_told_and_mended_by_putting_again(
    schedules: ScheduleStore, jobs: JobStore
) -> None:
    put_nightly(schedules)
    schedules.tick(jobs, utc("2031-01-01 12:00"))
    end_all(jobs)
    assert schedules.failing(now=utc("2024-05-02 12:00")) == {
        "nightly": "counts from 2031-01-01 02:30 UTC, when a clock was wrong: put it again"
    }
    put_nightly(schedules, utc("2024-05-02 12:00"))
    assert schedules.failing(now=utc("2024-05-02 12:00")) == {}
    assert told(schedules.tick(jobs, utc("2024-05-03 02:30"))) == [("05-03 02:30", None)]


def test_a_changed_time_counts_from_now_and_an_unchanged_one_goes_on(schedules: ScheduleStore, jobs: JobStore) -> None:
    put_nightly(schedules)
    put_nightly(schedules, utc("2024-05-02 12:00"), order=order_of("other"))  # as it was: what is due stays due
    assert told(schedules.tick(jobs, utc("2024-05-02 12:01"))) == [("05-02 02:30", None)]
    put_nightly(schedules, utc("2024-05-03 12:00"), cron="0 4 * * *")
    assert schedules.tick(jobs, utc("2024-05-03 12:01")) == []
    put_nightly(schedules, utc("2024-05-03 13:00"), cron="0 4 * * *", enabled=False)
    assert schedules.tick(jobs, utc("2024-05-05 12:00")) == []
    put_nightly(schedules, utc("2024-05-05 13:00"), cron="0 4 * * *")
    assert schedules.tick(jobs, utc("2024-05-05 14:00")) == []
    end_all(jobs)
    assert told(schedules.tick(jobs, utc("2024-05-06 04:00"))) == [("05-06 04:00", None)]


@pytest.mark.parametrize(
    ("cron", "zone", "since", "minutes", "expected"),
    [
        ("30 2 * * *", "Europe/Berlin", "2024-03-31 00:00", 180, ["03-31 01:00"]),
        ("30 2 * * *", "Europe/Berlin", "2024-10-27 00:00", 180, ["10-27 00:30"]),
        ("0 * * * *", "Europe/Berlin", "2024-10-26 23:50", 150, ["10-27 00:00", "10-27 01:00", "10-27 02:00"]),
        ("30 2 * * *", "America/New_York", "2024-03-10 06:00", 180, ["03-10 07:00"]),
        ("30 1 * * *", "America/New_York", "2024-11-03 05:00", 180, ["11-03 05:30"]),
        ("0 * * * *", "America/New_York", "2024-03-10 05:50", 150, ["03-10 06:00", "03-10 07:00", "03-10 08:00"]),
    ],
)
def test_ticking_through_a_clock_change_starts_each_job_once(
    schedules: ScheduleStore, jobs: JobStore, cron: str, zone: str, since: str, minutes: int, expected: list[str]
) -> None:
    put_nightly(schedules, utc(since), cron=cron, timezone=zone)
    fired = []
    for minute in range(0, minutes, 5):
        fired += schedules.tick(jobs, utc(since) + timedelta(minutes=minute))
        end_all(jobs)
    assert told(fired) == [(due, None) for due in expected]
    assert len(all_jobs(jobs)) == len(expected)


# A process that ticks and is killed at one statement after the other, each time on a schedule of its own.
_KILLED = """
import os, signal, sys
from datetime import datetime, timedelta
from pathlib import Path
import orjson
from sqlalchemy import event
from refaug.service.database.database import Database
from refaug.service.jobs.store import JobStore
from refaug.service.jobs.schedules import ScheduleStore
from refaug.core.home import Settings

home, url = Settings(home=Path(sys.argv[1])), sys.argv[2]
begin = datetime.fromisoformat("2024-05-01T20:00:00+00:00")
now = begin + timedelta(hours=12)

def opened():
    return Database.open(home, url)

def tick_and_die(point):
    database, seen = opened(), [0]
    def die(*_):
        seen[0] += 1
        if seen[0] == point:
            os.kill(os.getpid(), signal.SIGKILL)
    for name in ("after_cursor_execute", "commit"):
        event.listen(database._engine, name, die)
    ScheduleStore(database).tick(JobStore(database), now)
    os._exit(0)

point, found = 0, []
while True:
    point += 1
    name = f"s{point}"
    first = opened()
    order = {"kind": "gc", "artefact": "index", "name": name}
    ScheduleStore(first).put(name, cron="30 2 * * *", timezone="UTC", order=order, now=begin)
    first.close()
    child = os.fork()
    if child == 0:
        tick_and_die(point)
    _, status = os.waitpid(child, 0)
    after = opened()
    ScheduleStore(after).tick(JobStore(after), now)
    firings = ScheduleStore(after).firings(name)
    jobs = [job for job in JobStore(after).list(limit=1000)[0] if job.schedule == name]
    found.append([[one.job for one in firings], [job.id for job in jobs], os.WIFSIGNALED(status)])
    after.close()
    if not os.WIFSIGNALED(status):
        break
    assert point < 200
sys.stdout.buffer.write(orjson.dumps(found))
"""


@pytest.mark.slow
def test_killed_at_any_statement_a_tick_loses_no_firing_and_doubles_none(database: Database, database_url: str) -> None:
    command = [sys.executable, "-c", _KILLED, str(database.home.home), database_url]
    ended = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, timeout=120)
    assert ended.returncode == 0, ended.stderr.decode()
    found = orjson.loads(ended.stdout)
    assert len(found) > 8  # the statements of a tick, and its commit
    assert [was_killed for _, _, was_killed in found] == [True] * (len(found) - 1) + [False]
    for firings, jobs, _ in found:
        assert len(jobs) == 1
        assert firings == jobs


# ── what is wrong ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_job_that_failed_is_told_until_a_later_one_is_done(schedules: ScheduleStore, jobs: JobStore) -> None:
    put_nightly(schedules)
    error = {"code": "check_failed", "message": "recall is 0.71", "remedy": "", "exit_code": 6}
    schedules.tick(jobs, utc("2024-05-02 02:30"))
    [failed] = end_all(jobs, JobState.FAILED, error)
    why = {"nightly": f"job {failed.id} failed (check_failed): recall is 0.71"}
    now = utc("2024-05-02 02:31")
    assert schedules.failing(now=now) == why
    now = utc("2024-05-03 02:30")
    [again] = schedules.tick(jobs, now)
    assert again.job is not None
    assert schedules.failing(now=now) == why
    jobs.cancel(again.job)
    assert schedules.failing(now=now) == why
    schedules.tick(jobs, utc("2024-05-04 02:30"))
    end_all(jobs)
    assert schedules.failing(now=utc("2024-05-04 02:31")) == {}


def test_a_schedule_that_is_off_is_not_failing(schedules: ScheduleStore, jobs: JobStore) -> None:
    put_nightly(schedules)
    schedules.tick(jobs, utc("2024-05-02 02:30"))
    end_all(jobs, JobState.FAILED, {"code": "bad_input", "message": "no", "remedy": "", "exit_code": 3})
    put_nightly(schedules, utc("2024-05-02 03:00"), enabled=False)
    assert schedules.failing(now=utc("2024-05-09 00:00")) == {}


def test_an_order_that_cannot_be_read_any_more_is_told_and_stops_no_other(
    schedules: ScheduleStore, jobs: JobStore, database: Database
) -> None:
    put_nightly(schedules)
    schedules.put("other", cron="30 2 * * *", timezone="UTC", order=order_of("other"), now=EVENING)
    with database.writing() as connection:
        connection.exec_driver_sql('UPDATE schedules SET "order" = \'{"kind": "dust"}\' WHERE name = \'nightly\'')
    fired = schedules.tick(jobs, utc("2024-05-02 02:30"))
    assert [(one.schedule, one.job is None) for one in fired] == [("nightly", True), ("other", False)]
    said = schedules.failing(now=utc("2024-05-02 02:31"))
    assert list(said) == ["nightly"]
    assert said["nightly"].startswith("broken: the order of a job: ")
    assert "dust" in said["nightly"]


def test_a_zone_that_is_gone_is_told_and_stops_no_other(
    schedules: ScheduleStore, jobs: JobStore, database: Database
) -> None:
    put_nightly(schedules)
    schedules.put("other", cron="30 2 * * *", timezone="UTC", order=order_of("other"), now=EVENING)
    with database.writing() as connection:
        connection.exec_driver_sql("UPDATE schedules SET timezone = 'Mars/Olympus' WHERE name = 'nightly'")
    assert [one.schedule for one in schedules.tick(jobs, utc("2024-05-02 02:30"))] == ["other"]
    assert schedules.failing(now=utc("2024-05-02 02:31")) == {"nightly": "there is no time zone 'Mars/Olympus'"}
    assert schedules.next_times("nightly", 3) == []


def test_where_a_wait_cannot_be_written_down_the_other_schedules_begin(
    schedules: ScheduleStore, jobs: JobStore, database: Database
) -> None:
    put_nightly(schedules)
    schedules.put("other", cron="30 2 * * *", timezone="UTC", order=order_of("other"), now=EVENING)
    with database.writing() as connection:
        connection.exec_driver_sql("UPDATE schedules SET timezone = 'Mars/Olympus' WHERE name = 'nightly'")
        for statement in NO_ROOM[database.is_sqlite]:
            connection.exec_driver_sql(statement)
    assert [one.schedule for one in schedules.tick(jobs, utc("2024-05-02 02:30"))] == ["other"]
    assert [job.schedule for job in all_jobs(jobs)] == ["other"]
    assert schedules.firings("nightly") == []


# Of the firings, only those that became no job find no place.
NO_ROOM = {
    True: [
        "CREATE TRIGGER full_disk BEFORE INSERT ON firings WHEN NEW.job IS NULL "
        "BEGIN SELECT RAISE(ABORT, 'no such savepoint: a full disk has undone it'); END"
    ],
    False: [
        "CREATE FUNCTION full_disk() RETURNS trigger AS 'BEGIN RAISE disk_full; END' LANGUAGE plpgsql",
        "CREATE TRIGGER full_disk BEFORE INSERT ON firings FOR EACH ROW WHEN (NEW.job IS NULL) "
        "EXECUTE FUNCTION full_disk()",
    ],
}


class BarredOnce(JobStore):
    """Jobs whose first order meets a file that cannot be read for a while."""

    barred = True

    def enqueue(self, *given: Any, **named: Any) -> Job:
        if self.barred:
            self.barred = False
            raise NoAccess("/mnt/logs cannot be read")
        return super().enqueue(*given, **named)


def test_what_passes_by_itself_uses_up_no_due_time_and_stops_no_other(
    schedules: ScheduleStore, database: Database
) -> None:
    jobs = BarredOnce(database)
    put_nightly(schedules)
    schedules.put("other", cron="30 2 * * *", timezone="UTC", order=order_of("other"), now=EVENING)
    assert [one.schedule for one in schedules.tick(jobs, utc("2024-05-02 02:30"))] == ["other"]
    assert schedules.failing(now=utc("2024-05-02 02:31")) == {}
    [fired] = schedules.tick(jobs, utc("2024-05-02 02:31"))
    assert (fired.schedule, fired.due, fired.note) == ("nightly", utc("2024-05-02 02:30"), None)


# ── looking ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_times_to_come_are_on_the_clocks_of_the_zone(schedules: ScheduleStore) -> None:
    put_nightly(schedules, timezone="Europe/Berlin")
    found = schedules.next_times("nightly", 3, now=utc("2024-03-29 12:00"))
    assert [f"{due:%m-%d %H:%M %z}" for due in found] == ["03-30 02:30 +0100", "03-31 03:00 +0200", "04-01 02:30 +0200"]


def test_what_was_put_is_found_listed_and_deleted_with_its_firings(schedules: ScheduleStore, jobs: JobStore) -> None:
    put_nightly(schedules)
    schedules.put("another", cron=" 0  4 * * mon ", timezone="UTC", order=order_of("a"), enabled=False, now=EVENING)
    assert [(one.name, one.cron, one.enabled) for one in schedules.list()] == [
        ("another", "0 4 * * mon", False),
        ("nightly", "30 2 * * *", True),
    ]
    found = schedules.get("nightly")
    assert (found.order, found.created, found.begun) == (WHOLE, EVENING, EVENING)
    put_nightly(schedules, utc("2024-05-01 21:00"))
    assert (schedules.get("nightly").created, schedules.get("nightly").updated) == (EVENING, utc("2024-05-01 21:00"))
    schedules.tick(jobs, utc("2024-05-02 02:30"))
    schedules.delete("nightly")
    assert [one.name for one in schedules.list()] == ["another"]
    assert [job.schedule for job in all_jobs(jobs)] == ["nightly"]
    put_nightly(schedules)
    assert schedules.firings("nightly") == []
    schedules.delete("nightly")
    for ask in (schedules.get, schedules.delete, schedules.firings):
        with refusing(NotFound, "nightly"):
            ask("nightly")
        with refusing(NotFound):
            ask("a\0b")


def test_what_makes_no_sense_is_not_put(schedules: ScheduleStore) -> None:
    with refusing(Usage, "Night"):
        schedules.put("Night", cron="0 0 * * *", timezone="UTC", order=order_of("a"))
    with refusing(BadInput):
        put_nightly(schedules, cron="0 99 * * *")
    with refusing(BadInput):
        put_nightly(schedules, order={"kind": "gc", "artefact": "index", "nmae": "chat"})
    assert schedules.list() == []


def test_the_order_of_the_operations_page_can_be_put(schedules: ScheduleStore) -> None:
    page = (ROOT / "docs" / "operations.md").read_text("utf-8")
    [order] = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    put_nightly(schedules, order=orjson.loads(order))
    assert {**schedules.get("nightly").order, **orjson.loads(order)}["limits"]["recall"] == 0.9
