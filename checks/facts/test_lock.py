"""The lock, the packages and the layering say the same thing."""

from __future__ import annotations

import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from refaug.core.installation import MODULES_OF_EXTRAS
from refaug.service.doctor import PACKAGES

ROOT = Path(__file__).resolve().parents[2]


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


APART = {"cluster", "start"}  # neither in `all` nor in the lock


LOCK_LINES = [line for line in (ROOT / "requirements.lock").read_text("utf-8").splitlines() if not line.startswith("#")]


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def locked() -> dict[str, str]:
    return {canonical(name): pin for name, pin in (line.split("==") for line in LOCK_LINES)}


def declared() -> list[Requirement]:
    """Return what the lock is for, with all extras; extras that name others of refaug ask for nothing more."""
    project = PROJECT["project"]
    extras = project["optional-dependencies"]
    lists = [project["dependencies"], *(texts for extra, texts in extras.items() if extra not in APART)]
    named = [Requirement(text) for texts in lists for text in texts]
    return [requirement for requirement in named if requirement.name != "refaug"]


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


def test_each_extra_names_the_modules_of_its_packages() -> None:
    """A missing module leads to the extra that brings it; what an extra names of refaug is another extra."""
    extras = PROJECT["project"]["optional-dependencies"]
    assert set(MODULES_OF_EXTRAS) == set(extras) - {"all", "dev"}
    named = [Requirement(text) for text in extras["all"]]
    assert [(one.name, one.extras) for one in named] == [("refaug", set(MODULES_OF_EXTRAS) - APART)]
    owners = metadata.packages_distributions()
    for extra, modules in MODULES_OF_EXTRAS.items():
        if extra in APART:
            continue
        packages = {canonical(Requirement(text).name) for text in extras[extra]} - {"refaug"}
        of_modules = {module: {canonical(name) for name in owners[module]} for module in modules}
        assert packages == {name for names in of_modules.values() for name in names & packages}
        assert {module: names & packages for module, names in of_modules.items() if not names & packages} == (
            {"starlette": set()} if extra == "serve" else {}  # it comes with fastapi
        )


def test_ray_has_one_version_in_the_extra_and_in_its_tests() -> None:
    """All machines of a cluster need the same version; its requirements do not change what the lock has."""
    pins, of_jobs = pins_of_tests("cluster-requirements.txt"), pins_of_tests("cluster-jobs-requirements.txt")
    (ray,) = [text for text in PROJECT["project"]["optional-dependencies"]["cluster"] if text.startswith("ray")]
    assert ray in pins
    names = [canonical(pin.split("==")[0]) for pin in (*pins, *of_jobs)]
    assert set(names) & set(locked()) == set()
    assert len(set(names)) == len(names)


def pins_of_tests(name: str) -> list[str]:
    lines = (ROOT / "tests" / name).read_text("utf-8").splitlines()
    return [line for line in lines if not line.startswith("#")]


def test_the_installed_versions_are_those_of_the_lock() -> None:
    installed = {name: metadata.version(name).split("+")[0] for name in locked()}
    assert installed == locked()


ROOMS = {
    "agreement",
    "bots",
    "cli",
    "core",
    "extras",
    "indexer",
    "library",
    "logs",
    "metrics",
    "operations",
    "rater",
    "scoring",
    "service",
    "tables",
}


LINKED = {"indexer", "rater", "service"}  # the rooms that stand at the top of the repository, too


def test_every_room_is_a_real_folder_and_three_are_linked_from_the_top() -> None:
    assert {path.parent.name for path in (ROOT / "refaug").glob("*/__init__.py")} == ROOMS
    assert [path for path in (ROOT / "refaug").rglob("*") if path.is_symlink()] == []
    links = {path.name: str(path.readlink()) for path in ROOT.iterdir() if path.is_symlink() and path.name[0] != "."}
    assert links == {room: f"refaug/{room}" for room in LINKED}


def test_every_room_is_placed_in_a_layer_and_the_image_has_the_package() -> None:
    (rooms,) = (one for one in PROJECT["tool"]["importlinter"]["contracts"] if one["name"] == "the rooms")
    assert {room for layer in rooms["layers"] for room in layer.split(" | ")} == ROOMS
    copied = re.findall(r"^COPY (\w+) \1$", (ROOT / "Dockerfile").read_text("utf-8"), re.MULTILINE)
    assert copied == ["refaug"]


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
