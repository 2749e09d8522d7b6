"""The package itself: light to import, and every public name is what it says."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import refaug

LIGHT = """
import sys, refaug
heavy = {"numpy", "torch", "faiss", "numba", "pyarrow", "duckdb", "orjson", "typer", "dataclasses", "logging"}
print(sorted(heavy & set(sys.modules)), len([name for name in sys.modules if name.startswith("refaug.")]))
refaug.RefaugError, refaug.Usage
print(sorted(heavy & set(sys.modules)))
"""


def test_import_refaug_imports_nothing_heavy(tmp_path: Path) -> None:
    script = [sys.executable, "-I", "-c", LIGHT]
    answer = subprocess.run(script, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert answer.stdout.splitlines() == ["[] 2", "[]"], "core and core.version"


def test_every_public_name_exists_and_is_listed() -> None:
    for name in refaug.__all__:
        assert getattr(refaug, name) is not None, name
    assert {*refaug.__all__} <= set(dir(refaug))


def test_type_checkers_see_the_names_that_are_imported_later() -> None:
    tree = ast.parse(Path(refaug.__file__).read_text("utf-8"))
    (guarded,) = (node for node in tree.body if isinstance(node, ast.If))
    imported = {
        alias.name: f"{statement.module}"
        for statement in guarded.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }
    assert imported == {name: f"refaug.{module}" for name, module in refaug._MODULES.items()}
    assert {*imported, "VERSION", "__version__"} == {*refaug.__all__}
    assert Path(refaug.__file__).with_name("py.typed").exists()


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'scores_of'"):
        _ = refaug.scores_of
