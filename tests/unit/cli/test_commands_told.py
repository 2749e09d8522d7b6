"""The commands that the installation and `make demo` run: each exists and has the options that they name."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
from safeguards import needs_extra
from typer.main import get_command

from refaug.cli.main import app
from refaug.cli.server import kernels

ROOT: Final = Path(__file__).parents[3]


def of_the_demo(*variables: str) -> list[list[str]]:
    """Return the words of each command that `make demo` would run."""
    run = ["make", "--dry-run", "--no-print-directory", "VENV=bin", "BIN=bin", *variables, "demo"]
    printed = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [shlex.split(line) for line in re.findall(r"^bin/refaug (.+?)(?: >.*)?$", printed, re.MULTILINE)]


def read(words: list[str]) -> tuple[str, dict[str, Any]]:
    """Return the name of the command, and its options as click reads them; NoSuchOption where one is not there."""
    command, words = get_command(app), list(words)
    while hasattr(command, "commands") and words and words[0] in command.commands:
        command = command.commands[words.pop(0)]
    context = command.context_class(command, info_name=command.name)
    options, _, _ = command.make_parser(context).parse_args(args=words)
    return str(command.name), options


REAL, INVENTED = of_the_demo("ENCODER=all-minilm-l6-v2", "CONVERSATIONS=500"), of_the_demo("INVENTED=1")
OF_CONVERSATIONS: Final = ["play", "check"]
UNATTENDED: Final = [
    pytest.param(words, id=" ".join(words), marks=[needs_extra("conversations")] * (words[1] in OF_CONVERSATIONS))
    for words in (*kernels.FIRST, *kernels.MEANWHILE, *kernels.INDEXED, *kernels.LAST, *REAL, *INVENTED)
]


@pytest.mark.parametrize("words", UNATTENDED)
def test_a_command_that_is_run_unattended_has_its_options(words: list[str]) -> None:
    name, _ = read(words)
    assert name in words


@needs_extra("conversations")
@pytest.mark.parametrize(
    ("words", "first", "own"),
    [
        (REAL, ["start", "--conversations", "500"], {"start"}),
        (INVENTED, ["log", "demo"], {"ingest", "build", "agreement"}),
    ],
    ids=["real", "invented"],
)
def test_the_demo_goes_from_dialogues_to_self_play(words: list[list[str]], first: list[str], own: set[str]) -> None:
    assert (words[0][: len(first)], words[-1][:2]) == (first, ["bots", "check"])
    assert own | {"score", "verify", "rater", "play"} <= {read(line)[0] for line in words}
