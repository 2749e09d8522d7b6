"""What a command imports before it answers: next to nothing for the version and the help, and no more than it needs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from refaug.cli.main import COMMANDS, app, command_names, find_place

ROOT = Path(__file__).resolve().parents[3]
HEAVY = {"scipy", "pyarrow", "numba", "numpy", "duckdb", "torch", "faiss", "sqlalchemy", "fastapi", "matplotlib"}
PROGRAM = """
import sys
from refaug.cli import start
sys.argv[1:] = {arguments}
code = start()
sys.stderr.write(" ".join(sorted(sys.modules)))
sys.exit(code)
"""


def imported_by(*arguments: str) -> set[str]:
    """The modules in a process that has run this command."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(arguments=list(arguments))],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={name: text for name, text in os.environ.items() if not name.startswith("COVERAGE")},
        timeout=120,
    )
    return set(done.stderr.splitlines()[-1].split())


def test_the_version_is_told_before_any_library_is_there() -> None:
    modules = imported_by("--version")
    assert not modules & {"typer", "rich", "orjson", "refaug.cli.main", *HEAVY}


@pytest.mark.parametrize("arguments", [("--help",), ("metrics", "list"), ("score", "--help"), ("tokenizer", "list")])
def test_what_computes_and_stores_is_not_imported_to_print_a_list(arguments: tuple[str, ...]) -> None:
    assert not imported_by(*arguments) & (HEAVY - {"numpy", "pyarrow", "duckdb"})


@pytest.mark.parametrize("arguments", [("--help",), ("metrics", "list")])
def test_the_help_and_the_list_of_metrics_do_without_arrays_and_tables(arguments: tuple[str, ...]) -> None:
    assert not imported_by(*arguments) & HEAVY


def test_the_help_imports_no_command() -> None:
    ours = {name for name in imported_by("--help") if name.startswith("refaug.cli.")}
    assert ours == {f"refaug.cli.{name}" for name in ("main", "shared", "shared.command_place", "shared.output")}


@pytest.mark.parametrize("name", command_names())
def test_a_command_is_announced_with_the_first_lines_of_its_own_help(name: str) -> None:
    own = get_command(app).commands[name]
    place = find_place(name)
    assert place is not None
    assert place.help == " ".join(own.help.split("\n\n")[0].split())
    assert own.name == name
    assert not own.hidden
    assert not own.deprecated


def test_every_group_is_announced() -> None:
    places = {name: find_place(name) for name in command_names()}
    groups = {
        ("refaug.cli." if name in COMMANDS else "") + place.at.partition(":")[0]
        for name, place in places.items()
        if place is not None and place.at.endswith(":app")
    }
    written = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for folder in ("cli", "extras")
        for path in (ROOT / "refaug" / folder).rglob("*.py")
        if path.stem != "main" and "app = typer.Typer(" in path.read_text("utf-8")
    }
    assert written == groups


def test_threads_of_a_command_wait_asleep_unless_told_otherwise() -> None:
    names = ("GOMP_SPINCOUNT", "KMP_BLOCKTIME", "OMP_WAIT_POLICY")
    program = (
        "import os, sys; from refaug.cli import start; sys.argv[1:] = ['--help']; start()\n"
        f"sys.stderr.write(' '.join(os.environ[name] for name in {names}))"
    )
    inherited = {name: text for name, text in os.environ.items() if name not in names}
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={**inherited, "KMP_BLOCKTIME": "200"},
        timeout=120,
    )
    assert done.stderr.splitlines()[-1].split() == ["0", "200", "PASSIVE"]
