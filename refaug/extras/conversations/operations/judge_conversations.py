"""Judging conversations turn by turn."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from refaug.core.options.declaring import Distinct, Doc, Length, Metavar, NoFlag
from refaug.extras.conversations.operations.turn_metrics import TURN_METRICS, TurnMetrics
from refaug.extras.conversations.options.conversation_source import ConversationSource
from refaug.extras.conversations.options.hybrid_settings import Target
from refaug.operations.operation import OwnedOperation, Text, Threads


@dataclass(frozen=True, kw_only=True)
class JudgeConversations(ConversationSource, TurnMetrics, OwnedOperation):
    """Score every reply of a bot in its context, without a gold: the mean, the worst reply, and the course."""

    operation: ClassVar[str] = "judge-conversations"
    runs: ClassVar[str] = "refaug.extras.conversations.jobs.conversation_judging:judge_conversations_job"

    metrics: Annotated[tuple[Text, ...], Length(1, 100), Distinct(), Metavar("METRIC"), TURN_METRICS] = (
        field()  # without the default of the base
    )
    target: Annotated[Target, Doc("The question that figures are compared with; without it the mean over all.")] = None
    threads: Threads = None
    name: Annotated[
        str,
        Length(0, 200),
        NoFlag("a command prints the scores"),
        Doc("What the file with the scores is called; by default after that of the conversations."),
    ] = ""

    def sources_named(self) -> list[str]:
        """Return the file of the conversations."""
        return self.conversation_files
