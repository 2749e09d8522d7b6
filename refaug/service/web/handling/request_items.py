"""Items of a request: parsed like test files, checked against the server's limits, each fault with its place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, Literal

import orjson
from starlette.concurrency import run_in_threadpool

from refaug.core.errors import BadInput, NoGold, TooLarge
from refaug.core.records import Item
from refaug.scoring.cases import NO_GOLD_IN_ITEM
from refaug.scoring.items import BadItem, parse_item
from refaug.service.server_settings import ServeSettings
from refaug.service.web.problems import BadRequest, UnknownField, bad_items_error, field_problem, unknown_item_fields

_MAX_ITEMS_INLINE: Final = 50  # items: parsing fewer takes less time than handing them to a thread
_NOT_AN_OBJECT: Final = "an item is an object, with a test pair in it"


ListedItems = Sequence[Item | BadItem]  # of a request in order, bad ones in their places


def good_items(listed: ListedItems) -> list[Item]:
    """Return the items that can be used."""
    return [one for one in listed if isinstance(one, Item)]


def problems_of(listed: ListedItems) -> list[dict[str, object]]:
    """Return the bad items in the shape of the errors of a refused request."""
    return [field_problem(one) for one in listed if isinstance(one, BadItem)]


@contextmanager
def faults_named(listed: ListedItems, unknown: Sequence[UnknownField]) -> Iterator[None]:
    """Let an error of status 422 name the items without a gold by their places, and the unknown fields."""
    try:
        yield
    except BadInput as error:
        places = {one.id: place for place, one in enumerate(listed) if isinstance(one, Item)}
        errors = [
            {
                "item": name,
                "place": places[name],
                "field": f"items[{places[name]}].references",
                "message": NO_GOLD_IN_ITEM,
            }
            for name in (error.items if isinstance(error, NoGold) else ())
        ]
        raise BadRequest(
            error.message, errors=errors, unknown=unknown, remedy=error.remedy, given_code=error.code
        ) from None


async def parse_items(
    posted_items: Sequence[Any], serve: ServeSettings, *, on_error: Literal["fail", "report"], some: bool = False
) -> tuple[list[Item | BadItem], list[UnknownField]]:
    """Return the items, bad ones in their places, and their unknown fields, which are often typing errors.

    BadRequest names every bad item, unless they are to be reported. `some`: one must be good.
    """
    if len(posted_items) > serve.items:
        raise TooLarge(
            f"{len(posted_items):,} items are more than the {serve.items:,} that one request may have",
            remedy="send them in several requests",
        )
    work = partial(_parse_all, posted_items, serve)
    listed, unknown = work() if len(posted_items) <= _MAX_ITEMS_INLINE else await run_in_threadpool(work)
    bad = [one for one in listed if isinstance(one, BadItem)]
    if bad and (on_error == "fail" or (some and len(bad) == len(listed))):
        raise bad_items_error(bad, len(posted_items), unknown)
    return listed, unknown


def _parse_all(posted_items: Sequence[Any], serve: ServeSettings) -> tuple[list[Item | BadItem], list[UnknownField]]:
    seen, listed, replies = dict[str, int](), list[Item | BadItem](), 0
    for place, posted_item in enumerate(posted_items):
        parsed_item = _parse_one(posted_item, place, seen, serve)
        if isinstance(parsed_item, Item):
            seen[parsed_item.id] = place
            replies += len(parsed_item.replies)
        listed.append(parsed_item)
    if replies > serve.replies:
        raise TooLarge(
            f"{replies:,} replies are more than the {serve.replies:,} that one request may have",
            remedy="send the items in several requests",
        )
    return listed, unknown_item_fields(posted_items)


def _parse_one(posted_item: Any, place: int, seen: Mapping[str, int], serve: ServeSettings) -> Item | BadItem:
    """Parse one item; the line of a bad one is its place, counted from 1."""
    bad = partial(BadItem, file="items", line=place + 1)
    if not isinstance(posted_item, dict):
        return bad(item=None, field="", message=f"{_NOT_AN_OBJECT}; {type(posted_item).__name__} was found")
    parsed_item = parse_item(posted_item, where="items", line=place + 1, fallback_id=f"item-{place}")
    if isinstance(parsed_item, BadItem):
        return parsed_item
    if parsed_item.id in seen:
        message = f"{parsed_item.id!r} is the id of items[{seen[parsed_item.id]}]: every item has an id of its own"
        return bad(item=parsed_item.id, field="id", message=message)
    if (
        problem := next(_oversized_fields(parsed_item, serve), None) or next(_unwritable_fields(parsed_item), None)
    ) is not None:
        return bad(item=parsed_item.id, field=problem[0], message=problem[1])
    return parsed_item


def _oversized_fields(parsed_item: Item, serve: ServeSettings) -> Iterator[tuple[str, str]]:
    """Yield the fields that exceed a limit, each with a message."""
    if len(parsed_item.references) > serve.references:
        yield (
            "references",
            f"{len(parsed_item.references):,} are more than the {serve.references:,} that one item may have",
        )
    for place, text in _texts(parsed_item):
        if len(text) > serve.text_chars:
            yield place, f"{len(text):,} characters are more than the {serve.text_chars:,} that one text may have"


def _unwritable_fields(parsed_item: Item) -> Iterator[tuple[str, str]]:
    """Yield further fields that answers would repeat and JSON cannot hold, each with a message."""
    contents = {f"references[{number}]": one.more for number, one in enumerate(parsed_item.references)}
    for at, content in (*contents.items(), *parsed_item.search_notes.items()):
        try:
            if content:
                orjson.dumps(dict(content) if isinstance(content, Mapping) else content)
        except orjson.JSONEncodeError as error:
            yield at, f"it holds what cannot be given back as JSON: {error}"


def _texts(parsed_item: Item) -> Iterator[tuple[str, str]]:
    yield "id", parsed_item.id
    several = len(parsed_item.turns) > 1
    yield from ((f"turns[{at}]" if several else "utterance", one) for at, one in enumerate(parsed_item.turns))
    yield from ((f"references[{number}].text", one.text) for number, one in enumerate(parsed_item.references))
    yield from ((f"replies.{system}", text) for system, text in parsed_item.replies.items())
    yield "dialogue", parsed_item.dialogue or ""
    yield from ((f"exclude[{number}]", one) for number, one in enumerate(parsed_item.exclude))
