"""A study as a place, in a real browser: ten thousand responses, links to scan, recruits, and keys that look on."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest
from browser import Page
from page_tests import Browsed, accessibility_faults, asking_for_keys, browsing, looks_right, press
from qr_reader import read_modules, read_qr
from sqlalchemy import insert, select
from studied import BOTS, add_bots, opened_study, study_home
from studying import Person

from refaug.core.home import Settings
from refaug.extras.studies.participation.tables import (
    STUDIES,
    STUDY_ANSWERS,
    STUDY_MESSAGES,
    STUDY_PARTICIPANTS,
    STUDY_TASKS,
)
from refaug.service.database.database import Database
from refaug.service.database.row_ids import new_row_id
from refaug.service.database.row_seals import sealed
from refaug.service.keys import KeyStore
from refaug.service.scopes import Scope

pytestmark = [pytest.mark.machine, pytest.mark.slow]
PEOPLE: Final = 2_500
TASKS_EACH: Final = 4
RESPONSES: Final = PEOPLE * TASKS_EACH
FORM: Final = {
    "name": "two",
    "questions": [
        {"id": "quality", "text": "How good was it?", "type": "likert", "least": 1, "most": 7, "ends": ["bad", "good"]},
        {"id": "why", "text": "Why?", "type": "text", "required": False},
    ],
}
CHANGING: Final = {
    "Open it", "Pause it", "Close it", "Make links", "Amend it", "Exclude", "Erase", "Decide", "Copy this study",
}  # fmt: skip
SAID: Final = ("Where can I buy tea?", "At the market.", "And when?", "In the morning, mostly.")


@pytest.fixture(scope="module")
def browsed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browsed]:
    folder = tmp_path_factory.mktemp("place")
    with browsing(study_home(folder), folder, path="/healthz") as found:
        add_bots(found.server)
        yield found


@pytest.fixture(scope="module")
def large(browsed: Browsed) -> str:
    """A study whose ten thousand responses are written into the database as participants' pages would have done."""
    bots = list(BOTS[:2])
    protocol = {"kind": "chat", "bots": bots, "target": 5_000, "per_participant": 4, "form": FORM}
    rules = {"checks": {"attention": 1}, "exclude": {"failed_attention": 1, "seconds_per_turn_below": 2}}
    study = opened_study(browsed, "large", {**protocol, **rules})
    insert_responses(browsed.server.home, study.id)
    first = browsed.server.ask("GET", f"/v1/studies/{study.id}/responses?limit=1")  # reads them all, this once
    assert first.json()["total"] == RESPONSES
    return study.id


def code_of(number: int) -> str:
    return f"P-{number:06d}"


def insert_responses(home: Path, study: str) -> None:
    """Everybody does four tasks; every tenth is hasty, every twentieth inattentive, and every task a minute later."""
    people, tasks, messages, answers = (list[dict[str, Any]]() for _ in range(4))
    with closing(Database.open(Settings(home=home))) as database:
        with database.reading() as connection:
            row = connection.execute(select(STUDIES).where(STUDIES.c.id == study)).one()
        for number in range(PEOPLE):
            person, at = new_row_id(), f"2026-11-{1 + number % 28:02d}T10:00:00.000000Z"
            people.append({
                "id": person, "study": study, "code": code_of(number), "language": "en", "state": "done", "seed": 1,
                "active_ms": 600_000, "created": at, "seen": at, "answered": at, "ended": at, "position": TASKS_EACH,
            })  # fmt: skip
            for place in range(1, TASKS_EACH + 1):
                task, when = new_row_id(), f"2026-11-{1 + number % 28:02d}T10:{place:02d}:00.000000Z"
                tasks.append({
                    "id": task, "study": study, "participant": person, "number": place, "slot_a": place % 2,
                    "state": "done", "protocol_sha256": row.protocol_sha256, "is_pilot": False, "seed": 1,
                    "reserved_until": when, "active_ms": 1_000 if number % 10 == 9 else 90_000, "started": at,
                    "ended": when, "attention": "red" if place == 1 else None,
                })  # fmt: skip
                messages += [
                    sealed(
                        STUDY_MESSAGES,
                        {
                            "task": task,
                            "side": "one",
                            "n": n,
                            "role": "participant" if n % 2 else "bot",
                            "state": "answered",
                            "text": text,
                            "at": when,
                            "vote": 1 if n == 2 else None,
                            "ms": None if n % 2 else 700.0,
                        },
                    )
                    for n, text in enumerate(SAID, 1)
                ]
                given = {"quality": 1 + (number + place) % 7}
                given |= {"why": f"It knew where, {number}."} if number % 50 == 0 and place == 2 else {}
                given |= {"attention": "blue" if number % 20 == 0 else "red"} if place == 1 else {}
                answers += [
                    sealed(
                        STUDY_ANSWERS,
                        {
                            "task": task,
                            "side": "",
                            "turn": 0,
                            "question": name,
                            "answer": json.dumps(answer),
                            "at": when,
                        },
                    )
                    for name, answer in given.items()
                ]
        with database.writing() as connection:
            for table, rows in (
                (STUDY_PARTICIPANTS, people),
                (STUDY_TASKS, tasks),
                (STUDY_MESSAGES, messages),
                (STUDY_ANSWERS, answers),
            ):
                connection.execute(insert(table), rows)


def show(browsed: Browsed, study: str, tab: str = "") -> Page:
    """Open a tab of a study."""
    page = browsed.page
    page.look(1_280)
    page.said.clear()
    page.go(f"{browsed.address}/healthz")
    page.go(f"{browsed.address}/studies#study={study}{tab and f'&tab={tab}'}")
    page.until("document.querySelector('[role=tabpanel]:not([hidden])')?.childElementCount")
    return page


def picture(page: Page, name: str) -> None:
    """Keep pictures where the environment names a folder for them."""
    if folder := os.environ.get("PICTURES_OF_STUDIES"):
        for width, scheme in ((1_440, "light"), (390, "dark")):
            page.look(width, scheme=scheme)
            (Path(folder) / f"{name}-{width}-{scheme}.png").write_bytes(page.picture(whole=True))
        page.look(1_280)


def total(page: Page, words: str) -> None:
    page.until(f"document.querySelector('#responses-total').innerText.startsWith({json.dumps(words)})")


def choose(page: Page, selector: str, value: str) -> None:
    page.run(
        f"((node) => {{ node.value = {json.dumps(value)};"
        " for (const type of ['input', 'change']) node.dispatchEvent(new Event(type, {bubbles: true}));"
        f" }})(document.querySelector({json.dumps(selector)}))"
    )


def test_ten_thousand_responses_are_looked_through_by_flag_score_and_key(browsed: Browsed, large: str) -> None:
    page = show(browsed, large, "responses")
    total(page, "10,000 responses")
    assert page.run("document.querySelectorAll('#responses [role=row], #responses tr').length") <= 100
    looks_right(page)
    picture(page, "responses")

    choose(page, "#response-flag", "wrong_attention")
    total(page, "125 responses")  # every twentieth of 2,500 people, in one task
    choose(page, "#response-flag", "seconds_per_turn_below")
    total(page, "1,000 responses")
    choose(page, "#response-bot", BOTS[0])
    total(page, "500 responses")
    choose(page, "#response-low", "7")
    choose(page, "#response-flag", "")
    listed = browsed.server.ask("GET", f"/v1/studies/{large}/responses?bot={BOTS[0]}&question=quality&low=7").json()
    total(page, f"{listed['total']:,} responses")
    assert {row["scores"]["quality"] for row in listed["responses"]} == {7.0}
    choose(page, "#response-low", "")
    choose(page, "#response-bot", "")
    choose(page, "#response-flag", "commented")
    total(page, "50 responses")

    page.run("document.querySelector('#responses .grid').focus()")
    page.press("ArrowDown", 40)
    page.press("Enter", 13)
    page.until("document.querySelector('#response-dialog[open] .turn')")
    first = page.text("#response-title")
    shown = page.text("#response-dialog")
    for words in (*SAID, "▲ good", "How good was it?", "of 1 to 7, bad to good", "It knew where,"):
        assert words in shown, words
    assert accessibility_faults(page) == []
    picture(page, "response")
    page.press("ArrowRight", 39)
    page.until(f"document.querySelector('#response-title')?.innerText !== {json.dumps(first)}")
    page.press("ArrowLeft", 37)
    page.until(f"document.querySelector('#response-title')?.innerText === {json.dumps(first)}")
    press(page, "Close", "#response-dialog")
    page.until("!document.querySelector('#response-dialog').open")
    assert page.said == []


def test_every_tab_of_a_large_study_looks_right(browsed: Browsed, large: str) -> None:
    for tab, there in (
        ("", "#people tbody tr"), ("links", "#invites table"), ("report", "#report-title"), ("protocol", "#copy-study"),
    ):  # fmt: skip
        page = show(browsed, large, tab)
        page.until(f"document.querySelector('{there}')")
        assert page.run("document.querySelectorAll('main tr').length") <= 100
        looks_right(page)
        picture(page, tab or "overview")
        assert page.said == []
    assert page.run("document.querySelector('#copy-study').hash") == f"#new=copy:{large}"
    assert (
        page.run("[...document.querySelectorAll('main textarea')].some((one) => one.value.trimStart()[0] === '{')")
        is False
    )


def test_what_a_participant_did_is_read_from_the_list_of_people(browsed: Browsed, large: str) -> None:
    page = show(browsed, large)
    page.until("document.querySelectorAll('#people tbody tr').length === 20")
    assert page.text("#people tbody th") == code_of(0)
    press(page, "Next", "#people")
    page.until(f"document.querySelector('#people tbody th').innerText === {json.dumps(code_of(20))}")
    page.run("document.querySelector('#people tbody th a').click()")
    page.until("document.querySelector('#panel-responses:not([hidden]) #responses-total')")
    total(page, "4 responses")
    assert page.run("document.querySelector('#response-participant').value") == code_of(20)
    assert page.run("document.querySelector('#keep-participant').hidden") is False
    assert page.said == []


def test_links_are_copied_scanned_and_kept_and_recruits_are_sorted(browsed: Browsed) -> None:
    study = opened_study(browsed, "links", {"kind": "chat", "bots": list(BOTS[:2]), "form": FORM, "per_participant": 1})
    page = show(browsed, study.id, "links")
    choose(page, "#invite-count", "2")
    choose(page, "#invite-uses", "1")
    assert "one person" in page.text("#link-reach")
    press(page, "Make links")
    links = page.until(
        "((links) => links.length === 2 && links)([...document.querySelectorAll('#new-links .link')]"
        ".map((one) => one.textContent))"
    )
    page.run("[...document.querySelectorAll('#new-links button')].find((one) => one.textContent === 'QR code').click()")
    page.until("document.querySelector('.qr')")
    assert accessibility_faults(page) == []
    path = page.run("document.querySelector('.qr path').getAttribute('d')")
    assert read_qr(path, int(page.run("document.querySelector('.qr').viewBox.baseVal.width"))) == links[0]
    picture(page, "qr")
    press(page, "Close", ".qr-dialog")

    token = study.link.partition("#")[2]
    done, gone = Person(browsed.server.client), Person(browsed.server.client)
    done.enter(token, external={"PROLIFIC_PID": "ann"})
    done.agree()
    done.chat(3, quality=4)
    gone.enter(token, external={"PROLIFIC_PID": "bob"})
    gone.agree()
    choose(page, "#recruit-ids", "ann\nbob\ncy")
    choose(page, "#recruit-bonus", "0.50")
    press(page, "Sort them")
    page.until("document.querySelector('[data-decision=unknown] li')")
    groups = page.run(
        "Object.fromEntries([...document.querySelectorAll('.group')].map((group) => [group.dataset.decision,"
        " [...group.querySelectorAll('li code')].map((one) => one.innerText)]))"
    )
    nobody: dict[str, list[str]] = {"look": [], "return": [], "screened_out": []}
    assert groups == {"approve": ["ann"], "at_it": ["bob"], "unknown": ["cy"], **nobody}
    assert page.run("document.querySelector('[data-decision=at_it] button')") is None
    assert "1 person, 0.50" in page.text("#bonuses")
    looks_right(page)
    picture(page, "links-new")
    assert page.said == []


def test_codes_of_every_length_are_read_by_a_reader_of_the_standard(browsed: Browsed) -> None:
    page = browsed.page
    page.go(f"{browsed.address}/studies")
    page.until("document.querySelector('#list:not([aria-busy])')")
    script = page.run("document.querySelector('script[type=module]').src.replace('studies.js', 'qr.js')")
    texts = [("https://lab.example/take#é" * 9)[:length] for length in (14, 20, 40, 60, 80, 100, 115, 140, 165, 200)]
    versions = set[int]()
    for text in texts:
        call = f"import({json.dumps(script)}).then((made) => JSON.stringify(made.qrModules({json.dumps(text)})))"
        modules = json.loads(page.run(call))
        versions.add((len(modules) - 17) // 4)
        assert read_modules(modules) == text
    assert versions == set(range(1, 11))
    assert page.run(f"import({json.dumps(script)}).then((made) => made.qrModules('x'.repeat(214)))") is None
    # the example of ISO/IEC 18004, annex I: version 1, correction M
    data = [0x10, 0x20, 0x0C, 0x56, 0x61, 0x80, *[0xEC, 0x11] * 5]
    checks = page.run(f"import({json.dumps(script)}).then((made) => made.correction({data}, 10))")
    assert bytes(checks).hex() == "a524d4c1ed36c7872c55"


def test_a_reversed_question_is_shown_and_decided_as_it_was_answered(browsed: Browsed) -> None:
    scale = {"id": "odd", "text": "How odd?", "type": "slider", "least": 0, "most": 1, "reverse": True}
    items = [{"id": "a", "turns": ["Hello?"], "replies": {"zebra": "Yes."}}]
    protocol = {"kind": "rate-reply", "form": {"name": "odd", "questions": [scale]}, "ratings_per_item": 2}
    study = opened_study(browsed, "reversed", {**protocol, "per_participant": 1}, items=items)
    for answer in (0.37, 0.2):
        person = Person(browsed.server.client)
        person.enter(study.link.partition("#")[2])
        person.agree()
        task = person.done("tasks/next")["task"]
        person.done(f"tasks/{task['id']}/answers", {"answers": {"odd": answer}})
        person.done(f"tasks/{task['id']}/finish")
    page = show(browsed, study.id, "responses")
    total(page, "2 responses")
    page.until("document.querySelector('#responses').innerText.includes('0.37')")
    choose(page, "#response-low", "0.3")  # as it was answered: the scores of the service are turned
    total(page, "1 response")
    page.run("document.querySelector('#responses .grid').focus()")
    page.press("ArrowDown", 40)
    page.press("Enter", 13)
    page.until("document.querySelector('#response-dialog[open] .decide')")
    assert "Others: 0.2 by P-" in page.run("document.querySelector('#response-dialog .answer').textContent")
    path = f"/v1/studies/{study.id}/disagreements"

    def decided() -> Any:
        return browsed.server.ask("GET", path).json()["items"][0]["adjudicated"]

    press(page, "Decide", "#response-dialog")  # nothing is typed: nothing is decided
    assert page.run("document.querySelector('.decide input').validity.valueMissing") is True
    page.run("document.querySelector('.decide').noValidate = true")
    press(page, "Decide", "#response-dialog")
    page.until("document.querySelector('#response-dialog [role=status]').innerText === 'Say what counts first.'")
    assert decided() is None
    choose(page, ".decide input", "0.3")
    press(page, "Decide", "#response-dialog")
    page.until("document.querySelector('#response-dialog [role=status]').innerText === 'decided: 0.3'")
    assert decided()["value"] == 0.3
    press(page, "Close", "#response-dialog")
    assert page.said == []


def test_a_key_that_reads_sees_every_tab_and_no_button_that_changes(browsed: Browsed, tmp_path: Path) -> None:
    home = study_home(tmp_path)
    with closing(Database.open(Settings(home=home))) as database:
        keys = {
            scope: str(KeyStore(database).create(scope.value, [scope])[0]) for scope in (Scope.STUDY, Scope.STUDY_READ)
        }
    with asking_for_keys(browsed, Settings(home=home), "/healthz") as keyed:
        form = {"name": "one", "questions": [FORM["questions"][0]]}
        protocol = {"kind": "rate-reply", "form": form, "consent": "You rate replies.", "ratings_per_item": 1}
        items = [{"id": "a", "turns": ["Hello?"], "replies": {"zebra": "Yes."}}]

        def ask(scope: Scope, method: str, path: str, body: Any = None) -> Any:
            return keyed.client.request(method, path, json=body, headers={"X-API-Key": keys[scope]})

        made = ask(Scope.STUDY, "POST", "/v1/studies", {"name": "read", "protocol": protocol, "items": items}).json()
        assert ask(Scope.STUDY, "POST", "/v1/studies/read/open").status_code == 200
        refused = ask(Scope.STUDY_READ, "POST", "/v1/studies/read/close")
        assert (refused.status_code, refused.json()["detail"]) == (
            403,
            "key study-read allows study-read, and this needs study",
        )
        page = keyed.page
        page.run(f"sessionStorage.setItem('refaug.key', {json.dumps(keys[Scope.STUDY_READ])})")
        for tab in ("overview", "links", "responses", "report", "protocol"):
            page.go(f"{keyed.address}/healthz")
            page.go(f"{keyed.address}/studies#study={made['id']}&tab={tab}")
            page.until(f"document.querySelector('#panel-{tab}:not([hidden]) h2')")
            shown = page.run("[...document.querySelectorAll('main button, main a')].map((one) => one.textContent)")
            assert CHANGING & set(shown) == set(), tab
        assert page.said == []
