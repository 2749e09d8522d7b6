"""What extras add: the table is that of pyproject.toml, lists read what is installed, and an absent extra is named."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from refusals import refusing

from refaug.core import installation
from refaug.core.errors import MissingPart

ROOT = Path(__file__).resolve().parents[4]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
TARGETS = [(group, name) for group, names in installation.BUILT_IN.items() for name in names]


def test_the_table_is_that_of_the_metadata() -> None:
    assert PROJECT["entry-points"] == installation.BUILT_IN


def test_an_extra_needs_those_that_it_imports() -> None:
    folder = ROOT / "refaug" / "extras"
    names = sorted(path.parent.name for path in folder.glob("*/__init__.py"))
    imports = {
        name: {
            other
            for path in (folder / name).rglob("*.py")
            for other in re.findall(r"\brefaug\.extras\.([a-z]+)\b", path.read_text("utf-8"))
        }
        - {name}
        for name in names
    }
    assert {name: others for name, others in imports.items() if others} == {
        name: set(others) for name, others in installation.NEEDS.items()
    }


def test_every_extra_has_a_pip_extra_of_its_name() -> None:
    folders = {path.parent.name for path in (ROOT / "refaug" / "extras").glob("*/__init__.py")}
    assert folders <= PROJECT["optional-dependencies"].keys()


@pytest.mark.parametrize(("group", "name"), TARGETS)
def test_every_name_leads_to_something(group: str, name: str) -> None:
    assert installation.find(group, name) is not None


def test_a_name_that_no_package_has_is_none() -> None:
    assert installation.find(installation.COMMANDS, "nothing") is None


@pytest.fixture
def package_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An installed package that adds a command."""
    (tmp_path / "greetings.py").write_text("HELLO = 'hello'\n", "utf-8")
    metadata = tmp_path / "greetings-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: greetings\nVersion: 1.0\n", "utf-8")
    (metadata / "entry_points.txt").write_text("[refaug.commands]\nhello there = greetings:HELLO\n", "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    return "hello there"


def test_a_name_of_another_package_is_found_and_listed_last(package_of_others: str) -> None:
    assert installation.find(installation.COMMANDS, package_of_others) == "hello"
    listed = list(installation.registered(installation.COMMANDS))
    assert listed == [*installation.BUILT_IN[installation.COMMANDS], package_of_others]


def test_an_absent_extra_is_named_with_its_remedy_and_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    table = {**installation.BUILT_IN, installation.COMMANDS: {"gone": "refaug.extras.vanished.commands:GONE"}}
    monkeypatch.setattr(installation, "BUILT_IN", table)
    with refusing(MissingPart, "vanished") as raised:
        installation.find(installation.COMMANDS, "gone")
    assert "refaug[vanished]" in raised.value.remedy
    assert "gone" not in installation.registered(installation.COMMANDS)


def test_a_name_of_ours_is_found_without_reading_what_is_installed() -> None:
    program = (
        "import sys\n"
        "from refaug.core.installation import COMMANDS, find\n"
        "assert find(COMMANDS, 'studies list') is not None\n"
        "assert 'importlib.metadata' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT, timeout=120)


def test_pages_of_an_extra_are_found_before_those_of_the_service_are_imported() -> None:
    program = "from refaug.core.installation import PAGES, usable\nassert {'studies', 'take'} <= set(usable(PAGES))\n"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT, timeout=120)
