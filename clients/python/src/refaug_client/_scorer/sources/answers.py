"""How a scorer reads the server's answers, and which errors mean that the server is unavailable."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional

from refaug_client._api.bodies import SYSTEM
from refaug_client._core import errors
from refaug_client._http.call import Answer
from refaug_client._large.batches import is_too_large
from refaug_client._large.scores import read_sums, without_scores

from .cache import namespace_of

_NOT_IMPLEMENTED = 501  # the server lacks a part, and a retry would bring the same


@dataclass(frozen=True)
class Facts:
    """What scores depend on beside the texts: the set, its purpose, the signature."""

    set: str
    purpose: str
    signature: str
    full: str
    namespace: bytes


@dataclass(frozen=True)
class ReplyValues:
    """The server's answer about some replies."""

    facts: Facts
    values: list[Optional[float]]
    corpus: Optional[float]
    unknown: Mapping[int, errors.RefaugError]  # by place: items that the set does not have
    copied: frozenset[int]  # places of replies that repeat the utterance

    @classmethod
    def of(cls, answer: Answer, query: Mapping[str, Any], count: int) -> ReplyValues:
        """Read an answer; KeyError, TypeError or ValueError for one that does not fit the request."""
        body = answer.json()
        (metric_scores,) = body["scores"]
        system_scores = metric_scores["systems"][SYSTEM]
        values = system_scores["values"]
        numbers = [value for value in (*values, system_scores["corpus"]) if value is not None]
        if len(values) != count or not set(map(type, numbers)) <= {float, int} or not all(map(math.isfinite, numbers)):
            raise ValueError(f"{count} finite numbers or nulls are expected in values")
        places = [problem["place"] for problem in body["problems"]]
        if not all(type(place) is int and 0 <= place < count for place in places):
            raise ValueError("problems of replies that were not sent")
        copied = ((body.get("copies") or {}).get(SYSTEM) or {}).get("rows") or []
        if not all(type(row) is int and 0 <= row < count for row in copied):
            raise ValueError("copies among replies that were not sent")
        return cls(
            facts=_facts_of(body["set"], metric_scores, query),
            values=[None if value is None else float(value) for value in values],
            corpus=None if system_scores["corpus"] is None else float(system_scores["corpus"]),
            unknown={problem["place"]: unknown_item_error([problem]) for problem in body["problems"]},
            copied=frozenset(copied),
        )

    def require_known_items(self) -> None:
        """BadInput for items that the set does not have."""
        for error in self.unknown.values():
            raise error


def _facts_of(set_facts: Mapping[str, Any], metric_scores: Mapping[str, Any], query: Mapping[str, Any]) -> Facts:
    settings = [query.get(key) for key in ("metrics", "language", "percent")]
    set_id, full = str(set_facts["id"]), str(metric_scores["signature_full"])
    return Facts(
        set=set_id,
        purpose=str(set_facts["purpose"]),
        signature=str(metric_scores["signature"]),
        full=full,
        namespace=namespace_of(set_id, settings, metric_scores["scale"], full, "copies apart"),
    )


def require_known_items(problems: Sequence[Mapping[str, Any]]) -> None:
    """BadInput where an answer has problems: items that the set does not have."""
    if problems:
        raise unknown_item_error(problems)


def unknown_item_error(problems: Sequence[Mapping[str, Any]]) -> errors.BadInput:
    """Return the error of items that the set does not have."""
    document = {"code": "bad_input", "detail": problems[0]["message"], "errors": [dict(one) for one in problems]}
    return errors.BadInput(str(problems[0]["message"]), problem=document, remedy="ids of items of the set")


def is_unavailable(error: errors.RefaugError) -> bool:
    """Whether a later try may well succeed; a key that is refused is a mistake and not such a case."""
    if isinstance(error, errors.ServerFault):
        return error.status != _NOT_IMPLEMENTED
    if isinstance(error, errors.BadAnswer):  # a proxy's page, half an answer; but not another program's good JSON
        return not error.complete and not is_too_large(error)
    return isinstance(error, (errors.NoAnswer, errors.Later))


def read_reply_sums(answer: Answer, count: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the sums in an answer, as they are sent back to be added, and its problems."""
    document = read_sums(answer)
    problems = list(document["problems"])
    if not problems and len(document["stats"][0]["systems"][SYSTEM]["rows"]) != count:
        raise ValueError(f"sums of {count} replies are expected")
    batch: dict[str, Any] = {key: document[key] for key in ("data", "set") if key in document}
    batch["stats"] = [without_scores(sheet) for sheet in document["stats"]]
    return batch, problems


def read_corpus(answer: Answer) -> Optional[float]:
    """Return the corpus score in an answer."""
    corpus = answer.json()["scores"][0]["systems"][SYSTEM]["corpus"]
    if corpus is None:
        return None
    if type(corpus) not in (float, int) or not math.isfinite(corpus):
        raise ValueError("a finite number or null is expected")
    return float(corpus)
