"""Requests to a chat endpoint, and its answers, independent of the vendor."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message; the role is system, user or assistant."""

    role: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """What an endpoint is sent.

    `draw` tells requests apart that are equal otherwise, so that each has an answer: samples, and repetitions.
    """

    messages: tuple[ChatMessage, ...]
    max_tokens: int
    temperature: float = 0.0
    seed: int | None = None
    top_logprobs: int = 0  # alternatives of each token, with their log-probabilities; 0: none
    draw: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerToken:
    """One token of an answer, with what could have stood there instead, itself included."""

    text: str
    logprob: float
    alternatives: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatAnswer:
    """The answer to one request."""

    text: str
    finish: str  # stop, length, content_filter, tool_calls, or what the endpoint calls it
    model: str = ""
    refusal: str = ""  # what the model says instead of an answer, where the endpoint tells it apart
    calls_tools: bool = False
    fingerprint: str = ""  # of the software and weights that answered; empty where the endpoint has none
    prompt_tokens: int | None = None
    answer_tokens: int | None = None
    tokens: tuple[AnswerToken, ...] = ()  # empty where the endpoint gives no log-probabilities
    is_stored: bool = False  # whether it was read from the store
    ms: float | None = field(default=None, compare=False)  # from sending the try that succeeded to the whole answer

    def as_json(self) -> dict[str, Any]:
        """Return the answer as it is stored."""
        return {
            "text": self.text,
            "finish": self.finish,
            "model": self.model,
            "refusal": self.refusal,
            "calls_tools": self.calls_tools,
            "fingerprint": self.fingerprint,
            "prompt_tokens": self.prompt_tokens,
            "answer_tokens": self.answer_tokens,
            "tokens": [[token.text, token.logprob, token.alternatives] for token in self.tokens],
            "ms": self.ms,
        }

    @classmethod
    def of_json(cls, fields: dict[str, Any]) -> ChatAnswer:
        """Return a stored answer."""
        tokens = tuple(
            AnswerToken(
                text=text, logprob=logprob, alternatives=tuple((other, number) for other, number in alternatives)
            )
            for text, logprob, alternatives in fields["tokens"]
        )
        return cls(**{**fields, "tokens": tokens, "is_stored": True})
