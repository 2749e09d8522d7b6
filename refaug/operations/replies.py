"""Replies of bots to items: each bot becomes a further system."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from refaug.core.options.declaring import Argument, Doc, Length, Metavar, NoFlag
from refaug.core.options.decoding import Options
from refaug.operations.item_sources import OF_JOB, SystemName, TableOptions
from refaug.operations.operation import OwnedOperation, Text, Threads
from refaug.scoring.items import system_name
from refaug.scoring.settings import WithoutReply


@dataclass(frozen=True, kw_only=True)
class ReplyOptions(Options):
    """Which bots reply, and what becomes of items with a reply too many or too few."""

    bots: Annotated[
        dict[SystemName, Text],
        Length(1, 100),
        Metavar("NAME=BOT"),
        Doc(
            "What replies, by the name of the system that it becomes: the name of a stored bot, or such as "
            "retrieval:INDEX,mode=bm25-utterance,k=10 or vhred:NAME,method=beam (docs/bots.md)."
        ),
    ]
    replace: Annotated[
        bool, Doc("Replace a system of the same name, and drop people's ratings of its old replies.")
    ] = False
    without_reply: Annotated[
        WithoutReply,
        Doc(
            "An item that a bot has no reply to: report it, and write it without that reply; refuse it, which ends the "
            "work; or skip it, and leave it out."
        ),
    ] = WithoutReply.REPORT

    def check(self) -> None:
        """Refuse names that no system can have."""
        super().check()
        for name in self.bots:
            system_name(name)


@dataclass(frozen=True, kw_only=True)
class ReplyToItems(ReplyOptions, TableOptions, OwnedOperation):
    """Let bots reply to the items of a test file, each as a further system, such as C-BM25 from an index."""

    operation: ClassVar[str] = "replies"
    runs: ClassVar[str] = "refaug.service.jobs.kinds.replying:replies_job"

    items: Annotated[
        Text,
        Argument("ITEMS"),
        Doc("JSONL with one item a line, or a table of any kind, compressed or not; - for stdin.", of_job=OF_JOB),
    ]
    timing: Annotated[
        bool, Doc("Note the milliseconds of each reply in the items, as reply_ms, and say how long they took.")
    ] = False
    allow_truncated: Annotated[bool, Doc("Use the items before the place where a compressed file breaks off.")] = False
    threads: Threads = None
    name: Annotated[
        str,
        Length(0, 200),
        NoFlag("a command prints the items"),
        Doc("What the file with the replies is called; by default after that of the items."),
    ] = ""

    def bots_named(self) -> list[str]:
        """Return the bots."""
        return list(self.bots.values())

    def sources_named(self) -> list[str]:
        """Return the file of items."""
        return [self.items]
