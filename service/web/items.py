"""Items of a request: read by the parser of test files, within the limits of the server, each fault with its place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal

import orjson
from starlette.concurrency import run_in_threadpool

from core.errors import TooLarge
from core.items import FIELDS, BadItem, parse_item
from core.records import Item
from service.serve_settings import ServeSettings
from service.web.problems import bad_items, field_of

_AT_ONCE: Final = 50  # items that are read in less time than handing them to a thread and back is worth
_FIELDS: Final = frozenset({*FIELDS, "evidence"})  # this is what `POST /v1/references` adds to its items
_UNREAD: Final = 10  # fields that are told by their names
_LONGEST_NAME: Final = 60  # characters of one in a warning
_NO_OBJECT: Final = "an item is an object, with a test pair in it"


@dataclass(frozen=True, kw_only=True)
class ItemsRead:
    """The items of a request in their order, bad ones in their places."""

    listed: list[Item | BadItem]
    warnings: tuple[str, ...] = ()  # of fields that nobody reads, as the command warns of them

    @property
    def good(self) -> list[Item]:
        """Those that can be used."""
        return [one for one in self.listed if isinstance(one, Item)]

    @property
    def bad(self) -> list[BadItem]:
        """Those that cannot."""
        return [one for one in self.listed if isinstance(one, BadItem)]

    def problems(self) -> list[dict[str, Any]]:
        """The bad ones as answers list them."""
        return problems_of(self.bad)


def problems_of(bad: Sequence[BadItem]) -> list[dict[str, Any]]:
    """Bad items as answers list them: the shape of the errors of a refused request."""
    return [field_of(one) for one in bad]


async def items_of(
    values: Sequence[Any], serve: ServeSettings, *, on_error: Literal["fail", "report"], some: bool = False
) -> ItemsRead:
    """Read them; BadRequest names every bad one, unless they are to be reported. `some`: there must be a good one."""
    if len(values) > serve.items:
        raise TooLarge(
            f"{len(values):,} items are more than the {serve.items:,} that one request may have",
            remedy="send them in several requests",
        )
    work = partial(_read, values, serve)
    read = work() if len(values) <= _AT_ONCE else await run_in_threadpool(work)
    if read.bad and (on_error == "fail" or (some and not read.good)):
        raise bad_items(read.bad, len(values))
    return read


def _read(values: Sequence[Any], serve: ServeSettings) -> ItemsRead:
    seen, listed, replies = dict[str, int](), list[Item | BadItem](), 0
    for place, value in enumerate(values):
        one = _one(value, place, seen, serve)
        if isinstance(one, Item):
            seen[one.id] = place
            replies += len(one.replies)
        listed.append(one)
    if replies > serve.replies:
        raise TooLarge(
            f"{replies:,} replies are more than the {serve.replies:,} that one request may have",
            remedy="send the items in several requests",
        )
    return ItemsRead(listed=listed, warnings=tuple(_unread(values)))


def _unread(values: Sequence[Any]) -> Iterator[str]:
    """A field that no item has is a slip as often as not: each once, the first ones by name."""
    names = dict.fromkeys(name for value in values if isinstance(value, dict) for name in value if name not in _FIELDS)
    for name in list(names)[:_UNREAD]:
        yield f"field {name[:_LONGEST_NAME]!r} is not used"
    if len(names) > _UNREAD:
        yield f"and {len(names) - _UNREAD:,} more fields are not used"


def _one(value: Any, place: int, seen: Mapping[str, int], serve: ServeSettings) -> Item | BadItem:
    """One item; the line of a bad one is its place, counted from 1."""
    bad = partial(BadItem, file="items", line=place + 1)
    if not isinstance(value, dict):
        return bad(item=None, field="", message=f"{_NO_OBJECT}; {type(value).__name__} was found")
    one = parse_item(value, where="items", line=place + 1, fallback_id=f"item-{place}")
    if isinstance(one, BadItem):
        return one
    if one.id in seen:
        said = f"{one.id!r} is the id of items[{seen[one.id]}]: every item has an id of its own"
        return bad(item=one.id, field="id", message=said)
    if (found := next(_too_much(one, serve), None) or next(_unwritable(one), None)) is not None:
        return bad(item=one.id, field=found[0], message=found[1])
    return one


def _too_much(item: Item, serve: ServeSettings) -> Iterator[tuple[str, str]]:
    """What is larger than the server takes, as field and message."""
    pair = item.pair
    if len(pair.references) > serve.references:
        yield "references", f"{len(pair.references):,} are more than the {serve.references:,} that one item may have"
    for field, text in _texts(item):
        if len(text) > serve.text_chars:
            yield field, f"{len(text):,} characters are more than the {serve.text_chars:,} that one text may have"


def _unwritable(item: Item) -> Iterator[tuple[str, str]]:
    """What came along with a reference, which answers give back, and JSON as others read it cannot hold."""
    for number, one in enumerate(item.pair.references):
        try:
            if one.more:
                orjson.dumps(dict(one.more))
        except orjson.JSONEncodeError as error:
            yield f"references[{number}]", f"it holds what cannot be given back as JSON: {error}"


def _texts(item: Item) -> Iterator[tuple[str, str]]:
    pair = item.pair
    yield "id", pair.id
    several = len(pair.turns) > 1
    yield from ((f"turns[{at}]" if several else "utterance", one) for at, one in enumerate(pair.turns))
    yield from ((f"references[{number}].text", one.text) for number, one in enumerate(pair.references))
    yield from ((f"replies.{system}", text) for system, text in item.replies.items())
    yield "dialogue", pair.dialogue or ""
    yield from ((f"exclude[{number}]", one) for number, one in enumerate(pair.exclude))
