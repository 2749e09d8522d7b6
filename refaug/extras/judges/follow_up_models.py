"""What tells the metrics of follow-ups how likely a text is: a VHRED, or a language model behind an endpoint.

An endpoint is sent turns, reply and follow-up, each on its line, to `/completions` beside its chat route, and gives
the text back with log p of its tokens (`echo` and `logprobs`, as vLLM and OpenAI's older models have it).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from refaug.bots.endpoint.chat import AnswerToken, ChatMessage, ChatRequest, Fault
from refaug.core.errors import BadInput
from refaug.core.progress import Progress, Silent
from refaug.extras.judges.bindings import ReplyLikelihoods, asking_of, with_judge, with_likelihoods
from refaug.extras.judges.language_models.asking import Asking
from refaug.extras.judges.metrics.followups import FollowedReplies, find_follow_ups
from refaug.extras.judges.metrics.likelihood import Context, PieceLikelihoods
from refaug.metrics.base import Floats, Metric
from refaug.metrics.models.model_kinds import ModelKind
from refaug.scoring.metric_setup.model_registry import ModelRegistry
from refaug.scoring.metric_setup.scoring_steps import Bind

_TURN_END: Final = "\n"


class EndpointLikelihoods:
    """A language model behind an endpoint that tells how likely texts are; what it gave is stored as answers are."""

    def __init__(self, asking: Asking) -> None:
        self._asking = replace(asking, endpoint=replace(asking.endpoint, dialect="echo"))
        self._asking.spending = asking.spending

    @property
    def spec(self) -> str:
        """The name of the endpoint with the hash of its file."""
        return self._asking.endpoint.spec

    def log_likelihoods(self, replies: Sequence[tuple[Context, str]]) -> list[PieceLikelihoods]:
        """Return those of the tokens of each text after its turns; of none where there was no usable answer."""
        requests = [_request((*context, text)) for context, text in replies]
        outcomes = dict(zip(requests, self._asking.ask(requests), strict=True))
        logs = list[PieceLikelihoods]()
        for request, (_, text) in zip(requests, replies, strict=True):
            answer = outcomes[request]
            if isinstance(answer, Fault):
                logs.append(PieceLikelihoods.of(np.empty(0)))
                continue
            if not answer.tokens:
                raise BadInput(
                    f"{self._asking.endpoint.name}: {self._asking.endpoint.completions_url} gives texts back without "
                    "log-probabilities",
                    remedy="a server that gives log p of a prompt with echo and logprobs, as vLLM does",
                )
            logs.append(PieceLikelihoods.of(logs_of_last(answer.tokens, text)))
        return logs

    def remarks(self) -> tuple[str, ...]:
        """Return what was asked, and the commonest fault."""
        return tuple(self._asking.remarks())


def _request(texts: Sequence[str]) -> ChatRequest:
    prompt = _TURN_END.join(" ".join(text.split()) for text in texts).encode("utf-8", "replace").decode()
    return ChatRequest(messages=(ChatMessage("user", prompt),), max_tokens=0)


def logs_of_last(tokens: Sequence[AnswerToken], text: str) -> Floats:
    """Return log p of the tokens that the last occurrence of a text is made of; none where it is not there."""
    ends = np.cumsum([len(token.text) for token in tokens])
    last = " ".join(text.split())
    begin = "".join(token.text for token in tokens).rfind(last)
    if begin < 0:
        return np.empty(0)
    is_in = (ends > begin) & (np.concatenate([[0], ends[:-1]]) < begin + len(last))
    return np.array([token.logprob for token in tokens])[is_in]


# ── Bindings, by the kind of model that metrics name ──────────────────────────────────────────────────────────────────


def with_endpoints(
    metrics: Sequence[Metric], models: ModelRegistry, progress: Progress | None = None, bind: Bind | None = None
) -> list[Metric]:
    """Return the metrics, those that need an endpoint bound to the one that they name."""

    def bound(metric: Metric) -> Metric:
        if not isinstance(metric, FollowedReplies) or not metric.info.asks(ModelKind.JUDGE):
            return metric
        follow_ups = find_follow_ups(metric.settings["followups"])
        asking = asking_of(models.judge(metric.model), models, progress or Silent())
        return metric.with_model(EndpointLikelihoods(asking), follow_ups)

    return [bound(metric) for metric in with_judge(metrics, models, progress, bind)]


def with_networks(
    metrics: Sequence[Metric], models: ModelRegistry, progress: Progress | None = None, bind: Bind | None = None
) -> list[Metric]:
    """Return the metrics, those of likelihoods bound to the VHRED that each names."""

    def bound(metric: Metric) -> Metric:
        if not isinstance(metric, FollowedReplies) or not metric.info.asks(ModelKind.VHRED):
            return metric
        follow_ups = find_follow_ups(metric.settings["followups"])
        return metric.with_model(ReplyLikelihoods(models.vhred(metric.model)), follow_ups)

    return [bound(metric) for metric in with_likelihoods(metrics, models, progress, bind)]
