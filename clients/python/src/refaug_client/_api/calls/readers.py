"""The readers of answers: from JSON to results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Callable, Optional, TypeVar

from refaug_client._api import models
from refaug_client._http.call import Answer

M = TypeVar("M", bound=models.Model)


def read_model(model: type[M]) -> Callable[[Answer], M]:
    """Return a reader of an answer that is one object."""
    return lambda answer: model.of(answer.json())


def read_page(model: type[M], key: str) -> Callable[[Answer], models.Rows[M]]:
    """Return a reader of an answer that is a page of objects."""

    def read(answer: Answer) -> models.Rows[M]:
        document = answer.json()
        following = document.get("next")
        if following is not None and not isinstance(following, str):
            raise TypeError("next is no text")
        return models.Rows([model.of(one) for one in document[key]], following)

    return read


def read_scores(specifications: Optional[Sequence[str]]) -> Callable[[Answer], models.Scores]:
    """Return a reader of scores; `specifications` are the metrics as the request names them."""

    def read(answer: Answer) -> models.Scores:
        scores = models.Scores.of(answer.json())
        if not scores.scores and scores.stats is None:
            raise KeyError("neither scores nor stats")
        scores.__dict__["_asked"] = tuple(specifications or ())
        return scores

    return read
