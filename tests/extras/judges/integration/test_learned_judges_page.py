"""Likelihood, ADEM and a fitted judge in the playground, in a real browser, beside the answers of the API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from engines import TEXTS
from extras.judges.integration.test_adem_commands import TINY
from extras.judges.integration.test_judge_fit_command import METRICS, rated_items
from integration.test_playground_page import GOLD, REPLY, TILES, UTTERANCE, choose, filled, rounded
from page_tests import Browsed, accessibility_faults, browsing
from serving import small_home
from vhreds import SENTENCES

from refaug.cli.main import main
from refaug.core.progress import Silent
from refaug.logs.ingest.ingest import ingest
from refaug.logs.ingest.order import IngestOrder

pytestmark = [pytest.mark.machine, pytest.mark.slow]
JUDGES = ("likelihood:model=talk", "judge-fit:mine", "adem:model=scorer")


@pytest.fixture(scope="module")
def browsed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browsed]:
    """A home with an index and a rater, and the three judges; and a browser before it."""
    folder = tmp_path_factory.mktemp("home")
    home = small_home(folder)
    dialogues = [
        {"id": str(number), "turns": [*SENTENCES[number % 40 :][:2], TEXTS[number % len(TEXTS)]]}
        for number in range(260)
    ]
    (folder / "talk.jsonl").write_bytes(b"\n".join(map(orjson.dumps, dialogues)))
    ingest(IngestOrder(sources=(str(folder / "talk.jsonl"),), log="talk"), home.logs, Silent())
    rated = str(rated_items(folder / "rated.jsonl", 1, 60))
    for command in (
        ["train", "vhred", "talk", *TINY, "--max-tokens", "12"],
        ["train", "adem", rated, "--encoder", "talk", "--name", "scorer", "--components", "10", "--threads", "1"],
        ["train", "judge-fit", rated, "--name", "mine", *METRICS, "--length", "held"],
    ):
        assert main(["--home", str(home.home), "--quiet", *command]) == 0, command
    with browsing(home.home, tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.fixture
def page(browsed: Browsed) -> Iterator[Any]:
    """A page of the playground with nothing in it."""
    page = browsed.page
    page.go(f"{browsed.address}/healthz")
    page.run("sessionStorage.clear()")
    page.said.clear()
    page.go(f"{browsed.address}/")
    page.until("document.querySelector('#setting-more') && document.querySelector('#references').textContent")
    yield page
    assert page.said == []


def scores_of(browsed: Browsed, reply: str) -> dict[str, str]:
    """The scores of the three judges, asked for by a program."""
    item = {"id": "playground", "utterance": UTTERANCE, "references": [GOLD], "replies": {"A": reply}}
    body = {"items": [item], "metrics": list(JUDGES), "references": "given", "on_error": "report"}
    answer = browsed.server.ask("POST", "/v1/scores", json=body).json()
    return {each["metric"]: rounded(each["systems"]["A"]["replies"][0]["score"]) for each in answer["scores"]}


def until_judged(page: Any, expected: dict[str, str]) -> None:
    """Wait until the tiles after the four of the page are these."""
    tiles = json.dumps(list(map(list, expected.items())), separators=(",", ":"), ensure_ascii=False)
    page.until(f"JSON.stringify({TILES}.slice(4)) === {json.dumps(tiles)}")


def test_each_judge_scores_what_is_typed(browsed: Browsed, page: Any) -> None:
    filled(page)
    choose(page, "#setting-more", " ".join(JUDGES))
    expected = scores_of(browsed, REPLY)
    assert len(expected) == 3
    assert "–" not in expected.values()
    until_judged(page, expected)
    titles = page.run("[...document.querySelectorAll('#scores-A .score')].slice(4).map((tile) => tile.title)")
    for name, title in zip(
        ("likelihood|model:talk@", "judge-fit|model:mine@", "adem|model:scorer@"), titles, strict=True
    ):
        assert name in title
    other = TEXTS[12]
    page.type("#reply-0", other)
    until_judged(page, scores_of(browsed, other))
    assert accessibility_faults(page) == []


def test_an_adem_that_is_not_named_is_asked_for(browsed: Browsed, page: Any) -> None:
    filled(page)
    choose(page, "#setting-more", "adem")
    page.until("document.querySelector('#score-problem').innerText.includes('metric `adem` needs an ADEM model')")
    choose(page, "#setting-more", "adem:model=scorer")
    page.until(f"{TILES}.length === 5 && document.querySelector('#score-problem').innerText === ''")
    choose(page, "#setting-more", "")
    page.until(f"{TILES}.length === 4 && document.querySelector('#score-problem').innerText === ''")
    page.said[:] = [line for line in page.said if "422" not in line and "400" not in line]


@pytest.mark.parametrize("what", ["curl", "python", "command"])
def test_what_is_copied_names_the_adem(page: Any, what: str) -> None:
    filled(page)
    choose(page, "#setting-more", "adem:model=scorer")
    page.until(f"{TILES}.length === 5")
    page.click(f"#copy-{what}")
    assert "adem:model=scorer" in page.until("document.querySelector('#share-text').textContent")
