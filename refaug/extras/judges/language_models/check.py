"""One question to a judge, to see what its endpoint gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from refaug.bots.endpoint.chat import ChatAnswer, ChatRequest, Fault, shorten
from refaug.extras.judges.language_models.answer_reading import read_ratings
from refaug.extras.judges.language_models.asking import Asking
from refaug.extras.judges.language_models.rubric import Rubric, reply_messages
from refaug.extras.judges.metrics.judged_replies import JudgeQuestion
from refaug.metrics.base import Problem

_QUESTION: Final = JudgeQuestion(turns=("Have you seen my umbrella?",), reply="It is behind the door.")
_MAX_TOKENS: Final = 256


@dataclass(frozen=True, kw_only=True)
class JudgeCheck:
    """What an endpoint gave."""

    answer: ChatAnswer | None
    fault: Fault | None
    rating: float | None
    problem: Problem | None
    expected: float | None  # by probabilities; None where the endpoint gives none

    def as_json(self) -> dict[str, object]:
        """Return what the endpoint gave."""
        answer = self.answer
        return {
            "rating": self.rating,
            "problem": self.problem.code if self.problem else None,
            "expected": self.expected,
            "text": shorten(answer.text) if answer else None,
            "model": answer.model if answer else None,
            "fingerprint": (answer.fingerprint or None) if answer else None,
            "prompt_tokens": answer.prompt_tokens if answer else None,
            "answer_tokens": answer.answer_tokens if answer else None,
        }

    def as_facts(self) -> dict[str, object]:
        """Return the same for people."""
        fields = self.as_json()
        return {
            "rating": fields["rating"] if self.problem is None else self.problem.message,
            "by probabilities": "no log-probabilities" if self.expected is None else f"{self.expected:.4f}",
            "answer": fields["text"],
            "model": fields["model"] or "it does not say",
            "fingerprint": fields["fingerprint"] or "none: scores are not reproducible",
            "tokens": "it does not say"
            if fields["prompt_tokens"] is None
            else f"{fields['prompt_tokens']} in, {fields['answer_tokens']} out",
        }


def check_judge(asking: Asking, rubric: Rubric) -> JudgeCheck:
    """Ask about one reply; the endpoint that refuses to give log-probabilities is asked without."""
    messages = reply_messages(rubric, _QUESTION, is_weighted=False)
    request = ChatRequest(messages=messages, max_tokens=_MAX_TOKENS, seed=1, top_logprobs=20)
    outcome = asking.ask([request])[0]
    if isinstance(outcome, Fault):
        outcome = asking.ask([ChatRequest(messages=messages, max_tokens=_MAX_TOKENS, seed=1)])[0]
    if isinstance(outcome, Fault):
        return JudgeCheck(answer=None, fault=outcome, rating=None, problem=None, expected=None)
    ratings, expected = read_ratings(outcome, rubric), read_ratings(outcome, rubric, is_expected=True)
    return JudgeCheck(
        answer=outcome,
        fault=None,
        rating=None if isinstance(ratings, Problem) else rubric.mean_rating(ratings),
        problem=ratings if isinstance(ratings, Problem) else None,
        expected=None if isinstance(expected, Problem) else rubric.mean_rating(expected),
    )
