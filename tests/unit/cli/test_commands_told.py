"""The commands that the installation and `make demo` run: each exists and has the options that they name."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any, Final

import pytest
from typer.main import get_command

from refaug.cli.main import app
from refaug.cli.server import kernels

ROOT: Final = Path(__file__).parents[3]


def of_the_makefile() -> list[list[str]]:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    variables = dict(re.findall(r"^(\w+) :?= (.+)$", text, re.MULTILINE))
    lines = re.findall(r"^\t\$\(BIN\)/refaug (.+?)(?: >.*)?$", text, re.MULTILINE)
    return [shlex.split(re.sub(r"\$\((DEMO_SCORES|DEMO)\)", lambda named: variables[named[1]], line)) for line in lines]


def read(words: list[str]) -> tuple[str, dict[str, Any]]:
    """Return the name of the command, and its options as click reads them; NoSuchOption where one is not there."""
    command, words = get_command(app), list(words)
    while hasattr(command, "commands") and words and words[0] in command.commands:
        command = command.commands[words.pop(0)]
    context = command.context_class(command, info_name=command.name)
    options, _, _ = command.make_parser(context).parse_args(args=words)
    return str(command.name), options


@pytest.mark.parametrize("words", [*kernels.COMMANDS, *of_the_makefile()], ids=" ".join)
def test_a_command_that_is_run_unattended_has_its_options(words: list[str]) -> None:
    name, _ = read(words)
    assert name in words


def test_the_makefile_runs_the_demo_from_log_to_self_play() -> None:
    commands = [read(words)[0] for words in of_the_makefile()]
    assert (commands[0], commands[-1]) == ("demo-log", "check")
    assert {"ingest", "build", "score", "verify", "meta", "play"} <= set(commands)
