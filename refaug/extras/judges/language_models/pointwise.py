"""A judge that rates one reply at a time, by a rubric."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from refaug.bots.endpoint.chat import ChatAnswer, ChatRequest, Fault, FaultKind
from refaug.bots.endpoint.client import Outcome
from refaug.core.errors import Usage
from refaug.core.records import Item, Origin, Reference
from refaug.extras.judges.language_models.answer_reading import Ratings, read_ratings, read_reason
from refaug.extras.judges.language_models.asking import Asking
from refaug.extras.judges.language_models.rubric import VERSION, Rubric, drawn_criteria, reply_messages
from refaug.extras.judges.metrics.judged_replies import Judgement, JudgeQuestion
from refaug.metrics.base import Problem
from refaug.scoring.provenance import Provenance, with_provenance

NOT_REPRODUCIBLE: Final = "not reproducible"
_TOP_LOGPROBS: Final = 20
_TOKENS_PER_CRITERION: Final = 24
_TOKENS: Final = 64
_TOKENS_OF_REASON: Final = 128
_FAILED: Final = "judge_failed"
_CODES: Final[Mapping[FaultKind, str]] = {
    FaultKind.OVER_BUDGET: "judge_over_budget",
    FaultKind.GIVEN_UP: "judge_given_up",
    FaultKind.NOT_STORED: "judge_not_stored",
}


def problem_of_fault(fault: Fault) -> Problem:
    """Return the problem of a reply that a fault left without an answer."""
    return Problem(_CODES.get(fault.kind, _FAILED), f"the judge gave no answer: {fault.message}")


@dataclass(frozen=True, kw_only=True)
class SampleSettings:
    """How often and how a judge is asked each question."""

    samples: int = 1
    temperature: float = 0.0
    seed: int = 1
    is_expected: bool = False  # the mean by probabilities instead of the number
    repeat: int = 0  # questions that are asked twice
    is_weighted: bool = False  # the evidence has weights
    occasion: str = ""  # why it is asked: what was answered on another occasion does not count


@dataclass(frozen=True, kw_only=True)
class _SampleRequest:
    """One request, and the question that it belongs to."""

    question: JudgeQuestion
    request: ChatRequest
    first: str  # the criterion that is shown first


def sampling_of(settings: Mapping[str, str], occasion: str = "") -> SampleSettings:
    """Return how the metric `judge` asks with these settings."""
    return SampleSettings(
        samples=int(settings["samples"]),
        temperature=float(settings["temperature"]),
        seed=int(settings["seed"]),
        is_expected=settings["score"] == "expected",
        repeat=int(settings["repeat"]),
        is_weighted=settings["refs"] == "weighted",
        occasion=occasion,
    )


class Certificate(Protocol):
    """What a judge has to show before its scores count."""

    def require(self) -> None:
        """Raise NotAllowed unless there is one; from now on, also where it turns out not to hold any more."""

    def check(self, answered_by: Mapping[str, int]) -> None:
        """Look whether it holds for the models with fingerprints that answered, each with its number of answers."""

    def remarks(self) -> Iterator[str]:
        """Yield why it does not hold."""


class PointwiseJudge:
    """A language model behind an endpoint that rates replies."""

    def __init__(
        self, asking: Asking, rubric: Rubric, sampling: SampleSettings, certificate: Certificate | None = None
    ) -> None:
        if sampling.is_expected and len(str(rubric.low)) != len(str(rubric.high)):
            raise Usage(
                f"score=expected, and numbers from {rubric.low} to {rubric.high} differ in their digits: what could "
                "have stood for the first digit is not a number of the scale",
                remedy="a scale such as 1 to 5, or score=number",
            )
        self._asking, self._rubric, self._sampling = asking, rubric, sampling
        self._certificate = certificate
        self._unusable, self._fingerprints = Counter[str](), Counter[str]()
        self._models, self._answered_by = set[str](), Counter[str]()
        self._first_criteria = Counter[str]()
        self._held: str | None = None  # what became of the questions that were asked twice

    @property
    def settings(self) -> Mapping[str, str]:
        """The judge and its language model, the rubric with its hash, what answered, and whether answers held."""
        endpoint = self._asking.endpoint
        return {
            "model": endpoint.spec,
            "rubric": self._rubric.spec,
            "llm": endpoint.model,
            "fingerprint": _common(self._fingerprints),
            "answers": self._held or NOT_REPRODUCIBLE,
        }

    @property
    def answered_by(self) -> Mapping[str, int]:
        """How many answers each model with its fingerprint gave."""
        return dict(self._answered_by)

    @property
    def first_criteria(self) -> Mapping[str, int]:
        """How many answers each criterion was shown first for, where there are several."""
        return {criterion.name: self._first_criteria[criterion.name] for criterion in self._rubric.criteria}

    @property
    def details(self) -> Mapping[str, str]:
        """The version of the questions, and the language models that say that they answered."""
        models = {"answered-by": ",".join(sorted(self._models))} if self._models else {}
        return {"questions": VERSION, **models}

    def judge_replies(self, questions: Sequence[JudgeQuestion]) -> list[Judgement]:
        """Ask every question, as often as there are samples, and average the answers that can be used."""
        distinct = list(dict.fromkeys(questions))
        samples = [sample for question in distinct for sample in self._samples(question)]
        outcomes = self._asking.ask([sample.request for sample in samples])
        by_question = dict[JudgeQuestion, list[Outcome]]()
        for sample, outcome in zip(samples, outcomes, strict=True):
            by_question.setdefault(sample.question, []).append(outcome)
            if isinstance(outcome, ChatAnswer):
                self._first_criteria[sample.first] += 1
                self._fingerprints[outcome.fingerprint] += 1
                self._models.add(outcome.model)
                self._answered_by[outcome.version] += 1
        if self._certificate is not None and self._answered_by:
            self._certificate.check(self._answered_by)
        self._held = self._repeat(samples, outcomes)
        judgements = {question: self._judgement(by_question[question]) for question in distinct}
        self._asking.progress.stage("score judge", len(questions), "replies")
        return [judgements[question] for question in questions]

    def require_passport(self) -> None:
        """Raise NotAllowed unless a passport says what the judge is worth."""
        if self._certificate is not None:
            self._certificate.require()

    def _samples(self, question: JudgeQuestion) -> list[_SampleRequest]:
        return [self._sample(question, number) for number in range(self._sampling.samples)]

    def _sample(self, question: JudgeQuestion, number: int) -> _SampleRequest:
        sampling, rubric = self._sampling, self._rubric
        texts = [text.encode("utf-8", "replace").decode() for text in (*question.turns, question.reply)]
        criteria = drawn_criteria(rubric, [sampling.seed + number, texts])
        request = ChatRequest(
            messages=reply_messages(rubric, question, is_weighted=sampling.is_weighted, criteria=criteria),
            max_tokens=_TOKENS
            + _TOKENS_PER_CRITERION * len(rubric.criteria)
            + (_TOKENS_OF_REASON if rubric.has_reasons else 0),
            temperature=sampling.temperature,
            top_logprobs=_TOP_LOGPROBS if sampling.is_expected else 0,
            seed=sampling.seed + number,
            draw=f"{sampling.occasion}sample {number}",
        )
        return _SampleRequest(question=question, request=request, first=criteria[0].name)

    def _judgement(self, outcomes: Sequence[Outcome]) -> Judgement:
        scores, problems, reasons = list[float](), list[Problem](), list[str]()
        for outcome in outcomes:
            ratings = self._ratings(outcome)
            if isinstance(ratings, Problem):
                problems.append(ratings)
                self._unusable[ratings.code] += 1
            else:
                scores.append(self._rubric.scaled(self._rubric.mean_rating(ratings)))
                reason = read_reason(outcome) if self._rubric.has_reasons and isinstance(outcome, ChatAnswer) else None
                reasons += [] if reason is None else [reason]
        if not scores:
            return Judgement(score=None, unusable=len(problems), problem=Counter(problems).most_common(1)[0][0])
        return Judgement(
            score=sum(scores) / len(scores), samples=len(scores), unusable=len(problems), reasons=tuple(reasons)
        )

    def _ratings(self, outcome: Outcome) -> Ratings | Problem:
        if isinstance(outcome, Fault):
            return problem_of_fault(outcome)
        return read_ratings(outcome, self._rubric, is_expected=self._sampling.is_expected)

    # ── asked twice ───────────────────────────────────────────────────────────────────────────────────────────────

    def _repeat(self, samples: Sequence[_SampleRequest], outcomes: Sequence[Outcome]) -> str | None:
        """Ask some questions again; None unless every answer and the fingerprint are the same."""
        answered = [
            (sample.request, outcome)
            for sample, outcome in zip(samples, outcomes, strict=True)
            if isinstance(outcome, ChatAnswer)
        ]
        chosen = sorted(answered, key=lambda entry: str(entry[0].messages))[: self._sampling.repeat]
        has_seed = "seed" not in self._asking.endpoint.omit
        if not chosen:
            return None
        again = self._asking.ask([replace(request, draw=f"{request.draw} again") for request, _ in chosen])
        count = sum(
            isinstance(second, ChatAnswer) and (second.text, second.fingerprint) == (first.text, first.fingerprint)
            for (_, first), second in zip(chosen, again, strict=True)
        )
        has_fingerprint = len(self._fingerprints) == 1 and "" not in self._fingerprints
        if count == len(chosen) and has_seed and has_fingerprint:
            return f"held twice ({count} of {len(chosen)})"
        return f"{NOT_REPRODUCIBLE} ({count} of {len(chosen)} held)"

    def remarks(self) -> tuple[str, ...]:
        """Return what was asked, what could not be used, and that the scores cannot be made again."""
        lines = list(self._asking.remarks())
        if self._unusable:
            reasons = ", ".join(f"{count:,} {code}" for code, count in self._unusable.most_common())
            lines.append(f"answers that do not count, and are averaged nowhere: {reasons}")
        if len(self._rubric.criteria) > 1:
            shown = ", ".join(f"{name} {count:,} times" for name, count in self.first_criteria.items())
            lines.append(f"the order of criteria was drawn for each question; first stood {shown}")
        if (self._held or NOT_REPRODUCIBLE).startswith(NOT_REPRODUCIBLE):
            why = "the answers did not hold twice" if self._sampling.repeat else "repeat=5 asks some questions twice"
            lines.append(f"scores of a judge are not reproducible, except from its stored answers; {why}")
        if self._certificate is not None:
            lines.extend(self._certificate.remarks())
        return tuple(lines)


def _common(counts: Counter[str]) -> str:
    """Return the only fingerprint, or that there are none or several."""
    names = sorted(name for name in counts if name)
    if not names:
        return "none"
    return names[0] if len(counts) == 1 else f"mixed ({len(counts)})"


# ── A judge as a rater: weights of retrieved references, which a frozen set can store ─────────────────────────────────
#
# Each reference that was found is judged as if it were a reply to the item's dialogue; its rating is 2 · score − 1,
# and its weight is the rating. A reference without a judgement is left out, since a missing judgement is no low one.
# Golds, parrots and references that people weighted stay as they are.

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
