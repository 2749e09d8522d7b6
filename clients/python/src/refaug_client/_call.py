"""A request as a value: what is sent and how its answer is read, the same for both kinds of client."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Callable, Generic, NoReturn, Optional, TypeVar, Union
from urllib.parse import quote

from . import _errors as errors

T = TypeVar("T")
Query = Mapping[str, Union[str, int, float, bool, None]]

_EXCERPT = 200
_DEEPEST = 50  # levels of a body that are looked through for what is wrong in it
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

    def garbled(self, message: str, *, complete: bool = False) -> NoReturn:
        """Refuse an answer that is not refaug's."""
        raise errors.BadAnswer(
            f"status {self.status}, and {message}",
            excerpt=self.content[:_EXCERPT].decode("utf-8", "replace"),
            content_type=self.headers.get("content-type", ""),
            complete=complete,
            retry_after_s=self.retry_after_s,
            status=self.status,
            request_id=self.request_id,
        )

    @property
    def retry_after_s(self) -> Optional[float]:
        """Seconds after which it is worth to come again, where the answer says so."""
        return _seconds(self.headers.get("retry-after"), self.headers.get("date"))


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
                f"{self.method} {self.path}: half a surrogate pair in a text{_place_of(_is_broken, self.body)}",
                remedy="text that can be written as UTF-8",
            ) from error
        except (TypeError, ValueError, RecursionError) as error:
            raise errors.Usage(
                f"{self.method} {self.path}: something in the request is no JSON: {error}"
                f"{_place_of(_is_no_json, self.body)}",
                remedy="texts, finite numbers, True, False, None, lists and dicts with text keys",
            ) from error


def path(*parts: str) -> str:
    """A path out of names, of which none can become two."""
    for part in parts:
        if not isinstance(part, str) or not part or part in (".", "..") or _is_broken(part):
            raise errors.Usage(f"{part!r} is no name or id", remedy="a text of at least one character")
    return "/" + "/".join(quote(part, safe="") for part in parts)


def _plain(value: object) -> object:
    """Numbers, arrays, columns and iterators of other libraries, as plain ones; nothing whose order is by chance."""
    for name in ("tolist", "to_list", "item"):
        if callable(found := getattr(value, name, None)):
            return found()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        raise TypeError("bytes, of which nobody knows the encoding")
    if isinstance(value, AbstractSet):
        raise TypeError("a set, which has no order")
    if isinstance(value, (Sequence, Iterator)):
        return list(value)
    raise TypeError(f"{type(value).__name__}")


def _is_broken(value: object) -> bool:
    return isinstance(value, str) and not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value)


def _is_no_json(value: object) -> bool:
    if value is None or isinstance(value, (str, int)):
        return False
    if isinstance(value, float):
        return not math.isfinite(value)
    return not isinstance(value, (Sequence, Mapping)) or isinstance(value, (bytes, bytearray, memoryview))


def _place_of(wrong: Callable[[object], bool], body: object) -> str:
    """Where in a body something is wrong, as ` (items[3].id)`; nothing where it is hidden too well."""
    waiting: list[tuple[str, object, int]] = [("", body, 0)]
    while waiting:
        place, value, depth = waiting.pop()
        if wrong(value):
            return f" (at {place.lstrip('.')})" if place else ""
        inner: list[tuple[str, object, int]] = []
        if isinstance(value, Mapping):
            inner = [(f"{place}.{key!s}", one, depth + 1) for key, one in value.items()]
            if any(wrong(key) for key in value if isinstance(key, str)):
                return f" (a name in {place.lstrip('.') or 'it'})"
        elif isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray, memoryview)):
            inner = [(f"{place}[{at}]", one, depth + 1) for at, one in enumerate(value)]
        if depth < _DEEPEST:
            waiting += reversed(inner)
    return ""


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
            f"an answer that is not what {call.method} {call.path} answers ({type(error).__name__}: {error})",
            complete=True,
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
        facts["retry_after_s"] = answer.retry_after_s
    return kind(detail, **facts)


def _remedy(problem: Mapping[str, Any]) -> str:
    remedy = problem.get("remedy")
    return remedy if isinstance(remedy, str) else ""


def _seconds(said: Optional[str], now: Optional[str]) -> Optional[float]:
    """Retry-After in seconds: a number, or a date, as some proxies send it, beside the answer's own date."""
    if said is None:
        return None
    if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", said.strip(), re.ASCII):
        return float(said)
    when = _moment(said)
    if when is None:
        return None
    known = _moment(now) if now is not None else None
    return max(0.0, when - (time.time() if known is None else known))


def _moment(date: str) -> Optional[float]:
    from email.utils import parsedate_to_datetime  # noqa: PLC0415  for few answers only

    try:
        return parsedate_to_datetime(date).timestamp()
    except (TypeError, ValueError, IndexError, OverflowError):  # what it raises differs between versions of Python
        return None
