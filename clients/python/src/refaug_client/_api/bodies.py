"""The bodies of requests: what the user passes, as plain objects.

What is None is left out of the request, so that the server's own default holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date
from typing import Any, Optional

from refaug_client._api.items import Items, Replies
from refaug_client._api.models.base import Model, shorten
from refaug_client._core.errors import Usage

Body = dict[str, Any]
SYSTEM = "model"  # the name of a single system without a name


def request_body(**fields: Any) -> Body:
    """Return the object that is sent: without what is None; `return_` stands for a name that Python reserves."""
    return {name.rstrip("_"): value for name, value in fields.items() if value is not None}


def to_list(items: Iterable[Any], what: str = "items") -> list[Any]:
    """Return items as a list of plain objects; those that came from the server go back as they are."""
    if isinstance(items, (str, bytes, Mapping)) or not isinstance(items, Iterable):
        raise Usage(f"{what}: {shorten(items)} is not a list of them", remedy=f"{what}=[…], or anything iterable")
    return [one.to_dict() if isinstance(one, Model) else one for one in items]


def to_moment(value: Any) -> Any:
    """Return a moment as ISO 8601, and everything else as it is."""
    return value.isoformat() if isinstance(value, date) else value


def to_dict(settings: Any, what: str = "settings") -> Body:
    """Return settings or an order, with moments as ISO 8601."""
    if not isinstance(settings, Mapping):
        raise Usage(f"{what}: {shorten(settings)} is not a dict", remedy=f'{what}={{…}}, such as {{"k": 5}}')
    return {key: to_moment(value) for key, value in settings.items()}


def pair_with_candidates(pair: Any) -> Any:
    """Return a test pair whose candidates are objects, where they were bare texts."""
    if not isinstance(pair, Mapping) or not isinstance(pair.get("candidates"), (list, tuple)):
        return pair  # the server refuses it with a reason
    return {**pair, "candidates": [{"text": one} if isinstance(one, str) else one for one in pair["candidates"]]}


def with_metrics(body: Body) -> Body:
    """Return a body with one metric, several, or none as a list: the server chooses one that suits the references."""
    metric, metrics = body.pop("metric", None), body.pop("metrics", None)
    if metric is not None and metrics is not None:
        raise Usage(f"metric={metric!r} and metrics={metrics!r}", remedy="one of the two")
    names = metric if metric is not None else metrics
    return body if names is None else {**body, "metrics": [names] if isinstance(names, str) else list(names)}


def by_system(replies: Replies, system: str = SYSTEM) -> dict[str, list[Optional[str]]]:
    """Return replies of one system or of several, by its name."""
    if isinstance(replies, (str, bytes)) or not isinstance(replies, Iterable):
        raise Usage(f"replies: {shorten(replies)} is not a list of them", remedy='replies=["…", …]')
    if not isinstance(replies, Mapping):
        return {system: list(replies)}
    for name, texts in replies.items():
        if isinstance(texts, (str, bytes)):
            raise Usage(f"the replies of {name!r} are a text, not a list", remedy=f'replies={{"{name}": ["…", …]}}')
    return {name: list(texts) for name, texts in replies.items()}


def attach_replies(items: Items, replies: Replies, system: str = SYSTEM) -> list[Any]:
    """Return items with these replies instead of those they have; Usage where there are not as many as items."""
    item_list, replies_by_system = to_list(items), by_system(replies, system)
    for name, texts in replies_by_system.items():
        if len(texts) != len(item_list):
            raise Usage(
                f"{len(texts):,} replies of {name!r} to {len(item_list):,} items", remedy="one for each; or None"
            )
    items_with_replies = []
    for place, test_item in enumerate(item_list):
        if not isinstance(test_item, Mapping):
            raise Usage(f"items[{place}]: {shorten(test_item)} is not an item", remedy='{"utterance": "…", …}')
        item_replies = {name: text for name, texts in replies_by_system.items() if (text := texts[place]) is not None}
        items_with_replies.append({**test_item, "replies": item_replies})
    return items_with_replies
