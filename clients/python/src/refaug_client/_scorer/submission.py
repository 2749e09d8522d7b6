"""The record of one submit: its replies, and the outcome of each as far as it is known."""

from __future__ import annotations

import os
from typing import Callable, Literal, Optional

from refaug_client._core import errors

Source = Literal["server", "copied", "cache", "no-reply", "skipped", "last", "failed", "dropped"]
Text = tuple[str, str]  # an item's id and a reply to it


class Submission:
    """The replies of one call or submit; the ledger's lock guards every change."""

    __slots__ = (
        "callbacks",
        "deadline",
        "error",
        "items",
        "max_wait_s",
        "missing",
        "number",
        "pid",
        "replies",
        "scores",
        "signatures",
        "sources",
    )

    def __init__(
        self,
        replies: list[Optional[str]],
        items: list[str],
        number: int,
        *,
        deadline: Optional[float] = None,
        max_wait_s: Optional[float] = None,
    ) -> None:
        self.replies: list[Optional[str]] = replies
        self.items: list[str] = items
        self.number: int = number
        self.deadline: Optional[float] = deadline
        self.max_wait_s: Optional[float] = max_wait_s
        self.pid: int = os.getpid()
        self.scores: list[Optional[float]] = [None] * len(replies)
        self.sources: list[Optional[Source]] = [None] * len(replies)
        self.missing: int = len(replies)  # replies without an outcome
        self.error: Optional[errors.RefaugError] = None
        self.signatures: list[str] = []
        self.callbacks: list[Callable[[], None]] = []

    def __len__(self) -> int:
        return len(self.items)

    def places(self) -> list[Place]:
        """Return the place of every reply."""
        return [(self, place) for place in range(len(self))]


Place = tuple[Submission, int]
