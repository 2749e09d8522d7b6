"""The page of bots in a real browser: each kind is added by the form, tried, talked with, watched, changed, removed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from endpoints import FakeEndpoint, Received, Sent, endpoint, vllm
from page_tests import Browsed, accessibility_faults, asking_for_keys, browsing, looks_right, press, wait_until_quiet
from safeguards import has_extra
from serving import small_home

from refaug.core.home import Settings
from refaug.service.database.database import Database
from refaug.service.keys import KeyStore
from refaug.service.scopes import Scope

pytestmark = [pytest.mark.machine, pytest.mark.slow]
REPLAY = {"kind": "replay", "replies": ["Hello there.", "Tell me more."]}
HOSTILE = "<img src=x onerror='window.hacked = true'>"


def answer_of(received: Received) -> Any:
    if "turns" in received.body:
        return {"reply": f"Turn {len(received.body['turns'])}."}
    return Sent(status=500) if "fail" in received.prompt else vllm(received.prompt.upper())


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return small_home(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def fake() -> Iterator[FakeEndpoint]:
    with endpoint(answer_of) as found:
        yield found


@pytest.fixture(scope="module")
def browsed(home: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browsed]:
    folder = tmp_path_factory.mktemp("browser")
    with browsing(home.home, folder, "--bot-hosts", "127.0.0.1", path="/keys") as found:
        yield found


@pytest.fixture
def page(browsed: Browsed) -> Iterator[Any]:
    for bot in browsed.server.ask("GET", "/v1/bots").json()["bots"]:
        browsed.server.ask("DELETE", f"/v1/bots/{bot['name']}")
    shown(browsed, "")
    browsed.page.said.clear()
    browsed.page.asked.clear()
    yield browsed.page
    assert browsed.page.said == []
    assert [one for one in browsed.page.asked if not one.startswith((browsed.address, "data:"))] == []


def shown(browsed: Browsed, fragment: str) -> Any:
    """The page under an address, loaded anew."""
    browsed.page.go(f"{browsed.address}/keys")
    browsed.page.go(f"{browsed.address}/bots{fragment}")
    wait_until_quiet(browsed.page)
    return browsed.page


def fill(page: Any, fields: dict[str, str]) -> None:
    for field, text in fields.items():
        find = f"document.querySelector('#bot-{field}')"
        page.until(f"Boolean({find})")
        page.run(
            f"(() => {{ const node = {find}; node.value = {json.dumps(text)};"
            " node.dispatchEvent(new Event('input')); })()"
        )


def added(page: Any, kind: str, fields: dict[str, str]) -> None:
    """Fill the form of a kind and send it."""
    page.run("location.hash = 'new'")
    page.until("document.querySelector('#bot-form')")
    page.run(f"document.querySelector('[name=kind][value={kind}]').click()")
    if kind in ("retrieval", "neural"):
        page.until("!document.querySelector('#bot-form select').textContent.includes('asking')")
    fill(page, fields)
    press(page, "Add the bot")


def put(browsed: Browsed, name: str, specification: dict[str, Any]) -> None:
    answer = browsed.server.ask("PUT", f"/v1/bots/{name}", json={"specification": specification})
    assert answer.status_code in (200, 201), answer.text


def say(page: Any, text: str) -> None:
    page.type("#talk-text", text)
    press(page, "Send")
    page.until(f"document.querySelector('.talk').innerText.includes({json.dumps(text)})")
    page.until("!document.querySelector('.waiting') && !document.querySelector('#talk-send').disabled")


def test_an_empty_page_invites_to_add_a_bot_and_looks_right(page: Any) -> None:
    page.until("document.querySelector('.empty-title')")
    assert page.run("document.querySelectorAll('.kind-card').length") == 4
    looks_right(page)
    page.run("document.querySelector('.kind-card[href=\"#new=retrieval\"]').click()")
    page.until("document.querySelector('[name=kind][value=retrieval]')?.checked")
    looks_right(page)
    assert accessibility_faults(page, impacts=None) == []


def test_each_kind_is_added_by_its_form(browsed: Browsed, page: Any, fake: FakeEndpoint) -> None:
    forms = {
        "retrieval": {"name": "near", "mode": "bm25-utterance"},
        "openai": {"name": "model", "url": fake.url, "model": "small", "price-input": "2", "parameters": "top_p = 0.9"},
        "http": {"name": "own", "url": fake.url},
        "replay": {"name": "fixed", "replies": "Hello there.\n\nTell me more.\n"},
        "degraded": {"name": "worse", "bot": "fixed", "share": "0.25"},
    }
    for kind, fields in forms.items():
        added(page, kind, fields)
        page.until(f"document.querySelector('#bot-title')?.textContent === '{fields['name']}'")
    bots = {bot["name"]: bot for bot in browsed.server.ask("GET", "/v1/bots").json()["bots"]}
    assert {name: bot["kind"] for name, bot in bots.items()} == {fields["name"]: kind for kind, fields in forms.items()}
    assert bots["near"]["specification"]["index"].startswith("chat@20")
    expected = {"kind": "openai", "url": fake.url, "model": "small"}
    assert bots["model"]["specification"] == {**expected, "price": {"input": 2}, "parameters": {"top_p": 0.9}}
    assert bots["fixed"]["specification"] == REPLAY
    assert bots["worse"]["specification"]["bot"] == {**REPLAY, "name": "fixed"}
    page.run("location.hash = ''")
    page.until("document.querySelectorAll('#bot-table tbody tr').length === 5")
    looks_right(page)


@pytest.mark.parametrize(
    ("kind", "fields", "field", "words"),
    [
        ("openai", {"name": "Big"}, "name", "is not a name"),
        ("openai", {"name": "far", "url": "http://192.0.2.1/v1", "model": "a"}, "url", "list of allowed hosts"),
        ("openai", {"name": "far", "url": "nowhere", "model": "a"}, "url", "not an address of http or https"),
        ("openai", {"name": "far", "url": "http://127.0.0.1/v1"}, "model", "a text was expected"),
        (
            "http",
            {"name": "far", "url": "http://127.0.0.1/", "key-env": "REFAUG_DATABASE"},
            "key-env",
            "something else than the key of a bot",
        ),
        ("retrieval", {"name": "far", "pick": "any"}, "pick", "neither top nor sample"),
        ("replay", {"name": "far"}, "replies", "a list of texts was expected"),
        ("degraded", {"name": "far"}, "bot", "a bot of another kind was expected"),
        ("neural", {"name": "far"}, "vhred", "a text was expected"),
    ],
)
def test_what_is_wrong_stands_beside_its_field(
    page: Any, kind: str, fields: dict[str, str], field: str, words: str
) -> None:
    added(page, kind, fields)
    page.until(f"document.querySelector('#bot-{field}-fault')")
    assert words in page.text(f"#bot-{field}-fault")
    assert page.run(f"document.activeElement.id === 'bot-{field}'")
    described = f"document.querySelector('#bot-{field}').getAttribute('aria-describedby').includes('bot-{field}-fault')"
    assert page.run(described)
    assert page.text("#bot-problem") == ""
    assert accessibility_faults(page, impacts=None) == []
    page.said[:] = [one for one in page.said if "422" not in one and "403" not in one]


def test_a_name_that_is_taken_changes_nothing(browsed: Browsed, page: Any) -> None:
    put(browsed, "fixed", REPLAY)
    shown(browsed, "#new=replay")
    fill(page, {"name": "fixed", "replies": "Other."})
    press(page, "Add the bot")
    page.until("document.querySelector('#bot-name-fault')?.innerText.includes('already')")
    assert browsed.server.ask("GET", "/v1/bots/fixed").json()["specification"] == REPLAY


def test_a_conversation_goes_on_and_shows_what_was_retrieved(browsed: Browsed, page: Any) -> None:
    put(browsed, "near", {"kind": "retrieval", "index": "chat", "mode": "bm25-utterance"})
    put(browsed, "fixed", REPLAY)
    shown(browsed, "#bot=near")
    page.until("document.querySelector('#talk')")
    page.run(
        "(() => { const other = document.querySelector('#talk-beside'); other.value = 'fixed';"
        " other.dispatchEvent(new Event('change')); })()"
    )
    for text in ("Where do you buy tea?", "zzqx", HOSTILE):
        say(page, text)
    columns = page.run("[...document.querySelectorAll('.talk')].map((one) => one.innerText)")
    assert "No reply: the index knows no word of the message." in columns[0]
    assert ["Hello there." in columns[1], "Tell me more." in columns[1]] == [True, True]
    assert "its fixed replies have come to an end" in columns[1]
    first = page.text(".talk .said.bot .user-text")
    page.run("document.querySelector('.retrieved').open = true")
    assert first in page.text(".retrieved .chosen")
    assert "similar · answered" in page.text(".retrieved .chosen")
    assert page.run("window.hacked === undefined && document.querySelectorAll('main img').length === 0")
    page.until("document.querySelector('#spending').innerText.includes('Requests')")
    looks_right(page)
    press(page, "Start again")
    page.until("document.querySelector('.talk-empty')")


def test_a_check_says_what_fails_and_the_last_failure_stays_with_its_time(
    browsed: Browsed, page: Any, fake: FakeEndpoint
) -> None:
    price = {"input": 1_000.0, "output": 10_000.0, "currency": "EUR"}
    put(browsed, "model", {"kind": "openai", "url": fake.url, "model": "watched", "tries": 1, "price": price})
    shown(browsed, "#bot=model")
    assert "not asked yet" in page.text("#health")
    press(page, "Check now")
    page.until("document.querySelector('#check-outcome').innerText.includes('It replied in')")
    assert ["replies" in page.text("#health"), "0.1600 EUR" in page.text("#spending")] == [True, True]
    say(page, "please fail")
    assert "the endpoint answered with an error of its own" in page.text(".talk")
    page.until("document.querySelector('#health .badge').innerText.includes('failing')")
    assert "status 500" in page.text("#health")
    assert "1 of 2 requests" in page.text("#health")
    looks_right(page)
    shown(browsed, "")
    row = page.text("#bot-table tbody tr")
    assert ["failing" in row, "0.16" in row] == [True, True]
    assert "1,000,000" in page.text(".day-limit")


def test_a_bot_is_changed_and_what_the_form_does_not_know_stays(
    browsed: Browsed, page: Any, fake: FakeEndpoint
) -> None:
    budget = {"tokens": 5_000}
    put(browsed, "model", {"kind": "openai", "base_url": fake.url, "model": "small", "budget": budget})
    put(browsed, "fixed", REPLAY)
    shown(browsed, "#bot=fixed")
    page.run("document.querySelector('#bot-change').click()")
    page.until("document.querySelector('#bot-form')")
    assert page.run("document.querySelector('#bot-replies').value") == "Hello there.\nTell me more."
    page.run("document.querySelector('#bot-cycle').click()")
    press(page, "Save the change")
    page.until("document.querySelector('#bot-title')")
    assert browsed.server.ask("GET", "/v1/bots/fixed").json()["specification"] == {**REPLAY, "cycle": True}
    page.run("location.hash = 'change=model'")
    page.until("document.querySelector('#bot-budget-tokens')?.value === '5000'")
    assert page.run("document.querySelector('#bot-url').value") == fake.url, "`base_url` is another word for it"


@pytest.mark.parametrize(
    ("fragment", "field", "shown_by"),
    [("#new=replay", "#bot-replies", "#bot-form"), ("#bot=fixed", "#talk-text", "#talk .said.bot")],
)
def test_what_is_under_way_outlives_a_lost_connection_and_another_key(
    browsed: Browsed, page: Any, fragment: str, field: str, shown_by: str
) -> None:
    put(browsed, "fixed", REPLAY)
    shown(browsed, fragment)
    page.until(f"document.querySelector('{field}')")
    if fragment == "#bot=fixed":
        say(page, "Hi!")
    page.type(field, "Half a")
    page.run("window.kept = document.querySelector('main h1'); 1")
    reload = (
        "window.loads = performance.getEntriesByType('resource').filter((one) => one.name.includes('bot-use')).length;"
        " import(performance.getEntriesByType('resource').find((one) => one.name.includes('/api.js')).name)"
        ".then(({ key }) => key.set(''))"
    )
    is_loaded = (
        "performance.getEntriesByType('resource').filter((one) => one.name.includes('bot-use')).length > window.loads"
    )
    page.run(reload)
    page.until(is_loaded)
    page.run("window.there = fetch; window.fetch = () => Promise.reject(new TypeError('lost')); 1")
    page.run(reload)
    page.until("!document.querySelector('#connection').hidden")
    assert page.run("window.kept.isConnected")
    page.run("window.fetch = window.there; 1")
    page.until(is_loaded)
    page.until("document.querySelector('#connection').hidden")
    wait_until_quiet(page)
    assert page.run("window.kept.isConnected")
    assert page.run(f"document.querySelector('{field}').value") == "Half a"
    assert page.run(f"document.querySelector('{shown_by}') !== null")


def test_a_number_that_is_none_and_lines_with_breaks_are_not_lost(
    browsed: Browsed, page: Any, fake: FakeEndpoint
) -> None:
    model = {"kind": "openai", "url": fake.url, "model": "small", "budget": {"tokens": 5_000}}
    put(browsed, "model", model)
    shown(browsed, "#change=model")
    page.until("document.querySelector('#bot-budget-tokens')")
    page.type("#bot-budget-tokens", "5e")
    press(page, "Save the change")
    page.until("document.querySelector('#bot-budget-tokens-fault')")
    assert "a number was expected" in page.text("#bot-budget-tokens-fault")
    assert browsed.server.ask("GET", "/v1/bots/model").json()["specification"] == model
    broken = {"kind": "replay", "replies": ["Hello\nthere.", "Tell me more."]}
    put(browsed, "broken", broken)
    shown(browsed, "#change=broken")
    page.until("document.querySelector('#bot-replies')?.disabled")
    assert "have line breaks" in page.text("#bot-replies-help")
    page.run("document.querySelector('#bot-cycle').click()")
    press(page, "Save the change")
    page.until("document.querySelector('#bot-title')")
    assert browsed.server.ask("GET", "/v1/bots/broken").json()["specification"] == {**broken, "cycle": True}


def test_a_bot_without_a_reply_so_far_is_not_called_unasked(browsed: Browsed, page: Any) -> None:
    put(browsed, "silent", {"kind": "retrieval", "index": "chat", "mode": "bm25-utterance"})
    shown(browsed, "#bot=silent")
    say(page, "zzqx")
    page.until("document.querySelector('#health .badge').innerText === 'no reply yet'")
    shown(browsed, "")
    assert ["no reply yet" in page.text("#bot-table"), "never" in page.text("#bot-table")] == [True, False]


def test_bots_are_shown_where_their_figures_cannot_be_read(browsed: Browsed, page: Any) -> None:
    put(browsed, "fixed", REPLAY)
    shown(browsed, "")
    page.run(
        "(() => { const before = fetch; window.fetch = (path, ...more) => String(path).includes('bot-use')"
        " ? Promise.resolve(new Response('no', { status: 500 })) : before(path, ...more); })()"
    )
    page.run("location.hash = 'bot=fixed'")
    press(page, "Check now")
    page.until("document.querySelector('#page-problem').innerText.includes('status 500')")
    assert page.run("!document.querySelector('#bot-check').disabled")
    assert "It replied in" in page.text("#check-outcome")


@pytest.mark.skipif(not has_extra("studies"), reason="an extra was removed")
def test_a_draft_uses_the_bot_of_its_check(browsed: Browsed, page: Any) -> None:
    put(browsed, "fixed", REPLAY)
    put(browsed, "worse", {"kind": "degraded", "bot": "fixed"})
    protocol = {
        "kind": "chat",
        "title": "Talks",
        "bots": ["fixed"],
        "checks": {"degraded": "worse"},
        "consent": "# About\n\nYou chat with a program.",
        "guidelines": "# What to do\n\nChat.",
    }
    made = browsed.server.ask("POST", "/v1/studies", json={"name": "checked", "protocol": protocol})
    assert made.status_code == 201, made.text
    shown(browsed, "#bot=worse")
    page.until("document.querySelector('#user-list').innerText.includes('checked')")
    browsed.server.ask("DELETE", f"/v1/studies/{made.json()['id']}")


@pytest.mark.skipif(not has_extra("studies"), reason="an extra was removed")
def test_removing_says_which_study_uses_the_bot_and_asks_for_its_name(browsed: Browsed, page: Any) -> None:
    put(browsed, "fixed", REPLAY)
    protocol = {
        "kind": "chat",
        "title": "Talks",
        "bots": ["fixed"],
        "consent": "# About\n\nYou chat with a program.",
        "guidelines": "# What to do\n\nChat.",
    }
    study = browsed.server.ask("POST", "/v1/studies", json={"name": "first", "protocol": protocol}).json()["id"]
    assert browsed.server.ask("POST", f"/v1/studies/{study}/open").status_code == 200
    shown(browsed, "#bot=fixed")
    page.until("document.querySelector('#user-list').innerText.includes('first')")
    press(page, "Remove")
    page.until("document.querySelector('#question').open")
    assert "1 study that is under way talks with exactly this bot" in page.text("#question")
    assert accessibility_faults(page, impacts=None) == []
    assert page.run("document.querySelector('#question-yes').disabled")
    page.type("#question-typed", "fixed")
    press(page, "Remove it", "#question")
    page.until("document.querySelector('.empty-title')")
    assert browsed.server.ask("GET", "/v1/bots").json()["bots"] == []
    browsed.server.ask("POST", f"/v1/studies/{study}/close")


@pytest.mark.parametrize(
    ("scopes", "words"),
    [
        ([Scope.READ], "trying a bot takes the scope score; adding, changing and removing one takes the scope admin"),
        ([Scope.STUDY, Scope.SCORE], "adding, changing and removing one takes the scope admin"),
        ([Scope.WRITE], "Seeing bots takes a key with the scope read or study"),
    ],
)
def test_a_key_learns_which_scope_it_lacks(browsed: Browsed, tmp_path: Path, scopes: list[Scope], words: str) -> None:
    home = small_home(tmp_path)
    database = Database.open(home)
    token = KeyStore(database).create("narrow", scopes)[0]
    database.close()
    with asking_for_keys(browsed, home, "/bots") as keyed:
        page = keyed.page
        page.until("document.querySelector('#page-problem').innerText.includes('key')")
        page.run("document.querySelector('#key-button').click()")
        page.type("#key-input", token)
        page.run("document.querySelector('#key-form button[value=use]').click()")
        page.until(f"document.querySelector('main').innerText.includes({json.dumps(words)})")
        assert page.run("document.querySelector('#new-bot')") is None
        assert accessibility_faults(page) == []
