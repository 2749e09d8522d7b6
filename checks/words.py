"""Count the words of the pages that are written by hand, and hold them to their limits.

python checks/words.py [--pages]

A word is what stands between white space and has a letter or a digit, also in tables, code and examples. Written by
programs, or held to the code cell by cell, are docs/reference and docs/results. Readers are users, except for pages in
docs/internals, docs/architecture.md, CONTRIBUTING.md, CHANGELOG.md and SECURITY.md.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
FOR_USERS: Final = 45_000
IN_ALL: Final = 60_000
_GENERATED: Final = (ROOT / "docs/reference", ROOT / "docs/results")
_FOR_MAINTAINERS: Final = (
    ROOT / "docs/internals",
    ROOT / "docs/architecture.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    ROOT / "SECURITY.md",
)


def pages() -> list[Path]:
    """The pages that are written by hand: those of docs/, at the top of the repository, and of the client."""
    written = [page for page in (ROOT / "docs").rglob("*.md") if not page.is_relative_to(_GENERATED[0])]
    written = [page for page in written if not page.is_relative_to(_GENERATED[1])]
    return sorted([*written, *ROOT.glob("*.md"), ROOT / "clients/python/README.md"])


def word_count(page: Path) -> int:
    """The words of a page, code and tables included; signs alone, such as the bars of a table, are no words."""
    return sum(any(map(str.isalnum, word)) for word in page.read_text("utf-8").split())


def is_for_users(page: Path) -> bool:
    """Whether a page is meant for people who use refaug, not for those who change it."""
    return not any(page.is_relative_to(other) for other in _FOR_MAINTAINERS)


def main(arguments: list[str]) -> int:
    """Print the sums, with `--pages` also each page; return 1 where they are above their limits."""
    counts = {page: word_count(page) for page in pages()}
    if "--pages" in arguments:
        for page, count in sorted(counts.items(), key=lambda row: -row[1]):
            print(f"{count:6,}  {page.relative_to(ROOT)}")
    for_users, in_all = sum(count for page, count in counts.items() if is_for_users(page)), sum(counts.values())
    print(f"words by hand: {for_users:,} of {FOR_USERS:,} for users, {in_all:,} of {IN_ALL:,} in all")
    if for_users <= FOR_USERS and in_all <= IN_ALL:
        return 0
    print("say it in fewer words, or link to the page that says it", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
