"""The site of the documentation in a real browser: every page is there, and search needs nothing from elsewhere."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from browser import CHROMIUM, Page, opened
from safeguards import require

pytestmark = pytest.mark.machine
ROOT = Path(__file__).resolve().parents[2]
SITE = Path(os.environ.get("REFAUG_SITE", ROOT / "build" / "site"))


class Quiet(SimpleHTTPRequestHandler):
    """Files of a folder, without a line for each request."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the name is the library's
        """Say nothing."""


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    require("chromium", found=CHROMIUM is not None, why="no chromium on the PATH")
    require("site", found=(SITE / "index.html").is_file(), why="make site has not been run")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(SITE)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        with opened(f"http://127.0.0.1:{server.server_port}/index.html", tmp_path) as shown:
            yield shown
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_the_site_has_a_page_for_each_page_of_the_documentation() -> None:
    require("site", found=(SITE / "index.html").is_file(), why="make site has not been run")
    pages = {path.relative_to(ROOT / "docs").with_suffix("") for path in (ROOT / "docs").rglob("*.md")}
    named = {path.relative_to(SITE).with_suffix("") for path in SITE.rglob("*.html")}
    assert {"index" if path.name == "README" else path.name for path in pages - named} <= {"index"}


def test_search_finds_a_page_and_fetches_nothing_from_elsewhere(page: Page) -> None:
    assert page.text("h1").startswith("Documentation")
    page.until("document.querySelector('[data-md-component=search-query]')")
    page.run(
        "((field) => { field.focus(); field.value = 'frozen set withdraw';"
        " field.dispatchEvent(new Event('input', {bubbles: true}));"
        " field.dispatchEvent(new KeyboardEvent('keyup', {bubbles: true})); })"
        "(document.querySelector('[data-md-component=search-query]'))"
    )
    found = page.until(
        "((links) => links.length && JSON.stringify(links.map((link) => link.getAttribute('href'))))"
        "([...document.querySelectorAll('.md-search-result__link')])"
    )
    assert any("sets.html" in link for link in json.loads(found))
    assert [address for address in page.asked if not address.startswith(("http://127.0.0.1:", "data:", "blob:"))] == []
    assert page.said == []
