"""Answers to the questions of a form: which are possible, and which are still missing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from refaug.core.errors import BadInput
from refaug.core.text.name_suggestions import suggestion
from refaug.evaluation.studies.protocol.study_form import StudyForm, StudyQuestion

MOST_ANSWER: Final = 20_000  # characters of a text
MOST_SPANS: Final = 200


def checked_answer(question: StudyQuestion, answer: Any) -> Any:
    """Return a possible answer to a question, None where it is taken back; BadInput says what would be possible."""
    if answer is None:
        return None
    match question.type:
        case "likert" | "slider":
            return _number(question, answer)
        case "choice" | "pair":
            if answer not in question.values:
                raise _bad(question, answer, f"one of: {', '.join(question.values)}")
            return answer
        case "spans":
            return _spans(question, answer)
    if not isinstance(answer, str) or len(answer) > MOST_ANSWER:
        raise _bad(question, answer, f"a text of at most {MOST_ANSWER:,} characters")
    return answer


def checked_answers(form: StudyForm, answers: Mapping[str, Any], scope: Iterable[str]) -> dict[str, object]:
    """Return the answers to questions of these scopes; BadInput names a question that the form does not ask there."""
    scopes = tuple(scope)
    names = [question.id for question in form.questions if question.scope in scopes]
    checked = {}
    for name, answer in answers.items():
        if name not in names:
            raise BadInput(
                f"answers.{name[:80]}: the form has no such question here{suggestion(name[:80], names)}",
                remedy=f"one of: {', '.join(names) or 'none'}",
            )
        checked[name] = checked_answer(form.by_id[name], answer)
    return checked


def missing_answers(questions: Sequence[StudyQuestion], answers: Mapping[str, Any]) -> list[str]:
    """Return the required questions of one place that are shown and have no answer."""
    return [
        question.id
        for question in questions
        if question.required and question.is_shown(answers) and _is_empty(answers.get(question.id))
    ]


def _is_empty(answer: Any) -> bool:
    return answer is None or (isinstance(answer, str) and not answer.strip())


def _number(question: StudyQuestion, answer: Any) -> Any:
    is_number = isinstance(answer, int | float) and not isinstance(answer, bool)
    whole = question.type == "likert"
    if not is_number or not question.least <= answer <= question.most or (whole and answer != int(answer)):
        kind = "a whole number" if whole else "a number"
        raise _bad(question, answer, f"{kind} from {question.least:g} to {question.most:g}")
    return int(answer) if whole else answer


def _spans(question: StudyQuestion, answer: Any) -> list[dict[str, object]]:
    if not isinstance(answer, list) or len(answer) > MOST_SPANS:
        raise _bad(question, answer, f"a list of at most {MOST_SPANS} spans")
    spans = []
    for span in answer:
        is_span = isinstance(span, dict) and set(span) == {"start", "end", "label"}
        bounds = (span["start"], span["end"]) if is_span else (0, 0)
        if not all(type(bound) is int for bound in bounds) or not 0 <= bounds[0] < bounds[1]:
            raise _bad(question, span, '{"start": 0, "end": 5, "label": "…"}, characters from 0')
        if span["label"] not in question.values:
            raise _bad(question, span["label"], f"a label of: {', '.join(question.values)}")
        spans.append(dict(span))
    return spans


def _bad(question: StudyQuestion, answer: Any, remedy: str) -> BadInput:
    return BadInput(f"answers.{question.id}: {str(answer)[:60]!r} is no answer", remedy=remedy)
