"""Jobs about conversations: bots that play, and what people said of what they played."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any, Final

import orjson

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.errors import Usage
from refaug.extras.conversations.hybrids import HybridOrder, fit_hybrid
from refaug.extras.conversations.judged import JudgedConversations, TurnJudges, judge_turns, require_target
from refaug.extras.conversations.operations import FitHybrid, JudgeConversations, PlayConversations
from refaug.extras.conversations.options import ConversationSource, EncoderRequest
from refaug.extras.conversations.selfplay.recording import checks_of, compared_log, play_conversations
from refaug.extras.conversations.talks import read_talks
from refaug.scoring.item_files import InputFile
from refaug.scoring.metric_setup.metric_requests import refuse_judge
from refaug.service.evaluations.uploads import MAX_NAME_CHARS, PREFIX, UploadFormat, UploadStore
from refaug.service.jobs.kinds.job_context import JobContext
from refaug.service.jobs.kinds.replying import opened_bots
from refaug.service.jobs.kinds.result_files import job_models
from refaug.service.jobs.kinds.sources import named_file, require_source, resolve_metric_files


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


_ANONYMOUS: Final = "anonymous"


def judge_conversations_job(order: JudgeConversations, context: JobContext) -> Mapping[str, Any]:
    """Judge as `refaug judge conversations` does; return the figures of bots, and where the scores of replies are."""
    judges = turn_judges(order, context)
    file = source_file(order, context)
    talks = read_talks(context.home, order, file, context.progress)
    require_target(talks, order.target)
    judged = JudgedConversations(
        conversations=talks, judged=judge_turns(context.home, talks, judges, context.progress), target=order.target
    ).as_json()
    rows = judged.pop("conversations")
    context.progress.stage("store")
    stored = UploadStore(context.home, context.serve).add(
        context.job,
        _file_name(order, file.name if file is not None else (order.self_play or "").partition("@")[0]),
        UploadFormat.JSONL,
        order.owner or _ANONYMOUS,
        _lines(rows),
    )
    return {"upload": f"{PREFIX}{context.job}", "file": stored.name, "conversations": len(talks), **judged}


def turn_judges(order: JudgeConversations | FitHybrid, context: JobContext) -> TurnJudges:
    """Return the metrics of turns of an order, with their models; Usage where one is missing."""
    refuse_judge(order.require_models(context.home, order.metrics))
    models = job_models(context, order, context.threads(order.threads))
    return order.judges(models, resolve_metric_files(order.metrics, context.home, context.serve))


def source_file(source: ConversationSource, context: JobContext) -> InputFile | None:
    """Return the file of the conversations; None for a self-play."""
    return None if source.self_play is not None else named_file(source.conversations, context.home, context.serve)


def _lines(rows: list[dict[str, Any]]) -> Iterator[bytes]:
    for row in rows:
        yield orjson.dumps(row) + b"\n"


def _file_name(order: JudgeConversations, source_name: str) -> str:
    name = order.name or f"{PurePath(source_name).name.split('.')[0][:150] or 'conversations'}-scores.jsonl"
    if not name.strip() or not name.isprintable() or len(name) > MAX_NAME_CHARS:
        raise Usage(
            f"{name[:60]!r} is not a name for a file", remedy=f"printable, from 1 to {MAX_NAME_CHARS} characters"
        )
    return name


def hybrid_fit_job(order: FitHybrid, context: JobContext) -> Mapping[str, Any]:
    """Fit and publish what `refaug train hybrid` does, and return the version with its figures."""
    judges = turn_judges(order, context) if order.metrics else None
    fitted_to, encoders = source_file(order, context), _encoders(order, context)

    def fit() -> dict[str, Any]:
        talks = read_talks(context.home, order, fitted_to, context.progress)
        hybrid_order = HybridOrder(encoders=encoders, settings=order, judges=judges, columns=order.columns)
        fitted = fit_hybrid(context.home, order.name, talks, hybrid_order, context.progress)
        return {"hybrid": order.name, "version": fitted.version, "report": dict(fitted.report)}

    facts = context.stages.run("fitted", fit)
    return {name: fact for name, fact in facts.items() if name != "seconds"}


def _encoders(order: FitHybrid, context: JobContext) -> EncoderRequest:
    """Return the encoders, vectors with their version; NotAllowed for files that jobs may not read."""
    if "/" in order.vectors:
        vectors = str(require_source(order.vectors, context.home, context.serve))
    else:
        vectors = "@".join(artefact_stores(context.home)["vectors"].resolve(order.vectors))
    return EncoderRequest(
        vectors=vectors, sentiment=_allowed(order.sentiment, context), meaning=_allowed(order.meaning, context)
    )


def _allowed(encoder: str, context: JobContext) -> str:
    kind, colon, path = encoder.partition(":")
    return f"{kind}:{require_source(path, context.home, context.serve)}" if colon else encoder
