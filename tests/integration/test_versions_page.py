"""What an operator asks at night, in a real browser: versions and what made them, refusals, and nights that fail."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from page_tests import Browsed, accessibility_faults, browsing, hostile_texts, overflow, press, wait_until_quiet
from serving import small_home

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.artefacts.versions import Publications
from refaug.core.home import Settings
from refaug.service.database.database import Database
from refaug.service.jobs.store import JobStore

pytestmark = [pytest.mark.machine, pytest.mark.slow]
WHY = "recall is 0.5, at least 0.9 is asked for"
WORST = {"corpus_difference": 0.02, "mean_absolute": 0.0125, "references_changed": 0.25, "spearman": 0.9}
DRIFT = {"set": "s1", "old": "2026-11-19.1", "new": "2026-11-20.1", "items": 200, "worst": WORST}
NIGHT = {"kind": "nightly", "log": "chat", "index": "chat"}


def ended(browsed: Browsed, home: Settings, state: str, version: str | None, error: Any, **facts: Any) -> str:
    """Return a job of a night that has ended so."""
    database = Database.open(home)
    store = JobStore(database)
    job = store.enqueue("nightly", NIGHT, ["log/chat", "index/chat"], schedule="night").id
    browsed.server.ask("DELETE", f"/v1/jobs/{job}")
    browsed.server.ended(job)
    outcome = json.dumps({"version": version, **facts})
    with database.writing() as connection:
        connection.exec_driver_sql(
            "UPDATE jobs SET state = ?, result = ?, error = ?, cancel_requested = 0 WHERE id = ?",
            (state, outcome, None if error is None else json.dumps(error), job),
        )
        connection.exec_driver_sql(
            "INSERT INTO firings (schedule, due, job, note) SELECT name, ?, ?, NULL FROM schedules",
            (f"2026-11-20T0{2 + len(store.list()[0])}:30:00+00:00", job),
        )
    database.close()
    return job


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    home = small_home(tmp_path_factory.mktemp("home"), indexes=2, raters=2)
    for kind, name in (("index", "chat"), ("rater", "base")):
        artefacts = artefact_stores(home)[kind]
        first, second = artefacts.versions(name)
        artefacts.publish(name, first)
        Publications(published=frozenset({first}), refused={second: WHY}).write(artefacts.folder(name))
    return home


@pytest.fixture(scope="module")
def browsed(home: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browsed]:
    with browsing(home.home, tmp_path_factory.mktemp("browser"), path="/service") as found:
        schedule = {"cron": "30 2 * * *", "timezone": "Europe/Berlin", "order": {**NIGHT, "limits": {"recall": 0.9}}}
        found.server.ask("PUT", "/v1/schedules/night", json={**schedule, "enabled": False})
        yield found


def shown(browsed: Browsed) -> Any:
    """The page, loaded anew."""
    browsed.page.go(f"{browsed.address}/keys")
    browsed.page.go(f"{browsed.address}/service")
    wait_until_quiet(browsed.page)
    return browsed.page


def row_of(page: Any, version: str) -> list[str]:
    """The cells of a version of the index."""
    rows = "[...document.querySelectorAll('#versions table')[0].querySelectorAll('tbody tr')]"
    row = f"{rows}.find((row) => row.innerText.includes({json.dumps(version)}))"
    cells: list[str] = page.run(f"[...{row}.children].map((cell) => cell.innerText)")
    return cells


def test_a_failed_night_is_told_on_the_first_screen_with_its_reason(home: Settings, browsed: Browsed) -> None:
    first, second = artefact_stores(home)["index"].versions("chat")
    error = {
        "code": "check_failed",
        "message": f"index chat@{second} was built but not published: {WHY}",
        "remedy": "the old one goes on serving",
        "exit_code": 1,
    }
    job = ended(browsed, home, "failed", second, error, published=False, drift=DRIFT, recall={"recall": 0.5})
    page = shown(browsed)
    now = page.text("#now")
    assert "Schedule night" in now
    assert f"Why: index chat@{second} was built but not published: {WHY}" in now
    assert "What helps: the old one goes on serving" in now
    assert f"chat@{first}, published " in now
    made = row_of(page, second)
    assert "refused" in made[0]
    assert f"by nightly, job {job[-6:]}" in made[1]
    assert made[3] == "50 %"
    assert made[4].split("\n") == ["0.013 a reply", "25 % of items have other references"]
    assert f"A check refused it: {WHY}" in page.text("#versions")
    assert page.run("document.querySelectorAll('#versions tr.note').length") == 2  # of the index and of the rater
    assert accessibility_faults(page) == []
    page.look(380)
    assert overflow(page) == []
    page.look(1_280)


def test_hostile_reasons_are_words_and_folders_with_hostile_names_no_artefacts(
    home: Settings, browsed: Browsed
) -> None:
    """Names of artefacts are short words of ASCII everywhere; the reasons of checks are whatever a check wrote."""
    artefacts = artefact_stores(home)["index"]
    first, second = artefacts.versions("chat")
    reason = " ".join(hostile_texts(100))
    strange = [name.replace("/", "|").replace("\0", "") for name in hostile_texts(50)]
    roots = [artefact_stores(home)[kind].folder("chat").parent for kind in ("index", "rater")]
    folders = [root / name for root in [*roots, home.home / "logs"] for name in strange]
    try:
        Publications(published=frozenset({first}), refused={second: reason}).write(artefacts.folder("chat"))
        for folder in folders:
            (folder / "2026-11-20.1").mkdir(parents=True)
        page = shown(browsed)
        notes = "document.querySelector('#versions tr.note .user-text')"
        page.until(f"Boolean({notes})")
        page.run(f"{notes}.querySelector('button').click()")
        words = page.run(f"{notes}.textContent")
        assert [text for text in hostile_texts(100) if text.isprintable() and text not in words] == []
        assert "\\u{202e}gnp.4.exe \\u{2066}left\\u{2069}" in words
        assert "nul\\u{0} bell\\u{7} escape\\u{1b}[31m 7" in words
        assert page.run("[...document.querySelectorAll('#versions h3')].map((node) => node.textContent)") == [
            "Index chat",
            "Rater base",
        ]
        assert page.run(
            "window.hacked === undefined && document.querySelectorAll('main img, main script').length === 0"
        )
        assert overflow(page) == []
        assert page.said == []
    finally:
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
        Publications(published=frozenset({first}), refused={second: WHY}).write(artefacts.folder("chat"))


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (
            {"published": True, "version": "2026-11-20.9", "index": "chat", "ingest": {"pairs_added": 819}},
            "published chat@2026-11-20.9, +819 pairs",
        ),
        ({"published": False, "version": None, "index": "chat", "ingest": {"pairs_added": 0}}, "nothing new"),
        (
            {"published": False, "version": "2026-11-20.9", "index": "chat", "ingest": {"pairs_added": 1}},
            "made, and did not publish, chat@2026-11-20.9, +1 pair",
        ),
    ],
)
def test_a_finished_night_says_what_it_published(
    home: Settings, browsed: Browsed, facts: dict[str, Any], words: str
) -> None:
    job = ended(browsed, home, "done", error=None, **facts)
    lines = shown(browsed).text("#now").split("\n")
    told = next(place for place, line in enumerate(lines) if f"nightly, job {job[-6:]}" in line)
    assert lines[told + 1] == words


def test_a_refused_version_is_published_only_by_its_name(home: Settings, browsed: Browsed) -> None:
    first, second = artefact_stores(home)["index"].versions("chat")
    page = shown(browsed)
    assert "Roll back" not in page.text("#versions")  # nothing was published before
    press(page, "Publish", "#versions")
    page.until("document.querySelector('#question').open")
    assert accessibility_faults(page) == []
    assert WHY in page.text("#question")
    assert page.run("document.querySelector('#question-yes').disabled")
    page.type("#question-typed", first)
    assert page.run("document.querySelector('#question-yes').disabled")
    page.press("Enter", 13)
    assert browsed.server.ask("GET", "/v1/artefacts/index/chat").json()["current"] == first
    page.type("#question-typed", second)
    press(page, "Publish it although a check refused it", "#question")
    page.until("!document.querySelector('#question').open")
    assert browsed.server.ask("GET", "/v1/artefacts/index/chat").json()["current"] == second
    page.until("document.querySelector('#versions').innerText.includes('served before')")
    press(page, "Roll back", "#versions")
    assert f"{first} serves again, instead of {second}" in page.text("#question")
    press(page, "Roll back", "#question")
    page.until("!document.querySelector('#question').open")
    assert browsed.server.ask("GET", "/v1/artefacts/index/chat").json()["current"] == first


def test_a_version_refused_in_this_moment_asks_for_its_name_as_well(home: Settings, browsed: Browsed) -> None:
    artefacts = artefact_stores(home)["rater"]
    first, second = artefacts.versions("base")
    Publications(published=frozenset({first})).write(artefacts.folder("base"))
    page = shown(browsed)
    page.run(f"document.querySelector('[aria-label=\"Publish rater base@{second}\"]').click()")
    artefacts.refuse("base", second, WHY)
    press(page, "Publish it", "#question")
    page.until("document.querySelector('#question-typed')")
    assert WHY in page.text("#question-problem")
    page.type("#question-typed", second)
    press(page, "Publish it although a check refused it", "#question")
    page.until("!document.querySelector('#question').open")
    assert browsed.server.ask("GET", "/v1/artefacts/rater/base").json()["current"] == second
    page.said[:] = [one for one in page.said if "409" not in one]


def test_a_schedule_is_changed_by_its_form_and_shows_its_runs(home: Settings, browsed: Browsed) -> None:
    page = shown(browsed)
    assert "paused" in page.text("#schedules")
    press(page, "Runs", "#schedules")
    page.until("document.querySelector('#schedules .runs li')")
    runs = browsed.server.ask("GET", "/v1/schedules/night").json()["firings"]
    assert page.run("document.querySelectorAll('#schedules .runs li').length") == len(runs) > 0
    press(page, "Change", "#schedules")
    page.until("document.querySelector('#schedule-cron')")
    assert accessibility_faults(page) == []
    assert page.run("document.querySelector('#order-field-limits-recall').value") == "0.9"
    assert page.run("document.querySelector('#schedule-name').readOnly")
    page.until("document.querySelector('#names-index option[value=chat]')")
    page.type("#schedule-cron", "45 3 * * 1")
    page.run("document.querySelector('#order-fields details').open = true")
    page.type("#order-field-limits-mean_absolute", "0.05")
    page.type("#order-field-set", "abcdef12")
    press(page, "Change it", "#order")
    page.until("document.querySelector('#schedules').innerText.includes('45 3 * * 1')")
    changed = browsed.server.ask("GET", "/v1/schedules/night").json()
    assert (changed["cron"], changed["enabled"]) == ("45 3 * * 1", False)
    limits = {name: limit for name, limit in changed["order"]["limits"].items() if limit is not None}
    assert limits == {"recall": 0.9, "mean_absolute": 0.05}
    press(page, "Go on", "#schedules")
    page.until("document.querySelectorAll('#schedules td[data-name=Next] time').length === 3")
