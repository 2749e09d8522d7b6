"""Scores, references, ratings and replies, and what the server says of itself: the methods of a client itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Optional, Union

from refaug_client._api.bodies import (
    SYSTEM,
    Body,
    attach_replies,
    pair_with_candidates,
    with_metrics,
)
from refaug_client._api.items import From, Items, Metrics, OnError, Replies, WithoutReply
from refaug_client._api.methods import K, Resource, route, streamed
from refaug_client._api.models.base import Rows
from refaug_client._api.models.references import Ratings, ReferencedItem, References
from refaug_client._api.models.replies import BotReplies, HybridScores
from refaug_client._api.models.scores import MetricInfo, ScoredItem, Scores, Verification
from refaug_client._api.models.server import Health, ProblemCode, Ready, ServerFigures
from refaug_client._core.progress import Progress
from refaug_client._http.call import Answer, error_of
from refaug_client._large.batches import AT_ONCE, BATCH, Input
from refaug_client._large.documents import LargeRatings, LargeReferences, LargeReplies
from refaug_client._large.sending import Streaming
from refaug_client._large.streams import LargeScores, StreamedRatings, StreamedReferences, StreamedScores


def _whole_items(body: Body) -> Body:
    """Return the body with replies in the items, and the metrics as a list."""
    replies, system = body.pop("replies", None), body.pop("system", SYSTEM)
    if replies is not None:
        body["items"] = attach_replies(body["items"], replies, system)
    return with_metrics(body)


def _plain_scores(body: Body) -> Body:
    scores = body["scores"]
    return _whole_items({**body, "scores": scores.to_dict() if isinstance(scores, Scores) else scores})


def _with_candidates(body: Body) -> Body:
    return {**body, "pairs": list(map(pair_with_candidates, body["pairs"]))}


def _read_readiness(answer: Answer) -> Ready:
    document = answer.json()
    if answer.status == 503:
        if document.get("code") != "not_ready":
            raise error_of(answer)
        document = {**document, "status": "not ready"}
    return Ready.of(document)


def _read_text(answer: Answer) -> str:
    if not answer.headers.get("content-type", "").lower().startswith("text/plain"):
        answer.refuse("an answer that is not Prometheus' text")
    return answer.content.decode("utf-8")


class ScoringCalls(Resource[K]):
    """The methods of a client that are about no part of the API: scores, references, ratings, and the server."""

    @route("POST", "/v1/references", timed=True, large=LargeReferences)
    def references(
        self,
        items: Items,
        *,
        index: Optional[str] = None,
        rater: Optional[str] = None,
        settings: Optional[Mapping[str, Any]] = None,
        on_error: Optional[OnError] = None,
        batch: int = BATCH,
        at_once: int = AT_ONCE,
        progress: Progress = None,
    ) -> References:
        """Return weighted references for items, each with its source.

            found = client.references([{"utterance": "Where do you buy tea?", "references": ["At the market."]}])
            found[0].references[0].text

        More than `batch` items go in several requests, `at_once` at a time, with the same result. `progress` is True,
        or called with how many are done and of how many; with `settings={"show_excluded": 9}` the first pairs that were
        left out come along.
        """

    @route("POST", "/v1/scores", prepare=_whole_items, timed=True, large=LargeScores)
    def score(
        self,
        items: Items,
        *,
        replies: Optional[Replies] = None,
        system: str = SYSTEM,
        metric: Optional[str] = None,
        metrics: Metrics = None,
        references: Optional[From] = None,
        index: Optional[str] = None,
        rater: Optional[str] = None,
        settings: Optional[Mapping[str, Any]] = None,
        draws: int = 0,
        confidence: Optional[float] = None,
        seed: Optional[int] = None,
        baseline: Optional[str] = None,
        explain: bool = False,
        percent: bool = False,
        require_passport: bool = False,
        language: Optional[str] = None,
        on_error: Optional[OnError] = None,
        return_: Optional[Literal["scores", "stats"]] = None,
        batch: int = BATCH,
        at_once: int = AT_ONCE,
        progress: Progress = None,
    ) -> Scores:
        """Return scores of replies: of those in the items, or of `replies`, one for each item (by system if several).

            scores = client.score(items, replies=["In the shop next door.", "At noon."], metric="upsilon-bleu")
            scores.corpus, scores.replies, scores.signature

        More than `batch` items go in several requests, `at_once` at a time; the result is the same as of one request.
        `progress=True` shows the progress, a function is called with how many are done and of how many.
        """

    @route("POST", "/v1/ratings", prepare=_with_candidates, timed=True, large=LargeRatings)
    def rate(
        self,
        pairs: Items,
        *,
        rater: Optional[str] = None,
        combine: Optional[str] = None,
        calibrated: bool = False,
        batch: int = BATCH,
        at_once: int = AT_ONCE,
        progress: Progress = None,
    ) -> Ratings:
        """Return a rater's ratings of candidates, from -1 to 1.

            pair = {"utterance": "Where do you buy tea?", "golds": ["At the market."], "candidates": ["In the shop."]}
            client.rate([pair]).ratings

        More than `batch` pairs go in several requests, `at_once` at a time; the result is the same as of one request.
        `progress=True` shows the progress, a function is called with how many are done and of how many.
        """

    @route("POST", "/v1/replies", timed=True, large=LargeReplies)
    def replies(
        self,
        items: Items,
        bots: Mapping[str, str],
        *,
        replace: bool = False,
        without_reply: Optional[WithoutReply] = None,
        on_error: Optional[OnError] = None,
        batch: int = BATCH,
        at_once: int = AT_ONCE,
        progress: Progress = None,
    ) -> BotReplies:
        """Return items with the replies of bots, each bot as a further system, such as C-BM25 from an index.

            items = client.replies(items, {"c-bm25": "retrieval:chat,mode=bm25-utterance"})
            scores = client.score(items)

        An item without a reply comes back without it (`without_reply="report"`), refuses the request (`"refuse"`), or
        is left out (`"skip"`). More than `batch` items go in several requests, as those of `references` do.
        """

    @route("POST", "/v1/hybrids/{hybrid}/scores", timed=True)
    def score_conversations(
        self,
        hybrid: str,
        conversations: Optional[Sequence[Mapping[str, Any]]] = None,
        *,
        self_play: Optional[str] = None,
        on_error: Optional[OnError] = None,
    ) -> HybridScores:
        """Return scores of whole conversations, or of a self-play of the server, by a hybrid.

            talk = {"bot": "mine", "turns": [{"role": "user", "text": "Hi!"}, {"role": "bot", "text": "Hello."}]}
            scores = client.score_conversations("chat", [talk])
            scores[0].score, scores.bots

        A job of kind `hybrid-fit` makes the hybrid. Conversations that it was fitted to are in `trained_on`.
        """

    @route("POST", "/v1/verifications", prepare=_plain_scores, timed=True)
    def verify(
        self,
        scores: Union[Scores, Mapping[str, Any]],
        items: Items,
        *,
        replies: Optional[Replies] = None,
        system: str = SYSTEM,
    ) -> Verification:
        """Make scores again from their signatures, and return for each part whether it holds, differs or is missing.

            verification = client.verify(scores, items)
            verification.holds, verification.in_state("differs")

        `scores` is a result of `score` of one request, or its JSON: of `scores.to_dict()`, or of `refaug score --json`.
        """

    @route("POST", "/v1/scores/combine", timed=True)
    def combine(
        self,
        batches: Iterable[Any],
        *,
        draws: int = 0,
        confidence: Optional[float] = None,
        seed: Optional[int] = None,
        baseline: Optional[str] = None,
        on_error: Optional[OnError] = None,
    ) -> Scores:
        """Return corpus scores of several batches, as if all had been scored at once.

        Batches are the results of `score` and `sets.score` with `return_="stats"`, all by the same metrics. With
        `on_error="report"` a metric that suits no batch is a problem beside the scores of the others.
        """

    # ── one by one ────────────────────────────────────────────────────────────────────────────────────────────────

    @streamed("/v1/references", StreamedReferences, timed=True)
    def references_iter(
        self,
        items: Input[Any],
        *,
        index: Optional[str] = None,
        rater: Optional[str] = None,
        settings: Optional[Mapping[str, Any]] = None,
        on_error: Optional[OnError] = None,
        batch: int = BATCH,
        at_once: int = AT_ONCE,
        progress: Progress = None,
    ) -> Streaming[ReferencedItem]:
        """Yield items with their references as they come, in the order of the input, which may have no end.

        The input is read while the results are: at most `at_once` + 1 batches ahead of them. Leaving the loop stops the
        sending; an error comes after all results before it.

            for item in client.references_iter(json.loads(line) for line in open("items.jsonl")):
                print(item.id, len(item.references))
        """

    @streamed("/v1/scores", StreamedScores, prepare=with_metrics, timed=True)
    def score_iter(
        self,
        items: Input[Any],
        *,
        metric: Optional[str] = None,
        metrics: Metrics = None,
        references: Optional[From] = None,
        index: Optional[str] = None,
        rater: Optional[str] = None,
        settings: Optional[Mapping[str, Any]] = None,
        explain: bool = False,
        percent: bool = False,
        require_passport: bool = False,
        language: Optional[str] = None,
        on_error: Optional[OnError] = None,
        batch: int = BATCH,
        at_once: int = AT_ONCE,
        progress: Progress = None,
    ) -> Streaming[ScoredItem]:
        """Yield the scores of each item's replies as they come, as `references_iter` does; no corpus score.

        A metric that looks at all items at once, such as cider, cannot be used here.

            for item in client.score_iter(items, metric="upsilon-bleu"):
                print(item.id, item.score)
        """

    @streamed("/v1/ratings", StreamedRatings, timed=True)
    def rate_iter(
        self,
        pairs: Input[Any],
        *,
        rater: Optional[str] = None,
        combine: Optional[str] = None,
        calibrated: bool = False,
        batch: int = BATCH,
        at_once: int = AT_ONCE,
        progress: Progress = None,
    ) -> Streaming[list[float]]:
        """Yield for each pair the ratings of its candidates as they come, as `references_iter` does."""

    # ── the server ────────────────────────────────────────────────────────────────────────────────────────────────

    @route("GET", "/v1/metrics", key="metrics")
    def metrics(self) -> Rows[MetricInfo]:
        """Return the server's metrics: what each needs, its range, its parameters."""

    @route("GET", "/healthz")
    def health(self) -> Health:
        """Return the server's status and its version."""

    @route("GET", "/readyz", read=_read_readiness, expected=(503,))  # which names what is missing
    def ready(self) -> Ready:
        """Return whether the server answers without waiting for anything; `missing` names what is not there yet."""

    @route("GET", "/v1/figures")
    def server_figures(self, *, hours: Optional[int] = None) -> ServerFigures:
        """Return requests, latencies, failures and sizes of the last hours, by default of a week."""

    @route("GET", "/metrics", read=_read_text, headers={"Accept": "text/plain"})
    def server_metrics(self) -> str:
        """Return the server's figures, in Prometheus' text format."""

    @route("GET", "/problems/{code}")
    def explain(self, code: str) -> ProblemCode:
        """Return the meaning of a problem's code, such as that of an error: `client.explain(error.code)`."""
