"""Open the raters of a home, and rate replies with one of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from refaug.core.artefacts.kinds import artefact_stores, encodings_in
from refaug.core.home import Settings
from refaug.core.records import Reference
from refaug.core.vectors.encoders import Encoder
from refaug.indexer.index_folders import encoder_source, hold_encoder
from refaug.indexer.manifest import VectorSource
from refaug.metrics.base import Floats, Metric
from refaug.metrics.models.model_scores import RatedReplies, ReplyToRate
from refaug.rater.language_coverage import Coverage
from refaug.rater.network_folder import TrainingPlaces
from refaug.rater.rating import EncoderOpener, Rater, RatingRequest
from refaug.rater.rating_settings import RatingSettings
from refaug.rater.stored_raters import open_stored_rater, read_rater_manifest
from refaug.scoring.home.indexes import cores, places_of


def rater_places(settings: Settings) -> TrainingPlaces:
    """Return the folders of this home's raters."""
    return TrainingPlaces(
        logs=settings.logs,
        versions=artefact_stores(settings)["rater"],
        cache=settings.cache,
        open_encoder=encoder_opener(settings),
    )


def encoder_opener(settings: Settings, *, threads: int | None = None) -> EncoderOpener:
    """Return what opens encoders of this home for networks that read their vectors.

    An encoder is read whole, so its version may be removed afterwards.
    """

    def open_encoder(spec: str, *, keep: bool = True) -> Encoder:
        places = replace(places_of(settings), keeps_encodings=keep)
        name, _, content = spec.partition("#")
        used_threads = threads or cores()
        if not content:
            source = encoder_source(places, name, threads=used_threads)
        else:
            source = VectorSource(kind="encoder", name=name, sha256=content, dimensions=0)
        held, encoder = hold_encoder(places, source, threads=used_threads, user="the rater")
        if held is not None:
            held.close()
        return encoder

    return open_encoder


def open_rater(settings: Settings, spec: str, *, threads: int | None = None, takes_kept: bool = False) -> Rater:
    """Open a rater by `name` or `name@version`; it is read whole, so its version may be removed afterwards.

    With `takes_kept`, kept states of texts are used, with which ratings may differ in their last bits.
    """
    with artefact_stores(settings)["rater"].open(spec) as held:
        content = read_rater_manifest(held.folder).id
        name = f"{held.name}@{held.version}#{content[:12]}"
        rater = open_stored_rater(
            held.folder, encoder_opener(settings, threads=threads), spec=name, threads=threads or cores()
        )
        if takes_kept:
            rater.open_kept(encodings_in(settings.cache), content)
        return rater


# ── Replies ───────────────────────────────────────────────────────────────────────────────────────────────────────


class ReplyJudge:
    """A rater that rates replies for the metric `rater`, for one evaluation.

    Ratings are cached, so that equal replies to an item tie to the last bit, whatever batch each is in: otherwise two
    systems with the same replies could differ by rounding in every row, and so significantly.
    """

    def __init__(self, rater: Rater, check: Callable[[], None] | None = None) -> None:
        self._rater, self._check = rater, check
        self._ratings = dict[tuple[RatingSettings, ReplyToRate], float]()
        self._coverage = Coverage()

    @property
    def spec(self) -> str:
        """The name, version and content of the rater."""
        return self._rater.spec

    @property
    def runtime(self) -> str:
        """What computes the rater's network."""
        return self._rater.runtime

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
        for new, ratings in zip(by_pair.values(), self._rater.rate(pairs, settings, check=self._check), strict=True):
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
