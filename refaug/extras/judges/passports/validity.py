"""Whether a judge that scores has a passport that still holds.

A passport holds for a model, its parameters, a rubric and the settings of the metric. The fingerprint names who
answers; where there is none, one of a program alone, several, or another one than the passport has, questions that were
kept for this are asked anew, once a day and fingerprint: 30, and up to 70 more where these leave a doubt. If the
answers are further from the certified ones than those were from each other, the passport is stale.

The two looks share a budget of false alarms of .5 % of days. A drift of .3 points on a scale of five is about 2.8
standard errors of 30 answers, and 5.2 of 100: one look at 30 finds it half of the time, both together nearly always.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import sqrt
from typing import Any, Final, Self

import numpy as np

from refaug.bots.endpoint.answer_store import AnswerStore
from refaug.core.errors import NotAllowed, RefaugError, Unavailable
from refaug.core.home import Settings
from refaug.extras.judges.language_models.asking import Asking
from refaug.extras.judges.language_models.pointwise import PointwiseJudge, SampleSettings
from refaug.extras.judges.language_models.rubric import Rubric
from refaug.extras.judges.metrics.judged_replies import JudgeQuestion
from refaug.extras.judges.passports.binding import Binding, StoredPassport, passports
from refaug.metrics.base import Floats

CANARIES: Final = 100
_FIRST_LOOK: Final = 30
_LEAST_ANSWERED: Final = 20
_OF_A_PROGRAM: Final = re.compile(r"b\d+-\w+")  # a build of llama.cpp, whatever weights it serves
_LEAST_SPREAD: Final = 0.02  # of scores from 0 to 1: smaller differences change no comparison that matters


@dataclass(frozen=True, kw_only=True)
class _Bounds:
    """How many standard errors from 0 a look takes for another judge."""

    mean: float
    whole: float  # of the mean square, which is skewed


_EARLY: Final = _Bounds(mean=3.3, whole=4.2)
_LATE: Final = _Bounds(mean=3.0, whole=3.6)
_DOUBT: Final = _Bounds(mean=1.2, whole=2.0)  # of a steady judge, on three days of ten


@dataclass(frozen=True, kw_only=True)
class CanaryAnswers:
    """How far new answers are from the certified ones."""

    mean: float
    spread: float  # root of the mean square
    answered: int


@dataclass(frozen=True, kw_only=True)
class CertifiedSpread:
    """How far two answers of the certified judge to one question differ: standard deviations."""

    differences: float
    squares: float  # of the squared differences

    @classmethod
    def of(cls, changes: Floats) -> Self:
        """Measure the differences of answers to the same questions."""
        return cls(differences=float(np.nanstd(changes)), squares=float(np.nanstd(changes**2)))

    @classmethod
    def read(cls, saved: Mapping[str, Any]) -> Self:
        """Read it from a passport."""
        return cls(differences=float(saved["differences"]), squares=float(saved["squares"]))


class PassportCheck:
    """The passport of a judge, for one evaluation."""

    def __init__(
        self,
        home: Settings,
        asking: Asking,
        rubric: Rubric,
        sampling: SampleSettings,
        settings: Mapping[str, str],
        *,
        today: Callable[[], str] = lambda: f"{datetime.now(UTC):%Y-%m-%d}",
    ) -> None:
        self._asking, self._rubric, self._sampling = asking, rubric, sampling
        self._today = today
        self._is_required = False
        self._passport, why = _find(home, asking.endpoint.name, Binding.of(asking.endpoint, rubric, settings))
        self._refusal: RefaugError | None = None if why is None else self._uncertified(why)

    def require(self) -> None:
        """Raise NotAllowed unless a passport holds; from now on, also where it turns out to be stale."""
        self._is_required = True
        if self._refusal is not None:
            raise self._refusal

    def check(self, answered_by: Mapping[str, int]) -> None:
        """Ask the stored questions again unless the certified model is known to answer."""
        if self._passport is None or self._refusal is not None:
            return
        certified = self._passport.figures["answered_by"]
        if names_weights(certified["fingerprint"]) and list(answered_by) == [certified["name"]]:
            return
        self._refusal = self._stale("+".join(sorted(answered_by)))
        if self._refusal is not None and self._is_required:
            raise self._refusal

    def remarks(self) -> Iterator[str]:
        """Yield why no passport holds."""
        if self._refusal is not None:
            yield f"{self._refusal.message}; {self._refusal.remedy}"

    def _uncertified(self, why: str) -> NotAllowed:
        judge = self._asking.endpoint.name
        return NotAllowed(why, remedy=f"refaug judge certify {judge} ITEMS --name NAME says what it is worth")

    def _stale(self, answered_by: str) -> RefaugError | None:
        """Return why the passport does not hold any more, or None."""
        assert self._passport is not None
        kept = {entry["id"]: entry["score"] for entry in self._passport.figures["canary"]}
        questions = _kept_questions(self._asking, list(kept))
        if len(questions) < len(kept):
            return self._uncertified(
                f"passport {self._passport.spec}: of its {len(kept)} questions {len(questions)} are in this home, so "
                f"whether {self._asking.endpoint.name} is still the same cannot be seen"
            )
        occasion = f"canary {self._today()} {self._passport.spec} {answered_by} "
        seed = self._passport.figures.get("judge_seed", self._sampling.seed)  # another one may draw other answers
        sampling = replace(self._sampling, occasion=occasion, repeat=0, seed=seed)
        judge, faults_before = PointwiseJudge(self._asking, self._rubric, sampling), self._asking.faults.copy()

        def ask(part: slice) -> Floats:
            judgements = judge.judge_replies([questions[name] for name in list(kept)[part]])
            return np.array([np.nan if one.score is None else one.score for one in judgements])

        verdict = look_again(ask, np.array(list(kept.values())), CertifiedSpread.read(self._passport.figures["spread"]))
        answers, faults = verdict.answers, self._asking.faults - faults_before
        if faults and answers.answered < _LEAST_ANSWERED:
            return Unavailable(
                f"passport {self._passport.spec}: whether {self._asking.endpoint.name} is still the same cannot be "
                f"seen: {answers.answered} of {verdict.asked} questions answered; {faults.most_common(1)[0][0]}",
                remedy="the same command, once the judge answers",
            )
        if verdict.is_beyond:
            return self._uncertified(
                f"passport {self._passport.spec} is stale: {self._asking.endpoint.name} now answers its questions "
                f"{answers.mean:+.3f} from the certified scores, with a spread of {answers.spread:.3f} "
                f"({answers.answered} of {verdict.asked} answered)"
            )
        return None


def names_weights(fingerprint: str) -> bool:
    """Return whether a fingerprint changes with the weights of a model."""
    return bool(fingerprint) and not _OF_A_PROGRAM.fullmatch(fingerprint)


def canary_answers(new: Floats, certified: Floats) -> CanaryAnswers:
    """Compare new scores, NaN where there is none, with the certified ones."""
    changes = (new - certified)[np.isfinite(new)]
    if not len(changes):
        return CanaryAnswers(mean=0.0, spread=0.0, answered=0)
    return CanaryAnswers(mean=float(changes.mean()), spread=sqrt(float((changes**2).mean())), answered=len(changes))


@dataclass(frozen=True, kw_only=True)
class CanaryVerdict:
    """What questions asked anew say, and how many were asked."""

    answers: CanaryAnswers
    is_beyond: bool
    asked: int


def look_again(ask: Callable[[slice], Floats], certified: Floats, spread: CertifiedSpread) -> CanaryVerdict:
    """Ask some of the questions anew, and all of them where the answers leave a doubt.

    `ask` returns the new scores of a part of the questions, NaN where there is none.
    """
    new = ask(slice(0, _FIRST_LOOK))
    answers = canary_answers(new, certified[: len(new)])
    is_last = len(new) == len(certified)
    if is_beyond(answers, spread, _LATE if is_last else _EARLY):
        return CanaryVerdict(answers=answers, is_beyond=True, asked=len(new))
    if is_last or not is_beyond(answers, spread, _DOUBT):
        return CanaryVerdict(answers=answers, is_beyond=False, asked=len(new))
    answers = canary_answers(np.concatenate([new, ask(slice(_FIRST_LOOK, None))]), certified)
    return CanaryVerdict(answers=answers, is_beyond=is_beyond(answers, spread, _LATE), asked=len(certified))


def is_beyond(answers: CanaryAnswers, spread: CertifiedSpread, bounds: _Bounds = _LATE) -> bool:
    """Return whether changes are larger than two answers of the certified judge differ, on average or as a whole."""
    if answers.answered < _LEAST_ANSWERED:
        return True
    expected = max(spread.differences, _LEAST_SPREAD)
    squares = max(spread.squares, expected**2)
    root = sqrt(answers.answered)
    mean, whole = abs(answers.mean) / expected * root, (answers.spread**2 - expected**2) / squares * root
    return mean > bounds.mean or whole > bounds.whole


def _find(home: Settings, judge: str, binding: Binding) -> tuple[StoredPassport | None, str | None]:
    """Return the passport of a judge, and why none holds."""
    try:
        kept = passports(home)
    except (RefaugError, OSError) as error:
        return None, f"the passports of {home.home} cannot be read: {error}"
    for passport in kept:
        if not binding.differences(passport.figures["binding"]):
            why_not = "; ".join(passport.why_not)
            return passport, f"passport {passport.spec}: {why_not}" if why_not else None
    for passport in kept:
        if passport.figures["judge"] == judge:
            listed = ", ".join(binding.differences(passport.figures["binding"]))
            return None, f"judge {judge}: passport {passport.spec} is for {listed}"
    return None, f"judge {judge} has no passport"


# ── Questions that are kept in the home, beside the answers ───────────────────────────────────────────────────────────


def question_json(question: JudgeQuestion) -> dict[str, Any]:
    """Return a question as it is kept."""
    return {"turns": question.turns, "reply": question.reply, "evidence": question.evidence}


def _kept_questions(asking: Asking, names: Sequence[str]) -> dict[str, JudgeQuestion]:
    if asking.answers is None:
        return {}
    with AnswerStore(asking.answers) as store:
        return {
            name: JudgeQuestion(
                turns=tuple(fields["turns"]),
                reply=fields["reply"],
                evidence=tuple((text, weight) for text, weight in fields["evidence"]),
            )
            for name, fields in store.questions(names).items()
        }
