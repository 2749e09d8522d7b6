"""What was measured on an index once and is kept beside it: found again by all that it is the answer to.

It lies in a folder of its own among the index's versions, which never change: so it is the same whoever measures it, it
stays when versions go, and it goes when the index does.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson

from core.errors import Corrupt, StorageFull
from core.files import hold, make_folder, read_json, remove_asides, write_json
from core.progress import Progress


@dataclass(frozen=True, kw_only=True)
class Question:
    """What a kept answer is the answer to."""

    kind: str
    format_version: int
    index: str  # the id of the index's content, whatever it is called
    asked: Mapping[str, object]  # all else that can change the answer, as JSON has it

    @property
    def file(self) -> str:
        """The answer's name, of the content and of all the rest."""
        all_of_it = {"index": self.index, **self.asked}
        digest = hashlib.sha256(orjson.dumps(all_of_it, option=orjson.OPT_SORT_KEYS)).hexdigest()
        return f"{self.index[:12]}-{digest[:12]}.json"

    def answered(self, answer: Mapping[str, object]) -> dict[str, object]:
        """The file: no time and no machine in it, so that all who write it write the same bytes."""
        beginning = {"kind": self.kind, "format_version": self.format_version, "index": self.index}
        return {**beginning, **self.asked, **answer}


def kept(path: Path, question: Question, names: Sequence[str]) -> dict[str, object] | None:
    """What is kept under these names; None where there is nothing, or no answer to the question.

    Whether the values are such as can be believed, only the caller knows.
    """
    try:
        found = read_json(path)
    except (OSError, Corrupt):
        return None
    answer = {name: found.get(name) for name in names}
    return answer if found == question.answered(answer) else None


def keep(path: Path, question: Question, answer: Mapping[str, object], what: str, progress: Progress) -> None:
    """Write it down; where that cannot be done, say so, and let the work go on."""
    try:
        make_folder(path.parent)
        with hold(path.parent / ".lock"):  # for the moment of writing: what lies aside now is of a killed process
            remove_asides(path.parent)
            write_json(path, question.answered(answer))
    except (OSError, StorageFull) as error:
        progress.warn(f"{what} could not be kept, and will be measured again: {error}")
