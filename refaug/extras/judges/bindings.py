"""Bind the metric `judge` to the judge that it names, `likelihood` and `adem` to their networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

import numpy as np

from refaug.bots.endpoint.addresses import AddressPolicy, AddressRefused
from refaug.bots.endpoint.client import ClientSettings
from refaug.bots.endpoint.judge_files import answers_path, find_judge, spending_path
from refaug.bots.endpoint.specification import Endpoint
from refaug.bots.endpoint.spending import DailyTokens
from refaug.core.errors import BadInput, NotAllowed
from refaug.core.home import Settings
from refaug.core.progress import Progress, Silent
from refaug.extras.judges.language_models.asking import Asking
from refaug.extras.judges.language_models.pointwise import PointwiseJudge, sampling_of
from refaug.extras.judges.language_models.rubric import find_rubric
from refaug.extras.judges.metrics.adem import FittedReplies, ReplyToJudge
from refaug.extras.judges.metrics.judged_replies import JudgedReplies
from refaug.extras.judges.metrics.likelihood import Context, LikelyReplies, PieceLikelihoods
from refaug.extras.judges.passports.validity import PassportCheck
from refaug.metrics.base import Floats, Metric
from refaug.rater.adem.scorer.adem import Adem
from refaug.rater.adem.scorer.rated_triples import Triple
from refaug.rater.adem.vhred.artefact import Vhred
from refaug.rater.language_coverage import Coverage
from refaug.scoring.metric_setup.model_registry import ModelRegistry
from refaug.scoring.metric_setup.scoring_steps import Bind


def with_judge(
    metrics: Sequence[Metric],
    models: ModelRegistry,
    progress: Progress | None = None,
    bind: Bind | None = None,  # noqa: ARG001
) -> list[Metric]:
    """Return the metrics, those that need a judge bound to the one that they name; rubric and file are checked here."""
    return [
        metric.with_judge(_judge_of(metric, models, progress or Silent()))
        if isinstance(metric, JudgedReplies)
        else metric
        for metric in metrics
    ]


def open_asking(
    home: Settings, judge: str, progress: Progress | None = None, client: ClientSettings | None = None
) -> Asking:
    """Return the judge's endpoint with the stored answers of the home."""
    return Asking(
        endpoint=find_judge(home, judge),
        answers=answers_path(home),
        client=client or ClientSettings(),
        progress=progress or Silent(),
    )


def _judge_of(metric: JudgedReplies, models: ModelRegistry, progress: Progress) -> PointwiseJudge:
    settings = metric.settings
    asking = asking_of(models.judge(metric.model), models, progress)
    rubric, sampling = find_rubric(settings["rubric"]), sampling_of(settings)
    check = PassportCheck(models.home, asking, rubric, sampling, settings) if models.asks_judge else None
    return PointwiseJudge(asking, rubric, sampling, check)


def asking_of(endpoint: Endpoint, models: ModelRegistry, progress: Progress) -> Asking:
    """Return how the judge is asked: as its file says, and within the limits of a server and of one budget."""
    asking = _asking_alone(endpoint, models, progress)
    if models.spending is not None:
        asking.spending = models.spending.setdefault(endpoint.spec, asking.spending)
    return asking


def _asking_alone(endpoint: Endpoint, models: ModelRegistry, progress: Progress) -> Asking:
    limits, home = models.judge_limits, models.home
    if limits is None:
        client = ClientSettings(is_offline=not models.asks_judge)
        return Asking(endpoint=endpoint, answers=answers_path(home), client=client, progress=progress)
    advice = "the operator of the server adds {entry} to --judge-hosts of refaug serve (REFAUG_JUDGE_HOSTS)"
    policy = AddressPolicy.of_list(limits.hosts, advice)
    _require_host(endpoint, policy)
    return Asking(
        endpoint=endpoint,
        answers=answers_path(home),
        client=ClientSettings(policy=policy),
        progress=progress,
        days=DailyTokens(spending_path(home), limits.tokens_a_day),
    )


def _require_host(endpoint: Endpoint, policy: AddressPolicy) -> None:
    parts = urlsplit(endpoint.url)
    try:
        policy.require_host(parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))
    except AddressRefused as refused:
        raise NotAllowed(f"judge {endpoint.name}: {refused.reason}", remedy=refused.advice) from refused


# ── Bind the metric `likelihood` to the VHRED that its parameter names ────────────────────────────────────────────────


class ReplyLikelihoods:
    """A VHRED that tells how likely replies are, for one evaluation.

    Results are cached, so that equal replies in one context tie to the last bit, whatever batch each is in.
    """

    def __init__(self, vhred: Vhred) -> None:
        if not vhred.config.is_trained:
            raise BadInput(
                f"the vhred {vhred.spec} was never trained: likelihoods by drawn weights mean nothing",
                remedy="name one that was pre-trained: refaug artefacts list vhred",
            )
        self._vhred = vhred
        self._logs = dict[tuple[Context, str], PieceLikelihoods]()
        self._coverage = Coverage()

    @property
    def spec(self) -> str:
        """The name, version and content of the VHRED."""
        return self._vhred.spec

    def log_likelihoods(self, replies: Sequence[tuple[Context, str]]) -> list[PieceLikelihoods]:
        """Return those of the pieces of each reply, and of its end."""
        new = [reply for reply in dict.fromkeys(replies) if reply not in self._logs]
        if new:
            texts = dict.fromkeys(text for context, reply in new for text in (*context, reply))
            self._coverage += self._vhred.coverage(list(texts))
            logs = self._vhred.log_likelihoods([context for context, _ in new], [reply for _, reply in new])
            self._logs |= zip(new, map(PieceLikelihoods.of, logs), strict=True)
        return [self._logs[reply] for reply in replies]

    def remarks(self) -> tuple[str, ...]:
        """Return a warning if the texts so far are in a language that the VHRED does not know."""
        warning = self._vhred.unfamiliar(self._coverage)
        return () if warning is None else (warning,)


def with_likelihoods(
    metrics: Sequence[Metric],
    models: ModelRegistry,
    progress: Progress | None = None,  # noqa: ARG001
    bind: Bind | None = None,  # noqa: ARG001
) -> list[Metric]:
    """Return the metrics, those of likelihoods bound to the VHRED that each names."""
    return [
        metric.with_model(ReplyLikelihoods(models.vhred(metric.model))) if isinstance(metric, LikelyReplies) else metric
        for metric in metrics
    ]


# ── Bind the metric `adem` to the adem that it names ──────────────────────────────────────────────────────────────────


class ReplyAdem:
    """An adem that judges replies for the metric, for one evaluation.

    Scores are cached, so that equal replies in one context tie to the last bit, whatever batch each is in.
    """

    def __init__(self, adem: Adem) -> None:
        self._adem = adem
        self._scores = dict[Triple, float]()

    @property
    def form(self) -> str:
        """The form of the scorer."""
        return self._adem.form.value

    @property
    def settings(self) -> Mapping[str, str]:
        """The state of the encoder, and the names, versions and contents of adem and vhred."""
        return {"model": self._adem.spec, "state": self._adem.state, "vhred": self._adem.encoder.spec}

    def judge(self, replies: Sequence[ReplyToJudge], *, multiple: str) -> Floats:
        """Return the scores of replies, over the references of each."""
        triples = [list(self._triples(reply)) for reply in replies]
        new = [triple for triple in dict.fromkeys(t for row in triples for t in row) if triple not in self._scores]
        if new:
            self._scores |= zip(new, self._adem.score(new).tolist(), strict=True)
        merge = np.max if multiple == "max" else np.mean
        return np.array([merge([self._scores[triple] for triple in row]) for row in triples], dtype=np.float64)

    def _triples(self, reply: ReplyToJudge) -> Sequence[Triple]:
        form = self._adem.form
        context = reply.turns if form.has_context else ()
        references = reply.references if form.has_reference else ("",)
        return [Triple(context=context, reference=reference, reply=reply.reply) for reference in references]

    def has_seen(self, reply: ReplyToJudge) -> bool:
        """Say whether the adem was fitted to this row; without contexts, a reply to the same reference is the row."""
        seen = self._adem.seen
        if not self._adem.form.has_context and seen.contains((), reply.references, reply.reply):
            return True
        return seen.contains(reply.turns, reply.references, reply.reply)

    def remarks(self) -> tuple[str, ...]:
        """Return a warning where scores so far leave the scale of ratings."""
        outside = sum(1 for score in self._scores.values() if not 1 <= score <= 5)
        if not outside:
            return ()
        return (f"adem: {outside:,} of {len(self._scores):,} scores are outside 1 to 5; clip=yes ends them there",)


def with_adem(
    metrics: Sequence[Metric],
    models: ModelRegistry,
    progress: Progress | None = None,  # noqa: ARG001
    bind: Bind | None = None,  # noqa: ARG001
) -> list[Metric]:
    """Return the metrics, those that need an adem bound to the one that they name."""
    return [
        metric.with_judge(ReplyAdem(models.adem(metric.model))) if isinstance(metric, FittedReplies) else metric
        for metric in metrics
    ]
