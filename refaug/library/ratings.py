"""Ratings of candidates by a rater that stays open."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from refaug.core.errors import BadInput
from refaug.core.installation import extras_named
from refaug.core.records import Reference
from refaug.library.engine import engine_of
from refaug.library.inputs import to_list, to_rows
from refaug.library.results.parts import ArtefactVersions
from refaug.library.results.ratings import Ratings
from refaug.operations.references import RateCandidates
from refaug.rater.rating_settings import Combine, RatingSettings

if TYPE_CHECKING:
    from refaug.rater.rating import RatingRequest


@extras_named()
def rate(
    pairs: Any,
    *,
    rater: str,
    combine: Combine = RatingSettings.combine,
    calibrated: bool = False,
    home: str | os.PathLike[str] | None = None,
) -> Ratings:
    """Return a rater's ratings of candidates, from -1 to 1.

        pair = {"utterance": "Where do you buy tea?", "golds": ["At the market."], "candidates": ["In the shop."]}
        refaug.rate([pair], rater="demo")[0]

    A candidate is a text, or `{"text": …, "utterance": …}` with the utterance that it answered. Against several golds
    its rating is the mean.
    """
    options = RateCandidates(rater=rater, combine=combine, calibrated=calibrated)
    rows = to_rows(pairs, "pairs")
    opened = engine_of(home).rater(rater)
    requests = [_request(row, place) for place, row in enumerate(rows)]
    texts = [text for one in requests for text in _texts_of(one)]
    warning = opened.unfamiliar(opened.coverage(texts)) if texts else None
    return Ratings(
        ratings=tuple(map(tuple, opened.rate(requests, options.rating))),
        versions=ArtefactVersions(rater=opened.spec),
        warnings=() if warning is None else (warning,),
    )


def _texts_of(request: RatingRequest) -> list[str]:
    return [request.utterance, *request.golds, *(candidate.text for candidate in request.candidates)]


def _request(row: Mapping[str, Any], place: int) -> RatingRequest:
    from refaug.rater.rating import RatingRequest  # noqa: PLC0415  torch

    at = f"pairs[{place}]"
    golds = _list_of(row, "golds", at)
    if not golds:
        raise BadInput(f"{at}.golds is empty", remedy='"golds": ["…"]: candidates are rated against them')
    candidates = _list_of(row, "candidates", at)
    return RatingRequest(
        utterance=_text(row.get("utterance"), f"{at}.utterance"),
        golds=tuple(_text(gold, f"{at}.golds[{number}]") for number, gold in enumerate(golds)),
        candidates=tuple(_candidate(entry, f"{at}.candidates[{number}]") for number, entry in enumerate(candidates)),
    )


def _list_of(row: Mapping[str, Any], name: str, at: str) -> Sequence[Any]:
    if name not in row:
        raise BadInput(f"{at} has no {name}, only {', '.join(row) or 'nothing'}", remedy=f'"{name}": ["…"]')
    return to_list(row[name], f"{at}.{name}", '["…"]')


def _candidate(candidate: Any, at: str) -> Reference:
    if not isinstance(candidate, Mapping):
        return Reference(text=_text(candidate, at, can_be_empty=True))
    utterance = candidate.get("utterance")
    return Reference(
        text=_text(candidate.get("text"), f"{at}.text", can_be_empty=True),
        utterance=None if utterance is None else _text(utterance, f"{at}.utterance"),
    )


def _text(text: Any, at: str, *, can_be_empty: bool = False) -> str:
    if not isinstance(text, str):
        raise BadInput(f"{at} is {'missing' if text is None else repr(text)}, and not a text")
    if not can_be_empty and not text.strip():
        raise BadInput(f"{at} is empty", remedy="give a text")
    return text
