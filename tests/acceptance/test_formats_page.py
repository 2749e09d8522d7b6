"""Examples of docs/formats.md, docs/first-steps.md and README.md: the files, the commands, what they print."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from acceptance.examples import ROOT, Example, examples, run, whole

from refaug.cli import main as cli
from refaug.logs.reading.formats import FORMATS
from refaug.logs.reading.shapes import KNOWN_NAMES

FORMATS_PAGE = ROOT / "docs" / "formats.md"
FIRST_STEPS = ROOT / "docs" / "first-steps.md"


@pytest.mark.parametrize("example", examples(FORMATS_PAGE), ids=lambda example: example.title)
def test_an_example_of_the_formats_page_gives_what_the_page_shows(
    example: Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run(example, tmp_path, monkeypatch, capfd)


@pytest.mark.parametrize("example", examples(ROOT / "README.md"), ids=lambda example: example.title)
def test_an_example_of_the_readme_gives_what_it_shows(
    example: Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run(example, tmp_path, monkeypatch, capfd)


@pytest.mark.slow
def test_the_first_steps_give_what_they_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run(whole(FIRST_STEPS), tmp_path, monkeypatch, capfd)


def test_every_format_is_in_an_example_or_named_with_its_option() -> None:
    page = FORMATS_PAGE.read_text("utf-8")
    titles = " ".join(example.title for example in examples(FORMATS_PAGE)).lower()
    titled = {"aligned": "line-aligned", "messages": "messages of a tree"}
    assert [name for name in FORMATS if titled.get(name, name) not in titles] == []
    assert [name for name in ("aligned", "messages") if f"--format {name}" not in page] == []


def test_the_page_lists_the_known_field_names_in_order() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (`[^|]*`) \|$", FORMATS_PAGE.read_text("utf-8"), re.MULTILINE)
    assert {field: tuple(re.findall(r"`([^`]+)`", names)) for field, names in rows} == dict(KNOWN_NAMES)


@pytest.mark.slow
def test_the_first_steps_count_the_invented_log(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log, items = tmp_path / "demo-log.jsonl", tmp_path / "demo-items.jsonl"
    commands = (
        f"log demo --noise 0.03 --output {log} --items-output {items}",
        f"log ingest {log} --log demo --language en",
    )
    for command in commands:
        assert cli.main(["--home", str(tmp_path / "home"), *command.split()]) == 0
    printed = capfd.readouterr().out
    assert "20,000 dialogues" in printed
    assert "62,798 pairs added" in printed
    assert "20,000 dialogues, 62,798 pairs" in FIRST_STEPS.read_text("utf-8")
