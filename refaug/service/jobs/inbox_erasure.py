"""Erasing dialogues and speakers from a file of the inbox, which keeps no text of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from refaug.core.files import write_aside


@dataclass(frozen=True, kw_only=True)
class InboxErasure:
    """How many dialogues were changed or removed, and which of the names were found."""

    changed: int = 0
    dialogues: frozenset[str] = frozenset()
    speakers: frozenset[str] = frozenset()

    def __add__(self, other: InboxErasure) -> InboxErasure:
        return InboxErasure(
            changed=self.changed + other.changed,
            dialogues=self.dialogues | other.dialogues,
            speakers=self.speakers | other.speakers,
        )


def erase_from_file(path: Path, gone: frozenset[str], silent: frozenset[str], note: Callable[[], None]) -> InboxErasure:
    """Write a file again without the erased text, and return what was in it; `note` comes first."""
    changed, dialogues, speakers = 0, set[str](), set[str]()
    with path.open("rb") as file:
        for dialogue in map(orjson.loads, file):
            erased_ids, erased_speakers = (
                gone & {dialogue["id"]},
                silent & {turn["speaker"] for turn in dialogue["turns"]},
            )
            changed += bool(erased_ids or erased_speakers)
            dialogues |= erased_ids
            speakers |= erased_speakers
    if changed:
        note()
        with write_aside(path) as out, path.open("rb") as file:
            for line in file:
                rest = _erase_from(orjson.loads(line), gone, silent)
                out.write(line if rest is None else rest)
    return InboxErasure(changed=changed, dialogues=frozenset(dialogues), speakers=frozenset(speakers))


def _erase_from(dialogue: dict[str, Any], gone: frozenset[str], silent: frozenset[str]) -> bytes | None:
    """Return the rest of a dialogue as a line, empty if it was erased; None if nothing changes."""
    if dialogue["id"] in gone:
        return b""
    if not any(turn["speaker"] in silent for turn in dialogue["turns"]):
        return None
    empty = {"text": "", "speaker": None, "time": None}
    turns = [empty if turn["speaker"] in silent else turn for turn in dialogue["turns"]]
    return orjson.dumps({**dialogue, "turns": turns}, option=orjson.OPT_APPEND_NEWLINE)
