"""Every figure of a study, as JSON: with and without exclusions, and without replies that name their bot.

    study_report(tasks, protocol) → {"study_report": 1, "study", "kind", "protocols", "settings", "questions", "counts",
        "steps", "minutes", "exclusions", "checks", "decisions", "people_needed",
        "analyses": {"kept": …, "all": …, "unnamed": …}, "metrics": null}

A figure without an interval says `why`: `few` people, the `same` in all draws, or `routed` (see report.routed).
Numbers of reversed questions are turned, so that higher is better throughout. Pilot data count only when asked for.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from functools import partial
from statistics import fmean
from typing import Any, Final, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from refaug.core.errors import BadInput, Usage
from refaug.core.version import VERSION
from refaug.extras.studies.exclusions import Exclusions, exclusions, repeat_differences
from refaug.extras.studies.figures.course import minutes_a_participant, minutes_a_task, task_steps
from refaug.extras.studies.figures.disagreements import (
    PairFigures,
    agreement_cost,
    choice_agreement,
    decided_tasks,
    decision_counts,
    go_on,
    label_agreement,
    pair_figures,
    rating_agreement,
)
from refaug.extras.studies.figures.means import BotMeans, mean_rows, rating_means, standardised
from refaug.extras.studies.figures.mixed_model import mixed_model, model_cost
from refaug.extras.studies.figures.ordinal_model import (
    MOST_OF_A_REPORT,
    most_ordinal_cost,
    ordinal_cost,
    ordinal_model,
)
from refaug.extras.studies.figures.turn_labels import (
    LabelledTurn,
    label_questions,
    label_shares,
    labelled_turns,
    labels_cost,
)
from refaug.extras.studies.questions import (
    ATTENTION,
    AnswerType,
    AskedQuestion,
    ChoiceRow,
    RatingRow,
    choice_rows,
    degraded_tasks,
    main_tasks,
    protocol_questions,
    rating_rows,
    routed_question,
)
from refaug.extras.studies.records import StudyTask, TaskSideName, TaskState, TurnRole, task_order
from refaug.extras.studies.report.routed import routed_analyses
from refaug.metrics.statistics.pairwise import BradleyTerry, wilson
from refaug.metrics.statistics.resampling import FEWEST_UNITS, Floats

# ── What a property of bots does to their ratings, tested by permuting ratings within participants ────────────────────
#
# The bot itself is the first factor; a protocol may name others, such as the data that bots were trained on:
# {"analysis": {"factors": {"c-bm25": {"data": "movies"}, "vhred": {"data": "forum"}}}}. The level of a participant
# cannot make a difference, since a participant's ratings are exchanged among themselves alone.

BOT: Final = "bot"
_Judged = TypeVar("_Judged", RatingRow, ChoiceRow)
_SAME: Final = 1e-10


@dataclass(frozen=True, kw_only=True)
class FactorTest:
    """The means of the levels of a factor, less those of their participants, and the p that they are alike.

    p is None where too few participants rated two levels: of the others nothing can be exchanged.
    """

    factor: str
    levels: Mapping[str, float]
    n: int
    participants: int  # who rated two levels at least
    p: float | None


def factor_tests(
    rows: Sequence[RatingRow], factors: Mapping[str, Mapping[str, str]], *, draws: int, seed: int
) -> list[FactorTest]:
    """Test the bots of one question's rows, and every factor that is given by bot."""
    named = {BOT: {row.bot: row.bot for row in rows}, **_by_factor(factors)}
    return [
        test
        for number, (factor, level_of) in enumerate(named.items())
        if (test := _factor_test(rows, factor, level_of, draws, seed + number)) is not None
    ]


def protocol_factors(protocol: Mapping[str, Any] | None) -> dict[str, dict[str, str]]:
    """Return the factors that a protocol gives for each bot."""
    analysis = (protocol or {}).get("analysis") or {}
    factors = cast("Mapping[str, Mapping[str, Any]]", analysis.get("factors", {}))
    if not isinstance(factors, Mapping) or not all(isinstance(levels, Mapping) for levels in factors.values()):
        raise BadInput(
            "protocol: analysis.factors: an object of bots was expected", remedy='{"c-bm25": {"data": "movies"}}'
        )
    return {str(bot): {str(name): str(level) for name, level in levels.items()} for bot, levels in factors.items()}


def _by_factor(factors: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    names = sorted({name for levels in factors.values() for name in levels})
    return {name: {bot: levels[name] for bot, levels in factors.items() if name in levels} for name in names}


def _factor_test(
    rows: Sequence[RatingRow], factor: str, level_of: Mapping[str, str], draws: int, seed: int
) -> FactorTest | None:
    used = sorted(
        (row for row in rows if row.bot in level_of), key=lambda row: (row.participant, row.task.task, row.side)
    )
    names, level = np.unique([level_of[row.bot] for row in used], return_inverse=True)
    if len(names) < 2:
        return None
    person = np.unique([row.participant for row in used], return_inverse=True)[1]
    numbers = np.array([row.number for row in used])
    centred = numbers - (np.bincount(person, numbers) / np.bincount(person))[person]
    crossed = {int(each) for each in np.unique(person) if len(np.unique(level[person == each])) > 1}
    is_enough = len(crossed) >= FEWEST_UNITS
    p = _permuted_p(centred, level, person, len(names), draws, seed) if is_enough else None
    means = np.bincount(level, centred) / np.bincount(level)
    return FactorTest(
        factor=factor,
        levels={str(name): float(mean) for name, mean in zip(names, means, strict=True)},
        n=len(used),
        participants=len(crossed),
        p=p,
    )


def _permuted_p(
    centred: Floats, level: NDArray[np.intp], person: NDArray[np.intp], levels: int, draws: int, seed: int
) -> float:
    """Return how often the levels' means differ as much when each participant's ratings change places."""
    random = np.random.default_rng(seed)
    sizes = np.bincount(level, minlength=levels)

    def spread(numbers: Floats) -> float:
        sums = np.bincount(level, numbers, minlength=levels)
        return float((sums * sums / sizes).sum())

    observed = spread(centred)
    as_large = 0
    for _ in range(draws):
        order = np.lexsort((random.random(len(person)), person))  # people in order, their ratings shuffled
        as_large += spread(centred[order]) >= observed * (1 - _SAME)
    return (as_large + 1) / (draws + 1)


# ── Every figure of a study, as JSON ──────────────────────────────────────────────────────────────────────────────────

FORMAT: Final = 1
Z_LEAST: Final = (3, 10)  # ratings of a participant from which on they are standardised
MEAN_OF_ALL: Final = "(mean of all)"  # of the numbers of one task
FEW_PEOPLE: Final = 10  # participants below which a report says that they are too few to conclude from


@dataclass(frozen=True, kw_only=True)
class StudyAnalysis:
    """How the figures are computed."""

    level: float = 0.95
    draws: int = 1000
    seed: int = 1
    clustered: bool = True
    ties: str = "half"
    with_pilot: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.level < 1:
            raise Usage(f"a level of {self.level:g}", remedy="a share between 0 and 1, such as 0.95")
        if not 1 <= self.draws <= 100_000:
            raise Usage(f"{self.draws:,} draws", remedy="from 1 to 100,000, usually 1,000")

    @classmethod
    def of_protocol(cls, protocol: Mapping[str, Any] | None, **changes: Any) -> StudyAnalysis:
        """Return the settings of a protocol; arguments that are not None take their place."""
        analysis = (protocol or {}).get("analysis") or {}
        settings_given = {name: analysis[name] for name in ("level", "draws", "seed", "ties") if name in analysis}
        settings = cls(**settings_given, clustered=analysis.get("cluster", "participant") == "participant")
        return replace(settings, **{name: setting for name, setting in changes.items() if setting is not None})


_ANALYSES: Final = 4  # with and without exclusions, without replies that name a bot, and decided
_OF_ANSWER: Final = 200.0  # units of an answer in an analysis
_OF_DRAW: Final = 0.25  # … and of each draw that it takes part in
_OF_CHOICE: Final = 0.9, 0.0035  # units of a choice in each draw of strengths, and for each two bots


def report_cost(tasks: Iterable[StudyTask], protocol: Mapping[str, Any], draws: int) -> float:
    """Return an upper bound of the units of `study_report`: each answer takes part in each draw of each analysis."""
    counted = main_tasks(tasks)
    questions = protocol_questions(protocol, counted)
    rated = _rated(questions)
    openings = tuple(protocol.get("openings") or ())
    fits = _ANALYSES * rated
    of_ordinal = min(fits * ordinal_cost(counted, openings), most_ordinal_cost(fits))
    of_answers = (len(questions) + 1) * len(counted) * (_OF_ANSWER + _OF_DRAW * draws)
    choices = sum(question.type is AnswerType.PAIR for question in questions) * len(counted)
    bots = len({bot.bot for task in counted for bot in task.bots})
    of_choices = choices * draws * (_OF_CHOICE[0] + _OF_CHOICE[1] * bots**2)
    of_labels = labels_cost(counted, protocol, draws)
    of_models = rated * model_cost(counted, openings)
    of_analysis = of_answers + of_choices + of_models + of_labels + agreement_cost(counted, protocol)
    return _ANALYSES * of_analysis + of_ordinal


def _rated(questions: Sequence[AskedQuestion]) -> int:
    """Return how many questions are answered with numbers, and the mean of all."""
    return 1 + sum(question.type is AnswerType.NUMBER for question in questions)


def study_report(
    tasks: Iterable[StudyTask],
    protocol: Mapping[str, Any] | None,
    settings: StudyAnalysis | None = None,
    check: Callable[[], None] = go_on,
) -> dict[str, Any]:
    """Return every figure of the tasks of one study; their order changes nothing.

    `check` is called before each question, step of a model, pair of participants and some draws of strengths, and ends
    the work by raising.
    """
    settings = settings or StudyAnalysis.of_protocol(protocol)
    listed = sorted(tasks, key=task_order)
    used = [task for task in listed if settings.with_pilot or not task.pilot]
    _require_one_study(listed, used)
    questions = protocol_questions(protocol, used)
    rules = (protocol or {}).get("exclude") or {}
    left_out = exclusions(used, rules, questions)
    groups = {"kept": left_out.kept(used), "all": used}
    if any(task.names_bot for task in main_tasks(groups["kept"])):
        groups["unnamed"] = [task for task in groups["kept"] if not task.names_bot]
    decisions = decision_counts(used, questions)
    if decisions["decisions"]:
        groups["decided"] = decided_tasks(groups["kept"], questions)
    factors, openings = protocol_factors(protocol), tuple((protocol or {}).get("openings") or ())
    most = MOST_OF_A_REPORT // (_rated(questions) * len(groups))
    analyses = dict[str, dict[str, object]]()
    for name, group in groups.items():
        same = next((other for other in analyses if groups[other] == group), None)
        analyses[name] = (
            _analysis(group, protocol, questions, factors, openings, settings, most, check)
            if same is None
            else deepcopy(analyses[same])
        )
    if "decided" in analyses:
        analyses["decided"]["agreement"] = []  # one decision for all who disagreed is no agreement
    routing = None
    if protocol is not None and (question := routed_question(protocol)) is not None:
        routing, analyses = routed_analyses(analyses, groups, questions, question, protocol["bots"], settings.level)
    return {
        "study_report": FORMAT,
        "refaug": VERSION,
        "study": used[0].study,
        "kind": used[0].kind.value,
        "protocols": dict(Counter(task.protocol_sha256 for task in used)),
        "settings": asdict(settings),
        "questions": _questions_json(questions, protocol),
        "counts": _counts(listed, used),
        "steps": [asdict(step) for step in task_steps(used)],
        "minutes": _minutes(used),
        "exclusions": _exclusions_json(left_out, rules, has_protocol=protocol is not None),
        "checks": _checks(used, questions),
        "decisions": decisions,
        "people_needed": {"interval": FEWEST_UNITS, "conclusion": FEW_PEOPLE},
        **({} if routing is None else {"routing": routing}),
        "analyses": analyses,
        "metrics": None,
    }


def _require_one_study(listed: Sequence[StudyTask], used: Sequence[StudyTask]) -> None:
    if not listed:
        raise BadInput("the study has no task", remedy="wait for the first participant, or name another file")
    if not used:
        raise BadInput("all tasks are of the pilot", remedy="--pilot counts them")
    studies = sorted({task.study for task in listed})
    if len(studies) > 1:
        raise BadInput(f"tasks of {len(studies)} studies: {', '.join(studies[:5])}", remedy="one report a study")


def _counts(listed: Sequence[StudyTask], used: Sequence[StudyTask]) -> dict[str, object]:
    states = Counter(task.state for task in used)
    done = [task for task in used if task.is_done]
    seconds = [task.seconds for task in done if task.seconds is not None]
    return {
        "participants": len({task.participant for task in used}),
        "tasks": {state.value: states[state] for state in TaskState},
        "pilot_left_out": len(listed) - len(used),
        "bots": dict(sorted(Counter(bot.bot for task in main_tasks(used) for bot in task.bots).items())),
        "names_bot": sum(task.names_bot for task in done),
        "skip_reasons": dict(
            Counter(task.skip_reason or "" for task in used if task.state is TaskState.SKIPPED).most_common(20)
        ),
        "seconds_a_task": fmean(seconds) if seconds else None,
    }


def _questions_json(
    questions: Sequence[AskedQuestion], protocol: Mapping[str, Any] | None
) -> dict[str, dict[str, object]]:
    """Return the scales of questions, and their texts where the protocol is known."""
    asked_questions = ((protocol or {}).get("form") or {}).get("questions", [])
    texts = {entry.get("id"): entry.get("text") for entry in asked_questions}
    labels = {question.id: {"labels": dict(question.labels)} for question in label_questions(protocol)}
    return {
        question.id: {
            "text": texts.get(question.id),
            "least": question.least,
            "most": question.most,
            "reversed": question.is_reversed,
            **labels.get(question.id, {}),
        }
        for question in questions
    }


def _minutes(used: Sequence[StudyTask]) -> dict[str, object]:
    spreads = {"a_task": minutes_a_task(used), "a_participant": minutes_a_participant(used)}
    return {name: None if spread is None else asdict(spread) for name, spread in spreads.items()}


def _exclusions_json(left_out: Exclusions, rules: Mapping[str, Any], *, has_protocol: bool) -> dict[str, object]:
    return {
        "rules": dict(rules),
        "has_protocol": has_protocol,
        "participants": left_out.participants,
        "excluded": len(left_out.reasons),
        "by_rule": left_out.by_rule(),
        "judged": dict(left_out.judged),
        "reasons": {
            participant: [asdict(reason) for reason in reasons] for participant, reasons in left_out.reasons.items()
        },
    }


def _checks(used: Sequence[StudyTask], questions: Sequence[AskedQuestion]) -> dict[str, object]:
    """Return what the checks of attention, the degraded bot and repetitions showed, over all participants."""
    passed = [bool(task.answers[ATTENTION]) for task in used if task.is_done and ATTENTION in task.answers]
    worse = mean_rows(list(rating_rows(degraded_tasks(used), questions)))
    by_participant: dict[str, list[StudyTask]] = {}
    for task in used:
        by_participant.setdefault(task.participant, []).append(task)
    repeats = [entry for own in by_participant.values() for entry in repeat_differences(own, questions)]
    return {
        "attention": {"asked": len(passed), "passed": sum(passed)},
        "degraded": {question: fmean(row.number for row in rows) for question, rows in worse.items()},
        "repeats": {"answers": len(repeats), "mean_difference": fmean(repeats) if repeats else None},
    }


def _analysis(
    group: Sequence[StudyTask],
    protocol: Mapping[str, Any] | None,
    questions: Sequence[AskedQuestion],
    factors: Mapping[str, Mapping[str, str]],
    openings: Sequence[str],
    settings: StudyAnalysis,
    most: int,
    check: Callable[[], None],
) -> dict[str, object]:
    """Return the figures of some participants' tasks."""
    counted = main_tasks(group)
    ratings = mean_rows(_with_mean_of_all(list(rating_rows(counted, questions)), questions))
    scales = {
        question.id: (question.least, question.most)
        for question in questions
        if question.least is not None and question.most is not None
    }
    choices: dict[str, list[ChoiceRow]] = {}
    for row in choice_rows(counted, questions):
        choices.setdefault(row.question, []).append(row)
    return {
        "participants": len({task.participant for task in group}),
        "tasks": len(counted),
        "ratings": _by_question(
            ratings, lambda rows: _ratings_json(rows, scales, factors, openings, settings, most, check), check
        ),
        "choices": _by_question(choices, lambda rows: _choices_json(rows, settings, check), check),
        "agreement": [
            *(
                asdict(rating_agreement(question, rows, check))
                for question, rows in ratings.items()
                if question != MEAN_OF_ALL
            ),
            *(asdict(choice_agreement(question, rows, check)) for question, rows in choices.items()),
            *(asdict(figure) for figure in label_agreement(counted, protocol, check)),
        ],
        "labels": _labels_json(counted, protocol, settings, check),
        "votes": _votes(counted, settings.level),
    }


def _by_question(
    rows: Mapping[str, Sequence[_Judged]], figures: Callable[[Sequence[_Judged]], object], check: Callable[[], None]
) -> dict[str, object]:
    by_question = dict[str, object]()
    for question, answers in rows.items():
        check()
        by_question[question] = figures(answers)
    return by_question


def _with_mean_of_all(rows: list[RatingRow], questions: Sequence[AskedQuestion]) -> list[RatingRow]:
    """Add the mean of the numbers of each task and side, where several questions share a scale."""
    by_task: dict[tuple[str, TaskSideName], list[RatingRow]] = {}
    for row in rows:
        by_task.setdefault((row.task.task, row.side), []).append(row)
    answered = {row.question for row in rows}
    scales = {(question.least, question.most) for question in questions if question.id in answered}
    if len(answered) < 2 or len(scales) > 1:
        return rows
    return rows + [
        replace(own[0], question=MEAN_OF_ALL, number=fmean(row.number for row in own))
        for own in by_task.values()
        if len(own) == len(answered)
    ]


def _ratings_json(
    rows: Sequence[RatingRow],
    scales: Mapping[str, tuple[float, float]],
    factors: Mapping[str, Mapping[str, str]],
    openings: Sequence[str],
    settings: StudyAnalysis,
    most: int,
    check: Callable[[], None],
) -> dict[str, object]:
    means = partial(
        rating_means, draws=settings.draws, seed=settings.seed, level=settings.level, clustered=settings.clustered
    )
    figures = means(rows)
    z = dict[str, object]()
    for least in Z_LEAST:
        scaled = [replace(row, number=number) for row, number in standardised(rows, least)]
        of_z = means(scaled) if scaled else None
        z[str(least)] = {
            "ratings": len(scaled),
            "means": _means_json(of_z) if of_z is not None else [],
        }
    scale = scales.get(rows[0].question)
    ordinal = ordinal_model(rows, level=settings.level, scale=scale, openings=openings, most=most, check=check)
    return {
        "means": _means_json(figures),
        "differences": _differences_json(figures),
        "model": asdict(mixed_model(rows, level=settings.level, openings=openings, check=check)),
        "ordinal": None if ordinal is None else asdict(ordinal),
        "z": z,
        "factors": [asdict(test) for test in factor_tests(rows, factors, draws=settings.draws, seed=settings.seed)],
    }


def _means_json(figures: BotMeans) -> list[dict[str, object]]:
    return [{**asdict(figure), "why": _why(figure.low, figure.participants)} for figure in figures.means]


def _differences_json(figures: BotMeans) -> list[dict[str, object]]:
    people = {figure.bot: figure.participants for figure in figures.means}
    return [
        {**asdict(gap), "why": _why(gap.low, min(people[gap.first], people[gap.second]))} for gap in figures.differences
    ]


def _why(bound: float | None, people: int) -> str | None:
    """Return why a figure has no interval: too few people, or the same in all draws; None where it has one."""
    if bound is not None:
        return None
    return "few" if people < FEWEST_UNITS else "same"


def _choices_json(rows: Sequence[ChoiceRow], settings: StudyAnalysis, check: Callable[[], None]) -> dict[str, object]:
    figures = pair_figures(
        rows, draws=settings.draws, seed=settings.seed, level=settings.level, ties=settings.ties, check=check
    )
    assert figures is not None  # a question without rows is not listed
    return {
        "pairs": [
            {**asdict(pair), "why": "few" if pair.outcome.halved.low is None else None} for pair in figures.pairs
        ],
        "is_left": asdict(figures.is_left),
        "bradley_terry": _strengths_json(figures),
    }


def _strengths_json(figures: PairFigures) -> dict[str, object]:
    fits: dict[str, BradleyTerry | None] = {
        "half": figures.strengths,
        "davidson": figures.davidson,
        "length": figures.with_length,
    }
    return {name: None if fit is None else _fit_json(fit) for name, fit in fits.items()}


def _fit_json(fit: BradleyTerry) -> dict[str, object]:
    """Return a fit with the reasons of missing intervals; ranks lack where too few people judged a bot."""
    bots = [{**asdict(bot), "why": _why(bot.low, 0 if bot.rank_low is None else FEWEST_UNITS)} for bot in fit.bots]
    return {**asdict(fit), "bots": bots}


def _labels_json(
    counted: Sequence[StudyTask],
    protocol: Mapping[str, Any] | None,
    settings: StudyAnalysis,
    check: Callable[[], None],
) -> dict[str, object]:
    """Return the share of each bot's turns with each label, of each question with an answer."""
    by_question = dict[str, object]()
    for question in label_questions(protocol):
        turns = list(labelled_turns(counted, question, protocol))
        if not any(turn.is_answered for turn in turns):
            continue
        spans = Counter[str]()
        for turn in turns:
            spans[turn.bot] += turn.spans
        by_question[question.id] = {
            "type": question.type,
            "spans": dict(sorted(spans.items())) if question.type == "spans" else None,
            "labels": {label: _shares_json(turns, label, settings, check) for label in question.labels},
        }
    return by_question


def _shares_json(
    turns: Sequence[LabelledTurn], label: str, settings: StudyAnalysis, check: Callable[[], None]
) -> dict[str, object]:
    check()
    shares = label_shares(
        turns, label, draws=settings.draws, seed=settings.seed, level=settings.level, clustered=settings.clustered
    )
    return {"means": _means_json(shares), "differences": _differences_json(shares)}


def _votes(counted: Sequence[StudyTask], level: float) -> dict[str, object]:
    """Return the votes on single replies by bot, and the share of good ones."""
    ups, downs, replies = Counter[str](), Counter[str](), Counter[str]()
    voters = defaultdict[str, set[str]](set)
    for task in counted:
        for side in task.sides:
            bot = task.bot_of(side.side)
            for turn in side.turns if bot is not None else ():
                if turn.role is not TurnRole.BOT or bot is None:
                    continue
                replies[bot.bot] += 1
                ups[bot.bot] += turn.vote == 1
                downs[bot.bot] += turn.vote == -1
                if turn.vote:
                    voters[bot.bot].add(task.participant)
    if not (ups.total() or downs.total()):
        return {}
    return {
        bot: {
            "replies": replies[bot],
            "up": ups[bot],
            "down": downs[bot],
            "participants": len(voters[bot]),
            "share_up": asdict(wilson(ups[bot], ups[bot] + downs[bot], level).among(len(voters[bot]))),
        }
        for bot in sorted(replies)
    }
