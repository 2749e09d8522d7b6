"""Self-play: bots that talk to themselves or to a partner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from refaug.core.options.declaring import Argument, Distinct, Doc, Ge, Le, Length, Metavar
from refaug.extras.conversations.selfplay.rules import SelfPlayRules
from refaug.extras.conversations.selfplay.start_source import EMPTY, FILE, parse_start
from refaug.operations.operation import Name, Operation, Text, Threads


@dataclass(frozen=True, kw_only=True)
class PlayConversations(SelfPlayRules, Operation):
    """Let each bot have conversations with itself or a partner; what was stopped goes on where it was."""

    operation: ClassVar[str] = "self-play"
    runs: ClassVar[str] = "refaug.extras.conversations.jobs.self_playing:self_play_job"

    bots: Annotated[
        tuple[Text, ...],
        Length(1, 100),
        Distinct(),
        Argument("BOT…"),
        Doc("Bots: names of stored ones, or such as retrieval:INDEX,mode=bm25-utterance,k=10."),
    ]
    name: Annotated[Name, Doc("Name of the self-play.")]
    partner: Annotated[Text | None, Metavar("BOT"), Doc("The bot that each of them talks to; by default itself.")] = (
        None
    )
    conversations: Annotated[int, Ge(1), Le(1_000_000), Doc("So many conversations of each bot.")] = 100
    start: Annotated[
        Text,
        Metavar("START"),
        Doc(
            "What conversations begin with: empty, log:NAME, or file:FILE with an utterance a line; of a job, FILE is "
            "`upload:ID`, or lies in inbox/ or the like."
        ),
    ] = EMPTY
    batch: Annotated[int, Ge(1), Le(10_000), Doc("Conversations that are played in step; it changes no reply.")] = 256
    retry: Annotated[
        bool,
        Doc("Take the newest version that was played in this way, and play on only what an endpoint's fault ended."),
    ] = False
    check_log: Annotated[
        Name | None,
        Metavar("LOG"),
        Doc("Count what the conversations share with this log and with each other: one that the bots learned from."),
    ] = None
    threads: Threads = None

    def check(self) -> None:
        """Refuse a start that is none."""
        parse_start(self.start)

    @property
    def start_file(self) -> str | None:
        """The file of utterances that conversations begin with, if it names one."""
        kind, source = parse_start(self.start)
        return source if kind == FILE else None

    def bots_named(self) -> list[str]:
        """Return the bots, and the partner behind them."""
        return [*self.bots, *([self.partner] if self.partner is not None else [])]

    def sources_named(self) -> list[str]:
        """Return the file that conversations begin with."""
        return [self.start_file] if self.start_file is not None else []

    def resources(self) -> tuple[str, ...]:
        """Return the self-play."""
        return (f"self-play/{self.name}",)
