"""What an answer of a judge says: ratings on the scale, or why there are none.

Answers are read strictly. A number in the middle of a sentence is no rating: it may be a number of reasons. An answer
that is no rating is counted by its reason, and never stands for a low rating.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Final

import orjson

from refaug.bots.endpoint.chat import AnswerToken, ChatAnswer
from refaug.extras.judges.language_models.rubric import REASON, Rubric
from refaug.metrics.base import Problem

REFUSED: Final = Problem("judge_refused", "the judge refused to answer")
NONSENSE: Final = Problem("judge_nonsense", "the judge answered something else than the form that was asked for")
OFF_SCALE: Final = Problem("judge_off_scale", "the judge answered a number that is not on the scale")
TRUNCATED: Final = Problem("judge_truncated", "the judge's answer was cut off by the limit of its tokens")
EMPTY: Final = Problem("judge_empty", "the judge answered nothing")
TOOL_CALL: Final = Problem("judge_tool_call", "the judge called a tool instead of answering")
NO_PROBABILITIES: Final = Problem(
    "judge_no_probabilities", "the endpoint gave no usable log-probabilities of the number, which score=expected needs"
)
TIE: Final = "tie"
_CHOICES: Final[Mapping[str, str]] = {"a": "A", "b": "B", "tie": TIE}
_FENCE: Final = re.compile(r"\A```(?:json)?\s*\n(.*?)\n?```\Z", re.DOTALL | re.IGNORECASE)
_NUMBER: Final = re.compile(r"\A[+-]?\d{1,6}(?:\.\d{1,6})?\Z")
_SORRY: Final = re.compile(
    r"\A\W*(?:i['’]?m (?:sorry|afraid|unable|not able)|i am (?:sorry|unable|not able)|i can(?:no|['’])t"
    r"|i won['’]t|i must decline|sorry\b|as an ai\b|i do not feel comfortable)",
    re.IGNORECASE,
)
_LEAST_MASS: Final = 0.5  # of the probability, on numbers of the scale

Ratings = Mapping[str, float]  # by the name of the criterion


def read_ratings(answer: ChatAnswer, rubric: Rubric, *, is_expected: bool = False) -> Ratings | Problem:
    """Return a rating for every criterion of the rubric, or why there are none.

    With `is_expected`, a rating is the mean of all numbers that could have stood in its place, by their probabilities.
    """
    ratings = _number(answer.text, rubric) if rubric.answer == "number" else _object(answer.text, rubric)
    if ratings is None:
        return reason_of(answer)
    if any(rating != int(rating) or not rubric.low <= rating <= rubric.high for rating in ratings.values()):
        return OFF_SCALE
    return _expected(answer.tokens, ratings, rubric) if is_expected else ratings


def read_reason(answer: ChatAnswer) -> str | None:
    """Return the reason that an answer gives, or None."""
    reason = (_json_object(answer.text) or {}).get(REASON)
    return reason.strip() or None if isinstance(reason, str) else None


def read_choice(answer: ChatAnswer) -> str | Problem:
    """Return A, B or tie, or why there is no choice."""
    fields = _json_object(answer.text)
    choice = fields.get("better") if fields is not None else None
    if isinstance(choice, str) and choice.strip().lower() in _CHOICES:
        return _CHOICES[choice.strip().lower()]
    return reason_of(answer)


def reason_of(answer: ChatAnswer) -> Problem:
    """Return why an answer says nothing usable."""
    text = answer.text.strip()
    if answer.refusal or answer.finish == "content_filter" or _SORRY.match(text):
        return REFUSED
    if answer.finish == "length":
        return TRUNCATED
    if answer.calls_tools:
        return TOOL_CALL
    return NONSENSE if text else EMPTY


def _number(text: str, rubric: Rubric) -> Ratings | None:
    match = _NUMBER.fullmatch(text.strip().removesuffix("."))
    return None if match is None else {rubric.criteria[0].name: float(match[0])}


def _object(text: str, rubric: Rubric) -> Ratings | None:
    fields = _json_object(text)
    if fields is None:
        return None
    ratings = {criterion.name: fields.get(criterion.name) for criterion in rubric.criteria}
    if any(isinstance(rating, bool) or not isinstance(rating, int | float) for rating in ratings.values()):
        return None
    return {name: float(rating) for name, rating in ratings.items() if rating is not None}


def _json_object(text: str) -> Mapping[str, Any] | None:
    stripped = text.strip()
    fenced = _FENCE.match(stripped)
    try:
        fields = orjson.loads(fenced[1] if fenced else stripped)
    except orjson.JSONDecodeError:
        return None
    return fields if isinstance(fields, dict) else None


# ── Probabilities ─────────────────────────────────────────────────────────────────────────────────────────────────


def _expected(tokens: tuple[AnswerToken, ...], ratings: Ratings, rubric: Rubric) -> Ratings | Problem:
    expected = dict[str, float]()
    text = "".join(token.text for token in tokens)
    for name, rating in ratings.items():
        place = _place_of_number(text, None if rubric.answer == "number" else name)
        token = _token_at(tokens, place) if place is not None else None
        mean = _mean(token, rubric) if token is not None and token.text.strip() == str(int(rating)) else None
        if mean is None:
            return NO_PROBABILITIES
        expected[name] = mean
    return expected


def _place_of_number(text: str, name: str | None) -> int | None:
    """Return where the number of a criterion begins, the last time that it stands in the text."""
    pattern = r"(-?\d+)\W*\Z" if name is None else rf'"{re.escape(name)}"\s*:\s*(-?\d+)'
    places = [match.start(1) for match in re.finditer(pattern, text)]
    return places[-1] if places else None


def _token_at(tokens: tuple[AnswerToken, ...], place: int) -> AnswerToken | None:
    end = 0
    for token in tokens:
        end += len(token.text)
        if place < end:
            return token
    return None


def _mean(token: AnswerToken, rubric: Rubric) -> float | None:
    """Return the mean of the numbers of the scale by their probabilities; None where these are too little of all."""
    logprobs = dict([(token.text, token.logprob), *token.alternatives])
    masses = dict[int, float]()
    for text, logprob in logprobs.items():
        digits = text.strip()
        if digits.isascii() and digits.isdigit() and rubric.low <= int(digits) <= rubric.high:
            masses[int(digits)] = masses.get(int(digits), 0.0) + math.exp(logprob)
    total = math.fsum(masses.values())
    if total < _LEAST_MASS:
        return None
    return math.fsum(number * mass for number, mass in sorted(masses.items())) / total
