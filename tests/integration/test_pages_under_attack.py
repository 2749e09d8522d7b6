"""The pages in a real browser under what befalls them: hostile texts, odd files, two tabs, no network, few scopes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from page_tests import (
    Browsed,
    accessibility_faults,
    asking_for_keys,
    browsing,
    choose_files,
    hostile_texts,
    overflow,
    press,
    wait_until_quiet,
)
from serving import small_home, small_items

from refaug.core.home import Settings
from refaug.service.database.database import Database
from refaug.service.evaluations.evaluation_store import EvaluationStore
from refaug.service.jobs.store import JobStore
from refaug.service.keys import KeyStore
from refaug.service.scopes import Scope
from refaug.service.server_settings import ServeSettings

pytestmark = [pytest.mark.machine, pytest.mark.slow]
ROWS = "[...document.querySelectorAll('.grid-space > .grid-row')]"
LONG = "w" * 100_000
HOSTILE = [LONG + text if number % 100 == 50 else text for number, text in enumerate(hostile_texts(1_000))]
INVISIBLE = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b-\u200c\u200e-\u200f\u2028-\u202f\u2060-\u206f\ufeff]"
)
UNHARMED = "window.hacked === undefined && document.querySelectorAll('main img, main script, main b i').length === 0"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return small_home(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def browsed(home: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browsed]:
    with browsing(home.home, tmp_path_factory.mktemp("browser"), path="/service") as running:
        yield running


@pytest.fixture
def page(browsed: Browsed) -> Iterator[Any]:
    """The page Evaluate with no file chosen, which asks no other host; a test takes away the errors that it means."""
    page = browsed.page
    page.look(1_280)
    go(browsed, page, "/evaluate")
    page.said.clear()
    page.asked.clear()
    yield page
    assert page.said == []
    assert [url for url in page.asked if not url.startswith((browsed.address, "data:", "blob:"))] == []


def go(browsed: Browsed, page: Any, path: str) -> None:
    page.go(f"{browsed.address}/healthz")
    page.go(f"{browsed.address}{path}")
    wait_until_quiet(page)


def written(text: str) -> str:
    """The text as pages show it: what cannot be seen stands there by its number."""
    return INVISIBLE.sub(lambda sign: f"\\u{{{ord(sign[0]):x}}}", text)


def evaluated(browsed: Browsed, items: Sequence[dict[str, Any]]) -> str:
    """Evaluate items by the API, with one cheap metric; the id."""
    content = "".join(f"{json.dumps(item)}\n" for item in items).encode()
    sent = {"content": content, "headers": {"Content-Type": "application/octet-stream"}}
    upload = browsed.server.ask("POST", "/v1/uploads", params={"name": HOSTILE[1] + ".jsonl"}, **sent).json()
    order = {"kind": "score", "items": f"upload:{upload['id']}", "metrics": ["bleu"], "draws": 0}
    evaluation = str(browsed.server.ask("POST", "/v1/evaluations", json=order).json()["id"])
    assert browsed.server.ended(evaluation)["state"] == "done"
    return evaluation


# ── texts ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_thousand_hostile_replies_are_words_in_the_table(browsed: Browsed, page: Any) -> None:
    items = small_items(1_000, systems=(HOSTILE[0],))
    for item, text in zip(items, HOSTILE, strict=True):
        item["replies"] = {HOSTILE[0]: text}
    evaluation = evaluated(browsed, items)
    page.go(f"{browsed.address}/evaluate#e={evaluation}")
    page.until(f"{ROWS}.length > 10")
    assert page.run("document.querySelector('.grid').getAttribute('aria-rowcount')") == "1001"
    seen = dict[int, str]()
    texts = "[+row.dataset.place, row.children[2].textContent]"
    read = f"{ROWS}.filter((row) => row.children[2].textContent.length > 1).map((row) => {texts})"
    for top in range(0, 44 * 1_001, 440):
        page.run(f"document.querySelector('.grid').scrollTop = {top}")
        first = top // 44  # rows out of sight are drawn some frames later than those in sight
        read_rows = f"{ROWS}.filter((row) => row.children[2].textContent.length > 1).map((row) => +row.dataset.place)"
        places = json.dumps(list(range(first, min(1_000, first + 10))))
        page.until(f"((drawn) => {places}.every((place) => drawn.includes(place)))({read_rows})")
        seen.update(page.run(read))
    asked = browsed.server.ask("GET", f"/v1/evaluations/{evaluation}/replies", params={"limit": 1}).json()["replies"][0]
    assert asked["reply"] == HOSTILE[0]
    assert sorted(seen) == list(range(1_000))
    # A list shows the beginning of what is very long, the reply in full shows all of it.
    assert [place for place in seen if not written(HOSTILE[place]).startswith(seen[place].rstrip("…"))] == []
    assert page.run(UNHARMED)
    assert overflow(page) == []
    page.said[:] = []


def test_a_thousand_hostile_lines_are_words_in_the_logs_of_jobs(home: Settings, browsed: Browsed, page: Any) -> None:
    database = Database.open(home)
    store = JobStore(database)
    jobs = [
        store.enqueue("gc", {"kind": "gc", "artefact": "vectors", "name": "none"}, [f"vectors/none-{number}"]).id
        for number in range(5)
    ]
    for job in jobs:
        browsed.server.ended(job)
    parts = [HOSTILE[begin : begin + 200] for begin in range(0, 1_000, 200)]
    with database.writing() as connection:
        for job, texts in zip(jobs, parts, strict=True):
            last = connection.exec_driver_sql("SELECT max(number) FROM job_events WHERE job = ?", (job,)).scalar_one()
            rows = [
                (job, last + 1 + number, "2026-11-20T07:00:00+00:00", "note", json.dumps({"message": text}))
                for number, text in enumerate(texts)
            ]
            columns = "job_events (job, number, at, type, data)"
            connection.exec_driver_sql(f"INSERT INTO {columns} VALUES (?, ?, ?, ?, ?)", rows)
            error = json.dumps({"code": "x", "message": texts[50], "remedy": texts[1], "exit_code": 1})
            change = "UPDATE jobs SET state = 'failed', error = ?, requested_by = ?, result = ? WHERE id = ?"
            connection.exec_driver_sql(change, (error, texts[4], json.dumps({"name": texts[4]}), job))
    database.close()
    go(browsed, page, "/service")
    for job, texts in zip(jobs, parts, strict=True):
        page.run(f"location.hash = 'job={job}'")
        page.until(f"document.querySelector('#job .log')?.textContent.includes({json.dumps(written(texts[-1]))})")
        lines = page.run(
            "[...document.querySelectorAll('#job .log li .user-text')].map((node) => node.firstChild.data)"
        )
        assert lines == [written(text)[:2_000] for text in texts]
        assert "\u202e" not in page.run("document.querySelector('main').textContent")
        assert page.run(UNHARMED)
        assert overflow(page) == []
    assert accessibility_faults(page) == []


def shown_texts(page: Any, selector: str) -> set[str]:
    """Return what elements of users' texts show, each cut where the page cuts it."""
    found = f"[...document.querySelectorAll({json.dumps(selector)})].map((node) => node.firstChild?.data ?? '')"
    return set(page.run(found))


def beginnings(names: Sequence[str]) -> set[str]:
    """Return how pages show names: a very long one is cut, with a button that shows the rest."""
    return {written(name)[:2_000] for name in names}


def is_unharmed(page: Any) -> bool:
    """Say whether nothing of the texts became more than words, and no sign is there that cannot be seen."""
    shown = page.run("document.querySelector('main').textContent").replace("\n", "")
    return page.run(UNHARMED) and not INVISIBLE.search(shown) and overflow(page) == []


@pytest.mark.parametrize("begin", [0, 240])
def test_hostile_names_of_jobs_and_schedules_are_words(home: Settings, browsed: Browsed, page: Any, begin: int) -> None:
    """No route takes such names of schedules and artefacts: they stand in the database as after a fault of ours."""
    names, schedules = HOSTILE[begin : begin + 190], HOSTILE[begin + 190 : begin + 240]
    database, at = Database.open(home), "2026-11-20T07:00:00+00:00"
    order = json.dumps({"kind": "gc", "artefact": "vectors", "name": "none"})
    jobs = [
        (f"{number:026d}", order, json.dumps([name]), None if number % 2 else name, name if number % 2 else None)
        for number, name in enumerate(names)
    ]
    with database.writing() as connection:
        connection.exec_driver_sql(
            'INSERT INTO jobs (id, kind, "order", resources, state, created, finished, requested_by, schedule)'
            f" VALUES (?, 'gc', ?, ?, 'done', '2030-01-01T00:00:00+00:00', '{at}', ?, ?)",
            jobs,
        )
        connection.exec_driver_sql(
            'INSERT INTO schedules (name, cron, timezone, "order", enabled, created, updated, begun)'
            f" VALUES (?, '0 0 1 1 *', 'UTC', ?, false, '{at}', '{at}', '{at}')",
            [(name, order) for name in schedules],
        )
    try:
        go(browsed, page, "/service")
        page.until("document.querySelector('#jobs-more').checkVisibility()")
        page.click("#jobs-more")
        page.until("document.querySelectorAll('#jobs tbody tr').length >= 190")
        assert beginnings(names) <= shown_texts(page, "#jobs tbody td[data-name=What] .user-text")
        assert beginnings(names) <= shown_texts(page, "#jobs tbody td[data-name='Asked for'] .user-text")
        assert beginnings(schedules) <= shown_texts(page, "#schedules tbody th .user-text")
        assert is_unharmed(page)
        page.run("document.querySelector('#palette-button').click()")
        page.until("document.querySelector('#palette')?.open")
        page.type("#palette-input", "job")
        page.until("document.querySelectorAll('#palette-list li').length > 5")
        assert page.run(UNHARMED)
        page.run("document.querySelector('#palette').close()")
    finally:
        with database.writing() as connection:
            connection.exec_driver_sql("DELETE FROM jobs WHERE created = '2030-01-01T00:00:00+00:00'")
            connection.exec_driver_sql("DELETE FROM schedules WHERE cron = '0 0 1 1 *'")
        database.close()
    # The last runs of such a schedule are refused, since no schedule can have its name.
    page.said[:] = [line for line in page.said if "status of 422" not in line and "status of 404" not in line]


def test_hostile_names_of_keys_are_words(home: Settings, browsed: Browsed, page: Any) -> None:
    names, at = HOSTILE[480:680], "2026-11-20T07:00:00+00:00"
    database = Database.open(home)
    with database.writing() as connection:
        connection.exec_driver_sql(
            f"INSERT INTO keys (id, name, hash, scopes, created) VALUES (?, ?, ?, 'read', '{at}')",
            [(f"hostile{number:04d}", name, f"hash{number}") for number, name in enumerate(names)],
        )
    try:
        go(browsed, page, "/keys")
        page.until("document.querySelectorAll('#keys tbody tr').length >= 200")
        assert beginnings(names) <= shown_texts(page, "#keys tbody th .user-text")
        assert is_unharmed(page)
    finally:
        with database.writing() as connection:
            connection.exec_driver_sql("DELETE FROM keys WHERE id LIKE 'hostile%'")
        database.close()


def test_hostile_names_of_systems_are_words(browsed: Browsed, page: Any) -> None:
    """What cannot be printed is not a name of a system: the preview says so at its row."""
    names = [text for text in HOSTILE[680:900] if text.isprintable() and len(text) <= 200]
    items = small_items(2, systems=())
    for item in items:
        item["replies"] = {name: f"at the shop {number}" for number, name in enumerate(names)}
    evaluation = evaluated(browsed, items)
    page.go(f"{browsed.address}/evaluate#e={evaluation}")
    page.until("document.querySelector('#systems-table') && document.querySelector('#replies-section')")
    assert len(names) > 120
    assert beginnings(names) <= shown_texts(page, "#systems-table tbody th .user-text")
    assert is_unharmed(page)
    page.run(f"{ROWS}[0].click()")
    page.until(
        "document.querySelector('#reply-dialog')?.open && document.querySelector('#reply-dialog strong .user-text')"
    )
    shown = shown_texts(page, "#reply-dialog dl .user-text")
    assert len(beginnings(names) & shown) > 10
    assert page.run(UNHARMED)


def test_hostile_names_of_evaluations_and_their_files_and_owners_are_words(
    home: Settings, browsed: Browsed, page: Any
) -> None:
    names = HOSTILE[900:]
    store = EvaluationStore(home, ServeSettings())
    ids = [f"{number:026d}" for number in range(len(names))]
    for number, (evaluation, name) in enumerate(zip(ids, names, strict=True)):
        named = {"name": "", "files": [name]} if number % 2 else {"name": name, "files": ["items.jsonl"]}
        store.add(
            evaluation,
            kind="score",
            owner=names[-1 - number],
            counts={"items": 1, "replies": 1},
            write=lambda folder: None,
            **named,
        )
    try:
        go(browsed, page, "/evaluate")
        page.until("document.querySelectorAll('#list tbody tr').length >= 100")
        assert beginnings(names) <= shown_texts(page, "#list tbody th .user-text")
        assert beginnings(names) <= shown_texts(page, "#list tbody td[data-name='Asked for'] .user-text")
        assert is_unharmed(page)
    finally:
        for evaluation in ids:
            store.remove(evaluation)


# ── files ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("columns.csv", ",".join(f"c{n}" for n in range(1_000_000)).encode() + b"\n1,2\n", "columns"),
        ("wide.csv", "utterance,reference,reply\nfrage,h\u00f6r,gr\u00fc\u00df\n".encode("utf-16-be")[1:], ""),
        ("zeros.jsonl", b"\0" * 1_000_000, ""),
    ],
    ids=["a million columns", "half an encoding", "only NUL"],
)
def test_files_that_are_no_tables_are_refused_in_words(
    page: Any, tmp_path: Path, name: str, content: bytes, words: str
) -> None:
    (tmp_path / name).write_bytes(content)
    choose_files(page, tmp_path / name)
    page.until(
        "document.querySelector('#new-box .notice.bad')?.innerText.length > 20"
        " || document.querySelector('#preview .warn')"
    )
    assert words in page.text("#new-box")
    assert page.run("document.querySelector('#score-form').hidden")
    assert accessibility_faults(page) == []
    assert overflow(page) == []
    page.said[:] = [line for line in page.said if "Failed to load resource" not in line]


def test_a_file_in_an_old_encoding_is_read_or_said_to_be_one(page: Any, tmp_path: Path) -> None:
    table = "utterance,reference,reply\n" + "Wo ist das Caf\u00e9?,Gegen\u00fcber der Br\u00fccke.,Dr\u00fcben.\n" * 3
    (tmp_path / "old.csv").write_bytes(table.encode("cp1252"))
    choose_files(page, tmp_path / "old.csv")
    page.until("document.querySelector('#preview .items') || document.querySelector('#new-box .notice.bad')")
    shown = page.text("#new-box")
    assert "Br\u00fccke" in shown or "encoding" in shown.lower() or "UTF-8" in shown
    page.said[:] = [line for line in page.said if "Failed to load resource" not in line]


def test_a_row_without_a_gold_is_named_and_the_rest_goes_on(browsed: Browsed, page: Any, tmp_path: Path) -> None:
    items = small_items(6)
    items[3]["references"] = []
    lines = [json.dumps(item) for item in items]
    lines[5] = lines[5].replace('"replies": {', '"replies": {"": "no name", ')
    (tmp_path / "some.jsonl").write_text("\n".join(lines), "utf-8")
    choose_files(page, tmp_path / "some.jsonl")
    page.until("document.querySelector('#start-button') && document.querySelector('#preview table')")
    assert "some.jsonl" in page.text("#preview table")
    page.run("document.querySelector('#start-button').click()")
    page.until("document.querySelector('#systems-table') && document.querySelector('#replies-section')")
    shown = page.text("#evaluation-view")
    assert "5 items, 10 replies" in shown
    assert "1 bad row" in shown
    evaluation = page.run("location.hash.slice(3, 29)")
    summary = browsed.server.ask("GET", f"/v1/evaluations/{evaluation}").json()["summary"]
    assert [(row["scored"], row["unscored_by_reason"]) for row in summary["metrics"][0]["systems"]] == [
        (4, {"no_gold": 1})
    ] * 2
    page.until(f"{ROWS}.some((row) => row.innerText.includes('d3'))")
    page.run(f"{ROWS}.find((row) => row.innerText.includes('d3')).click()")
    page.until("document.querySelector('#reply-dialog .warn')")
    assert "gold" in page.text("#reply-dialog .warn")
    assert accessibility_faults(page) == []


def test_two_hundred_megabytes_are_sent_and_read_or_refused_in_words(page: Any, tmp_path: Path) -> None:
    block = "".join(f"{json.dumps(item)}\n" for item in small_items(2_000)).encode()
    for name, size in (("fits.jsonl", 190 << 20), ("large.jsonl", 201 << 20)):
        with (tmp_path / name).open("wb") as file:
            for _ in range(size // len(block)):
                file.write(block)
    choose_files(page, tmp_path / "fits.jsonl")
    page.until("document.querySelector('#preview')?.innerText.includes('so far')")
    assert page.run("!document.querySelector('#score-form').hidden")
    with (tmp_path / "large.jsonl").open("ab") as file:
        file.truncate(201 << 20)
    choose_files(page, tmp_path / "large.jsonl")
    page.until("document.querySelector('#upload-problem .notice.bad')")
    assert "200" in page.text("#upload-problem")
    assert "large.jsonl was not taken" in page.text("#upload-state")
    assert page.run("!document.querySelector('#score-form').hidden"), "the first file stays chosen"
    page.said[:] = [line for line in page.said if "Failed to load resource" not in line]


# ── tabs and connections ──────────────────────────────────────────────────────────────────────────────────────────────


def test_two_tabs_see_what_the_other_does(browsed: Browsed, page: Any, tmp_path: Path) -> None:
    (tmp_path / "two.jsonl").write_text("".join(f"{json.dumps(item)}\n" for item in small_items(30)), "utf-8")
    other = page.other_tab(f"{browsed.address}/service")
    wait_until_quiet(other)
    browsed.server.kill("jobs")  # so that the job waits while both tabs are at it
    choose_files(page, tmp_path / "two.jsonl")
    page.until("document.querySelector('#start-button')")
    page.run("document.querySelector('#start-button').click()")
    page.until("location.hash.startsWith('#e=')")
    evaluation = page.run("location.hash.slice(3, 29)")
    other.run(f"location.hash = 'job={evaluation}'")
    other.until("document.querySelector('#job').innerText.includes('done')")
    page.until("document.querySelector('#systems-table')")
    third = other.other_tab(f"{browsed.address}/evaluate#e={evaluation}&reply=2")
    third.until("document.querySelector('#note-text')")
    third.type("#note-text", "seen in another tab")
    press(third, "Keep the note", "#reply-dialog")
    third.until("document.querySelector('#note-form').innerText.includes('is kept')")
    page.run(f"location.hash = 'e={evaluation}&reply=2'")
    page.go(f"{browsed.address}/healthz")
    page.go(f"{browsed.address}/evaluate#e={evaluation}&reply=2")
    page.until("document.querySelector('#note-text')?.value === 'seen in another tab'")
    assert other.said == []
    assert third.said == []
    for tab in (other, third):
        tab.tell("Page.close")


@pytest.mark.parametrize("path", ["/evaluate", "/service"])
def test_a_lost_connection_is_said_and_the_page_goes_on(browsed: Browsed, page: Any, path: str) -> None:
    evaluation = evaluated(browsed, small_items(20))
    go(browsed, page, path)
    conditions = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    page.tell("Network.emulateNetworkConditions", offline=True, **conditions)
    try:
        page.run(f"location.hash = '{'e' if path == '/evaluate' else 'job'}={evaluation}'")
        page.until("!document.querySelector('#connection').hidden")
        assert len(page.text("#connection")) > 20
        assert accessibility_faults(page) == []
    finally:
        page.tell("Network.emulateNetworkConditions", offline=False, **conditions)
    page.until("document.querySelector('#connection').hidden")
    shown = "#systems-table" if path == "/evaluate" else "#job .badge.good"
    page.until(f"document.querySelector('{shown}')")
    page.said[:] = [line for line in page.said if "Failed to load resource" not in line]


# ── keys ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("scope", [Scope.READ, Scope.SCORE])
def test_a_key_with_one_scope_sees_what_it_may_on_every_page(browsed: Browsed, tmp_path: Path, scope: Scope) -> None:
    home = small_home(tmp_path)
    database = Database.open(home)
    token = str(KeyStore(database).create("narrow", [scope])[0])
    database.close()
    with asking_for_keys(browsed, home, "/service") as keyed:
        page = keyed.page
        page.run("document.querySelector('#key-button').click()")
        page.type("#key-input", token)
        page.run("document.querySelector('#key-form button[value=use]').click()")
        wait_until_quiet(page)
        page.said.clear()
        for path in ("/service", "/evaluate", "/bots", "/keys", "/"):
            page.go(f"{keyed.address}{path}")
            wait_until_quiet(page)
            page.until("document.querySelector('main').innerText.length > 100")
            if path == "/service":
                assert page.run("document.querySelector('#new-job').disabled")
                assert page.run(
                    "![...document.querySelectorAll('#versions button')].some((one) => one.textContent === 'Publish')"
                )
                assert ("chat@" in page.text("#now")) == (scope is Scope.READ)
            if (path in ("/evaluate", "/") and scope is Scope.READ) or (path == "/service" and scope is Scope.SCORE):
                page.until("/needs? .*(score|read)/.test(document.querySelector('main').innerText)")
            assert accessibility_faults(page) == []
        assert [line for line in page.said if "403" not in line] == []
