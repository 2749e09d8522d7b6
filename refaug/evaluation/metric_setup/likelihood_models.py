"""Bind the metric `likelihood` to the VHRED that its parameter names."""

from __future__ import annotations

from collections.abc import Sequence

from refaug.core.errors import BadInput
from refaug.evaluation.metric_setup.model_registry import ModelRegistry
from refaug.metrics.base import Floats
from refaug.metrics.models.likelihood import Context, LikelyReplies
from refaug.rater.adem.vhred.artefact import Vhred
from refaug.rater.language_coverage import Coverage


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
