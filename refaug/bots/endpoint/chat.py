"""Requests to a chat endpoint, and its answers, independent of the vendor."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

import orjson


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

    @property
    def version(self) -> str:
        """The model with its fingerprint."""
        return f"{self.model} {self.fingerprint}".strip()

    def as_json(self) -> dict[str, Any]:
        """Return the answer as it is stored."""
        content = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "is_stored"}
        return {**content, "tokens": [[token.text, token.logprob, token.alternatives] for token in self.tokens]}

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


# ── Why an endpoint gave no answer: a kind that programs rely on, and a message for people ────────────────────────────


class FaultKind(StrEnum):
    """What went wrong with a request."""

    TIMEOUT = "timeout"  # no complete answer in time
    CONNECTION = "connection"  # nothing listens, or the name is unknown
    CUT_OFF = "cut_off"  # the answer ended early
    RATE_LIMITED = "rate_limited"  # 429, for longer than we wait
    SERVER = "server"  # 5xx
    NOT_JSON = "not_json"  # HTML, or anything else
    WRONG_SHAPE = "wrong_shape"  # JSON without the fields of an answer
    TOO_LARGE = "too_large"
    REDIRECT = "redirect"  # redirects are never followed
    ADDRESS = "address"  # a host or an address that is not allowed
    NO_ACCESS = "no_access"  # 401, 402, 403, or a quota that is used up
    REJECTED = "rejected"  # another 4xx
    GIVEN_UP = "given_up"  # not sent: the requests before it failed
    OVER_BUDGET = "over_budget"  # not sent: the budget is spent
    NOT_STORED = "not_stored"  # not sent: only stored answers count


# The same request may succeed a moment later; of others, the answer would be the same.
TRANSIENT: Final = frozenset({
    FaultKind.TIMEOUT,
    FaultKind.CONNECTION,
    FaultKind.CUT_OFF,
    FaultKind.RATE_LIMITED,
    FaultKind.SERVER,
    FaultKind.NOT_JSON,
    FaultKind.WRONG_SHAPE,
})  # fmt: skip


# The endpoint had the whole request, and may have answered it and charged for the answer.
CHARGED: Final = frozenset({FaultKind.TIMEOUT, FaultKind.CUT_OFF, FaultKind.WRONG_SHAPE, FaultKind.TOO_LARGE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """The reason why a request has no answer."""

    kind: FaultKind
    message: str
    retry_after_s: float | None = None  # as the endpoint wishes it
    is_of_request: bool = False  # the endpoint works, and does not take this very request

    @property
    def may_have_cost(self) -> bool:
        """Whether the request may have been charged without a usable answer."""
        return self.kind in CHARGED

    @property
    def is_transient(self) -> bool:
        """Whether the same request may succeed later."""
        return self.kind in TRANSIENT


# ── The answers of OpenAI, vLLM, llama.cpp and Ollama to `/v1/chat/completions`, read into one shape ──────────────────
#
# They agree on `choices[0].message.content` and differ elsewhere: a content may be a list of parts; log-probabilities
# come as a list of tokens, or as the parallel lists of older servers; thinking comes in a field beside the content,
# or in front of it between tags; an error is an object, a text, or a message at the top.

# Servers that answer every request with the same word, whatever software and weights are behind it.
_EMPTY_FINGERPRINTS: Final = frozenset({"fp_ollama", "local"})
_THINKING: Final = re.compile(r"\A\s*<(think|thinking|reasoning)>.*?</\1>\s*", re.DOTALL | re.IGNORECASE)
_OPEN_THINKING: Final = re.compile(r"\A\s*<(think|thinking|reasoning)>", re.IGNORECASE)
_SHOWN: Final = 200  # characters of a foreign message
_MOST_TOKENS: Final = 4_096  # with log-probabilities
_MOST_ALTERNATIVES: Final = 20
_OF_REQUEST: Final = frozenset({400, 413, 422})  # a filter, or a length
_NO_QUOTA: Final = frozenset({"insufficient_quota", "billing_hard_limit_reached"})


def read_answer(status: int, content_type: str, content: bytes) -> ChatAnswer | Fault:
    """Return the answer in a response, or the fault that it stands for."""
    return _read(status, content_type, content, _answer, "a chat completion")


def read_turns_answer(status: int, content_type: str, content: bytes) -> ChatAnswer | Fault:
    """Return the answer in a response to turns: an object with a text `reply`, and `usage` where tokens are counted."""
    return _read(status, content_type, content, _turns_answer, '{"reply": "…"}')


def read_echo(status: int, content_type: str, content: bytes) -> ChatAnswer | Fault:
    """Return a text that was given back, with log p of its tokens, in a response of `/v1/completions`."""
    return _read(status, content_type, content, _echo, "a completion")


def _read(
    status: int, content_type: str, content: bytes, answer_of: Callable[[Mapping[str, Any]], ChatAnswer], shape: str
) -> ChatAnswer | Fault:
    try:
        fields = orjson.loads(content)
    except orjson.JSONDecodeError:
        fields = None
    if status != 200:
        return _fault_of_status(status, fields, content)
    if not isinstance(fields, dict):
        return _not_json(content_type, content)
    if fields.get("error"):
        return Fault(kind=FaultKind.SERVER, message=f"status 200 with an error: {_error_text(fields)}")
    try:
        return answer_of(fields)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError):
        return Fault(kind=FaultKind.WRONG_SHAPE, message=f"not the JSON of {shape}: {shorten(content)}")


def shorten(text: str | bytes) -> str:
    """Return the start of a foreign text, in one line."""
    decoded = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    line = "".join(character if character.isprintable() else " " for character in decoded[: 2 * _SHOWN])
    words = " ".join(line.split())
    return words if len(words) <= _SHOWN and len(decoded) <= 2 * _SHOWN else f"{words[:_SHOWN]}…"


# ── Faults ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _not_json(content_type: str, content: bytes) -> Fault:
    if "html" in content_type.lower() or content.lstrip()[:1] == b"<":
        message = f"it answers HTML, not JSON: is the address that of an API, or of a page? {shorten(content)}"
        return Fault(kind=FaultKind.NOT_JSON, message=message)
    return Fault(kind=FaultKind.NOT_JSON, message=f"it does not answer JSON: {shorten(content) or 'nothing at all'}")


def _fault_of_status(status: int, fields: Any, content: bytes) -> Fault:
    text = _error_text(fields) if isinstance(fields, dict) else shorten(content)
    message = f"status {status}" + (f": {text}" if text else "")
    if status in (401, 402, 403) or (status == 429 and _error_code(fields) in _NO_QUOTA):
        return Fault(kind=FaultKind.NO_ACCESS, message=message)
    if status == 429:
        return Fault(kind=FaultKind.RATE_LIMITED, message=message)
    if status in (408, 409, 425) or status >= 500:
        return Fault(kind=FaultKind.SERVER, message=message)
    if 300 <= status < 400:
        return Fault(kind=FaultKind.REDIRECT, message=message)
    kind = FaultKind.REJECTED if 400 <= status < 500 else FaultKind.WRONG_SHAPE
    return Fault(kind=kind, message=message, is_of_request=status in _OF_REQUEST)


def _error_text(fields: Mapping[str, Any]) -> str:
    error = fields.get("error", fields)
    if isinstance(error, dict):
        error = error.get("message") or error.get("detail") or error.get("code") or ""
    return shorten(str(error))


def _error_code(fields: Any) -> str:
    error = fields.get("error") if isinstance(fields, dict) else None
    return str(error.get("code") or error.get("type") or "") if isinstance(error, dict) else ""


# ── Answers ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _answer(fields: Mapping[str, Any]) -> ChatAnswer:
    choice = fields["choices"][0]
    message, usage = choice["message"], fields.get("usage") or {}
    fingerprint = str(fields.get("system_fingerprint") or "")
    return ChatAnswer(
        text=_without_thinking(_text_of(message)),
        finish=str(choice.get("finish_reason") or "stop"),
        model=str(fields.get("model") or ""),
        refusal=str(message.get("refusal") or ""),
        calls_tools=bool(message.get("tool_calls") or message.get("function_call")),
        fingerprint="" if fingerprint in _EMPTY_FINGERPRINTS else fingerprint[:_SHOWN],
        prompt_tokens=_count(usage.get("prompt_tokens")),
        answer_tokens=_count(usage.get("completion_tokens")),
        tokens=_tokens(choice.get("logprobs")),
    )


def _turns_answer(fields: Mapping[str, Any]) -> ChatAnswer:
    reply, usage = fields["reply"], fields.get("usage") or {}
    if not isinstance(reply, str):
        raise TypeError(reply)
    return ChatAnswer(
        text=reply,
        finish="stop",
        prompt_tokens=_count(usage.get("prompt_tokens")),
        answer_tokens=_count(usage.get("completion_tokens")),
    )


def _echo(fields: Mapping[str, Any]) -> ChatAnswer:
    choice = fields["choices"][0]
    return _answer({**fields, "choices": [{**choice, "message": {"content": choice["text"]}}]})


def _text_of(message: Mapping[str, Any]) -> str:
    """Return the content, which may be a text, nothing, or a list of parts."""
    content = message.get("content")
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") if isinstance(part, dict) else str(part) for part in content)
    raise TypeError(content)


def _without_thinking(text: str) -> str:
    """Return the text after its thinking; nothing where the thinking never ends."""
    rest = _THINKING.sub("", text, count=1)
    return "" if rest == text and _OPEN_THINKING.match(text) else rest


def _count(number: Any) -> int | None:
    return number if isinstance(number, int) and not isinstance(number, bool) and 0 <= number < 2**53 else None


def _tokens(logprobs: Any) -> tuple[AnswerToken, ...]:
    """Return the tokens with their alternatives; none where the endpoint gives none, or gives something else."""
    if not isinstance(logprobs, dict):
        return ()
    try:
        if isinstance(logprobs.get("content"), list):
            return tuple(_token(entry) for entry in logprobs["content"][:_MOST_TOKENS])
        if isinstance(logprobs.get("tokens"), list):
            return _older_tokens(logprobs)
    except (KeyError, TypeError, ValueError, AttributeError):
        return ()
    return ()


def _token(entry: Mapping[str, Any]) -> AnswerToken:
    top = (entry.get("top_logprobs") or [])[:_MOST_ALTERNATIVES]
    return AnswerToken(
        text=str(entry["token"]),
        logprob=_logprob(entry["logprob"]),
        alternatives=tuple((str(other["token"]), _logprob(other["logprob"])) for other in top),
    )


def _older_tokens(logprobs: Mapping[str, Any]) -> tuple[AnswerToken, ...]:
    texts, numbers = logprobs["tokens"][:_MOST_TOKENS], logprobs["token_logprobs"][:_MOST_TOKENS]
    tops = (logprobs.get("top_logprobs") or [{}] * len(texts))[:_MOST_TOKENS]
    return tuple(
        AnswerToken(
            text=str(text),
            logprob=_logprob(number),
            alternatives=tuple(
                (str(other), _logprob(p)) for other, p in list((top or {}).items())[:_MOST_ALTERNATIVES]
            ),
        )
        for text, number, top in zip(texts, numbers, tops, strict=True)
    )


def _logprob(number: Any) -> float:
    """Return a log-probability; some servers write minus infinity as -9999 or null."""
    if number is None:
        return -9999.0
    logprob = float(number)
    if math.isnan(logprob) or logprob > 1e-3:
        raise ValueError(number)
    return max(min(logprob, 0.0), -9999.0)
