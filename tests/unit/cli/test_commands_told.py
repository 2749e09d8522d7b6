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


def of_the_makefile(*, has_encoder: bool) -> list[list[str]]:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    variables = dict(re.findall(r"^(\w+) :?= (.+)$", text, re.MULTILINE))
    variables |= {"BIN": "bin", "HOME_FOLDER": "home", "ENCODER": "all-minilm-l6-v2"}
    for _ in range(3):  # variables of variables
        text = re.sub(r"\$\((\w+)\)", lambda named: variables.get(named[1], named[0]), text)
    text = re.sub(
        r"\$\(if all-minilm-l6-v2,([^,()]*),?([^,()]*)\)", lambda either: either[1 if has_encoder else 2], text
    )
    return [shlex.split(line) for line in re.findall(r"^\tbin/refaug (.+?)(?: >.*)?$", text, re.MULTILINE)]


def read(words: list[str]) -> tuple[str, dict[str, Any]]:
    """Return the name of the command, and its options as click reads them; NoSuchOption where one is not there."""
    command, words = get_command(app), list(words)
    while hasattr(command, "commands") and words and words[0] in command.commands:
        command = command.commands[words.pop(0)]
    context = command.context_class(command, info_name=command.name)
    options, _, _ = command.make_parser(context).parse_args(args=words)
    return str(command.name), options


BY_ENCODER, BY_WORDS = (of_the_makefile(has_encoder=has_encoder) for has_encoder in (True, False))
UNATTENDED: Final = [*kernels.COMMANDS, *BY_ENCODER, *(words for words in BY_WORDS if words not in BY_ENCODER)]


@pytest.mark.parametrize("words", UNATTENDED, ids=" ".join)
def test_a_command_that_is_run_unattended_has_its_options(words: list[str]) -> None:
    name, _ = read(words)
    assert name in words


@pytest.mark.parametrize(("words", "own"), [(BY_ENCODER, "add"), (BY_WORDS, "vectors")], ids=["encoder", "words"])
def test_the_makefile_runs_the_demo_from_log_to_self_play(words: list[list[str]], own: str) -> None:
    commands = [read(line)[0] for line in words]
    assert (words[0][:2], words[-1][:2]) == (["log", "demo"], ["bots", "check"])
    assert {"ingest", own, "build", "score", "verify", "agreement", "play"} <= set(commands)
    indexes = [line for line in words if line[:2] == ["index", "build"]]
    assert ["--encoder" in line for line in indexes] == [own == "add"]
