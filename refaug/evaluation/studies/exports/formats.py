"""The formats in which a study is exported, and the choice among them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any

from refaug.core.errors import Usage
from refaug.evaluation.studies.exclusions import exclusions
from refaug.evaluation.studies.exports.chat_records import chat_records
from refaug.evaluation.studies.exports.dialogue_pairs import dialogue_pairs
from refaug.evaluation.studies.exports.preferences import preference_pairs
from refaug.evaluation.studies.exports.rated_items import rated_conversations, rated_items
from refaug.evaluation.studies.exports.reference_weights import reference_weights
from refaug.evaluation.studies.questions import protocol_questions
from refaug.evaluation.studies.records import StudyTask, task_line, task_order


class ExportFormat(StrEnum):
    """What an export is for."""

    JSONL = "jsonl"  # everything; refaug studies import reads it
    CSV = "csv"  # exchanges, with the columns of neural_chat_web
    ITEMS = "items"  # for refaug meta
    CONVERSATIONS = "conversations"  # for refaug hybrid
    ACUTE = "acute"  # pairs of dialogues
    DPO = "dpo"  # pairs of replies
    WEIGHTS = "weights"  # of references, for refaug sets derive


def export_study(
    tasks: Iterable[StudyTask],
    protocol: Mapping[str, Any] | None,
    form: ExportFormat,
    *,
    question: str | None = None,
    kept_only: bool = False,
    with_pilot: bool = False,
) -> Iterator[bytes]:
    """Yield the bytes of an export; the order of the tasks changes nothing.

    Participants whom the rules of the protocol leave out are in it unless `kept_only`. Tasks of the pilot are in jsonl
    alone, unless `with_pilot`.
    """
    listed = sorted(tasks, key=task_order)
    questions = protocol_questions(protocol, listed)
    if question is not None and form not in {ExportFormat.ITEMS, ExportFormat.DPO, ExportFormat.WEIGHTS}:
        raise Usage(f"question with format {form.value}, which has all questions", remedy="leave it out")
    if form is not ExportFormat.JSONL and not with_pilot:
        listed = [task for task in listed if not task.pilot]
    left_out = exclusions(listed, (protocol or {}).get("exclude") or {}, questions)
    used = left_out.kept(listed) if kept_only else listed
    match form:
        case ExportFormat.JSONL:
            yield from map(task_line, used)
        case ExportFormat.CSV:
            yield from chat_records(used, left_out.reasons)
        case ExportFormat.ITEMS:
            yield from rated_items(used, questions, question)
        case ExportFormat.CONVERSATIONS:
            yield from rated_conversations(used, questions)
        case ExportFormat.ACUTE:
            yield from dialogue_pairs(used)
        case ExportFormat.DPO:
            yield from preference_pairs(used, questions, question)
        case ExportFormat.WEIGHTS:
            yield from reference_weights(used, questions, question)
