"""The participants' page in a real browser, against the whole service: from consent to the code."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from browser import Page
from page_tests import (
    Browsed,
    accessibility_faults,
    browsing,
    hostile_texts,
    looks_right,
    overflow,
    press_enter,
    tab_to,
)
from studied import (
    BOTS,
    TRAINING,
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
TURNS = ["Where can I buy tea?", "At the market.", "Which one is good?", "The green one."]
CHAT = {"kind": "chat", "bots": list(BOTS), "delay": "none"}


@pytest.fixture(scope="module")
def browsed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browsed]:
    folder = tmp_path_factory.mktemp("take")
    with browsing(study_home(folder), folder, path="/healthz") as found:
        add_bots(found.server)
        yield found


@pytest.fixture
def device(browsed: Browsed) -> Iterator[Page]:
    """A browser of a participant's own."""
    page = browsed.page.other_device("about:blank")
    page.look(1_280)
    yield page
    assert page.said == []
    assert [one for one in page.asked if not one.startswith((browsed.address, "about:", "blob:"))] == []
    page.tell("Page.close")


def test_three_bots_from_consent_to_the_code_by_keyboard_alone(browsed: Browsed, device: Page) -> None:
    page = device
    protocol = {
        **CHAT,
        "training": TRAINING,
        "votes": True,
        "completion": {"return_url": "https://example.org/?c={code}"},
    }
    study = opened_study(browsed, "keyboard", protocol)
    page.go(study.link)
    page.until("document.querySelector('#begin')")
    looks_right(page)
    assert accessibility_faults(page, impacts=None) == []
    tab_to(page, "node.id === 'agree'", 20)
    press_key(page, " ")
    tab_to(page, "node.id === 'begin'", 5)
    press_enter(page)
    for item, key in ((1, "2"), (2, "7")):
        page.until(
            f"document.querySelector('#check') && document.querySelector('.step .faint').innerText === '{item} / 2'"
        )
        assert page.run("document.activeElement.localName") == "h1", "a new step has the focus"
        looks_right(page)
        press_key(page, key)
        tab_to(page, "node.id === 'check'", 20)
        press_enter(page)
        page.until("document.activeElement.id === 'go-on'")
        assert ("It did not answer." if item == 1 else "It did.") in page.text(".form-box [role=status]")
        press_enter(page)
    for task in range(3):
        page.until("document.querySelector('#start-task')")
        tab_to(page, "node.id === 'start-task'", 20)
        press_enter(page)
        page.until("document.querySelector('#message')")
        assert page.run("document.querySelector('#close-chat').disabled")
        for turn in range(3):
            tab_to(page, "node.id === 'message'", 20) if turn == 0 else None
            page.until("!document.querySelector('#send').disabled")
            page.tell("Input.insertText", text=f"task {task}, turn {turn}")
            press_enter(page)
            page.until(f"document.querySelectorAll('.message.bot').length === {turn + 1}")
            assert page.run(
                "document.querySelector('.message:last-child').closest('[role=log][aria-live=polite]') !== null"
            )
        looks_right(page)
        tab_to(page, "node.matches('.vote') && node.getAttribute('aria-label').startsWith('good')", 30)
        press_enter(page)
        page.until("document.querySelector('.vote[aria-pressed=true]')")
        tab_to(page, "node.id === 'close-chat'", 30)
        press_enter(page)
        page.until("document.activeElement.id === 'form-title'")
        for key in "12345":
            press_key(page, key)
        looks_right(page)
        tab_to(page, "node.id === 'finish'", 20)
        press_enter(page)
    code = page.until("document.querySelector('#code')?.textContent")
    looks_right(page)
    assert page.run("document.querySelector('#return').href") == f"https://example.org/?c={code}"
    told = records(browsed, study)
    assert [one["state"] for one in told] == ["done"] * 3
    assert sorted(one["bots"][0]["bot"] for one in told) == sorted(BOTS)
    answers = {"quality": 1, "diversity": 2, "fluency": 3, "relatedness": 4, "empathy": 5}
    for task, one in enumerate(told):
        assert one["answers"] == answers
        turns = one["sides"][0]["turns"]
        assert [turn["text"] for turn in turns if turn["role"] == "participant"] == [
            f"task {task}, turn {n}" for n in range(3)
        ]
        assert [turn["vote"] for turn in turns if turn["role"] == "bot"].count(1) == 1
    everything = "\n".join([*page.bodies("/v1/take/"), *page.bodies("/pages/"), *page.bodies("/take")])
    assert len(everything) > 50_000
    for secret in (*BOTS, *study.sha256, study.id, study.name, "replay", "latency"):
        assert secret not in everything, secret
    assert page.run("Object.keys(localStorage).filter((key) => !key.includes('.session.')).length") == 0


ITEMS: dict[str, tuple[dict[str, Any], list[dict[str, Any]], str]] = {
    "rate-dialogue": ({}, [{"id": "d1", "turns": TURNS, "bot": "zebra"}], "12345"),
    "pair-dialogue": (
        {},
        [{"id": "d1", "dialogues": [{"bot": "zebra", "turns": TURNS}, {"bot": "quokka", "turns": TURNS[:2]}]}],
        "1212",
    ),
    "pair-reply": ({}, [{"id": "r1", "turns": TURNS[:3], "replies": {"zebra": "Yes.", "quokka": "No."}}], "1212"),
    "rate-reply": ({}, [{"id": "r1", "turns": TURNS[:3], "replies": {"zebra": "Yes."}}], "4"),
    "rate-reference": ({}, [{"id": "r1", "turns": TURNS[:3], "references": ["At the market."]}], "4"),
    "label-turns": (
        {
            "form": {
                "name": "sense",
                "questions": [
                    {
                        "id": "sense",
                        "text": "Does it make sense?",
                        "type": "choice",
                        "scope": "turn",
                        "options": [{"value": "yes", "text": "yes"}, {"value": "no", "text": "no"}],
                    },
                    {
                        "id": "odd",
                        "text": "What is odd?",
                        "type": "spans",
                        "scope": "turn",
                        "options": [{"value": "wrong", "text": "wrong"}],
                    },
                ],
            }
        },
        [{"id": "d1", "turns": TURNS, "bot": "zebra"}],
        "12",
    ),
}


@pytest.mark.parametrize("kind", ITEMS)
def test_items_are_judged_by_keys_and_nothing_names_a_system(browsed: Browsed, device: Page, kind: str) -> None:
    more, items, keys = ITEMS[kind]
    study = opened_study(browsed, f"items-{kind}", {"kind": kind, "per_participant": 1, **more}, items=items)
    device.go(study.link)
    agree(device)
    press_button(device, "#start-task")
    device.until("document.querySelector('#finish')")
    assert "Where can I buy tea?" in device.text("#view")
    press_button(device, "#finish")
    device.until("document.querySelector('.question.missing') && !document.querySelector('[role=alert]').hidden")
    for key in keys:
        press_key(device, key)
    if kind == "label-turns":
        device.run("document.querySelectorAll('.unit')[0].click(); document.querySelectorAll('.unit')[2].click()")
        device.run("document.querySelector('.spans-of button').click()")
    looks_right(device)
    press_button(device, "#finish")
    device.until("document.querySelector('#code')")
    (told,) = records(browsed, study)
    assert told["state"] == "done"
    if kind == "label-turns":
        labels = [turn.get("labels") for turn in told["sides"][0]["turns"] if turn["role"] == "bot"]
        span = {"start": 0, "end": len("At the market."), "label": "wrong"}
        assert labels == [{"sense": "yes", "odd": [span]}, {"sense": "no"}]
    else:
        values = [("left", "right")[int(key) - 1] if kind.startswith("pair") else int(key) for key in keys]
        assert [told["answers"][question] for question in told["answers"]] == values or sorted(
            map(str, told["answers"].values())
        ) == sorted(map(str, values))
    everything = "\n".join(device.bodies("/v1/take/"))
    assert "zebra" not in everything
    assert "quokka" not in everything


def test_two_bots_side_by_side_hear_the_same_and_stand_below_each_other_on_a_phone(
    browsed: Browsed, device: Page
) -> None:
    protocol = {"kind": "chat-pair", "bots": list(BOTS[:2]), "delay": "none", "per_participant": 1, "min_turns": 2}
    study = opened_study(browsed, "side-by-side", protocol)
    device.go(study.link)
    agree(device)
    press_button(device, "#start-task")
    for turn in range(2):
        say(device, f"turn {turn}", 2 * turn + 2)
    places = (
        "[...document.querySelectorAll('.chat .sides > *')].map((node) => Math.round(node.getBoundingClientRect().x))"
    )
    assert len(set(device.run(places))) == 2
    device.look(380)
    assert len(set(device.run(places))) == 1
    looks_right(device)
    press_button(device, "#close-chat")
    for key in "1212":
        press_key(device, key)
    press_button(device, "#finish")
    device.until("document.querySelector('#code')")
    (told,) = records(browsed, study)
    assert [[turn["text"] for turn in side["turns"] if turn["role"] == "participant"] for side in told["sides"]] == [
        ["turn 0", "turn 1"]
    ] * 2
    assert [told["answers"][name] for name in ("longer_talk", "interesting")] == ["left", "right"]


def test_a_thousand_hostile_texts_are_shown_as_texts(browsed: Browsed, device: Page) -> None:
    texts = [text.replace("\0", "") for text in hostile_texts(1_000)]
    items = [{"id": "hostile", "turns": texts, "bot": "zebra"}]
    study = opened_study(browsed, "hostile", {"kind": "rate-dialogue", "per_participant": 1}, items=items)
    device.go(study.link)
    agree(device)
    press_button(device, "#start-task")
    device.until("document.querySelectorAll('.turns .message').length === 1000")
    shown = device.run("[...document.querySelectorAll('.turns .spoken')].map((node) => node.textContent)")
    control = {chr(code): "\ufffd" for code in (*range(9), *range(11, 32), *range(127, 160))}
    assert shown == [text.translate(str.maketrans(control)) for text in texts]
    assert device.run("window.hacked === undefined && document.querySelectorAll('main img, main svg').length === 0")
    assert overflow(device) == []


def test_what_is_pasted_is_text_and_too_much_of_it_is_said(browsed: Browsed, device: Page) -> None:
    study = opened_study(browsed, "pasted", CHAT)
    device.go(study.link)
    agree(device)
    press_button(device, "#start-task")
    device.until("document.querySelector('#message')")
    device.type("#message", "x" * 100_000)
    device.until("document.querySelector('#message-help').innerText.includes('100,000 characters')")
    assert device.run("document.querySelector('#send').disabled")
    press_enter(device)
    written = [
        "<b>bold</b><img src=x onerror='window.hacked = true'>",
        "مرحبا بكم",
        "\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f600",
    ]
    for turn, text in enumerate(written, 1):
        say(device, text, turn)
    assert shown_messages(device, "participant") == written
    assert device.run("window.hacked === undefined && document.querySelectorAll('main img').length === 0")
    directions = (
        "[...document.querySelectorAll('.message.participant .spoken')].map((node) => getComputedStyle(node).direction)"
    )
    assert device.run(directions) == ["ltr", "rtl", "ltr"]


def test_a_closed_browser_is_gone_on_from_by_the_link_of_the_start_and_the_id_opens_nothing(
    browsed: Browsed, device: Page
) -> None:
    study = opened_study(browsed, "closed-browser", CHAT)
    link = study.link.replace("#", "?PROLIFIC_PID=anna-0001#")
    device.go(link)
    device.until("document.querySelector('#keep-link')")
    device.run("document.querySelector('#keep-link').open = true")
    looks_right(device)
    kept = device.text("#start-link")
    agree(device)
    press_button(device, "#start-task")
    say(device, "the first line", 1)
    stranger = device.other_device(link)
    stranger.until("document.querySelector('#view h1') && !document.querySelector('#view[aria-busy]')")
    assert "has this id already" in stranger.text("#view")
    assert "the first line" not in "".join(stranger.bodies("/v1/take/"))
    stranger.tell("Page.close")
    device.go(link)  # in the browser that began, the cookie is enough
    device.until("document.querySelectorAll('.message.bot').length === 1")
    assert not device.run("document.querySelector('#elsewhere') !== null"), "the link was shown once"
    elsewhere = device.other_device(kept)
    elsewhere.until("document.querySelectorAll('.message.bot').length === 1")
    assert shown_messages(elsewhere, "participant") == ["the first line"]
    say(elsewhere, "the second line", 2)
    elsewhere.tell("Page.close")
    assert len(participants(browsed, study.id)) == 1


def test_another_device_goes_on_where_the_first_one_was_and_both_see_the_same(browsed: Browsed, device: Page) -> None:
    study = opened_study(browsed, "two-devices", CHAT)
    device.go(study.link)
    agree(device)
    press_button(device, "#start-task")
    say(device, "from the first", 1)
    link = device.run("location.href")
    assert link != study.link
    assert link.startswith(f"{browsed.address}/take#r.")
    other = device.other_device(link)
    other.until("document.querySelectorAll('.message.bot').length === 1")
    assert shown_messages(other) == shown_messages(device)
    say(other, "from the second", 2)
    device.type("#message", "too late")
    press_enter(device)
    device.until("document.querySelector('#note').innerText.length > 0")
    device.until("document.querySelectorAll('.message.bot').length === 2")
    assert device.run("document.querySelector('#message').value") == "too late", "what was refused is not lost"
    assert shown_messages(device, "participant") == ["from the first", "from the second"]
    assert len({one["participant"] for one in participants(browsed, study.id)}) == 1
    device.said[:] = [one for one in device.said if "409" not in one]
    assert other.said == []


def participants(browsed: Browsed, study: str) -> list[dict[str, Any]]:
    rows = browsed.server.ask("GET", f"/v1/studies/{study}/participants").json()["participants"]
    return [{"participant": row["code"], **row} for row in rows]


def test_a_reload_is_the_same_participant_with_their_drafts(browsed: Browsed, device: Page) -> None:
    study = opened_study(browsed, "reloaded", {**CHAT, "min_turns": 1})
    device.go(study.link)
    agree(device)
    device.go("about:blank")
    device.go(study.link)
    press_button(device, "#start-task")
    say(device, "first", 1)
    device.type("#message", "half a sentence")
    device.tell("Page.reload")
    device.until("document.querySelector('#message')?.value === 'half a sentence'")
    press_button(device, "#close-chat")
    press_key(device, "3")
    device.type(".question.text textarea", "a comment that is being")
    device.tell("Page.reload")
    device.until("document.querySelector('.question.text textarea')?.value === 'a comment that is being'")
    device.until("document.querySelector('.question.scale input:checked')?.value === '2'")
    assert len(participants(browsed, study.id)) == 1


def test_the_page_waits_for_a_server_that_is_killed_and_goes_on(browsed: Browsed, device: Page) -> None:
    study = opened_study(browsed, "killed", CHAT)
    device.go(study.link)
    agree(device)
    press_button(device, "#start-task")
    say(device, "before", 1)
    browsed.server.kill("web")
    device.type("#message", "while it is away")
    press_enter(device)
    device.until("document.querySelectorAll('.message.bot').length === 2")
    device.until("document.querySelector('#connection').hidden")
    say(device, "after", 3)
    assert shown_messages(device, "participant") == ["before", "while it is away", "after"]
    assert len(set(shown_messages(device))) == 3
    device.said[:] = [one for one in device.said if "Failed to load resource" not in one]


def test_a_lost_connection_is_said_kindly_and_answers_are_sent_later(browsed: Browsed, device: Page) -> None:
    study = opened_study(browsed, "offline", {**CHAT, "min_turns": 1, "per_participant": 1})
    device.go(study.link)
    agree(device)
    press_button(device, "#start-task")
    say(device, "hello", 1)
    press_button(device, "#close-chat")
    network = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    device.tell("Network.emulateNetworkConditions", offline=True, **network)
    for key in "12345":
        press_key(device, key)
    device.until("document.querySelector('#connection').innerText.includes('Nothing that you did is lost')")
    assert device.run("Object.keys(localStorage).filter((key) => key.includes('.out.')).length") == 5
    device.tell("Network.emulateNetworkConditions", offline=False, **network)
    device.until("document.querySelector('#connection').hidden")
    press_button(device, "#finish")
    device.until("document.querySelector('#code')")
    (told,) = records(browsed, study)
    assert told["answers"] == {"quality": 1, "diversity": 2, "fluency": 3, "relatedness": 4, "empathy": 5}
    device.said[:] = [one for one in device.said if "Failed to load resource" not in one]


def test_answers_are_taken_back_tasks_are_skipped_and_people_withdraw(browsed: Browsed, device: Page) -> None:
    study = opened_study(browsed, "leaving", {**CHAT, "min_turns": 1})
    device.go(study.link)
    agree(device)
    press_button(device, "#start-task")
    say(device, "something private", 1)
    press_button(device, "#close-chat")
    press_key(device, "5")
    device.until("document.querySelector('#undo')")
    assert device.run("document.querySelector('.question.scale input:checked').value") == "4"
    press_button(device, "#undo")
    device.until("document.querySelector('.question.scale input:checked') === null")
    press_button(device, "#my-data")
    device.until("document.querySelector('#own-data')")
    assert accessibility_faults(device) == []
    device.press("Escape", 27)
    device.until("document.querySelector('dialog') === null")
    press_button(device, "#skip")
    device.until("document.querySelector('dialog[open]')")
    looks_right(device)
    device.run("document.querySelector('#skip-other').value = 'too private'")
    press_button(device, "#skip-yes")
    device.until("document.querySelector('#start-task')")
    (told,) = records(browsed, study)
    assert (told["state"], told["skip_reason"]) == ("skipped", "too private")
    for width in (390, 1_280):
        device.look(width)
        apart = device.run(
            "((all) => all.filter((node) => node.id !== 'withdraw').every((node) => { const [one, other] ="
            " [node, document.querySelector('#withdraw')].map((each) => each.getBoundingClientRect());"
            " return other.left - one.right > 48 || other.top - one.bottom > 16; }))"
            "([...document.querySelectorAll('#take-foot button')])"
        )
        assert apart, "nobody withdraws by a slip of the finger"
    press_button(device, "#withdraw")
    press_button(device, "#dialog-yes")
    device.until("document.querySelector('h1').innerText === 'You have withdrawn'")
    assert records(browsed, study) == []
    assert "something private" not in device.run("JSON.stringify({...localStorage})")


def test_a_long_chat_can_be_closed_without_scrolling_and_stands_in_the_middle(browsed: Browsed, device: Page) -> None:
    study = opened_study(browsed, "long", {**CHAT, "min_turns": 1})
    device.look(390, 844)
    device.go(study.link)
    agree(device)
    press_button(device, "#start-task")
    inviting = "['close-chat', 'send'].map((id) => document.getElementById(id).classList.contains('primary'))"
    device.until("document.querySelector('#close-chat')?.disabled")
    assert device.run(inviting) == [False, True], "nothing was said yet"
    for turn in range(8):
        say(device, f"a message of some length, number {turn}, so that the conversation needs room", turn + 1)
    device.until("document.querySelector('#close-chat')?.disabled === false")
    assert device.run(inviting) == [True, False], "enough was said"
    assert "Enough to rate it" in device.text(".chat-status")
    for width, height in ((390, 844), (1_440, 900)):
        device.look(width, height)
        device.run("window.scrollTo(0, 200)")
        top, bottom, high = device.run(
            "((box) => [box.top, box.bottom, document.documentElement.scrollHeight])"
            "(document.querySelector('#close-chat').getBoundingClientRect())"
        )
        assert high > height, "the conversation is longer than the window"
        assert 0 <= top < bottom <= height
        left, right = device.run(
            "((boxes) => [Math.min(...boxes.map((box) => box.left)),"
            " document.documentElement.clientWidth - Math.max(...boxes.map((box) => box.right))])"
            "(['.chat', '.guidelines'].map((part) => document.querySelector(part).getBoundingClientRect()))"
        )
        assert abs(left - right) <= 1
        beside = device.run(
            "((chat, text) => text.left >= chat.right && text.bottom <= innerHeight)"
            "(...['.chat', '.guidelines'].map((part) => document.querySelector(part).getBoundingClientRect()))"
        )
        assert beside is (width == 1_440), "where there is room, what to do stands beside the chat"
    looks_right(device)


def test_links_that_open_nothing_are_answered_kindly(browsed: Browsed, device: Page) -> None:
    device.go(f"{browsed.address}/take")
    device.until("document.querySelector('h1')?.innerText === 'This link does not open a study'")
    assert "link of an invitation" in device.text("#view")
    device.go(f"{browsed.address}/take#" + "A" * 32)
    device.until("document.querySelector('#view')?.innerText.includes('Copy the whole link')")
    looks_right(device)
    device.said[:] = [one for one in device.said if "Failed to load resource" not in one]


def test_the_page_speaks_german_and_holds_the_first_page_below_100_kb(browsed: Browsed, device: Page) -> None:
    study = opened_study(browsed, "german", {**CHAT, "language": "de"})
    device.go(study.link.replace("/take#", "/take?lang=de#"))
    device.until("document.querySelector('#begin')?.innerText === 'Beginnen'")
    assert device.run("document.documentElement.lang") == "de"
    assert sum(device.sizes.values()) < 100_000
