"""Orders of jobs in which bots reply: to a test file, and to themselves or a partner."""

from __future__ import annotations

from typing import Final, Literal, Self

from pydantic import Field, model_validator

from refaug.bots.selfplay import MAX_TURNS, SelfPlayRules
from refaug.core.errors import Usage
from refaug.evaluation.selfplay.start_source import EMPTY, FILE, MAX_PLAYED, parse_start
from refaug.service.jobs.orders.evaluation_orders import FILE_OF_JOB, SystemName, TableFields
from refaug.service.jobs.orders.fields import THREADS, Name, Seed, StrictModel, Text

_BOT: Final = "the name of a stored bot, or such as retrieval:INDEX,mode=bm25-utterance,k=10"
MAX_BATCH: Final = 10_000


class RepliesJob(TableFields):
    """Let bots reply to the items of a file, as `refaug replies` does, and keep the file as an upload."""

    kind: Literal["replies"] = Field(description="which job it is")
    items: Text = Field(description=f"items or a table: {FILE_OF_JOB}")
    bots: dict[SystemName, Text] = Field(
        description=f"what replies, by the name of the system that it becomes: {_BOT}, or bot:NAME with a seed",
        min_length=1,
        max_length=100,
    )
    replace: bool = Field(
        default=False, description="replace a system of the same name, and drop people's ratings of its old replies"
    )
    without_reply: Literal["report", "refuse", "skip"] = Field(
        default="report",
        description="an item that a bot has no reply to: written without that reply, refused, or left out",
    )
    timing: bool = Field(default=False, description="note the milliseconds of each reply in the file, as `reply_ms`")
    allow_truncated: bool = Field(
        default=False, description="use the items before the place where a compressed file breaks off"
    )
    name: str = Field(
        default="",
        description="what the file with the replies is called; by default after that of the items",
        max_length=200,
    )
    owner: str | None = Field(
        default=None, description="the name of the key that sees the file; the server fills it in", max_length=64
    )
    threads: int | None = Field(default=None, description=THREADS, ge=1, le=1_024)


class SelfPlayJob(StrictModel):
    """Let bots have conversations with themselves or a partner, as `refaug selfplay play` does."""

    kind: Literal["self-play"] = Field(description="which job it is")
    bots: list[Text] = Field(description=f"what plays: {_BOT}", min_length=1, max_length=100)
    name: Name = Field(description="name of the self-play")
    partner: Text | None = Field(default=None, description="the bot that each of them talks to; by default itself")
    conversations: int = Field(default=100, description="so many of each bot", ge=1, le=MAX_PLAYED)
    turns: int = Field(default=SelfPlayRules.turns, description="replies of a conversation", ge=1, le=MAX_TURNS)
    context: int = Field(
        default=SelfPlayRules.context, description="the last turns that a bot sees", ge=1, le=MAX_TURNS
    )
    start: Text = Field(
        default=EMPTY,
        description="what conversations begin with: empty, log:NAME, or file:FILE with an utterance a line; FILE is "
        f"{FILE_OF_JOB}",
    )
    rules: Literal["plain", "published"] = Field(
        default="plain", description="published: as in the released code of Ghandeharioun et al. (2019)"
    )
    seed: Seed = Field(default=SelfPlayRules.seed, description="of starts and replies")
    batch: int = Field(
        default=256, description="conversations that are played in step; it changes no reply", ge=1, le=MAX_BATCH
    )
    retry: bool = Field(
        default=False,
        description="play the newest version of the same order again where an endpoint failed, and keep the rest",
    )
    check_log: Name | None = Field(
        default=None,
        description="log that the bots were trained on, or retrieve from: the job's result then has what conversations "
        "share with it and with each other",
    )
    threads: int | None = Field(default=None, description=THREADS, ge=1, le=1_024)

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        try:
            parse_start(self.start)
        except Usage as error:
            raise ValueError(f"{error.message}: {error.remedy}") from None
        if twice := next((bot for bot in self.bots if self.bots.count(bot) > 1), None):
            raise ValueError(f"bots: {twice} comes twice")
        return self

    @property
    def start_file(self) -> str | None:
        """The file of utterances that conversations begin with, if it names one."""
        kind, source = parse_start(self.start)
        return source if kind == FILE else None
