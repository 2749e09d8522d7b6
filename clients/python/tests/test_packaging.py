"""What is installed: the wheel's content, alone with what it needs, in an environment that has nothing else."""

from __future__ import annotations

import ast
import email
import json
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement

from refaug_client._version import VERSION

CLIENT = Path(__file__).resolve().parents[1]
SOURCE = CLIENT / "src" / "refaug_client"
MODULES = sorted(path.relative_to(SOURCE.parent).as_posix() for path in SOURCE.rglob("*.py"))
HEAVY = ("numpy", "torch", "pandas", "polars", "faiss", "rich", "tqdm", "transformers", "lightning", "trl")
SLOW = ("sqlite3", "subprocess", "concurrent.futures", "multiprocessing", "argparse")  # only for those who use them
_GIVEN = "httpx"
MOST_MIB = 15


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel as it would be published, built of a copy: building leaves traces beside the source."""
    folder = tmp_path_factory.mktemp("wheel")
    copy = folder / "source"
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", "build", ".*_cache")
    shutil.copytree(CLIENT, copy, ignore=ignored)
    pip("wheel", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", folder / "made", copy)
    (found,) = (folder / "made").iterdir()
    return found


def pip(*arguments: Any) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *map(str, arguments)]
    subprocess.run(command, check=True, timeout=300)


@dataclass
class Installed:
    """An environment with the client, what it needs, and nothing else."""

    folder: Path
    packages: Path
    needed: list[str]

    def run(self, *arguments: str, **more: Any) -> str:
        command = [str(self.folder / "bin" / "python"), "-I", "-W", "error", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120, **more).stdout


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("installed") / "env"
    venv.create(folder, with_pip=False, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    pip("--python", folder / "bin" / "python", "install", "--no-index", "--no-deps", "--no-compile", wheel)
    needed = sorted(closure("httpx"))
    for name in needed:
        for file in distribution(name).files or ():
            if not file.parts[0].startswith("..") and "__pycache__" not in file.parts:
                target = packages / file
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(str(file.locate()), target)
    return Installed(folder, packages, needed)


def closure(name: str, found: frozenset[str] = frozenset()) -> frozenset[str]:
    """A distribution and all that it needs here, without extras."""
    found |= {name}
    for said in distribution(name).requires or ():
        one = Requirement(said)
        needed = one.marker is None or one.marker.evaluate({**default_environment(), "extra": ""})
        if needed and one.name not in found:
            found = closure(one.name, found)
    return found


def metadata(wheel: Path) -> Any:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return email.message_from_bytes(archive.read(name))


# ── the wheel ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_it_holds_every_module_and_the_mark_of_types_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = sorted(name for name in archive.namelist() if ".dist-info/" not in name)
        assert names == sorted([*MODULES, "refaug_client/py.typed"])
        assert all(archive.read(name) == (SOURCE.parent / name).read_bytes() for name in names)


def test_it_is_pure_and_says_which_python_it_wants_and_what_it_needs(wheel: Path) -> None:
    assert wheel.name == f"refaug_client-{VERSION}-py3-none-any.whl"
    said = metadata(wheel)
    assert (said["Name"], said["Version"], said["Requires-Python"]) == ("refaug-client", VERSION, ">=3.9")
    assert [Requirement(one).name for one in said.get_all("Requires-Dist", [])] == ["httpx"]
    assert said["License-Expression"] == "Apache-2.0"
    assert "Typing :: Typed" in said.get_all("Classifier")
    assert (CLIENT / "README.md").read_text("utf-8").strip() in said.get_payload(decode=True).decode("utf-8")


# ── installed ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_all_modules_can_be_imported_with_nothing_but_what_it_needs(installed: Installed) -> None:
    names = [name[: -len(".py")].replace("/", ".").removesuffix(".__init__") for name in MODULES]
    light = [name for name in names if ".integrations." not in name]
    installed.run("-c", f"import importlib; [importlib.import_module(name) for name in {light!r}]")


def test_every_name_that_is_exported_is_there(installed: Installed) -> None:
    code = "import refaug_client as r, json; print(json.dumps([n for n in r.__all__ if getattr(r, n, None) is None]))"
    assert json.loads(installed.run("-c", code)) == []


def test_importing_it_imports_nothing_heavy_and_nothing_slow_beyond_httpx(installed: Installed) -> None:
    code = "import json, sys; import {}; print(json.dumps(sorted(sys.modules)))"
    ours, theirs = (set(json.loads(installed.run("-c", code.format(name)))) for name in ("refaug_client", _GIVEN))
    assert [name for name in HEAVY if name in ours] == []
    assert [name for name in SLOW if name in ours - theirs] == []


def test_an_integration_without_its_framework_says_what_to_install(installed: Installed) -> None:
    for module in sorted((SOURCE / "integrations").glob("*.py")):
        name = f"refaug_client.integrations{'' if module.stem == '__init__' else f'.{module.stem}'}"
        code = f"try:\n    import {name}\nexcept ImportError as error:\n    print(error)"
        assert "refaug_client" not in installed.run("-c", code), name


def test_with_all_that_it_needs_it_stays_small(installed: Installed) -> None:
    size = sum(path.stat().st_size for path in installed.packages.rglob("*") if path.is_file())
    assert size < MOST_MIB * 2**20, f"{size / 2**20:.1f} MiB: {installed.needed}"


@pytest.mark.slow
def test_its_public_types_are_complete(installed: Installed) -> None:
    """Of every name that can be reached a checker knows the type, whichever checker it is; frameworks are not here."""
    checker = Path(sys.executable).with_name("basedpyright")
    path = os.pathsep.join((str(installed.folder / "bin"), os.environ.get("PATH", "")))
    environment = {**{name: value for name, value in os.environ.items() if name != "PYTHONPATH"}, "PATH": path}
    said = subprocess.run(
        [str(checker), "--verifytypes", "refaug_client", "--ignoreexternal", "--outputjson"],
        cwd=installed.folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,  # the score of the whole, integrations too, is what its exit code is about
    )
    found = json.loads(said.stdout)["typeCompleteness"]["symbols"]
    ours = [one for one in found if one["name"].startswith("refaug_client") and ".integrations" not in one["name"]]
    bad = [one["name"] for one in ours if not one["isTypeKnown"] or one["isTypeAmbiguous"]]
    assert bad == []
    assert {"refaug_client.Client", "refaug_client.Scorer", "refaug_client.Reward"} <= {one["name"] for one in ours}


# ── older Pythons ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", MODULES)
def test_it_is_written_in_the_oldest_python_that_it_names(name: str) -> None:
    ast.parse((SOURCE.parent / name).read_text("utf-8"), name, feature_version=(3, 9))


def older() -> Iterator[str]:
    """Pythons on this machine that are older than the one that runs the tests, and can run."""
    for minor in range(9, sys.version_info.minor):
        found = shutil.which(f"python3.{minor}")
        if found and subprocess.run([found, "-V"], capture_output=True, check=False).returncode == 0:
            yield found


@pytest.mark.parametrize("python", [*older()] or [pytest.param("", marks=pytest.mark.skip("none is here"))])
def test_older_pythons_read_it_too(python: str, tmp_path: Path) -> None:
    """Every module is imported and every annotation looked at, over a stub of an HTTP library that is too new here."""
    (tmp_path / "httpx.py").write_text(_STUB)
    names = [name[: -len(".py")].replace("/", ".").removesuffix(".__init__") for name in MODULES]
    light = [name for name in names if ".integrations." not in name]
    code = f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(SOURCE.parent)!r}]; names = {light!r}\n{_READ}"
    said = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (said.stdout, said.stderr) == ("read\n", "")


_STUB = """
__version__ = "0"

def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return type(name, (Exception,), {})
"""
_READ = """
import dataclasses, importlib, inspect, typing

for name in names:
    module = importlib.import_module(name)
    for one in vars(module).values():
        if inspect.isclass(one) and one.__module__ == name and dataclasses.is_dataclass(one):
            typing.get_type_hints(one)
print("read")
"""


@pytest.mark.slow
def test_the_client_works_where_there_is_no_posix() -> None:
    """Tests of the parts that use the operating system pass without what Windows lacks; forks are left out."""
    tests = Path(__file__).parent
    files = [str(tests / f"test_{name}.py") for name in ("cache", "queue", "scorer")]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "without_posix",
        "-p",
        "no:cacheprovider",
        *files,
        "-k",
        "not fork",
    ]
    done = subprocess.run(
        command,
        cwd=tests.parents[2],
        env={**os.environ, "PYTHONPATH": str(tests)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3_000:]
