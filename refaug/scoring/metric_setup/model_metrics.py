"""Bind metrics that need models to the models of a command or request, and give `ruber` the ranges of its parts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from refaug.core.errors import Usage
from refaug.core.progress import Progress, Silent
from refaug.metrics.base import Floats, Metric
from refaug.metrics.models.model_kinds import ModelKind
from refaug.metrics.models.model_scores import RatedReplies, RelevantReplies
from refaug.metrics.models.ruber import Ruber
from refaug.rater.language_coverage import Coverage
from refaug.rater.rating import Rater
from refaug.rater.ruber.network import Relevance
from refaug.scoring.augment_settings import AugmentSettings
from refaug.scoring.home.indexes import places_of
from refaug.scoring.home.networks import ReplyJudge
from refaug.scoring.metric_setup.baseline import with_index_baseline
from refaug.scoring.metric_setup.model_registry import ModelRegistry
from refaug.scoring.metric_setup.ruber_ranges import LogSample


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
