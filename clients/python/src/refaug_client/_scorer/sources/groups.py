"""Scores of a group of replies: from the cache where it has them, else from the server, and settled in the ledger."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Callable, Optional, TypeVar

from refaug_client._api.bodies import SYSTEM
from refaug_client._core import errors
from refaug_client._http.call import Answer, Call
from refaug_client._large.batches import is_too_large
from refaug_client._scorer.ledger import Ledger, missing_texts
from refaug_client._scorer.pending import Place, Source, Text
from refaug_client._scorer.settings import ScorerSettings
from refaug_client._scorer.workers import Piece

from .cache import Cache, LayeredCache, MemoryCache, key_of
from .set_client import (
    Facts,
    ReplyValues,
    SetClient,
    is_unavailable,
    read_corpus,
    read_reply_sums,
    require_known_items,
    surrogate_error,
)

_ATTEMPTS = 3  # of a group, when the server was replaced in the middle

Places = dict[Text, list[Place]]
TextScores = Mapping[Text, Optional[float]]


class GroupScorer:
    """Finds out the scores of a group of replies, and gives every reply its outcome."""

    def __init__(
        self,
        settings: ScorerSettings,
        ledger: Ledger,
        server: SetClient,
        cache: Optional[Cache],
        last_scores: MemoryCache[str],
    ) -> None:
        self._settings, self._ledger, self._server = settings, ledger, server
        self._cache, self._last_scores = cache, last_scores

    def score(self, pieces: Sequence[Piece]) -> None:
        """Score the replies of some pieces that have no outcome yet."""
        with self._ledger.lock:
            texts = missing_texts((piece.submission, range(piece.first, piece.end)) for piece in pieces)
        texts = self._without_lone_surrogates(texts)
        deadline = _latest(piece.submission.deadline for piece in pieces)
        for _ in range(_ATTEMPTS):
            if not texts or self._attempt(texts, deadline):
                return
        with self._ledger.lock:
            self._ledger.give_up(
                texts, errors.BadAnswer("the server scores by another signature each time it is asked")
            )

    def _attempt(self, texts: Places, deadline: Optional[float]) -> bool:
        """Score them all by one signature; False where the server was replaced meanwhile, and nothing is settled."""
        facts = self._server.facts
        try:
            if facts is None and isinstance(self._cache, LayeredCache):
                facts = self._server.learn(deadline)
        except errors.RefaugError as error:
            self._refuse(texts, error)
            return True
        keys = {} if facts is None else self._keys(texts, facts)
        stored = {} if self._cache is None else self._cache.get(keys.values())
        cached = {text: stored[key] for text, key in keys.items() if key in stored} if stored else {}
        missing = {text: places for text, places in texts.items() if text not in cached} if cached else texts
        answers = self._ask(missing, deadline, facts, keys) if missing else []
        if answers is None:
            return False
        with self._ledger.lock:
            if facts is not None:
                self._settle(texts, cached, facts, "cache")
            for scores, facts, source in answers:
                self._settle(texts, scores, facts, source)
        return True

    def _keys(self, texts: Iterable[Text], facts: Facts) -> dict[Text, bytes]:
        """Return the keys of scores in the cache."""
        return {} if self._cache is None else {text: key_of(facts.namespace, *text) for text in texts}

    def _settle(self, texts: Mapping[Text, Sequence[Place]], scores: TextScores, facts: Facts, source: Source) -> None:
        outcomes = [(place, score) for text, score in scores.items() for place in texts[text]]
        for submission in {place[0] for place, _ in outcomes}:
            if facts.signature not in submission.signatures:
                submission.signatures.append(facts.signature)
        self._ledger.settle(outcomes, source)
        if self._settings.on_unavailable == "last":
            self._last_scores.put({item_id: score for (item_id, _), score in scores.items() if score is not None})

    def _ask(
        self, missing: Places, deadline: Optional[float], facts: Optional[Facts], keys: Mapping[Text, bytes]
    ) -> Optional[list[tuple[TextScores, Facts, Source]]]:
        """Return the server's scores, and settle what it refuses; None where it scores by another signature now.

        Copies of the utterance are not stored in the cache, which has no room to say that they are copies.
        """
        waiting = deque([missing])
        answers: list[tuple[TextScores, Facts, Source]] = []
        while waiting:
            sent = waiting.popleft()
            try:
                answer = self._server.score(list(sent), deadline)
            except errors.RefaugError as error:
                parts, refused = _split_refused(sent, error)
                waiting.extendleft(reversed(parts))
                if refused:
                    self._refuse(refused, error)
                continue
            if facts is not None and answer.facts.namespace != facts.namespace:
                return None
            facts = answer.facts
            scores = dict(zip(sent, answer.values))
            if answer.unknown:
                self._fail_unknown(sent, scores, answer.unknown)
            copies = {text: scores.pop(text) for text in _at(sent, answer.copied) if text in scores}
            if self._cache is not None:
                keys = keys or self._keys(missing, facts)
                self._cache.put({keys[text]: score for text, score in scores.items()})
            answers += [(scores, facts, "server"), (copies, facts, "copied")]
        return answers

    def _fail_unknown(
        self, sent: Places, scores: dict[Text, Optional[float]], unknown: Mapping[int, errors.RefaugError]
    ) -> None:
        """Let replies to items fail that the set does not have, and no others."""
        texts = list(sent)
        with self._ledger.lock:
            for place, error in unknown.items():
                scores.pop(texts[place], None)
                self._ledger.fail(sent[texts[place]], error)

    def _refuse(self, texts: Places, error: errors.RefaugError) -> None:
        """Settle replies that have no score because of an error; an unavailable server is left alone for a while."""
        with self._ledger.lock:
            if not is_unavailable(error):
                for places in texts.values():
                    self._ledger.fail(places, error)
                return
            if self._settings.on_unavailable != "raise":
                self._server.rest.begin(time.monotonic())
            self._ledger.give_up(texts, error)

    def _without_lone_surrogates(self, texts: Places) -> Places:
        """Return the texts that can be sent, and let the others fail: half a surrogate pair is no character."""
        if _is_encodable("".join(map("".join, texts))):
            return texts
        sound = {text: places for text, places in texts.items() if _is_encodable(text[0]) and _is_encodable(text[1])}
        with self._ledger.lock:
            for text, places in texts.items():
                if text not in sound:
                    self._ledger.fail(places, surrogate_error("replies" if _is_encodable(text[0]) else "items"))
        return sound


def _at(sent: Places, places: Collection[int]) -> list[Text]:
    """Return the texts in these places of a request."""
    return [text for place, text in enumerate(sent) if place in places] if places else []


def _split_refused(sent: Places, error: errors.RefaugError) -> tuple[list[Places], Places]:
    """Return the parts of a refused request that are worth sending again, and the replies that are refused for good."""
    texts = list(sent)
    if is_too_large(error) and len(texts) > 1:
        half = len(texts) // 2
        return [{text: sent[text] for text in part} for part in (texts[:half], texts[half:])], {}
    if not isinstance(error, errors.BadInput) or len(texts) == 1:
        return [], sent
    bad_places = {problem.get("place") for problem in error.errors}
    if bad_places and all(type(place) is int and 0 <= place < len(texts) for place in bad_places):
        good = {text: sent[text] for place, text in enumerate(texts) if place not in bad_places}
        return [good] if good else [], {text: sent[text] for text in texts if text not in good}
    by_submission: dict[int, Places] = {}
    for text in texts:
        by_submission.setdefault(sent[text][0][0].number, {})[text] = sent[text]
    return (list(by_submission.values()), {}) if len(by_submission) > 1 else ([], sent)


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _latest(deadlines: Iterable[Optional[float]]) -> Optional[float]:
    """Return the last deadline; None where one of them is no limit."""
    listed = list(deadlines)
    return None if None in listed else max(deadline for deadline in listed if deadline is not None)


# ── Corpus scores of a scorer: of one request, or of the sums of several ──────────────────────────────────────────────

T = TypeVar("T")
Replies = Sequence[Optional[str]]

_CORPUS_REPLIES = 2_000  # of which a corpus score is asked for in one request; of more, sums are combined


class CorpusScorer:
    """Asks the server for corpus scores; a request that is too large is cut into smaller ones."""

    def __init__(self, settings: ScorerSettings, server: SetClient) -> None:
        self._settings, self._server = settings, server

    def score(self, texts: Replies, ids: Sequence[str], deadline: Optional[float]) -> Optional[float]:
        """Return the corpus score of these replies; None where none of them has a score."""
        size = _CORPUS_REPLIES
        while True:
            try:
                if len(ids) <= size:
                    return self._score_at_once(texts, ids, deadline)
                batches = self._sums(texts, ids, size, deadline)
            except (errors.BadInput, errors.BadAnswer) as error:
                if not is_too_large(error) or size == 1:
                    raise
                size = max(1, min(size, len(ids)) // 2)
            else:
                return self._combine(batches, deadline)

    def _score_at_once(self, texts: Replies, ids: Sequence[str], deadline: Optional[float]) -> Optional[float]:
        query = self._settings.query
        read = partial(ReplyValues.of, query=query, count=len(ids))
        answer = self._server.send(self._call(query, texts, ids, read), deadline)
        answer.require_known_items()
        self._server.note(answer.facts)
        return answer.corpus

    def _sums(self, texts: Replies, ids: Sequence[str], size: int, deadline: Optional[float]) -> list[dict[str, Any]]:
        """Return the sums that a corpus score is made of, of `size` replies a request."""
        query = {key: setting for key, setting in self._settings.query.items() if key != "percent"}
        if self._server.facts is None:
            self._server.learn(deadline)  # sums do not say what the set is for
        query["return"] = "stats"
        batches = []
        for first in range(0, len(ids), size):
            chunk = ids[first : first + size]
            read = partial(read_reply_sums, count=len(chunk))
            batch, problems = self._server.send(self._call(query, texts[first : first + size], chunk, read), deadline)
            require_known_items(problems)
            batches.append(batch)
        return batches

    def _combine(self, batches: Sequence[dict[str, Any]], deadline: Optional[float]) -> Optional[float]:
        """Have the server add the sums of several requests as if all had been one."""
        if all(row is None for batch in batches for row in batch["stats"][0]["systems"][SYSTEM]["rows"]):
            return None
        call = Call("POST", "/v1/scores/combine", read_corpus, body={"batches": batches}, timed=True)
        try:
            corpus = self._server.send(call, deadline)
        except errors.RefaugError as error:
            if is_too_large(error):  # smaller requests for sums would not make them fewer
                error.remedy = "fewer replies at once, or a server that takes larger bodies"
            raise
        return corpus * 100.0 if self._settings.percent and corpus is not None else corpus

    def _call(
        self, query: Mapping[str, Any], texts: Replies, ids: Sequence[str], read: Callable[[Answer], T]
    ) -> Call[T]:
        body = {**query, "items": ids, "replies": {SYSTEM: texts}}
        return Call("POST", self._server.path, read, body=body, timed=True)
