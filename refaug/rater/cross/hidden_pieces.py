"""A cross rater as what tells how likely hidden pieces of replies are, for the metric `masked`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from refaug.core.errors import BadInput
from refaug.rater.cross.checkpoint import CrossRater
from refaug.rater.cross.model import CrossNetwork
from refaug.rater.language_coverage import Coverage
from refaug.rater.rating import Rater


class HiddenPieces:
    """A cross rater that tells how likely hidden pieces are, for one evaluation; no piece counts less than `least`.

    Results are cached, so that equal replies after equal turns tie to the last bit, whatever batch each is in.
    """

    def __init__(self, rater: Rater, *, least: float) -> None:
        if not isinstance(rater, CrossRater) or not isinstance(rater.model, CrossNetwork):
            raise BadInput(
                f"the rater {rater.spec} predicts no hidden pieces",
                remedy="a rater of the network cross, with torch: refaug train rater LOG --network cross",
            )
        self._rater, self._least = rater, least
        self._means = dict[tuple[str, str], float]()
        self._coverage = Coverage()

    @property
    def spec(self) -> str:
        """The name, version and content of the rater."""
        return self._rater.spec

    @property
    def turn_separator(self) -> str:
        """What the rater wants between turns."""
        return self._rater.turn_separator

    def mean_log_likelihoods(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return the mean log p of the pieces of each reply after its turns, in nats, each hidden alone."""
        new = [pair for pair in dict.fromkeys(pairs) if pair not in self._means]
        if new:
            self._coverage += self._rater.coverage(list(dict.fromkeys(text for pair in new for text in pair)))
            logs = self._rater.hidden_log_likelihoods(new)
            means = (float(np.maximum(of_reply, self._least).mean()) for of_reply in logs)
            self._means |= zip(new, means, strict=True)
        return [self._means[pair] for pair in pairs]

    def remarks(self) -> tuple[str, ...]:
        """Return a warning if the texts so far are in a language that the rater does not know."""
        warning = self._rater.unfamiliar(self._coverage)
        return () if warning is None else (warning,)
