"""Corpus scores of a scorer: of one request, or of the sums of several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Callable, Optional, TypeVar

from refaug_client._api.bodies import SYSTEM
from refaug_client._core import errors
from refaug_client._http.call import Answer, Call
from refaug_client._large.batches import is_too_large
from refaug_client._scorer.settings import ScorerSettings

from .answers import ReplyValues, read_corpus, read_reply_sums, require_known_items
from .set_client import SetClient

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
