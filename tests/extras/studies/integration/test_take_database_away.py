"""The participants' page in a real browser, while the database of the service goes away in the middle of a chat."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
UNSENT = "Object.keys(localStorage).filter((key) => key.includes('.out.')).length"
SAID = ["before", "while it is away", "and once more", "after"]


@pytest.fixture
def browsed(tmp_path: Path) -> Iterator[Browsed]:
    with browsing(study_home(tmp_path), tmp_path, path="/healthz") as found:
        add_bots(found.server)
        yield found


@contextmanager
def without_database(browsed: Browsed) -> Iterator[None]:
    """Move the file of the database away, and back; nothing makes another one in its place meanwhile."""
    file = browsed.server.home / "refaug.db"
    aside = file.with_name("aside.db")
    file.rename(aside)
    try:
        browsed.server.until(lambda: browsed.server.client.get("/v1/studies").status_code == 503, "the database to go")
        yield
    finally:
        assert not file.exists()
        aside.rename(file)


def send(page: Page, text: str) -> None:
    """Write a message and send it, whatever becomes of it."""
    page.type("#message", text)
    page.until("!document.querySelector('#send').disabled")
    press_enter(page)


def is_said(page: Page) -> None:
    """Wait until the page says that it waits, and that nothing is lost."""
    page.until("document.querySelector('#connection')?.innerText.includes('Nothing that you did is lost')")


def test_the_page_waits_for_the_database_and_loses_neither_what_was_sent_nor_what_was_typed(browsed: Browsed) -> None:
    protocol = {"kind": "chat", "bots": [BOTS[0]], "delay": "none", "min_turns": 4}
    study = opened_study(browsed, "away", {**protocol, "per_participant": 1})
    page = browsed.page.other_device("about:blank")
    page.look(1_280)
    page.go(study.link)
    agree(page)
    press_button(page, "#start-task")
    say(page, SAID[0], 1)

    with without_database(browsed):
        send(page, SAID[1])
        is_said(page)
        assert (page.run(UNSENT), page.text(".message.pending .spoken")) == (1, SAID[1])
        page.type("#message", "half a sentence")
        assert accessibility_faults(page) == []
    page.until("document.querySelectorAll('.message.bot').length === 2")
    page.until("document.querySelector('#connection').hidden")
    assert page.run("document.querySelector('#message').value") == "half a sentence"

    with without_database(browsed):
        send(page, SAID[2])
        is_said(page)
        page.type("#message", "the other half")
        page.run("window.isBefore = true")
        page.tell("Page.reload")
        page.until("window.isBefore === undefined")
        is_said(page)
        assert page.run(UNSENT) == 1
    page.until("document.querySelectorAll('.message.bot').length === 3")
    page.until("document.querySelector('#connection').hidden")
    assert page.run("document.querySelector('#message').value") == "the other half"
    say(page, SAID[3], 4)

    assert (shown_messages(page, "participant"), page.run(UNSENT)) == (SAID, 0)
    press_button(page, "#close-chat")
    for key in "12345":
        press_key(page, key)
    press_button(page, "#finish")
    page.until("document.querySelector('#code')")
    (task,) = records(browsed, study)
    turns = task["sides"][0]["turns"]
    assert [turn["text"] for turn in turns if turn["role"] == "participant"] == SAID
    assert len({turn["text"] for turn in turns if turn["role"] == "bot"}) == 4
    assert [fault for fault in page.said if "Failed to load resource" not in fault] == []
