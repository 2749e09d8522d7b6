"""Orders of jobs in which bots reply: to a test file, and to themselves or a partner."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field

from refaug.service.jobs.orders.fields import FILE_OF_JOB, THREADS, SystemName, TableFields, Text

_BOT: Final = "the name of a stored bot, or such as retrieval:INDEX,mode=bm25-utterance,k=10"


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
