"""Metrics that ask models, bound to those that were named; and `ruber`, given the ranges of its parts."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import Lock

import numpy as np

from core.errors import Usage
from core.progress import Progress, Silent
from metrics.base import Floats, Metric
from metrics.model_scores import RatedReplies
from metrics.ruber import Ruber
from rater.coverage import Coverage
from rater.rate import Rater
from rater.ruber import Relevance
from service.artefacts import stored
from service.augment import AugmentSettings
from service.baseline import based_on
from service.rating import ReplyJudge, open_rater
from service.retrieval import places_of
from service.ruber import open_ruber
from service.ruber_ranges import LogSample
from service.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Named:
    """What the metrics may ask: models by name, and the index whose log is sampled; `name` or `name@version`."""

    rater: str | None = None
    ruber: str | None = None
    sample: str | None = None
    threads: int | None = None


class ReplyRelevance:
    """A ruber as the metric asks it, for one evaluation.

    What was said once is said again to the last bit, so that equal replies to an utterance tie whatever batch each is
    in: `service.rating.ReplyJudge` says why.
    """

    def __init__(self, ruber: Relevance) -> None:
        self._ruber = ruber
        self._said = dict[tuple[str, str], float]()
        self._coverage = Coverage()

    @property
    def spec(self) -> str:
        """The ruber's."""
        return self._ruber.spec

    def relevance(self, pairs: Sequence[tuple[str, str]]) -> Floats:
        """A number from 0 to 1 for each utterance and reply."""
        new = [pair for pair in dict.fromkeys(pairs) if pair not in self._said]
        if new:
            utterances = dict.fromkeys(utterance for utterance, _ in new)
            self._coverage += self._ruber.coverage([*utterances, *(reply for _, reply in new)])
            self._said |= zip(new, self._ruber.score(new).tolist(), strict=True)
        return np.array([self._said[pair] for pair in pairs], dtype=np.float64)

    def remarks(self) -> tuple[str, ...]:
        """Whether the texts so far are in a language that the ruber knows."""
        told = self._ruber.unfamiliar(self._coverage)
        return () if told is None else (told,)


@dataclass(frozen=True, kw_only=True)
class Opened:
    """Models that are open already, of those that are named: a server does not read them anew for every request."""

    rater: Rater | None = None
    ruber: Relevance | None = None


def with_parts(
    metrics: Sequence[Metric],
    settings: Settings,
    named: Named,
    augmenting: AugmentSettings | None = None,
    progress: Progress | None = None,
    *,
    opened: Opened | None = None,
) -> list[Metric]:
    """The same metrics, those that ask models bound to the ones that are named, `ruber` with its ranges.

    `augmenting` is how references were found and weighed that are looked at: for the sample it is done alike.
    """
    models, progress = _Models(settings, named, opened or Opened()), progress or Silent()
    sample = None
    if named.sample is not None:
        pinned = "@".join(places_of(settings).indexes.resolve(named.sample))  # the same, whatever is published now
        sample = LogSample(
            settings,
            pinned,
            augmenting or AugmentSettings(),
            lambda: models.rater,
            threads=named.threads,
            progress=progress,
        )
    found = list[Metric]()
    for metric in metrics:
        if isinstance(metric, RatedReplies):
            found.append(metric.bound(models.judge))
        elif isinstance(metric, Ruber):
            found.append(_with_parts(metric, models, sample, progress))
        else:
            found.append(metric)
    return found


def _with_parts(metric: Ruber, models: _Models, sample: LogSample | None, progress: Progress) -> Ruber:
    asks_rater = isinstance(metric.unreferenced, RatedReplies)
    metric = metric.judged(models.judge if asks_rater else models.relevance)
    if sample is None:
        return metric  # where it needed one, it refuses to score
    indexes = places_of(models.settings).indexes
    metric = metric.with_referenced(based_on(metric.referenced, indexes, sample.index, progress))
    if not metric.ranges_are_open:
        return metric
    # Asked by somebody of their own: what the sample's texts are like says nothing of those that are scored.
    asked = metric.judged(ReplyJudge(models.rater) if asks_rater else ReplyRelevance(models.ruber))
    return metric.with_ranges(*sample.measured(asked))


class HeldRubers:
    """Rubers kept open, the last ones that were asked for: each is read whole, which takes a while."""

    def __init__(self, settings: Settings, *, most: int = 2, threads: int | None = None) -> None:
        self._settings, self._most, self._threads = settings, most, threads
        self._held = OrderedDict[str, Relevance]()
        self._lock = Lock()

    def get(self, spec: str) -> Relevance:
        """A ruber by `name` or `name@version`, of the version that is published now."""
        name = "@".join(stored(self._settings)["ruber"].resolve(spec))
        with self._lock:  # also while it is read: two who ask at once get one
            if name not in self._held:
                self._held[name] = open_ruber(self._settings, name, threads=self._threads)
                if len(self._held) > self._most:
                    self._held.popitem(last=False)
            self._held.move_to_end(name)
            return self._held[name]


class _Models:
    """The models that are named, each opened when it is first needed; Usage where it is not named."""

    def __init__(self, settings: Settings, named: Named, opened: Opened) -> None:
        self.settings, self.named, self._opened = settings, named, opened

    @cached_property
    def rater(self) -> Rater:
        """The rater itself."""
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
        """The ruber itself."""
        if self._opened.ruber is not None:
            return self._opened.ruber
        if self.named.ruber is None:
            raise Usage("a metric asks a ruber, and none is named", remedy="--ruber NAME: refaug ruber list")
        return open_ruber(self.settings, self.named.ruber, threads=self.named.threads)

    @cached_property
    def judge(self) -> ReplyJudge:
        """It, as metrics ask it."""
        return ReplyJudge(self.rater)

    @cached_property
    def relevance(self) -> ReplyRelevance:
        """It, as metrics ask it."""
        return ReplyRelevance(self.ruber)
