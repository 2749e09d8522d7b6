"""Raters of a home: where they lie, opening one, and asking one about replies."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from metrics.base import Floats, Metric
from metrics.model_scores import Asked, RatedReplies
from rater.checkpoint import open_rater as rater_of_folder
from rater.checkpoint import read_manifest
from rater.coverage import Coverage
from rater.making import RaterPlaces
from rater.rate import Candidate, Rater, RatingSettings, ToRate
from service.artefacts import stored
from service.retrieval import cores
from service.settings import Settings


def rater_places(settings: Settings) -> RaterPlaces:
    """The folders of this home."""
    return RaterPlaces(logs=settings.logs, raters=stored(settings)["rater"], cache=settings.cache)


def open_rater(settings: Settings, spec: str, *, threads: int | None = None) -> Rater:
    """A rater by `name` or `name@version`; it is read whole, so its version may go afterwards."""
    with stored(settings)["rater"].open(spec) as held:
        name = f"{held.name}@{held.version}#{read_manifest(held.folder).id[:12]}"
        return rater_of_folder(held.folder, spec=name, threads=threads or cores())


# ── replies ───────────────────────────────────────────────────────────────────────────────────────────────────────


class ReplyJudge:
    """A rater as the metric `rater` asks it, for one evaluation.

    What was said once is said again to the last bit, so that equal replies to an item tie whatever batch each is in:
    otherwise two systems that reply alike could differ in all rows by a trifle, and so significantly.
    """

    def __init__(self, rater: Rater) -> None:
        self._rater = rater
        self._said = dict[tuple[RatingSettings, Asked], float]()
        self._coverage = Coverage()

    @property
    def spec(self) -> str:
        """The rater's."""
        return self._rater.spec

    def judge(self, asked: Sequence[Asked], *, combine: str, cal: str) -> Floats:
        """The ratings of replies, those to one test pair at once."""
        settings = RatingSettings(combine=combine, calibration=cal)  # type: ignore[arg-type]
        together = dict[tuple[str, tuple[str, ...]], list[Asked]]()
        for one in dict.fromkeys(asked):
            if (settings, one) not in self._said:
                together.setdefault((one.utterance, one.golds), []).append(one)
        for (utterance, golds), new in together.items():
            self._coverage += self._rater.coverage([utterance, *golds, *(one.reply for one in new)])
        pairs = [
            ToRate(utterance=utterance, golds=golds, candidates=tuple(Candidate(text=one.reply) for one in new))
            for (utterance, golds), new in together.items()
        ]
        for new, ratings in zip(together.values(), self._rater.rate(pairs, settings), strict=True):
            for one, rating in zip(new, ratings, strict=True):
                self._said[settings, one] = rating
        return np.array([self._said[settings, one] for one in asked], dtype=np.float64)

    def remarks(self) -> tuple[str, ...]:
        """Whether the texts so far are in a language that the rater knows."""
        told = self._rater.unfamiliar(self._coverage)
        return () if told is None else (told,)


def with_rater(metrics: Sequence[Metric], rater: Rater) -> list[Metric]:
    """The same metrics, those that need a rater bound to this one."""
    judge = ReplyJudge(rater)
    return [one.bound(judge) if isinstance(one, RatedReplies) else one for one in metrics]
