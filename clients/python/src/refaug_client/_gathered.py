"""What is asked about a large input, request by request, and how the answers become one.

An order is made of the request that would have done, had it been small enough: each batch gets the same with its own
items. What the first answer was made with (a version of an index, of a rater) is named in all that follow, so that a
version that is published meanwhile is not mixed with the one before. What comes out is a document as the server gives
it, corpus scores too: they are made of the sums of all batches, and are those of everything at once, not means of
theirs.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Optional

from . import _errors as errors
from ._batches import Batch, Part, shifted
from ._call import Answer, Call, as_json
from ._calls import _pair
from ._models import Model, Ratings, References

Document = dict[str, Any]

_PINNED = ("index", "rater", "ruber")
_NOT_OF_SUMS = ("explain", "percent")
_OF_RESAMPLING = ("draws", "confidence", "seed", "baseline")
_NO_REPLY = {"problem": "no_reply", "message": "the system has no reply to this item"}


class Made(Answer):
    """An answer that was put together here."""

    @classmethod
    def of(cls, document: Document) -> Made:
        """One that says this."""
        made = cls(200, {}, b"")
        object.__setattr__(made, "_document", document)
        return made

    def json(self) -> Document:
        """What it says."""
        found: Document = self._document  # type: ignore[attr-defined]  # it is frozen
        return found


class Large:
    """One request for all items, as many requests for some of them."""

    field = "items"  # of the body, where the items are
    name = "items"  # in what people are shown

    def __init__(self, call: Call[Any]) -> None:
        self.whole: Call[Any] = call
        self.template: Document = dict(call.body or {})
        self.items: Sequence[Any] = self.template.pop(self.field, None) or []
        self.pinned: Document = {}
        self._has_learned = False
        self._lock = threading.Lock()
        self._places = 0
        self.problems: list[Document] = []
        self.versions: Document = {}
        self._told = _Warnings()

    # ── asking ────────────────────────────────────────────────────────────────────────────────────────────────────

    def call(self, batch: Batch) -> Call[Document]:
        """The request for some of the items."""
        return replace(self.whole, body=self.body(batch), read=self.read)

    def read(self, answer: Answer) -> Document:
        """What an answer says; KeyError, TypeError or ValueError where something is not there."""
        return answer.json()

    def body(self, batch: Batch) -> Document:
        """What it says."""
        return {**self.template, **self.pinned, self.field: [self.plain(one) for one in batch.items]}

    def plain(self, item: Any) -> Any:
        """An item as it is sent."""
        return item.to_dict() if isinstance(item, Model) else item

    def learn(self, answer: Document) -> None:
        """Hold to the versions that made the first answer."""
        with self._lock:
            if not self._has_learned:
                self._has_learned = True
                versions = answer.get("versions") or {}
                self.pinned = {name: spec for name in _PINNED if (spec := _named(versions.get(name)))}

    def instead(self, error: errors.BadInput, batch: Batch) -> Optional[Document]:
        """An answer of nothing but problems, where problems are to be reported and every item of a batch has one."""
        if self.template.get("on_error") != "report" or len(error.errors) < len(batch.items):
            return None
        if {one.get("place") for one in error.errors} != set(range(len(batch.items))):
            return None
        return {"problems": error.errors, "refused": error}

    # ── putting together ──────────────────────────────────────────────────────────────────────────────────────────

    def add(self, part: Part[Document]) -> None:
        """Take an answer in; they come in the order of the items."""
        answer, count = part.answer, len(part.batch.items)
        self._places = part.batch.first + count
        self.problems += [shifted(one, part.batch.first) for one in answer.get("problems") or []]
        self._told.add(answer.get("warnings") or [], part.batch)
        for name, version in (answer.get("versions") or {}).items():
            self.versions.setdefault(name, version)

    @property
    def warnings(self) -> list[str]:
        """What was warned of, in all batches or in some."""
        return self._told.listed(self.name)

    def combining(self) -> Optional[Call[Document]]:
        """A last request that puts sums together, where there are sums."""
        return None

    def document(self, combined: Optional[Document] = None) -> Document:
        """All answers as one."""
        del combined
        return {"versions": self.versions, "problems": self.problems, "warnings": self.warnings}


def _named(spec: object) -> Optional[str]:
    """`chat@2026-11-22.1#5ee77664f403` as requests name it."""
    return spec.partition("#")[0] if isinstance(spec, str) and "@" in spec else None


class _Warnings:
    """Warnings of batches: what all of them say is said once, anything else with the place where it was first said."""

    def __init__(self) -> None:
        self._first: dict[str, Batch] = {}
        self._times: dict[str, int] = {}
        self._batches = 0

    def add(self, warnings: Sequence[str], batch: Batch) -> None:
        """Those of one batch."""
        self._batches += 1
        for one in dict.fromkeys(warnings):
            self._first.setdefault(one, batch)
            self._times[one] = self._times.get(one, 0) + 1

    def listed(self, name: str) -> list[str]:
        """All of them, in the order in which they came; those that differ in figures alone are one."""
        alike: dict[str, list[str]] = {}
        for one in self._first:
            alike.setdefault("".join("0" if sign.isdigit() else sign for sign in one), []).append(one)
        return [self._said(group, name) for group in alike.values()]

    def _said(self, group: Sequence[str], name: str) -> str:
        first, times = group[0], sum(self._times[one] for one in group)
        if len(group) == 1 and times == self._batches:
            return first
        batch = self._first[first]
        others = f"; likewise in {times - 1:,} more requests" if times > 1 else ""
        return f"{first} ({name} {batch.first:,} to {batch.first + len(batch.items) - 1:,}{others})"


# ── references and ratings ────────────────────────────────────────────────────────────────────────────────────────


class LargeReferences(Large):
    """References for many items."""

    def __init__(self, call: Call[Any]) -> None:
        super().__init__(call)
        require_ids_once(self.items)
        self.found: list[Document] = []
        self.provenance: Document = {}

    def read(self, answer: Answer) -> Document:
        """What an answer says, with items in it."""
        found = answer.json()
        References.of(found)
        return found

    def body(self, batch: Batch) -> Document:
        """Items without an id get one that is theirs alone in all of the input."""
        return with_ids(super().body(batch), batch.first)

    def add(self, part: Part[Document]) -> None:
        """Take the items in."""
        super().add(part)
        self.found += part.answer["items"]
        self.provenance = self.provenance or part.answer.get("provenance") or {}

    def document(self, combined: Optional[Document] = None) -> Document:
        """As POST /v1/references answers."""
        return {"items": self.found, "provenance": self.provenance, **super().document(combined)}


class LargeRatings(Large):
    """Ratings of many pairs."""

    field = name = "pairs"

    def __init__(self, call: Call[Any]) -> None:
        super().__init__(call)
        self.found: list[list[float]] = []

    def read(self, answer: Answer) -> Document:
        """What an answer says, with ratings in it."""
        found = answer.json()
        Ratings.of(found)
        return found

    def plain(self, item: Any) -> Any:
        """A pair whose candidates are objects."""
        return _pair(super().plain(item))

    def add(self, part: Part[Document]) -> None:
        """Take the ratings in."""
        super().add(part)
        self.found += part.answer["ratings"]

    def document(self, combined: Optional[Document] = None) -> Document:
        """As POST /v1/ratings answers."""
        made = super().document(combined)
        return {"ratings": self.found, "versions": made["versions"], "warnings": made["warnings"]}


def with_ids(body: Document, first: int) -> Document:
    """Items without an id get the one that they would have in the whole input: the server counts within a request."""
    items = [
        {"id": f"item-{first + place}", **item} if isinstance(item, Mapping) and "id" not in item else item
        for place, item in enumerate(body["items"])
    ]
    return {**body, "items": items}


def require_ids_once(items: Sequence[Any]) -> None:
    """Usage where an id comes twice: within a request the server sees it, across several nobody would."""
    place_of: dict[str, int] = {}
    for place, item in enumerate(items):
        if not isinstance(item, Mapping):
            continue
        name = item.get("id", f"item-{place}")
        if isinstance(name, (str, int)) and place_of.setdefault(str(name), place) != place:
            raise errors.Usage(
                f"items[{place}].id: {name!r} is the id of items[{place_of[str(name)]}]",
                remedy="every item has an id of its own; several replies to an item need a frozen set",
            )


# ── scores ────────────────────────────────────────────────────────────────────────────────────────────────────────


class LargeScores(Large):
    """Scores of replies to many items: the sums of each batch, and then the scores that they make."""

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

    def body(self, batch: Batch) -> Document:
        """Sums are asked for, which each batch can give."""
        return {**with_ids(super().body(batch), batch.first), "return": "stats"}

    def read(self, answer: Answer) -> Document:
        """What an answer says, with sums in it."""
        return _sums(answer)

    def add(self, part: Part[Document]) -> None:
        """Take sums and scores in."""
        super().add(part)
        answer = part.answer
        if "refused" in answer:
            self._refused = self._refused or answer["refused"]
            return
        self._require_signatures(answer, part.batch)
        ids: list[str] = next(iter(answer["stats"][0]["systems"].values()))["items"]
        for sheet in answer["stats"]:
            systems = self._replies.setdefault(sheet["signature_full"], {})
            for name in [one for one in sheet["systems"] if one not in systems]:
                systems[name] = [_without(one) for one in self._ids]
            for name, listed in systems.items():
                there = sheet["systems"].get(name)
                listed.extend(map(_without, ids) if there is None else _replies_of(there))
        self._ids += ids
        self._sums.append(
            {key: answer[key] for key in ("data", "set") if key in answer}
            | {"stats": [_only_sums(sheet) for sheet in answer["stats"]]}
        )

    def combining(self) -> Optional[Call[Document]]:
        """All sums, to be put together; the first refusal where there are none."""
        if not self._sums:
            if self._refused is not None:
                raise self._refused
            raise errors.Usage("there are no items to score", remedy="at least one")
        body = {"batches": self._sums, **self._resampling}
        return Call("POST", "/v1/scores/combine", as_json, body=body, headers=self.whole.headers, timed=True)

    def document(self, combined: Optional[Document] = None) -> Document:
        """As the route answers a small request."""
        assert combined is not None, "sums are put together by the server"
        for one in combined["scores"]:
            for name, system in one["systems"].items():
                replies = self._replies[one["signature_full"]][name]
                if self._gives == "values":
                    system["values"] = [reply["score"] for reply in replies]
                else:
                    system["replies"] = replies
        made = super().document()
        warnings = dict.fromkeys([*made["warnings"], *(combined.get("warnings") or [])])
        return {**combined, **made, "warnings": list(warnings)}

    def _require_sums(self) -> None:
        """Usage for what cannot be had of several requests."""
        for name in _NOT_OF_SUMS:
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
        """Usage where they do not fit together."""
        require_ids_once(self.items)

    def _count(self) -> int:
        return len(self.items)

    def _require_metrics(self) -> None:
        """Usage where the server would choose the metric for each batch, and may choose differently."""
        found = self.template.get("index") is not None or self.template.get("references") == "find"
        if self.template.get("metrics") is None and not found:
            raise errors.Usage(
                "no metric is named, and which one suits is seen from all items at once, which several requests are",
                remedy='metric="upsilon-bleu" or another one',
            )

    def _require_signatures(self, answer: Document, batch: Batch) -> None:
        """Usage where two batches were scored by different things: their sums are of different things, too."""
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
    """Scores of many replies to items of a frozen set; rows are cut, not items."""

    name = "replies"

    def __init__(self, call: Call[Any]) -> None:
        super().__init__(call)
        self._set: Document = {}
        self._names = self.items
        self.items = range(len(self._names))

    def body(self, batch: Batch) -> Document:
        """The rows of a batch."""
        rows = slice(batch.first, batch.first + len(batch.items))
        replies = {name: texts[rows] for name, texts in self.template["replies"].items()}
        return {**self.template, "items": list(self._names[rows]), "replies": replies, "return": "stats"}

    def document(self, combined: Optional[Document] = None) -> Document:
        """As the route answers a small request: with all that is known of the set."""
        made = super().document(combined)
        made.pop("versions")
        return {**made, "set": {**(made.get("set") or {}), **self._set}}

    def add(self, part: Part[Document]) -> None:
        """Take sums and scores in, and which set it was."""
        super().add(part)
        told = part.answer.get("set") or {}
        self._set = {key: value for key, value in told.items() if key != "places"}

    def _require_metrics(self) -> None:
        """The set decides, which is one for all."""

    def _require_items(self) -> None:
        """An item may have several replies; each system has one for each row."""
        for system, texts in self.template["replies"].items():
            if len(texts) != len(self.items):
                raise errors.Usage(
                    f"{len(texts):,} replies of {system!r} to {len(self.items):,} items",
                    remedy="one for each; or None",
                )


def _sums(answer: Answer) -> Document:
    """An answer with sums; KeyError or TypeError where something is not there."""
    found = answer.json()
    for sheet in found["stats"]:
        sheet["signature_full"] + sheet["signature"] + sheet["metric"]
        for system in sheet["systems"].values():
            if not len(system["items"]) == len(system["rows"]) == len(system["scores"]):
                raise ValueError("scores that are not as many as items")
            {one["row"]: one["problem"] for one in system["problems"]}
    if not found["stats"]:
        raise ValueError("no metric")
    return found


def _replies_of(system: Document) -> list[Document]:
    replies = [{"id": name, "score": score} for name, score in zip(system["items"], system["scores"])]
    for one in system["problems"]:
        replies[one["row"]].update({"problem": one["problem"], "message": one.get("message")})
    return replies


def _without(name: str) -> Document:
    return {"id": name, "score": None, **_NO_REPLY}


def _only_sums(sheet: Document) -> Document:
    """A sheet without what is known already, since it goes back to the server."""
    systems = {
        name: {key: value for key, value in system.items() if key != "scores"}
        for name, system in sheet["systems"].items()
    }
    return {**sheet, "systems": systems}


# ── one by one ────────────────────────────────────────────────────────────────────────────────────────────────────


class EachReference(LargeReferences):
    """References, given out as they come; nothing is kept of them."""

    def rows(self, part: Part[Document]) -> list[Document]:
        """The items of an answer."""
        Large.add(self, part)
        return list(part.answer["items"])


class EachRating(LargeRatings):
    """Ratings, given out as they come."""

    def rows(self, part: Part[Document]) -> list[list[float]]:
        """The ratings of an answer, pair by pair."""
        Large.add(self, part)
        return list(part.answer["ratings"])


class EachScore(Large):
    """Scores, given out item by item; no corpus score, and so no sums to keep."""

    def __init__(self, call: Call[Any]) -> None:
        super().__init__(call)
        self._asked: Sequence[str] = self.template.get("metrics") or ()
        self._signatures: tuple[str, ...] = ()
        self._sums = not any(self.template.get(name) for name in _NOT_OF_SUMS)

    def body(self, batch: Batch) -> Document:
        """Sums where they will do: a batch may have no score at all."""
        return {**with_ids(super().body(batch), batch.first), **({"return": "stats"} if self._sums else {})}

    def read(self, answer: Answer) -> Document:
        """What an answer says, with sums or scores in it."""
        return _sums(answer) if self._sums else _scores(answer)

    def rows(self, part: Part[Document]) -> Iterator[Document]:
        """An object for each item: {"id": …, "scores": {metric: {system: {"score": …}}}, "signatures": …}."""
        super().add(part)
        if "refused" in part.answer:
            return
        sheets = part.answer["stats" if self._sums else "scores"]
        names = self._names(sheets)
        signatures = {name: sheet["signature"] for name, sheet in zip(names, sheets)}
        self._require_signatures(tuple(sheet["signature_full"] for sheet in sheets), part.batch)
        systems = [
            {name: _replies_of(one) if self._sums else one["replies"] for name, one in sheet["systems"].items()}
            for sheet in sheets
        ]
        for place, reply in enumerate(next(iter(systems[0].values()))):
            scores = {
                metric: {name: listed[place] for name, listed in of_metric.items()}
                for metric, of_metric in zip(names, systems)
            }
            yield {"id": reply["id"], "scores": scores, "signatures": signatures}

    def _names(self, sheets: Sequence[Document]) -> Sequence[str]:
        """Metrics as they were asked for; by their own names where that is not one for one."""
        asked = list(dict.fromkeys(self._asked))
        own = [str(sheet["metric"]) for sheet in sheets]
        if len(asked) == len(own):
            return asked if len(set(own)) < len(own) else own
        return own if len(set(own)) == len(own) else [str(sheet["signature"]) for sheet in sheets]

    def _require_signatures(self, signatures: tuple[str, ...], batch: Batch) -> None:
        self._signatures = self._signatures or signatures
        for now, before in zip(signatures, self._signatures):
            if now != before:
                raise errors.Usage(
                    f"items from {batch.first:,} on were scored by {now}, those before by {before}: their scores "
                    "cannot be compared",
                    remedy="score() with batch=…, where the metric looks at all items at once",
                )


def _scores(answer: Answer) -> Document:
    """An answer with scores; KeyError or TypeError where something is not there."""
    found = answer.json()
    for sheet in found["scores"]:
        sheet["signature_full"] + sheet["signature"] + sheet["metric"]
        {one["id"]: one["score"] for system in sheet["systems"].values() for one in system["replies"]}
    if not found["scores"]:
        raise ValueError("no metric")
    return found
