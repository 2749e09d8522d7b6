"""docs/studies.md, "your first study in ten minutes", walked in a real browser: every numbered step is done here.

A step names its controls in bold, and its commands as code; the walk uses exactly these, in the page's order.
"""

from __future__ import annotations

import json
import re
import shlex
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from statistics import fmean
from typing import Any, Final

import pytest
from browser import Page
from page_tests import Browsed, browsing, looks_right, press
from studied import agree, press_button, say, study_home
from studying import Person

from refaug.cli.main import main as refaug
from refaug.core.home import Settings
from refaug.extras.studies.participation.study_records import bots_of_task
from refaug.extras.studies.participation.study_store import StudyStore
from refaug.metrics.statistics.resampling import FEWEST_UNITS
from refaug.service.bots.bot_store import BotStore
from refaug.service.database.database import Database

pytestmark = [pytest.mark.machine, pytest.mark.slow]
DOCUMENT: Final = Path(__file__).resolve().parents[4] / "docs" / "studies.md"
QUESTIONS: Final = ("quality", "diversity", "fluency", "relatedness", "empathy")
BOTS: Final = ("c-bm25", "vectors")
SAID: Final = ("Where can I buy a ticket for the bus?", "And when does it leave?", "Thank you, what about the rain?")
RATINGS: Final = {"c-bm25": 6, "vectors": 4}  # of every participant; the degraded bot gets 1
INDEX: Final = (
    ("log", "demo", "--dialogues", "300", "--output", "{0}/log.jsonl", "--items-output", "{0}/items.jsonl"),
    ("log", "ingest", "{0}/log.jsonl", "--log", "everyday-en", "--language", "en"),
    ("train", "vectors", "everyday-en"),
    ("index", "build", "everyday-en"),
)
_ANSWER: Final = """(rating) => document.querySelectorAll('.question').forEach((question) => {
  const inputs = [...question.querySelectorAll('input')], words = question.innerText;
  const named = inputs.find((input) => words.split(input.labels[0].innerText.trim()).length > 2);
  (inputs.length > 5 ? inputs[rating - 1] : named ?? inputs[0])?.click();
})"""  # what a check of attention asks for stands in its question and in one of its options


def steps() -> list[str]:
    """The numbered steps of the page."""
    found = re.findall(r"^(\d+)\. (.*)$", DOCUMENT.read_text("utf-8"), re.MULTILINE)
    assert [int(number) for number, _ in found] == list(range(1, len(found) + 1))
    return [text for _, text in found]


@pytest.fixture(scope="module")
def browsed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browsed]:
    folder = tmp_path_factory.mktemp("first")
    home = study_home(folder)
    for command in INDEX:
        assert refaug(["--quiet", "--home", str(home), *(part.format(folder) for part in command)]) == 0, command
    for name, text in re.findall(r"```toml file=(\S+)\n(.*?)```", DOCUMENT.read_text("utf-8"), re.DOTALL):
        (folder / name).write_text(text)
    for line in re.findall(r"^    refaug (bots add .*)$", DOCUMENT.read_text("utf-8"), re.MULTILINE):
        *words, file = shlex.split(line)
        assert refaug(["--quiet", "--home", str(home), *words, str(folder / file)]) == 0, line
    with browsing(home, folder, path="/healthz") as found:
        yield found
        assert found.page.said == []


class Walk:
    """An operator who follows the page, and participants who come to the study."""

    def __init__(self, browsed: Browsed, folder: Path, capture: pytest.CaptureFixture[str]) -> None:
        self.browsed, self.page, self.server = browsed, browsed.page, browsed.server
        self.folder, self._capture = folder, capture
        self.named, self.run = set[str](), list[str]()  # of the current step
        self._links = list[str]()

    def name(self, text: str) -> str:
        """Return a name that the step has in bold."""
        self.named.add(text)
        return text

    def press(self, text: str, within: str = "main") -> None:
        press(self.page, self.name(text), within)

    def act(self, text: str) -> None:
        """Press a button that asks whether it is meant."""
        self.press(text)
        self.page.until("document.querySelector('#question').open")
        press(self.page, text, "#question")
        self.page.until("!document.querySelector('#question').open && !document.querySelector('[aria-busy]')")

    def see(self, text: str) -> None:
        """Wait for a heading that is shown."""
        self.page.until(
            "[...document.querySelectorAll('h2, h3, h4, summary')].some((node) => node.getClientRects().length &&"
            f" node.textContent === {json.dumps(self.name(text))})"
        )

    def open(self, text: str) -> None:
        """Open a part of the page that is folded."""
        find = f"[...document.querySelectorAll('summary')].find((one) => one.textContent === {json.dumps(text)})"
        self.page.until(f"Boolean({find})")
        self.page.run(f"{find}.click()")
        self.name(text)

    def tab(self, title: str) -> None:
        """Look at another part of the study."""
        self.press(title, "[role=tablist]")

    def write(self, label: str, text: str) -> None:
        """Fill in a field by its label."""
        self.page.run(
            f"((node) => {{ node.value = {json.dumps(text)};"
            " for (const type of ['input', 'change']) node.dispatchEvent(new Event(type, {bubbles: true}));"
            f" }})({self._control(label)})"
        )

    def tick(self, label: str, *, on: bool = True) -> None:
        """Tick a box, or take its tick away."""
        box = self._control(label)
        assert self.page.run(f"{box}.checked") is not on
        self.page.run(f"{box}.click()")

    def _control(self, label: str) -> str:
        named = json.dumps(self.name(label))
        find = f"[...document.querySelectorAll('label')].find((one) => one.textContent === {named}).control"
        self.page.until(f"Boolean({find})")
        return find

    def command(self, line: str, *more: str) -> str:
        """Run a command that the step shows, with what a test needs besides; return what it prints."""
        self.run.append(line)
        self._capture.readouterr()
        words = shlex.split(line)[1:]
        assert refaug(["--quiet", "--home", str(self.server.home), *words, *more]) == 0, line
        return self._capture.readouterr().out

    def stored(self) -> list[dict[str, Any]]:
        """The tasks that are over, as the service exports them."""
        lines = self.server.ask("GET", "/v1/studies/first/export").text.splitlines()
        return [json.loads(line) for line in lines]

    def count(self, name: str) -> str:
        return str(self.page.run(f"document.querySelector('#counts [data-count={name}]')?.innerText ?? ''"))

    def look_right(self) -> None:
        looks_right(self.page)

    # ── the steps ──

    def step_1(self) -> None:
        self.page.go(f"{self.browsed.address}/")
        self.page.until("document.querySelector('nav a[href$=studies]')")
        assert self.page.text("nav a[href$=studies]") == self.name("Studies")
        self.page.run("document.querySelector('nav a[href$=studies]').click()")
        self.page.until("document.querySelector('#to-new')?.hidden === false && !document.querySelector('[aria-busy]')")
        self.look_right()
        assert self.page.text("#to-new") == self.name("New study")
        self.page.run("document.querySelector('#to-new').click()")
        self.see("How many people?")
        self.page.type("#power-difference", "0.5")
        press(self.page, "Calculate")
        assert self.page.until("document.querySelector('#power-result b')?.innerText") == "107"
        self.look_right()

    def step_2(self) -> None:
        self.write("Title, which participants see", "Talking with machines")
        self.write("Name", "first")
        self.press("Next")
        for bot in BOTS:
            self.page.run(f"document.querySelector('[id=\"bot-{bot}\"]').click()")
        assert self.page.run("document.querySelector('#study-target').value") == "50"
        self.write("Chats of each bot", "12")
        self.write("Replies appear", "none")
        self.tick("a degraded bot among them, which attentive people rate lower")

    def step_3(self) -> None:
        press(self.page, "Next")
        self.page.until("document.querySelectorAll('#questions > li').length === 6")
        assert self.page.text("#add-question") == self.name("Add a question")
        self.look_right()
        press(self.page, "Next")
        self.write("Consent", "# About this study\n\nYou talk with programs. We store what you write and choose.")

    def step_4(self) -> None:
        self.open("Practice, checks and exclusions")
        assert self.page.run(f"{self._control('who rates the degraded bot no lower')}.checked")
        self.tick("who takes less than 2 seconds a turn", on=False)

    def step_5(self) -> None:
        press(self.page, "Next")
        self.see("What participants see")
        assert self.page.text("#study-missing").startswith("Nothing is missing")
        self.press("Make the draft")
        self.page.until("document.querySelector('#act-pilot')")
        self.look_right()
        self.tab("Protocol")
        self.see("What participants see")
        self.page.until("document.querySelector('.preview')?.innerText.includes('We store what you write')")
        self.see("Preregistration")
        assert self.page.text("#print") == self.name("Print it")
        protocol = self.server.ask("GET", "/v1/studies/first").json()["protocol"]
        assert (protocol["bots"], protocol["target"], protocol["delay"]) == (list(BOTS), 12, "none")
        assert protocol["checks"] == {"attention": 1, "degraded": True, "repeat": 0}
        rules = {name for name, setting in protocol["exclude"].items() if setting}
        assert rules == {"failed_attention", "degraded_not_lower", "same_answer_everywhere"}
        self.look_right()

    def step_6(self) -> None:
        self.tab("Overview")
        self.act("Begin the pilot")

    def step_7(self) -> None:
        line = "refaug studies simulate --study first --participants 10 --careless 0.2"
        rehearsed = json.loads(self.command(line, "--server", self.browsed.address, "--json"))
        assert (rehearsed["participants"], rehearsed["ends"]) == (10, {"done": 10})
        assert (rehearsed["stored"]["lost"], rehearsed["stored"]["answers_that_differ"]) == (0, 0)
        self.see("Progress")
        self.page.until("document.querySelector('#counts [data-count=finished]')?.innerText === '10'")
        assert self.count("tasks_done") == str(rehearsed["stored"]["acknowledged"]) == "30"
        self.tab("Report")
        self._hold_means(rehearsed["caught"]["honest"]["participants"])

    def step_8(self) -> None:
        self.tab("Links")
        self.press("Make links")
        link = self.page.until("document.querySelector('#new-links .link')?.textContent")
        person = self._arrive(link)
        self._chat(person, 1)
        assert person.said == []
        self.page.until("document.querySelector('#counts [data-count=tasks_done]')?.textContent === '31'")
        assert {record["pilot"] for record in self.stored()} == {True}

    def step_9(self) -> None:
        press(self.page, "Overview", "[role=tablist]")
        self.act("Open it")
        self.page.until("document.querySelector('#act-close')")
        self.page.until("document.querySelector('#counts [data-count=participants]')?.innerText === '0'")

    def step_10(self) -> None:
        self.tab("Links")
        self.write("Links", "6")
        self.write("Participants of each link", "1")
        self.press("Make links")
        self._links = self.page.until(
            "((links) => links.length === 6 && links)"
            "([...document.querySelectorAll('#new-links .link')].map((one) => one.textContent))"
        )
        assert len(set(self._links)) == 6

    def step_11(self) -> None:
        for place, link in enumerate(self._links):
            if place < 2:
                person = self._arrive(link)
                for _ in range(3):
                    self._chat(person, 1 + place)
                assert person.until("document.querySelector('#code')?.textContent")
                assert person.said == []
            else:
                self._chat_by_requests(link)
        self.tab("Overview")
        self.see("Progress")
        self.page.until("document.querySelector('#counts [data-count=finished]')?.innerText === '6'")
        assert self.count("tasks_done") == "18"
        self.page.until("document.querySelectorAll('#people tbody tr').length === 17")  # of the pilot, too
        self.see("Agreement")
        self.see("Participants")
        self.look_right()
        self.tab("Responses")
        self.page.until("document.querySelector('#responses-total').innerText.startsWith('18 responses')")
        self.look_right()

    def step_12(self) -> None:
        press(self.page, "Overview", "[role=tablist]")
        self.act("Close it")
        self.page.until("document.querySelector('#remove-study')")

    def step_13(self) -> None:
        self.tab("Report")
        self.see("Means")
        self.see("Differences")
        assert self.page.text("#report-page") == self.name("Download as HTML")
        self._hold_means(6)
        (row,) = [row for row in self._rows("Differences") if row["Question"] == "quality"]
        assert row["Systems"] == "c-bm25 − vectors"
        assert float(row["Difference"]) == pytest.approx(self._mean("c-bm25") - self._mean("vectors"), abs=0.005)
        # everybody's two ratings are as far apart, which says nothing of how others vary
        assert (row["Difference"], row.get("Interval", "–"), row.get("p, after Holm", "–")) == ("2.00", "–", "–")
        assert "all said the same" in self.page.text("#few-participants")
        self.look_right()

    def step_14(self) -> None:
        shown = "[...document.querySelectorAll('main button')].map((one) => one.textContent)"
        assert self.name("Tasks as JSON lines") in self.page.run(shown)
        self.tab("Protocol")
        self.page.until("document.querySelector('#keep-protocol')")
        assert self.name("Keep the protocol as a file") in self.page.run(shown)
        tasks, protocol, report = (self.folder / name for name in ("first.jsonl", "first.json", "report"))
        tasks.write_text(self.server.ask("GET", "/v1/studies/first/export?format=jsonl").text)
        protocol.write_text(json.dumps(self.server.ask("GET", "/v1/studies/first").json()["protocol"]))
        self.command("refaug studies report first.jsonl --protocol first.json --to report")
        of_files = {path.name: path.read_bytes() for path in report.iterdir()}
        self.command("refaug studies report first --to report")
        assert {path.name: path.read_bytes() for path in report.iterdir()} == of_files
        figures = json.loads((report / "report.json").read_text())
        means = {row["bot"]: row["mean"] for row in figures["analyses"]["kept"]["ratings"]["quality"]["means"]}
        assert means == {bot: pytest.approx(self._mean(bot)) for bot in BOTS}
        assert "c-bm25" in (report / "report.html").read_text()

    # ── people ──

    def _arrive(self, link: str) -> Page:
        person = self.page.other_device(link)
        person.look(1_280)
        agree(person)
        return person

    def _chat(self, person: Page, less: int) -> None:
        """Do a task in the browser, and rate the chat by what its bot is."""
        press_button(person, "#start-task")
        for turn, text in enumerate(SAID, 1):
            say(person, text, turn)
        press_button(person, "#close-chat")
        person.until("document.querySelector('.question')?.getClientRects().length")
        task = person.run("fetch('v1/take/state').then((answer) => answer.json()).then((state) => state.task.id)")
        person.run(f"({_ANSWER})({self._rating(task) - less + 1})")
        press_button(person, "#finish")
        person.until("document.querySelector('#start-task, #code')")

    def _chat_by_requests(self, link: str) -> None:
        person = Person(self.server.client)
        person.enter(link.partition("#")[2])
        person.agree()
        while person.done("tasks/next")["step"] == "task":
            task = person.state["task"]
            for text in SAID:
                person.say(text)
            rating = self._rating(task["id"])
            answers: dict[str, Any] = dict.fromkeys(QUESTIONS, rating)
            for question in task["form"]["questions"]:
                if question["id"] == "attention":
                    answers["attention"] = next(
                        option["value"] for option in question["options"] if option["text"] in question["text"]
                    )
            person.done(f"tasks/{task['id']}/answers", {"answers": answers})
            if person.done(f"tasks/{task['id']}/finish")["step"] == "done":
                return

    def _rating(self, task: str) -> int:
        """What an attentive person says of the bot of a task."""
        with closing(Database.open(Settings(home=self.server.home))) as database:
            study = StudyStore(database, BotStore(database, Settings(home=self.server.home))).get("first")
            return RATINGS.get(bots_of_task(database, study, task)["one"], 2)

    # ── figures ──

    def _rows(self, heading: str) -> list[dict[str, str]]:
        """The cells of the table under a heading of the report, by their columns."""
        find = f"[...document.querySelectorAll('#report h3')].find((one) => one.textContent === {json.dumps(heading)})"
        self.page.until(f"Boolean({find})")
        heads, *rows = self.page.run(
            f"[...{find}.nextElementSibling.querySelectorAll('tr')]"
            ".map((row) => [...row.children].map((cell) => cell.textContent))"
        )
        return [dict(zip(heads, row, strict=True)) for row in rows]

    def _hold_means(self, least_people: int) -> None:
        """Hold the means of everybody to the tasks that the service exports."""
        rows = [row for row in self._rows("Means") if row["Question"] == "quality"]
        assert sorted(row["System"] for row in rows) == list(BOTS)
        for row in rows:
            mean, interval, bot = float(row["Mean"]), row.get("Interval", "–"), row["System"]
            of_all = float(row.get("Mean of everybody", mean))  # a column where somebody is left out
            if of_everybody := row.get("Interval of everybody"):
                low, high = map(float, of_everybody.split(" to "))
                assert low <= of_all <= high
            assert of_all == pytest.approx(self._mean(bot), abs=0.005), bot
            assert int(row["Participants"]) >= least_people - 1
            assert (interval == "–") == (int(row["Participants"]) < FEWEST_UNITS)
            if interval != "–":
                low, high = map(float, interval.split(" to "))
                assert low <= mean <= high

    def _mean(self, bot: str) -> float:
        """The mean quality of a bot, computed from the tasks of the study, or of its pilot while there is no other."""
        ratings = defaultdict[bool, list[float]](list)
        for record in self.stored():
            if record["state"] == "done" and record["check"] is None and record["bots"][0]["bot"] == bot:
                ratings[record["pilot"]].append(record["answers"]["quality"])
        return fmean(ratings[False] or ratings[True])


def test_every_step_of_the_page_does_what_it_says(
    browsed: Browsed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    walk = Walk(browsed, tmp_path, capfd)
    texts = steps()
    assert {f"step_{number}" for number in range(1, len(texts) + 1)} == {
        name for name in dir(walk) if name.startswith("step_")
    }
    for number, text in enumerate(texts, 1):
        walk.named.clear()
        walk.run.clear()
        getattr(walk, f"step_{number}")()
        assert walk.named == set(re.findall(r"\*\*([^*]+)\*\*", text)), text
        assert walk.run == re.findall(r"`(refaug [^`]+)`", text), text
