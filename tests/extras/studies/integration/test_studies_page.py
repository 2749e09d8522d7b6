"""The operators' pages of studies in a real browser: from a draft by form to links, progress, people and the end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import Page
from page_tests import Browsed, accessibility_faults, asking_for_keys, browsing, looks_right, press
from studied import BOTS, add_bots, agree, opened_study, press_button, press_key, say, study_home
from study_tasks import protocol, study_task
from studying import Person, new_study

from refaug.core.home import Settings
from refaug.extras.studies.report.numbers import study_report
from refaug.service.bots.bot_store import BotStore
from refaug.service.database.database import Database
from refaug.service.keys import KeyStore
from refaug.service.scopes import Scope

pytestmark = [pytest.mark.machine, pytest.mark.slow]
HOSTILE = "<img src=x onerror='window.hacked = true'> \u202egnp.exe"
ITEMS = [
    {"id": f"r{n}", "turns": [f"Question {n}?"], "replies": {"zebra": f"Yes {n}.", "quokka": f"No {n}."}}
    for n in (1, 2)
]

FORMS = {
    "chat": "chat-quality-5",
    "chat-pair": "prefer-dialogue-4",
    "rate-dialogue": "chat-quality-5",
    "pair-dialogue": "prefer-dialogue-4",
    "pair-reply": "prefer-reply-4",
    "rate-reply": "reply-overall",
    "rate-reference": "reply-appropriateness",
}


@pytest.fixture(scope="module")
def browsed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browsed]:
    folder = tmp_path_factory.mktemp("studies")
    with browsing(study_home(folder), folder, path="/healthz") as found:
        add_bots(found.server)
        yield found


@pytest.fixture
def page(browsed: Browsed) -> Iterator[Page]:
    browsed.page.said.clear()
    browsed.page.asked.clear()
    browsed.page.go(f"{browsed.address}/healthz")
    browsed.page.go(f"{browsed.address}/studies#new")
    browsed.page.until("document.querySelector('.step-list') && !document.querySelector('[aria-busy]')")
    yield browsed.page
    assert browsed.page.said == []
    assert [one for one in browsed.page.asked if not one.startswith((browsed.address, "blob:"))] == []


def write(page: Page, selector: str, text: str) -> None:
    """Replace what a field holds."""
    page.run(
        f"((node) => {{ node.value = {json.dumps(text)};"
        " for (const type of ['input', 'change']) node.dispatchEvent(new Event(type, {bubbles: true}));"
        f" }})(document.querySelector({json.dumps(selector)}))"
    )


def open_tab(page: Page, title: str) -> None:
    """Look at another part of the study."""
    press(page, title, "[role=tablist]")


def make_draft(page: Page) -> None:
    """Go through the steps of a new study, and press the button of the last one."""
    for _ in range(4):
        if page.run("[...document.querySelectorAll('.step-ends button')].at(-1).textContent") == "Next":
            press(page, "Next")
    press(page, "Make the draft")


def confirm(page: Page, yes: str) -> None:
    """Say yes to the second question."""
    page.until("document.querySelector('#question').open")
    press(page, yes, "#question")
    page.until("!document.querySelector('#question').open")


def test_a_study_is_made_shown_invited_to_opened_followed_and_closed(browsed: Browsed, page: Page) -> None:
    looks_right(page)
    write(page, "#study-name", "first")
    write(page, "#study-title", f"Talk {HOSTILE}")
    for bot in BOTS:
        page.run(f"document.querySelector('[id=\"bot-{bot}\"]').click()")
    write(page, "#study-target", "4")
    write(page, "#study-consent", f"# Consent\n\n{HOSTILE}")
    assert json.loads(page.run("document.querySelector('#protocol-text').textContent"))["bots"] == sorted(BOTS)
    make_draft(page)
    page.until("document.querySelector('#act-pilot')")
    looks_right(page)
    open_tab(page, "Protocol")
    page.until("document.querySelector('#preview-box .preview')")
    study = browsed.server.ask("GET", "/v1/studies/first").json()
    assert page.run("location.hash") == f"#study={study['id']}&tab=protocol"
    assert (study["state"], study["protocol"]["target"], study["protocol"]["bots"]) == ("draft", 4, sorted(BOTS))
    assert study["protocol"]["exclude"]["same_answer_everywhere"] is True
    shown = page.text(".preview")
    for words in ("1. Consent", HOSTILE.split(" \u202e", maxsplit=1)[0], "All in all, how good was this chat?"):
        assert words in shown
    assert page.run("window.hacked === undefined && document.querySelectorAll('main img').length === 0")
    looks_right(page)

    write(page, "#change-amount", "5")
    press(page, "Keep the changes")
    page.until(f"!document.querySelector('code[title=\"{study['protocol_sha256']}\"]')")
    assert browsed.server.ask("GET", "/v1/studies/first").json()["protocol"]["target"] == 5
    assert "5 chats of each bot" in page.text(".protocol-facts")

    open_tab(page, "Overview")
    press(page, "Begin the pilot")
    confirm(page, "Begin the pilot")
    page.until("document.querySelector('#progress')")
    open_tab(page, "Links")
    press(page, "Make links")
    link = page.until("document.querySelector('#new-links .link')?.textContent")
    assert link.startswith(f"{browsed.address}/take#")
    open_tab(page, "Overview")
    press(page, "Open it")
    confirm(page, "Open it")
    page.until("document.querySelector('#act-close')")

    person = page.other_device(link)
    person.look(1_280)
    agree(person)
    press_button(person, "#start-task")
    for turn in range(3):
        say(person, f"turn {turn} {HOSTILE}", turn + 1)
    press_button(person, "#close-chat")
    for key in "12345":
        press_key(person, key)
    person.run(  # a check of attention may stand anywhere, and takes the key of the question after it
        "document.querySelectorAll('.question').forEach("
        "(one) => one.querySelector('input:checked') || one.querySelector('input')?.click())"
    )
    press_button(person, "#finish")
    person.until("document.querySelector('#start-task')")
    assert person.said == []

    page.until("document.querySelector('#counts [data-count=tasks_done]')?.innerText === '1'")
    page.until("document.querySelectorAll('#people tbody tr').length === 1")
    code = page.text("#people tbody code")
    page.until(f"document.querySelector('#here').innerText.includes('{code}')")
    looks_right(page)
    page.run(f"document.querySelector('#data-{code}').click()")
    page.until("document.querySelector('#responses .grid-space [data-place]')?.innerText.includes('P-')")
    page.run("document.querySelector('#responses .grid-space [data-place]').click()")
    page.until("document.querySelector('#response-dialog .turn')")
    assert f"turn 2 {HOSTILE}".replace("\u202e", "\\u{202e}") in page.text("#response-dialog")
    assert accessibility_faults(page) == []
    press(page, "Close", "dialog[open]")
    looks_right(page)
    open_tab(page, "Overview")

    page.run(f"document.querySelector('#exclude-{code}').click()")
    page.until("document.querySelector('#exclude-reason')")
    write(page, "#exclude-reason", "took a telephone call")
    confirm(page, "Exclude")
    page.until("document.querySelector('#people').innerText.includes('took a telephone call')")
    page.run(f"document.querySelector('#erase-{code}').click()")
    page.until("document.querySelector('#question-typed')")
    write(page, "#question-typed", code)
    confirm(page, "Erase")
    page.until("document.querySelector('#people').innerText.includes('withdrawn')")
    assert "turn 0" not in browsed.server.ask("GET", f"/v1/studies/{study['id']}/export").text

    page.until("document.querySelector('#agreement .empty, #agreement table')")
    page.until("document.querySelector('#disagreements .empty')")
    press(page, "Pause it")
    confirm(page, "Pause it")
    page.until("!document.querySelector('#act-pause') && document.querySelector('#act-close')")
    press(page, "Close it")
    confirm(page, "Close it")
    page.until("document.querySelector('#remove-study')")
    assert browsed.server.ask("GET", "/v1/studies/first").json()["state"] == "closed"
    open_tab(page, "Protocol")
    page.until("document.querySelector('.preregistration')")
    assert "SHA-256" in page.text(".preregistration")


def test_items_come_from_a_file_and_errors_name_their_field(browsed: Browsed, page: Page, tmp_path: Path) -> None:
    path = tmp_path / "items.jsonl"
    path.write_text("\n".join(json.dumps(item) for item in ITEMS))
    write(page, "#study-kind", "rate-reply")
    page.until("document.querySelector('#study-items').closest('.field').hidden === false")
    assert page.run("document.querySelector('#study-target').closest('.field').hidden")
    write(page, "#study-name", "replies")
    root = page.tell("DOM.getDocument")["root"]["nodeId"]
    field = page.tell("DOM.querySelector", nodeId=root, selector="#study-items")["nodeId"]
    page.tell("DOM.setFileInputFiles", nodeId=field, files=[str(path)])
    write(page, "#study-tasks", "3000")
    page.run("document.querySelector('#study-tasks').max = ''")
    make_draft(page)
    assert "3000" in page.until("document.querySelector('#study-tasks-fault')?.innerText")
    assert page.text(".step-list [aria-current]") == "Bots"
    assert page.run("document.activeElement.id") == "study-tasks"
    assert page.run("document.querySelector('#new-problem').innerText") == ""
    write(page, "#study-tasks", "4")
    make_draft(page)
    page.until("document.querySelector('#act-pilot')")
    study = browsed.server.ask("GET", "/v1/studies/replies").json()
    assert (study["kind"], study["protocol"]["per_participant"]) == ("rate-reply", 4)
    page.said[:] = [one for one in page.said if "422" not in one]


def test_what_the_form_says_by_itself_is_a_protocol_of_every_kind(browsed: Browsed, page: Page) -> None:
    for place, kind in enumerate(FORMS):
        write(page, "#study-kind", kind)
        if place == 0:
            page.run(f"document.querySelector('[id=\"bot-{BOTS[0]}\"]').click()")
            page.run(f"document.querySelector('[id=\"bot-{BOTS[1]}\"]').click()")
        protocol = json.loads(
            page.until(
                "((text) => { const { kind, form } = JSON.parse(text);"
                f" return kind === {json.dumps(kind)} && form === {json.dumps(FORMS[kind])} && text; }})"
                "(document.querySelector('#protocol-text').textContent)"
            )
        )
        answer = browsed.server.ask("POST", "/v1/studies", json={"name": f"kind-{kind}", "protocol": protocol})
        assert answer.status_code == 201, answer.text


def test_texts_that_nobody_wrote_follow_the_language_and_have_gaps_to_fill(browsed: Browsed, page: Page) -> None:
    def texts() -> list[str]:
        found: list[str] = page.run(
            "['title', 'consent', 'guidelines'].map((name) => document.querySelector(`#study-${name}`).value)"
        )
        return found

    english = texts()
    assert ("[…]" in english[1], english[2].splitlines()[0]) == (True, "# What to do")
    write(page, "#study-language", "de-AT")
    german = texts()
    assert (german[0], "[…]" in german[1], german[2].splitlines()[0]) == ("Studie", True, "# Was zu tun ist")
    write(page, "#study-language", "ja")
    assert texts() == ["", "", ""]
    write(page, "#study-language", "en")
    write(page, "#study-consent", "Ours.")
    write(page, "#study-language", "de")
    assert texts() == [german[0], "Ours.", german[2]]

    write(page, "#study-language", "en")
    write(page, "#study-consent", english[1])
    write(page, "#study-name", "gaps")
    page.run(f"document.querySelector('[id=\"bot-{BOTS[0]}\"]').click()")
    make_draft(page)
    press(page, "Open it")
    page.until("document.querySelector('#question').open")
    press(page, "Open it", "#question")
    assert "It takes about […] minutes" in page.until("document.querySelector('#question-problem').innerText")
    assert browsed.server.ask("GET", "/v1/studies/gaps").json()["state"] == "draft"
    page.said[:] = [one for one in page.said if "409" not in one]


def test_power_agreement_disagreements_and_the_report(browsed: Browsed, page: Page) -> None:
    for difference, n in (("0.75", "48"), ("0.5", "107")):
        write(page, "#power-difference", difference)
        press(page, "Calculate")
        page.until(f"document.querySelector('#power-result b')?.innerText === '{n}'")
    protocol = {"kind": "rate-reply", "per_participant": 4, "ratings_per_item": 2}
    study = opened_study(browsed, "judged", protocol, items=ITEMS)
    for key in "15":
        person = page.other_device(study.link)
        agree(person)
        for task in range(4):
            press_button(person, "#start-task")
            person.until("document.querySelector('#finish')")
            press_key(person, key)
            press_button(person, "#finish")
            person.until(f"document.querySelector('{'#code' if task == 3 else '#start-task'}')")
        assert person.said == []
    page.go(f"{browsed.address}/healthz")
    page.go(f"{browsed.address}/studies#study={study.id}")
    page.until("document.querySelectorAll('#disagreements li').length === 4")
    page.until("document.querySelector('#agreement tbody')?.innerText.includes('4 items')")
    write(page, "#disagreements li input", "4")
    write(page, "#disagreements li input[placeholder=reason]", "both read it wrongly")
    press(page, "Decide", "#disagreements")
    page.until(
        "document.querySelector('#disagreements li [role=status]').innerText === 'decided: 4, both read it wrongly'"
    )
    open_tab(page, "Report")
    page.until("document.querySelector('#report table')")
    assert "zebra" in page.text("#report")
    looks_right(page)


def test_choices_stand_beside_those_with_decisions(browsed: Browsed, page: Page) -> None:
    form = {"name": "pair", "questions": [{"id": "better", "text": "Which one?", "type": "pair"}]}
    protocol = {"kind": "pair-reply", "form": form, "per_participant": 2, "ratings_per_item": 2}
    study = opened_study(browsed, "chosen", protocol, items=ITEMS)
    for better in ("Yes", "No"):  # of zebra, and of quokka
        person = Person(browsed.server.client)
        person.enter(study.link.partition("#")[2])
        person.agree()
        for _ in ITEMS:
            task = person.done("tasks/next")["task"]
            side = next(side for side, text in task["payload"]["replies"].items() if text.startswith(better))
            person.done(f"tasks/{task['id']}/answers", {"answers": {"better": side}})
            person.done(f"tasks/{task['id']}/finish")
    listed = browsed.server.ask("GET", f"/v1/studies/{study.id}/disagreements").json()["items"]
    decision = {"item": listed[0]["item"], "question": "better", "value": "zebra", "note": "it answers"}
    assert browsed.server.ask("PUT", f"/v1/studies/{study.id}/adjudications", json=decision).status_code == 200
    page.go(f"{browsed.address}/healthz")
    page.go(f"{browsed.address}/studies#study={study.id}&tab=report")
    page.until("document.querySelector('#report table')")
    choices = "[...document.querySelectorAll('#report h3')].find((one) => one.textContent === 'Choices')"

    def of_choices() -> dict[str, str]:
        """The only row under the heading, by its columns."""
        heads, row = (
            page.run(f"[...{choices}.nextElementSibling.querySelectorAll('{cells}')].map((cell) => cell.textContent)")
            for cells in ("thead th", "tbody tr > *")
        )
        return dict(zip(heads, row, strict=True))

    shown = of_choices()
    assert shown["Systems"] == "quokka and zebra"
    assert shown["First · second · ties"] == "2 · 2 · 0"
    assert shown["With decisions: first · second · ties"] == "1 · 3 · 0"
    assert "fewer than 6 people" in page.text("#few-participants")
    looks_right(page)

    people = browsed.server.ask("GET", f"/v1/studies/{study.id}/participants").json()["participants"]
    for person in people:
        path = f"/v1/studies/{study.id}/participants/{person['code']}/exclusion"
        assert browsed.server.ask("PUT", path, json={"reason": "it was us"}).status_code == 200
    page.until("!document.querySelector('#show-report').disabled")
    press(page, "Compute again")
    page.until("document.querySelector('#left-out')")
    rows = page.run("[...document.querySelectorAll('#left-out tbody tr')].map((row) => row.innerText)")
    assert len(rows) == 2
    for person, row in zip(sorted(people, key=lambda each: each["code"]), rows, strict=True):
        assert (person["code"] in row, "it was us" in row) == (True, True)
    shown = of_choices()
    assert shown["First · second · ties"] == "0 · 0 · 0"
    assert shown["Everybody: first · second · ties"] == "2 · 2 · 0"
    looks_right(page)


def test_the_report_says_where_intervals_lack_and_how_many_reasons_it_leaves_out(browsed: Browsed, page: Page) -> None:
    """The server's report is replaced by reports of more people than a test can send through a study."""
    study = opened_study(browsed, "many", {"kind": "rate-reply", "per_participant": 2}, items=ITEMS)
    page.go(f"{browsed.address}/healthz")
    page.go(f"{browsed.address}/studies#study={study.id}&tab=report")
    page.until("document.querySelector('#show-report')")
    page.run(
        "(() => { const real = window.fetch;"
        " const given = (content) => Promise.resolve(new Response(JSON.stringify(content)));"
        " window.fetch = (address, ...more) => String(address).endsWith('/report') ? given({report: window.given})"
        " : String(address).endsWith('/progress') ? given({counts: {tasks_done: 1}}) : real(address, ...more); })(); 1"
    )

    def show(report: dict[str, Any]) -> None:
        page.run(f"window.given = {json.dumps(report)}; document.querySelector('#report').replaceChildren(); 1")
        page.until("!document.querySelector('#show-report').disabled")
        press(page, "Compute again")
        page.until("document.querySelector('#report h3')")

    def notice() -> bool:
        return bool(page.run("document.querySelector('#few-participants') !== null"))

    rated = [study_task(f"P-{n}", (bot,), {"quality": 3 + n % 4}) for n in range(7) for bot in ("a", "b")]
    chosen = [study_task(f"P-{n}", ("a", "b"), {"better": "left" if n else "right"}) for n in range(7)]
    form = protocol("quality", {"id": "better", "text": "b", "type": "pair"}, analysis={"draws": 50})
    left_out = [study_task(f"Q-{n:03}", ("a",), {"quality": n % 7 + 1}, excluded="it was us") for n in range(502)]
    for tasks, lacks in (
        (rated + chosen, True),  # everybody sees the same difference
        ([*rated, study_task("P-8", ("a",), {"quality": 7}), *chosen], False),
        ([*rated, study_task("P-8", ("a",), {"quality": 7}), *chosen[:5]], True),  # enough people, but not of the pair
        ([*rated, study_task("P-8", ("c",), {"quality": 7})], True),  # enough people, but one of c
    ):
        show(study_report(tasks, form))
        assert notice() is lacks, len(tasks)
    assert page.run("document.querySelector('#left-out')") is None
    show(study_report([*rated, *left_out], form))
    assert page.run("document.querySelectorAll('#left-out tbody tr').length") == 500
    assert page.text("#left-out-more").split()[0] == "2"
    show(study_report([*rated, *left_out[:500]], form))
    assert page.run("document.querySelectorAll('#left-out tbody tr').length") == 500
    assert page.run("document.querySelector('#left-out-more')") is None


def test_a_key_without_the_scope_is_told_so(browsed: Browsed, tmp_path: Path) -> None:
    home = study_home(tmp_path)
    database = Database.open(Settings(home=home))
    token = KeyStore(database).create("scorer", [Scope("score")])[0]
    of_studies = KeyStore(database).create("researcher", [Scope("study")])[0]
    BotStore(database, Settings(home=home)).put("quokka", {"kind": "replay", "replies": ["a"]}, actor="test")
    database.close()
    with asking_for_keys(browsed, Settings(home=home), "/studies#new") as keyed:
        keyed.page.until("document.querySelector('#list')?.innerText.includes('asks for a key')")
        keyed.page.run(f"sessionStorage.setItem('refaug.key', {json.dumps(token)})")
        keyed.page.tell("Page.reload")
        keyed.page.until("document.querySelector('#list')?.innerText.includes('scope study')")
        assert keyed.page.run("document.querySelector('#new-view').hidden && document.querySelector('#to-new').hidden")
        keyed.page.run(f"sessionStorage.setItem('refaug.key', {json.dumps(str(of_studies))})")
        keyed.page.tell("Page.reload")
        keyed.page.until("document.querySelector('#bot-quokka')")  # this scope is enough to choose bots


def test_a_set_with_peoples_weights_is_offered_to_keys_that_can_freeze_one(browsed: Browsed, tmp_path: Path) -> None:
    home = study_home(tmp_path)
    database = Database.open(Settings(home=home))
    keys = KeyStore(database)
    looking, freezing, admin = (
        str(keys.create(name, [Scope(scope) for scope in scopes])[0])
        for name, scopes in (
            ("looker", ["study-read"]),
            ("freezer", ["study-read", "read", "write"]),
            ("boss", ["admin"]),
        )
    )
    database.close()
    items = [{"id": "tea", "utterance": "Where can I buy tea?", "references": ["At the market.", "The bus is blue."]}]
    with asking_for_keys(browsed, Settings(home=home), "/studies") as keyed:
        keyed.client.headers["Authorization"] = f"Bearer {admin}"
        new_study(keyed.client, "references", {"kind": "rate-reference", "consent": "Yes?"}, items)
        study = keyed.client.post("/v1/studies/references/close").json()["id"]
        for token, is_offered in ((looking, False), (freezing, True)):
            keyed.page.run(f"sessionStorage.setItem('refaug.key', {json.dumps(token)})")
            keyed.page.go("about:blank")
            keyed.page.go(f"{keyed.address}/studies#study={study}&tab=report")
            keyed.page.until("document.querySelector('#report-title')")
            assert keyed.page.run("document.querySelector('#derive-title') !== null") is is_offered


def test_ratings_of_references_become_the_weights_of_a_set(browsed: Browsed, page: Page) -> None:
    items = [{"id": "tea", "utterance": "Where can I buy tea?", "references": ["At the market.", "The bus is blue."]}]
    order = {"items": items, "purpose": "test", "references": "given"}
    parent = browsed.server.ask("POST", "/v1/reference-sets", json=order).json()["id"]
    study = opened_study(
        browsed, "references", {"kind": "rate-reference", "ratings_per_item": 2, "per_participant": 2}, items=items
    )
    for good, bad in ((5, 1), (4, 2)):
        person = Person(browsed.server.client)
        person.enter(study.link.partition("#")[2])
        person.agree()
        while person.done("tasks/next")["step"] == "task":
            task = person.state["task"]
            answer = good if task["payload"]["reference"] == "At the market." else bad
            person.done(f"tasks/{task['id']}/answers", {"answers": {"appropriateness": answer}})
            if person.done(f"tasks/{task['id']}/finish")["step"] == "done":
                break
    page.go(f"{browsed.address}/healthz")
    page.go(f"{browsed.address}/studies#study={study.id}")
    page.until("document.querySelector('#act-close')")
    assert page.run("document.querySelector('#derived-set') === null"), "while people rate, weights change"
    press(page, "Close it")
    confirm(page, "Close it")
    page.until("document.querySelector('#remove-study')")
    open_tab(page, "Report")
    page.until("document.querySelector('#derive-from option')")
    assert page.run("document.querySelector('#derive-from').value") == parent
    looks_right(page)
    press(page, "Make the set")
    name = page.until("document.querySelector('#derived-link')?.textContent")
    _, *lines = browsed.server.ask("GET", f"/v1/reference-sets/{name}/download?format=jsonl").text.splitlines()
    weights = {reference["text"]: reference["weight"] for reference in json.loads(lines[0])["references"]}
    assert weights == {"At the market.": 0.75, "The bus is blue.": -0.75}
    assert "2 references" in page.text("#derived-state")
    page.click("#derived-link")
    page.until(f"document.activeElement?.id === 'set-{name}'")


def test_a_study_is_full_once_each_bot_but_the_degraded_one_has_its_target(browsed: Browsed, page: Page) -> None:
    wanted = {"kind": "chat", "bots": [BOTS[0]], "target": 1, "per_participant": 1, "min_turns": 0}
    study = opened_study(browsed, "full", {**wanted, "checks": {"degraded": True}})
    person = Person(browsed.server.client)
    person.enter(study.link.partition("#")[2])
    person.agree()
    task = person.done("tasks/next")["task"]
    answers = {question["id"]: 3 for question in task["form"]["questions"] if question["type"] == "likert"}
    person.done(f"tasks/{task['id']}/answers", {"answers": answers})
    person.done(f"tasks/{task['id']}/finish")
    page.go(f"{browsed.address}/healthz")
    page.go(f"{browsed.address}/studies#study={study.id}")
    assert page.until("document.querySelector('#next-title')?.innerText") == "Every bot has its target"
