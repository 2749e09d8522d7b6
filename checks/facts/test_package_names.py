"""Every package says what its main names are, and all of them exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = tuple(sorted(folder.parent.name for folder in (ROOT / "refaug").glob("*/__init__.py")))
CLIENT = ROOT / "clients" / "python" / "src" / "refaug_client"
FOLDERS = {"refaug": ROOT / "refaug", "refaug_client": CLIENT}


def module_files() -> Iterator[tuple[str, Path]]:
    for prefix, folder in FOLDERS.items():
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            yield ".".join([prefix, *(part for part in parts if part != "__init__")]), path


MODULES = dict(module_files())
PACKAGES = sorted(name for name, path in MODULES.items() if path.name == "__init__.py")


@cache
def tree_of(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text("utf-8"))


def bound_by(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement binds in its module or class."""
    if isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        yield statement.name
    elif isinstance(statement, ast.Assign):
        yield from (target.id for target in statement.targets if isinstance(target, ast.Name))
    elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        yield statement.target.id
    elif isinstance(statement, ast.Import | ast.ImportFrom):
        yield from (alias.asname or alias.name for alias in statement.names)
    elif isinstance(statement, ast.If):
        for inner in statement.body:
            yield from bound_by(inner)


def exists(module: str, name: str) -> bool:
    """Whether a dotted name leads from a module to a module, or to a name in one; nothing is imported."""
    first, _, rest = name.partition(".")
    if f"{module}.{first}" in MODULES:
        return not rest or exists(f"{module}.{first}", rest)
    body: list[ast.stmt] = tree_of(module).body
    for part in name.split("."):
        statements = [statement for statement in body if part in bound_by(statement)]
        if not statements:
            return False
        body = statements[-1].body if isinstance(statements[-1], ast.ClassDef) else []
    return True


def main_names(package: str) -> list[str]:
    _, _, listed = (ast.get_docstring(tree_of(package)) or "").partition("The main names:")
    return [
        name for line in re.findall(r"^- (.*?): ", listed, re.MULTILINE) for name in re.findall(r"`([\w.]+)`", line)
    ]


def names_for_all(package: str) -> list[str]:
    for statement in tree_of(package).body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and "__all__" in bound_by(statement):
            assert statement.value is not None
            names = ast.literal_eval(statement.value)
            assert isinstance(names, list)
            return names
    pytest.fail(f"{package} has no __all__")


def test_the_packages_of_all_rooms_are_looked_at() -> None:
    assert {name.split(".")[1] for name in PACKAGES if name.startswith("refaug.")} == set(ROOMS)
    assert (exists("refaug.core", "home.Settings"), exists("refaug.core", "home.Nothing")) == (True, False)
    assert exists("refaug.core", "memory.MemoryCounter.add")
    assert not exists("refaug.core", "memory.MemoryCounter.subtract")


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_says_its_three_main_names_and_they_exist(package: str) -> None:
    assert len(main_names(package)) >= 3
    assert [name for name in main_names(package) if not exists(package, name)] == []


def offers_names(package: str) -> bool:
    """Whether a package has more than its modules, so that callers need not know these."""
    return any(not isinstance(statement, ast.Expr | ast.Assign) for statement in tree_of(package).body)


def test_the_packages_that_offer_names_are_few() -> None:
    assert {name for name in PACKAGES if offers_names(name)} == {
        "refaug",
        "refaug.cli",
        "refaug.library.hugging_face",
        "refaug.library.nlgeval",
        "refaug.service.jobs.kinds",
        "refaug_client",
    }


@pytest.mark.parametrize("package", [name for name in PACKAGES if offers_names(name)])
def test_all_lists_names_that_exist_once_each(package: str) -> None:
    names = names_for_all(package)
    assert [name for name in names if not exists(package, name)] == []
    assert len(set(names)) == len(names) > 0


@pytest.mark.parametrize("package", [name for name in PACKAGES if not offers_names(name)])
def test_any_other_package_holds_a_docstring_alone(package: str) -> None:
    assert ast.get_docstring(tree_of(package))
    assert len(tree_of(package).body) == 1
