"""One request for many items as several requests for batches, and their answers as one document.

Each batch gets the request that would have done for all, with its own items. The artefact versions of the first answer
are named in all later requests, so that a version that is published meanwhile is not mixed with the one before. The
result is a document as the server gives it. Corpus scores are exact: they are made of the sums of all batches, and are
not means of the batches' scores.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Optional, Union

from refaug_client._api.bodies import pair_with_candidates
from refaug_client._api.models.base import Model
from refaug_client._api.models.references import Ratings, References
from refaug_client._api.models.replies import BotReplies
from refaug_client._core import errors
from refaug_client._http.call import Answer, Call

from .batches import Batch, Document, Part, shift_problem

_PINNED = ("index", "rater", "metrics")


class AssembledAnswer(Answer):
    """An answer that was put together in this process."""

    @classmethod
    def of(cls, document: Document) -> AssembledAnswer:
        """Return an answer with this document."""
        answer = cls(200, {}, b"")
        object.__setattr__(answer, "_document", document)
        return answer

    def json(self) -> Document:
        """Return the document."""
        document: Document = self._document  # type: ignore[attr-defined]  # it is frozen
        return document


class LargeRequest:
    """One request for all items, sent as several requests for some of them."""

    field = "items"  # of the body, where the items are
    name = "items"  # in messages

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
        self._warnings = _MergedWarnings()

    # ── asking ────────────────────────────────────────────────────────────────────────────────────────────────────

    def call(self, batch: Batch) -> Call[Document]:
        """Return the request for some of the items."""
        return replace(self.whole, body=self.body(batch), read=self.read)

    def read(self, answer: Answer) -> Document:
        """Return the document of an answer; KeyError, TypeError or ValueError where a field is missing."""
        return answer.json()

    def body(self, batch: Batch) -> Document:
        """Return the body of the request for some of the items."""
        return {**self.template, **self.pinned, self.field: [self.plain(one) for one in batch.items]}

    def plain(self, element: Any) -> Any:
        """Return an item as it is sent."""
        return element.to_dict() if isinstance(element, Model) else element

    def learn(self, answer: Document) -> None:
        """Note the versions that made the first answer, for all later requests."""
        with self._lock:
            if not self._has_learned:
                self._has_learned = True
                versions = answer.get("versions") or {}
                self.pinned = {name: spec for name in _PINNED if (spec := _version_spec(versions.get(name)))}

    def substitute(self, error: errors.BadInput, batch: Batch) -> Optional[Document]:
        """Return an answer of problems only, where problems are reported and every item of a batch has one."""
        if self.template.get("on_error") != "report" or len(error.errors) < len(batch.items):
            return None
        if {one.get("place") for one in error.errors} != set(range(len(batch.items))):
            return None
        return {"problems": error.errors, "refused": error}

    # ── putting together ──────────────────────────────────────────────────────────────────────────────────────────

    def add(self, part: Part) -> None:
        """Take an answer in; answers come in the order of the items."""
        answer, count = part.answer, len(part.batch.items)
        self._places = part.batch.first + count
        self.problems += [shift_problem(one, part.batch.first) for one in self.new_problems(answer)]
        self._warnings.add(answer.get("warnings") or [], part.batch)
        for name, version in (answer.get("versions") or {}).items():
            self.versions.setdefault(name, version)

    def new_problems(self, answer: Document) -> list[Document]:
        """Return the problems of an answer; those of metrics, which all answers have, come once."""
        return [one for one in answer.get("problems") or [] if one.get("metric") is None or one not in self.problems]

    @property
    def warnings(self) -> list[str]:
        """The warnings of all batches or of some."""
        return self._warnings.listed(self.name)

    def combine_call(self) -> Optional[Call[Document]]:
        """Return a last request that combines sums, where there are sums."""
        return None

    def document(self, combined: Optional[Document] = None) -> Document:
        """Return all answers as one."""
        del combined
        return {"versions": self.versions, "problems": self.problems, "warnings": self.warnings}


def _version_spec(spec: object) -> Union[str, list[str], None]:
    """Return `chat@2026-11-22.1#5ee77664f403` as requests name it, without the hash; metrics keep theirs."""
    if isinstance(spec, list):
        return spec
    return spec.partition("#")[0] if isinstance(spec, str) and "@" in spec else None


class _MergedWarnings:
    """Warnings of batches: those of all batches are listed once, others with the place where they first occurred."""

    def __init__(self) -> None:
        self._first: dict[str, Batch] = {}
        self._times: dict[str, int] = {}
        self._batches = 0

    def add(self, warnings: Sequence[str], batch: Batch) -> None:
        """Take the warnings of one batch in."""
        self._batches += 1
        for warning in dict.fromkeys(warnings):
            self._first.setdefault(warning, batch)
            self._times[warning] = self._times.get(warning, 0) + 1

    def listed(self, name: str) -> list[str]:
        """Return all warnings, in the order in which they came; those that differ in figures only are one."""
        alike: dict[str, list[str]] = {}
        for warning in self._first:
            alike.setdefault("".join("0" if sign.isdigit() else sign for sign in warning), []).append(warning)
        return [self._text_of(group, name) for group in alike.values()]

    def _text_of(self, group: Sequence[str], name: str) -> str:
        first, times = group[0], sum(self._times[one] for one in group)
        if len(group) == 1 and times == self._batches:
            return first
        batch = self._first[first]
        elsewhere = f"; likewise in {times - 1:,} more requests" if times > 1 else ""
        return f"{first} ({name} {batch.first:,} to {batch.first + len(batch.items) - 1:,}{elsewhere})"


# ── References and ratings ────────────────────────────────────────────────────────────────────────────────────────


class LargeReferences(LargeRequest):
    """References for many items."""

    def __init__(self, call: Call[Any]) -> None:
        super().__init__(call)
        require_unique_ids(self.items)
        self.rows_so_far: list[Document] = []
        self.provenance: Document = {}
        self._refused: Optional[errors.BadInput] = None

    def read(self, answer: Answer) -> Document:
        """Return the document of an answer, with items in it."""
        document = answer.json()
        References.of(document)
        return document

    def body(self, batch: Batch) -> Document:
        """Return the body; items without an id get one, unique in the whole input."""
        return with_ids(super().body(batch), batch.first)

    def add(self, part: Part) -> None:
        """Take the items of an answer in."""
        super().add(part)
        self._refused = self._refused or part.answer.get("refused")
        self.rows_so_far += part.answer.get("items") or []
        self.provenance = self.provenance or part.answer.get("provenance") or {}

    def combine_call(self) -> Optional[Call[Document]]:
        """Raise the first refusal where all batches were refused."""
        if self._refused is not None and not self.rows_so_far:
            raise self._refused
        return None

    def document(self, combined: Optional[Document] = None) -> Document:
        """Return the document of POST /v1/references."""
        return {"items": self.rows_so_far, "provenance": self.provenance, **super().document(combined)}


class LargeReplies(LargeReferences):
    """Replies of bots to many items."""

    def __init__(self, call: Call[Any]) -> None:
        super().__init__(call)
        self.bots: Document = {}

    def read(self, answer: Answer) -> Document:
        """Return the document of an answer, with items in it."""
        document = answer.json()
        BotReplies.of(document)
        return document

    def learn(self, answer: Document) -> None:
        """Note the bots of the first answer, which name versions of their indexes, for all later requests."""
        with self._lock:
            if not self.pinned and answer.get("bots"):
                self.pinned = {"bots": answer["bots"]}

    def substitute(self, error: errors.BadInput, batch: Batch) -> Optional[Document]:
        """Return an answer of problems only, unless missing replies are refused: the error may be about those."""
        return None if self.template.get("without_reply") == "refuse" else super().substitute(error, batch)

    def add(self, part: Part) -> None:
        """Take the items of an answer in."""
        super().add(part)
        self.bots = self.bots or part.answer.get("bots") or {}
        self.provenance = self.provenance or part.answer.get("reply_provenance") or {}

    def document(self, combined: Optional[Document] = None) -> Document:
        """Return the document of POST /v1/replies."""
        document = super().document(combined)
        return {
            "items": self.rows_so_far,
            "bots": self.bots,
            "reply_provenance": self.provenance,
            "problems": document["problems"],
            "warnings": document["warnings"],
        }


class LargeRatings(LargeRequest):
    """Ratings of many pairs."""

    field = name = "pairs"

    def __init__(self, call: Call[Any]) -> None:
        super().__init__(call)
        self.rows_so_far: list[list[float]] = []

    def read(self, answer: Answer) -> Document:
        """Return the document of an answer, with ratings in it."""
        document = answer.json()
        Ratings.of(document)
        return document

    def plain(self, element: Any) -> Any:
        """Return a pair whose candidates are objects."""
        return pair_with_candidates(super().plain(element))

    def add(self, part: Part) -> None:
        """Take the ratings of an answer in."""
        super().add(part)
        self.rows_so_far += part.answer["ratings"]

    def document(self, combined: Optional[Document] = None) -> Document:
        """Return the document of POST /v1/ratings."""
        document = super().document(combined)
        return {"ratings": self.rows_so_far, "versions": document["versions"], "warnings": document["warnings"]}


def with_ids(body: Document, first: int) -> Document:
    """Return a body whose items all have ids, numbered in the whole input: the server counts within a request."""
    items = [
        {"id": f"item-{first + place}", **sent_item}
        if isinstance(sent_item, Mapping) and "id" not in sent_item
        else sent_item
        for place, sent_item in enumerate(body["items"])
    ]
    return {**body, "items": items}


def require_unique_ids(items: Sequence[Any]) -> None:
    """Usage where an id comes twice: the server sees that within a request, but not across several."""
    download_path: dict[str, int] = {}
    for place, sent_item in enumerate(items):
        if not isinstance(sent_item, Mapping):
            continue
        item_id = sent_item.get("id", f"item-{place}")
        if isinstance(item_id, (str, int)) and download_path.setdefault(str(item_id), place) != place:
            raise errors.Usage(
                f"items[{place}].id: {item_id!r} is the id of items[{download_path[str(item_id)]}]",
                remedy="every item has an id of its own; several replies to an item need a frozen set",
            )
