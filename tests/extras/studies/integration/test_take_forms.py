"""The participants' page in a real browser: questions that depend on answers, sliders, and a bot that says nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest
from browser import Page
from page_tests import Browsed, accessibility_faults, browsing, press_enter
from studied import (
    BOTS,
    add_bots,
    agree,
    opened_study,
    press_button,
    press_key,
    records,
    say,
    shown_messages,
    study_home,
)

pytestmark = [pytest.mark.machine, pytest.mark.slow]
RIGHT_ARROW = 39
FORM = {
    "name": "own",
    "questions": [
        {"id": "fit", "type": "likert", "text": "Does it fit?", "least": 1, "most": 5, "required": True},
        {
            "id": "why", "type": "choice", "text": "What is wrong?", "required": True, "show_if": {"fit": [1, 2]},
            "options": [{"value": "rude", "text": "It is rude"}, {"value": "odd", "text": "It is odd"}],
        },
        {"id": "more", "type": "text", "text": "Say more", "required": False, "show_if": {"why": ["odd"]}},
        {"id": "sure", "type": "slider", "text": "How sure are you?", "least": 0, "most": 100, "required": True},
    ],
}  # fmt: skip
ITEMS = [{"id": f"r{n}", "turns": [f"Question {n}?"], "replies": {"zebra": f"Answer {n}."}} for n in range(2)]
MUTE = "mute-bot"


@pytest.fixture(scope="module")
def browsed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browsed]:
    folder = tmp_path_factory.mktemp("forms")
    with browsing(study_home(folder), folder, path="/healthz") as found:
        add_bots(found.server)
        order = {"specification": {"kind": "replay", "replies": ["The only thing that I can say."]}}
        assert found.server.ask("PUT", f"/v1/bots/{MUTE}", json=order).status_code == 201
        yield found


@pytest.fixture
def page(browsed: Browsed) -> Iterator[Page]:
    """A browser of a participant's own."""
    device = browsed.page.other_device("about:blank")
    device.look(1_280)
    yield device
    assert device.said == []
    device.tell("Page.close")


def is_shown(page: Page, text: str) -> bool:
    """Whether the question with this text can be seen."""
    find = f"[...document.querySelectorAll('.question')].find((one) => one.textContent.includes('{text}'))"
    return bool(page.run(f"(({find})?.getClientRects().length ?? 0) > 0"))


def test_a_question_comes_with_the_answer_it_depends_on_and_a_slider_has_no_place_of_its_own(
    browsed: Browsed, page: Page
) -> None:
    protocol = {"kind": "rate-reply", "form": FORM, "per_participant": 2, "ratings_per_item": 1}
    study = opened_study(browsed, "forms", protocol, items=ITEMS)
    page.go(study.link)
    agree(page)
    press_button(page, "#start-task")
    page.until("document.querySelector('.question.slider')")
    assert not is_shown(page, "What is wrong?")
    press_key(page, "5")
    assert not is_shown(page, "What is wrong?")
    press_button(page, "#finish")  # the slider stands in the middle, and yet is not answered
    page.until("document.querySelector('.question.slider.missing')")
    page.run("document.querySelector('.question.slider input').focus()")
    page.press("ArrowRight", RIGHT_ARROW)
    page.until("document.querySelector('.slider-value').textContent === '51'")
    press_button(page, "#finish")

    press_button(page, "#start-task")
    page.until("document.querySelector('.question.slider')")
    press_key(page, "2")
    page.until("document.querySelectorAll('.question').length === 4")
    assert is_shown(page, "What is wrong?")
    assert accessibility_faults(page) == []
    press_button(page, "#finish")
    page.until("document.querySelectorAll('.question.missing').length === 2")
    page.run(
        "[...document.querySelectorAll('.question label')].find((one) => one.textContent.includes('It is odd'))"
        ".control.click()"
    )
    fit = "document.querySelector('.question').querySelectorAll('input')"
    seen = []
    for place in (2, 1):  # a question goes with the one that it depends on
        seen.append(is_shown(page, "Say more"))
        page.run(f"{fit}[{place}].click()")
        seen.append(is_shown(page, "Say more"))
    assert seen == [True, False, False, True]
    press_button(page, ".question.slider button")  # the middle is an answer, too
    page.until("document.querySelector('.slider-value').textContent === '50'")
    press_button(page, "#finish")
    page.until("document.querySelector('#code')")
    answers = [record["answers"] for record in records(browsed, study)]
    assert answers == [{"fit": 5, "sure": 51}, {"fit": 2, "sure": 50, "why": "odd"}]


def test_a_bot_that_says_nothing_is_no_fault_of_the_participant_who_gets_another_task(
    browsed: Browsed, page: Page
) -> None:
    protocol = {"kind": "chat", "bots": [MUTE, BOTS[0]], "delay": "none", "skips": 0}
    study = opened_study(browsed, "mute", protocol)
    page.go(study.link)
    agree(page)
    has_failed = False
    while not has_failed:  # whichever bot comes first
        press_button(page, "#start-task")
        say(page, "hello", 1)
        page.type("#message", "and now?")
        page.until("!document.querySelector('#send').disabled")
        press_enter(page)
        page.until(
            "document.querySelectorAll('.message.participant').length === 2 &&"
            " (document.querySelectorAll('.message.bot').length === 2 || !document.querySelector('#failure').hidden)"
        )
        has_failed = page.run("!document.querySelector('#failure').hidden")
        if not has_failed:
            say(page, "bye", 3)
            press_button(page, "#close-chat")
            for key in "12345":
                press_key(page, key)
            press_button(page, "#finish")
    assert "No reply came. That is not your fault." in page.text("#failure")
    assert accessibility_faults(page) == []
    press_button(page, "#other-task")
    page.until("document.querySelector('#start-task, #code')")
    counts = browsed.server.ask("GET", f"/v1/studies/{study.id}/progress").json()["counts"]
    assert (counts["bot_failed"], counts["skipped"]) == (1, 1)


def test_what_no_bot_has_a_reply_to_stays_in_sight_and_other_words_come_next(browsed: Browsed, page: Page) -> None:
    study = opened_study(browsed, "wordless", {"kind": "chat", "bots": [MUTE], "delay": "none", "min_turns": 2})
    page.go(study.link)
    agree(page)
    press_button(page, "#start-task")
    say(page, "hello", 1)
    page.type("#message", "xyzzy")
    press_enter(page)
    page.until("!document.querySelector('#failure').hidden")
    with closing(sqlite3.connect(browsed.server.home / "refaug.db")) as connection, connection:
        connection.execute("UPDATE study_messages SET state = 'unanswered' WHERE state = 'failed'")
    page.go("about:blank")
    page.go(study.link)
    page.until("document.querySelectorAll('.message.bot').length === 2")
    assert (shown_messages(page), page.text(".message.bot:last-child .faint")) == (
        ["The only thing that I can say."], "No reply",
    )  # fmt: skip
    assert "put it in other words" in page.text("#failure")
    assert page.run("document.querySelector('#other-task').getClientRects().length") == 0
    assert page.run("document.querySelector('#close-chat').disabled")
    assert "Turn 1 of at least 2" in page.text(".chat-status")
    assert accessibility_faults(page) == []
    page.type("#message", "I mean: hello")
    press_enter(page)
    page.until("document.querySelector('#other-task').getClientRects().length > 0")
    assert shown_messages(page, "participant") == ["hello", "xyzzy", "I mean: hello"]


def test_a_choice_between_two_bots_is_taken_back_and_a_pair_is_skipped(browsed: Browsed, page: Page) -> None:
    protocol = {"kind": "chat-pair", "bots": list(BOTS), "delay": "none", "per_participant": 2, "min_turns": 1}
    study = opened_study(browsed, "pairs", {**protocol, "checks": {"attention": 0}})
    page.go(study.link)
    agree(page)
    press_button(page, "#start-task")
    say(page, "hello", 2)
    press_button(page, "#close-chat")
    press_key(page, "1")
    page.until("document.querySelector('.question input:checked')")
    press_button(page, "#undo")
    page.until("!document.querySelector('.question input:checked')")
    press_button(page, "#skip")
    page.until("document.querySelector('dialog[open]')")
    press_button(page, "#skip-yes")
    page.until("!document.querySelector('#skip-problem').hidden")  # no reason is chosen for anybody
    page.run("document.querySelector('#skip-1').click()")
    press_button(page, "#skip-yes")
    press_button(page, "#start-task")
    say(page, "hello again", 2)
    press_button(page, "#close-chat")
    for key in "1212":
        press_key(page, key)
    press_button(page, "#finish")
    page.until("document.querySelector('#start-task, #code')")
    skipped, done = records(browsed, study)
    assert (skipped["state"], skipped["answers"], bool(skipped["skip_reason"])) == ("skipped", {}, True)
    assert (done["state"], done["answers"]["longer_talk"], done["answers"]["interesting"]) == ("done", "left", "right")
    assert [side["turns"][0]["text"] for side in done["sides"]] == ["hello again"] * 2
