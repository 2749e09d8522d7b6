"""The settings of a scorer, and the checks of what it is called with."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Optional, Union

from refaug_client._core import errors
from refaug_client._http.settings import ConnectionSettings, Retry

OnUnavailable = Literal["raise", "skip", "last"]
OnFull = Literal["block", "raise", "drop"]

_TRIES = 1_000  # where time is what bounds them


@dataclass(frozen=True)
class ScorerSettings:
    """What `Scorer` is made with, without the connection; picklable."""

    reference_set: str
    metric: Optional[str]
    cache: Union[str, os.PathLike[str], None]
    on_unavailable: OnUnavailable
    max_wait_s: Optional[float]
    batch: int
    queue: int
    on_full: OnFull
    at_once: int
    purpose: Optional[str]
    language: Optional[str]
    percent: bool
    cache_entries: int
    cache_mib: float
    exit_wait_s: float

    def __post_init__(self) -> None:
        """Raise Usage for settings that make no sense."""
        settings = vars(self)
        if not isinstance(self.reference_set, str) or not self.reference_set:
            raise errors.Usage(f"reference_set={self.reference_set!r} is not an id of a set", remedy="a text")
        for name, allowed in (("on_unavailable", ("raise", "skip", "last")), ("on_full", ("block", "raise", "drop"))):
            if settings[name] not in allowed:
                raise errors.Usage(f"{name}={settings[name]!r}", remedy=f"one of {', '.join(allowed)}")
        if self.purpose not in (None, "train", "validation", "test"):
            raise errors.Usage(f"purpose={self.purpose!r}", remedy="one of train, validation, test")
        _require_numbers(settings)
        for name in ("metric", "language"):
            if settings[name] is not None and not (isinstance(settings[name], str) and settings[name]):
                raise errors.Usage(f"{name}={settings[name]!r}", remedy="one text, or None")
        if not isinstance(self.percent, bool):
            raise errors.Usage(f"percent={self.percent!r}", remedy="True or False")
        if self.cache is not None and (not isinstance(self.cache, (str, os.PathLike)) or self.cache == ""):
            raise errors.Usage(f"cache={self.cache!r} is not a path", remedy='"memory", a path, or None')

    @property
    def query(self) -> dict[str, object]:
        """What every request for scores has beside items and replies."""
        fields: dict[str, object] = {"on_error": "report", "return": "values"}
        if self.metric is not None:
            fields["metrics"] = [self.metric]
        if self.language is not None:
            fields["language"] = self.language
        return {**fields, "percent": True} if self.percent else fields


def _require_numbers(settings: Mapping[str, Any]) -> None:
    for name in ("batch", "queue", "at_once", "cache_entries"):
        if type(settings[name]) is not int or settings[name] < 1:
            raise errors.Usage(
                f"{name}={settings[name]!r} is not a number of anything", remedy="a whole number from 1 up"
            )
    for name in ("max_wait_s", "cache_mib", "exit_wait_s"):
        if settings[name] is not None or name != "max_wait_s":
            _require_number(name, settings[name], or_zero=name == "exit_wait_s")


def _require_number(name: str, number: Any, *, or_zero: bool) -> None:
    is_number = isinstance(number, (int, float)) and not isinstance(number, bool) and math.isfinite(number)
    if not is_number or not (number > 0 or (number == 0 and or_zero)):
        raise errors.Usage(f"{name}={number!r} is no such number", remedy="a number above 0")


def require_replies(replies: Iterable[Optional[str]], items: Iterable[str]) -> tuple[list[Optional[str]], list[str]]:
    """Return both as lists; Usage for what cannot be replies and ids of items."""
    for name, argument in (("replies", replies), ("items", items)):
        if isinstance(argument, (str, bytes, Mapping)) or not isinstance(argument, Iterable):
            raise errors.Usage(f"{name} is a {type(argument).__name__}", remedy="a list, with one entry for each reply")
    texts, ids = list(replies), list(items)
    if len(texts) != len(ids):
        raise errors.Usage(f"{len(texts):,} replies and {len(ids):,} items", remedy="one item for each reply")
    if not set(map(type, texts)) <= {str, type(None)}:
        for place, text in enumerate(texts):
            if not isinstance(text, str) and text is not None:
                raise errors.Usage(f"replies[{place}] is a {type(text).__name__}", remedy="a text, or None")
    if not set(map(type, ids)) <= {str}:
        for place, item_id in enumerate(ids):
            if not isinstance(item_id, str):
                raise errors.Usage(
                    f"items[{place}] is a {type(item_id).__name__}", remedy="the item's id as text: str(…)"
                )
    return texts, ids


def retry_until(to: ConnectionSettings, settings: ScorerSettings) -> ConnectionSettings:
    """Return settings that retry until the time is over; a client without retries, or with others, stays so.

    Where nothing limits the time, and errors end the training, it is that of the default, which a server that is
    started again needs.
    """
    has_limit = settings.max_wait_s is not None
    if to.retry.tries == 1 or not (has_limit or (settings.on_unavailable == "raise" and to.retry == Retry())):
        return to
    return replace(to, retry=replace(to.retry, tries=_TRIES, total_s=max(settings.max_wait_s or 0, to.retry.total_s)))
