"""Jobs in which conversations are judged turn by turn; the scores of every reply become an upload."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any, Final

import orjson

from refaug.core.errors import Usage
from refaug.extras.conversations.judged import JudgedConversations, TurnJudges, judge_turns, require_target
from refaug.extras.conversations.operations.fit_hybrid import FitHybrid
from refaug.extras.conversations.operations.judge_conversations import JudgeConversations
from refaug.extras.conversations.options.conversation_source import ConversationSource
from refaug.extras.conversations.talks import read_talks
from refaug.scoring.item_files.item_files import InputFile
from refaug.scoring.metric_setup.metric_requests import refuse_judge
from refaug.service.evaluations.uploads import MAX_NAME_CHARS, PREFIX, UploadFormat, UploadStore
from refaug.service.jobs.kinds.job_context import JobContext
from refaug.service.jobs.kinds.result_files import job_models
from refaug.service.jobs.kinds.sources import named_file, resolve_metric_files

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
        raise Usage(f"{name[:60]!r} is no name for a file", remedy=f"printable, from 1 to {MAX_NAME_CHARS} characters")
    return name
