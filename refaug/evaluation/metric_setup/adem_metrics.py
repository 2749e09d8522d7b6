"""Bind the metric `adem` to the adem of a command or request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import Lock

import numpy as np

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.errors import Usage
from refaug.core.home import Settings
from refaug.core.memory.bounded_cache import BoundedCache
from refaug.evaluation.home.adems import open_stored_adem
from refaug.evaluation.metric_setup.model_names import ModelNames
from refaug.metrics.base import Floats, Metric
from refaug.metrics.models.adem import FittedReplies, ReplyToJudge
from refaug.rater.adem.scorer.adem import Adem
from refaug.rater.adem.scorer.rated_triples import Triple


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
        return {"state": self._adem.state, "adem": self._adem.spec, "vhred": self._adem.encoder.spec}

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


def with_adem(metrics: Sequence[Metric], home: Settings, named: ModelNames, opened: Adem | None = None) -> list[Metric]:
    """Return the metrics, those that need an adem bound to the opened one, or to the named one."""
    if opened is None:
        if named.adem is None:
            raise Usage("adem needs an adem, and none is named", remedy="--adem NAME: refaug adem list")
        opened = open_stored_adem(home, named.adem, threads=named.threads)
    judge = ReplyAdem(opened)
    return [metric.with_judge(judge) if isinstance(metric, FittedReplies) else metric for metric in metrics]


class HeldAdems:
    """A cache of the adems that were used last, each with its encoder, which takes a while to read."""

    def __init__(self, settings: Settings, *, most: int = 2, threads: int | None = None) -> None:
        self._settings, self._threads = settings, threads
        self._held = BoundedCache[str, Adem](most)
        self._lock = Lock()

    def get(self, spec: str) -> Adem:
        """Return the published version of an adem, by `name` or `name@version`."""
        name = "@".join(artefact_stores(self._settings)["adem"].resolve(spec))
        with self._lock:  # also while it is read, so that two requests at once read it only once
            adem = self._held.get(name)
            if adem is None:
                adem = open_stored_adem(self._settings, name, threads=self._threads)
                self._held.put(name, adem)
            return adem
