"""The page of participants: it loads nothing of other pages, asks its own routes alone, and is small."""

from __future__ import annotations

import re
from collections.abc import Iterator

import orjson
import pytest
from page_scripts import FILES, PARTICIPANTS, SCRIPTS, imported_by
from serving import client_of, migrated
from starlette.testclient import TestClient

from refaug.core.home import Settings
from refaug.extras.studies.participation.tasks import task_assignment
from refaug.service.web.pages.shells import POLICY, render_shell
from refaug.service.web.pages.static_files import static_files

TAKE = "/take"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    home = tmp_path_factory.mktemp("pages") / "home"
    home.mkdir()
    with client_of(migrated(Settings(home=home)), ready=False, keys=True) as found:
        yield found


def test_the_page_of_participants_loads_nothing_of_other_pages() -> None:
    ours = {name for name in SCRIPTS if name.startswith("take/")}
    assert imported_by("take/take.js") == {*ours, "dom.js"}
    page = render_shell(TAKE, "")
    assert set(re.findall(r'href="([^"#]+)"', page)) == {
        f"/pages/{static_files().digest}/{name}" for name in {*ours, "dom.js", "base.css", "take/take.css", "icon.svg"}
    } - {f"/pages/{static_files().digest}/take/take.js"}
    assert "refaug" not in page


def test_the_page_of_participants_asks_nothing_but_its_own_routes(client: TestClient) -> None:
    answer = client.get("/take?PROLIFIC_PID=5f")
    assert answer.headers["content-security-policy"] == POLICY
    for part in ("default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "img-src 'self'"):
        assert part in POLICY.split("; ")
    assert (answer.headers["referrer-policy"], answer.headers["cache-control"]) == ("no-referrer", "no-store")
    routes = {found for name in imported_by("take/take.js") for found in re.findall(r"/v1/[\w/]*", SCRIPTS[name])}
    assert routes == {"/v1/take/"}


ENGLISH = dict(re.findall(r'^  (\w+): "(.*)",$', SCRIPTS["take/words.js"], flags=re.MULTILINE))
OF_THE_SERVER = {"attention": "{answer}", **dict.fromkeys(task_assignment.ATTENTION_ANSWERS, "")}


@pytest.mark.parametrize("language", ["de", "ja"])
def test_a_language_has_all_words_with_their_places(language: str) -> None:
    words = orjson.loads(FILES[f"take/languages/{language}.json"])
    expected = {**ENGLISH, **OF_THE_SERVER}
    assert list(words) == sorted(expected)
    for name, text in words.items():
        assert set(re.findall(r"\{\w+\}", text)) == set(re.findall(r"\{\w+\}", expected[name])), name
        assert text.count("\n") == expected[name].count("\\n"), name


def test_all_files_of_languages_are_tested() -> None:
    assert {name for name in FILES if "/languages/" in name} == {f"take/languages/{one}.json" for one in ("de", "ja")}


def test_words_of_participants_are_used() -> None:
    scripts = "".join(SCRIPTS[name] for name in imported_by("take/take.js"))
    steps = ("screened_out", "full", "closed", "withdrawn")  # named by the state
    sides = {f"{part}_{side}" for part in ("conversation", "speaker") for side in ("left", "right")}
    unused = {name for name in ENGLISH if f'"{name}"' not in scripts}
    assert unused <= sides | {name for step in steps for name in (step, f"{step}_text")}


def test_the_page_is_below_60_kb_as_it_is_sent(client: TestClient) -> None:
    names = {*imported_by("take/take.js"), "base.css", "take/take.css", "icon.svg", "take/languages/ja.json"}
    addresses = [TAKE, *(f"/pages/{static_files().digest}/{name}" for name in names)]
    assert 10_000 < sum(int(client.get(address).headers["content-length"]) for address in addresses) < PARTICIPANTS
