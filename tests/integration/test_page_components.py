"""The components of the pages in a real browser: their looks by docs/internals/design.md, and how keys work on them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from browser import CHROMIUM, Page, opened
from gallery import served_gallery
from page_tests import accessibility_faults, design_faults, overflow
from safeguards import require

from refaug.service.web.pages.static_files import page_folders

pytestmark = [pytest.mark.machine, pytest.mark.slow]
DOCS: Final = Path(__file__).resolve().parents[2] / "docs"
MODES: Final = [(width, scheme) for width in (1_440, 390) for scheme in ("light", "dark")]


@pytest.fixture(scope="module")
def gallery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    require("chromium", found=CHROMIUM is not None, why="no chromium on the PATH")
    folder = tmp_path_factory.mktemp("gallery")
    with served_gallery(folder / "files") as address, opened(address, folder) as page:
        yield page


@pytest.fixture
def page(gallery: Page) -> Iterator[Any]:
    gallery.look(1_440)
    gallery.go(gallery.run("location.href.split('#')[0]"))
    gallery.run("location.reload()") if gallery.run("location.hash") else None
    gallery.until("document.body.dataset.ready === 'yes' && document.querySelectorAll('.drawing svg').length === 4")
    gallery.said.clear()
    yield gallery
    assert gallery.said == []


def within(component: str) -> str:
    """A script that finds the section of a component."""
    return f"document.querySelector('[data-component={component}]')"


@pytest.mark.parametrize(("width", "scheme"), MODES)
def test_components_obey_the_design_in_all_modes(page: Any, width: int, scheme: str) -> None:
    page.look(width, scheme=scheme)
    assert accessibility_faults(page, impacts=None) == []
    assert overflow(page) == []
    # the gallery shows several views at once: more than one primary button is what it is for
    assert [fault for fault in design_faults(page) if "primary" not in fault] == []


def test_numbers_stand_to_the_right_without_a_word_of_the_page(page: Any) -> None:
    heads = page.run(
        f"[...{within('tables')}.querySelectorAll('thead th')].map((one) => getComputedStyle(one).textAlign)"
    )
    assert heads == ["left", "left", "right", "right", "right", "left", "right"]
    page.run(
        "document.querySelector('[data-component=tables] tbody').append("
        "document.querySelector('[data-component=tables] tbody tr').cloneNode(true))"
    )
    assert (
        page.run(f"getComputedStyle({within('tables')}.querySelector('tr:last-child td.number')).textAlign") == "right"
    )


def test_a_table_of_a_phone_scrolls_in_its_card_and_keeps_its_first_column(page: Any) -> None:
    page.look(390)
    box = f"{within('tables')}.querySelector('.scroll')"
    assert page.run(f"getComputedStyle({box}.querySelectorAll('thead th')[5]).display") == "none"  # of minor importance
    page.until(f"{box}.tabIndex === 0 && {box}.scrollWidth > {box}.clientWidth")
    left = f"{box}.querySelector('tbody th').getBoundingClientRect().left"
    before = page.run(left)
    page.run(f"{box}.scrollLeft = 60")
    assert page.run(left) == before


def test_tabs_follow_the_arrow_keys_and_the_address(page: Any) -> None:
    selected = "document.querySelector('[role=tab][aria-selected=true]')"
    page.run(f"{selected}.focus()")
    page.press("ArrowRight", 39)
    assert page.run(f"{selected}.id + ' ' + document.activeElement.id") == "tab-links tab-links"
    assert page.run("location.hash") == "#tab=links"
    page.press("End", 35)
    assert page.run("document.querySelector('[role=tabpanel]:not([hidden])').innerText") == "Here is the part “Report”."
    page.press("ArrowRight", 39)
    assert page.run("location.hash") == ""  # the first part needs no name
    page.run("location.hash = 'tab=responses'")
    page.until(f"{selected}.id === 'tab-responses'")


def test_a_form_in_steps_goes_on_only_where_it_is_right_and_sums_up(page: Any) -> None:
    steps = within("steps")
    press = f"{steps}.querySelector('.step-ends button:last-child').click()"
    page.run(f"document.querySelector('#gallery-title').value = ''; {press}")
    assert page.run(f"{steps}.querySelector('[role=status]').innerText") == "Step 1 of 3"
    page.run(f"document.querySelector('#gallery-title').value = 'Chats'; {press}; {press}")
    assert page.run(f"{steps}.querySelector('[aria-current=step]').innerText") == "Check"
    summary = page.run(f"[...{steps}.querySelectorAll('.step-summary dd')].map((one) => one.innerText)")
    assert summary == ["Chats", "60"]
    page.run(f"{steps}.querySelector('[aria-label=\"Change: What\"]').click()")
    assert page.run(f"document.activeElement === {steps}.querySelector('h3')")


def test_a_line_chart_says_the_value_under_its_cursor(page: Any) -> None:
    chart = f"{within('line-charts')}.querySelectorAll('figure')[1]"
    reading = f"{chart}.querySelector('.line-reading').innerText"
    assert page.run(reading).startswith("latest: median ")
    page.run(f"{chart}.querySelector('.drawing svg').focus()")
    page.press("Home", 36)
    first = page.run(reading)
    assert re.search(r": median \d+ ms, 95th percentile \d+ ms$", first)
    page.press("ArrowRight", 39)
    assert page.run(reading) != first
    page.run(f"{chart}.querySelector('details').open = true")
    page.until(f"{chart}.querySelectorAll('tbody tr').length === 48")


def test_a_line_chart_describes_each_line_by_its_own_values(page: Any) -> None:
    label = page.run(f"{within('line-charts')}.querySelectorAll('figure')[1].querySelector('.drawing svg').ariaLabel")
    spans = re.findall(r"(median|95th percentile) between (\d+) ms and (\d+) ms", label)
    assert spans == [("median", "32", "53"), ("95th percentile", "83", "132")]


def test_only_a_missing_scope_invites_to_enter_another_key(page: Any) -> None:
    def shown(**members: str) -> str:
        problem = {"code": "not_allowed", "title": "Not allowed", "detail": "it may not be", "request_id": "r1"}
        return str(
            page.run(
                "Promise.all([import('./static/api.js'), import('./static/frame.js')]).then(([api, frame]) =>"
                f" frame.problemBox(new api.Problem({json.dumps(problem | members)}, 403)).textContent)"
            )
        )

    told = shown(remedy="another host")
    assert "What helps: another host" in told
    assert "r1" in told
    assert "Enter a key" not in told
    assert "Enter a key" in shown(scope="admin", remedy="ask for another key")


def test_every_component_has_a_picture_and_a_line_in_the_design() -> None:
    components = re.findall(
        r'^  "?([\w-]+)"?: \(\) =>', (DOCS.parent / "tests" / "gallery.js").read_text(), flags=re.MULTILINE
    )
    text = (DOCS / "internals" / "design.md").read_text("utf-8")
    assert re.findall(r"\(\.\./images/design-([\w-]+)\.png\)", text) == components
    assert {path.name for path in (DOCS / "images").glob("design-*")} == {f"design-{name}.png" for name in components}
    scripts = {path.name for path in (page_folders("static")[0] / "components").glob("*.js")}
    assert scripts <= set(re.findall(r"/components/([\w]+\.js)", (DOCS.parent / "tests" / "gallery.js").read_text()))
