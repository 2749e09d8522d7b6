"""The metric `judge`: what a language model behind an endpoint finds of a reply, by a rubric.

The metric says which questions there are, and a judge answers them: the dialogue, the reply, and, if the settings say
so, the golds or all references with their weights as evidence. A score is in [0, 1]: the place on the rubric's scale.
A reply that the judge refused, or answered with something else than a number of the scale, has no score and a problem
that says why; nothing stands in for it.

All questions are asked at once, when the metric is bound to its replies (`for_replies`), so that the signature can
name what answered. Empty replies are never sent: they get 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol, Self

import numpy as np

from refaug.core.errors import Usage
from refaug.metrics.base import NO_UTTERANCE, Floats, Indexes, Prepared, Problem, References
from refaug.metrics.metric_info import MetricInfo, Uses
from refaug.metrics.models.model_scores import ModelMetric, PreparedParts

_TURN_END: Final = "\x1e"  # the record separator, which is in no text that people write
_USES: Final[Mapping[str, tuple[Uses, Uses | None]]] = {
    "none": (Uses.UTTERANCE, None),
    "gold": (Uses.GOLDS, None),
    "weighted": (Uses.WEIGHTED, Uses.UTTERANCE),
}
NOT_JUDGED: Final = Problem("judge_failed", "the judge was not asked about it")


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeQuestion:
    """A reply to judge: the turns before it, and what the judge sees as evidence, each text with its weight."""

    turns: tuple[str, ...]
    reply: str
    evidence: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What a judge found: a score from 0 to 1, or the problem that there is none."""

    score: float | None
    samples: int = 0  # answers that count
    unusable: int = 0  # answers that do not
    problem: Problem | None = None
    reasons: tuple[str, ...] = ()  # of the answers that count, where the rubric asks for them


class EndpointJudge(Protocol):
    """A source of judgements; the service implements it with a language model."""

    @property
    def settings(self) -> Mapping[str, str]:
        """What signatures say of it: the rubric with its hash, the model, what answered."""

    @property
    def details(self) -> Mapping[str, str]:
        """What full signatures say beside that."""

    def judge_replies(self, questions: Sequence[JudgeQuestion]) -> list[Judgement]:
        """Return a judgement for each question, in order; equal questions are asked once."""

    def remarks(self) -> tuple[str, ...]:
        """Return warnings of what changes the meaning of the judgements so far."""

    def require_passport(self) -> None:
        """Raise NotAllowed unless a passport says what the judge is worth."""


class JudgedReplies(ModelMetric[EndpointJudge]):
    """The judgements of replies; without a judge there are none."""

    columns = ("total", "replies", "samples", "unusable")
    turn_separator = _TURN_END

    def __init__(self, info: MetricInfo, settings: Mapping[str, str]) -> None:
        if settings["samples"] != "1" and settings["temperature"] == "0":
            raise Usage(
                f"{info.name}: {settings['samples']} samples at temperature 0 are the same answer again",
                remedy="temperature=0.7, or samples=1",
            )
        uses, beside = _USES[settings["refs"]]
        super().__init__(replace(info, uses=uses, beside=beside), settings)
        self.turns = int(settings["turns"])
        self._judgements = dict[JudgeQuestion, Judgement]()

    def with_judge(self, judge: EndpointJudge) -> Self:
        """Return the metric with this judge, which the signature names."""
        bound = self.bound(judge, judge.settings)
        bound._judgements = {}  # noqa: SLF001
        return bound

    def versions(self) -> Mapping[str, str]:
        """Return what full signatures say of the judge."""
        return {} if self._source is None else self._source.details

    def part_of(self, references: References) -> Any:
        """Return the turns and the evidence of an item."""
        return self.context_of(references) or NO_UTTERANCE

    def context_of(self, references: References) -> tuple[tuple[str, ...], tuple[tuple[str, float], ...]] | None:
        """Return the turns and the evidence that the judge sees of an item; None where it has no utterance."""
        joined = references.beside.utterance if references.beside is not None else references.utterance
        if not (joined or "").strip():
            return None
        evidence = sorted(
            set(zip(references.texts, references.weights, strict=True)), key=lambda one: (-one[1], one[0])
        )
        return tuple((joined or "").split(_TURN_END)), tuple(pair for pair in evidence if pair[0].strip())

    def for_replies(self, replies: Sequence[str], references: Sequence[References], item_places: Indexes) -> Self:
        """Return the metric with the judgements of these replies, all asked at once, item by item.

        So a budget that ends early leaves out items, and not the systems that come last.
        """
        judge = self.require_source()
        contexts = [self.context_of(of_item) for of_item in references]
        order = np.argsort(item_places, kind="stable").tolist()
        questions = dict.fromkeys(
            question
            for row in order
            if (question := _question(replies[row], contexts[int(item_places[row])])) is not None
        )
        judgements = dict(zip(questions, judge.judge_replies(list(questions)), strict=True))
        copied = self.with_judge(judge)
        copied._judgements = judgements  # noqa: SLF001
        return copied

    def statistics(
        self, replies: Sequence[str], prepared: Prepared, reply_places: Indexes, item_places: Indexes
    ) -> Floats:
        """Return the score, a count, and the numbers of answers that count and do not."""
        assert isinstance(prepared, PreparedParts)
        self.require_source()
        rows = np.full((len(item_places), len(self.columns)), np.nan)
        for row, (reply_place, item_place) in enumerate(zip(reply_places.tolist(), item_places.tolist(), strict=True)):
            context = prepared.parts[item_place]
            if context is None:
                continue
            question = _question(replies[reply_place], context)
            if question is None:
                rows[row] = (0, 1, 0, 0)
                continue
            judgement = self._judgements.get(question)
            if judgement is not None and judgement.score is not None:
                rows[row] = (judgement.score, 1, judgement.samples, judgement.unusable)
        return rows

    def problem_of(self, reply: str, prepared: Prepared, item_place: int) -> Problem:
        """Return why the reply has no score."""
        assert isinstance(prepared, PreparedParts)
        question = _question(reply, prepared.parts[item_place])
        judgement = None if question is None else self._judgements.get(question)
        if judgement is not None and judgement.problem is not None:
            return judgement.problem
        return prepared.problems.get(item_place) or NOT_JUDGED

    def reasons(self, reply: str, references: References) -> list[dict[str, object]] | None:
        """Return the reasons that the judge gave, where its rubric asks for them."""
        question = _question(reply, self.context_of(references))
        judgement = None if question is None else self._judgements.get(question)
        return [{"reason": reason} for reason in judgement.reasons] or None if judgement is not None else None

    def undefined(self) -> Problem:
        """Return the meaning of a row without a score."""
        return NOT_JUDGED

    def require_passport(self) -> None:
        """Raise NotAllowed unless a passport says what the judge is worth."""
        self.require_source().require_passport()


def _question(
    reply: str, context: tuple[tuple[str, ...], tuple[tuple[str, float], ...]] | None
) -> JudgeQuestion | None:
    """Return the question about a reply; None for an empty reply, and where there is no dialogue."""
    if context is None or not reply.strip():
        return None
    return JudgeQuestion(turns=context[0], reply=reply, evidence=context[1])
