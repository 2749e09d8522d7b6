"""From conversations to the columns that the hybrid metric is fitted to: encoders opened, turns judged, all counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from refaug.core.home import Settings
from refaug.core.progress import Progress
from refaug.extras.conversations.encoders.opening import open_encoders
from refaug.extras.conversations.hybrid_report import require_paper
from refaug.extras.conversations.judged import TurnJudges, judge_turns, turn_details
from refaug.extras.conversations.options.hybrid_settings import EncoderRequest, HybridSettings
from refaug.extras.conversations.records import Conversation
from refaug.extras.conversations.table import (
    ConversationTable,
    RatedConversations,
    conversation_table,
)


@dataclass(frozen=True, kw_only=True, eq=False)
class MeasuredConversations:
    """A table with what it was computed by, as signatures name it."""

    rated: RatedConversations
    table: ConversationTable
    details: Mapping[str, str]  # encoders, and the metrics of turns
    turn_signatures: Mapping[str, str]  # metric of turns → its full signature


def measure(
    home: Settings,
    conversations: Sequence[Conversation],
    encoders: EncoderRequest,
    settings: HybridSettings,
    judges: TurnJudges | None,
    progress: Progress,
) -> MeasuredConversations:
    """Compute every column of the conversations that were rated."""
    rated = RatedConversations.of(conversations, settings)
    opened = open_encoders(home, encoders)
    opened.require_language(text for conversation in rated.conversations for _, text in conversation.turns)
    require_paper(opened.details, settings)
    judged = judge_turns(home, rated.conversations, judges, progress) if judges is not None else []
    table = conversation_table(rated, opened.reader, settings, progress, judged)
    return MeasuredConversations(
        rated=rated,
        table=table,
        details={**opened.details, **turn_details(judged)},
        turn_signatures={scores.name: scores.signature.full for scores in judged},
    )
