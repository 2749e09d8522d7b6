"""Jobs in which conversations are judged turn by turn; the scores of every reply become an upload."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any, Final

import orjson

from refaug.core.errors import Usage
from refaug.evaluation.conversations.judged import JudgedConversations, require_target
from refaug.evaluation.conversations.played import played_conversations
from refaug.evaluation.conversations.records import Conversation
from refaug.evaluation.conversations.table_rows import ConversationColumns
from refaug.evaluation.conversations.talks import usable_talks, without_bots
from refaug.evaluation.conversations.turn_scores import TurnJudges, judge_turns
from refaug.service.evaluations.uploads import MAX_NAME_CHARS, PREFIX, UploadFormat, UploadStore
from refaug.service.jobs.kinds.job_context import JobContext
from refaug.service.jobs.kinds.named_models import job_models, require_order_models
from refaug.service.jobs.kinds.sources import named_file, resolve_metric_files
from refaug.service.jobs.orders.conversation_orders import HybridFitJob, JudgeConversationsJob

_ANONYMOUS: Final = "anonymous"


def judge_conversations_job(order: JudgeConversationsJob, context: JobContext) -> Mapping[str, Any]:
    """Judge as `refaug conversations judge` does; return the figures of bots, and where the scores of replies are."""
    require_order_models(order, context.home)
    judges = turn_judges(order, context)
    talks, source_name = _talks(order, context)
    require_target(talks, order.target)
    judged = JudgedConversations(
        conversations=talks, judged=judge_turns(context.home, talks, judges, context.progress), target=order.target
    ).as_json()
    rows = judged.pop("conversations")
    context.progress.stage("store")
    stored = UploadStore(context.home, context.serve).add(
        context.job, _file_name(order, source_name), UploadFormat.JSONL, order.owner or _ANONYMOUS, _lines(rows)
    )
    return {"upload": f"{PREFIX}{context.job}", "file": stored.name, "conversations": len(talks), **judged}


def turn_judges(order: JudgeConversationsJob | HybridFitJob, context: JobContext) -> TurnJudges:
    """Return the metrics of turns that an order names, with their models and references."""
    return TurnJudges(
        metrics=resolve_metric_files(order.metrics, context.home, context.serve),
        models=job_models(context, order, context.threads(order.threads)),
        index=order.index,
        references=order.reference_settings,
    )


def _talks(order: JudgeConversationsJob, context: JobContext) -> tuple[list[Conversation], str]:
    """Return the conversations, and what their file is called."""
    if order.self_play is not None:
        talks = played_conversations(context.home, order.self_play, context.progress)
        return without_bots(talks, order.without), order.self_play.partition("@")[0]
    file = named_file(order.conversations, context.home, context.serve)
    columns = ConversationColumns.parse(order.map, order.scale, order.encoding)
    talks = usable_talks(file.path, file.name, columns, context.progress, bot=order.bot)
    return without_bots(talks, order.without), file.name


def _lines(rows: list[dict[str, Any]]) -> Iterator[bytes]:
    for row in rows:
        yield orjson.dumps(row) + b"\n"


def _file_name(order: JudgeConversationsJob, source_name: str) -> str:
    name = order.name or f"{PurePath(source_name).name.split('.')[0][:150] or 'conversations'}-scores.jsonl"
    if not name.strip() or not name.isprintable() or len(name) > MAX_NAME_CHARS:
        raise Usage(f"{name[:60]!r} is no name for a file", remedy=f"printable, from 1 to {MAX_NAME_CHARS} characters")
    return name


JOB_FUNCTIONS: Final = {"judge-conversations": judge_conversations_job}
