"""A judge as a rater: weights of retrieved references, which a frozen set can store.

Each reference that was found is judged as if it were a reply to the item's dialogue; its rating is 2 · score − 1, and
its weight is the rating. A reference without a judgement is left out, since a missing judgement is no low one. Golds,
parrots and references that people weighted stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from refaug.core.records import Item, Origin, Reference
from refaug.evaluation.judge.pointwise import PointwiseJudge
from refaug.evaluation.scoring.provenance import Provenance, with_provenance
from refaug.metrics.models.judged_replies import Judgement, JudgeQuestion

_OF_A_RATER: Final = frozenset({"rater", "combine", "cal"})
_TURNS: Final = 10


@dataclass(frozen=True, kw_only=True)
class WeighedItems:
    """Items whose retrieved references have the judge's weights."""

    items: tuple[Item, ...]
    weighed: int
    left_out: int


def weigh(judge: PointwiseJudge, items: Sequence[Item]) -> WeighedItems:
    """Return the items with the judge's weights, and with that in their provenance."""
    questions = {
        (number, place): JudgeQuestion(turns=each.turns[-_TURNS:], reply=reference.text)
        for number, each in enumerate(items)
        for place, reference in enumerate(each.references)
        if reference.source is Origin.RETRIEVED and reference.text.strip() and each.turns
    }
    judgements = dict(zip(questions, judge.judge_replies(list(questions.values())), strict=True))
    weighed = [
        with_provenance(_with_weights(each, number, judgements), _provenance(each.provenance, judge))
        for number, each in enumerate(items)
    ]
    count = sum(judgement.score is not None for judgement in judgements.values())
    return WeighedItems(items=tuple(weighed), weighed=count, left_out=len(judgements) - count)


def _with_weights(test_item: Item, number: int, judgements: dict[tuple[int, int], Judgement]) -> Item:
    references = list[Reference]()
    for place, reference in enumerate(test_item.references):
        judgement = judgements.get((number, place))
        if judgement is None:
            references.append(reference)
        elif judgement.score is not None:
            rating = 2 * judgement.score - 1
            references.append(replace(reference, rating=rating, weight=rating))
    return replace(test_item, references=tuple(references))


def _provenance(line: str, judge: PointwiseJudge) -> str:
    """Return the provenance of references that the judge weighed, instead of a rater."""
    before, settings = Provenance.parse(line), judge.settings
    names = ("llm", "rubric", "fingerprint", "answers")
    weighed_by = ", ".join([f"judge {settings['model']}", *(f"{name} {settings[name]}" for name in names)])
    kept_settings = {key: text for key, text in before.settings.items() if key not in _OF_A_RATER}
    return Provenance(
        settings={**kept_settings, "weights": "rated", "weighed-by": weighed_by},
        details=before.details,
    ).line
