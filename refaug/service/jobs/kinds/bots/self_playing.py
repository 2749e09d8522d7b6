"""Jobs in which bots have conversations with themselves or a partner; a version of a self-play comes of it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any, Final

from refaug.bots.selfplay import SelfPlayRules
from refaug.evaluation.selfplay.check import check_self_play
from refaug.evaluation.selfplay.faults import early_end_warnings
from refaug.evaluation.selfplay.order import PlayingBot, SelfPlayOrder
from refaug.evaluation.selfplay.recording import RecordedSelfPlay, record_self_play
from refaug.evaluation.selfplay.starts import SelfPlayStarts, read_starts
from refaug.evaluation.selfplay.stored import open_self_play
from refaug.logs.store import StoredLog
from refaug.service.jobs.kinds.bots.replying import opened_bots
from refaug.service.jobs.kinds.job_context import JobContext
from refaug.service.jobs.kinds.sources import named_file
from refaug.service.jobs.orders.bot_orders import SelfPlayJob
from refaug.service.jobs.orders.job_order import bots_in


def self_play_job(order: SelfPlayJob, context: JobContext) -> Mapping[str, Any]:
    """Play as `refaug selfplay play` does; a job that was killed goes on behind the last whole conversation."""
    log = StoredLog.open(context.home.logs, order.check_log) if order.check_log is not None else None
    recorded = context.stages.run("played", lambda: _facts(order, _play(order, context)))
    facts = {name: fact for name, fact in recorded.items() if name != "seconds"}
    if log is not None:
        with open_self_play(context.home, f"{order.name}@{facts['version']}") as played:
            checks = check_self_play(played, log, scratch=context.home.cache, progress=context.progress)
        facts["checks"] = [check.as_json() for check in checks]
    return facts


def _play(order: SelfPlayJob, context: JobContext) -> RecordedSelfPlay:
    with opened_bots(bots_in(order), context, order.threads) as opened, closing(_starts(order, context)) as starts:
        for bot in opened:
            for warning in bot.replier.warnings:
                context.progress.warn(f"{bot.name}: {warning}")
        playing = [PlayingBot(name=bot.name, replier=bot.replier) for bot in opened]
        recorded = record_self_play(
            context.home,
            order.name,
            SelfPlayOrder(
                bots=playing[: len(order.bots)],
                partner=playing[-1] if order.partner is not None else None,
                start=order.start,
                starts=starts,
                rules=SelfPlayRules(
                    turns=order.turns, context=order.context, published=order.rules == "published", seed=order.seed
                ),
            ),
            batch=order.batch,
            retries_faults=order.retry,
            progress=context.progress,
        )
    for warning in early_end_warnings(recorded.problems, recorded.silent):
        context.progress.warn(warning)
    return recorded


def _starts(order: SelfPlayJob, context: JobContext) -> SelfPlayStarts:
    if order.start_file is None:
        return read_starts(context.home, order.start, order.conversations, order.seed)
    file = named_file(order.start_file, context.home, context.serve)
    return read_starts(context.home, order.start, order.conversations, order.seed, file=file.path, shown_name=file.name)


def _facts(order: SelfPlayJob, recorded: RecordedSelfPlay) -> dict[str, Any]:
    return {
        "self_play": order.name,
        "version": recorded.version,
        "conversations": len(order.bots) * order.conversations,
        "resumed_at": recorded.resumed_at,
        "played_again": recorded.played_again,
        "problems": {name: dict(reasons) for name, reasons in recorded.problems.items()},
        "silent": list(recorded.silent),
        "latency": {name: dict(figures) if figures else None for name, figures in recorded.latency.items()},
    }


JOB_FUNCTIONS: Final = {"self-play": self_play_job}
