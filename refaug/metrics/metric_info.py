"""What the catalogue says of a metric: its parameters, its range, and which references it looks at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from refaug.metrics.costs import LINEAR, Cost
from refaug.metrics.parameters import Parameter


class Uses(StrEnum):
    """Which of an item's references a metric looks at, and with what weights."""

    GOLD = "gold"  # the first gold
    GOLDS = "golds"  # all golds and the utterance; not references weighted by people, which may be bad
    OWN = "own"  # all that came with the item, every weight 1
    RATED = "rated"  # the golds at 1, and references weighted by people
    WEIGHTED = "weighted"  # all with their weights: golds, parrot, retrieved, supplied
    UTTERANCE = "utterance"  # no reference at all: the utterance alone
    DIALOGUE = "dialogue"  # the utterance where the item has one, else nothing


class CorpusScore(StrEnum):
    """How a metric's corpus score is computed."""

    SUMS = "sums"  # from added statistics; it is not the mean of the reply scores
    MEAN = "mean"  # the mean of the reply scores


A_RATER: Final = "a rater"  # the need of metrics that must be bound to a rater before they can score
A_RUBER: Final = "a ruber"  # the same for a ruber, which judges how well a reply goes with an utterance

A_VHRED: Final = "a VHRED"  # the same for a model of dialogue, which a parameter names
AN_ADEM: Final = "an adem"  # the same for a scorer that was fitted to ratings
A_JUDGE: Final = "a judge"  # the same for a language model behind an endpoint
A_FITTED_JUDGE: Final = "a fitted judge"  # the same for a combination of metrics, which a parameter names


@dataclass(frozen=True, kw_only=True)
class ForcedParameters:
    """A value of one parameter that fixes the values of others."""

    name: str
    value: str
    others: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class MetricInfo:
    """One entry of the catalogue."""

    name: str
    summary: str
    uses: Uses
    low: float
    high: float | None  # None: no upper bound
    parameters: tuple[Parameter, ...]
    corpus: CorpusScore
    paper: str
    module: str
    higher_is_better: bool = True
    needs: tuple[str, ...] = ()  # beside the texts
    upsilon: bool = False  # whether upsilon-<name> exists
    forced: tuple[ForcedParameters, ...] = ()
    beside: Uses | None = None  # what the second part of a metric of two parts looks at
    cost: Cost = LINEAR  # of scoring a reply, from the lengths of texts
    leading: str | None = None  # the parameter that a first value without a name sets: judge-fit:NAME

    @property
    def is_share(self) -> bool:
        """Whether scores are in [0, 1], so that they can be shown in per cent."""
        return (self.low, self.high) == (0, 1)

    @property
    def needs_rater(self) -> bool:
        """Whether the metric needs a rater."""
        return A_RATER in self.needs

    @property
    def needs_ruber(self) -> bool:
        """Whether the metric needs a ruber."""
        return A_RUBER in self.needs

    @property
    def needs_judge(self) -> bool:
        """Whether the metric needs a judge behind an endpoint."""
        return A_JUDGE in self.needs

    @property
    def needs_vhred(self) -> bool:
        """Whether the metric needs a VHRED."""
        return A_VHRED in self.needs

    @property
    def needs_part(self) -> bool:
        """Whether the metric needs a network of the home."""
        return self.needs_rater or self.needs_ruber or self.needs_vhred

    @property
    def needs_adem(self) -> bool:
        """Whether the metric needs an adem."""
        return AN_ADEM in self.needs

    @property
    def needs_fitted_judge(self) -> bool:
        """Whether the metric needs a combination of metrics that was fitted to ratings."""
        return A_FITTED_JUDGE in self.needs

    @property
    def asks_model(self) -> bool:
        """Whether the metric needs a rater, a ruber, a VHRED, an adem, a judge or a fitted judge."""
        return self.needs_part or self.needs_adem or self.needs_judge or self.needs_fitted_judge

    @property
    def looks_at_utterance(self) -> bool:
        """Whether a score depends on the utterance, and not on references alone."""
        return bool({self.uses, self.beside} & {Uses.GOLDS, Uses.UTTERANCE, Uses.DIALOGUE})

    @property
    def direction(self) -> str:
        """The direction in words."""
        return "higher is better" if self.higher_is_better else "lower is better"

    @property
    def range(self) -> str:
        """The range in words."""
        return f"{self.low:g} to {'∞' if self.high is None else f'{self.high:g}'}"

    def parameter(self, name: str) -> Parameter | None:
        """Return the parameter of that name, or None."""
        return next((parameter for parameter in self.parameters if parameter.name == name), None)
