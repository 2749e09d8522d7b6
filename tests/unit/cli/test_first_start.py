"""What a command imports before it answers: next to nothing for the version and the help, and no more than it needs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from refaug.cli.command_tree import command_at
from refaug.cli.commands import COMMANDS, ENTRIES, GROUPS, path_of
from refaug.core import installation

ROOT = Path(__file__).resolve().parents[3]
ALL = {**COMMANDS, **installation.BUILT_IN[installation.COMMANDS]}
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


@pytest.mark.parametrize(
    "arguments", [("--help",), ("score", "metrics", "list"), ("score", "--help"), ("log", "tokenizers")]
)
def test_what_computes_and_stores_is_not_imported_to_print_a_list(arguments: tuple[str, ...]) -> None:
    assert not imported_by(*arguments) & (HEAVY - {"numpy", "pyarrow", "duckdb"})


@pytest.mark.parametrize("arguments", [("--help",), ("score", "--help"), ("score", "metrics", "list")])
def test_the_help_and_the_list_of_metrics_do_without_arrays_and_tables(arguments: tuple[str, ...]) -> None:
    assert not imported_by(*arguments) & HEAVY


def test_a_score_of_a_few_lines_imports_neither_the_compiler_nor_what_makes_texts_of_texts(tmp_path: Path) -> None:
    (tmp_path / "replies").write_text("At the market.\nYes.\n")
    lines = str(tmp_path / "replies")
    modules = imported_by("--quiet", "score", "--replies", f"a={lines}", "--references", lines, "--metric", "bleu")
    assert not modules & {"numba", "scipy", "pydantic"}


def test_the_help_imports_no_command() -> None:
    ours = {name for name in imported_by("--help") if name.startswith("refaug.cli.")}
    assert ours == {f"refaug.cli.{name}" for name in ("shared", "shared.output", "commands", "command_tree", "main")}


@pytest.mark.parametrize("path", {**COMMANDS, **installation.registered(installation.COMMANDS)})
def test_every_command_has_a_function_and_a_sentence(path: str) -> None:
    command = command_at(path)
    assert command.name == path.rpartition(" ")[2]
    assert command.help.partition("\n\n")[0]
    assert not command.deprecated


def test_every_command_below_an_entry_is_in_a_group_with_a_sentence() -> None:
    groups = {" ".join(path.split()[:length]) for path in ALL for length in range(1, len(path.split()))}
    assert groups - ALL.keys() - ENTRIES.keys() == set(GROUPS)
    assert {path.split()[0] for path in ALL} == set(ENTRIES)


def test_every_function_of_a_command_is_in_the_table() -> None:
    written = {
        f"{'.'.join(path.relative_to(ROOT).with_suffix('').parts)}:{name}"
        for folder in ("refaug/cli", "refaug/extras")
        for path in (ROOT / folder).rglob("*.py")
        for name in re.findall(r"^def ([a-z]\w*_command)\(", path.read_text("utf-8"), re.MULTILINE)
    }
    assert written - set(ALL.values()) == set()


@pytest.mark.parametrize(
    ("words", "path"),
    [
        ("score items.jsonl verify", "score"),
        ("score verify scores.json", "score verify"),
        ("--quiet --home log admin jobs list", "admin jobs list"),
        ("--home=x agreement reproduce all", "agreement reproduce"),
        ("--version", ""),
        ("refs items.jsonl", ""),
    ],
)
def test_the_command_of_a_line_is_found(words: str, path: str) -> None:
    assert path_of(words.split()) == path
