"""What help shows: the entries in panels, the everyday options of a long command, and all of them on request."""

from __future__ import annotations

import re
from typing import Any

import pytest

from refaug.cli import main as cli
from refaug.cli.command_tree import HELP_ALL, command_at
from refaug.cli.commands import COMMANDS, ENTRIES, EntryPanel
from refaug.core.installation import COMMANDS as REGISTERED
from refaug.core.installation import registered

ALL = {**COMMANDS, **registered(REGISTERED)}
LONG = [path for path in ALL if any(option.hidden for option in command_at(path).params)]


@pytest.fixture(autouse=True)
def usual_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def shown(capfdbinary: pytest.CaptureFixture[bytes], *words: str) -> str:
    assert cli.main(list(words)) == 0
    return capfdbinary.readouterr().out.decode()


def headings(text: str) -> list[str]:
    return re.findall(r"^(\w+):$", text, re.MULTILINE)


def options_in(text: str) -> set[str]:
    return set(re.findall(r"^  (?:-\w, )?(-{1,2}[\w-]+)", text, re.MULTILINE))


def spellings(path: str, *, hidden: bool) -> set[str]:
    params: list[Any] = [one for one in command_at(path).params if one.param_type_name == "option"]
    return {max(one.opts, key=len) for one in params if hidden or not one.hidden}


def test_the_entries_stand_in_their_panels_and_fit_on_a_screen(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    text = shown(capfdbinary, "--help")
    assert len(ENTRIES) <= 14
    assert len(text.splitlines()) <= 45
    assert headings(text) == ["Options", *EntryPanel]
    assert re.findall(r"^  (\w+)  +\w", text.partition("Score:")[2], re.MULTILINE) == list(ENTRIES)


def test_the_help_of_score_has_what_is_needed_daily_in_panels(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    text = shown(capfdbinary, "score", "--help")
    assert len(text.splitlines()) <= 60
    assert headings(text) == ["Input", "Metric", "Retrieval", "Statistics", "Output", "Options", "Commands"]
    assert {"--metric", "--index", "--baseline", "--json", HELP_ALL} <= options_in(text)
    assert not {"--epsilon", "--shape", "--confidence"} & options_in(text)


@pytest.mark.parametrize("path", LONG)
def test_a_long_help_shows_the_everyday_options_and_on_request_all(
    path: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    short, whole = (shown(capfdbinary, *path.split(), flag) for flag in ("--help", HELP_ALL))
    assert spellings(path, hidden=True) <= options_in(whole)
    if HELP_ALL not in options_in(short):  # a short command hides nothing
        assert spellings(path, hidden=True) <= options_in(short)
        return
    assert options_in(short) == spellings(path, hidden=False) | {"--help", HELP_ALL}
    assert len(short.splitlines()) < len(whole.splitlines())


@pytest.mark.parametrize(
    ("path", "panels"),
    [
        ("serve", ["Listening", "Access", "Serving", "Limits", "Output"]),
        ("train rater", ["Rater", "Training", "Output"]),
        ("index build", ["Index", "Output"]),
        ("log ingest", ["Input", "Cleaning", "Output"]),
    ],
)
def test_the_help_of_a_long_command_fits_on_a_screen_in_panels(
    path: str, panels: list[str], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    text = shown(capfdbinary, *path.split(), "--help")
    assert headings(text) == [*panels, "Options"]
    assert len(text.splitlines()) <= 60
