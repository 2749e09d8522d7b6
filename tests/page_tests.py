"""What tests of the pages share: the service in processes, a browser before it, and axe-core."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx2
import uvicorn
from browser import CHROMIUM, Page, opened
from safeguards import require
from servers import Served, served
from serving import listening, wait_until_ready

from refaug.core.home import Settings
from refaug.service.server_settings import ServeSettings
from refaug.service.web.app import create_app

AXE: Final = Path(__file__).parent / "axe" / "axe.min.js"
DESIGN: Final = Path(__file__).with_name("design_faults.js")
SERIOUS: Final = ("serious", "critical")
FRAMES: Final = (  # observers of sizes speak at the end of a frame
    "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))"
)
SIZES: Final = ((380, "light"), (1_600, "dark"))  # widths decide the layout, schemes the colours


@dataclass
class Keyed:
    """A page of a service that asks for keys, and a client of it that has none."""

    page: Page
    address: str
    client: httpx2.Client


@dataclass
class Browsed:
    """A running service and a page of it."""

    server: Served
    page: Page
    address: str


@contextmanager
def browsing(home: Path, folder: Path, *options: str, path: str = "/") -> Iterator[Browsed]:
    """Start the service over a home and open a page of it."""
    require("chromium", found=CHROMIUM is not None, why="no chromium on the PATH")
    with served(home, *options) as server:
        address = str(server.client.base_url).rstrip("/")
        with opened(f"{address}{path}", folder) as page:
            page.look(1_280)
            yield Browsed(server=server, page=page, address=address)


@contextmanager
def asking_for_keys(browsed: Browsed, home: Settings, path: str = "/", *, keys: bool = True) -> Iterator[Keyed]:
    """Serve another home in this process, and open a page of it that shares nothing with those that are open.

    Without `keys` it asks for none: what a test patches in this process holds for it, too.
    """
    config = uvicorn.Config(
        create_app(home, ServeSettings(keys=keys)), port=0, log_config=None, timeout_graceful_shutdown=2
    )
    with (
        listening(uvicorn.Server(config)) as port,
        httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client,
    ):
        wait_until_ready(client)
        page = browsed.page.other_device(f"http://127.0.0.1:{port}{path}")
        page.look(1_280)
        yield Keyed(page=page, address=f"http://127.0.0.1:{port}", client=client)
        page.go("about:blank")  # so that the server has no connection to wait for


def wait_until_quiet(page: Page) -> None:
    """Wait until a page is there and nothing is being asked for."""
    page.until("document.readyState === 'complete' && !document.querySelector('[aria-busy]')")


def looks_right(page: Page) -> None:
    """Nothing is inaccessible, too wide or against the design, in all sizes and schemes."""
    for width, scheme in SIZES:
        page.look(width, scheme=scheme)
        page.run(FRAMES)
        assert accessibility_faults(page) == [], (width, scheme)
        assert overflow(page) == [], (width, scheme)
        assert design_faults(page) == [], (width, scheme)
    page.look(1_280)


def press(page: Page, text: str, within: str = "main") -> None:
    """Click the first button with a text."""
    find = f"[...document.querySelectorAll('{within} button')].find((one) => one.textContent === {json.dumps(text)})"
    page.until(f"Boolean({find}) && !{find}.disabled")
    page.run(f"{find}.click()")


def tab_to(page: Page, condition: str, most: int = 150) -> None:
    """Press the tab key until something is true of the focused element."""
    for _ in range(most):
        page.press("Tab", 9)
        if page.run(f"((node) => Boolean({condition}))(document.activeElement)"):
            return
    raise AssertionError(f"the tab key never reaches it: {condition}")


def press_enter(page: Page) -> None:
    """Press the Enter key as a hand does on a button or a link."""
    key = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13}
    page.tell("Input.dispatchKeyEvent", type="keyDown", text="\r", **key)
    page.tell("Input.dispatchKeyEvent", type="keyUp", **key)


def choose_files(page: Page, *paths: Path) -> None:
    """Choose files in the field, as a hand does in the dialog of the system."""
    root = page.tell("DOM.getDocument")["root"]["nodeId"]
    field = page.tell("DOM.querySelector", nodeId=root, selector="#file-input")["nodeId"]
    page.tell("DOM.setFileInputFiles", nodeId=field, files=[str(path) for path in paths])


def accessibility_faults(page: Page, *, impacts: Sequence[str] | None = SERIOUS) -> list[str]:
    """Return the findings of axe-core of some impacts, or all, on the page as it is shown; the script comes through the
    driver."""
    if not page.run("typeof axe === 'object'"):
        page.run(AXE.read_text("utf-8") + "; 1")
    findings: Sequence[dict[str, Any]] = json.loads(
        page.run("axe.run(document, {resultTypes: ['violations']}).then((found) => JSON.stringify(found.violations))")
    )
    return [
        f"{finding['id']}: {node['html'][:120]} {node['failureSummary'][:200]}"
        for finding in findings
        if impacts is None or finding["impact"] in impacts
        for node in finding["nodes"][:3]
    ]


def overflow(page: Page) -> list[str]:
    """Return the elements that reach beyond the window, where it scrolls sideways."""
    found: list[str] = page.run(
        "document.documentElement.scrollWidth <= document.documentElement.clientWidth ? [] :"
        " [...document.querySelectorAll('main *')].filter((node) => node.getBoundingClientRect().right >"
        " document.documentElement.clientWidth + 1 && !node.closest('.scroll, pre, .log'))"
        ".slice(0, 5).map((node) => node.outerHTML.slice(0, 120))"
    )
    wide = page.run("document.documentElement.scrollWidth > document.documentElement.clientWidth + 1")
    return found or (["the page scrolls sideways"] if wide else [])


def design_faults(page: Page) -> list[str]:
    """Return what is against docs/internals/design.md: a fifth size of text, a number to the left and the like."""
    found: list[str] = page.run(DESIGN.read_text("utf-8"))
    return found


def hostile_texts(count: int = 1_000) -> list[str]:
    """Return texts that pages must show as they are."""
    kinds = (
        "<script>window.hacked = true</script> {n}",
        "<img src=x onerror='window.hacked = true'> {n}",
        "\"'><svg onload=window.hacked=true> {n}",
        "javascript:window.hacked=true {n}",
        "\u202egnp.{n}.exe \u2066left\u2069",
        "\u200f\u05e9\u05dc\u05d5\u05dd {n} \u0645\u0631\u062d\u0628\u0627",
        "\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1ea\U0001f1fa {n}",
        "nul\0 bell\x07 escape\x1b[31m {n}",
        "週末は何をしますか {n} 友達と映画",
        "{{{{ {n} }}}} ${{window.hacked = true}} {{% raw %}}",
        "&lt;b&gt;{n}&amp;nbsp;",
    )
    return [kinds[number % len(kinds)].format(n=number) for number in range(count)]
