"""Write the pages of docs/reference: `python -m checks.reference.pages [--check] [FOLDER]`.

They are generated from commands, settings, routes, papers and results, and go into docs/reference, or into the folder.
With `--check` nothing is written, and the exit code is 1 where a page is not what they say.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from checks.reference.commands import cli_reference
from checks.reference.papers import papers_page
from checks.reference.routes import api_reference
from checks.reference.settings import settings_page

PAGES: Final[Mapping[str, tuple[Callable[[], str], str]]] = {
    "api.md": (api_reference, "the service says"),
    "cli.md": (cli_reference, "the commands say"),
    "papers.md": (papers_page, "the papers and results say"),
    "settings.md": (settings_page, "the settings say"),
}


def main(arguments: Sequence[str]) -> int:
    """Write the pages, or check that the existing ones are current."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("docs/reference"))
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args(arguments)
    stale = 0
    for name, (page, source) in PAGES.items():
        path, text = options.folder / name, page()
        if not options.check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        elif not path.exists() or path.read_text("utf-8") != text:
            sys.stderr.write(f"{path} is not what {source}: run make docs\n")
            stale = 1
    return stale


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
