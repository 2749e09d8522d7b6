"""Results that are handed out one by one as they come."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Optional

from refaug_client._api.bodies import SYSTEM
from refaug_client._core import errors
from refaug_client._http.call import Answer, Call, read_json

from .batches import Batch, Document, Part
from .documents import LargeRatings, LargeReferences, LargeRequest, require_unique_ids, with_ids

# ── Scores of many replies: the sums of each batch, from which the server then makes the scores of all ────────────────

NOT_OF_SUMS = ("explain", "percent")
_OF_RESAMPLING = ("draws", "confidence", "seed", "baseline")
_NO_REPLY = {"problem": "no_reply", "message": "the system has no reply to this item"}


class LargeScores(LargeRequest):
    """Scores of replies to many items."""

    def __init__(self, call: Call[Any]) -> None:
        super().__init__(call)
        self._require_sums()
        self._require_items()
        self._gives = self.template.pop("return", "scores")
        self._resampling = {key: self.template.pop(key) for key in _OF_RESAMPLING if key in self.template}
        self._sums: list[Document] = []
        self._refused: Optional[errors.BadInput] = None
        self._signatures: tuple[str, ...] = ()
        self._replies: dict[str, dict[str, list[Document]]] = {}  # by signature, by system
        self._ids: list[str] = []
        self._systems = _systems_in(self.items)

    def body(self, batch: Batch) -> Document:
        """Return the body of a request for sums, which each batch can give."""
        return {**with_ids(super().body(batch), batch.first), "return": "stats"}

    def read(self, answer: Answer) -> Document:
        """Return the document of an answer, with sums in it."""
        return read_sums(answer)

    def substitute(self, error: errors.BadInput, batch: Batch) -> Optional[Document]:
        """Return an answer of problems only, unless the metrics are the problem: others would be scored in part."""
        return None if error.code == "no_gold" else super().substitute(error, batch)

    def add(self, part: Part) -> None:
        """Take sums and scores in."""
        super().add(part)
        if "refused" in part.answer:
            self._refused = self._refused or part.answer["refused"]
            return
        answer = _with_missing_rows(part.answer, self.body(part.batch)["items"], self._systems[:1])
        self._require_signatures(answer, part.batch)
        ids: list[str] = next(iter(answer["stats"][0]["systems"].values()))["items"]
        for sheet in answer["stats"]:
            systems = self._replies.setdefault(sheet["signature_full"], {})
            for name in [one for one in sheet["systems"] if one not in systems]:
                systems[name] = [_missing_reply(one) for one in self._ids]
            for name, replies in systems.items():
                system = sheet["systems"].get(name)
                replies.extend(map(_missing_reply, ids) if system is None else reply_scores(system))
        self._ids += ids
        self._sums.append(
            {key: answer[key] for key in ("data", "set", "copies", "reply_provenance") if key in answer}
            | {"stats": [without_scores(sheet) for sheet in answer["stats"]]}
        )

    def new_problems(self, answer: Document) -> list[Document]:
        """Return the problems of an answer, without metrics that other batches may suit: combining tells of those."""
        undecided = {sheet["metric"] for sheet in answer.get("stats") or [] if sheet.get("unsuitable")}
        return [one for one in super().new_problems(answer) if one.get("metric") not in undecided]

    def combine_call(self) -> Optional[Call[Document]]:
        """Return the request that combines all sums; raise the first refusal where there are none."""
        if not self._sums:
            if self._refused is not None:
                raise self._refused
            raise errors.Usage("there are no items to score", remedy="at least one")
        reports = {"on_error": "report"} if self.template.get("on_error") == "report" else {}
        body = {"batches": self._sums, **self._resampling, **reports}
        return Call("POST", "/v1/scores/combine", read_json, body=body, headers=self.whole.headers, timed=True)

    def document(self, combined: Optional[Document] = None) -> Document:
        """Return the document of a small request to the same route."""
        assert combined is not None, "sums are put together by the server"
        for metric_scores in combined["scores"]:
            for name, system in metric_scores["systems"].items():
                replies = self._replies[metric_scores["signature_full"]][name]
                if self._gives == "values":
                    system["values"] = [reply["score"] for reply in replies]
                else:
                    system["replies"] = replies
        document = super().document()
        warnings = dict.fromkeys([*document["warnings"], *(combined.get("warnings") or [])])
        problems = [*document["problems"], *(combined.get("problems") or [])]
        return {**combined, **document, "problems": problems, "warnings": list(warnings)}

    def _require_sums(self) -> None:
        """Usage for options that several requests cannot give."""
        for name in NOT_OF_SUMS:
            if self.template.get(name):
                raise errors.Usage(
                    f"{name}=True cannot be had for so many {self.name} that several requests are sent",
                    remedy=f"leave it out, or batch=… of at least {self._count():,}, if the server takes as many",
                )
        if self.template.get("return") == "stats":
            raise errors.Usage(
                'return_="stats" is of one request, and several are sent',
                remedy=f"leave it out: what comes is put together; or batch=… of at least {self._count():,}",
            )
        self._require_metrics()

    def _require_items(self) -> None:
        """Usage where the items do not fit together."""
        require_unique_ids(self.items)

    def _count(self) -> int:
        return len(self.items)

    def _require_metrics(self) -> None:
        """Usage where the server would choose a metric for each batch, perhaps different ones."""
        has_sources = self.template.get("index") is not None or self.template.get("references") == "find"
        if self.template.get("metrics") is None and not has_sources:
            raise errors.Usage(
                "no metric is named, and which one suits is seen from all items at once, which several requests are",
                remedy='metric="upsilon-bleu" or another one',
            )

    def _require_signatures(self, answer: Document, batch: Batch) -> None:
        """Usage where two batches were scored by different signatures: their sums cannot be added."""
        signatures = tuple(sheet["signature_full"] for sheet in answer["stats"])
        self._signatures = self._signatures or signatures
        for now, before in zip(signatures, self._signatures):
            if now != before:
                raise errors.Usage(
                    f"{self.name} {batch.first:,} to {batch.first + len(batch.items) - 1:,} were scored by {now}, "
                    f"those before by {before}, and such scores cannot be put together",
                    remedy=f"batch=… of at least {self._count():,}, where the metric looks at all of them at once",
                )


class LargeSetScores(LargeScores):
    """Scores of many replies to items of a frozen set; the rows are cut into batches."""

    name = "replies"

    def __init__(self, call: Call[Any]) -> None:
        super().__init__(call)
        self._set: Document = {}
        self._names = self.items
        self.items = range(len(self._names))

    def body(self, batch: Batch) -> Document:
        """Return the body with the rows of a batch."""
        rows = slice(batch.first, batch.first + len(batch.items))
        replies = {name: texts[rows] for name, texts in self.template["replies"].items()}
        return {**self.template, "items": list(self._names[rows]), "replies": replies, "return": "stats"}

    def document(self, combined: Optional[Document] = None) -> Document:
        """Return the document of a small request, with all facts about the set."""
        document = super().document(combined)
        document.pop("versions")
        return {**document, "set": {**(document.get("set") or {}), **self._set}}

    def add(self, part: Part) -> None:
        """Take sums and scores in, and the facts about the set."""
        super().add(part)
        set_facts = part.answer.get("set") or {}
        self._set = {key: value for key, value in set_facts.items() if key != "places"}

    def _require_metrics(self) -> None:
        """Accept a request without metrics: the set decides, which is one for all batches."""

    def _require_items(self) -> None:
        """Usage where the systems have not as many replies as there are items; ids may come several times."""
        for system, texts in self.template["replies"].items():
            if len(texts) != len(self.items):
                raise errors.Usage(
                    f"{len(texts):,} replies of {system!r} to {len(self.items):,} items",
                    remedy="one for each; or None",
                )


def read_sums(answer: Answer) -> Document:
    """Return the document of an answer with sums; KeyError or TypeError where a field is missing."""
    document = answer.json()
    for sheet in document["stats"]:
        sheet["signature_full"] + sheet["signature"] + sheet["metric"]
        for system in sheet["systems"].values():
            if not len(system["items"]) == len(system["rows"]) == len(system["scores"]):
                raise ValueError("scores that are not as many as items")
            {one["row"]: one["problem"] for one in system["problems"]}
    if not document["stats"]:
        raise ValueError("no metric")
    return document


def reply_scores(system: Document) -> list[Document]:
    replies = [{"id": name, "score": score} for name, score in zip(system["items"], system["scores"])]
    for problem in system["problems"]:
        replies[problem["row"]].update({"problem": problem["problem"], "message": problem.get("message")})
    return replies


def _systems_in(items: Sequence[Any]) -> list[str]:
    """Return the systems that items have replies of, in the order in which they first occur."""
    replies = (item.get("replies") for item in items if isinstance(item, Mapping))
    return list(dict.fromkeys(name for texts in replies if isinstance(texts, Mapping) for name in texts))


def _with_missing_rows(answer: Document, items: Sequence[Any], systems: Sequence[str]) -> Document:
    """Return an answer with rows without a score of these systems, where no item of its batch has a reply."""
    if any(sheet["systems"] for sheet in answer["stats"]):
        return answer
    bad_places = {problem.get("place") for problem in answer.get("problems") or []}
    ids = [str(item["id"]) for place, item in enumerate(items) if place not in bad_places]
    nothing, problems = [None] * len(ids), [{"row": row, **_NO_REPLY} for row in range(len(ids))]
    rows = {"items": ids, "rows": nothing, "scores": nothing, "problems": problems}
    return {**answer, "stats": [{**sheet, "systems": dict.fromkeys(systems, rows)} for sheet in answer["stats"]]}


def _missing_reply(item_id: str) -> Document:
    return {"id": item_id, "score": None, **_NO_REPLY}


def without_scores(sheet: Document) -> Document:
    """Return a sheet of sums without the scores, for sending it back to the server."""
    systems = {
        name: {key: value for key, value in system.items() if key != "scores"}
        for name, system in sheet["systems"].items()
    }
    return {**sheet, "systems": systems}


# ── Results that are handed out one by one as they come ───────────────────────────────────────────────────────────────


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
        self._needs_scores = any(self.template.get(name) for name in NOT_OF_SUMS)
        self._systems = [SYSTEM]  # those of the last batch with replies

    def body(self, batch: Batch) -> Document:
        """Return the body; it asks for sums where they suffice, since a batch may have no score at all."""
        body = with_ids(super().body(batch), batch.first)
        if self._needs_scores and _systems_in(body["items"]):
            return body
        return {**{key: field for key, field in body.items() if key not in NOT_OF_SUMS}, "return": "stats"}

    def read(self, answer: Answer) -> Document:
        """Return the document of an answer, with sums or scores in it."""
        return read_sums(answer) if "stats" in answer.json() else _read_scores(answer)

    def rows(self, part: Part) -> Iterator[Document]:
        """Yield an object for each item: {"id": …, "scores": {metric: {system: {"score": …}}}, "signatures": …}."""
        super().add(part)
        if "refused" in part.answer:
            return
        if "stats" in part.answer:
            part = replace(part, answer=_with_missing_rows(part.answer, self.body(part.batch)["items"], self._systems))
        sheets = self._suitable(part)
        self._systems = list(sheets[0]["systems"])
        names = self._names(sheets, _metrics_left_out(part.answer))
        signatures = {name: sheet["signature"] for name, sheet in zip(names, sheets)}
        self._require_signatures(sheets, part.batch)
        systems = [
            {
                name: rows["replies"] if "replies" in rows else reply_scores(rows)
                for name, rows in sheet["systems"].items()
            }
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
        sheets: list[Document] = part.answer["stats" if "stats" in part.answer else "scores"]
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
