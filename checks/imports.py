"""Refuse circles of imports, and imports through the links at the top of the repository: `python checks/imports.py`.

Each circle is printed as its modules, `a → b → a`; imports for types alone count, and so do those inside functions.
The modules of the pages are held to the same rule. Imports against the floors are refused by import-linter.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Final

import grimp

ROOT: Final = Path(__file__).resolve().parents[1]
PACKAGE: Final = "refaug"
SCRIPTS: Final = "refaug/service/web/pages/static"
_IMPORT: Final = re.compile(r"""(?:\bfrom\s*|\bimport\s*\(?\s*)["'](\.{1,2}/[^"']+)["']""")


def circle_of(imports: Mapping[str, AbstractSet[str]]) -> list[str]:
    """Return one circle, its first module again at its end; empty where there is none."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def python_imports() -> dict[str, set[str]]:
    """Return the modules of the package with those that each imports."""
    graph = grimp.build_graph(PACKAGE, cache_dir=None)
    return {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}


def script_imports(folder: Path) -> dict[str, set[str]]:
    """Return the scripts of the pages with those that each imports."""
    return {
        str(path.relative_to(folder)): {
            str((path.parent / name).resolve().relative_to(folder.resolve()))
            for name in _IMPORT.findall(path.read_text("utf-8"))
        }
        for path in folder.rglob("*.js")
    }


def linked_names(root: Path) -> set[str]:
    """Return the names of the links at the top of the repository that lead into the package."""
    return {path.name for path in root.iterdir() if path.is_symlink() and path.readlink().parts[0] == PACKAGE}


def imports_through(names: AbstractSet[str], root: Path) -> list[str]:
    """Return each import by one of the names instead of the package: it would load a second copy of the module."""
    pattern = rf"^ *(from|import) +({'|'.join(sorted(names))})\b"
    search = ["git", "grep", "-nE", pattern, "--", "*.py", "*.ipynb"]
    found = subprocess.run(search, cwd=root, capture_output=True, text=True, check=False).stdout
    return [f"{line}  (through a link: import {PACKAGE}.… instead)" for line in found.splitlines()]


def findings(root: Path) -> list[str]:
    """Return what is refused, as lines."""
    circles = [circle_of(python_imports()), circle_of(script_imports(root / SCRIPTS))]
    return [" → ".join(circle) for circle in circles if circle] + imports_through(linked_names(root), root)


def main() -> int:
    """Print what is refused, and return 1 where there is something."""
    lines = findings(ROOT)
    print("\n".join(lines) or "no circles, and nothing is imported through a link")
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
