"""A probe of a judge for bias: questions whose right answer is that nothing differs.

    position    two replies in both orders, and a reply beside itself: is place A chosen more often than place B?
    length      the reply said twice: is it rated higher than said once?
    verbosity   the reply between phrases that say nothing: is it rated higher than alone?

An effect of position is from −1 (always B) to 1 (always A), one of length or verbosity is a difference of scores from 0
to 1. A bias is reported when the interval over items excludes 0, and the effect is not too small to matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np

from refaug.core.errors import BadInput
from refaug.core.records import Item, Origin
from refaug.extras.judges.language_models.answer_reading import TIE
from refaug.extras.judges.language_models.asking import Asking
from refaug.extras.judges.language_models.pairwise import PairwiseJudge, mean_estimate
from refaug.extras.judges.language_models.pointwise import PointwiseJudge, SampleSettings
from refaug.extras.judges.language_models.rubric import Rubric
from refaug.extras.judges.metrics.judged_replies import JudgeQuestion
from refaug.metrics.base import Floats, Problem
from refaug.metrics.statistics.resampling import Estimate

_BEFORE: Final = "Well, to be honest with you, and as far as I can say, "
_AFTER: Final = " That is really how I see it, if I may put it like that, all things considered."
_LEAST_EFFECT: Final = 0.02  # a smaller one changes no comparison of systems that matters
_TURNS: Final = 10


class Bias(StrEnum):
    """What a judge may wrongly prefer."""

    POSITION = "position"
    LENGTH = "length"
    VERBOSITY = "verbosity"


@dataclass(frozen=True, kw_only=True)
class BiasFinding:
    """The effect of one bias, positive for place A and for longer replies."""

    bias: Bias
    effect: Estimate
    items: int  # that have an effect
    unusable: int  # that have none, since an answer is missing or no rating

    @property
    def is_biased(self) -> bool | None:
        """Whether there is a bias; None where nothing can be said."""
        low, high, effect = self.effect.low, self.effect.high, self.effect.value
        if low is None or high is None or effect is None:
            return None if effect is None or effect else False
        return (low > 0 or high < 0) and abs(effect) >= _LEAST_EFFECT

    def as_json(self) -> dict[str, object]:
        """Return the finding."""
        interval = None if self.effect.low is None else [self.effect.low, self.effect.high]
        return {
            "bias": self.bias.value,
            "effect": self.effect.value,
            "interval": interval,
            "items": self.items,
            "unusable": self.unusable,
            "biased": self.is_biased,
        }


def probe_bias(
    asking: Asking, rubric: Rubric, items: Sequence[Item], *, base: str | None = None, draws: int, seed: int
) -> list[BiasFinding]:
    """Probe a judge with the replies of a system, or with the golds."""
    bases = [(each.turns[-_TURNS:], text) for each in items if (text := _base_of(each, base)) and each.turns]
    if not bases:
        what = f"replies of {base}" if base else "golds"
        raise BadInput(f"no item has {what} and an utterance", remedy="--base SYSTEM, or items with golds")
    judge = PointwiseJudge(asking, rubric, SampleSettings())
    plain = _scores(judge, bases)
    effects = {
        Bias.POSITION: position_effects(PairwiseJudge(asking, rubric), bases),
        Bias.LENGTH: _scores(judge, [(turns, f"{text} {text}") for turns, text in bases]) - plain,
        Bias.VERBOSITY: _scores(judge, [(turns, wordy(text)) for turns, text in bases]) - plain,
    }
    findings = list[BiasFinding]()
    for bias, of_items in effects.items():
        finite = of_items[np.isfinite(of_items)]
        estimate = mean_estimate(finite, draws=draws, seed=seed)
        findings.append(
            BiasFinding(bias=bias, effect=estimate, items=len(finite), unusable=len(of_items) - len(finite))
        )
    return findings


def _base_of(test_item: Item, base: str | None) -> str:
    if base is not None:
        return test_item.replies.get(base, "").strip()
    golds = (reference.text for reference in test_item.references if reference.source is Origin.GOLD)
    return next(golds, "").strip()


def wordy(text: str) -> str:
    """Return the text between phrases that say nothing."""
    first = text[:1].lower() + text[1:] if text[1:2].islower() else text
    return f"{_BEFORE}{first}{_AFTER}"


def _scores(judge: PointwiseJudge, replies: Sequence[tuple[tuple[str, ...], str]]) -> Floats:
    judgements = judge.judge_replies([JudgeQuestion(turns=turns, reply=text) for turns, text in replies])
    return np.array([np.nan if judgement.score is None else judgement.score for judgement in judgements])


def position_effects(judge: PairwiseJudge, bases: Sequence[tuple[tuple[str, ...], str]]) -> Floats:
    """Return the mean of three choices of each item: 1 for A, −1 for B, 0 for a tie; it is 0 without a bias."""
    asked = [
        question
        for turns, text in bases
        for question in ((turns, text, text), (turns, text, wordy(text)), (turns, wordy(text), text))
    ]
    signs = [
        np.nan if isinstance(choice, Problem) else {"A": 1.0, "B": -1.0, TIE: 0.0}[choice]
        for choice in judge.choices(asked)
    ]
    return np.asarray(np.array(signs).reshape(len(bases), 3).mean(axis=1))
