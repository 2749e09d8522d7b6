"""Open the raters of a home, and rate replies with one of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.home import Settings
from refaug.core.records import Reference
from refaug.evaluation.home.indexes import cores
from refaug.metrics.base import Floats, Metric
from refaug.metrics.models.model_scores import RatedReplies, ReplyToRate
from refaug.rater.language_coverage import Coverage
from refaug.rater.rating import Rater, RatingRequest
from refaug.rater.rating_settings import RatingSettings
from refaug.rater.stored_raters import open_stored_rater, read_rater_manifest
from refaug.rater.training.order import TrainingPlaces


def rater_places(settings: Settings) -> TrainingPlaces:
    """Return the folders of this home's raters."""
    return TrainingPlaces(logs=settings.logs, versions=artefact_stores(settings)["rater"], cache=settings.cache)


def open_rater(settings: Settings, spec: str, *, threads: int | None = None) -> Rater:
    """Open a rater by `name` or `name@version`; it is read whole, so its version may be removed afterwards."""
    with artefact_stores(settings)["rater"].open(spec) as held:
        name = f"{held.name}@{held.version}#{read_rater_manifest(held.folder).id[:12]}"
        return open_stored_rater(held.folder, spec=name, threads=threads or cores())


# ── replies ───────────────────────────────────────────────────────────────────────────────────────────────────────


class ReplyJudge:
    """A rater that rates replies for the metric `rater`, for one evaluation.

    Ratings are cached, so that equal replies to an item tie to the last bit, whatever batch each is in: otherwise two
    systems with the same replies could differ by rounding in every row, and so significantly.
    """

    def __init__(self, rater: Rater) -> None:
        self._rater = rater
        self._ratings = dict[tuple[RatingSettings, ReplyToRate], float]()
        self._coverage = Coverage()

    @property
    def spec(self) -> str:
        """The name, version and content of the rater."""
        return self._rater.spec

    @property
    def turn_separator(self) -> str:
        """What the rater wants between turns."""
        return self._rater.turn_separator

    def judge(self, replies: Sequence[ReplyToRate], *, combine: str, cal: str) -> Floats:
        """Return the ratings of replies; those to one test pair are rated together."""
        settings = RatingSettings(combine=combine, calibrated=cal == "cal")  # type: ignore[arg-type]
        by_pair = dict[tuple[str, tuple[str, ...]], list[ReplyToRate]]()
        for reply in dict.fromkeys(replies):
            if (settings, reply) not in self._ratings:
                by_pair.setdefault((reply.utterance, reply.golds), []).append(reply)
        for (utterance, golds), new in by_pair.items():
            self._coverage += self._rater.coverage([utterance, *filter(None, golds), *(reply.reply for reply in new)])
        pairs = [
            RatingRequest(
                utterance=utterance, golds=golds, candidates=tuple(Reference(text=reply.reply) for reply in new)
            )
            for (utterance, golds), new in by_pair.items()
        ]
        for new, ratings in zip(by_pair.values(), self._rater.rate(pairs, settings), strict=True):
            for reply, rating in zip(new, ratings, strict=True):
                self._ratings[settings, reply] = rating
        return np.array([self._ratings[settings, reply] for reply in replies], dtype=np.float64)

    def remarks(self) -> tuple[str, ...]:
        """Return a warning if the texts so far are in a language that the rater does not know."""
        warning = self._rater.unfamiliar(self._coverage)
        return () if warning is None else (warning,)


def with_rater(metrics: Sequence[Metric], rater: Rater) -> list[Metric]:
    """Return the metrics, those that need a rater bound to this one."""
    judge = ReplyJudge(rater)
    return [metric.with_judge(judge) if isinstance(metric, RatedReplies) else metric for metric in metrics]
