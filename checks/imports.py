"""Refuse circles of imports, imports through links, and heavy ones of operations: `python checks/imports.py`.

Each circle is printed as its modules, `a → b → a`; imports for types alone count, and so do those inside functions.
The modules of the pages are held to the same rule. Commands make their help of operations, which therefore import
what declares options, errors and a few light modules of settings; what does the work is imported when it begins.
Imports against the floors are refused by import-linter.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from graphlib import CycleError, TopologicalSorter
from os.path import normpath
from pathlib import Path
from typing import Final

import grimp

ROOT: Final = Path(__file__).resolve().parents[1]
PACKAGE: Final = "refaug"
SCRIPTS: Final = ("refaug/service/web/pages/static", "refaug/extras/*/pages/static")
OPERATIONS: Final = ("refaug/operations", "refaug/extras/*/operations")
# What operations import beside the standard library, as modules of the package; a name stands for all inside it.
OF_OPERATIONS: Final = (
    "refaug.core.artefacts.kinds",
    "refaug.core.errors",
    "refaug.core.options",
    "refaug.core.installation",
    "refaug.core.processes.kept",
    "refaug.core.text.messages",
    "refaug.operations",
    "refaug.extras.conversations.selfplay.rules",
    "refaug.extras.conversations.operations",
    "refaug.extras.conversations.options",
    "refaug.scoring.settings",
    "refaug.scoring.settings",
    "refaug.scoring.items",
    "refaug.scoring.settings",
    "refaug.scoring.settings",
    "refaug.extras.conversations.selfplay.rules",
    "refaug.tables.table_request",
    "refaug.indexer.search.search_settings",
    "refaug.logs.reading.sources",
    "refaug.rater.rating_settings",
)
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


def script_imports(*folders: Path) -> dict[str, set[str]]:
    """Return the scripts of the pages with those that each imports; all folders are served as one."""
    return {
        str(path.relative_to(folder)): {
            normpath(path.relative_to(folder).parent / name) for name in _IMPORT.findall(path.read_text("utf-8"))
        }
        for folder in folders
        for path in folder.rglob("*.js")
    }


def folders_of(root: Path, patterns: Sequence[str]) -> list[Path]:
    """Return the folders below the root that have one of these names."""
    return [folder for pattern in patterns for folder in sorted(root.glob(pattern))]


def linked_names(root: Path) -> set[str]:
    """Return the names of the links at the top of the repository that lead into the package."""
    return {path.name for path in root.iterdir() if path.is_symlink() and path.readlink().parts[0] == PACKAGE}


def imports_through(names: AbstractSet[str], root: Path) -> list[str]:
    """Return each import by one of the names instead of the package: it would load a second copy of the module."""
    pattern = rf"^ *(from|import) +({'|'.join(sorted(names))})\b"
    search = ["git", "grep", "-nE", pattern, "--", "*.py", "*.ipynb"]
    found = subprocess.run(search, cwd=root, capture_output=True, text=True, check=False).stdout
    return [f"{line}  (through a link: import {PACKAGE}.… instead)" for line in found.splitlines()]


def heavy_imports(root: Path) -> list[str]:
    """Return each import of an operation, outside its functions and not for types alone, that it may not have."""
    return [
        f"{path.relative_to(root)}:{line}: imports {module}  (inside the method that needs it, or a module of settings)"
        for folder in folders_of(root, OPERATIONS)
        for path in sorted(folder.rglob("*.py"))
        for line, module in module_imports(ast.parse(path.read_text("utf-8")))
        if module.partition(".")[0] not in sys.stdlib_module_names
        and not any(module == allowed or module.startswith(f"{allowed}.") for allowed in OF_OPERATIONS)
    ]


def module_imports(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and name of each module that is imported when this one is."""
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            yield node.lineno, node.module or ""
        elif isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)


def findings(root: Path) -> list[str]:
    """Return what is refused, as lines."""
    circles = [circle_of(python_imports()), circle_of(script_imports(*folders_of(root, SCRIPTS)))]
    through_links = imports_through(linked_names(root), root)
    return [" → ".join(circle) for circle in circles if circle] + through_links + heavy_imports(root)


def main() -> int:
    """Print what is refused, and return 1 where there is something."""
    lines = findings(ROOT)
    print("\n".join(lines) or "no circles, nothing is imported through a link, and operations are light")
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
