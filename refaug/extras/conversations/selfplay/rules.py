"""The rules of self-play, with their limits, which every face has, and how beginnings are named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from refaug.core.errors import Usage
from refaug.core.options.declaring import Doc, Ge, Le
from refaug.core.options.decoding import Options

EMPTY: Final = "empty"
FILE: Final = "file"
LOG: Final = "log"


def parse_start(start: str) -> tuple[str, str]:
    """Return the kind of a beginning, and its file or log; Usage for anything else."""
    kind, _, source = start.partition(":")
    if start == EMPTY or (kind in (FILE, LOG) and source):
        return kind, source
    raise Usage(
        f"{start[:80]!r} is not a beginning",
        remedy="empty, file:FILE with an utterance a line, or log:NAME",
        field="start",
    )


_MAX_TURNS: Final = 1_000
MAX_CHARACTERS: Final = 20_000  # of a reply; a longer one ends its conversation
_REPLY_UNITS: Final = 2_500.0  # of a reply to short turns
_CHARACTER_UNITS: Final = 0.4  # of reading a character of them
_PUBLISHED_WORDS: Final = 30
_FINAL: Final = (".", "!", "?")


@dataclass(frozen=True, kw_only=True)
class SelfPlayRules(Options):
    """How conversations are played.

    The published rules give bots what the released code of Ghandeharioun et al. (2019) gives them: each turn is cut
    after 30 words and ends with a period unless it ends with `.`, `!` or `?`. The record has the replies as they came.
    """

    turns: Annotated[int, Ge(1), Le(_MAX_TURNS), Doc("Replies of a conversation.")] = 10
    context: Annotated[int, Ge(1), Le(_MAX_TURNS), Doc("The last turns that a bot sees.")] = 5
    rules: Annotated[
        Literal["plain", "published"],
        Doc(
            "published: bots see turns cut after 30 words and ended with a period, as in the released code of "
            "Ghandeharioun et al. (2019)."
        ),
    ] = "plain"
    seed: Annotated[int, Ge(0), Le(2**32 - 1), Doc("Of starts and replies.")] = 1

    @property
    def reply_units(self) -> float:
        """The units of a reply at most (refaug.metrics.costs): the turns that a bot sees are read, and one is found."""
        return _REPLY_UNITS + _CHARACTER_UNITS * MAX_CHARACTERS * min(self.context, self.turns + 1)

    def seen(self, turns: Sequence[str]) -> tuple[str, ...]:
        """Return the turns that a bot sees, the last of which it replies to."""
        recent = turns[-self.context :]
        return tuple(map(_published_turn, recent)) if self.rules == "published" else tuple(recent)


def _published_turn(text: str) -> str:
    short = " ".join(text.split()[:_PUBLISHED_WORDS])
    return short if not short or short.endswith(_FINAL) else f"{short}."
