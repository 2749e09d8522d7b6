"""Judges by name: files in the folder `judges` of the home, each of which describes an endpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from refaug.bots.endpoint.specification import SUFFIXES, Endpoint, read_endpoint
from refaug.core.errors import NotFound
from refaug.core.files import NAME
from refaug.core.home import Settings

ANSWERS: Final = "answers.db"


def judge_names(home: Settings) -> list[str]:
    """Return the names of the judges in the home."""
    if not home.judges.is_dir():
        return []
    return sorted({path.stem for path in home.judges.iterdir() if path.suffix in SUFFIXES})


def find_judge(home: Settings, text: str) -> Endpoint:
    """Return the judge of a name, or of the path of a file."""
    if text.endswith(SUFFIXES) or "/" in text:
        return read_endpoint(Path(text))
    return find_named_judge(home, text)


def find_named_judge(home: Settings, text: str) -> Endpoint:
    """Return the judge of a name in the home."""
    if NAME.fullmatch(text):
        for suffix in SUFFIXES:
            path = home.judges / f"{text}{suffix}"
            if path.is_file():
                return read_endpoint(path, name=text)
    names = ", ".join(judge_names(home)) or "none so far"
    raise NotFound(
        f"there is no judge {text!r} in {home.judges}",
        remedy=f"its file {text}.toml (docs/judge.md), or the path of a file; here are: {names}",
    )


def answers_path(home: Settings) -> Path:
    """Return the file of the answers that judges gave."""
    return home.judgements / ANSWERS


def spending_path(home: Settings) -> Path:
    """Return the file that counts what judges cost a server each day."""
    return home.judgements / "spending.db"
