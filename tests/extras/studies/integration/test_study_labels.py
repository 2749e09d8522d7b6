"""Questions about replies, from the form of a new study to its report, in a real browser and without JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from browser import Page
from page_tests import Browsed, browsing, looks_right, press
from studied import BOTS, CONSENT, add_bots, invited, study_home
from studying import Person

pytestmark = [pytest.mark.machine, pytest.mark.slow]
LABELS = ["It contradicts itself", "It repeats itself", "It is rude"]
VALUES = ["it-contradicts-itself", "it-repeats-itself", "it-is-rude"]
PEOPLE = 8


@pytest.fixture(scope="module")
def browsed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browsed]:
    folder = tmp_path_factory.mktemp("labels")
    with browsing(study_home(folder), folder, path="/healthz") as found:
        add_bots(found.server)
        yield found


def write(page: Page, selector: str, text: str) -> None:
    page.run(
        f"(() => {{ const node = {selector}; node.value = {json.dumps(text)};"
        " for (const kind of ['input', 'change']) node.dispatchEvent(new Event(kind, { bubbles: true })); })()"
    )


def field(label: str) -> str:
    """The control of the last question that has this label."""
    return (
        "document.getElementById([...document.querySelectorAll('#questions > li:last-child label')]"
        f".find((one) => one.textContent === {json.dumps(label)}).htmlFor)"
    )


def add_question(page: Page, kind: str, text: str, labels: list[str]) -> None:
    page.run("document.querySelector('#add-question').click()")
    write(page, field("Question"), text)
    write(page, field("Answered by"), kind)
    write(page, field("Answers or labels, one a line"), "\n".join(labels))
    assert page.run(f"{field('About')}.closest('.field').hidden"), "labels are always about replies"


def asked(protocol: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [
        (question["type"], question["scope"], [option["value"] for option in question.get("options", [])])
        for question in protocol["form"]["questions"][-2:]
    ]


def answer_as(browsed: Browsed, link: str, place: int) -> None:
    """Chat with each bot; the reply of the first gets a label and a part from every other person."""
    person = Person(browsed.server.client)
    person.enter(link.partition("#")[2])
    person.agree()
    for _ in BOTS[:2]:
        person.done("tasks/next")
        task = person.state["task"]["id"]
        person.say("hello")
        for question in person.state["task"]["form"]["questions"]:
            if question["id"] == "attention":
                colour = next(
                    option["value"] for option in question["options"] if f"“{option['text']}”" in question["text"]
                )
                person.done(f"tasks/{task}/answers", {"answers": {"attention": colour}})
        person.done(f"tasks/{task}/answers", {"answers": {"quality": 1 + place % 7}})
        reply = person.sides[0]["messages"][-1]
        has_labels = reply["text"].endswith(f"bot {len(BOTS[0])}.") and place % 2 == 0
        labels = {"what-is-wrong": VALUES[:2], "where": [SPAN]} if has_labels else {"what-is-wrong": []}
        person.done(f"tasks/{task}/answers", {"answers": labels, "n": reply["n"]})
        person.done(f"tasks/{task}/finish")


SPAN = {"start": 6, "end": 12, "label": VALUES[0]}


def test_labels_of_replies_go_from_the_form_to_the_report(browsed: Browsed) -> None:
    page, server = browsed.page, browsed.server
    page.go(f"{browsed.address}/studies#new")
    page.until("document.querySelector('.step-list') && !document.querySelector('[aria-busy]')")
    page.type("#study-title", "Marked")
    press(page, "Next")
    for bot in BOTS[:2]:
        page.run(f"document.querySelector('[id=\"bot-{bot}\"]').click()")
    write(page, "document.querySelector('#study-min')", "1")
    press(page, "Next")
    write(page, "document.querySelector('#study-form')", "own")
    page.until("document.querySelectorAll('#questions > li').length === 0")
    page.run("document.querySelector('#add-question').click()")
    write(page, field("Question"), "Quality")
    add_question(page, "labels", "What is wrong?", LABELS)
    page.run("document.querySelector('#questions > li:last-child [id$=required]').click()")
    add_question(page, "spans", "Where?", LABELS[:2])
    looks_right(page)
    press(page, "Next")
    write(page, "document.querySelector('#study-consent')", CONSENT)
    write(page, "document.querySelector('#study-guidelines')", "Talk.")
    press(page, "Next")
    page.until("document.querySelectorAll('#new-preview .label-button').length === 4")
    page.run("document.querySelectorAll('#new-preview .unit')[2].click()")
    page.run("document.querySelector('#new-preview .label-button').click()")
    assert page.text("#new-preview .spans q") == "to", "it can be tried"
    looks_right(page)
    press(page, "Make the draft")
    page.until("document.querySelector('#act-pilot')")
    study = server.ask("GET", "/v1/studies/marked").json()
    assert asked(study["protocol"]) == [("labels", "turn", VALUES), ("spans", "turn", VALUES[:2])]
    page.go(f"{browsed.address}/studies#new=copy:{study['id']}")
    page.until("document.querySelectorAll('#questions > li').length === 3 && !document.querySelector('[aria-busy]')")
    for _ in range(4):
        press(page, "Next")
    press(page, "Make the draft")
    page.until("document.querySelector('#act-pilot')")
    assert asked(server.ask("GET", "/v1/studies/marked-copy").json()["protocol"]) == asked(study["protocol"])

    assert server.ask("POST", f"/v1/studies/{study['id']}/open").status_code == 200
    for place in range(PEOPLE):
        answer_as(browsed, invited(browsed, study["id"]), place)
    page.go(f"{browsed.address}/studies#study={study['id']}&tab=report")
    page.until("document.querySelector('#report h3')")
    report = server.ask("GET", f"/v1/studies/{study['id']}/report").json()["report"]
    shares = report["analyses"]["all"]["labels"]["what-is-wrong"]["labels"]
    assert {row["bot"]: row["mean"] for row in shares[VALUES[0]]["means"]} == {BOTS[0]: 0.5, BOTS[1]: 0}
    shown = page.text("#report")
    assert "No turn has: It is rude" in shown
    assert f"Parts that are marked: {BOTS[1]} 0, {BOTS[0]} 4." in shown
    assert "It contradicts itself" in page.run("document.querySelector('#report').textContent")
    looks_right(page)
    page.go(f"{browsed.address}/studies#study={study['id']}&tab=responses")
    page.until("document.querySelectorAll('#responses .grid-space > .grid-row').length > 0")
    marked = server.ask("GET", f"/v1/studies/{study['id']}/responses?bot={BOTS[0]}&limit=50").json()["responses"]
    assert len(marked) == PEOPLE
    opened = "document.querySelector('#response-dialog mark')"
    page.run("document.querySelector('#responses .grid').focus()")
    page.press("ArrowDown", 40)
    page.press("Enter", 13)
    page.until("document.querySelector('#response-dialog[open] .turn')")
    for _ in range(2 * PEOPLE):
        if page.run(f"Boolean({opened})"):
            break
        title = page.text("#response-title")
        press(page, "Next", "#response-dialog")
        page.until(
            f"document.querySelector('#response-title').innerText !== {json.dumps(title)}"
            " && document.querySelector('#response-dialog .turn')"
            " && !document.querySelector('#response-dialog [aria-busy]')"
        )
    assert page.run(f"{opened}.textContent") == "number"
    assert "It contradicts itself" in page.text("#response-dialog .turn.bot .marks")
    looks_right(page)
