"""The package itself: light to import, and every public name is what it says."""

from __future__ import annotations

import ast
import json
import os
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
    assert answer.stdout.splitlines() == ["[] 4", "[]"], "core, its version, and how threads wait"


WAITING = """
import json, os, sys, types
if "torch" in sys.argv:
    sys.modules["torch"] = types.ModuleType("torch")
import refaug
names = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME", "OPENBLAS_THREAD_TIMEOUT")
environment = [os.environ.get(name) for name in names]
from refaug.library.engine import engine_of
print(json.dumps([*environment, engine_of(".").threads]))
"""


@pytest.mark.parametrize(
    ("loaded_before", "chosen", "waiting"),
    [
        ((), {}, ["PASSIVE", "0", "0", "4", None]),
        ((), {"KMP_BLOCKTIME": "200"}, ["PASSIVE", "0", "200", "4", None]),
        (("torch",), {}, ["PASSIVE", "0", "0", "4", 1]),
        (("torch",), {"OMP_WAIT_POLICY": "ACTIVE"}, ["ACTIVE", None, None, None, None]),
    ],
    ids=["nothing set", "one set", "torch first", "torch first, with a policy"],
)
def test_threads_wait_asleep_unless_told_otherwise(
    loaded_before: tuple[str, ...], chosen: dict[str, str], waiting: list[str | int | None], tmp_path: Path
) -> None:
    names = {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME", "OPENBLAS_THREAD_TIMEOUT"}
    inherited = {name: text for name, text in os.environ.items() if name not in names}
    script = [sys.executable, "-P", "-c", WAITING, *loaded_before]
    environment = {**inherited, "PYTHONPATH": str(Path(refaug.__file__).parents[1]), **chosen}
    answer = subprocess.run(script, capture_output=True, text=True, check=True, cwd=tmp_path, env=environment)
    assert json.loads(answer.stdout) == waiting


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
