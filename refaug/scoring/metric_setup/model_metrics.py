"""Bind metrics that need models to the models of a command or request, and give `ruber` the ranges of its parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from refaug.core.errors import BadInput, Usage
from refaug.core.progress import Progress, Silent
from refaug.extras.judges.metrics.adem import FittedReplies, ReplyToJudge
from refaug.extras.judges.metrics.likelihood import Context, LikelyReplies
from refaug.metrics.base import Floats, Metric
from refaug.metrics.models.model_kinds import ModelKind
from refaug.metrics.models.model_scores import RatedReplies, RelevantReplies
from refaug.metrics.models.ruber import Ruber
from refaug.rater.adem.scorer.adem import Adem
from refaug.rater.adem.scorer.rated_triples import Triple
from refaug.rater.adem.vhred.artefact import Vhred
from refaug.rater.language_coverage import Coverage
from refaug.rater.rating import Rater
from refaug.rater.ruber.network import Relevance
from refaug.scoring.augment_settings import AugmentSettings
from refaug.scoring.home.indexes import places_of
from refaug.scoring.home.networks import ReplyJudge
from refaug.scoring.metric_setup.baseline import with_index_baseline
from refaug.scoring.metric_setup.model_registry import ModelRegistry
from refaug.scoring.metric_setup.ruber_ranges import LogSample

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
        self._logs = dict[tuple[Context, str], Floats]()
        self._coverage = Coverage()

    @property
    def spec(self) -> str:
        """The name, version and content of the VHRED."""
        return self._vhred.spec

    def log_likelihoods(self, replies: Sequence[tuple[Context, str]]) -> list[Floats]:
        """Return log p of each piece of each reply, and of its end, in nats."""
        new = [reply for reply in dict.fromkeys(replies) if reply not in self._logs]
        if new:
            texts = dict.fromkeys(text for context, reply in new for text in (*context, reply))
            self._coverage += self._vhred.coverage(list(texts))
            logs = self._vhred.log_likelihoods([context for context, _ in new], [reply for _, reply in new])
            self._logs |= zip(new, logs, strict=True)
        return [self._logs[reply] for reply in replies]

    def remarks(self) -> tuple[str, ...]:
        """Return a warning if the texts so far are in a language that the VHRED does not know."""
        warning = self._vhred.unfamiliar(self._coverage)
        return () if warning is None else (warning,)


def with_likelihoods(metric: LikelyReplies, registry: ModelRegistry) -> LikelyReplies:
    """Return the metric bound to the VHRED that it names."""
    return metric.with_model(ReplyLikelihoods(registry.vhred(metric.model)))


# ── Bind metrics that need models to the models of a command or request, and give `ruber` the ranges of its parts ─────


class ReplyRelevance:
    """A ruber that judges replies for the metric, for one evaluation.

    Results are cached, so that equal replies to an utterance tie to the last bit, whatever batch each is in:
    `refaug.scoring.home.networks.ReplyJudge` says why.
    """

    def __init__(self, ruber: Relevance) -> None:
        self._ruber = ruber
        self._relevances = dict[tuple[str, str], float]()
        self._coverage = Coverage()

    @property
    def spec(self) -> str:
        """The name, version and content of the ruber."""
        return self._ruber.spec

    def relevance(self, pairs: Sequence[tuple[str, str]]) -> Floats:
        """Return a number from 0 to 1 for each utterance and reply."""
        new = [pair for pair in dict.fromkeys(pairs) if pair not in self._relevances]
        if new:
            utterances = dict.fromkeys(utterance for utterance, _ in new)
            self._coverage += self._ruber.coverage([*utterances, *(reply for _, reply in new)])
            self._relevances |= zip(new, self._ruber.score(new).tolist(), strict=True)
        return np.array([self._relevances[pair] for pair in pairs], dtype=np.float64)

    def remarks(self) -> tuple[str, ...]:
        """Return a warning if the texts so far are in a language that the ruber does not know."""
        warning = self._ruber.unfamiliar(self._coverage)
        return () if warning is None else (warning,)


def with_parts(
    metrics: Sequence[Metric],
    models: ModelRegistry,
    augmenting: AugmentSettings | None = None,
    progress: Progress | None = None,
) -> list[Metric]:
    """Return the metrics, those that ask networks bound to the ones that they name, and `ruber` with its ranges.

    `augmenting` tells how the scored references were retrieved and weighted; those of the sample are made alike.
    """
    networks = _Networks(models)
    bound = list[Metric]()
    for metric in metrics:
        if isinstance(metric, RatedReplies):
            bound.append(metric.with_judge(networks.judge_of(metric)))
        elif isinstance(metric, Ruber):
            bound.append(_with_parts(metric, networks, augmenting or AugmentSettings(), progress or Silent()))
        elif isinstance(metric, LikelyReplies):
            bound.append(with_likelihoods(metric, models))
        else:
            bound.append(metric)
    return bound


def _with_parts(metric: Ruber, networks: _Networks, augmenting: AugmentSettings, progress: Progress) -> Ruber:
    part, models = metric.unreferenced, networks.models
    if isinstance(part, RatedReplies) and not (part.settings["model"] or models.default_rater):
        raise part.info.models[0].missing(metric.name, "unreferenced=rater;model")
    metric = metric.with_judge(
        networks.judge_of(part) if isinstance(part, RatedReplies) else networks.relevance_of(part)
    )
    named = metric.sample or models.sample
    if named is None:
        return metric  # a metric that needs a sample refuses to score
    index = models.resolve(ModelKind.INDEX, named)  # later publications must not change it
    metric = metric.with_referenced(
        with_index_baseline(metric.referenced, places_of(models.home).indexes, index, progress)
    )
    if not metric.ranges_are_open:
        return metric
    sample = networks.samples.get(index)
    if sample is None:
        sample = networks.samples[index] = LogSample(models, index, augmenting, networks.weigher, progress=progress)
    # Another judge, since the language of the sample's texts says nothing about the texts that are scored.
    sampled = metric.with_judge(
        ReplyJudge(networks.rater_of(part))
        if isinstance(part, RatedReplies)
        else ReplyRelevance(networks.ruber_of(part))
    )
    return metric.with_ranges(*sample.measure(sampled))


class _Networks:
    """The networks that the metrics of one evaluation ask."""

    def __init__(self, models: ModelRegistry) -> None:
        self.models = models
        self.samples = dict[str, LogSample]()  # of logs, by the version of the index
        self._judges = dict[str, ReplyJudge]()
        self._relevances = dict[str, ReplyRelevance]()

    def judge_of(self, metric: RatedReplies) -> ReplyJudge:
        """Return the rater of a metric as metrics use it, one for all metrics that ask the same one."""
        rater = self.rater_of(metric)
        return self._judges.setdefault(rater.spec, ReplyJudge(rater))

    def rater_of(self, metric: RatedReplies) -> Rater:
        """Return the rater that a metric names, or the default."""
        spec = metric.settings["model"] or self.models.default_rater
        if spec is None:
            raise metric.info.models[0].missing(metric.name)
        return self.models.rater(spec)

    def relevance_of(self, part: RelevantReplies) -> ReplyRelevance:
        """Return the ruber of a metric as metrics use it, one for all metrics that ask the same one."""
        ruber = self.ruber_of(part)
        return self._relevances.setdefault(ruber.spec, ReplyRelevance(ruber))

    def ruber_of(self, part: RelevantReplies) -> Relevance:
        """Return the ruber that a metric names."""
        if not part.settings["model"]:
            raise part.info.models[0].missing(part.name)
        return self.models.ruber(part.settings["model"])

    def weigher(self) -> Rater:
        """Return the rater that weighs references of the sample."""
        if self.models.default_rater is None:
            raise Usage(
                "references of the sample are rated, and no rater is named",
                remedy="--rater NAME: refaug artefacts list rater",
            )
        return self.models.rater(self.models.default_rater)


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
        """Say whether the adem was fitted to this row."""
        return self._adem.seen.contains(reply.turns, reply.references, reply.reply)

    def remarks(self) -> tuple[str, ...]:
        """Return a warning where scores so far leave the scale of ratings."""
        outside = sum(1 for score in self._scores.values() if not 1 <= score <= 5)
        if not outside:
            return ()
        return (f"adem: {outside:,} of {len(self._scores):,} scores are outside 1 to 5; clip=yes ends them there",)


def with_adem(metrics: Sequence[Metric], registry: ModelRegistry) -> list[Metric]:
    """Return the metrics, those that need an adem bound to the one that they name."""
    return [
        metric.with_judge(ReplyAdem(registry.adem(metric.model))) if isinstance(metric, FittedReplies) else metric
        for metric in metrics
    ]
