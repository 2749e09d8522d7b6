"""The lock, the packages and the layering say the same thing."""

from __future__ import annotations

import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from service.doctor import PACKAGES

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
LOCK_LINES = [line for line in (ROOT / "requirements.lock").read_text("utf-8").splitlines() if not line.startswith("#")]


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def locked() -> dict[str, str]:
    return {canonical(name): pin for name, pin in (line.split("==") for line in LOCK_LINES)}


def declared() -> list[Requirement]:
    project = PROJECT["project"]
    return [Requirement(text) for text in [*project["dependencies"], *project["optional-dependencies"]["dev"]]]


def test_every_line_of_the_lock_is_a_pin_and_nothing_else() -> None:
    assert [line for line in LOCK_LINES if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", line)] == []
    assert [line for line in LOCK_LINES if re.match(r"nvidia-|triton", line, re.IGNORECASE)] == []
    assert "torch==2.13.0" in LOCK_LINES


@pytest.mark.parametrize("requirement", declared(), ids=str)
def test_what_the_project_asks_for_stands_in_the_lock(requirement: Requirement) -> None:
    assert Version(locked()[canonical(requirement.name)]) in requirement.specifier


def test_the_lock_holds_what_its_packages_need_and_no_more() -> None:
    """Walking from the declared packages through their requirements reaches every line of the lock, and no other."""
    wanted, waiting = set[str](), [(canonical(requirement.name), requirement.extras) for requirement in declared()]
    while waiting:
        name, extras = waiting.pop()
        if name in wanted:
            continue
        wanted.add(name)
        for text in metadata.requires(name) or []:
            requirement = Requirement(text)
            environments = [{"extra": extra} for extra in (*extras, "")]
            if requirement.marker is None or any(requirement.marker.evaluate(env) for env in environments):
                waiting.append((canonical(requirement.name), requirement.extras))
    assert {name for name in wanted if not re.match("nvidia-|cuda-|triton|pip$", name)} == set(locked())


def test_the_installed_versions_are_those_of_the_lock() -> None:
    installed = {name: metadata.version(name).split("+")[0] for name in locked()}
    assert installed == locked()


def test_every_top_level_package_is_placed_in_a_layer_and_packaged() -> None:
    folders = sorted(path.parent.name for path in ROOT.glob("*/__init__.py"))
    assert folders == sorted(PROJECT["tool"]["importlinter"]["root_packages"])
    assert [f"{folder}*" for folder in folders] == sorted(PROJECT["tool"]["setuptools"]["packages"]["find"]["include"])
    assert folders == sorted(PROJECT["tool"]["mypy"]["packages"])


def test_the_package_names_are_ours_here() -> None:
    owners = metadata.packages_distributions()
    assert {name: owners.get(name) for name in PACKAGES} == {name: ["refaug"] for name in PACKAGES}


def test_no_package_index_is_named_in_the_repository() -> None:
    named = re.compile(r"--(extra-)?index-url|--find-links|^ *registry *=", re.MULTILINE)
    files = [
        path for path in ROOT.glob("*") if path.is_file() and path.suffix in {"", ".toml", ".lock", ".yaml", ".md"}
    ]
    lines = [
        line
        for path in [*files, *ROOT.glob(".ci/*"), *ROOT.glob("docs/**/*.md")]
        for line in path.read_text("utf-8", "replace").splitlines()
        if named.search(line) and "TORCH_INDEX" not in line
    ]
    assert lines == []
