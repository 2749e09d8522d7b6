"""Pictures of the pages for docs/images: `python tests/screenshots.py [--home HOME]`, by `make screenshots`.

The pictures that the documentation shows, over the demo log, and each component of the gallery; without a home one is
made, which takes minutes. With --all, every page by day and by night, wide and narrow, for looking, pages with errors,
long words and Japanese among them: Japanese needs a font, of which Debian's fonts-vlgothic is a small one.
"""

from __future__ import annotations

import argparse
import base64
import io
import itertools
import json
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from browser import Page, opened
from gallery import served_gallery
from page_tests import choose_files
from PIL import Image
from servers import Served, served
from studying import Person

from refaug.cli.main import main as refaug
from refaug.tables.reports.plotting import with_palette

IMAGES: Final = Path(__file__).resolve().parents[1] / "docs" / "images"
COMPONENT_WIDTH: Final = 860
WIDTHS: Final = {"wide": 1_280, "narrow": 380}
LONGEST: Final = {"wide": 1_100, "narrow": 1_600}  # pixels of a picture: a page may be longer
SCHEMES: Final = ("light", "dark")
STEPS: Final = (
    ("log", "ingest", "{0}/demo.jsonl", "--log", "demo", "--language", "en"),
    ("train", "vectors", "demo"),
    ("index", "build", "demo"),
    ("train", "rater", "demo", "--preset", "small", "--epochs", "3", "--max-tokens", "64"),
)


def make_home(home: Path) -> None:
    """Make a home with the demo log, an index and a rater, as `make demo` does."""
    home.mkdir(parents=True, exist_ok=True)
    outputs = ("--output", "{0}/demo.jsonl", "--items-output", "{0}/demo-items.jsonl")
    commands = [("log", "demo", "--noise", "0.03", *outputs), *STEPS]
    for command in commands:
        code = refaug(["--quiet", "--home", str(home), *(part.format(home) for part in command)])
        assert code == 0, command


def add_work(server: Served) -> None:
    """Let the service have a schedule, a job that is done, and one that failed."""
    inbox = server.home / "inbox"
    inbox.mkdir(exist_ok=True)
    (inbox / "monday.jsonl").write_text("this is no dialogue\n")
    night = {"kind": "nightly", "log": "demo", "index": "demo"}
    server.ask("PUT", "/v1/schedules/night", json={"cron": "30 2 * * *", "timezone": "Europe/Berlin", "order": night})
    for order in (
        {"kind": "index-update", "index": "demo"},
        {"kind": "ingest", "log": "demo", "sources": ["monday.jsonl"]},
    ):
        server.ended(server.ask("POST", "/v1/jobs", json=order).json()["id"])


@contextmanager
def looked(page: Page, width: str, scheme: str) -> Iterator[Page]:
    """Show a page in a size and a scheme."""
    page.look(WIDTHS[width], 900, scheme=scheme)
    yield page


def show_playground(page: Page) -> None:
    """Take the first example, and point at a word."""
    page.until("document.querySelector('#example-select').options.length > 2 && document.querySelector('#setting-k')")
    select = "document.querySelector('#example-select')"
    page.run(f"{select}.value = '0'; {select}.dispatchEvent(new Event('change'))")
    page.until(
        "document.querySelectorAll('.reference').length > 5 && document.querySelectorAll('#words-C .word').length"
    )
    page.run("document.querySelector('#words-A .word.positive').focus({preventScroll: true})")


def show_service(page: Page) -> None:
    """Wait until every part is there."""
    page.until("!document.querySelector('[aria-busy]') && document.querySelector('#jobs table')")


def show_whole(page: Page) -> None:
    """Wait until nothing is being asked for."""
    page.until("!document.querySelector('[aria-busy]')")


def show_part(page: Page, there: str) -> None:
    """Wait until a part is there, and nothing is being asked for."""
    page.until(f"document.querySelector('{there}') && !document.querySelector('[aria-busy]')")


def show_job(page: Page) -> None:
    """Open the job that failed."""
    show_service(page)
    row = "[...document.querySelectorAll('#jobs tr')].find((one) => one.innerText.includes('failed'))"
    page.run(f"{row}.querySelector('a').click()")
    page.until("document.querySelectorAll('#job .log li').length > 1")
    page.run("document.querySelector('#job-box').scrollIntoView({block: 'start'}); window.scrollBy(0, -90)")


def show_palette(page: Page) -> None:
    """Open the command palette, and look for a word."""
    show_service(page)
    page.run("[...document.querySelectorAll('header button')].find((one) => one.innerText === 'Go to').click()")
    page.until("document.querySelector('#palette')?.open")
    page.type("#palette-input", "job")
    page.until("document.querySelectorAll('#palette-list li').length > 1")


def show_shortcuts(page: Page) -> None:
    """Open the list of shortcuts, by its key."""
    show_service(page)
    page.tell("Input.dispatchKeyEvent", type="keyDown", key="?", text="?")
    page.until("document.querySelector('#shortcuts')?.open")


def show_api(page: Page) -> None:
    """Open what the address names, and an answer of it."""
    page.until("document.querySelector('.route[open] form')")
    page.run("document.querySelector('.route[open] .status').open = true")


def set_network(page: Page, *, is_there: bool) -> None:
    """Take the network away from a page, or give it back."""
    conditions = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    page.tell("Network.emulateNetworkConditions", offline=not is_there, **conditions)


def show_lost(page: Page) -> None:
    """Type while the service cannot be reached; the network is back for the next picture."""
    show_playground(page)
    set_network(page, is_there=False)
    page.type("#reply-0", "Nobody hears this.")
    page.until("!document.querySelector('#connection').hidden")


def show_refused(page: Page) -> None:
    """Order a job of an index that does not exist, and see why it failed."""
    show_service(page)
    page.run("[...document.querySelectorAll('main button')].find((one) => one.innerText === 'New job').click()")
    page.until("document.querySelector('#order').open && document.querySelector('#order-kind')")
    kind = "document.querySelector('#order-kind')"
    page.run(f"{kind}.value = 'rater-train'; {kind}.dispatchEvent(new Event('change'))")
    page.run("[...document.querySelectorAll('#order button')].find((one) => one.innerText === 'Start it').click()")
    page.until("document.querySelector('#order .notice.bad, #order :invalid')")


def show_unreadable(page: Page) -> None:
    """Choose a file that is no table."""
    page.until("document.querySelector('#list table') && !document.querySelector('[aria-busy]')")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "replies-of-thursday.jsonl"
        path.write_bytes(bytes(range(256)) * 40)
        choose_files(page, path)
        page.until("document.querySelector('#new-box .notice.bad, #preview .warn')")


def show_error(page: Page) -> None:
    """Ask for a metric that does not exist."""
    show_playground(page)
    page.run("document.querySelector('#settings-box').open = true")
    field = "document.querySelector('#setting-more')"
    page.run(f"{field}.value = 'upsilon-blue'; {field}.dispatchEvent(new Event('change'))")
    page.until("document.querySelector('#score-problem').innerText.includes('upsilon-blue')")


def show_long(page: Page) -> None:
    """Type long words, Japanese, and a text from right to left."""
    show_playground(page)
    page.type("#reply-0", "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft" * 2)
    page.type("#reply-1", "週末は友達と映画を見に行くつもりです。切符はどこで買えますか。")
    page.type("#reply-2", "أين يمكنني شراء تذكرة الحافلة؟ At the machine.")
    page.until("document.querySelector('#words-C').innerText.includes('At the machine')")


def show_japanese(page: Page) -> None:
    """Type a Japanese dialogue; without a Japanese font its signs are boxes."""
    page.until("document.querySelector('#setting-k')")
    page.type("#turn-0", "週末は何をする予定ですか。")
    page.type("#gold", "友達と映画を見に行くつもりです。")
    page.type("#reply-0", "週末は友達と映画を見に行きます。切符はもう買いました。")
    page.click("#add-reply")
    page.type("#reply-1", "特に予定はありません。家でゆっくり休みたいです。")
    page.until("document.querySelectorAll('#scores-B .score').length >= 3")


def show_evaluate(page: Page) -> None:
    """Choose a file of items, and wait for its dry run."""
    page.until("document.querySelector('#list table') && !document.querySelector('[aria-busy]')")
    page.until("document.querySelector('#earlier li')")
    page.run("document.querySelector('#earlier li button').click()")
    page.until("document.querySelector('#start-button') && document.querySelector('#preview .items')")


def show_evaluation(page: Page) -> None:
    """Open the newest evaluation of replies."""
    find = "[...document.querySelectorAll('#list a')].find((one) => one.innerText === 'Demo items')"
    page.until(f"Boolean({find})")
    page.run(f"{find}.click()")
    page.until("document.querySelectorAll('.grid-space > .grid-row').length > 20")
    page.until("document.querySelector('#scatter-drawing svg') && !document.querySelector('[aria-busy]')")


def show_reply(page: Page) -> None:
    """Open the reply on which the metrics disagree most."""
    show_evaluation(page)
    page.run("document.querySelector('#most-disagreement').click()")
    first = "document.querySelector('.grid-space > [data-place=\"0\"]')"
    page.until(f"{first} && {first}.children[2].innerText.length > 1")
    page.run(f"{first}.click()")
    page.until("document.querySelector('#note-form')")


def show_agreement(page: Page) -> None:
    """Open the newest comparison of metrics with ratings."""
    find = "[...document.querySelectorAll('#list a')].find((one) => one.innerText === 'Demo ratings')"
    page.until(f"Boolean({find})")
    page.run(f"{find}.click()")
    page.until("document.querySelector('#agreement-table') && document.querySelector('.figure svg')")


def add_evaluations(server: Served) -> None:
    """Let the service score demo items, and compare metrics with their ratings."""
    path = server.home / "demo-items.jsonl"
    if not path.exists():
        assert (
            refaug(["--quiet", "log", "demo", "--output", str(server.home / "demo.jsonl"), "--items-output", str(path)])
            == 0
        )
    sent: dict[str, Any] = {"content": path.read_bytes(), "headers": {"Content-Type": "application/octet-stream"}}
    upload = server.ask("POST", "/v1/uploads", params={"name": path.name}, **sent).json()
    file = f"upload:{upload['id']}"
    metrics = ["multi-bleu", "upsilon-bleu", "rater", "chrf"]
    how = {"metrics": metrics, "index": "demo", "rater": "demo"}
    score = {"kind": "score", "name": "Demo items", "items": file, "baseline": "generic", **how}
    meta = {"kind": "meta", "name": "Demo ratings", "data": [file], **how}
    for order in (score, meta):
        job = server.ask("POST", "/v1/evaluations", json=order).json()["id"]
        assert server.ended(job)["state"] == "done"


PEOPLE: Final = 12  # who took part in it: with fewer than six a report has no intervals
LINKS: Final = dict[str, str]()  # of the study, as it was made for the pictures


def add_study(server: Served) -> None:
    """Let the service have a study that is open, with bots that reply from the demo index."""
    for name, mode in (("c-bm25", "bm25-utterance"), ("vectors", "embedding-utterance")):
        bot = {"kind": "retrieval", "index": "demo", "mode": mode}
        server.ask("PUT", f"/v1/bots/{name}", json={"specification": bot})
    protocol = {
        "kind": "chat",
        "title": "Talking with machines",
        "bots": ["c-bm25", "vectors"],
        "min_turns": 2,
        "delay": "none",
        "consent": "# About this study\n\nYou chat with programs, and say how good the chats were.",
        "guidelines": "# What to do\n\nWrite as you would to a person whom you have just met.",
    }
    made = server.ask("POST", "/v1/studies", json={"name": "first", "protocol": protocol}).json()
    server.ask("POST", f"/v1/studies/{made['id']}/open")
    token = server.ask("POST", f"/v1/studies/{made['id']}/invites", json={}).json()["invites"][0]["token"]
    address = str(server.client.base_url).rstrip("/")
    LINKS["take"] = f"{address}/take#{token}"
    LINKS["study"] = f"{address}/studies#study={made['id']}"
    for number in range(PEOPLE):
        take_part(Person(server.client), token, number)


def take_part(person: Person, token: str, number: int) -> None:
    """Chat with both bots, and rate the one by words higher."""
    person.enter(token)
    person.agree()
    for place in range(2):
        person.done("tasks/next")
        said = ("Where can I buy a ticket for the bus?", "And when does it leave?", "Thank you. What about the rain?")
        for text in said[: 2 + number % 2]:
            person.say(text)
        task, likes = person.state["task"]["id"], (number + place) % 3
        scales = [one["id"] for one in person.state["task"]["form"]["questions"] if one["type"] == "likert"]
        answers = {one: 3 + (likes + order) % 4 for order, one in enumerate(scales)}
        person.done(f"tasks/{task}/answers", {"answers": answers})
        person.done(f"tasks/{task}/finish")


def show_take(page: Page) -> None:
    """Take part: chat twice, and be at the questions."""
    page.go(LINKS["take"])
    page.until("document.querySelector('#begin, #start-task, #message')")
    if page.run("Boolean(document.querySelector('#begin'))"):
        page.run("document.querySelector('#agree').click(); document.querySelector('#begin').click()")
    page.until("document.querySelector('#start-task, #message')")
    if page.run("Boolean(document.querySelector('#start-task'))"):
        page.click("#start-task")
        for number, text in enumerate(("Where can I buy a ticket?", "And when does the bus leave?"), 1):
            page.until("document.querySelector('#message')")
            page.type("#message", text)
            page.click("#send")
            page.until(f"document.querySelectorAll('.message.bot').length === {number}")
        page.click("#close-chat")
    page.until("!document.querySelector('.form-box').hidden")
    scales = "[...document.querySelectorAll('.question.scale')].slice(0, 2)"
    page.run(f"{scales}.forEach((one) => one.querySelectorAll('input')[4].click())")
    page.until("document.querySelectorAll('.question input:checked').length === 2")


def show_study(page: Page, tab: str = "overview", there: str = "#study-view h2, #study-view h3") -> None:
    """Open a part of the page of the study."""
    page.go(f"{LINKS['study']}&tab={tab}")
    page.until("!document.querySelector('#study-view').hidden && !document.querySelector('[aria-busy]')")
    page.until(f"document.querySelector({json.dumps(there)})")


def show_response(page: Page) -> None:
    """Open the newest response of the study."""
    first = "#responses .grid-space > [data-place='0']"
    show_study(page, "responses", first)
    page.until(f'document.querySelector("{first}").children[1].innerText.length > 1')
    page.run(f'document.querySelector("{first}").click()')
    page.until("document.querySelector('#response-dialog .turn')")


PAGES: Final = {
    "take": ("/healthz", show_take),
    "study": ("/healthz", show_study),
    "links": ("/healthz", partial(show_study, tab="links")),
    "responses": ("/healthz", partial(show_study, tab="responses", there="#responses")),
    "response": ("/healthz", show_response),
    "report": ("/healthz", partial(show_study, tab="report", there="#report h3")),
    "protocol": ("/healthz", partial(show_study, tab="protocol")),
    "studies": ("/studies", show_whole),
    "playground": ("/", show_playground),
    "evaluate": ("/evaluate", show_evaluate),
    "evaluation": ("/evaluate", show_evaluation),
    "reply": ("/evaluate", show_reply),
    "agreement": ("/evaluate", show_agreement),
    "service": ("/service", show_service),
    "job": ("/service", show_job),
    "bots": ("/bots", partial(show_part, there="#bot-table")),
    "bot": ("/bots#bot=vectors", partial(show_part, there="#bot-title")),
    "new-bot": ("/bots#new=retrieval", partial(show_part, there="#bot-form")),
    "new-study": ("/studies#new", show_whole),
    "keys": ("/keys", show_whole),
    "api": ("/docs#/scoring/score", show_api),
    "palette": ("/service", show_palette),
    "shortcuts": ("/service", show_shortcuts),
    "refused": ("/service", show_refused),
    "unreadable": ("/evaluate", show_unreadable),
    "lost": ("/", show_lost),
    "error": ("/", show_error),
    "long": ("/", show_long),
    "japanese": ("/", show_japanese),
}
IN_SIGHT: Final = (
    "job",
    "api",
    "reply",
    "response",
    "palette",
    "shortcuts",
    "refused",
)  # pictures of the window, not of the whole page


def small(picture: bytes, longest: int) -> bytes:
    """Return a picture with at most 64 colours, cut at the bottom."""
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    image = image.crop((0, 0, image.width, min(image.height, longest)))
    return with_palette(np.asarray(image))


def shown_pictures() -> set[str]:
    """Return the names of the pictures that pages of the documentation show."""
    root = IMAGES.parents[1]
    texts = [page.read_text("utf-8") for page in (*root.glob("docs/**/*.md"), *root.glob("*.md"))]
    return {name for text in texts for name in re.findall(r"images/([\w-]+)\.png", text)}


def take_pictures(home: Path, to: Path, chosen: set[str] | None) -> None:
    """Write pictures of the pages: those with these names, `PAGE-SCHEME-WIDTH`, or all."""
    with served(home) as server, tempfile.TemporaryDirectory() as folder:
        add_work(server)
        add_evaluations(server)
        add_study(server)
        address = str(server.client.base_url).rstrip("/")
        with opened(f"{address}/healthz", Path(folder)) as page:
            for name, scheme, width in itertools.product(PAGES, SCHEMES, WIDTHS):
                if chosen is None or f"{name}-{scheme}-{width}" in chosen:
                    take_picture(page, address, to, name, scheme=scheme, width=width)
            assert page.said == [] or chosen is None, page.said


def take_picture(page: Page, address: str, to: Path, name: str, *, scheme: str, width: str) -> None:
    """Write a picture of a page."""
    path, show = PAGES[name]
    with looked(page, width, scheme):
        set_network(page, is_there=True)
        page.go(f"{address}/healthz")
        page.run("sessionStorage.clear()")
        page.go(f"{address}{path}")
        show(page)
        if name not in IN_SIGHT:
            page.run("window.scrollTo(0, 0)")
        picture = page.picture(whole=name not in IN_SIGHT)
        (to / f"{name}-{scheme}-{width}.png").write_bytes(small(picture, LONGEST[width]))


_SECTIONS: Final = """[...document.querySelectorAll("[data-component]")].map((section) => {
  const box = section.getBoundingClientRect();
  return {name: section.dataset.component, x: box.x, y: box.y + scrollY, width: box.width, height: box.height};
})"""


def take_components(to: Path) -> None:
    """Write a picture of each component of the gallery."""
    with (
        tempfile.TemporaryDirectory() as folder,
        served_gallery(Path(folder) / "files") as address,
        opened(address, Path(folder)) as page,
    ):
        page.look(COMPONENT_WIDTH, 900)
        page.until("document.body.dataset.ready && !document.querySelector('.drawing:empty')")
        for section in page.run(_SECTIONS):
            name = section.pop("name")
            shown = {"clip": {**section, "scale": 1}, "captureBeyondViewport": True}
            shot = page.tell("Page.captureScreenshot", format="png", **shown)
            (to / f"design-{name}.png").write_bytes(small(base64.b64decode(shot["data"]), 2_000))


def main(arguments: list[str]) -> int:
    """Take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--home", type=Path, help="a home with the demo log, an index and a rater")
    parser.add_argument("--to", type=Path, default=IMAGES)
    parser.add_argument(
        "--all", action="store_true", help="every page in all sizes and schemes, with errors and long texts"
    )
    parser.add_argument("--components", action="store_true", help="the gallery alone")
    chosen: Any = parser.parse_args(arguments)
    chosen.to.mkdir(parents=True, exist_ok=True)
    take_components(chosen.to)
    if chosen.components:
        return 0
    with tempfile.TemporaryDirectory() as folder:
        home = chosen.home or Path(folder) / "home"
        if chosen.home is None:
            make_home(home)
        take_pictures(home, chosen.to, None if chosen.all else shown_pictures())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
