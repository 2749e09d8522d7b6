"""The notebooks of examples/ run from top to bottom; what their cells give is shown by the tests of their pages.

That of training has its test beside those of the client, which have a server.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from acceptance.examples import ROOT, SHELL_FUNCTIONS

FOLDER = ROOT / "examples" / "notebooks"


def run_cell(source: str, folder: Path) -> None:
    """Run a cell with one of the two magics as Jupyter does."""
    magic, _, body = source.partition("\n")
    if magic == "%%bash":
        environment = {**os.environ, "PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
        subprocess.run(["bash", "-e", "-c", SHELL_FUNCTIONS + body], check=True, cwd=folder, env=environment)
    else:
        assert magic.startswith("%%writefile ")
        (folder / magic.partition(" ")[2]).write_text(f"{body}\n", "utf-8")


@pytest.mark.faults  # the commands are those of pages, whose tests run them
@pytest.mark.parametrize("role", ["research", "operation"])
def test_a_notebook_of_commands_runs(role: str, tmp_path: Path) -> None:
    notebook = json.loads((FOLDER / f"{role}.ipynb").read_text("utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            run_cell("".join(cell["source"]), tmp_path)
    assert (tmp_path / "refaug-data").is_dir()


def test_every_role_has_a_notebook() -> None:
    assert sorted(path.stem for path in FOLDER.iterdir()) == ["operation", "research", "training"]
