"""Pages do what they show: every example is run."""

from __future__ import annotations

from pathlib import Path

import pytest
from acceptance.examples import ROOT, matches, run, whole

DOCS = ROOT / "docs"
PAGES = (
    "items",
    "tables",
    "scores",
    "verify",
    "compare",
    "bleu",
    "levels",
    "upsilon",
    "metrics",
    "gaming",
    "bots",
    "sets",
    *(pytest.param(page, marks=pytest.mark.slow) for page in ("agreement", "raters", "ruber", "adem")),
)


@pytest.mark.parametrize("page", PAGES)
def test_every_example_of_the_page_gives_what_it_shows(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run(whole(DOCS / f"{page}.md"), tmp_path, monkeypatch, capfd)


@pytest.mark.parametrize(
    ("printed", "shown", "same"),
    [
        ("a 1\nb 2\n", "a 1\nb 2\n", True),
        ("a 1   \n", "a 1\n", True),
        ("a 1\nb 2\n", "a 1\n", False),
        ("a 1\nb 2\nc 3\n", "a 1\n…\nc 3\n", True),
        ("a 1\nc 3\n", "a 1\n…\nc 3\n", True),
        ("a 1\nb 2\nc 3\n", "…\nb 3\n…\n", False),
        ("full:5be0|refaug\n", "full:…\n", True),
        ("full:5be0\nmore\n", "full:…\n", False),
        ("a.c\n", "abc\n", False),
    ],
)
def test_an_ellipsis_stands_for_text_in_a_line_or_for_whole_lines(printed: str, shown: str, same: bool) -> None:
    assert matches(printed, shown) is same
