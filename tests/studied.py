"""Studies for tests of the pages: bots that reply from lists, a study that is open, and a participant's hands."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from browser import Page
from page_tests import Browsed, press_enter
from servers import Served
from serving import migrated

from refaug.core.home import Settings

CONSENT: Final = "# About this study\n\nYou talk with chatbots.\n\n- You may stop at any time."
GUIDELINES: Final = "# What to do\n\nWrite at least three lines."
BOTS: Final = ("zebra-bm25", "quokka-neural", "narwhal-http")
TRAINING: Final[Mapping[str, Any]] = {
    "items": [
        {"turns": ["Hi!", "The bus is blue."], "answers": {"quality": [1, 2]}, "feedback": "It did not answer."},
        {"turns": ["Hi!", "Hello, how are you?"], "answers": {"quality": [6, 7]}, "feedback": "It did."},
    ],
    "attempts": 2,
    "least": 1,
}


@dataclass(frozen=True)
class Invited:
    """A study that is open, and the link of its invitation."""

    id: str
    name: str
    link: str
    sha256: tuple[str, ...]  # of its protocol and its bots


def study_home(folder: Path) -> Path:
    """A home with tables and nothing in them."""
    home = folder / "home"
    home.mkdir()
    migrated(Settings(home=home))
    return home


def add_bots(server: Served, names: Sequence[str] = BOTS, count: int = 40) -> None:
    """Store bots that reply from lists."""
    for name in names:
        replies = [f"Reply number {number}, in the words of bot {len(name)}." for number in range(count)]
        order = {"specification": {"kind": "replay", "replies": replies}}
        answer = server.ask("PUT", f"/v1/bots/{name}", json=order)
        assert answer.status_code == 201, answer.text


def opened_study(
    browsed: Browsed, name: str, protocol: Mapping[str, Any], *, items: Sequence[Any] = (), **invite: Any
) -> Invited:
    """Make a study, open it, and invite to it."""
    server = browsed.server
    whole = {"consent": CONSENT, "guidelines": GUIDELINES, **protocol}
    order = {"name": name, "protocol": whole, **({"items": list(items)} if items else {})}
    made = server.ask("POST", "/v1/studies", json=order)
    assert made.status_code == 201, made.text
    study = made.json()["id"]
    opened = server.ask("POST", f"/v1/studies/{study}/open")
    assert opened.status_code == 200, opened.text
    link = invited(browsed, study, **invite)
    hashes = [opened.json()["protocol_sha256"], *(bot["sha256"] for bot in opened.json()["bots"] if bot["sha256"])]
    return Invited(id=study, name=name, link=link, sha256=tuple(hashes))


def invited(browsed: Browsed, study: str, **invite: Any) -> str:
    """Return a new link to a study."""
    answer = browsed.server.ask("POST", f"/v1/studies/{study}/invites", json=invite)
    return f"{browsed.address}/take#{answer.json()['invites'][0]['token']}"


def records(browsed: Browsed, study: Invited) -> list[dict[str, Any]]:
    """Return the tasks of a study as they are exported."""
    lines = browsed.server.ask("GET", f"/v1/studies/{study.id}/export").text.splitlines()
    return [json.loads(line) for line in lines]


# ── what a participant does ───────────────────────────────────────────────────────────────────────────────────────────


def press_key(page: Page, key: str) -> None:
    """Press a key that writes a character where the focus is in a field."""
    about = {"key": key, "text": key, "windowsVirtualKeyCode": ord(key.upper())}
    page.tell("Input.dispatchKeyEvent", type="keyDown", **about)
    page.tell("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=ord(key.upper()))


def press_button(page: Page, selector: str) -> None:
    """Press a button by the Enter key, as soon as it can be."""
    named = json.dumps(selector)
    page.until(
        f"((node) => node && !node.disabled && node.getClientRects().length > 0)(document.querySelector({named}))"
    )
    page.run(f"document.querySelector({named}).focus()")
    press_enter(page)


def agree(page: Page, then: str = "#start-task") -> None:
    """Give consent."""
    page.until("document.querySelector('#begin')")
    page.run("document.querySelector('#agree').focus()")
    press_key(page, " ")
    press_button(page, "#begin")
    page.until(f"document.querySelector('{then}')")


def say(page: Page, text: str, replies: int) -> None:
    """Write a message and send it; return when so many replies are shown."""
    page.until("document.querySelector('#message')")
    page.type("#message", text)
    page.until("!document.querySelector('#send').disabled")
    press_enter(page)
    page.until(f"document.querySelectorAll('.message.bot').length === {replies}")


def shown_messages(page: Page, role: str = "bot") -> list[str]:
    """Return the texts that are shown of one role."""
    texts: list[str] = page.run(
        f"[...document.querySelectorAll('.message.{role} .spoken')].map((node) => node.textContent)"
    )
    return texts
