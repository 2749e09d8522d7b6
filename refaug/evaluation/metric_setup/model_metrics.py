"""Bind metrics that need models to the models of a command or request, and give `ruber` the ranges of its parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import Lock

import numpy as np

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.errors import Usage
from refaug.core.home import Settings
from refaug.core.memory.bounded_cache import BoundedCache
from refaug.core.progress import Progress, Silent
from refaug.evaluation.home.indexes import places_of
from refaug.evaluation.home.raters import ReplyJudge, open_rater
from refaug.evaluation.home.rubers import open_ruber
from refaug.evaluation.metric_setup.baseline import with_index_baseline
from refaug.evaluation.metric_setup.likelihood_models import with_likelihoods
from refaug.evaluation.metric_setup.model_names import ModelNames
from refaug.evaluation.metric_setup.ruber_ranges import LogSample
from refaug.evaluation.scoring.augment_settings import AugmentSettings
from refaug.indexer.search.index import ReferenceIndex
from refaug.metrics.base import Floats, Metric
from refaug.metrics.models.likelihood import LikelyReplies
from refaug.metrics.models.model_scores import RatedReplies
from refaug.metrics.models.ruber import Ruber
from refaug.rater.adem.scorer.adem import Adem
from refaug.rater.language_coverage import Coverage
from refaug.rater.rating import Rater
from refaug.rater.ruber.network import Relevance


class ReplyRelevance:
    """A ruber that judges replies for the metric, for one evaluation.

    Results are cached, so that equal replies to an utterance tie to the last bit, whatever batch each is in:
    `refaug.evaluation.home.raters.ReplyJudge` says why.
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


@dataclass(frozen=True, kw_only=True)
class OpenModels:
    """Those of the models that are open already: a server does not read them again for every request."""

    rater: Rater | None = None
    ruber: Relevance | None = None
    adem: Adem | None = None
    sample: ReferenceIndex | None = None  # the index whose log is sampled


def with_parts(
    metrics: Sequence[Metric],
    settings: Settings,
    named: ModelNames,
    augmenting: AugmentSettings | None = None,
    progress: Progress | None = None,
    *,
    opened: OpenModels | None = None,
) -> list[Metric]:
    """Return the metrics, those that need models bound to the named models, and `ruber` with its ranges.

    `augmenting` tells how the scored references were retrieved and weighted; those of the sample are made alike.
    """
    models, progress = _Models(settings, named, opened or OpenModels()), progress or Silent()
    sample = None
    if named.sample is not None:
        pinned = "@".join(places_of(settings).indexes.resolve(named.sample))  # later publications must not change it
        sample = LogSample(
            settings,
            pinned,
            augmenting or AugmentSettings(),
            lambda: models.rater,
            threads=named.threads,
            opened=opened.sample if opened is not None else None,
            progress=progress,
        )
    bound = list[Metric]()
    for metric in metrics:
        if isinstance(metric, RatedReplies):
            bound.append(metric.with_judge(models.judge))
        elif isinstance(metric, Ruber):
            bound.append(_with_parts(metric, models, sample, progress))
        elif isinstance(metric, LikelyReplies):
            bound.append(with_likelihoods(metric, settings, named.threads))
        else:
            bound.append(metric)
    return bound


def _with_parts(metric: Ruber, models: _Models, sample: LogSample | None, progress: Progress) -> Ruber:
    asks_rater = isinstance(metric.unreferenced, RatedReplies)
    metric = metric.with_judge(models.judge if asks_rater else models.relevance)
    if sample is None:
        return metric  # a metric that needs a sample refuses to score
    indexes = places_of(models.settings).indexes
    metric = metric.with_referenced(with_index_baseline(metric.referenced, indexes, sample.index, progress))
    if not metric.ranges_are_open:
        return metric
        # Another judge, since the language of the sample's texts says nothing about the texts that are scored.
    sampled = metric.with_judge(ReplyJudge(models.rater) if asks_rater else ReplyRelevance(models.ruber))
    return metric.with_ranges(*sample.measure(sampled))


class HeldRubers:
    """A cache of the rubers that were used last: each is read whole, which takes a while."""

    def __init__(self, settings: Settings, *, most: int = 2, threads: int | None = None) -> None:
        self._settings, self._threads = settings, threads
        self._held = BoundedCache[str, Relevance](most)
        self._lock = Lock()

    def get(self, spec: str) -> Relevance:
        """Return the published version of a ruber, by `name` or `name@version`."""
        name = "@".join(artefact_stores(self._settings)["ruber"].resolve(spec))
        with self._lock:  # also while it is read, so that two requests at once read it only once
            ruber = self._held.get(name)
            if ruber is None:
                ruber = open_ruber(self._settings, name, threads=self._threads)
                self._held.put(name, ruber)
            return ruber


class _Models:
    """The named models, each opened when it is first needed; Usage where none is named."""

    def __init__(self, settings: Settings, named: ModelNames, opened: OpenModels) -> None:
        self.settings, self.named, self._opened = settings, named, opened

    @cached_property
    def rater(self) -> Rater:
        """The rater."""
        if self._opened.rater is not None:
            return self._opened.rater
        if self.named.rater is None:
            raise Usage(
                "a rater is asked, by a metric or to weigh references of the sample, and none is named",
                remedy="--rater NAME: refaug rater list",
            )
        return open_rater(self.settings, self.named.rater, threads=self.named.threads)

    @cached_property
    def ruber(self) -> Relevance:
        """The ruber."""
        if self._opened.ruber is not None:
            return self._opened.ruber
        if self.named.ruber is None:
            raise Usage("a metric asks a ruber, and none is named", remedy="--ruber NAME: refaug ruber list")
        return open_ruber(self.settings, self.named.ruber, threads=self.named.threads)

    @cached_property
    def judge(self) -> ReplyJudge:
        """The rater as metrics use it."""
        return ReplyJudge(self.rater)

    @cached_property
    def relevance(self) -> ReplyRelevance:
        """The ruber as metrics use it."""
        return ReplyRelevance(self.ruber)
