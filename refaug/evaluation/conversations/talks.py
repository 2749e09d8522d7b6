"""The conversations of a file as commands and jobs take them: those that can be used, and a message for each other."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

from refaug.core.errors import BadInput
from refaug.core.progress import Progress
from refaug.evaluation.conversations.records import Conversation
from refaug.evaluation.conversations.table_rows import ConversationColumns, conversations_in

_MOST_SHOWN: Final = 5  # bad lines


def usable_talks(
    path: Path, shown_name: str, columns: ConversationColumns, progress: Progress, *, bot: str | None = None
) -> list[Conversation]:
    """Return the conversations of a file; lines that hold none are reported and left out.

    `bot` is the bot of conversations that name none. BadInput where no conversation is left.
    """
    talks, bad = list[Conversation](), 0
    progress.stage("reading", unit="conversations")
    for entry in conversations_in(path, shown_name, columns, bot=bot):
        if isinstance(entry, Conversation):
            talks.append(entry)
            progress.advance(1)
            continue
        bad += 1
        if bad <= _MOST_SHOWN:
            field = f", {entry.field}" if entry.field else ""
            progress.warn(f"{shown_name}, line {entry.line}{field}: {entry.message}")
    if bad > _MOST_SHOWN:
        progress.warn(f"{shown_name}: {bad - _MOST_SHOWN:,} more lines hold no usable conversation")
    if not talks:
        raise BadInput(f"{shown_name} holds no usable conversation", remedy="docs/hybrid.md shows one")
    return talks


def without_bots(talks: Sequence[Conversation], without: Collection[str]) -> list[Conversation]:
    """Return the conversations without those with some bots; BadInput where a bot has none."""
    if unknown := set(without) - {talk.bot for talk in talks}:
        bots = ", ".join(sorted({talk.bot for talk in talks}))
        raise BadInput(f"no conversation is with a bot called {min(unknown)!r}", remedy=f"the bots are {bots}")
    return [talk for talk in talks if talk.bot not in without]
