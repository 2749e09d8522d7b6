"""A request as a value: what is sent and how its answer is read, the same for both kinds of client."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Callable, Generic, NoReturn, Optional, TypeVar, Union
from urllib.parse import quote

from refaug_client._core import errors

if TYPE_CHECKING:
    from refaug_client._asyncio import LoopWire
    from refaug_client._threads import ThreadWire

    Wire = Union[LoopWire, ThreadWire]  # the connection of a client, as its methods see it

T = TypeVar("T")
Query = Mapping[str, Union[str, int, float, bool, None]]
_EXCERPT = 200
_DEEPEST = 50  # levels of a body that are searched for what is wrong in it
_ERROR_OF_STATUS: Mapping[int, type[errors.Problem]] = {
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
    """A whole answer of the server."""

    status: int
    headers: Mapping[str, str]
    content: bytes
    request_id: Optional[str] = None

    def json(self) -> dict[str, Any]:
        """Return the JSON object that every answer of refaug is; BadAnswer for anything else."""
        kind = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json" and not kind.endswith("+json"):
            self.refuse(f"an answer of type {kind or 'none at all'}, which is not refaug's: is there a proxy between?")
        try:
            document = json.loads(self.content)
        except (ValueError, RecursionError) as error:
            self.refuse(f"an answer that is not JSON, or not all of it: {error}")
        if not isinstance(document, dict):
            self.refuse(f"an answer that is a JSON {type(document).__name__}, and refaug's are objects")
        return document

    def refuse(self, message: str, *, complete: bool = False) -> NoReturn:
        """Raise BadAnswer: this is no answer of refaug."""
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
        """Seconds after which to try again, where the answer says so."""
        return _parse_retry_after(self.headers.get("retry-after"), self.headers.get("date"))


def read_json(answer: Answer) -> dict[str, Any]:
    """Return the object of an answer, unread."""
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
    repeatable: bool = True  # sending it twice has the same effect as once
    keyed: bool = False  # sent with an Idempotency-Key, which makes it repeatable
    timed: bool = False  # sent with the time the client waits, after which the server stops
    expected: tuple[int, ...] = ()  # statuses from 400 up that are answers, too, as /readyz's 503

    @property
    def may_be_repeated(self) -> bool:
        """Whether it may be sent again when it is unknown whether the server received it."""
        return self.repeatable or self.keyed

    async def through(self, wire: Wire) -> T:
        """Send it by the connection of a client, and return what the server answers."""
        return await wire.send(self)

    def encode_body(self) -> bytes:
        """Return the body as bytes, those of a file as they are; Usage where something else in it is not JSON."""
        if isinstance(self.body, bytes):
            return self.body
        try:
            text = json.dumps(self.body, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_to_plain)
            return text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise errors.Usage(
                f"{self.method} {self.path}: half a surrogate pair in a text{_locate(_has_lone_surrogate, self.body)}",
                remedy="text that can be written as UTF-8",
            ) from error
        except (TypeError, ValueError, RecursionError) as error:
            raise errors.Usage(
                f"{self.method} {self.path}: something in the request is not JSON: {error}"
                f"{_locate(_is_not_json, self.body)}",
                remedy="texts, finite numbers, True, False, None, lists and dicts with text keys",
            ) from error


def path(*parts: str) -> str:
    """Join names to a path, escaped so that a name cannot become two parts."""
    for part in parts:
        if not isinstance(part, str) or not part or part in (".", "..") or _has_lone_surrogate(part):
            raise errors.Usage(f"{part!r} is not a name or id", remedy="a text of at least one character")
    return "/" + "/".join(quote(part, safe="") for part in parts)


def _to_plain(foreign: object) -> object:
    """Return numbers, arrays, columns and iterators of other libraries as plain ones; refuse a set: it has no order."""
    for name in ("tolist", "to_list", "item"):
        if callable(convert := getattr(foreign, name, None)):
            return convert()
    if isinstance(foreign, Mapping):
        return dict(foreign)
    if isinstance(foreign, (bytes, bytearray, memoryview)):
        raise TypeError("bytes, of which nobody knows the encoding")
    if isinstance(foreign, AbstractSet):
        raise TypeError("a set, which has no order")
    if isinstance(foreign, (Sequence, Iterator)):
        return list(foreign)
    raise TypeError(f"{type(foreign).__name__}")


def _has_lone_surrogate(text: object) -> bool:
    return isinstance(text, str) and not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text)


def _is_not_json(node: object) -> bool:
    if node is None or isinstance(node, (str, int)):
        return False
    if isinstance(node, float):
        return not math.isfinite(node)
    return not isinstance(node, (Sequence, Mapping)) or isinstance(node, (bytes, bytearray, memoryview))


def _locate(wrong: Callable[[object], bool], body: object) -> str:
    """Return where in a body something is wrong, as ` (at items[3].id)`; empty where it lies too deep."""
    stack: list[tuple[str, object, int]] = [("", body, 0)]
    while stack:
        place, node, depth = stack.pop()
        if wrong(node):
            return f" (at {place.lstrip('.')})" if place else ""
        inner: list[tuple[str, object, int]] = []
        if isinstance(node, Mapping):
            inner = [(f"{place}.{key!s}", one, depth + 1) for key, one in node.items()]
            if any(wrong(key) for key in node if isinstance(key, str)):
                return f" (a name in {place.lstrip('.') or 'it'})"
        elif isinstance(node, Sequence) and not isinstance(node, (str, bytes, bytearray, memoryview)):
            inner = [(f"{place}[{at}]", one, depth + 1) for at, one in enumerate(node)]
        if depth < _DEEPEST:
            stack += reversed(inner)
    return ""


def read_answer(call: Call[T], answer: Answer) -> T:
    """Return what the answer says, or raise the error that it is."""
    if answer.status >= 400 and answer.status not in call.expected:
        raise error_of(answer)
    if not 200 <= answer.status < 300 and answer.status not in call.expected and answer.status != 304:
        where = answer.headers.get("location", "")
        answer.refuse(f"it leads elsewhere ({where[:_EXCERPT]})" if where else "refaug has no such status")
    try:
        return call.read(answer)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        answer.refuse(
            f"an answer that is not what {call.method} {call.path} answers ({type(error).__name__}: {error})",
            complete=True,
        )


def error_of(answer: Answer) -> errors.RefaugError:
    """Return the error that an answer is."""
    try:
        document = answer.json()
    except errors.BadAnswer as error:
        return error
    detail, code = document.get("detail"), document.get("code")
    if not isinstance(detail, str) or not isinstance(code, str):
        try:
            answer.refuse("an error that is not refaug's: is there a proxy between?")
        except errors.BadAnswer as error:
            return error
    kind = _ERROR_OF_STATUS.get(answer.status) or (errors.BadInput if answer.status < 500 else errors.ServerFault)
    facts: dict[str, Any] = {
        "problem": document,
        "status": answer.status,
        "request_id": str(document.get("request_id") or answer.request_id or "") or None,
        "remedy": _remedy(document),
    }
    if issubclass(kind, errors.Later):
        facts["retry_after_s"] = answer.retry_after_s
    return kind(detail, **facts)


def _remedy(problem: Mapping[str, Any]) -> str:
    remedy = problem.get("remedy")
    return remedy if isinstance(remedy, str) else ""


def _parse_retry_after(retry_after: Optional[str], date: Optional[str]) -> Optional[float]:
    """Return Retry-After in seconds: a number, or a date, as some proxies send it, beside the answer's date."""
    if retry_after is None:
        return None
    if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", retry_after.strip(), re.ASCII):
        return float(retry_after)
    when = _parse_date(retry_after)
    if when is None:
        return None
    answered_at = _parse_date(date) if date is not None else None
    return max(0.0, when - (time.time() if answered_at is None else answered_at))


def _parse_date(date: str) -> Optional[float]:
    from email.utils import parsedate_to_datetime  # noqa: PLC0415  for few answers only

    try:
        return parsedate_to_datetime(date).timestamp()
    except (TypeError, ValueError, IndexError, OverflowError):  # what it raises differs between versions of Python
        return None
