"""The tables of calls: a line for each, an id first, and then the call as its face spells it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

CALLS: Final = Path(__file__).parent / "calls"
_EARLIER: Final = re.compile(r"\{([\w.-]+):([\w.]+)\}")
_FILE: Final = re.compile(r"\$([\w.-]+\.jsonl?)")


def table_names(face: str) -> list[str]:
    """Return the names of a face's tables; those that end in `.slow` run in `make test-all`."""
    return sorted(path.name for path in (CALLS / face).iterdir())


def table(face: str, name: str) -> Iterator[tuple[str, str]]:
    """Yield the id and the spelling of each call of a table."""
    for line in (CALLS / face / name).read_text("utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            call, _, spelling = line.partition(" ")
            yield call, spelling.strip()


def filled_in(spelling: str, earlier: Mapping[str, Any]) -> str:
    """Return a call with parts of earlier answers for `{CALL:path}`, such as `{sets.list:0.id}`."""

    def part(match: re.Match[str]) -> str:
        answer = earlier[match[1]]
        for step in match[2].split("."):
            answer = answer[int(step)] if isinstance(answer, list) else answer[step]
        return str(answer)

    return _EARLIER.sub(part, spelling)


def with_files(spelling: str) -> str:
    """Return a body with what files hold for `$FILE`: lines of JSON as a list."""

    def content(match: re.Match[str]) -> str:
        text = Path(match[1]).read_text("utf-8")
        return f"[{','.join(text.splitlines())}]" if match[1].endswith("l") else text

    return _FILE.sub(content, spelling)


def parsed(text: str) -> Any:
    """Return what JSON, or lines of it, say; other texts as lists of lines."""
    try:
        return json.loads(text)
    except ValueError:
        pass
    lines = text.splitlines()
    try:
        return [json.loads(line) for line in lines]
    except ValueError:
        return lines


def outline(answer: Any) -> Any:
    """Return the fields of an answer with the types of their values; of a list, its first entry."""
    if isinstance(answer, dict):
        return {name: outline(inner) for name, inner in answer.items()}
    if isinstance(answer, list):
        return [outline(answer[0])] if answer else []
    return type(answer).__name__
