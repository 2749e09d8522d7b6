"""Lists in pages: the position a page begins after, its length, and the start of the next page."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Annotated, Any

from fastapi import Query

After = Annotated[str, Query(description="what `next` was on the page before", max_length=200)]
Limit = Annotated[int, Query(description="how many on a page", ge=1, le=200)]


def page_of(
    names: Sequence[str], after: str, limit: int, *, order: Callable[[str], Any] = str
) -> tuple[Sequence[str], str | None]:
    """Return the names of a page of a sorted list, and the last one if more follow.

    The name that a page begins after need not exist any more: its position in the order is enough.
    """
    begin = bisect_right(names, order(after), key=order) if after else 0
    page = names[begin : begin + limit]
    return page, page[-1] if begin + limit < len(names) else None
