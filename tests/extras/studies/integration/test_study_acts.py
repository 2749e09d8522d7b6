"""A first study with two bots by mouse and keyboard alone: how many acts it takes, from a home with an index on.

An act is a click or a field that is filled in. Nothing is typed that is JSON, and no command is run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

import numpy as np
import pytest
from browser import Page
from indexes import build, home_of, pairs_of
from page_tests import Browsed, browsing, looks_right, press
from studied import CONSENT, agree, press_button, say, study_home

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.home import Settings
from refaug.core.text.tokenizers import get_tokenizer

pytestmark = [pytest.mark.machine, pytest.mark.slow]
MOST_ACTS: Final = 25
TWO: Final = ("by-meaning", "by-words")
SAID: Final = (
    ("What about the bus?", "It leaves at noon."),
    ("What is this number?", "It is that of the house."),
    ("What about the rain?", "It ends on Sunday."),
    ("Is this the right number?", "No, but never mind."),
)
_ANSWER: Final = """document.querySelectorAll('.question').forEach((question, place) => {
  const inputs = [...question.querySelectorAll('input')], words = question.innerText;
  const named = inputs.find((input) => words.split(input.labels[0].innerText.trim()).length > 2);
  (inputs.length > 5 ? inputs[3 + place % 3] : named ?? inputs[0])?.click();
}); 1"""  # four to six of seven; what a check of attention asks for stands in its question and in one of its options


class Researcher:
    """Somebody at a page, whose acts are counted."""

    def __init__(self, page: Page) -> None:
        self.page, self.acts = page, list[str]()

    def press(self, text: str, within: str = "main") -> None:
        """Press a button or follow a link."""
        self.acts.append(f"press {text}")
        press(self.page, text, within)

    def follow(self, selector: str) -> None:
        self.acts.append(f"follow {selector}")
        self.page.until(f"document.querySelector({json.dumps(selector)})?.getClientRects().length")
        self.page.run(f"document.querySelector({json.dumps(selector)}).click()")

    def fill(self, selector: str, text: str) -> None:
        """Fill in a field, or choose of a list."""
        self.acts.append(f"fill {selector}")
        self.page.until(f"document.querySelector({json.dumps(selector)})?.getClientRects().length")
        self.page.run(
            f"((node) => {{ node.value = {json.dumps(text)};"
            " for (const type of ['input', 'change']) node.dispatchEvent(new Event(type, {bubbles: true}));"
            f" }})(document.querySelector({json.dumps(selector)}))"
        )

    def confirm(self, text: str) -> None:
        self.page.until("document.querySelector('#question').open")
        self.press(text, "#question")
        self.page.until("!document.querySelector('#question').open")


@pytest.fixture(scope="module")
def browsed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browsed]:
    folder = tmp_path_factory.mktemp("acts")
    home = study_home(folder)
    words = sorted({word for pair in SAID for text in pair for word in get_tokenizer("word").tokenize(text)})
    rows = np.random.default_rng(1).standard_normal((len(words), 6)).astype(np.float32)
    places = home_of(home, pairs_of(*SAID), dict(zip(words, rows.tolist(), strict=True)))
    version = build(places)
    artefact_stores(Settings(home=home))["index"].publish("chat", version)
    with browsing(home, folder, path="/healthz") as found:
        yield found
        assert found.page.said == []


def take_part(person: Page) -> None:
    """Do everything that a participant is asked for, on a phone."""
    person.look(390)
    agree(person)
    while person.until("document.querySelector('#start-task, #code')?.id") == "start-task":
        press_button(person, "#start-task")
        for turn in range(3):
            say(person, f"What about this, number {turn}?", turn + 1)
        press_button(person, "#close-chat")
        person.until("document.querySelector('.question')?.getClientRects().length")
        person.run(_ANSWER)
        press_button(person, "#finish")
        person.until(
            "document.querySelector('#code') || document.querySelector('#start-task')?.getClientRects().length"
        )
    assert person.said == []


def test_a_first_study_takes_at_most_25_acts(browsed: Browsed) -> None:
    page = browsed.page
    page.go(f"{browsed.address}/")
    page.until("document.querySelector('nav a[href$=studies]')")
    researcher = Researcher(page)
    researcher.follow("nav a[href$=studies]")
    researcher.follow("#to-new")
    researcher.fill("#study-title", "Talking with machines")
    researcher.press("Next")
    page.until("document.querySelector('#study-bots .empty-title')")
    looks_right(page)
    researcher.press("Add two that reply from chat")
    page.until(f"document.querySelectorAll('#study-bots input:checked').length === {len(TWO)}")
    page.until("document.activeElement.matches('#study-bots input')")
    researcher.fill("#study-delay", "none")
    researcher.press("Next")
    researcher.press("Next")
    researcher.fill("#study-consent", CONSENT)
    researcher.follow("details:has(#exclude-fast) > summary")
    researcher.follow("#exclude-fast")  # scripted people answer at once
    researcher.press("Next")
    page.until("document.querySelector('#new-preview')?.innerText.includes('You talk with chatbots')")
    assert page.text("#study-missing").startswith("Nothing is missing")
    looks_right(page)
    researcher.press("Make the draft")
    researcher.press("Open it")
    researcher.confirm("Open it")
    page.until("document.querySelector('#act-close')")
    researcher.press("Links", "[role=tablist]")
    researcher.press("Make links")
    link = page.until("document.querySelector('#new-links .link')?.textContent")
    for _ in range(3):
        take_part(page.other_device(link))
    researcher.press("Overview", "[role=tablist]")
    researcher.press("Close it")
    researcher.confirm("Close it")
    page.until("document.querySelector('#remove-study')")
    researcher.press("Report", "[role=tablist]")
    page.until("document.querySelector('#report h3')")
    assert "6 tasks of 3 participants are done" in page.text("#report")
    assert "Too few: 3 participants counted" in page.text("#too-few")
    assert "fewer than 6 people" in page.text("#few-participants")
    assert page.run("[...document.querySelectorAll('#report td')].every((cell) => cell.textContent !== '–')")
    looks_right(page)
    assert len(researcher.acts) <= MOST_ACTS, researcher.acts

    study = browsed.server.ask("GET", "/v1/studies/talking-with-machines").json()
    assert (study["state"], sorted(study["protocol"]["bots"])) == ("closed", sorted(TWO))
    page.go(f"{browsed.address}/studies#new=copy:{study['id']}")
    page.until("document.querySelector('#study-name')?.value === 'talking-with-machines-copy'")
    page.until("!document.querySelector('#new-study').hasAttribute('aria-busy')")
    copied = json.loads(page.run("document.querySelector('#protocol-text').textContent"))
    made = browsed.server.ask("POST", "/v1/studies", json={"name": "again", "protocol": copied})
    frozen = {"bot_hashes", "items_sha256"}
    assert made.json()["protocol"] == {name: part for name, part in study["protocol"].items() if name not in frozen}
