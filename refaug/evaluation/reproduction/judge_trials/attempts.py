"""The judges that are tried, in a list that was written before anything was scored."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from refaug.evaluation.metric_setup.combined.combination import FitSettings, LengthEffect, Method
from refaug.evaluation.reproduction.judge_trials import vhred_features
from refaug.evaluation.reproduction.judge_trials.features import (
    CHRF,
    CONSISTENCY,
    CROSS,
    CROSS_ALONE,
    CROWDING,
    RECALL,
    REPETITION,
    SPECIFICITY,
    TEXT_FEATURES,
)
from refaug.evaluation.reproduction.judge_trials.judge_lines import EQUAL
from refaug.evaluation.reproduction.material.metric_candidates import GREEDY_BY_WORDS, GREEDY_GOLD, REPLY_TO_THREE

RATER, GREEDY = REPLY_TO_THREE.name, GREEDY_BY_WORDS.name
_TWO: Final = (RATER, GREEDY)
_SHORT: Final = {
    RECALL: "rare words",
    CROWDING: "crowding",
    GREEDY_GOLD.name: "greedy, gold",
    CONSISTENCY: "turns",
    CHRF: "chrF",
    vhred_features.MUTUAL: "mutual information",
    vhred_features.TURNS_COSINE: "VHRED, turns",
    vhred_features.GOLD_COSINE: "VHRED, gold",
}  # names of features within names of attempts
ALL_FEATURES: Final = (*_TWO, GREEDY_GOLD.name, CROSS, CROSS_ALONE, *TEXT_FEATURES)
_METHODS: Final[tuple[Method, ...]] = ("ridge", "boosting")
_LENGTHS: Final[tuple[LengthEffect, ...]] = ("free", "held")
_WITHOUT_CROSS: Final = (*_TWO, GREEDY_GOLD.name, CHRF, *TEXT_FEATURES)


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """A judge that is tried: its features, and how they are put together; `fit` is None for a plain sum of ranks."""

    name: str
    why: str
    features: tuple[str, ...]
    fit: FitSettings | None = field(default_factory=FitSettings)


ATTEMPTS: Final = (
    Attempt(name="ranks: rater + υ-greedy", why="unfitted: what a fit has to beat", features=_TWO, fit=None),
    Attempt(
        name="ranks: rater + cross + υ-greedy", why="a second network sees order", features=(*_TWO, CROSS), fit=None
    ),
    Attempt(
        name="ranks: rater + υ-greedy + gold's rare words",
        why="overlap with the gold that long replies do not lose",
        features=(*_TWO, RECALL),
        fit=None,
    ),
    Attempt(name="ridge: rater + υ-greedy", why="the same two, weights fitted", features=_TWO),
    Attempt(
        name="ridge: rater + υ-greedy + greedy, gold",
        why="the gold counts by itself",
        features=(*_TWO, GREEDY_GOLD.name),
    ),
    Attempt(name="ridge: rater + cross + υ-greedy", why="the second network, weights fitted", features=(*_TWO, CROSS)),
    Attempt(name="ridge: texts alone", why="what needs no network", features=TEXT_FEATURES),
    Attempt(
        name="ridge: without a gold",
        why="for logs without golds",
        features=(CROSS_ALONE, SPECIFICITY, REPETITION, CONSISTENCY),
    ),
    Attempt(name="ridge: all features", why="the fit may choose", features=ALL_FEATURES),
    Attempt(
        name="ridge: all features, length held",
        why="tastes in length differ from group to group",
        features=ALL_FEATURES,
        fit=FitSettings(length="held"),
    ),
    Attempt(
        name="ordinal: all features",
        why="ratings are steps, not numbers",
        features=ALL_FEATURES,
        fit=FitSettings(method="ordinal"),
    ),
    Attempt(
        name="ordinal: rater + υ-greedy, length held",
        why="few weights, no length",
        features=_TWO,
        fit=FitSettings(method="ordinal", length="held"),
    ),
    Attempt(
        name="boosting: rater + υ-greedy",
        why="small trees: metrics may count in one range only, or together",
        features=_TWO,
        fit=FitSettings(method="boosting"),
    ),
    *(
        Attempt(
            name=f"{method}: nine features{', length held' if length == 'held' else ''}",
            why="all that needs neither the cross rater nor a VHRED",
            features=_WITHOUT_CROSS,
            fit=FitSettings(method=method, length=length),
        )
        for method in _METHODS
        for length in _LENGTHS
    ),
    *(
        Attempt(
            name=f"equal, length held: {' + '.join(['rater', 'υ-greedy', *(_SHORT[feature] for feature in more)])}",
            why="no weight is fitted; scales and the effect of length are those of other groups",
            features=(*_TWO, *more),
            fit=EQUAL,
        )
        for more in (
            (),
            (RECALL,),
            (CROWDING,),
            (GREEDY_GOLD.name,),
            (RECALL, CROWDING),
            (RECALL, CROWDING, GREEDY_GOLD.name),
            (RECALL, CROWDING, CONSISTENCY),
            (CHRF,),
            (CHRF, vhred_features.MUTUAL),
            (CHRF, vhred_features.TURNS_COSINE, vhred_features.GOLD_COSINE),
            (CHRF, vhred_features.MUTUAL, vhred_features.TURNS_COSINE, vhred_features.GOLD_COSINE),
        )
    ),
    Attempt(
        name="ranks: rater + υ-greedy + mutual information",
        why="what the turns tell of the reply, by a network that sees order",
        features=(*_TWO, vhred_features.MUTUAL),
        fit=None,
    ),
    Attempt(
        name="equal: rater + υ-greedy + mutual information",
        why="the same for single replies, length free",
        features=(*_TWO, vhred_features.MUTUAL),
        fit=FitSettings(method="equal"),
    ),
    Attempt(
        name="ridge: rater + υ-greedy + mutual information",
        why="what the turns tell of the reply, weights fitted",
        features=(*_TWO, vhred_features.MUTUAL),
    ),
    Attempt(
        name="ridge: rater + υ-greedy + all of the VHRED",
        why="likelihoods and vectors of a network of dialogues, weights fitted",
        features=(*_TWO, *vhred_features.VHRED_FEATURES),
    ),
    Attempt(
        name="ridge: rater + υ-greedy + all of the VHRED, length held",
        why="the same without length",
        features=(*_TWO, *vhred_features.VHRED_FEATURES),
        fit=FitSettings(length="held"),
    ),
)
