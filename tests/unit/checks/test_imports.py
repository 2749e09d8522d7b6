"""Circles, imports through links and heavy operations are seen where there are some, and the repository has none."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
_SPEC = importlib.util.spec_from_file_location("refaug_imports", ROOT / "checks" / "imports.py")
assert _SPEC is not None
assert _SPEC.loader is not None
imports = importlib.util.module_from_spec(_SPEC)
sys.modules[_SPEC.name] = imports
_SPEC.loader.exec_module(imports)


def test_the_repository_has_no_circle_and_no_import_through_a_link() -> None:
    assert imports.findings(ROOT) == []
    assert imports.linked_names(ROOT) == {"indexer", "rater", "service"}


def test_a_circle_is_named_by_its_modules() -> None:
    circle = imports.circle_of({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}})
    assert circle[0] == circle[-1]
    assert set(circle) == {"a", "b", "c"}
    assert imports.circle_of({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_scripts_import_each_other_by_path_also_when_asked_for(tmp_path: Path) -> None:
    (tmp_path / "take").mkdir()
    (tmp_path / "a.js").write_text('import { b } from "./take/b.js";\nimport "./c.js";\n', "utf-8")
    (tmp_path / "take" / "b.js").write_text('(await import("../a.js")).run();\n', "utf-8")
    (tmp_path / "c.js").write_text('// from "elsewhere.js"\n', "utf-8")
    assert imports.script_imports(tmp_path) == {"a.js": {"take/b.js", "c.js"}, "take/b.js": {"a.js"}, "c.js": set()}


def test_an_import_through_a_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "refaug" / "rater").mkdir(parents=True)
    (tmp_path / "rater").symlink_to("refaug/rater")
    (tmp_path / "a.py").write_text("import os\n\n    \nfrom rater.nn import network\nimport raters\n", "utf-8")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "a.py"], cwd=tmp_path, check=True)
    [line] = imports.imports_through(imports.linked_names(tmp_path), tmp_path)
    assert line.startswith("a.py:4:from rater.nn import network")


def test_an_operation_that_imports_what_does_the_work_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "refaug" / "operations" / "logs"
    folder.mkdir(parents=True)
    light = (
        "import re\nfrom refaug.core.options.decoding import Options\nfrom refaug.operations.operation import Name\n"
    )
    later = "if TYPE_CHECKING:\n    import torch\n\ndef order():\n    import numpy\n"
    (folder / "light.py").write_text(light + later, "utf-8")
    assert imports.heavy_imports(tmp_path) == []
    (folder / "heavy.py").write_text("import numpy\n\nfrom refaug.core.files import read_json\n", "utf-8")
    assert [line.partition("  (")[0] for line in imports.heavy_imports(tmp_path)] == [
        "refaug/operations/logs/heavy.py:1: imports numpy",
        "refaug/operations/logs/heavy.py:3: imports refaug.core.files",
    ]
