"""Conversations of self-play, as those of people are read."""

from __future__ import annotations

from refaug.core.errors import BadInput
from refaug.core.home import Settings
from refaug.core.progress import Progress
from refaug.evaluation.conversations.records import Conversation
from refaug.evaluation.selfplay.stored import open_self_play
from refaug.metrics.conversations.exchanges import Side


def played_conversations(settings: Settings, spec: str, progress: Progress) -> list[Conversation]:
    """Return the conversations of a self-play, by name or name@version, that have two turns at least.

    A bot that talks to itself says every turn; a partner stands for the person.
    """
    talks, short = list[Conversation](), 0
    with open_self_play(settings, spec) as played:
        progress.stage("reading", unit="conversations")
        partner = played.manifest["partner"] is not None
        for stored in played.conversations():
            progress.advance(1)
            if len(stored.replies) < 2:
                short += 1
                continue
            turns = tuple(
                (Side.PERSON if partner and place % 2 else Side.BOT, text) for place, text in enumerate(stored.replies)
            )
            talks.append(Conversation(id=stored.id, bot=stored.bot, turns=turns, is_played=True, start=stored.start))
    if short:
        progress.warn(f"{spec}: {short:,} conversations ended before the second turn, and are left out")
    if not talks:
        raise BadInput(f"{spec} has no conversation of two turns", remedy="refaug selfplay play … --start log:NAME")
    return talks
