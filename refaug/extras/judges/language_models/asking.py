"""What a judge needs to ask its endpoint: stored answers, spending, the report of progress; and one trial question."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from refaug.bots.endpoint.answer_store import AnswerStore
from refaug.bots.endpoint.chat import ChatAnswer, ChatRequest, Fault, shorten
from refaug.bots.endpoint.client import ClientSettings, Outcome, ask_all
from refaug.bots.endpoint.specification import Endpoint
from refaug.bots.endpoint.spending import DailySpending, DailyTokens, Spending
from refaug.core.progress import Progress, Silent
from refaug.extras.judges.language_models.answer_reading import read_ratings
from refaug.extras.judges.language_models.rubric import Rubric, reply_messages
from refaug.extras.judges.metrics.judged_replies import JudgeQuestion
from refaug.metrics.base import Problem

_IN_VAIN: Final = 20  # questions in a row that another version answers: the one that counts is gone


@dataclass(kw_only=True)
class Asking:
    """An endpoint with everything that goes with asking it; one for a command."""

    endpoint: Endpoint
    answers: Path | None = None  # the file of stored answers; None: none are stored
    client: ClientSettings = field(default_factory=ClientSettings)
    progress: Progress = field(default_factory=Silent)
    days: DailyTokens | None = None  # the limit of a server
    version: str = ""  # of the model with its fingerprint: answers of another one are not stored; empty: of any

    def __post_init__(self) -> None:
        price, budget = self.endpoint.price, self.endpoint.budget
        self.spending = Spending(price, budget) if self.days is None else DailySpending(self.days, price, budget)
        self.faults = Counter[str]()  # the messages of requests without an answer

    def ask(self, requests: Sequence[ChatRequest]) -> list[Outcome]:
        """Return an outcome for each request, in order."""
        self.progress.stage(f"ask {self.endpoint.name}", len(set(requests)), "questions")
        outcomes = self._of_version(requests, self._ask(requests, None))
        self.faults.update(outcome.message for outcome in outcomes if isinstance(outcome, Fault))
        return outcomes

    def _of_version(self, requests: Sequence[ChatRequest], outcomes: list[Outcome]) -> list[Outcome]:
        """Ask again what another version answered, as long as the one that counts still answers."""

        def others() -> list[int]:
            answers = ((place, outcome) for place, outcome in enumerate(outcomes) if isinstance(outcome, ChatAnswer))
            return [place for place, answer in answers if self.version not in ("", answer.version)]

        places, in_vain = others(), 0
        while places and in_vain < _IN_VAIN:
            before = len(places)
            for place, outcome in zip(places, self._ask([requests[place] for place in places], None), strict=True):
                outcomes[place] = outcome
            places = others()
            in_vain = in_vain + before if len(places) == before else 0
        return outcomes

    def _ask(self, requests: Sequence[ChatRequest], store: AnswerStore | None) -> list[Outcome]:
        if store is None and self.answers is not None:
            with AnswerStore(self.answers, only=self.version) as opened:
                return self._ask(requests, opened)
        return ask_all(
            self.endpoint,
            requests,
            settings=self.client,
            store=store,
            spending=self.spending,
            on_outcome=lambda _: self.progress.advance(1),
            on_tick=lambda: self.progress.advance(0),
        )

    def remarks(self) -> Iterator[str]:
        """Yield what was asked and what it cost, and the commonest fault."""
        yield f"judge {self.endpoint.name}: {self.spending.line}"
        if self.faults:
            message, count = self.faults.most_common(1)[0]
            total = f"{self.faults.total():,} questions without an answer"
            yield f"judge {self.endpoint.name}: {total}; {count:,} times: {message}"


# ── One question to a judge, to see what its endpoint gives ───────────────────────────────────────────────────────────


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
