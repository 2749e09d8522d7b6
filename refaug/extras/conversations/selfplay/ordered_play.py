"""Self-play as commands and jobs do it, with bots that they have opened."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any

from refaug.core.home import Settings
from refaug.core.progress import Progress
from refaug.extras.conversations.operations.play_conversations import PlayConversations
from refaug.extras.conversations.selfplay.check import SelfPlayCheck, check_self_play
from refaug.extras.conversations.selfplay.recording import (
    PlayingBot,
    SelfPlayOrder,
    early_end_warnings,
    record_self_play,
)
from refaug.extras.conversations.selfplay.starts import read_starts
from refaug.extras.conversations.selfplay.stored import open_self_play
from refaug.logs.store import StoredLog
from refaug.scoring.item_files.item_files import InputFile
from refaug.service.bots.opening import OpenBot


def play_conversations(
    home: Settings,
    order: PlayConversations,
    opened: Sequence[OpenBot],
    progress: Progress,
    *,
    start_file: InputFile | None = None,
) -> dict[str, Any]:
    """Play what is ordered with its bots, the partner behind them, and return the version with its figures."""
    for bot in opened:
        for warning in bot.replier.warnings:
            progress.warn(f"{bot.name}: {warning}")
    playing = [PlayingBot(name=bot.name, replier=bot.replier) for bot in opened]
    with closing(read_starts(home, order.start, order.conversations, order.seed, file=start_file)) as starts:
        recorded = record_self_play(
            home,
            order.name,
            SelfPlayOrder(
                bots=playing[: len(order.bots)],
                partner=playing[-1] if order.partner is not None else None,
                start=order.start,
                starts=starts,
                rules=order,
            ),
            batch=order.batch,
            retries_faults=order.retry,
            progress=progress,
        )
    for warning in early_end_warnings(recorded.problems, recorded.silent):
        progress.warn(warning)
    return {
        "self_play": order.name,
        "version": recorded.version,
        "bots": [bot.name for bot in playing[: len(order.bots)]],
        "conversations": len(order.bots) * order.conversations,
        "resumed_at": recorded.resumed_at,
        "played_again": recorded.played_again,
        "problems": {name: dict(reasons) for name, reasons in recorded.problems.items()},
        "silent": list(recorded.silent),
        "latency": {name: dict(figures) if figures else None for name, figures in recorded.latency.items()},
    }


def compared_log(home: Settings, order: PlayConversations) -> StoredLog | None:
    """Return the log that the conversations are compared with; NotFound before anything is played."""
    return None if order.check_log is None else StoredLog.open(home.logs, order.check_log)


def checks_of(home: Settings, spec: str, log: StoredLog | None, progress: Progress) -> list[SelfPlayCheck]:
    """Return what the conversations of a version share with the log and with each other; nothing without a log."""
    if log is None:
        return []
    with open_self_play(home, spec) as played:
        return check_self_play(played, log, scratch=home.cache, progress=progress)
