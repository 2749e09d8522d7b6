"""The answers of OpenAI, vLLM, llama.cpp and Ollama to `/v1/chat/completions`, read into one shape.

They agree on `choices[0].message.content` and differ elsewhere: a content may be a list of parts; log-probabilities
come as a list of tokens, or as the parallel lists of older servers; thinking comes in a field beside the content, or in
front of it between tags; an error is an object, a text, or a message at the top.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson

from refaug.bots.endpoint.chat import AnswerToken, ChatAnswer
from refaug.bots.endpoint.faults import Fault, FaultKind

# Servers that answer every request with the same word, whatever software and weights are behind it.
_EMPTY_FINGERPRINTS: Final = frozenset({"fp_ollama", "local"})
_THINKING: Final = re.compile(r"\A\s*<(think|thinking|reasoning)>.*?</\1>\s*", re.DOTALL | re.IGNORECASE)
_OPEN_THINKING: Final = re.compile(r"\A\s*<(think|thinking|reasoning)>", re.IGNORECASE)
_SHOWN: Final = 200  # characters of a foreign message
_MOST_TOKENS: Final = 4_096  # with log-probabilities
_MOST_ALTERNATIVES: Final = 20
_NO_QUOTA: Final = frozenset({"insufficient_quota", "billing_hard_limit_reached"})


def read_answer(status: int, content_type: str, content: bytes) -> ChatAnswer | Fault:
    """Return the answer in a response, or the fault that it stands for."""
    return _read(status, content_type, content, _answer, "a chat completion")


def read_turns_answer(status: int, content_type: str, content: bytes) -> ChatAnswer | Fault:
    """Return the answer in a response to turns: an object with a text `reply`, and `usage` where tokens are counted."""
    return _read(status, content_type, content, _turns_answer, '{"reply": "…"}')


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


# ── faults ────────────────────────────────────────────────────────────────────────────────────────────────────────


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
    return Fault(kind=kind, message=message)


def _error_text(fields: Mapping[str, Any]) -> str:
    error = fields.get("error", fields)
    if isinstance(error, dict):
        error = error.get("message") or error.get("detail") or error.get("code") or ""
    return shorten(str(error))


def _error_code(fields: Any) -> str:
    error = fields.get("error") if isinstance(fields, dict) else None
    return str(error.get("code") or error.get("type") or "") if isinstance(error, dict) else ""


# ── answers ───────────────────────────────────────────────────────────────────────────────────────────────────────


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
