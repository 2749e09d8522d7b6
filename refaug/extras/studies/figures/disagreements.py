"""What participants disagree about most: things that several of them judged, with the widest answers first."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, product
from statistics import fmean
from typing import Any, Final

import numpy as np

from refaug.core.errors import BadInput
from refaug.extras.studies.figures.means import mean_rows
from refaug.extras.studies.figures.turn_labels import LabelledTurn, label_questions, labelled_turns
from refaug.extras.studies.questions import (
    CHOICES,
    AnswerType,
    AskedQuestion,
    ChoiceRow,
    RatingRow,
    choice_rows,
    is_number,
    main_tasks,
    protocol_questions,
    rating_rows,
)
from refaug.extras.studies.records import Answer, StudyTask, TaskSideName, TurnRole
from refaug.metrics.statistics.annotator_agreement import Alpha, Kappa, kappa, krippendorff_alpha
from refaug.metrics.statistics.pairwise import (
    BradleyTerry,
    PairOutcome,
    PairVote,
    ShareEstimate,
    ambiguous_share,
    bradley_terry,
    nominal_kappa,
    pair_outcome,
    wilson,
)
from refaug.metrics.statistics.resampling import Floats, holm

# ── How far participants agree: over things that several of them judged, or else over bots ────────────────────────────
#
# A chat is judged by the participant who had it. Then a row is a bot, and a participant's number for it is the mean
# of their ratings; agreement says how far participants see the same differences between bots.

_MOST_PAIRS = 200  # of participants; κ of all pairs of many participants takes long and says no more


@dataclass(frozen=True, kw_only=True)
class AgreementFigure:
    """Agreement on one question; `kappa` has quadratic weights for numbers, and none for choices."""

    question: str
    rows_are: str  # items, bots or turns
    rows: int
    participants: int
    alpha_interval: Alpha | None
    alpha_ordinal: Alpha | None
    kappa_mean: float | None
    kappa_median: float | None
    kappa_pairs: int
    ambiguous: float | None = None  # of items with choices


def go_on() -> None:
    """Let the work go on."""


def rating_agreement(question: str, rows: Sequence[RatingRow], check: Callable[[], None] = go_on) -> AgreementFigure:
    """Return how far the numbers of participants agree."""
    by_item = _grouped({(row.task.task, row.side): (_item_of(row), row.participant, row.number) for row in rows})
    several = sum(len(own) > 1 for own in by_item.values())
    rows_are = "items" if several > 1 else "bots"
    if rows_are == "bots":
        by_item = _grouped({(row.task.task, row.side): (row.bot, row.participant, row.number) for row in rows})
    matrix = _matrix(by_item)
    kappas = _kappas(kappa(matrix, check)) if matrix.shape[1] <= _MOST_PAIRS else []
    return AgreementFigure(
        question=question,
        rows_are=rows_are,
        rows=int(((~np.isnan(matrix)).sum(axis=1) > 1).sum()),
        participants=matrix.shape[1],
        alpha_interval=krippendorff_alpha(matrix, "interval"),
        alpha_ordinal=krippendorff_alpha(matrix, "ordinal"),
        kappa_mean=fmean(kappas) if kappas else None,
        kappa_median=float(np.median(kappas)) if kappas else None,
        kappa_pairs=len(kappas),
    )


def choice_agreement(question: str, rows: Sequence[ChoiceRow], check: Callable[[], None] = go_on) -> AgreementFigure:
    """Return how far choices agree, by item where items are chosen from several times, otherwise by pair of bots."""
    entries = {row.task.task: (_choice_item(row), row.participant, float(_turned(row))) for row in rows}
    by_item = _grouped(entries)
    rows_are = "items" if sum(len(own) > 1 for own in by_item.values()) > 1 else "bots"
    if rows_are == "bots":
        by_item = _grouped({
            row.task.task: (" and ".join(sorted((row.left, row.right))), row.participant, float(_turned(row)))
            for row in rows
        })  # fmt: skip
    matrix = np.sign(_matrix(by_item))  # a participant's several choices of one pair count as their majority
    columns = min(matrix.shape[1], _MOST_PAIRS)
    kappas = list[float]()
    for first, second in combinations(range(columns), 2):
        check()
        if (agreement := nominal_kappa(matrix[:, first], matrix[:, second])) is not None:
            kappas.append(agreement)
    chosen = defaultdict[str, list[int]](list)
    for item, _, outcome in entries.values():
        chosen[item].append(int(outcome))
    return AgreementFigure(
        question=question,
        rows_are=rows_are,
        rows=int(((~np.isnan(matrix)).sum(axis=1) > 1).sum()),
        participants=matrix.shape[1],
        alpha_interval=None,
        alpha_ordinal=krippendorff_alpha(matrix, "ordinal"),
        kappa_mean=fmean(kappas) if kappas else None,
        kappa_median=float(np.median(kappas)) if kappas else None,
        kappa_pairs=len(kappas),
        ambiguous=ambiguous_share(list(chosen.values())) if rows_are == "items" else None,
    )


def label_agreement(
    tasks: Sequence[StudyTask], protocol: Mapping[str, Any] | None, check: Callable[[], None] = go_on
) -> list[AgreementFigure]:
    """Return how far participants agree about each label, over turns that several of them read; chats have none.

    Of answers that are 1 with a label and 0 without it, the interval α is the nominal one.
    """
    figures = list[AgreementFigure]()
    for question in label_questions(protocol):
        turns = [turn for turn in labelled_turns(tasks, question, protocol) if turn.thing is not None]
        readers = Counter(thing for thing, _ in {(turn.thing, turn.participant) for turn in turns})
        if not any(count > 1 for count in readers.values()):
            continue
        for label in question.labels:
            check()
            matrix = _matrix(_presence(turns, label))
            figures.append(
                AgreementFigure(
                    question=f"{question.id}: {label}",
                    rows_are="turns",
                    rows=sum(count > 1 for count in readers.values()),
                    participants=matrix.shape[1],
                    alpha_interval=krippendorff_alpha(matrix, "interval"),
                    alpha_ordinal=krippendorff_alpha(matrix, "ordinal"),
                    kappa_mean=None,
                    kappa_median=None,
                    kappa_pairs=0,
                )
            )
    return figures


def _presence(turns: Sequence[LabelledTurn], label: str) -> dict[str, dict[str, float]]:
    """Return turn → participant → whether it has a label."""
    return _grouped({
        place: (str(turn.thing), turn.participant, float(label in turn.labels)) for place, turn in enumerate(turns)
    })  # fmt: skip


def _turned(row: ChoiceRow) -> int:
    """Return the outcome for the bot whose name sorts first, whichever side it stood on."""
    return row.outcome if row.left < row.right else -row.outcome


def _item_of(row: RatingRow) -> str:
    shown = row.task.item or {}
    name = shown.get("unit", shown.get("id"))
    return row.task.task + row.side if name is None else f"{name}\x1f{row.bot}"


def _choice_item(row: ChoiceRow) -> str:
    shown = row.task.item or {}
    name = shown.get("unit", shown.get("id"))
    return row.task.task if name is None else str(name)


def _grouped(entries: Mapping[Any, tuple[str, str, float]]) -> dict[str, dict[str, float]]:
    """Return item → participant → the mean of that participant's numbers."""
    listed: dict[str, dict[str, list[float]]] = {}
    for item, participant, number in entries.values():
        listed.setdefault(item, {}).setdefault(participant, []).append(number)
    return {item: {person: fmean(numbers) for person, numbers in own.items()} for item, own in listed.items()}


def _matrix(by_item: Mapping[str, Mapping[str, float]]) -> Floats:
    people = sorted({person for own in by_item.values() for person in own})
    column = {person: place for place, person in enumerate(people)}
    matrix = np.full((len(by_item), len(people)), np.nan)
    for place, item in enumerate(sorted(by_item)):
        for person, number in by_item[item].items():
            matrix[place, column[person]] = number
    return matrix


def _kappas(kappas: Kappa) -> list[float]:
    return [pair.value for pair in kappas.pairs if pair.value is not None]


# ── What participants disagree about most: things that several of them judged, with the widest answers first ──────────

_DIGITS: Final = 9  # so that equal ranges of a scale are equal
_WIDEST_CHOICE: Final = 2  # from the left side to the right one


@dataclass(frozen=True, kw_only=True)
class Disagreement:
    """One thing with the answers to one question; `spread` is their range as a share of the scale."""

    item: str
    question: str
    bot: str | None  # one of two, where the question is about each
    answers: tuple[tuple[str, float | str], ...]  # by participant
    spread: float


# Units (refaug.metrics.costs) of an answer, of κ of a pair of participants, of each thing in it, and of a cell of α.
_ANSWER: Final = 50.0
_KAPPA: Final = 300.0, 0.2
_CELL: Final = 2.0


def agreement_cost(tasks: Iterable[StudyTask], protocol: Mapping[str, Any]) -> float:
    """Return an upper bound of the units of `running_agreement`, by the numbers of tasks, things and participants.

    Things are units with each bot and pair of bots, and without units these alone.
    """
    counted = main_tasks(tasks)
    people = len({task.participant for task in counted})
    has_units = any(_unit(task) is not None for task in counted)
    things = len({
        (has_units and (_unit(task) or task.task), *sorted({first.bot, second.bot}))
        for task in counted
        for first, second in product(task.bots, repeat=2)
    })  # fmt: skip
    questions = protocol_questions(protocol, counted)
    ratings = mean_rows(list(rating_rows(counted, questions))).values()
    raters = [len({row.participant for row in rows}) for rows in ratings]
    choices = sum(question.type is AnswerType.PAIR for question in questions)
    compared = [*(n if n <= _MOST_PAIRS else 0 for n in raters), *[min(people, _MOST_PAIRS)] * choices]
    pairs = sum(n * (n - 1) // 2 for n in compared)
    each = _ANSWER * 2 * len(counted) + _CELL * things * people
    return each * len(compared) + pairs * (_KAPPA[0] + _KAPPA[1] * things) + _label_cost(counted, protocol, people)


def _label_cost(tasks: Sequence[StudyTask], protocol: Mapping[str, Any], people: int) -> float:
    labels = sum(len(question.labels) for question in label_questions(protocol))
    if not labels or not any(_unit(task) is not None for task in tasks):
        return 0.0
    turns = [(_unit(task), turn.n) for task in tasks for side in task.sides for turn in side.turns]
    return labels * (_ANSWER * len(turns) + _CELL * len(set(turns)) * people)


def running_agreement(
    tasks: Iterable[StudyTask], protocol: Mapping[str, Any], check: Callable[[], None] = go_on
) -> list[AgreementFigure]:
    """Return how far participants agree so far, by question; without the checks.

    `check` is called before each question and each pair of participants, and ends the work by raising.
    """
    counted, figures = main_tasks(tasks), list[AgreementFigure]()
    questions = protocol_questions(protocol, counted)
    for question, ratings in mean_rows(list(rating_rows(counted, questions))).items():
        check()
        figures.append(rating_agreement(question, ratings, check))
    for question, choices in _by_question(choice_rows(counted, questions)).items():
        check()
        figures.append(choice_agreement(question, choices, check))
    return figures + label_agreement(counted, protocol, check)


def disagreements(tasks: Iterable[StudyTask], protocol: Mapping[str, Any], most: int) -> list[Disagreement]:
    """Return the things with the widest answers; equal ones by name."""
    counted = [task for task in main_tasks(tasks) if _unit(task) is not None]
    questions = protocol_questions(protocol, counted)
    scales = {question.id: question for question in questions}
    answers = defaultdict[tuple[str, str, str], dict[str, tuple[float, float | str]]](dict)
    for row in rating_rows(counted, questions):
        shown = scales[row.question].turned(row.number)  # as it was given
        bot = row.bot if row.task.kind.is_pair else ""
        own = answers[str(_unit(row.task)), row.question, bot]
        own[row.participant] = (row.number / _width(scales[row.question]), shown)
    for choice in choice_rows(counted, questions):
        outcome = choice.outcome if choice.left < choice.right else -choice.outcome
        preferred = {1: min(choice.left, choice.right), -1: max(choice.left, choice.right), 0: "tie"}[outcome]
        own = answers[str(_unit(choice.task)), choice.question, ""]
        own[choice.participant] = (outcome / _WIDEST_CHOICE, preferred)
    listed = [
        Disagreement(
            item=item,
            question=question,
            bot=bot or None,
            answers=tuple((person, shown) for person, (_, shown) in sorted(own.items())),
            spread=round(max(at for at, _ in own.values()) - min(at for at, _ in own.values()), _DIGITS),
        )
        for (item, question, bot), own in answers.items()
        if len(own) > 1
    ]
    apart = [entry for entry in listed if entry.spread > 0]
    return sorted(apart, key=lambda entry: (-entry.spread, entry.item, entry.question, entry.bot or ""))[:most]


def _unit(task: StudyTask) -> str | None:
    shown = task.item or {}
    name = shown.get("unit", shown.get("id"))
    return None if name is None else str(name)


def _width(question: AskedQuestion) -> float:
    if question.least is None or question.most is None:
        return 1.0
    return question.most - question.least


def _by_question(rows: Iterable[ChoiceRow]) -> dict[str, Sequence[ChoiceRow]]:
    listed: dict[str, list[ChoiceRow]] = {}
    for row in rows:
        listed.setdefault(row.question, []).append(row)
    return dict(listed)


# ── What operators decided where participants disagreed: the answers of raters, with these decisions in their place ───

TIE: Final = "tie"


def require_possible_decision(question: AskedQuestion, answer: float | str, systems: Sequence[str]) -> None:
    """Refuse what no participant could have said: a number beyond the scale, a system that was not shown.

    And what does not say about what: of two bots, or of turns, a decision names none.
    """
    if question.scope == "turn" or (question.scope == "side" and len(systems) > 1):
        about = "turn" if question.scope == "turn" else "bot of a pair"
        raise BadInput(
            f"question: {question.id} is asked about each {about}, so one decision cannot stand for its answers",
            remedy="a question about the whole task",
        )
    if question.type is AnswerType.NUMBER:
        least, most = question.least or 0, question.most or 0
        if not is_number(answer) or not least <= answer <= most:
            raise BadInput(
                f"value: {str(answer)[:60]!r} is not an answer to {question.id}",
                remedy=f"a number from {least:g} to {most:g}",
            )
    elif question.type is AnswerType.PAIR and answer not in (*systems, TIE):
        names = ", ".join((*systems, TIE))
        raise BadInput(f"value: {str(answer)[:60]!r} is not an answer to {question.id}", remedy=f"one of: {names}")


def decided_tasks(tasks: Iterable[StudyTask], questions: Sequence[AskedQuestion]) -> list[StudyTask]:
    """Return the tasks with what was decided in the place of what participants answered."""
    asked_questions = {question.id: question for question in questions}
    return [
        replace(task, answers={**task.answers, **_decided_answers(task, asked_questions)}) if task.decisions else task
        for task in tasks
    ]


def decision_counts(tasks: Iterable[StudyTask], questions: Sequence[AskedQuestion]) -> dict[str, object]:
    """Return how much was decided, by whom, and how many answers of participants are others."""
    asked_questions = {question.id: question for question in questions}
    decided, answers, changed = dict[tuple[str, str], str](), 0, 0
    for task in main_tasks(tasks):
        shown = task.item or {}
        unit = str(shown.get("unit", shown.get("id", task.task)))
        for name, decision in (task.decisions or {}).items():
            decided[unit, name] = decision.by
        for key, answer in _decided_answers(task, asked_questions).items():
            answers += 1
            changed += task.answers[key] != answer
    return {
        "decisions": len(decided),
        "items": len({unit for unit, _ in decided}),
        "by": dict(sorted(Counter(decided.values()).items())),
        "answers": answers,
        "answers_that_differ": changed,
    }


def _decided_answers(task: StudyTask, questions: Mapping[str, AskedQuestion]) -> dict[str, Answer]:
    """Return the answers of a task that a decision takes the place of, as its participant would have given them."""
    return dict(_decided(task, questions)) if task.decisions and task.is_done and task.check is None else {}


def _decided(task: StudyTask, questions: Mapping[str, AskedQuestion]) -> Iterator[tuple[str, Answer]]:
    for name, decision in (task.decisions or {}).items():
        question = questions.get(name)
        answer = None if question is None else _as_answered(decision.value, question, task)
        if answer is not None:
            yield from ((key, answer) for key in (name, f"{TaskSideName.ONE.value}/{name}") if key in task.answers)


def _as_answered(decided: Answer, question: AskedQuestion, task: StudyTask) -> Answer:
    """Return a decision in the words of the form: of a choice it names the better system, and the form a side."""
    if question.type is AnswerType.NUMBER:
        return decided if is_number(decided) else None
    if question.type is not AnswerType.PAIR:
        return decided
    names = {
        side: bot.bot for side in (TaskSideName.LEFT, TaskSideName.RIGHT) if (bot := task.bot_of(side)) is not None
    }
    outcomes = {TIE: 0, names.get(TaskSideName.LEFT): 1, names.get(TaskSideName.RIGHT): -1}
    outcome = outcomes.get(decided if isinstance(decided, str) else None)
    if outcome is None:
        return None
    turned = -outcome if question.is_reversed else outcome
    return next(answer for answer, place in CHOICES.items() if place == turned)


# ── Choices between two bots: wins, losses and ties of every pair, sides, and Bradley–Terry strengths ─────────────────


@dataclass(frozen=True, kw_only=True)
class PairFigure:
    """The choices between two bots, and the p of their sign tests corrected for the number of pairs.

    Too few participants who compared the two give no interval and no p.
    """

    first: str
    second: str
    outcome: PairOutcome
    dropped_holm: float | None
    halved_holm: float | None


@dataclass(frozen=True, kw_only=True)
class PairFigures:
    """All choices of one question. `is_left` is how often the left side won among choices that are no ties."""

    pairs: tuple[PairFigure, ...]
    is_left: ShareEstimate
    strengths: BradleyTerry
    davidson: BradleyTerry | None  # where there are ties
    with_length: BradleyTerry | None  # where replies are at hand


def pair_figures(
    rows: Sequence[ChoiceRow],
    *,
    draws: int,
    seed: int,
    level: float,
    ties: str = "half",
    check: Callable[[], None] = go_on,
) -> PairFigures | None:
    """Return the figures of the rows of one question; None without any."""
    if not rows:
        return None
    lengths = [length_difference(row.task) for row in rows]
    votes = [
        PairVote(
            first=row.left,
            second=row.right,
            outcome=row.outcome,
            participant=row.participant,
            covariate=length or 0.0,
        )
        for row, length in zip(rows, lengths, strict=True)
    ]
    decided = [row.outcome for row in rows if row.outcome]
    deciders = len({row.participant for row in rows if row.outcome})
    has_lengths = all(length is not None for length in lengths) and any(lengths)
    fitted = partial(bradley_terry, votes, draws=draws, seed=seed, level=level, check=check)
    return PairFigures(
        pairs=_pairs(rows, level),
        is_left=wilson(decided.count(1), len(decided), level).among(deciders),
        strengths=fitted(),
        davidson=fitted(ties="davidson") if len(decided) < len(rows) else None,
        with_length=fitted(ties=ties, with_covariate=True) if has_lengths else None,
    )


def _pairs(rows: Sequence[ChoiceRow], level: float) -> tuple[PairFigure, ...]:
    counts: dict[tuple[str, str], Counter[int]] = {}
    people = defaultdict[tuple[str, str], set[str]](set)
    for row in rows:
        first, second, outcome = (
            (row.left, row.right, row.outcome) if row.left < row.right else (row.right, row.left, -row.outcome)
        )
        counts.setdefault((first, second), Counter())[outcome] += 1
        people[first, second].add(row.participant)
    outcomes = dict[tuple[str, str], PairOutcome]()
    for pair, each in sorted(counts.items()):
        outcomes[pair] = pair_outcome(each[1], each[-1], each[0], level).among(len(people[pair]))
    dropped = holm([counted.p_dropped for counted in outcomes.values()])
    halved = holm([counted.p_halved for counted in outcomes.values()])
    return tuple(
        PairFigure(first=first, second=second, outcome=counted, dropped_holm=p_dropped, halved_holm=p_halved)
        for ((first, second), counted), p_dropped, p_halved in zip(outcomes.items(), dropped, halved, strict=True)
    )


def length_difference(task: StudyTask) -> float | None:
    """Return by how much the left bot's replies are longer: (left − right) / (left + right), in words."""
    left_words, right_words = (_words(task, side) for side in (TaskSideName.LEFT, TaskSideName.RIGHT))
    if left_words + right_words == 0:
        return None
    return (left_words - right_words) / (left_words + right_words)


def _words(task: StudyTask, side: TaskSideName) -> int:
    dialogue, bot = task.side_of(side), task.bot_of(side)
    texts = [turn.text for turn in dialogue.turns if turn.role is TurnRole.BOT] if dialogue is not None else []
    replies = (task.item or {}).get("replies")
    if not texts and isinstance(replies, dict) and bot is not None:
        texts = [str(replies.get(bot.bot, ""))]
    return sum(len(text.split()) for text in texts)
