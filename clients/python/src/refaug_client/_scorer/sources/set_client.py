"""A scorer's requests to the server: scores against its set, and what these scores depend on."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Callable, Optional, TypeVar

import httpx

from refaug_client._api.bodies import SYSTEM
from refaug_client._core import errors
from refaug_client._http.call import Answer, Call, path
from refaug_client._http.connection import Connection
from refaug_client._http.exchange import Exchange
from refaug_client._http.settings import ConnectionSettings
from refaug_client._large.batches import is_too_large
from refaug_client._large.streams import read_sums, without_scores
from refaug_client._scorer.ledger import Ledger
from refaug_client._scorer.pending import Text
from refaug_client._scorer.settings import ScorerSettings, retry_until

from .cache import MemoryCache, namespace_of

# ── How a scorer reads the server's answers, and which errors mean that the server is unavailable ─────────────────────

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


def surrogate_error(field: str) -> errors.BadInput:
    """Return the error of a text that cannot be sent: half a surrogate pair is no character."""
    message = f"{field}: half a surrogate pair in a text"
    document = {"code": "bad_input", "detail": message, "errors": [{"field": field, "message": message}]}
    return errors.BadInput(message, problem=document, remedy="text that can be written as UTF-8")


def is_of_reply(error: errors.RefaugError) -> bool:
    """Whether an error is that of a reply's own text: it is too long, or cannot be sent."""
    fields = [str(problem.get("field")) for problem in error.errors] if isinstance(error, errors.BadInput) else []
    return bool(fields) and all(field.startswith("replies") for field in fields)


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


# ── A scorer's requests to the server: scores against its set, and what these scores depend on ────────────────────────

T = TypeVar("T")
logger = logging.getLogger(__name__)

_FIRST_REST_S, _LONGEST_REST_S = 0.5, 10.0


class ScorerConnection(Connection):
    """The connection of one scorer, closed with it; calls `count_retry` before every retry."""

    def __init__(
        self, to: ConnectionSettings, count_retry: Callable[[], None], http: Optional[httpx.Client] = None
    ) -> None:
        super().__init__(to, http)
        self._count_retry = count_retry

    def _request(self, sending: Exchange[Any]) -> tuple[httpx.Client, httpx.Request]:
        if sending.try_count:
            self._count_retry()
        return super()._request(sending)


class Rest:
    """A pause in which no request is sent, after the server did not answer; twice as long each time, up to a limit."""

    def __init__(self) -> None:
        self._length_s = self.until = 0.0

    def begin(self, now: float) -> None:
        """Begin a pause, unless one is on."""
        if now >= self.until:
            self._length_s = min(max(2 * self._length_s, _FIRST_REST_S), _LONGEST_REST_S)
            self.until = now + self._length_s

    def require_over(self, now: float) -> None:
        """TimedOut where a pause is on."""
        if now < self.until:
            raise errors.TimedOut("not asked for, since the server did not answer just before")

    def end(self) -> None:
        """End it, since the server has answered."""
        self._length_s = self.until = 0.0


class SetClient:
    """Sends a scorer's requests, and remembers by which signature the server scores."""

    def __init__(
        self,
        to: ConnectionSettings,
        settings: ScorerSettings,
        ledger: Ledger,
        http: Optional[httpx.Client],
        caches_of_last: Sequence[MemoryCache[Any]],
    ) -> None:
        self._to, self._settings, self._ledger, self._http = to, settings, ledger, http
        self._caches_of_last = caches_of_last
        self.facts: Optional[Facts] = None
        self.signatures: list[str] = []
        self.rest = Rest()
        self.connection = self._new_connection()

    def _new_connection(self) -> ScorerConnection:
        to = retry_until(self._to, self._settings)
        return ScorerConnection(to, partial(self._ledger.count, "retries"), self._http)

    def begin_again(self) -> None:
        """In a forked process: connect anew; an httpx client that was handed in refuses its use here by itself."""
        self.rest.end()
        if self._http is None:
            self.connection = self._new_connection()

    def close(self) -> None:
        """End all requests and connections."""
        self.connection.close()

    # ── requests ──────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def path(self) -> str:
        """The route of scores against the set."""
        set_id = self._settings.reference_set if self.facts is None else self.facts.set
        return path("v1", "reference-sets", set_id, "scores")

    def score(self, texts: Sequence[Text], deadline: Optional[float]) -> ReplyValues:
        """Send one request for the scores of some replies; TimedOut while the server is left alone."""
        now = time.monotonic()
        with self._ledger.lock:
            self.rest.require_over(now)
            self._ledger.tally["requests"] += 1
            self._ledger.tally["sent"] += len(texts)
        body = {
            **self._settings.query,
            "items": [item_id for item_id, _ in texts],
            "replies": {SYSTEM: [text for _, text in texts]},
        }
        call = self._call(body, len(texts))
        answer = self.connection.send(call, within_s=None if deadline is None else deadline - now)
        self.note(answer.facts)
        return answer

    def learn(self, deadline: Optional[float] = None) -> Facts:
        """Ask what scores depend on, without any reply."""
        body = {**self._settings.query, "items": [""], "replies": {SYSTEM: [None]}}
        within_s = None if deadline is None else max(0.0, deadline - time.monotonic())
        facts = self.connection.send(self._call(body, 1), within_s=within_s).facts
        self.note(facts)
        return facts

    def _call(self, body: dict[str, Any], count: int) -> Call[ReplyValues]:
        def read(answer: Answer) -> ReplyValues:
            return ReplyValues.of(answer, self._settings.query, count)

        return Call("POST", self.path, read, body=body, timed=True)

    def send(self, call: Call[T], deadline: Optional[float]) -> T:
        """Send another request, and count it."""
        self._ledger.count("requests")
        return self.connection.send(call, within_s=None if deadline is None else deadline - time.monotonic())

    # ── facts ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def note(self, facts: Facts) -> None:
        """Remember what scores depend on; WrongPurpose where the set is for something else."""
        self._require_purpose(facts)  # at first: scores are taken out of the cache by what is remembered
        with self._ledger.lock:
            before, self.facts = self.facts, facts
            self.rest.end()
            if facts.signature not in self.signatures:
                self.signatures.append(facts.signature)
            has_changed = before is not None and before.namespace != facts.namespace
            if has_changed:  # the last scores were made by another signature
                for cache in self._caches_of_last:
                    cache.clear()
            self._ledger.tally["signature_changes"] += has_changed
        if before is not None and has_changed:
            logger.warning("scores change their meaning: %s now, %s before", facts.full, before.full)

    def _require_purpose(self, facts: Facts) -> None:
        purpose = self._settings.purpose
        if purpose is not None and facts.purpose != purpose:
            raise errors.WrongPurpose(
                f"the set {facts.set} is for {facts.purpose}, not {purpose}",
                remedy="another set, or another purpose=…",
            )
        if self._settings.on_unavailable == "last" and facts.purpose == "train":
            raise errors.WrongPurpose(
                f"the set {facts.set} is for training, and values of earlier replies would be trained on",
                remedy='on_unavailable="skip", or a set for validation',
            )
