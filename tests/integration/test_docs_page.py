"""The page of the API in a real browser: it shows every route, sends what a reader asks it to, and nothing else."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from browser import CHROMIUM, Page, opened
from fastapi import FastAPI
from page_scripts import PAGE_OF_THE_API
from page_tests import accessibility_faults, hostile_texts, overflow, press_enter, tab_to
from safeguards import require
from serving import listening, migrated
from starlette.types import Receive, Scope, Send

from refaug.core.home import Settings
from refaug.service.database.database import Database
from refaug.service.keys import KeyStore
from refaug.service.scopes import Scope as KeyScope
from refaug.service.server_settings import ServeSettings
from refaug.service.web.app import create_app
from refaug.service.web.problems import code_meanings

pytestmark = pytest.mark.machine
ROUTES = "[...document.querySelectorAll('.route')]"
SHOWN = f"{ROUTES}.filter((route) => route.checkVisibility()).map((route) => route.id)"
SENT_BY_THE_FRAME = ("/healthz", "/readyz", "/v1/key", "/v1/artefacts/index?limit=200")
MODES = [(width, scheme) for width in (1_440, 390) for scheme in ("light", "dark")]


@contextmanager
def serving(app: FastAPI, root_path: str = "") -> Iterator[str]:
    """The app behind a real server, below the path at which a proxy shows it."""

    async def below(scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "lifespan" or scope["path"].startswith(f"{root_path}/"), scope["path"]
        await app({**scope, "root_path": root_path}, receive, send)

    config = uvicorn.Config(below, port=0, log_config=None, timeout_graceful_shutdown=2)
    with listening(uvicorn.Server(config)) as port:
        yield f"http://127.0.0.1:{port}{root_path}"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return migrated(Settings(home=tmp_path_factory.mktemp("docs") / "home"))


@pytest.fixture(scope="module")
def token(home: Settings) -> str:
    database = Database.open(home)
    token, _ = KeyStore(database).create("reader", [KeyScope.READ])
    database.close()
    return str(token)


BELOW = pytest.param("/refaug", marks=pytest.mark.faults, id="below a path")


@pytest.fixture(scope="module", params=[pytest.param("", id="at the root"), BELOW])
def looked(
    request: pytest.FixtureRequest, home: Settings, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Page]]:
    require("chromium", found=CHROMIUM is not None, why="no chromium on the PATH")
    app = create_app(home, ServeSettings(keys=True))
    folder = tmp_path_factory.mktemp("browser")
    with serving(app, request.param) as address, opened(f"{address}/docs", folder) as page:
        page.until(f"{ROUTES}.length")
        yield address, page


@pytest.fixture
def page(looked: tuple[str, Page]) -> Iterator[Page]:
    """The page without a key; it asks only the service, and its console says nothing but that answers are errors."""
    address, page = looked
    page.look(1_440)
    go(page, address)
    page.run("sessionStorage.clear()")
    page.said.clear()
    page.asked.clear()
    yield page
    assert [url for url in page.asked if not url.startswith(f"{address}/")] == []
    assert [one for one in page.said if "401" not in one] == []  # a refused request is said, too


def go(page: Page, address: str, anchor: str = "") -> None:
    """Load the page anew, at a route that is opened."""
    page.go("about:blank")
    page.go(f"{address}/docs{anchor}")
    page.until("document.querySelector('.route[open] form')" if anchor else f"{ROUTES}.length")


def inside(path: str) -> str:
    """Return the element of the route that is open."""
    return f"document.querySelector('.route[open] {path}')"


def sent(page: Page, address: str) -> list[str]:
    """Return the paths that were asked for, without files and what each page asks for."""
    paths = [url.removeprefix(address) for url in page.asked]
    return [path for path in paths if not path.startswith(("/pages/", "/docs", *SENT_BY_THE_FRAME))]


def unfolded(page: Page) -> None:
    """Open all that is folded in the open route, and what is in that, once."""
    for _ in range(2):
        page.run("document.querySelectorAll('.route[open] details:not([open])').forEach((one) => { one.open = true; })")
        page.until(
            "[...document.querySelectorAll('.route[open] details[open]')].every((one) => one.children.length > 1)"
        )


def test_it_shows_every_route_in_its_group(home: Settings, page: Page) -> None:
    document = create_app(home, ServeSettings()).openapi()
    operations = [one for of_path in document["paths"].values() for one in of_path.values()]
    assert set(page.run(SHOWN)) == {f"/{one['tags'][0]}/{one['operationId']}" for one in operations}
    row = page.run("document.getElementById('/jobs/start_job').querySelector('summary').innerText").split()
    assert (row[:2], row[-1]) == (["POST", "/v1/jobs"], KeyScope.ADMIN)


@pytest.mark.parametrize(("width", "scheme"), MODES)
def test_it_is_accessible_and_fits(looked: tuple[str, Page], page: Page, width: int, scheme: str) -> None:
    page.look(width, scheme=scheme)
    go(page, looked[0], "#/scoring/score")
    unfolded(page)
    assert accessibility_faults(page, impacts=None) == []
    assert overflow(page) == []
    assert page.run("getComputedStyle(document.body).backgroundColor === 'rgb(247, 248, 250)'") == (scheme == "light")


def test_it_is_small_as_it_is_sent(looked: tuple[str, Page], tmp_path: Path) -> None:
    address, page = looked
    fresh = page.other_device(f"{address}/docs")
    fresh.until(f"{ROUTES}.length")
    weight = {url.removeprefix(address): size for url, size in fresh.sizes.items()}
    fresh.go("about:blank")
    assert weight["/openapi.json"] > 0
    assert sum(weight.values()) < PAGE_OF_THE_API, weight


def test_a_route_is_found_by_a_field_of_its_body_and_opened_by_keys_alone(home: Settings, page: Page) -> None:
    tab_to(page, "node.id === 'filter'")
    page.tell("Input.insertText", text="derive evidence")
    assert page.run(SHOWN) == []
    assert page.run("document.querySelector('#routes .empty').checkVisibility()")
    page.type("#filter", "post post_hoc_weights")
    page.type("#filter", "reference-sets DERIVE")
    assert page.run(SHOWN) == ["/reference-sets/derive_set"]
    assert page.run("document.querySelectorAll('.route .columns').length") == 0  # nothing is made before it is opened
    press_enter(page)
    page.until(inside("form"))
    assert page.run("document.activeElement.closest('.route').id") == "/reference-sets/derive_set"
    assert page.run("location.hash") == "#/reference-sets/derive_set"
    schemas = create_app(home, ServeSettings()).openapi()["components"]["schemas"]
    fields = "[...document.querySelectorAll('.route[open] .schema > .field-list > li > .field-head > .field-name')]"
    assert page.run(f"{fields}.map((field) => field.textContent)") == list(schemas["DeriveIn"]["properties"])
    tab_to(page, "node.matches('.route[open] form [type=submit]')")
    page.type("#filter", "")
    assert page.run(f"{ROUTES}.length") == len(page.run(SHOWN))


def test_what_is_inside_of_a_field_is_made_when_it_is_opened(looked: tuple[str, Page], page: Page) -> None:
    go(page, looked[0], "#/scoring/score")
    names = f"[...{inside('.schema')}.querySelectorAll('.field-name')].map((field) => field.textContent)"
    assert "utterance" not in page.run(names)
    items = "[...document.querySelectorAll('.route[open] .model')].find((one) => one.textContent.includes('Item'))"
    page.run(f"{items}.querySelector('summary').click()")
    page.until(f"{names}.includes('utterance')")


def test_below_a_path_a_request_goes_there(looked: tuple[str, Page], home: Settings) -> None:
    with serving(create_app(home, ServeSettings(keys=True)), "/refaug") as address:
        page = looked[1].other_device(f"{address}/docs")
        go(page, address, "#/keys/get_own_key")
        page.run(f"{inside('[type=submit]')}.click()")
        assert json.loads(page.until(f"{inside('.answer pre')}?.textContent"))["code"] == "no_key"
        assert [url for url in page.asked if not url.startswith(f"{address}/")] == []


def test_a_request_is_tried_with_the_key_of_the_tab(looked: tuple[str, Page], page: Page, token: str) -> None:
    go(page, looked[0], "#/keys/get_own_key")
    send, answer = inside("[type=submit]"), inside(".answer pre")
    page.run(f"{send}.click()")
    assert json.loads(page.until(f"{answer}?.textContent"))["code"] == "no_key"
    assert page.text(".route[open] .answer-status").startswith("401")
    page.click("#key-button")
    page.type("#key-input", token)
    press_enter(page)
    page.until("!document.querySelector('#key-dialog').open")
    page.run(f"{send}.click()")
    page.until(f"{inside('.answer-status')}.textContent.startsWith('200') && {answer}")
    told = json.loads(page.run(f"{answer}.textContent"))
    assert (told["name"], told["scopes"]) == ("reader", [KeyScope.READ])
    assert page.text(".route[open] .answer-status").split(" · ")[1].endswith(" ms")
    assert token not in page.text(".route[open] form")
    assert '"Authorization: Bearer $REFAUG_KEY"' in page.text(".route[open] form > pre")


def test_an_answer_keeps_its_numbers_as_they_came(looked: tuple[str, Page], page: Page) -> None:
    text = '{"one": 1.0, "tiny": 1e-07, "large": 12345678901234567890, "text": "a, b: {", "none": [], "long": [%s]}'
    text %= ", ".join(f'"{number:09}"' for number in range(9))
    module = "document.querySelector('script').src.replace('documentation.js', 'json.js')"
    lines = page.run(f"import({module}).then(({{readable}}) => readable({json.dumps(text)}))")
    assert "".join(lines.split()) == "".join(text.split())
    assert lines.split("\n")[:3] == ["{", '  "one": 1.0,', '  "tiny": 1e-07,']
    assert page.run(f"import({module}).then(({{readable}}) => readable('no: json'))") == "no: json"


def test_what_takes_something_away_is_asked_twice(looked: tuple[str, Page], page: Page) -> None:
    address = looked[0]
    go(page, address, "#/bots/delete_bot")
    page.asked.clear()
    page.run(f"{inside('[type=submit]')}.focus(); {inside('[type=submit]')}.click()")
    assert page.run(f"{inside('[type=submit]')}.textContent") == "Really send DELETE?"
    assert sent(page, address) == []
    page.run(f"{inside('[type=submit]')}.click()")
    page.until(f"{inside('.answer pre')}")
    assert [path.split("/")[:3] for path in sent(page, address)] == [["", "v1", "bots"]]


WORD = "a'b\"c $(touch hacked) `touch hacked` ${HOME} \\ ! * ~ ; & | < > # % @ [1-3] {a,b} --x"


def test_the_line_of_curl_is_quoted(looked: tuple[str, Page], page: Page, token: str, tmp_path: Path) -> None:
    address = looked[0]
    go(page, address, "#/bots/reply_to_dialogues")
    page.run(f"sessionStorage.setItem('refaug.key', {json.dumps(token)})")
    for name, value in (("name", WORD), ("x-timeout-s", WORD)):
        field = (
            f"[...document.querySelectorAll('.route[open] label')].find((one) => one.textContent.startsWith('{name}'))"
        )
        page.run(f"{field}.control.value = {json.dumps(value)}")
    body = json.dumps({"dialogues": [WORD, "\x7f\u202e\u200d"]}, ensure_ascii=False)
    page.run(f"{inside('textarea')}.focus(); {inside('textarea')}.select()")
    page.tell("Input.insertText", text=body)
    text = page.run(f"{inside('form > pre')}.textContent")
    assert [character for character in text if not character.isprintable()] == ["\n"] * text.count("\n")
    script = f'curl() {{ for word in "$@"; do printf "%s\\0" "$word"; done; }}\nREFAUG_KEY=k\n{text}'
    ran = subprocess.run(["sh", "-c", script], cwd=tmp_path, capture_output=True, check=True, timeout=60)
    words = ran.stdout.decode().split("\0")[:-1]
    assert not (tmp_path / "hacked").exists()
    path = page.run(f"encodeURIComponent({json.dumps(WORD)})").replace("'", "%27")
    assert [word.replace("'", "%27") for word in words[:3]] == ["-X", "POST", f"{address}/v1/bots/{path}/replies"]
    assert {f"x-timeout-s: {WORD}", "Authorization: Bearer k"} <= set(words)
    assert json.loads(words[words.index("--data-raw") + 1]) == json.loads(body)
    assert token not in text


@pytest.mark.parametrize(
    "anchor",
    [
        "#/keys/create_key",
        "#/keys/post/v1/keys",
        "?name=x&send=1#/keys/create_key",
    ],
)
def test_a_link_opens_a_route_and_sends_nothing(looked: tuple[str, Page], page: Page, anchor: str) -> None:
    address = looked[0]
    page.asked.clear()
    go(page, address, anchor)
    assert page.run(f"{ROUTES}.filter((route) => route.open).map((route) => route.id)") == ["/keys/create_key"]
    assert 0 <= page.run("document.querySelector('.route[open] summary').getBoundingClientRect().top") < 200
    page.run("new Promise((done) => setTimeout(done, 300))")
    assert sent(page, address) == ["/openapi.json"]


def test_a_link_leads_to_a_group(looked: tuple[str, Page], page: Page) -> None:
    page.click("#groups a[href='#/evaluations']")
    page.until("document.activeElement.id === '/evaluations'")
    assert 0 <= page.run("document.activeElement.getBoundingClientRect().top") < 200
    assert page.run(f"{ROUTES}.some((route) => route.open)") is False


def test_problems_lead_to_their_meanings(looked: tuple[str, Page], page: Page) -> None:
    address = looked[0]
    for anchor in ("#/scoring/score", "#/reference-sets/download_set", "#/jobs/start_job"):
        go(page, address, anchor)
        unfolded(page)
        links = page.run("[...document.querySelectorAll('.route[open] .status a')].map((link) => link.href)")
        codes = [link.removeprefix(f"{address}/problems/") for link in links]
        assert len(codes) > 5
        assert set(codes) <= set(code_meanings())


def test_what_the_policy_forbids_would_be_seen(looked: tuple[str, Page]) -> None:
    _, page = looked
    page.run("fetch('http://192.0.2.1/').catch(() => 0); 1")
    page.until("1")
    assert any("Content Security Policy" in one for one in page.said)


# ── hostile documents ─────────────────────────────────────────────────────────────────────────────────────────────────

UNHARMED = (
    "window.hacked === undefined && !document.querySelector('main img, main svg, main script, main iframe, main b i')"
)


def hostile_document(texts: list[str]) -> dict[str, Any]:
    """A document whose every text is hostile, and whose model holds itself."""
    text = "\n\n".join(
        [*texts, "`code` [a](javascript:hacked=1) [b](//evil.example/) [c](https://evil.example/) [d](/docs)"]
    )
    model: dict[str, Any] = {
        "type": "object",
        "title": text,
        "description": text,
        "required": [texts[0]],
        "properties": {
            **{one: {"type": one, "description": text, "default": one, "pattern": one} for one in texts},
            "__proto__": {"enum": texts, "description": text},
            "itself": {"$ref": "#/components/schemas/Model"},
            "list": {"$ref": "#/components/schemas/List"},
            "elsewhere": {"$ref": "https://evil.example/schema.json"},
            "nowhere": {"$ref": "#/components/schemas/constructor/prototype"},
            "loop": {"$ref": "#/components/schemas/Loop"},
        },
    }
    content = {text: {"schema": {"$ref": "#/components/schemas/Model"}, "example": {"text": text}}}
    examples = {one: {"value": {"text": one}} for one in texts}
    body = {"application/json": {"schema": {"$ref": "#/components/schemas/Model"}, "examples": examples}}
    operation = {
        "tags": [texts[1]],
        "summary": text,
        "description": f"{text}\n\n{text}",
        "operationId": texts[0],
        "parameters": [
            {
                "name": one,
                "in": place,
                "required": False,
                "description": text,
                "schema": {"enum": texts},
                "example": one,
            }
            for one in texts
            for place in ("query", "header")
        ],
        "requestBody": {"description": text, "content": body},
        "responses": {"200": {"description": text, "content": content, "headers": {text: {"description": text}}}},
        "security": [{text: [text]}],
    }
    return {
        "info": {"title": text, "description": text},
        "tags": [{"name": texts[1], "description": text}],
        "paths": {f"/{texts[1]}/{{id}}": {"post": operation}},
        "components": {
            "schemas": {
                "Model": model,
                "List": {"type": "array", "items": {"$ref": "#/components/schemas/List"}},
                "Loop": {"$ref": "#/components/schemas/Loop"},
            }
        },
    }


def test_a_hostile_document_is_words(home: Settings, tmp_path: Path) -> None:
    require("chromium", found=CHROMIUM is not None, why="no chromium on the PATH")
    texts = hostile_texts(11)
    app = create_app(home, ServeSettings())
    app.openapi = lambda: hostile_document(texts)  # type: ignore[method-assign]
    with serving(app) as address, opened(f"{address}/docs", tmp_path) as page:
        page.look(390)
        page.until(f"{ROUTES}.length")
        page.run("document.querySelector('.route').open = true")
        page.until(inside("form"))
        unfolded(page)
        copy = "const copy = document.querySelector('main').cloneNode(true)"
        shown = page.run(f"{copy}; copy.querySelectorAll('form').forEach((form) => form.remove()); copy.textContent")
        assert texts[0] in shown
        assert "[a](javascript:hacked=1) [b](//evil.example/) [c](https://evil.example/) d" in shown
        assert page.run(UNHARMED)
        assert "\u202e" not in shown
        links = set(page.run("[...document.querySelectorAll('main a')].map((link) => new URL(link.href).origin)"))
        assert links == {address}
        assert overflow(page) == []
        assert page.said == []
        assert [url for url in page.asked if not url.startswith(f"{address}/")] == []
