"""Figures of the last hours, what is degraded, and figures for Prometheus, over the whole service."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from serving import client_of, migrated, small_home, wait_until
from starlette.testclient import TestClient
from studying import Person, add_bots, chat_protocol, new_study
from typer.testing import CliRunner

from refaug.bots.endpoint.judge_files import spending_path
from refaug.cli.main import app
from refaug.core.home import Settings
from refaug.service.database.database import Database
from refaug.service.history.hourly_figures import FAILURES, JOBS_DONE, REQUESTS, HourlyFigures, hour_of, latency_name
from refaug.service.history.notices import NoticeBox
from refaug.service.jobs.schedules import ScheduleStore
from refaug.service.jobs.store import JobState, JobStore
from refaug.service.web.handling.degradation import find_degraded
from refaug.service.web.handling.service_sizes import measure_sizes


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return small_home(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def client(home: Settings) -> Iterator[TestClient]:
    with client_of(home) as found:
        yield found


def test_figures_are_those_that_were_stored(client: TestClient) -> None:
    state = client.app.state.refaug
    step = state.hourly_figures.last(1)[1][0]
    hour, before = hour_of(step.begin), step.count(REQUESTS)
    counts = {REQUESTS: 10, FAILURES: 1, latency_name(0.025): 9, latency_name(0.5): 1}
    state.hourly_figures.add("another process", 1, {hour: counts})
    state.hourly_figures.set_sizes(hour, measure_sizes(state))
    job = state.jobs.enqueue("gc", {"kind": "gc"}, [])
    state.jobs.claim("w")
    state.jobs.finish(job.id, "w", JobState.DONE, outcome={})
    answer = client.get("/v1/figures?hours=3").json()
    assert answer["step_hours"] == 1
    assert len(answer["begins"]) == 3
    at = answer["begins"].index(step.begin.isoformat())
    assert answer["requests"][at] >= before + 10
    assert answer["failures"][at] == 1
    assert sum(answer["jobs_done"]) == 1
    assert answer["database_bytes"][at] == state.hourly_figures.last(3)[1][at].sizes["database"] > 0
    assert 0 < answer["disk_free_bytes"][at] <= answer["disk_bytes"][at]
    chat = client.get("/v1/artefacts/index/chat").json()["published"]
    assert (answer["indexes"]["chat"]["bytes"][at], answer["indexes"]["chat"]["pairs"][at]) == (
        chat["bytes"],
        chat["pairs"],
    )
    assert client.get("/v1/figures?hours=2161").status_code == 422


def test_what_a_process_counts_is_stored_when_it_stops(tmp_path: Path) -> None:
    home = small_home(tmp_path)
    with client_of(home) as first:
        asked = [first.get("/v1/jobs").status_code for _ in range(7)]
        assert first.get("/healthz").status_code == 200
    assert asked == [200] * 7
    with closing(Database.open(home)) as database:
        assert sum(step.count(REQUESTS) for step in HourlyFigures(database).last(2)[1]) == 7
        assert sum(step.count(JOBS_DONE) for step in HourlyFigures(database).last(2)[1]) == 0


def test_a_backup_is_noted_and_has_an_age(home: Settings, client: TestClient, tmp_path: Path) -> None:
    assert client.get("/v1/figures").json()["backups"] == []
    assert "refaug_backup_age_seconds" not in client.get("/metrics").text
    made = CliRunner().invoke(app, ["--home", str(home.home), "--quiet", "admin", "backup", str(tmp_path / "monday")])
    assert made.exit_code == 0, made.output
    (backup,) = client.get("/v1/figures").json()["backups"]
    assert (backup["name"], backup["damaged"]) == ("monday", 0)
    assert backup["bytes"] > 0
    assert "refaug_backup_age_seconds " in client.get("/metrics").text
    newest = client.get("/v1/audit?newest=true&limit=1").json()["entries"][0]
    assert (newest["action"], newest["subject"]) == ("back up", "backup monday")


@pytest.mark.slow
def test_what_is_degraded_is_said_and_turns_nothing_away(home: Settings, client: TestClient) -> None:
    state = client.app.state.refaug
    assert list(find_degraded(state)) == []
    with closing(Database.open(home)) as database:
        jobs = JobStore(database)
        order = {"kind": "gc", "artefact": "index", "name": "chat"}
        ScheduleStore(database).put("night", cron="30 2 * * *", timezone="UTC", order=order)
        job = jobs.enqueue("gc", {"kind": "gc"}, [], schedule="night")
        jobs.claim("w")
        jobs.finish(job.id, "w", JobState.FAILED, error={"code": "x", "message": "no"})
        assert NoticeBox(database).waiting() == (1, None)
    assert list(find_degraded(state)) == ["schedule night is failing"]
    wait_until(lambda: client.get("/readyz").json()["degraded"] == ["schedule night is failing"])
    assert client.get("/readyz").status_code == 200
    state.schedules.delete("night")


def test_a_database_that_is_away_is_degraded(tmp_path: Path) -> None:
    home = small_home(tmp_path)
    with client_of(home) as client:
        (home.home / "refaug.db").rename(home.home / "elsewhere.db")
        (said,) = find_degraded(client.app.state.refaug)
        assert "no jobs, schedules and new keys until it does" in said
        assert client.get("/readyz").status_code == 200


def test_a_study_has_its_participants_and_tasks_as_figures(client: TestClient) -> None:
    add_bots(client, "quokka")
    person = Person(client)
    person.enter(new_study(client, "fruit", chat_protocol("quokka")))
    person.agree()
    person.done("tasks/next")
    person.say("hello")
    text = client.get("/metrics").text
    assert 'refaug_bot_requests_total{bot="quokka",outcome="answered"} 1.0' in text
    assert 'refaug_study_participants{state="active"} 1.0' in text
    assert 'refaug_study_tasks{state="started"} 1.0' in text
    assert 'study="fruit"' not in text  # a key that reads figures may not look at studies


def test_a_damaged_bot_or_count_costs_only_the_figures_of_bots(tmp_path: Path) -> None:
    home = migrated(Settings(home=tmp_path / "home"))
    with client_of(home, ready=False) as client, closing(Database.open(home)) as database:
        add_bots(client, "quokka")
        assert 'refaug_bot_requests_total{bot="quokka",outcome="failed"} 0.0' in client.get("/metrics").text
        uses = spending_path(home).with_name("bot-use.db")
        uses.parent.mkdir(parents=True, exist_ok=True)
        uses.write_bytes(b"no database at all, but long enough to be read as one" * 40)
        assert "refaug_bot_requests_total{" not in client.get("/metrics").text  # and no zeros, a reset of counters
        assert client.get("/v1/bot-use").json()["bots"][0]["requests"] == 0
        with database.writing() as connection:
            connection.exec_driver_sql("UPDATE bots SET spec = '{'")
        told = client.get("/metrics").text
    assert "refaug_database_up 1.0" in told
    assert "refaug_bot_requests_total{" not in told
    assert 'refaug_jobs{state="queued"} 0.0' in told
    assert "# TYPE refaug_study_tasks gauge" in told


def test_figures_are_answered_where_the_home_is_gone(tmp_path: Path) -> None:
    home = migrated(Settings(home=tmp_path / "home"))
    with client_of(home, ready=False) as client:
        assert "refaug_disk_bytes" in client.get("/metrics").text
        home.home.rename(tmp_path / "elsewhere")
        answer = client.get("/metrics")
        (tmp_path / "elsewhere").rename(home.home)
    assert answer.status_code == 200
    assert "refaug_disk_bytes" not in answer.text
