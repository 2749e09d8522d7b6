"""Every page is linked from docs/index.md, links resolve, the README is short, and the prose keeps its rules."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
README = ROOT / "README.md"
INDEX = DOCS / "index.md"
PAGES = sorted(
    [
        README,
        ROOT / "CONTRIBUTING.md",
        ROOT / "CHANGELOG.md",
        ROOT / "clients" / "python" / "README.md",
        *DOCS.rglob("*.md"),
    ]
)
WRITTEN_BY_PROGRAMS = {"reference", "results"}  # folders under docs/
PROSE = [page for page in PAGES if page.parent.name not in WRITTEN_BY_PROGRAMS]
OPENING = 80  # words of the first paragraph
BANNED = (
    "whoever",
    "nobody",
    "somebody",
    "what is told",
    "is told",
    "of its own",
    "of their own",
    "of one's own",
    "for ever",
    "anew",
    "thereby",
    "wherein",
    "whereby",
)
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"^(?: {4}.*\n)+", re.MULTILINE)


def prose(page: Path) -> str:
    """The text of a page without its code."""
    return _INDENTED.sub("", _FENCE.sub("", page.read_text("utf-8")))


def linked_files(page: Path) -> list[Path]:
    """The files that the relative links of a page lead to, whether they exist or not."""
    targets = [target.partition("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", prose(page))]
    return [(page.parent / target).resolve() for target in targets if target and "://" not in target]


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def test_every_page_is_linked_from_the_index() -> None:
    linked = set(linked_files(INDEX))
    assert [name(page) for page in sorted(DOCS.rglob("*.md")) if page != INDEX and page not in linked] == []


def test_no_page_stands_twice_in_the_groups_of_the_index() -> None:
    rows = re.findall(r"^\| \[[^\]]+\]\(([^)]+)\) \|", INDEX.read_text("utf-8"), re.MULTILINE)
    assert sorted(set(rows)) == sorted(rows)
    assert re.findall(r"^## (.*)$", INDEX.read_text("utf-8"), re.MULTILINE) == [
        "Tutorials",
        "How-to guides",
        "Reference",
        "Explanation",
        "For maintainers",
    ]


def test_the_readme_fits_on_two_screens() -> None:
    text = README.read_text("utf-8")
    assert len(text.splitlines()) <= 150
    assert len(text.split()) <= 900


@pytest.mark.parametrize("page", PROSE, ids=name)
def test_no_page_opens_with_a_wall_of_text(page: Path) -> None:
    paragraphs = [part for part in re.split(r"\n\s*\n", prose(page)) if part.strip() and not part.startswith("#")]
    assert len(paragraphs[0].split()) <= OPENING


@pytest.mark.parametrize("page", PROSE, ids=name)
def test_lines_break_at_the_ends_of_sentences(page: Path) -> None:
    """A line that does not end its paragraph ends in a mark that ends a sentence."""
    broken = []
    for paragraph in re.split(r"\n\s*\n", prose(page)):
        lines = paragraph.splitlines()
        for line, following in pairwise(lines):
            if re.match(r"\s*([|#<]|[-*] |\d+\. )", following) or line.startswith(("|", "#", "<")):
                continue
            if not re.search(r"[.:!?][)*`\"”]*$", line.rstrip()):
                broken.append(line[-60:])
    assert broken == []


@pytest.mark.parametrize("page", PROSE, ids=name)
def test_the_prose_has_none_of_the_banned_words(page: Path) -> None:
    text = re.sub(r"`[^`\n]*`", "", prose(page)).lower()
    text = text.replace("dealt out anew", "")  # the name of a control in docs/results
    assert [word for word in BANNED if re.search(rf"\b{word}\b", text)] == []
