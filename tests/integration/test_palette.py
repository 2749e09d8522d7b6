"""The command palette and the shortcuts, on the pages in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from page_tests import Browsed, accessibility_faults, browsing, overflow, press, wait_until_quiet
from serving import small_home

pytestmark = [pytest.mark.machine, pytest.mark.slow]
OPTIONS = (
    "[...document.querySelectorAll('#palette-list [role=option]')].map((option) => option.children[0].textContent)"
)
FOCUS = "document.activeElement.id"


@pytest.fixture(scope="module")
def browsed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browsed]:
    home = small_home(tmp_path_factory.mktemp("home"))
    with browsing(home.home, tmp_path_factory.mktemp("browser"), path="/service") as found:
        yield found


@pytest.fixture
def page(browsed: Browsed) -> Iterator[Any]:
    browsed.page.said.clear()
    browsed.page.go(f"{browsed.address}/keys")
    browsed.page.run("localStorage.clear()")
    browsed.page.go(f"{browsed.address}/service")
    wait_until_quiet(browsed.page)
    yield browsed.page
    assert browsed.page.said == []


def opened(page: Any, key: str = "/", dialog: str = "palette") -> None:
    """Press a key, and wait for its dialog."""
    page.press(key)
    page.until(f"document.querySelector('#{dialog}')?.open")


def test_a_button_is_found_by_its_name_and_pressed_by_keys_alone(page: Any) -> None:
    opened(page)
    assert page.run(FOCUS) == "palette-input"
    names = page.run(OPTIONS)
    assert {"Playground", "Service", "Keys", "API", "New job", "New schedule"} <= set(names)
    page.type("#palette-input", "new sched")
    assert page.run(OPTIONS) == ["New schedule"]
    page.press("Enter", 13)
    page.until("document.querySelector('#order').open")
    assert not page.run("document.querySelector('#palette').open")
    page.press("Escape", 27)
    page.until("!document.querySelector('#order').open")
    assert page.run(FOCUS) == "new-schedule"


def test_arrows_choose_and_wrap_and_the_choice_is_told(page: Any) -> None:
    opened(page)
    count = len(page.run(OPTIONS))
    chosen = "document.querySelector('#palette-input').getAttribute('aria-activedescendant')"
    assert page.run(chosen) == "palette-0"
    page.press("ArrowUp", 38)
    assert page.run(chosen) == f"palette-{count - 1}"
    page.press("ArrowDown", 40)
    page.press("ArrowDown", 40)
    assert page.run(chosen) == "palette-1"
    assert page.run("document.querySelector('[aria-selected=true]').id") == "palette-1"
    page.type("#palette-input", "no such thing")
    assert page.run(OPTIONS) == []
    assert page.text("#palette-state") == "Nothing here is called that."
    page.press("Enter", 13)
    assert page.run("document.querySelector('#palette').open")
    page.press("Escape", 27)


def test_the_focus_stays_inside_and_returns_to_where_it_was(page: Any) -> None:
    page.run("document.querySelector('#new-job').focus()")
    opened(page)
    for _ in range(3):
        page.press("Tab", 9)
        assert page.run(FOCUS) == "palette-input"
    page.press("Escape", 27)
    page.until("!document.querySelector('#palette').open")
    assert page.run(FOCUS) == "new-job"
    opened(page, "?", "shortcuts")
    seen = []
    for _ in range(4):
        page.press("Tab", 9)
        seen.append(page.run(FOCUS))
    assert seen == ["shortcuts-on", "shortcuts-close", "shortcuts-on", "shortcuts-close"]
    page.press("Escape", 27)
    page.until("!document.querySelector('#shortcuts').open")
    assert page.run(FOCUS) == "new-job"


def test_a_part_of_the_page_and_a_job_are_gone_to(browsed: Browsed, page: Any) -> None:
    order = {"kind": "index-update", "index": "chat"}
    job = browsed.server.ask("POST", "/v1/jobs", json=order).json()["id"]
    browsed.server.ended(job)
    page.go(f"{browsed.address}/keys")
    page.go(f"{browsed.address}/service")
    wait_until_quiet(page)
    opened(page)
    page.type("#palette-input", "frozen sets")
    page.press("Enter", 13)
    assert page.run(FOCUS) == "sets-title"
    opened(page)
    page.type("#palette-input", "index-update")
    page.press("Enter", 13)
    page.until(f"document.querySelector('#job').innerText.includes('{job}')")


def test_the_list_says_what_the_keys_do_and_they_do_it(browsed: Browsed, page: Any) -> None:
    opened(page, "?", "shortcuts")
    for words in ("the page Playground", "the page Keys", "the page API", "this list"):
        assert words in page.text("#shortcuts")
    press(page, "Close", "#shortcuts")
    page.press("g")
    page.press("k")
    page.until("location.pathname === '/keys' && document.readyState === 'complete'")
    page.until("document.querySelector('#key-name')")
    page.press("g")
    page.press("p")
    page.until("location.pathname === '/'")


@pytest.mark.parametrize("field", ["#turn-0", "#example-select"])
def test_keys_are_letters_while_somebody_types(browsed: Browsed, page: Any, field: str) -> None:
    page.go(f"{browsed.address}/")
    page.until("document.querySelector('#turn-0')")
    page.run(f"document.querySelector('{field}').focus()")
    for key in ("/", "?", "g", "k"):
        page.press(key)
    page.run("document.activeElement.blur()")
    page.press("x")
    assert page.run("location.pathname") == "/"
    assert page.run("document.querySelector('#palette, #shortcuts')") is None


def test_keys_can_be_switched_off_and_the_button_stays(browsed: Browsed, page: Any) -> None:
    opened(page, "?", "shortcuts")
    page.click("#shortcuts-on")
    page.press("Escape", 27)
    page.go(f"{browsed.address}/keys")
    page.press("?")
    page.press("/")
    page.click("#palette-button")
    page.until("document.querySelector('#palette')?.open")
    assert page.run("document.querySelector('#shortcuts')") is None
    page.run("localStorage.clear()")


@pytest.mark.parametrize(("width", "scheme"), [(380, "light"), (1_600, "dark")])
def test_both_dialogs_are_accessible_and_fit(page: Any, width: int, scheme: str) -> None:
    page.look(width, scheme=scheme)
    try:
        for key, dialog in (("/", "palette"), ("?", "shortcuts")):
            opened(page, key, dialog)
            assert accessibility_faults(page) == []
            assert overflow(page) == []
            box = page.run(
                f"(() => {{ const box = document.querySelector('#{dialog}').getBoundingClientRect();"
                " return [box.left, box.right]; })()"
            )
            assert 0 <= box[0] < box[1] <= width
            page.press("Escape", 27)
            page.until(f"!document.querySelector('#{dialog}').open")
    finally:
        page.look(1_280)
