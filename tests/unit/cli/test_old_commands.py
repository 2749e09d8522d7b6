"""Every command of the tree before, with its options, is in the command line of today; the page has the table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from refaug.cli.command_tree import command_at
from refaug.cli.commands import COMMANDS
from refaug.core.installation import BUILT_IN, registered
from refaug.core.installation import COMMANDS as REGISTERED

HERE: Final = Path(__file__).parent
OLD: Final[dict[str, list[str]]] = json.loads((HERE / "old_commands.json").read_text("utf-8"))  # of 99dfc162
PAGE: Final = HERE.parents[2] / "docs" / "internals" / "commands.md"
MOVED: Final = {
    "adem pretrain": "train vhred",
    "adem report": "train report adem",
    "adem resume": "train resume vhred",
    "adem score": "judge score adem",
    "adem train": "train adem",
    "audit": "admin audit",
    "backup": "admin backup",
    "cite": "score cite",
    "conversations judge": "judge conversations",
    "demo-log": "log demo",
    "diagnose": "score diagnose",
    "doctor": "admin doctor",
    "encoder add": "index encoder add",
    "encoder forget": "index encoder forget",
    "encoder import": "index encoder add",
    "hybrid evaluate": "agreement hybrid",
    "hybrid fit": "train hybrid",
    "hybrid score": "judge score hybrid",
    "ingest": "log ingest",
    "items convert": "sets convert",
    "jobs cancel": "admin jobs cancel",
    "jobs events": "admin jobs events",
    "jobs list": "admin jobs list",
    "jobs retry": "admin jobs retry",
    "jobs show": "admin jobs show",
    "jobs start": "admin jobs start",
    "jobs work": "admin jobs work",
    "judge-fit score": "judge score judge-fit",
    "judge-fit train": "train judge-fit",
    "keys create": "admin keys create",
    "keys list": "admin keys list",
    "keys revoke": "admin keys revoke",
    "meta": "agreement",
    "meta probe": "agreement probe",
    "metrics baseline": "score metrics baseline",
    "metrics describe": "score metrics describe",
    "metrics list": "score metrics list",
    "rater evaluate": "agreement rater",
    "rater negatives": "train negatives",
    "rater rate": "judge score rater",
    "rater report": "train report rater",
    "rater resume": "train resume rater",
    "rater train": "train rater",
    "refs": "sets references",
    "render": "score report",
    "replies": "bots reply",
    "reproduce": "agreement reproduce",
    "restore": "admin restore",
    "ruber resume": "train resume ruber",
    "ruber score": "judge score ruber",
    "ruber train": "train ruber",
    "schedules delete": "admin schedules delete",
    "schedules list": "admin schedules list",
    "schedules put": "admin schedules put",
    "schedules show": "admin schedules show",
    "schedules tick": "admin schedules tick",
    "selfplay check": "bots check",
    "selfplay play": "bots play",
    "signature diff": "compare --signatures",
    "tokenizer list": "log tokenizers",
    "tokenizer run": "log tokenize",
    "tokenizer train": "train tokenizer",
    "vectors import": "index vectors import",
    "vectors train": "train vectors",
    "vectors try": "index vectors try",
    "vectors write": "index vectors write",
    "verify": "score verify",
}


def new_place(old: str) -> str:
    """The words of a command today; flags behind them stand for what it does."""
    return MOVED.get(old, old)


def path_of(old: str) -> str:
    return new_place(old).partition(" --")[0]


def options_of(path: str) -> set[str]:
    def spelled(parameter: Any) -> str:
        if parameter.param_type_name == "argument":
            return str(parameter.metavar or parameter.name.upper())
        return "/".join([*parameter.opts, *parameter.secondary_opts])

    return {spelled(parameter) for parameter in command_at(path).params}


REMOVED: Final = BUILT_IN[REGISTERED].keys() - registered(REGISTERED).keys()  # with their extra


@pytest.mark.parametrize("old", [old for old in OLD if path_of(old) not in REMOVED])
def test_a_command_of_before_is_there_with_all_its_options(old: str) -> None:
    path = path_of(old)
    assert path in {**COMMANDS, **registered(REGISTERED)}
    options = set(OLD[old])
    if path == "compare":
        options -= {"SIGNATURE"}  # FIRST and SECOND are files or signatures
    if path in ("artefacts push", "artefacts fetch"):
        options -= {"NAME[@VERSION]"}  # or the beginning of a frozen set's id
    if path == "index encoder add":
        options -= {"FOLDER"}  # FROM is a folder, a file, or a repository of a hub
    assert options - options_of(path) == set()


def test_the_page_has_every_command_that_moved() -> None:
    text = PAGE.read_text("utf-8")
    missing = [old for old in OLD if new_place(old) != old and f"| `{old}` | `{new_place(old)}` |" not in text]
    assert missing == []
