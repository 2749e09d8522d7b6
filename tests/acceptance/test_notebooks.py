"""The notebooks of examples/ run from top to bottom, and their stored outputs are what their cells give."""

from __future__ import annotations

import ast
import contextlib
import io
import json
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = sorted((Path(__file__).resolve().parents[2] / "examples" / "notebooks").glob("*.ipynb"))


def run_cell(source: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    """Run a cell as Jupyter does: what it prints, then the value of a last line that is an expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    printed, outputs, value = io.StringIO(), list[dict[str, Any]](), None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    if printed.getvalue():
        outputs.append({"output_type": "stream", "text": printed.getvalue()})
    if value is not None:
        outputs.append({"output_type": "execute_result", "text": repr(value)})
    return outputs


def stored(output: dict[str, Any]) -> dict[str, Any]:
    text = output["text"] if output["output_type"] == "stream" else output["data"]["text/plain"]
    return {"output_type": output["output_type"], "text": "".join(text)}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_a_notebook_gives_what_it_shows(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFAUG_HOME", str(tmp_path))
    notebook, names = json.loads(path.read_text("utf-8")), dict[str, Any]()
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == [*range(1, len(code) + 1)]
    for cell in code:
        assert run_cell("".join(cell["source"]), names) == [stored(output) for output in cell["outputs"]]
    assert path.stat().st_size < 20_000


def test_there_is_a_notebook() -> None:
    assert [path.name for path in NOTEBOOKS] == ["first-look.ipynb"]
