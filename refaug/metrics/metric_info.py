"""What the catalogue says of a metric: its parameters, its range, and which references it looks at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from refaug.core.processes.kept import cached_property
from refaug.metrics.costs import LINEAR, Cost
from refaug.metrics.models.model_kinds import ModelKind, ModelName
from refaug.metrics.parameters import Choice, Members, Parameter


class Uses(StrEnum):
    """Which of an item's references a metric looks at, and with what weights."""

    GOLD = "gold"  # the first gold
    GOLDS = "golds"  # all golds and the utterance; not references weighted by people, which may be bad
    OWN = "own"  # all that came with the item, every weight 1
    RATED = "rated"  # the golds at 1, and references weighted by people
    WEIGHTED = "weighted"  # all with their weights: golds, parrot, retrieved, supplied
    UTTERANCE = "utterance"  # no reference at all: the utterance alone
    CONTEXT = "context"  # the turns, and the golds if there are any
    DIALOGUE = "dialogue"  # the utterance where the item has one, else nothing


class CorpusScore(StrEnum):
    """How a metric's corpus score is computed."""

    SUMS = "sums"  # from added statistics; it is not the mean of the reply scores
    MEAN = "mean"  # the mean of the reply scores


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
    low: float = 0
    high: float | None = 1  # None: no upper bound
    parameters: tuple[Parameter, ...]
    corpus: CorpusScore = CorpusScore.MEAN
    paper: str
    made_by: str  # "module:class"
    higher_is_better: bool = True
    needs_beside: tuple[str, ...] = ()  # beside replies and references, and the models that parameters name
    upsilon: bool = False  # whether upsilon-<name> exists
    forced: tuple[ForcedParameters, ...] = ()
    beside: Uses | None = None  # what the second part of a metric of two parts looks at
    cost: Cost = LINEAR  # of scoring a reply, from the lengths of texts
    is_beside: bool = False  # after a metric of others, with a model of ours: in tables it stands apart
    leading: str | None = None  # the parameter that a first value without a name sets: judge-fit:NAME

    @property
    def is_share(self) -> bool:
        """Whether scores are in [0, 1], so that they can be shown in per cent."""
        return (self.low, self.high) == (0, 1)

    @cached_property
    def models(self) -> tuple[ModelName, ...]:
        """The parameters that name a model."""
        return tuple(parameter for parameter in self.parameters if isinstance(parameter, ModelName))

    @property
    def needs(self) -> tuple[str, ...]:
        """What the metric needs beside the texts, in words."""
        asked = [parameter.words for parameter in self.models if parameter.is_asked]
        return (*asked, *self.needs_beside, *(parameter.words for parameter in self.models if not parameter.is_asked))

    def asks(self, *kinds: ModelKind) -> bool:
        """Whether the metric has a parameter that names a model of one of these kinds."""
        return any(parameter.kind in kinds for parameter in self.models)

    @cached_property
    def asks_model(self) -> bool:
        """Whether the metric asks a model about replies; a panel may."""
        return self.has_members or any(parameter.is_asked for parameter in self.models)

    @property
    def has_members(self) -> bool:
        """Whether a parameter lists other metrics, which become one."""
        return any(isinstance(parameter, Members) for parameter in self.parameters)

    @property
    def looks_at_utterance(self) -> bool:
        """Whether a score depends on the utterance, and not on references alone."""
        return bool({self.uses, self.beside} & {Uses.GOLDS, Uses.UTTERANCE, Uses.DIALOGUE, Uses.CONTEXT})

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

    def as_json(self) -> dict[str, object]:
        """Return what commands and routes say of it."""
        return {
            "name": self.name,
            "summary": self.summary,
            "references": self.uses.value,
            "range": [self.low, self.high],
            "higher_is_better": self.higher_is_better,
            "corpus_from": self.corpus.value,
            "needs": list(self.needs),
            "paper": self.paper,
            "parameters": [
                {
                    "name": parameter.name,
                    "default": parameter.default,
                    "values": parameter.allowed,
                    "choices": list(parameter.choices) if isinstance(parameter, Choice) else None,
                    "help": parameter.help,
                }
                for parameter in self.parameters
            ],
        }
