"""The pages of versions, jobs, schedules and keys in a real browser, against the whole service."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from page_tests import (
    SIZES,
    Browsed,
    accessibility_faults,
    asking_for_keys,
    browsing,
    design_faults,
    overflow,
    press,
    press_enter,
    tab_to,
    wait_until_quiet,
)
from serving import small_home

from refaug.core.home import Settings
from refaug.service.audit import AuditLog
from refaug.service.database.database import Database, time_text
from refaug.service.database.row_ids import RowHolders
from refaug.service.history.hourly_figures import FAILURES, REQUESTS, HourlyFigures, hour_of, latency_name
from refaug.service.jobs.store import JobState, JobStore
from refaug.service.keys import KeyStore
from refaug.service.scopes import Scope

pytestmark = [pytest.mark.machine, pytest.mark.slow]
BAD = "<img src=x onerror='window.hacked = true'> \u202egnp.exe \u0645\u0631\u062d\u0628\u0627 " + "x" * 5_000


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return small_home(tmp_path_factory.mktemp("home"), indexes=2)


@pytest.fixture(scope="module")
def browsed(home: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browsed]:
    with browsing(home.home, tmp_path_factory.mktemp("browser"), path="/service") as found:
        yield found


@pytest.fixture
def page(browsed: Browsed) -> Iterator[Any]:
    browsed.server.until(lambda: browsed.server.client.get("/readyz").is_success, "a server that is ready")
    browsed.page.go(f"{browsed.address}/keys")  # what the last test's page still asked for is over
    wait_until_quiet(browsed.page)
    browsed.page.said.clear()
    browsed.page.asked.clear()
    browsed.page.go(f"{browsed.address}/service")
    wait_until_quiet(browsed.page)
    yield browsed.page
    # A server that opens what a job has just published says for a moment that it is not ready; the page asks again.
    assert [words for words in browsed.page.said if "503 (Service Unavailable)" not in words] == []
    assert [one for one in browsed.page.asked if not one.startswith((browsed.address, "data:"))] == []


def test_the_first_screen_says_what_serves_and_since_when(browsed: Browsed, page: Any) -> None:
    serving = browsed.server.ask("GET", "/readyz").json()["versions"]
    assert f"chat@{serving['index']['chat']}" in page.text("#now")
    assert f"base@{serving['rater']['base']}" in page.text("#now")
    assert "Answers\nyes" in page.text("#now")
    assert "nothing runs by itself" in page.text("#now")


def test_another_version_is_published_after_a_second_question(browsed: Browsed, page: Any) -> None:
    before = browsed.server.ask("GET", "/v1/artefacts/index/chat").json()["current"]
    recall = "document.querySelector('#versions td[data-name=\"Recall@15\"]')"
    assert page.run(f"getComputedStyle({recall}).textAlign") == "right"
    assert " of " not in page.run(f"{recall}.innerText")  # a target is no whole
    press(page, "Publish", "#versions")
    page.until("document.querySelector('#question').open")
    assert accessibility_faults(page) == []
    press(page, "Leave it as it is", "#question")
    assert browsed.server.ask("GET", "/v1/artefacts/index/chat").json()["current"] == before
    press(page, "Publish", "#versions")
    press(page, "Publish it", "#question")
    page.until("!document.querySelector('#question').open")
    after = browsed.server.ask("GET", "/v1/artefacts/index/chat").json()["current"]
    assert after != before
    page.until(f"document.querySelector('#now').innerText.includes({json.dumps(after)})")
    press(page, "Roll back", "#versions")
    press(page, "Roll back", "#question")
    page.until(f"document.querySelector('#now').innerText.includes({json.dumps(before)})")


def test_a_job_is_started_by_its_form_and_followed_to_its_result(browsed: Browsed, page: Any) -> None:
    press(page, "New job")
    page.until("document.querySelector('#order').open")
    assert accessibility_faults(page) == []
    page.run("document.querySelector('#order-field-index').value = 'none'")
    press(page, "Start it", "#order")
    page.until("document.querySelector('#job .notice')?.innerText.includes('What helps')")
    assert "failed" in page.text("#job dl")
    press(page, "New job")
    page.until("document.querySelector('#order').open")
    page.run("document.querySelector('#order-field-index').value = 'chat'")
    press(page, "Start it", "#order")
    page.until("document.querySelector('#job').innerText.includes('done') && document.querySelector('#job pre')")
    job = browsed.server.ask("GET", "/v1/jobs", params={"limit": 1}).json()["jobs"][0]
    assert job["id"] in page.text("#job")
    assert page.run("document.querySelectorAll('#job .log li').length") >= 3
    page.until(f"document.querySelector('#audit a')?.hash === '#job={job['id']}'")  # who queued it leads to it


def test_a_job_is_opened_read_and_closed_by_keyboard_alone(browsed: Browsed, page: Any) -> None:
    order = {"kind": "gc", "artefact": "index", "name": "chat"}
    job = browsed.server.ask("POST", "/v1/jobs", json=order).json()["id"]
    browsed.server.ended(job)
    page.go(f"{browsed.address}/keys")
    page.go(f"{browsed.address}/service")
    wait_until_quiet(page)
    tab_to(page, f"node.matches('#jobs a') && node.hash === '#job={job}'")
    press_enter(page)
    page.until(
        "!document.querySelector('#job-box').hidden && document.querySelector('#job').innerText.includes('done')"
    )
    page.until("document.activeElement.closest('#job-box')")
    page.until("document.querySelector('#job .log li')")
    reached = list[str]()
    for _ in range(12):
        page.press("Tab", 9)
        reached.append(str(page.run("document.activeElement.id || document.activeElement.localName")))
        if reached[-1] == "job-close":
            break
        assert page.run("Boolean(document.activeElement.closest('#job-box'))"), reached
    assert reached[-1] == "job-close"
    tab_to(page, "node.matches('#job summary')", 3)
    tab_to(page, "node.matches('#job .log')", 6)
    page.run("document.querySelector('#job-close').focus()")
    press_enter(page)
    page.until("document.querySelector('#job-box').hidden")
    assert page.run(f"document.activeElement.hash === '#job={job}'"), "the focus is where it came from"


def test_dialogs_keep_the_focus_and_give_it_back_by_keyboard_alone(browsed: Browsed, page: Any) -> None:
    before = browsed.server.ask("GET", "/v1/artefacts/index/chat").json()["current"]
    for text, within, dialog in (("Publish", "#versions", "#question"), ("New job", "main", "#order")):
        is_opener = f"node.localName === 'button' && node.textContent === '{text}' && node.closest('{within}')"
        tab_to(page, is_opener)
        press_enter(page)
        page.until(f"document.querySelector('{dialog}').open")
        assert page.run(f"Boolean(document.activeElement.closest('{dialog}'))"), dialog
        reached = set[str]()
        for _ in range(25):
            page.press("Tab", 9)
            inside = f"String(node.closest('{dialog}')?.id)"
            reached.add(page.run(f"((node) => node === document.body ? 'window' : {inside})(document.activeElement)"))
        assert reached <= {dialog[1:], "window"}, "behind a dialog nothing is reached"
        assert dialog[1:] in reached
        page.press("Escape", 27)
        page.until(f"!document.querySelector('{dialog}').open")
        assert page.run(f"((node) => Boolean({is_opener}))(document.activeElement)"), "the focus is where it came from"
    assert browsed.server.ask("GET", "/v1/artefacts/index/chat").json()["current"] == before


def test_a_failed_job_shows_hostile_words_as_words_and_is_tried_again(
    home: Settings, browsed: Browsed, page: Any
) -> None:
    database = Database.open(home)
    store = JobStore(database)
    job = store.enqueue("gc", {"kind": "gc", "artefact": "vectors", "name": "none"}, ["vectors/none"]).id
    browsed.server.ended(job)
    with database.writing() as connection:
        words = json.dumps({"code": "x", "message": BAD, "remedy": BAD, "exit_code": 1})
        connection.exec_driver_sql("UPDATE jobs SET state = 'failed', error = ? WHERE id = ?", (words, job))
    assert store.get(job).state is JobState.FAILED
    page.run(f"location.hash = 'job={job}'")
    page.until("document.querySelector('#job').innerText.includes('onerror')")
    assert page.run("window.hacked === undefined && document.querySelectorAll('main img').length === 0")
    assert overflow(page) == []
    press(page, "Try again", "#job")
    page.until("[...document.querySelectorAll('#job .log li')].some((one) => one.innerText.includes('tried again'))")
    assert browsed.server.ended(job)["state"] in ("done", "failed")
    database.close()


def test_a_failure_is_the_last_one_until_the_same_job_goes_well(home: Settings, browsed: Browsed, page: Any) -> None:
    def shown() -> str:
        page.go(f"{browsed.address}/keys")
        page.go(f"{browsed.address}/service")
        wait_until_quiet(page)
        return str(page.text("#now"))

    def ended(artefact: str, name: str) -> str:
        order = {"kind": "gc", "artefact": artefact, "name": name}
        job = store.enqueue("gc", order, [f"{artefact}/{name}"]).id
        assert browsed.server.ended(job)["state"] == "done"
        return job

    def later() -> str:
        return time_text(datetime.now(UTC))

    database = Database.open(home)
    store = JobStore(database)
    failed = ended("rater", "base")
    with database.writing() as connection:
        words = json.dumps({"code": "x", "message": "it broke", "remedy": "", "exit_code": 1})
        connection.exec_driver_sql("UPDATE jobs SET state = 'failed', error = ? WHERE id = ?", (words, failed))
    assert "it broke" in shown()
    ended("vectors", "glove")
    assert "it broke" in shown(), "another job says nothing of this one"
    for _ in range(6):  # others that failed later, and then went well, do not hide it
        failed_later = ended("vectors", "glove")
        with database.writing() as connection:
            words = json.dumps({"code": "x", "message": "no room", "remedy": "", "exit_code": 1})
            connection.exec_driver_sql(
                "UPDATE jobs SET state = 'failed', error = ? WHERE id = ?", (words, failed_later)
            )
    assert "no room" in shown()
    ended("vectors", "glove")
    assert "it broke" in shown()
    ended("rater", "base")
    assert "it broke" not in shown()
    with database.writing() as connection:  # the same order clears a schedule's failure, whichever key gives it
        connection.exec_driver_sql("UPDATE jobs SET schedule = 'gone', finished = ? WHERE id = ?", (later(), failed))
    assert "it broke" in shown()
    ended("rater", "base")
    assert "it broke" not in shown()
    database.close()


def test_jobs_are_looked_at_again_without_losing_the_place_and_only_while_the_page_is_seen(
    home: Settings, browsed: Browsed, page: Any
) -> None:
    database = Database.open(home)
    store = JobStore(database)
    done = store.enqueue("gc", {"kind": "gc", "artefact": "index", "name": "chat"}, ["index/chat"]).id
    assert browsed.server.ended(done)["state"] == "done"
    asked = "performance.getEntriesByType('resource').filter(({ name }) => name.includes('/v1/jobs?limit=')).length"
    # Timers are kept, and run when the test says so.
    page.run("window.later = []; window.setTimeout = (act) => later.push(act); 1")
    again = "document.querySelector('#job-state').dispatchEvent(new Event('change'))"
    page.run(f"{again}; 1")
    page.until(f"later.length === 1 && document.querySelector('#jobs a[href=\"#job={done}\"]')")
    page.run(f"document.querySelector('#jobs a[href=\"#job={done}\"]').focus(); 1")
    page.run("document.activeElement.closest('tr').isMine = true; 1")
    newer = store.enqueue("gc", {"kind": "gc", "artefact": "rater", "name": "base"}, ["rater/base"]).id
    assert browsed.server.ended(newer)["state"] == "done"
    page.run("later.pop()(); 1")
    page.until(f"later.length === 1 && document.querySelector('#jobs tbody tr a').hash === '#job={newer}'")
    assert page.run("document.activeElement.hash") == f"#job={done}"
    assert page.run("document.activeElement.closest('tr').isMine && document.querySelectorAll('#jobs tr')[2].isMine")

    page.run("window.seen = 'hidden'; Object.defineProperty(document, 'visibilityState', { get: () => seen }); 1")
    before = page.run(asked)
    page.run("later.pop()(); 1")
    assert page.run(f"later.length === 0 && {asked} === {before}"), "a hidden page asks for nothing"
    page.run("seen = 'visible'; document.dispatchEvent(new Event('visibilitychange')); 1")
    page.until(f"later.length === 1 && {asked} === {before + 1}")

    words = json.dumps({"code": "internal", "title": "t", "detail": "the disk is slow", "status": 500})
    page.run(f"window.real = fetch; window.fetch = async () => new Response({json.dumps(words)}, {{ status: 500 }}); 1")
    for _ in range(3):
        page.run("later.pop()(); 1")
        page.until(
            "later.length === 1 && document.querySelector('#jobs-trouble').innerText.includes('the disk is slow')"
        )
    assert page.run("document.querySelectorAll('#jobs tbody tr').length > 1"), "what is known stays"
    page.run("window.fetch = real; later.pop()(); 1")
    page.until("later.length === 1 && document.querySelector('#jobs-trouble').innerText === ''")
    page.run(
        "window.fetch = (path, { signal }) => new Promise((_, stop) => {"
        "  signal.onabort = () => { window.stopped = 1; stop(signal.reason); };"
        "}); later.pop()(); 1"
    )
    page.run("window.dispatchEvent(new Event('pagehide')); 1")
    page.until("window.stopped === 1 && later.length === 0")
    database.close()


def test_a_schedule_is_made_paused_run_and_removed(browsed: Browsed, page: Any) -> None:
    press(page, "New schedule")
    page.until("document.querySelector('#schedule-name')")
    for field, text in (
        ("schedule-name", "night"),
        ("schedule-cron", "30 2 * * *"),
        ("schedule-zone", "Europe/Berlin"),
    ):
        page.run(f"document.querySelector('#{field}').value = {json.dumps(text)}")
    kind = "document.querySelector('#order-kind')"
    page.run(f"{kind}.value = 'index-update'; {kind}.dispatchEvent(new Event('change'))")
    page.run("document.querySelector('#order-field-index').value = 'chat'")
    press(page, "Make it", "#order")
    page.until("document.querySelector('#schedules').innerText.includes('Europe/Berlin')")
    due = page.text("#schedules td[data-name=Next] time")
    assert ("2:30" in due, due.endswith(", Europe/Berlin")) == (True, True)  # by the clocks of its zone
    made = browsed.server.ask("GET", "/v1/schedules/night").json()
    assert (made["cron"], made["timezone"], made["order"]["index"]) == ("30 2 * * *", "Europe/Berlin", "chat")
    press(page, "Pause", "#schedules")
    page.until("document.querySelector('#schedules').innerText.includes('paused')")
    assert browsed.server.ask("GET", "/v1/schedules/night").json()["enabled"] is False
    press(page, "Run now", "#schedules")
    page.until("document.querySelector('#job').innerText.includes('done')")
    press(page, "Remove", "#schedules")
    press(page, "Remove it", "#question")
    page.until("!document.querySelector('#schedules').innerText.includes('Berlin')")
    page.said[:] = [one for one in page.said if "404" not in one]  # another part was just asking for it


def test_hours_are_lines_and_a_backup_has_its_age(home: Settings, browsed: Browsed, page: Any) -> None:
    with closing(Database.open(home)) as database:
        figures, now = HourlyFigures(database), datetime.now(UTC)
        for back in range(1, 31):
            counts = {REQUESTS: 10 * back, FAILURES: back % 2, latency_name(0.025): 9, latency_name(0.5): 1}
            figures.add("another process", 31 - back, {hour_of(now - timedelta(hours=back)): counts})
            sizes = {"database": 1_000, "disk_free": 5_000_000, "indexes": {"chat": {"recall": 0.975, "drift": None}}}
            figures.set_sizes(hour_of(now - timedelta(hours=back)), sizes)
        AuditLog(database).add("user ann", "back up", "backup monday", bytes=5_000, files=3, rows=2, damaged=0)
    page.go(f"{browsed.address}/keys")
    page.go(f"{browsed.address}/service")
    wait_until_quiet(page)
    page.until("document.querySelectorAll('#figures svg.plot path.line').length")
    titles = page.run("[...document.querySelectorAll('#figures figcaption b')].map((one) => one.innerText)")
    assert titles[:2] == ["Requests an hour", "Failures an hour"]
    assert "Recall of the published index" in titles
    assert not [title for title in titles if title.startswith("Drift")]  # it was never measured
    heights = page.run("[...document.querySelectorAll('#figures svg.plot[role=img]')].map((one) => one.clientHeight)")
    assert len(set(heights)) == 1
    assert "latest: 10" in page.run("document.querySelector('#figures figure').innerText")
    assert "97.5 %" in page.text("#figures")
    page.run("document.querySelector('#figures figure summary').click()")
    page.until("document.querySelector('#figures figure table')")
    assert "300" in page.run("document.querySelector('#figures figure table').innerText")
    assert page.text("#backups tbody").split("\t")[0] == "monday"
    assert "ago" in page.text("#backups time")
    assert "Last backup" in page.text("#now")
    acts = page.run("[...document.querySelectorAll('#audit tbody tr')].map((row) => row.innerText)")
    assert "user ann\tback up\tbackup monday" in acts[0]
    choice = "document.querySelector('#figures-hours')"
    page.run("document.querySelector('#figures figure').id = 'of-seven-days'")
    page.run(f"{choice}.value = '24'; {choice}.dispatchEvent(new Event('change'))")
    page.until("!document.querySelector('#of-seven-days') && document.querySelector('#figures svg.plot')")
    page.run("document.querySelector('#figures figure summary').click()")
    page.until("document.querySelector('#figures figure table')")
    assert page.run("document.querySelectorAll('#figures figure tbody tr').length") == 24


def test_the_focus_stays_on_the_button_for_more_jobs_and_goes_to_the_first_that_comes(
    browsed: Browsed, tmp_path: Path
) -> None:
    home = small_home(tmp_path / "home", indexes=1)
    with asking_for_keys(browsed, home, "/service", keys=False) as opened:
        page = opened.page
        with closing(Database.open(home)) as database:
            for number in range(30):
                JobStore(database).enqueue("gc", {"kind": "gc"}, [f"index/i{number}"])
        again = "document.querySelector('#job-state').dispatchEvent(new Event('change'))"
        page.run(f"{again}; 1")
        page.until("document.querySelectorAll('#jobs tbody tr').length === 25")
        page.until("document.querySelector('#jobs-more').checkVisibility()")
        tab_to(page, "node.textContent === 'Show more'")
        page.run("document.querySelector('#jobs').ariaBusy = 1; 1")
        page.run(f"{again}; 1")
        page.until("!document.querySelector('#jobs').ariaBusy")
        assert page.run("document.activeElement.textContent") == "Show more"
        press_enter(page)
        page.until("document.querySelectorAll('#jobs tbody tr').length === 30")
        page.until("document.activeElement.closest('tr') === document.querySelectorAll('#jobs tbody tr')[25]")
        assert not page.run("document.querySelector('#jobs-more').checkVisibility()")


def test_the_log_of_a_job_is_live_again_after_coming_back(browsed: Browsed, page: Any) -> None:
    order = {"kind": "gc", "artefact": "index", "name": "chat"}
    job = browsed.server.ask("POST", "/v1/jobs", json=order).json()["id"]
    browsed.server.ended(job)
    page.run(f"location.hash = 'job={job}'")
    page.until("document.activeElement.id === 'job-box' && document.querySelector('#job .log li')")
    page.run("document.querySelector('#new-job').focus(); 1")
    leaves, returns = (
        f"window.dispatchEvent(new PageTransitionEvent('{what}', {{ persisted: true }})); 1"
        for what in ("pagehide", "pageshow")
    )
    page.run(leaves)
    page.run("document.querySelector('#job .log').replaceChildren(); 1")
    page.run(returns)
    page.until("document.querySelector('#job .log li')")
    assert page.run("document.activeElement.id") == "new-job"
    page.run("document.querySelector('#job-close').click(); 1")
    page.run(leaves)
    page.run(returns)
    assert page.run("document.querySelector('#job-box').hidden"), "one that was closed stays closed"


def test_a_job_tells_its_outcome_and_while_it_runs_its_stage_and_the_time_left(
    home: Settings, browsed: Browsed, page: Any
) -> None:
    with closing(Database.open(home)) as database, RowHolders(home).hold() as worker:
        jobs = JobStore(database)
        rows = {"kind": "gc", "artefact": "index", "name": "none"}
        job = jobs.enqueue("gc", rows, ["index/none"]).id
        browsed.server.ended(job)
        since = (datetime.now(UTC) - timedelta(minutes=10)).isoformat()
        progress = json.dumps({"stage": "embedding", "done": 200, "total": 800, "unit": "pairs", "since": since})
        with database.writing() as connection:
            connection.exec_driver_sql(
                "UPDATE jobs SET state = 'running', finished = NULL, result = NULL, error = NULL, progress = ?,"
                " worker = ? WHERE id = ?",
                (progress, worker, job),
            )
        page.run("document.querySelector('#job-state').dispatchEvent(new Event('change'))")
        page.until("document.querySelector('#jobs').innerText.includes('embedding: 200 of 800 pairs, 30 min left')")
        outcome = {"removed": ["1", "2"], "bytes": 5_000_000}
        with database.writing() as connection:
            connection.exec_driver_sql(
                "UPDATE jobs SET state = 'done', finished = created, result = ? WHERE id = ?",
                (json.dumps(outcome), job),
            )
    page.until("document.querySelector('#jobs').innerText.includes('removed 2 old versions')")  # it looks again
    page.run(f"location.hash = 'job={job}'")
    page.until("document.querySelector('#job .outcome')?.innerText === 'removed 2 old versions'")
    assert "5.0 MB" in page.text("#job")
    assert page.run("document.querySelector('#job pre').checkVisibility()") is False  # JSON is behind a button


def test_growth_of_a_log_is_shown_run_by_run(page: Any) -> None:
    press(page, "Show", "#logs")
    page.until("document.querySelector('#logs .growth td').textContent")


def test_a_thousand_events_leave_two_hundred_lines_in_the_page(home: Settings, browsed: Browsed, page: Any) -> None:
    database = Database.open(home)
    store = JobStore(database)
    job = browsed.server.ask("GET", "/v1/jobs", params={"limit": 1}).json()["jobs"][0]["id"]
    with database.writing() as connection:
        last = connection.exec_driver_sql("SELECT max(number) FROM job_events WHERE job = ?", (job,)).scalar_one()
        rows = [
            (job, last + 1 + number, "2026-11-20T07:00:00+00:00", "note", json.dumps({"message": f"line {number}"}))
            for number in range(1_000)
        ]
        connection.exec_driver_sql("INSERT INTO job_events (job, number, at, type, data) VALUES (?, ?, ?, ?, ?)", rows)
    assert len(store.events(job, last, 2_000)) == 1_000
    database.close()
    page.run(f"location.hash = 'job={job}'")
    page.until("document.querySelector('#job .log')?.innerText.includes('line 999')")
    assert page.run("document.querySelectorAll('#job .log li').length") == 200


def test_the_page_goes_on_after_a_restart_while_a_job_is_watched(browsed: Browsed, page: Any) -> None:
    job = browsed.server.ask("POST", "/v1/jobs", json={"kind": "index-compact", "index": "chat"}).json()["id"]
    page.run(f"location.hash = 'job={job}'")
    page.until("document.querySelector('#job .log li')")
    browsed.server.kill("web", "jobs")
    assert browsed.server.ended(job)["state"] == "done"
    page.until(
        "document.querySelector('#job').innerText.includes('done') && document.querySelector('#connection').hidden"
    )
    assert browsed.server.ask("GET", "/readyz").status_code == 200  # or the next page would be loaded too early
    page.said[:] = [one for one in page.said if "Failed to load resource" not in one]


@pytest.mark.parametrize("path", ["/service", "/keys", "/bots"])
@pytest.mark.parametrize(("width", "scheme"), SIZES)
def test_nothing_is_inaccessible_or_too_wide(browsed: Browsed, page: Any, path: str, width: int, scheme: str) -> None:
    page.look(width, scheme=scheme)
    try:
        page.go(f"{browsed.address}{path}")
        wait_until_quiet(page)
        page.until("document.querySelector('main table, main .empty')")
        assert accessibility_faults(page) == []
        assert overflow(page) == []
        assert design_faults(page) == []
    finally:
        page.look(1_280)


# ── keys ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def enter(page: Any, token: str) -> None:
    """Enter a key into the dialog."""
    page.run("document.querySelector('#key-button').click()")
    page.type("#key-input", token)
    page.run("document.querySelector('#key-form button[value=use]').click()")


def test_keys_say_what_they_may_and_an_admin_makes_and_revokes(browsed: Browsed, tmp_path: Path) -> None:
    home = small_home(tmp_path)
    database = Database.open(home)
    tokens = {name: KeyStore(database).create(name, [Scope(name)])[0] for name in ("score", "read", "admin")}
    database.close()
    with asking_for_keys(browsed, home) as keyed:
        page = keyed.page
        page.until("document.querySelector('#page-problem').innerText.includes('asks for a key')")
        enter(page, tokens["score"][:-4] + "AAAA")
        page.until("document.querySelector('#key-problem').innerText.includes('not known')")
        page.run("document.querySelector('#key-close').click()")
        enter(page, tokens["read"])
        page.until("document.querySelector('#page-problem').innerText.includes('this page needs score')")
        enter(page, tokens["score"])
        page.until(
            "document.querySelector('#setting-mode') && document.querySelector('#page-problem').innerText === ''"
        )
        page.until("document.querySelector('#freeze').disabled")
        assert tokens["score"] not in page.run("location.href + document.cookie + JSON.stringify({...localStorage})")

        second = page.other_tab(f"{keyed.address}/keys")  # another tab has no key
        second.until("document.querySelector('#own').innerText.includes('asks for a key')")
        enter(second, tokens["admin"])
        second.until("document.querySelector('#keys table')")
        second.type("#key-name", "trainer-7")
        second.run("document.querySelector('#new-key').requestSubmit()")
        token = second.until("document.querySelector('#new-state code')?.textContent")
        made = keyed.client.get("/v1/key", headers={"X-API-Key": token}).json()
        assert (made["name"], made["scopes"]) == ("trainer-7", ["read", "score"])
        assert accessibility_faults(second) == []
        row = "[...document.querySelectorAll('#keys tr')].find((one) => one.innerText.includes('trainer-7'))"
        second.run(f"(() => {{ const button = {row}.querySelector('button'); button.focus(); button.click(); }})()")
        assert keyed.client.get("/v1/key", headers={"X-API-Key": token}).status_code == 200
        second.run(f"{row}.querySelector('button').click()")
        second.until(f"{row}.innerText.includes('revoked')")
        assert keyed.client.get("/v1/key", headers={"X-API-Key": token}).status_code == 401
