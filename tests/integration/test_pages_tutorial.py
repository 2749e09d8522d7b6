"""The tutorial with the pages alone, walked in a real browser: every control that it names is pressed as it says."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from engines import TEXTS
from page_tests import Browsed, browsing, choose_files, press, wait_until_quiet
from serving import small_home, small_items

pytestmark = [pytest.mark.machine, pytest.mark.slow]
ROOT = Path(__file__).resolve().parents[2]
TUTORIAL = ROOT / "docs" / "pages.md"
PAGES = ROOT / "refaug" / "service" / "web" / "pages"
WALKED = {
    *("Show an example", "Example", "BLEU", "multi-BLEU", "υBLEU", "Rater", "Further metrics", "left out", "Settings"),
    *(
        "Copy the link",
        "Find references and score",
        "Copy as curl",
        "Copy as Python",
        "Copy as a command",
        "Freeze as a set",
    ),
    *("Service", "Versions", "Publish", "Roll back", "Jobs", "Cancel", "Try again"),
    *("New job", "New schedule", "Schedules", "Runs", "Key", "Keys", "Go to"),
}  # by the tests below, one a section


@pytest.fixture(scope="module")
def browsed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browsed]:
    home = small_home(tmp_path_factory.mktemp("home"), indexes=2)
    with browsing(home.home, tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.fixture(scope="module")
def page(browsed: Browsed) -> Any:
    return browsed.page


def named_in_sections() -> dict[str, set[str]]:
    """The names in bold of each section of the tutorial."""
    sections = re.split(r"^## ", TUTORIAL.read_text("utf-8"), flags=re.MULTILINE)
    return {text.partition("\n")[0]: set(re.findall(r"\*\*([^*]+)\*\*", text)) for text in sections}


def names(page: Any) -> list[str]:
    """The scores under the first reply, by the names that the reader sees."""
    shown: list[str] = page.run("[...document.querySelectorAll('#scores-A .name')].map((name) => name.innerText)")
    return shown


def test_the_walk_names_what_the_tutorial_names() -> None:
    named = set().union(*(names_of for title, names_of in named_in_sections().items() if title != "Files of replies"))
    assert named - WALKED == set(), "the tutorial names a control that no test here presses"
    assert WALKED - named == set()


def test_the_page_evaluate_says_what_the_tutorial_names() -> None:
    """`test_files_of_replies` walks the shortest way, test_evaluate_page.py all of it."""
    files = [*PAGES.rglob("*.html.j2"), *PAGES.rglob("*.js")]
    shown = "\n".join(path.read_text("utf-8") for path in files)
    assert [name for name in named_in_sections()["Files of replies"] if name not in shown] == []


def test_a_first_score(browsed: Browsed, page: Any) -> None:
    serving = browsed.server.ask("GET", "/readyz").json()["versions"]["index"]["chat"]
    page.until(f"document.querySelector('#served').innerText.includes('chat@{serving}')")
    page.until("document.querySelector('#example-select').options.length > 1")
    press(page, "Show an example", "#references")
    page.until("document.querySelectorAll('#scores-A .score').length === 4")
    page.type("#gold", "")
    page.press("Delete", 46)
    page.until("document.querySelectorAll('#scores-A .score').length === 2")
    assert names(page) == ["υBLEU", "Rater"]
    assert page.text("label[for=example-select]") == "Example"
    select = "document.querySelector('#example-select')"
    page.run(f"{select}.value = '0'; {select}.dispatchEvent(new Event('change'))")
    page.until("document.querySelectorAll('#scores-A .score').length === 4")
    page.type("#turn-0", TEXTS[3])
    page.type("#gold", TEXTS[40])
    page.type("#reply-0", TEXTS[40])
    page.until("document.querySelectorAll('.reference').length > 5")
    page.until("document.querySelectorAll('#scores-A .score').length === 4")
    page.until("document.querySelector('#scores-A [data-metric=bleu] .value').innerText === '1.000'")
    for name in ("BLEU", "multi-BLEU", "υBLEU", "Rater"):
        assert name in names(page)


def test_why_it_is_what_it_is(page: Any) -> None:
    page.until("document.querySelectorAll('#words-A .word.positive').length")
    page.run("document.querySelector('#words-A .word.positive').focus()")
    assert "is credited by reference" in page.text("#pointed")
    page.run("document.activeElement.blur()")
    weighted = "document.querySelector('#scores-A [data-metric=upsilon-bleu] .value')?.innerText"
    before = page.run(weighted)
    page.click("#reference-0 .use")  # the gold
    page.until("document.querySelector('#reference-0').classList.contains('dropped')")
    page.until(f"{weighted} !== {before!r} || document.querySelector('#score-problem').innerText")
    page.click("#reset-weights")
    page.until(f"{weighted} === {before!r}")
    assert "left out" in page.run("document.querySelector('#excluded-title').textContent") or page.run(
        "document.querySelector('#excluded-box').hidden"
    )
    page.click("#settings-box summary")
    assert page.text("#settings-box summary") == "Settings"
    assert "Further metrics" in page.text("#settings")
    more = "document.querySelector('#setting-more')"
    page.run(f"{more}.value = 'chrf'; {more}.dispatchEvent(new Event('change'))")
    page.until("document.querySelectorAll('#scores-A .score').length === 5")


@pytest.mark.parametrize(
    ("button", "words"),
    [
        ("Copy the link", "#p="),
        ("Copy as curl", "curl "),
        ("Copy as Python", "import"),
        ("Copy as a command", "refaug "),
        ("Freeze as a set", "#p="),
    ],
)
def test_taking_it_along(page: Any, button: str, words: str) -> None:
    page.run("document.querySelector('#share-text').textContent = ''")
    press(page, button)
    page.until(f"document.querySelector('#share-text').textContent.includes({words!r})")


def test_a_link_shows_the_item_and_scores_it_at_a_click(browsed: Browsed, page: Any) -> None:
    utterance, scores = page.run("document.querySelector('#turn-0').value"), len(names(page))
    page.run("document.querySelector('#share-text').textContent = ''")
    press(page, "Copy the link")
    page.until("document.querySelector('#share-text').textContent.includes('#p=')")
    link = page.run("document.querySelector('#share-text').textContent").strip()
    page.go(f"{browsed.address}/healthz")
    page.run("sessionStorage.clear()")
    page.go(link)
    page.until(f"document.querySelector('#turn-0')?.value === {json.dumps(utterance)}")
    assert names(page) == []
    press(page, "Find references and score", "body")
    page.until(f"document.querySelectorAll('#scores-A .score').length === {scores}")


def test_files_of_replies(browsed: Browsed, page: Any, tmp_path: Path) -> None:
    """The shortest way of that section; test_evaluate_page.py walks all of it."""
    with (tmp_path / "night.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["utterance", "reference", "reply:new", "reply:old"])
        for item in small_items(30):
            writer.writerow([item["utterance"], *item["references"], *item["replies"].values()])
    page.click("header nav a[href$='/evaluate']")
    page.until("document.querySelector('#file-input') && !document.querySelector('[aria-busy]')")
    choose_files(page, tmp_path / "night.csv")
    page.until("document.querySelector('#start-button') && document.querySelector('#mapping summary')")
    assert "As refaug reads it" in page.text("#preview")
    assert page.text("#mapping summary b") == "Columns"
    assert page.text("label[for=baseline]") == "Compare all systems with"
    press(page, "Start", "#score-form")
    page.until("document.querySelector('#systems-table') && document.querySelector('#replies-section')")
    titles = page.run("[...document.querySelectorAll('#evaluation-view h2')].map((heading) => heading.innerText)")
    parts = ["Systems", "Paired differences", "Distributions", "Two metrics", "Replies", "Beside another evaluation"]
    assert [title for title in titles if title in parts] == parts
    assert page.text("#download-label") == "Download"
    press(page, "Where two metrics disagree most", "#replies-section")
    page.until(
        "document.querySelector('.grid-space > [data-place=\"0\"]')?.children[0].textContent.startsWith('line-')"
    )
    page.run("document.querySelector('.grid-space > [data-place=\"0\"]').click()")
    page.until("document.querySelector('#note-text')")
    page.type("#note-text", "the metric overlooks a synonym")
    press(page, "Keep the note", "#reply-dialog")
    page.until("document.querySelector('#note-form').innerText.includes('is kept')")
    assert page.text("#reply-dialog a") == "See in the playground why"
    press(page, "Close", "#reply-dialog")


def test_versions_and_jobs(browsed: Browsed, page: Any) -> None:
    page.click("header nav a[href$='/service']")
    page.until("document.querySelector('#jobs-title')")
    wait_until_quiet(page)
    for part in ("Versions", "Jobs", "Schedules"):
        assert part in page.run("[...document.querySelectorAll('h2')].map((heading) => heading.innerText)")
    press(page, "Publish", "#versions")
    press(page, "Publish it", "#question")
    page.until("!document.querySelector('#question').open")
    press(page, "Roll back", "#versions")
    press(page, "Roll back", "#question")
    page.until("!document.querySelector('#question').open")
    press(page, "New job")
    page.until("document.querySelector('#order').open")
    page.run("document.querySelector('#order-field-index').value = 'none'")
    press(page, "Start it", "#order")
    press(page, "Try again", "#job")
    page.until("document.querySelector('#job').innerText.includes('failed')")
    press(page, "New schedule")
    page.until("document.querySelector('#schedule-name')")
    page.type("#schedule-name", "night")
    page.type("#schedule-cron", "30 2 * * *")
    page.run("document.querySelector('#order-field-log').value = 'chat'")
    page.run("document.querySelector('#order-field-index').value = 'chat'")
    press(page, "Make it", "#order")
    press(page, "Runs", "#schedules")
    page.until("document.querySelector('#schedules .runs').innerText.includes('has not run yet')")
    for button in ("Pause", "Go on"):
        press(page, button, "#schedules")
    page.until("document.querySelectorAll('#schedules td[data-name=Next] time').length === 3")
    press(page, "Remove", "#schedules")
    press(page, "Remove it", "#question")
    page.until("document.querySelector('#schedules').innerText.includes('Nothing runs by itself')")


def test_a_job_is_cancelled(browsed: Browsed, page: Any) -> None:
    browsed.server.kill("jobs")  # so that the job waits while the page is at it
    job = browsed.server.ask("POST", "/v1/jobs", json={"kind": "index-compact", "index": "chat"}).json()["id"]
    page.run(f"location.hash = 'job={job}'")
    page.until("document.querySelector('#job').innerText.includes('Cancel')")
    press(page, "Cancel", "#job")
    assert browsed.server.ended(job)["state"] in ("cancelled", "done")


def test_keys_and_keyboard(page: Any) -> None:
    page.click("header nav a[href$='/keys']")
    page.until("document.querySelector('#own dl')")
    assert "This service asks for no keys" in page.text("#own")
    press(page, "Key", "header")
    page.until("document.querySelector('#key-dialog').open")
    page.click("#key-close")
    press(page, "Go to", "header")
    page.until("document.querySelector('#palette')?.open")
    page.type("#palette-input", "playground")
    page.press("Enter", 13)
    page.until("location.pathname === '/'")
