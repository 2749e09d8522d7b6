"""Labels of replies and of their parts, given by keyboard, mouse and finger, and read back from the export."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from browser import Page
from page_tests import Browsed, accessibility_faults, browsing, looks_right, overflow, press_enter, tab_to
from studied import BOTS, add_bots, agree, opened_study, press_button, press_key, records, say, study_home

pytestmark = [pytest.mark.machine, pytest.mark.slow]
OPTIONS = [
    {"value": "contradiction", "text": "Contradicts itself"},
    {"value": "repetition", "text": "Repetition"},
    {"value": "rude", "text": "Rude"},
]
FORM = {
    "name": "marks",
    "questions": [
        {"id": "quality", "type": "likert", "least": 1, "most": 5, "text": "How good was it?"},
        {
            "id": "flags",
            "type": "labels",
            "text": "What is wrong with this reply?",
            "options": OPTIONS,
            "required": True,
        },
        {"id": "parts", "type": "spans", "text": "Where?", "options": OPTIONS[:2]},
    ],
}
TURNS = ["What?", "I like tea 🍵 a lot. I hate tea.", "So?", "مرحبا بكم جميعا", "Ja?", "お茶は緑です。"]


@pytest.fixture(scope="module")
def browsed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browsed]:
    folder = tmp_path_factory.mktemp("marks")
    with browsing(study_home(folder), folder, path="/healthz") as found:
        add_bots(found.server)
        yield found


@pytest.fixture
def device(browsed: Browsed) -> Iterator[Page]:
    page = browsed.page.other_device("about:blank")
    page.look(1_280)
    yield page
    assert page.said == []
    page.tell("Page.close")


def word(reply: int, number: int) -> str:
    """A word of a reply, both from 0."""
    return f"document.querySelectorAll('.message.bot')[{reply}].querySelectorAll('.unit')[{number}]"


def quotes(page: Page, reply: int) -> list[str]:
    """What is listed as marked in a reply."""
    listed: list[str] = page.run(
        f"[...document.querySelectorAll('.message.bot')[{reply}].querySelectorAll('.spans li')]"
        ".map((node) => `${node.querySelector('b').textContent}: ${node.querySelector('q').textContent}`)"
    )
    return listed


def drag(page: Page, reply: int, first: int, last: int) -> None:
    """Drag the mouse from the middle of a word to the middle of another."""
    page.run(f"{word(reply, first)}.scrollIntoView({{block: 'center'}})")
    places = [
        page.run(
            f"((box) => [box.x + box.width / 2, box.y + box.height / 2])({word(reply, number)}.getBoundingClientRect())"
        )
        for number in (first, last)
    ]
    (x, y), (to_x, to_y) = places
    page.move(x, y)
    page.tell("Input.dispatchMouseEvent", type="mousePressed", x=x, y=y, button="left", clickCount=1)
    page.tell("Input.dispatchMouseEvent", type="mouseMoved", x=(x + to_x) / 2, y=to_y, button="left", buttons=1)
    page.tell("Input.dispatchMouseEvent", type="mouseMoved", x=to_x, y=to_y, button="left", buttons=1)
    page.tell("Input.dispatchMouseEvent", type="mouseReleased", x=to_x, y=to_y, button="left", clickCount=1)


def test_replies_of_a_chat_are_marked_by_keyboard_and_by_mouse(browsed: Browsed, device: Page) -> None:
    page = device
    protocol = {"kind": "chat", "bots": list(BOTS[:1]), "delay": "none", "min_turns": 2, "form": FORM, "votes": False}
    study = opened_study(browsed, "chat-marks", protocol)
    page.go(study.link)
    agree(page)
    press_button(page, "#start-task")
    for turn in range(2):
        say(page, f"turn {turn}", turn + 1)
    assert page.run("document.querySelectorAll('.unit, .message .questions').length") == 0, "not while they talk"
    press_button(page, "#close-chat")
    page.until("document.querySelectorAll('.message .questions').length === 2")
    assert page.run("document.activeElement.localName") == "h1"
    texts = page.run("[...document.querySelectorAll('.message.bot .spoken')].map((node) => node.textContent)")
    assert texts[0].startswith("Reply number ")
    assert accessibility_faults(page, impacts=None) == []
    tab_to(page, "node.matches('.unit')", 20)
    assert page.run("document.activeElement.textContent") == "Reply"
    page.press("ArrowRight", 39)
    press_enter(page)  # the first word, and then the last one
    page.press("ArrowRight", 39)
    press_enter(page)
    number = texts[0].split(" ")[2]
    assert page.text(".message.bot .chosen-part") == f"Chosen: “number {number}”"
    tab_to(page, "node.matches('.label-button') && node.textContent === 'Repetition'", 20)
    press_enter(page)
    assert quotes(page, 0) == [f"Repetition: number {number}"]
    assert page.run("document.activeElement.matches('.unit')"), "the text has the focus again"
    page.press("Home", 36)
    press_key(page, "1")  # a digit gives the word its label at once
    assert quotes(page, 0) == ["Contradicts itself: Reply", f"Repetition: number {number}"]
    drag(page, 1, 3, 5)
    page.until("[...document.querySelectorAll('.chosen-part')].some((node) => /in the words/.test(node.textContent))")
    page.run("document.querySelectorAll('.message.bot')[1].querySelector('.label-button').click()")
    assert quotes(page, 1) == ["Contradicts itself: in the words"]
    looks_right(page)
    press_button(page, "#finish")
    page.until("document.querySelectorAll('.question.missing').length === 3")
    assert page.run("document.activeElement.closest('.message.bot') !== null"), "the first thing that is missing"
    choose = "document.querySelectorAll('.message.bot')[{}].querySelectorAll('.choice input')[{}].click()"
    for reply, place in ((0, 1), (0, 2), (1, 3)):
        page.run(choose.format(reply, place))
    page.run("document.querySelector('.form-box .option input').click()")
    page.go(study.link)
    page.until("document.querySelectorAll('.message .questions').length === 2")
    page.until("document.querySelectorAll('.spans li').length === 3")
    assert page.run("document.querySelectorAll('.message.bot')[1].querySelector('[id$=none]').checked")
    press_button(page, "#finish")
    page.until("document.querySelector('#code')")
    (told,) = records(browsed, study)
    labels = [turn["labels"] for turn in told["sides"][0]["turns"] if turn["role"] == "bot"]
    ends = len("Reply number "), len(f"Reply number {number}")
    assert labels[0]["flags"] == ["repetition", "rude"]
    assert labels[0]["parts"] == [
        {"start": 0, "end": 5, "label": "contradiction"},
        {"start": 6, "end": ends[1], "label": "repetition"},
    ]
    assert labels[1]["flags"] == []
    (span,) = labels[1]["parts"]
    assert texts[1][span["start"] : span["end"]] == "in the words"


def test_marks_on_a_phone_count_code_points_in_every_writing_and_are_taken_back(browsed: Browsed, device: Page) -> None:
    page = device
    protocol = {"kind": "label-turns", "per_participant": 1, "form": {**FORM, "questions": FORM["questions"][1:]}}
    study = opened_study(browsed, "item-marks", protocol, items=[{"id": "d1", "turns": TURNS, "bot": "zebra"}])
    page.go(study.link)
    agree(page)
    press_button(page, "#start-task")
    page.until("document.querySelectorAll('.message .questions').length === 3")
    page.look(390)
    assert page.run(f"[...{word(0, 0)}.parentNode.querySelectorAll('.unit')].map((node) => node.textContent)") == [
        "I", "like", "tea", "🍵", "a", "lot.", "I", "hate", "tea.",
    ]  # fmt: skip
    for reply, first, last in ((0, 3, 5), (1, 1, 2), (2, 0, 0)):
        page.run(f"{word(reply, first)}.click()")
        if last != first:
            page.run(f"{word(reply, last)}.click()")
        page.run(f"document.querySelectorAll('.message.bot')[{reply}].querySelectorAll('.label-button')[1].click()")
    page.run(f"{word(0, 0)}.click()")
    page.run("document.querySelector('.message.bot .label-button').click()")
    assert quotes(page, 0) == ["Contradicts itself: I", "Repetition: 🍵 a lot."]
    page.run("document.querySelector('.message.bot .spans button').click()")
    assert quotes(page, 0) == ["Repetition: 🍵 a lot."]
    page.until("document.querySelector('#undo')")
    page.run("document.querySelector('#undo').click()")
    page.until("document.querySelectorAll('.message.bot .spans li').length === 4")
    assert overflow(page) == []
    looks_right(page)
    for reply in range(3):
        page.run(f"document.querySelectorAll('.message.bot')[{reply}].querySelector('[id$=none]').click()")
    press_button(page, "#finish")
    page.until("document.querySelector('#code')")
    (told,) = records(browsed, study)
    marked: list[list[Any]] = [
        [[turn["text"][span["start"] : span["end"]], span["label"]] for span in turn["labels"]["parts"]]
        for turn in told["sides"][0]["turns"]
        if turn["role"] == "bot"
    ]
    assert marked[:2] == [
        [["I", "contradiction"], ["🍵 a lot.", "repetition"]],
        [["بكم جميعا", "repetition"]],
    ]
    assert marked[2] == [["お茶", "repetition"]], json.dumps(marked[2])
