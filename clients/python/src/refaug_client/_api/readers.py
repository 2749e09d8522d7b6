"""The readers of answers: from JSON to results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Callable, Optional, TypeVar

from refaug_client._api.models.base import Model, Rows
from refaug_client._api.models.scores import Scores
from refaug_client._http.call import Answer, Call

if TYPE_CHECKING:
    from refaug_client._http.call import Wire


M = TypeVar("M", bound=Model)
PAGE = 200  # rows of a page: the most that the server gives at once


def read_model(model: type[M]) -> Callable[[Answer], M]:
    """Return a reader of an answer that is one object."""
    return lambda answer: model.of(answer.json())


def read_page(model: type[M], key: str) -> Callable[[Answer], Rows[M]]:
    """Return a reader of an answer that is a page of objects."""

    def read(answer: Answer) -> Rows[M]:
        document = answer.json()
        following = document.get("next")
        if following is not None and not isinstance(following, str):
            raise TypeError("next is not a text")
        return Rows([model.of(one) for one in document[key]], following)

    return read


@dataclass(frozen=True)
class ListingCall(Call[Rows[M]]):
    """A call for objects from `after` on, of which all pages are read, or as many as the first `limit` objects fill."""

    after: Optional[str] = None
    limit: Optional[int] = None

    async def through(self, wire: Wire) -> Rows[M]:
        """Return the rows of all pages, at most `limit` rows."""
        limit, rows = self.limit, Rows[M]([], self.after)
        while limit is None or len(rows) < limit:
            size = PAGE if limit is None else min(PAGE, limit - len(rows))
            page = await wire.send(replace(self, query={**self.query, "after": rows.next, "limit": size}))
            rows.extend(page)
            rows.next = page.next
            if page.next is None:
                break
        return rows


def listing(
    route: str,
    model: type[M],
    key: str,
    *,
    after: Optional[str],
    limit: Optional[int],
    **filters: Optional[str],
) -> ListingCall[M]:
    """Return the call for a list of objects."""
    return ListingCall(
        "GET", route, read_page(model, key), query={**filters, "after": after, "limit": limit}, after=after, limit=limit
    )


def read_bytes(answer: Answer) -> bytes:
    """Return an answer as it is."""
    return answer.content


def read_nothing(key: str) -> Callable[[Answer], None]:
    """Return a reader of an answer that says nothing new, and is refaug's where it has this key."""

    def read(answer: Answer) -> None:
        answer.json()[key]

    return read


def read_scores(specifications: Optional[Sequence[str]]) -> Callable[[Answer], Scores]:
    """Return a reader of scores; `specifications` are the metrics as the request names them."""

    def read(answer: Answer) -> Scores:
        scores = Scores.of(answer.json())
        if not scores.scores and scores.stats is None:
            raise KeyError("neither scores nor stats")
        scores.__dict__["_asked"] = tuple(specifications or ())
        return scores

    return read
