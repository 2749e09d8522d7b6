"""The pages of the client do what they show, and name everything that there is."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import pkgutil
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from pages import PAGES_URL, ROOT, Block, Page, blocks, matches, require_names
from servers import Served

import refaug_client
from refaug_client import Client
from refaug_client._api import models
from refaug_client._api.methods import Resource
from refaug_client._core import errors as client_errors
from refaug_client._http import settings

DOCS = ROOT / "docs"
README = ROOT / "clients" / "python" / "README.md"
PAGES = [README, DOCS / "sdk.md", DOCS / "sdk-reward.md", DOCS / "sdk-ci.md"]
WITH_SERVERS = ("sdk.md", "sdk-ci.md")  # their blocks start servers of their own
SDK = (DOCS / "sdk.md").read_text("utf-8")


@pytest.fixture
def home_of_the_pages(server: Served, tmp_path: Path) -> Path:
    """A home that no server has yet, with what the server of the tests has published."""
    home = tmp_path / "refaug-data"
    for folder in ("indexes", "raters", "vectors", "logs"):
        if (server.home / folder).exists():
            shutil.copytree(server.home / folder, home / folder)
    return home


@pytest.mark.parametrize(
    "page",
    [README, DOCS / "sdk-reward.md", *(pytest.param(DOCS / name, marks=pytest.mark.slow) for name in WITH_SERVERS)],
    ids=lambda page: page.name,
)
def test_every_block_of_the_page_does_what_it_shows(
    page: Path, url: str, home_of_the_pages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if "NUMBA_CACHE_DIR" not in os.environ:
        monkeypatch.setenv("NUMBA_CACHE_DIR", "")  # what was compiled beside the code, not anew for a home
    assert Page(page, tmp_path, url).run().held >= 4
    assert home_of_the_pages.exists()


def test_the_notebook_of_training_runs(url: str) -> None:
    notebook, names = json.loads((ROOT / "examples/notebooks/training.ipynb").read_text("utf-8")), dict[str, Any]()
    code = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for source in code:
        exec(source.replace(PAGES_URL, url), names)
    assert (len(code), names["train"].purpose, names["test"].purpose) == (4, "train", "test")
    names["reward"].close()
    names["refaug"].close()


def test_the_block_of_the_main_page_does_what_it_shows(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REFAUG_URL", url)
    main = Page(ROOT / "README.md", tmp_path, url)
    [block] = [block for block in blocks(main.page) if block.language == "python" and "refaug_client" in block.text]
    main.do(block)
    assert main.held == 1


def test_the_first_score_takes_five_lines() -> None:
    first = next(block for block in blocks(README) if block.language == "python")
    lines = [line for line in first.text.splitlines() if line.strip()]
    assert len(lines) <= 5
    assert max(map(len, lines)) <= 120


# ── what the runner of the pages itself holds ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("printed", "shown", "same"),
    [
        ("0.5", "0.5", True),
        ("0.5123", "0.5…", True),
        ("0.6", "0.5…", False),
        ("a\nb\nc", "a\n…\nc", True),
        ("a\nc", "a\n…\nc", True),
        ("a\nb", "a", False),
        ("a  \nb", "a\nb", True),
        ("", "…", True),
        ("a\nb", "…\n…", True),
    ],
)
def test_an_ellipsis_stands_for_text_in_a_line_or_for_whole_lines(printed: str, shown: str, same: bool) -> None:
    assert matches(printed, shown) is same


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("```python\nprint(1 + 1)  # 3\n```\n", "page.md, line 2: 2"),
        ("```python\nif False:\n    print(1)  # 1\n```\n", "never printed"),
        ("```python\nfor n in (1, 2):\n    print(n)  # 1\n```\n", "page.md, line 3: 2"),
        ("```console\n$ echo one\ntwo\n```\n", "one"),
        ("```console exits=1\n$ true\n```\n", "true"),
        ("```python in=integrations\nfrom refaug_client.integrations.trl import Nothing\n```\n", "has no Nothing"),
        ("```ruby\nputs 1\n```\n", "'ruby'"),
    ],
)
def test_a_page_that_shows_what_is_not_so_fails(tmp_path: Path, text: str, wrong: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(text, "utf-8")
    with pytest.raises(AssertionError, match=re.escape(wrong)):
        Page(page, tmp_path, "http://127.0.0.1:1").run()


# ── nothing is left out ───────────────────────────────────────────────────────────────────────────────────────────


def test_the_reference_has_everything_that_can_be_imported() -> None:
    page = (DOCS / "reference" / "client.md").read_text("utf-8")
    headings = {match[1] for match in re.finditer(r"^###+ (\w+)", page, re.MULTILINE)}
    shown = {name for name in refaug_client.__all__ if inspect.isclass(getattr(refaug_client, name))}
    assert {name for name in shown if not name.startswith("Async")} - headings == set()


def test_the_reference_has_every_resource_of_a_client_and_every_result() -> None:
    page = (DOCS / "reference" / "client.md").read_text("utf-8")
    headings = {match[1] for match in re.finditer(r"^###+ (\w+)", page, re.MULTILINE)}
    attributes = vars(Client("http://127.0.0.1:8000")).items()
    nouns = {noun: type(value).__name__ for noun, value in attributes if not noun.startswith("_")}
    assert {"bots", "uploads", "evaluations", "jobs", "keys", "audit"} <= nouns.keys()
    assert set(nouns.values()) - headings == set()
    of_models = {
        name
        for module in pkgutil.iter_modules(models.__path__, f"{models.__name__}.")
        for name, member in vars(importlib.import_module(module.name)).items()
        if inspect.isclass(member) and member.__module__ == module.name
        if not issubclass(member, Exception) and not name.startswith("_")
    }
    assert {"Upload", "Evaluation", "StoredBot"} <= of_models
    assert of_models - headings == set()


def test_every_noun_method_and_error_of_a_client_stands_in_the_reference() -> None:
    client = Client("http://127.0.0.1:8000")
    nouns = {noun: type(value) for noun, value in vars(client).items() if isinstance(value, Resource)}
    page = (DOCS / "reference" / "client.md").read_text("utf-8")
    kinds = {type(client), *nouns.values()}
    errors = {
        name for name, kind in vars(client_errors).items() if inspect.isclass(kind) and issubclass(kind, Exception)
    }
    named = {*nouns, *errors, *(name for kind in kinds for name in public(kind))}
    assert {name for name in named if not re.search(rf"\b{name}\b", page)} == set()


def public(kind: type) -> list[str]:
    """Methods and properties for others."""
    return [name for name in dir(kind) if not name.startswith("_")]


def test_the_table_of_examples_has_every_example() -> None:
    listed = re.findall(r"\]\(examples/(\w+\.py)\)", README.read_text("utf-8"))
    assert sorted(listed) == sorted(path.name for path in README.parent.glob("examples/*.py"))


def test_every_setting_of_the_environment_stands_on_the_page() -> None:
    variables = {value for name, value in vars(settings).items() if name.endswith("_VARIABLE")}
    assert {name for name in variables if name not in SDK} == set()


def test_a_block_for_another_environment_imports_only_what_is_there() -> None:
    shown = [block for page in PAGES for block in blocks(page) if block.role == "in"]
    assert {block.name for block in shown} == {"integrations"}
    for block in shown:
        require_names(block)
    with pytest.raises(AssertionError, match="no module"):
        require_names(Block("python", "in", "", "from refaug_client.integrations.keras import Callback\n", 1))
