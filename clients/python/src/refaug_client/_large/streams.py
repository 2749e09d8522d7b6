"""Results that are handed out one by one as they come."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from refaug_client._core import errors
from refaug_client._http.call import Answer, Call

from .batches import Batch, Document, Part
from .documents import LargeRatings, LargeReferences, LargeRequest, with_ids
from .scores import NOT_OF_SUMS, read_sums, reply_scores


class StreamedReferences(LargeReferences):
    """References, handed out as they come; none are stored."""

    def rows(self, part: Part) -> list[Document]:
        """Return the items of an answer."""
        LargeRequest.add(self, part)
        return list(part.answer.get("items") or [])


class StreamedRatings(LargeRatings):
    """Ratings, handed out as they come."""

    def rows(self, part: Part) -> list[list[float]]:
        """Return the ratings of an answer, pair by pair."""
        LargeRequest.add(self, part)
        return list(part.answer["ratings"])


class StreamedScores(LargeRequest):
    """Scores, handed out item by item; there is no corpus score, and so no sums are stored."""

    def __init__(self, call: Call[Any]) -> None:
        super().__init__(call)
        self._asked: Sequence[str] = self.template.get("metrics") or ()
        self._signatures: dict[tuple[str, int], str] = {}
        self._sums = not any(self.template.get(name) for name in NOT_OF_SUMS)

    def body(self, batch: Batch) -> Document:
        """Return the body; it asks for sums where they suffice, since a batch may have no score at all."""
        return {**with_ids(super().body(batch), batch.first), **({"return": "stats"} if self._sums else {})}

    def read(self, answer: Answer) -> Document:
        """Return the document of an answer, with sums or scores in it."""
        return read_sums(answer) if self._sums else _read_scores(answer)

    def rows(self, part: Part) -> Iterator[Document]:
        """Yield an object for each item: {"id": …, "scores": {metric: {system: {"score": …}}}, "signatures": …}."""
        super().add(part)
        if "refused" in part.answer:
            return
        sheets = self._suitable(part)
        names = self._names(sheets, _metrics_left_out(part.answer))
        signatures = {name: sheet["signature"] for name, sheet in zip(names, sheets)}
        self._require_signatures(sheets, part.batch)
        systems = [
            {name: reply_scores(one) if self._sums else one["replies"] for name, one in sheet["systems"].items()}
            for sheet in sheets
        ]
        for place, reply in enumerate(next(iter(systems[0].values()))):
            scores = {
                metric: {name: listed[place] for name, listed in of_metric.items()}
                for metric, of_metric in zip(names, systems)
            }
            yield {"id": reply["id"], "scores": scores, "signatures": signatures}

    def _suitable(self, part: Part) -> list[Document]:
        """Return the metrics that the references of a batch suit; BadInput for the first other one, unless reported.

        A stream has no last batch, so each is judged for itself, as a request is.
        """
        sheets: list[Document] = part.answer["stats" if self._sums else "scores"]
        unsuitable = [sheet["unsuitable"] for sheet in sheets if sheet.get("unsuitable")]
        suitable = [sheet for sheet in sheets if not sheet.get("unsuitable")]
        if unsuitable and (self.template.get("on_error") != "report" or not suitable):
            first, last = part.batch.first, part.batch.first + len(part.batch.items) - 1
            message = f"items {first:,} to {last:,}: {unsuitable[0]['message']}"
            problem = {"status": 422, "code": unsuitable[0]["code"], "detail": message}
            raise errors.BadInput(message, problem=problem, status=422)
        return suitable

    def _names(self, sheets: Sequence[Document], left_out: Collection[str]) -> Sequence[str]:
        """Return the metrics as the request names them; by their own names where that is not one for one."""
        specifications = [one for one in dict.fromkeys(self._asked) if one.partition(":")[0] not in left_out]
        names = [str(sheet["metric"]) for sheet in sheets]
        if len(specifications) == len(names):
            return specifications if len(set(names)) < len(names) else names
        return names if len(set(names)) == len(names) else [str(sheet["signature"]) for sheet in sheets]

    def _require_signatures(self, sheets: Sequence[Document], batch: Batch) -> None:
        places: dict[str, int] = {}
        for sheet in sheets:
            name, now = sheet["metric"], sheet["signature_full"]
            place = places[name] = places.get(name, -1) + 1  # a metric may come with several settings
            before = self._signatures.setdefault((name, place), now)
            if now != before:
                raise errors.Usage(
                    f"items from {batch.first:,} on were scored by {now}, those before by {before}: their scores "
                    "cannot be compared",
                    remedy="score() with batch=…, where the metric looks at all items at once",
                )


def _metrics_left_out(answer: Document) -> set[str]:
    """Return the names of the metrics that the references of a batch do not suit."""
    names = {sheet["metric"] for sheet in answer.get("stats") or [] if sheet.get("unsuitable")}
    return names | {one["metric"] for one in answer.get("problems") or [] if one.get("metric")}


def _read_scores(answer: Answer) -> Document:
    """Return the document of an answer with scores; KeyError or TypeError where a field is missing."""
    document = answer.json()
    for sheet in document["scores"]:
        sheet["signature_full"] + sheet["signature"] + sheet["metric"]
        {one["id"]: one["score"] for system in sheet["systems"].values() for one in system["replies"]}
    if not document["scores"]:
        raise ValueError("no metric")
    return document
