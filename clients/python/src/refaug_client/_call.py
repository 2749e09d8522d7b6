"""A request as a value: what is sent and how its answer is read, the same for both kinds of client."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Callable, Generic, NoReturn, Optional, TypeVar, Union
from urllib.parse import quote

from . import _errors as errors

T = TypeVar("T")
Query = Mapping[str, Union[str, int, float, bool, None]]

_EXCERPT = 200
_OF_STATUS: Mapping[int, type[errors.Problem]] = {
    401: errors.NoKey,
    403: errors.NotAllowed,
    404: errors.NotFound,
    409: errors.Conflict,
    410: errors.Withdrawn,
    429: errors.TooMany,
    503: errors.Unavailable,
}


@dataclass(frozen=True)
class Answer:
    """What came back, whole."""

    status: int
    headers: Mapping[str, str]
    content: bytes
    request_id: Optional[str] = None

    def json(self) -> dict[str, Any]:
        """The JSON object that every answer of refaug is; BadAnswer for anything else."""
        kind = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json" and not kind.endswith("+json"):
            self.garbled(f"an answer of type {kind or 'none at all'}, which is not refaug's: is there a proxy between?")
        try:
            found = json.loads(self.content)
        except (ValueError, RecursionError) as error:
            self.garbled(f"an answer that is no JSON, or not all of it: {error}")
        if not isinstance(found, dict):
            self.garbled(f"an answer that is a JSON {type(found).__name__}, and refaug's are objects")
        return found

    def garbled(self, message: str) -> NoReturn:
        """Refuse an answer that is not refaug's."""
        raise errors.BadAnswer(
            f"status {self.status}, and {message}",
            excerpt=self.content[:_EXCERPT].decode("utf-8", "replace"),
            content_type=self.headers.get("content-type", ""),
            status=self.status,
            request_id=self.request_id,
        )


def as_json(answer: Answer) -> dict[str, Any]:
    """An answer's object, as it is."""
    return answer.json()


@dataclass(frozen=True)
class Call(Generic[T]):
    """One request to the API, and how its answer is read."""

    method: str
    path: str
    read: Callable[[Answer], T]
    query: Query = field(default_factory=dict)
    body: Optional[Any] = None
    headers: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = True  # done twice, it does no more than done once
    keyed: bool = False  # is sent with an Idempotency-Key, which makes it repeatable
    timed: bool = False  # the server is told how long we wait, and stops when that is over
    expected: tuple[int, ...] = ()  # statuses from 400 up that are answers, too, as /readyz's 503

    @property
    def may_be_repeated(self) -> bool:
        """Whether it may be sent again when nobody knows whether it arrived."""
        return self.repeatable or self.keyed

    def said(self) -> bytes:
        """The body as it is sent; Usage where something in it is no JSON."""
        try:
            text = json.dumps(self.body, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_plain)
            return text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise errors.Usage(
                f"half a surrogate pair in a text: {error}", remedy="text that can be written as UTF-8"
            ) from error
        except (TypeError, ValueError, RecursionError) as error:
            raise errors.Usage(
                f"{self.method} {self.path}: something in the request is no JSON: {error}",
                remedy="texts, finite numbers, True, False, None, lists and dicts with text keys",
            ) from error


def path(*parts: str) -> str:
    """A path out of names, of which none can become two."""
    for part in parts:
        if not isinstance(part, str) or not part or part in (".", ".."):
            raise errors.Usage(f"{part!r} is no name or id", remedy="a text of at least one character")
    return "/" + "/".join(quote(part, safe="") for part in parts)


def _plain(value: object) -> object:
    """Numbers and arrays of other libraries, as plain ones."""
    for name in ("tolist", "item"):
        if callable(found := getattr(value, name, None)):
            return found()
    if isinstance(value, (tuple, set, frozenset)) or hasattr(value, "__iter__"):
        return list(value)
    raise TypeError(f"{type(value).__name__} is not JSON serializable")


def understood(call: Call[T], answer: Answer) -> T:
    """What the answer says, or the error that it is."""
    if answer.status >= 400 and answer.status not in call.expected:
        raise _problem(answer)
    if not 200 <= answer.status < 300 and answer.status not in call.expected and answer.status != 304:
        where = answer.headers.get("location", "")
        answer.garbled(f"it leads elsewhere ({where[:_EXCERPT]})" if where else "refaug has no such status")
    try:
        return call.read(answer)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        answer.garbled(
            f"an answer that is not what {call.method} {call.path} answers ({type(error).__name__}: {error})"
        )


def _problem(answer: Answer) -> errors.RefaugError:
    try:
        found = answer.json()
    except errors.BadAnswer as error:
        return error
    detail, code = found.get("detail"), found.get("code")
    if not isinstance(detail, str) or not isinstance(code, str):
        try:
            answer.garbled("an error that is not refaug's: is there a proxy between?")
        except errors.BadAnswer as error:
            return error
    kind = _OF_STATUS.get(answer.status) or (errors.BadInput if answer.status < 500 else errors.ServerFault)
    facts: dict[str, Any] = {
        "problem": found,
        "status": answer.status,
        "request_id": str(found.get("request_id") or answer.request_id or "") or None,
        "remedy": _remedy(found),
    }
    if issubclass(kind, errors.Later):
        facts["retry_after_s"] = _seconds(answer.headers.get("retry-after"))
    return kind(detail, **facts)


def _remedy(problem: Mapping[str, Any]) -> str:
    remedy = problem.get("remedy")
    return remedy if isinstance(remedy, str) else ""


def _seconds(said: Optional[str]) -> Optional[float]:
    """Retry-After in seconds; one that is a date, as some proxies send it, is passed over."""
    return float(said) if said is not None and re.fullmatch(r"\d{1,9}(\.\d{1,9})?", said.strip(), re.ASCII) else None
