"""What worker processes of the tests do; a module of its own, so that a process that is spawned finds it."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import Any, Optional

from plain_set import ITEMS, SET

from refaug_client import Client


def texts(count: int, of: str = "") -> tuple[list[str], list[str]]:
    """Items and replies to them, each reply another one."""
    return [ITEMS[number % len(ITEMS)] for number in range(count)], [f"reply {of} {number}" for number in range(count)]


def score(client: Client, items: Sequence[str], replies: Sequence[str], times: int = 1) -> list[list[Optional[float]]]:
    """The same request some times over."""
    return [list(client.sets.score(SET, replies, items=items).replies) for _ in range(times)]


def ask_wrongly(client: Client) -> Any:
    """An error of the server's, in a worker."""
    return client.sets.get(SET)


def report(into: Any, do: Any, *arguments: Any) -> None:
    """What came of it, an error too, and which threads are left; by a pipe."""
    try:
        found = do(*arguments)
    except BaseException as error:  # noqa: BLE001  it is handed on
        found = error
    into.send((os.getpid(), found, [one.name for one in threading.enumerate()]))
    into.close()


def submit(scorer: Any, items: Sequence[str], replies: Sequence[str]) -> tuple[int, list[Optional[float]], int]:
    """How much the scorer knew before, what it says, and how much it knows then."""
    before = scorer.counts.submitted
    pending = scorer.submit(replies, items=items)
    return before, pending.result(60), scorer.counts.submitted


def look_at(pending: Any) -> Any:
    """Replies that were handed in elsewhere."""
    return pending.result(60)


class Scored:
    """Rows of a data set, each with its score: as a loader's workers ask for them."""

    def __init__(self, scorer: Any, items: Sequence[str], replies: Sequence[str]) -> None:
        self.scorer, self.items, self.replies = scorer, list(items), list(replies)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, at: int) -> tuple[int, float, int]:
        (found,) = self.scorer([self.replies[at]], items=[self.items[at]])
        return at, found, os.getpid()
