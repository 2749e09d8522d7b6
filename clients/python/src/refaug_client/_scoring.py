"""What a scorer sends, how it reads what comes back, and what it makes of errors."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Callable, Optional, TypeVar, Union

import httpx

from . import _errors as errors
from ._batches import is_too_large
from ._cache import Both, Cache, Kept, Recent, space
from ._call import Answer
from ._connection import Connection, _Sending
from ._settings import Connecting

T = TypeVar("T")

SYSTEM = "model"
_TRIES = 1_000  # where time is what bounds them
_MISSING_PART = 501


class Line(Connection):
    """The connection of one scorer, which ends with it; `again` is told of every try after the first."""

    def __init__(self, to: Connecting, again: Callable[[], None], http: Optional[httpx.Client] = None) -> None:
        super().__init__(to, http)
        self._again = again

    def _tried(self, sending: _Sending[T]) -> T:
        if sending.tried:
            self._again()
        return super()._tried(sending)


@dataclass(frozen=True)
class Facts:
    """What scores are scores of: which set, what for, by which signature."""

    set: str
    purpose: str
    signature: str
    full: str
    space: bytes


@dataclass(frozen=True)
class Answered:
    """What the server says of some replies."""

    facts: Facts
    values: list[Optional[float]]
    corpus: Optional[float]
    unknown: Mapping[int, errors.RefaugError]  # by place: items that the set does not have

    @classmethod
    def of(cls, answer: Answer, asking: Mapping[str, Any], count: int) -> Answered:
        """Read an answer; KeyError, TypeError or ValueError for one that does not fit the question."""
        body = answer.json()
        (one,) = body["scores"]
        found = one["systems"][SYSTEM]
        values = found["values"]
        numbers = [value for value in (*values, found["corpus"]) if value is not None]
        if len(values) != count or not set(map(type, numbers)) <= {float, int} or not all(map(math.isfinite, numbers)):
            raise ValueError(f"{count} finite numbers or nulls are expected in values")
        places = [problem["place"] for problem in body["problems"]]
        if not all(type(place) is int and 0 <= place < count for place in places):
            raise ValueError("problems of replies that were not sent")
        settings = [asking.get(key) for key in ("metrics", "language", "percent")]
        which, signature, full = str(body["set"]["id"]), str(one["signature"]), str(one["signature_full"])
        return cls(
            facts=Facts(
                which, str(body["set"]["purpose"]), signature, full, space(which, settings, one["scale"], full)
            ),
            values=[None if value is None else float(value) for value in values],
            corpus=None if found["corpus"] is None else float(found["corpus"]),
            unknown={problem["place"]: unknown([problem]) for problem in body["problems"]},
        )

    def require_known(self) -> None:
        """BadInput for items that the set does not have."""
        for error in self.unknown.values():
            raise error


def require_known(problems: Sequence[Mapping[str, Any]]) -> None:
    if problems:
        raise unknown(problems)


def unknown(problems: Sequence[Mapping[str, Any]]) -> errors.BadInput:
    document = {"code": "bad_input", "detail": problems[0]["message"], "errors": [dict(one) for one in problems]}
    return errors.BadInput(str(problems[0]["message"]), problem=document, remedy="ids of items of the set")


def is_unavailable(error: errors.RefaugError) -> bool:
    """Whether nobody scored it, though it may well be scored at another time; a key that is refused is a mistake."""
    if isinstance(error, errors.ServerFault):
        return error.status != _MISSING_PART
    if isinstance(error, errors.BadAnswer):  # a proxy's page, half an answer; but not another program's good JSON
        return not error.complete and not is_too_large(error)
    return isinstance(error, (errors.NoAnswer, errors.Later))


def checked(replies: Iterable[Optional[str]], items: Iterable[str]) -> tuple[list[Optional[str]], list[str]]:
    """Both as lists; Usage for what cannot be replies and ids of items."""
    for name, given in (("replies", replies), ("items", items)):
        if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Iterable):
            raise errors.Usage(f"{name} is a {type(given).__name__}", remedy="a list, with one entry for each reply")
    texts, ids = list(replies), list(items)
    if len(texts) != len(ids):
        raise errors.Usage(f"{len(texts):,} replies and {len(ids):,} items", remedy="one item for each reply")
    if not set(map(type, texts)) <= {str, type(None)}:
        for place, text in enumerate(texts):
            if not isinstance(text, str) and text is not None:
                raise errors.Usage(f"replies[{place}] is a {type(text).__name__}", remedy="a text, or None")
    if not set(map(type, ids)) <= {str}:
        for place, one in enumerate(ids):
            if not isinstance(one, str):
                raise errors.Usage(f"items[{place}] is a {type(one).__name__}", remedy="the item's id as text: str(…)")
    return texts, ids


def require_settings(given: Mapping[str, Any]) -> None:
    """Usage for settings that make no sense."""
    if not isinstance(given["reference_set"], str) or not given["reference_set"]:
        raise errors.Usage(f"reference_set={given['reference_set']!r} is no id of a set", remedy="a text")
    for name, allowed in (("on_unavailable", ("raise", "skip", "last")), ("on_full", ("block", "raise", "drop"))):
        if given[name] not in allowed:
            raise errors.Usage(f"{name}={given[name]!r}", remedy=f"one of {', '.join(allowed)}")
    if given["purpose"] not in (None, "train", "validation", "test"):
        raise errors.Usage(f"purpose={given['purpose']!r}", remedy="one of train, validation, test")
    _require_numbers(given)
    for name in ("metric", "language"):
        if given[name] is not None and not (isinstance(given[name], str) and given[name]):
            raise errors.Usage(f"{name}={given[name]!r}", remedy="one text, or None")
    if not isinstance(given["percent"], bool):
        raise errors.Usage(f"percent={given['percent']!r}", remedy="True or False")
    if given["cache"] is not None and (not isinstance(given["cache"], (str, os.PathLike)) or given["cache"] == ""):
        raise errors.Usage(f"cache={given['cache']!r} is no path", remedy='"memory", a path, or None')


def _require_numbers(given: Mapping[str, Any]) -> None:
    for name in ("batch", "queue", "at_once", "cache_entries"):
        if type(given[name]) is not int or given[name] < 1:
            raise errors.Usage(f"{name}={given[name]!r} is no number of anything", remedy="a whole number from 1 up")
    for name in ("max_wait_s", "cache_mib", "exit_wait_s"):
        if given[name] is not None or name != "max_wait_s":
            _require_number(name, given[name], or_none_at_all=name == "exit_wait_s")


def _require_number(name: str, value: object, *, or_none_at_all: bool) -> None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if not is_number or not (value > 0 or (value == 0 and or_none_at_all)):  # type: ignore[operator]
        raise errors.Usage(f"{name}={value!r} is no such number", remedy="a number above 0")


def cache_of(where: Union[str, os.PathLike[str], None], entries: int, mib: float) -> Optional[Cache]:
    if where is None:
        return None
    memory: Recent[bytes] = Recent(entries)
    if where == "memory":
        return memory
    return Both(memory, Kept(where, mib))


def patient(to: Connecting, max_wait_s: Optional[float]) -> Connecting:
    """The same, trying until the time is over, where there is one; a client that never tries again keeps to that."""
    if max_wait_s is None or to.retry.tries == 1:
        return to
    return replace(to, retry=replace(to.retry, tries=_TRIES, total_s=max(max_wait_s, to.retry.total_s)))
