"""Ratings of candidates by a rater that stays open."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from refaug.core.errors import BadInput
from refaug.core.installation import extras_named
from refaug.core.records import Reference
from refaug.library.engine import engine_of
from refaug.library.inputs import to_list, to_rows
from refaug.library.results.parts import ArtefactVersions, FrameKind, html_table, make_frame
from refaug.operations.references import RateCandidates
from refaug.rater.rating_settings import Combine, RatingSettings

if TYPE_CHECKING:
    from refaug.rater.rating import RatingRequest


@dataclass(frozen=True, kw_only=True, repr=False)
class Ratings:
    """For each pair the ratings of its candidates, from -1 to 1, in the order of the input."""

    ratings: tuple[tuple[float, ...], ...]
    versions: ArtefactVersions
    warnings: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[tuple[float, ...]]:
        return iter(self.ratings)

    def __len__(self) -> int:
        return len(self.ratings)

    def __getitem__(self, pair: int) -> tuple[float, ...]:
        return self.ratings[pair]

    def to_dict(self) -> dict[str, object]:
        """Return all of it as plain objects."""
        return {
            "ratings": [list(of_pair) for of_pair in self.ratings],
            "versions": {"rater": self.versions.rater},
            "warnings": list(self.warnings),
        }

    def to_frame(self, kind: FrameKind = "pandas") -> Any:
        """Return a frame with a row for each candidate: the place of its pair, its own, and its rating."""
        return make_frame(self._rows(), kind, columns=("pair", "candidate", "rating"))

    def to_pandas(self) -> Any:
        """Return `to_frame("pandas")`."""
        return self.to_frame("pandas")

    def _rows(self) -> list[dict[str, object]]:
        return [
            {"pair": pair, "candidate": place, "rating": rating}
            for pair, of_pair in enumerate(self.ratings)
            for place, rating in enumerate(of_pair)
        ]

    def __repr__(self) -> str:
        count = sum(map(len, self.ratings))
        return f"Ratings({len(self.ratings):,} pairs, {count:,} candidates, rater={self.versions.rater!r})"

    def _repr_html_(self) -> str:
        """Return a table for notebooks: a row for each candidate."""
        rows = [list(row.values()) for row in self._rows()]
        return html_table(f"Ratings by {self.versions.rater}", ("pair", "candidate", "rating"), rows, self.warnings)


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
