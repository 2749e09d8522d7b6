"""Open the networks of a home: raters, rubers, VHREDs, and adems with the VHRED that each was fitted with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.errors import NotFound
from refaug.core.home import Settings
from refaug.core.records import Reference
from refaug.core.vectors.encoders import Encoder
from refaug.indexer.index_folders import encoder_source, hold_encoder
from refaug.indexer.manifest import VectorSource
from refaug.metrics.base import Floats, Metric
from refaug.metrics.models.model_scores import RatedReplies, ReplyToRate
from refaug.rater.adem.scorer.adem import Adem, open_adem, read_adem_manifest
from refaug.rater.adem.vhred.artefact import Vhred, read_vhred_manifest
from refaug.rater.language_coverage import Coverage
from refaug.rater.rating import Rater, RatingRequest
from refaug.rater.rating_settings import RatingSettings
from refaug.rater.ruber.network import Relevance, open_relevance, read_ruber_manifest
from refaug.rater.stored_raters import open_stored_rater, read_rater_manifest
from refaug.rater.training.order import EncoderOpener, TrainingPlaces
from refaug.scoring.home.indexes import cores, places_of

# ── Open the VHREDs of a home ─────────────────────────────────────────────────────────────────────────────────────────


def vhred_places(settings: Settings) -> TrainingPlaces:
    """Return the folders of this home's VHREDs."""
    return TrainingPlaces(logs=settings.logs, versions=artefact_stores(settings)["vhred"], cache=settings.cache)


def open_vhred(settings: Settings, spec: str, *, threads: int | None = None) -> Vhred:
    """Open a vhred by `name` or `name@version`; it is read whole, so its version may be removed afterwards."""
    with artefact_stores(settings)["vhred"].open(spec) as held:
        name = f"{held.name}@{held.version}#{read_vhred_manifest(held.folder).id[:12]}"
        return Vhred.open(held.folder, spec=name, threads=threads or cores())


# ── Open the adems of a home, each with the vhred that it was fitted with ─────────────────────────────────────────────


def open_stored_adem(settings: Settings, spec: str, *, threads: int | None = None) -> Adem:
    """Open an adem by `name` or `name@version`; it is read whole, so its version may be removed afterwards."""
    with artefact_stores(settings)["adem"].open(spec) as held:
        stored = read_adem_manifest(held.folder)
        name = f"{held.name}@{held.version}#{stored.id[:12]}"
        vhred, _, _ = stored.encoder.partition("#")
        try:
            encoder = open_vhred(settings, vhred, threads=threads)
        except NotFound as error:
            raise NotFound(
                f"the adem {name} uses the vhred {stored.encoder}, which is not in this home",
                remedy=f"refaug artefacts import FILE, with what refaug artefacts export vhred {vhred} wrote elsewhere",
            ) from error
        return open_adem(held.folder, encoder, encoder_id=encoder.id, spec=name)


# ── Open the networks of RUBER's unreferenced part in a home ──────────────────────────────────────────────────────────


def ruber_places(settings: Settings) -> TrainingPlaces:
    """Return the folders of this home's rubers."""
    return TrainingPlaces(logs=settings.logs, versions=artefact_stores(settings)["ruber"], cache=settings.cache)


def open_ruber(settings: Settings, spec: str, *, threads: int | None = None) -> Relevance:
    """Open a ruber by `name` or `name@version`; it is read whole, so its version may be removed afterwards."""
    with artefact_stores(settings)["ruber"].open(spec) as held:
        name = f"{held.name}@{held.version}#{read_ruber_manifest(held.folder).id[:12]}"
        return open_relevance(held.folder, spec=name, threads=threads or cores())


# ── Open the raters of a home, and rate replies with one of them ──────────────────────────────────────────────────────


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


def open_rater(settings: Settings, spec: str, *, threads: int | None = None) -> Rater:
    """Open a rater by `name` or `name@version`; it is read whole, so its version may be removed afterwards."""
    with artefact_stores(settings)["rater"].open(spec) as held:
        name = f"{held.name}@{held.version}#{read_rater_manifest(held.folder).id[:12]}"
        return open_stored_rater(
            held.folder, encoder_opener(settings, threads=threads), spec=name, threads=threads or cores()
        )


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
