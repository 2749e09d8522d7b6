"""The documentation in a real browser: it shows every route, sends a request, and asks nobody but the service."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import uvicorn
from browser import CHROMIUM, Page, opened
from safeguards import require
from serving import listening, migrated
from starlette.types import Receive, Scope, Send

from refaug.core.home import Settings
from refaug.service.server_settings import ServeSettings
from refaug.service.web.app import create_app

pytestmark = pytest.mark.machine


@contextmanager
def serving(home: Settings, root_path: str = "") -> Iterator[str]:
    """The app behind a real server, below the path at which a proxy shows it."""
    app = create_app(home, ServeSettings())

    async def below(scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "lifespan" or scope["path"].startswith(f"{root_path}/"), scope["path"]
        await app({**scope, "root_path": root_path}, receive, send)

    config = uvicorn.Config(below, port=0, log_config=None, timeout_graceful_shutdown=2)
    with listening(uvicorn.Server(config)) as port:
        yield f"http://127.0.0.1:{port}{root_path}"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return migrated(Settings(home=tmp_path_factory.mktemp("docs") / "home"))


@pytest.fixture(scope="module", params=["", "/refaug"], ids=["at the root", "below a path"])
def looked(
    request: pytest.FixtureRequest, home: Settings, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Page]]:
    require("chromium", found=CHROMIUM is not None, why="no chromium on the PATH")
    with serving(home, request.param) as address, opened(f"{address}/docs", tmp_path_factory.mktemp("browser")) as page:
        page.until("document.querySelectorAll('.opblock').length")
        yield address, page


def test_it_shows_every_route_under_its_tag(home: Settings, looked: tuple[str, Page]) -> None:
    document: dict[str, Any] = create_app(home, ServeSettings()).openapi()
    _, page = looked
    assert set(page.run("[...document.querySelectorAll('.opblock')].map(one => one.id)")) == {
        f"operations-{operation['tags'][0]}-{operation['operationId']}"
        for operations in document["paths"].values()
        for operation in operations.values()
    }


def test_a_request_is_sent_from_the_page_and_its_answer_shown(looked: tuple[str, Page]) -> None:
    _, page = looked
    block = "document.getElementById('operations-scoring-rate')"
    for button in (".opblock-summary-control", ".try-out__btn", ".execute"):
        page.until(f"{block}.querySelector('{button}') !== null")
        page.run(f"{block}.querySelector('{button}').click()")
    answered = page.until(f"{block}.querySelector('.live-responses-table')?.innerText ?? ''")
    assert "409" in answered
    assert '"code": "no_rater"' in answered  # the example itself is right; this home has no rater


def test_docs_page_asks_only_the_service_and_satisfies_its_policy(looked: tuple[str, Page]) -> None:
    address, page = looked
    asked = [one for one in page.asked if not one.startswith("data:")]
    assert {one.removeprefix(address) for one in asked} == {
        *("/docs", "/openapi.json", "/docs/files/favicon.png", "/docs/files/swagger-ui.css", "/v1/ratings"),
        *("/docs/files/swagger-ui-bundle.js", "/docs/files/start.js"),
    }
    assert [one for one in page.said if "409" not in one] == []  # that the request was refused is said too


def test_what_the_policy_forbids_would_be_seen(looked: tuple[str, Page]) -> None:
    _, page = looked
    page.run("fetch('http://192.0.2.1/').catch(() => 0); 1")
    page.until("1")
    assert any("Content Security Policy" in one for one in page.said)
