"""Weights of references from people's ratings: {"item", "reference", "weight"}, which `refaug sets derive` reads.

The mean of the ratings is mapped from the scale of the question to −1 (bad) to 1 (good), as ΔBLEU does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import fsum

import orjson

from refaug.core.errors import BadInput
from refaug.evaluation.studies.exports.rated_items import chosen_question
from refaug.evaluation.studies.questions import AskedQuestion, main_tasks, rating_rows
from refaug.evaluation.studies.records import StudyKind, StudyTask


def reference_weights(
    tasks: Sequence[StudyTask], questions: Sequence[AskedQuestion], question: str | None
) -> Iterator[bytes]:
    """Yield the weight of every rated reference, a line each, with the number of its ratings."""
    counted = [task for task in main_tasks(tasks) if task.kind is StudyKind.RATE_REFERENCE]
    if not counted:
        raise BadInput("the study rates no references", remedy="a study of kind rate-reference")
    rows = list(rating_rows(counted, questions))
    asked_about = chosen_question(questions, {row.question for row in rows}, question)
    if asked_about.least is None or asked_about.most is None:
        raise BadInput(f"the scale of {asked_about.id} is not known", remedy="--protocol FILE")
    numbers: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        shown = row.task.item or {}
        reference = shown.get("reference")
        if row.question == asked_about.id and isinstance(reference, str):
            numbers.setdefault((str(shown.get("id", row.task.task)), reference), []).append(row.number)
    middle, half = (asked_about.most + asked_about.least) / 2, (asked_about.most - asked_about.least) / 2
    for (item_id, reference), own in numbers.items():
        weight = (fsum(own) / len(own) - middle) / half
        line = {"item": item_id, "reference": reference, "weight": round(weight, 12), "ratings": len(own)}
        yield orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)
