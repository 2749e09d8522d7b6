"""Jobs in which bots have conversations with themselves or a partner; a version of a self-play comes of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from refaug.extras.conversations.operations.play_conversations import PlayConversations
from refaug.extras.conversations.selfplay.ordered_play import checks_of, compared_log, play_conversations
from refaug.service.jobs.kinds.bots.replying import opened_bots
from refaug.service.jobs.kinds.job_context import JobContext
from refaug.service.jobs.kinds.sources import named_file


def self_play_job(order: PlayConversations, context: JobContext) -> Mapping[str, Any]:
    """Play as `refaug bots play` does; a job that was killed goes on behind the last whole conversation."""
    log = compared_log(context.home, order)
    recorded = context.stages.run("played", lambda: _play(order, context))
    facts = {name: fact for name, fact in recorded.items() if name != "seconds"}
    checks = checks_of(context.home, f"{order.name}@{facts['version']}", log, context.progress)
    return {**facts, **({"checks": [check.as_json() for check in checks]} if checks else {})}


def _play(order: PlayConversations, context: JobContext) -> dict[str, object]:
    file = None if order.start_file is None else named_file(order.start_file, context.home, context.serve)
    with opened_bots(order.bots_named(), context, order.threads) as opened:
        return play_conversations(context.home, order, opened, context.progress, start_file=file)
