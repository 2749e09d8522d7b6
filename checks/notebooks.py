"""Make a notebook for each role from a page that tests hold to what it shows: its prose, files, commands and code.

python checks/notebooks.py [--check]

A block that the tests of the pages do not run stays text, and so does what a command prints.
"""

from __future__ import annotations

import json
import posixpath
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDER: Final = ROOT / "examples/notebooks"
PAGES: Final = {"research": "first-steps", "operation": "artefacts", "training": "sdk-reward"}
_NEEDS: Final = {"training": " It needs a server at 127.0.0.1:8000: `refaug serve`, in a terminal."}
_FENCE: Final = re.compile(r"^```(\w+)(?: (\w+)=(\S+))?\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
_COMMAND: Final = re.compile(r"^\$ (.*)\n", re.MULTILINE)
_LINK: Final = re.compile(r"\]\((?!\w+:|#)([^)]+)\)")


def notebook(role: str) -> dict[str, Any]:
    """Return the notebook of a role."""
    page = PAGES[role]
    text = (ROOT / f"docs/{page}.md").read_text("utf-8")
    note = f"This is [{page}.md]({page}.md) as a notebook.{_NEEDS.get(role, '')}\n\n"
    title, _, rest = text.partition("\n\n")
    cells: list[dict[str, Any]] = [
        {"cell_type": kind, "id": f"{role}-{number}", "metadata": {}, "source": source.splitlines(keepends=True)}
        | ({"execution_count": None, "outputs": []} if kind == "code" else {})
        for number, (kind, source) in enumerate(_cells(f"{title}\n\n{note}{rest}"))
    ]
    python = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": cells, "metadata": {"kernelspec": python}, "nbformat": 4, "nbformat_minor": 5}


def _cells(text: str) -> Iterator[tuple[str, str]]:
    """Yield the kind and the source of each cell, in order."""
    prose, end = "", 0
    for fence in _FENCE.finditer(text):
        prose += text[end : fence.start()]
        end = fence.end()
        source = _code(*fence.groups(""))
        if source is None:
            prose += f"```{fence[1]}\n{fence[4]}```\n"
            continue
        if prose.strip():
            yield "markdown", _linked(prose).strip()
        yield "code", source.rstrip()
        prose = ""
    if rest := _linked(prose + text[end:]).strip():
        yield "markdown", rest


def _code(language: str, role: str, name: str, body: str) -> str | None:
    """Return a block as a cell; None where it is not to be run here."""
    if role == "file":
        return f"%%writefile {name}\n{body}"
    if (language, role) == ("console", ""):
        return "%%bash\n" + "".join(f"{command}\n" for command in _COMMAND.findall(body))
    return body if (language, role) == ("python", "") else None


def _linked(prose: str) -> str:
    """Return prose whose links lead from the folder of the notebooks to where they led from docs/."""
    return _LINK.sub(lambda link: f"]({posixpath.normpath(posixpath.join('../../docs', link[1]))})", prose)


def main(arguments: list[str]) -> int:
    """Write the notebooks; with `--check`, return 1 where one is not that of its page."""
    stale = list[str]()
    for role in PAGES:
        path, text = FOLDER / f"{role}.ipynb", json.dumps(notebook(role), indent=1, ensure_ascii=False) + "\n"
        if "--check" not in arguments:
            path.write_text(text, "utf-8")
        elif not path.is_file() or path.read_text("utf-8") != text:
            stale.append(path.name)
    if stale:
        print(f"{', '.join(stale)}: not as the pages are; run python checks/notebooks.py", file=sys.stderr)
    return bool(stale)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
