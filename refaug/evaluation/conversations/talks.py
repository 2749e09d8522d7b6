"""The conversations of a file as commands and jobs take them: those that can be used, and a message for each other."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from refaug.core.errors import BadInput
from refaug.core.home import Settings
from refaug.core.progress import Progress
from refaug.evaluation.conversations.options.conversation_source import ConversationSource
from refaug.evaluation.conversations.played import played_conversations
from refaug.evaluation.conversations.records import Conversation
from refaug.evaluation.conversations.table_rows import conversations_in
from refaug.evaluation.item_files.item_files import InputFile

_MOST_SHOWN: Final = 5  # bad lines


def read_talks(
    home: Settings, source: ConversationSource, file: InputFile | None, progress: Progress
) -> list[Conversation]:
    """Return the conversations of a self-play or, as its face has found it, of a file, without those of some bots.

    Lines that hold none are reported and left out. BadInput where no conversation is left, or a bot has none.
    """
    if file is None:
        talks = played_conversations(home, source.self_play or "", progress)
    else:
        talks = _usable_talks(file, source, progress)
    return _without_bots(talks, source.without)


def _usable_talks(file: InputFile, source: ConversationSource, progress: Progress) -> list[Conversation]:
    talks, bad = list[Conversation](), 0
    progress.stage("reading", unit="conversations")
    for entry in conversations_in(file.path, file.name, source.table_columns, bot=source.bot):
        if isinstance(entry, Conversation):
            talks.append(entry)
            progress.advance(1)
            continue
        bad += 1
        if bad <= _MOST_SHOWN:
            field = f", {entry.field}" if entry.field else ""
            progress.warn(f"{file.name}, line {entry.line}{field}: {entry.message}")
    if bad > _MOST_SHOWN:
        progress.warn(f"{file.name}: {bad - _MOST_SHOWN:,} more lines hold no usable conversation")
    if not talks:
        raise BadInput(f"{file.name} holds no usable conversation", remedy="docs/hybrid.md shows one")
    return talks


def _without_bots(talks: Sequence[Conversation], without: Collection[str]) -> list[Conversation]:
    if unknown := set(without) - {talk.bot for talk in talks}:
        bots = ", ".join(sorted({talk.bot for talk in talks}))
        raise BadInput(f"no conversation is with a bot called {min(unknown)!r}", remedy=f"the bots are {bots}")
    return [talk for talk in talks if talk.bot not in without]
